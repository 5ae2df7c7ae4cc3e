//! `interleaf.show/1`.

use super::rounded;
use interleaf_model::{
    curve::Curve,
    platform::{Platform, Power},
    tier::{Tier, TierPower},
};
use serde::Serialize;

pub(crate) const SCHEMA: &str = "interleaf.show/1";

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ShowDocument {
    pub(crate) schema: String,
    pub(crate) platform: String,
    pub(crate) source: String,
    pub(crate) cores: u32,
    pub(crate) outstanding_lines_per_core: f64,
    pub(crate) uncore_latency_ns: f64,
    pub(crate) domains: Vec<DomainDocument>,
    pub(crate) tiers: Vec<TierDocument>,
    pub(crate) links: Vec<LinkDocument>,
    pub(crate) couplings: Vec<CouplingDocument>,
    pub(crate) page_streams: FigureDocument,
    pub(crate) power: Option<PowerDocument>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct DomainDocument {
    pub(crate) name: String,
    pub(crate) cores: u32,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct TierDocument {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) capacity_bytes: u64,
    pub(crate) curves: Vec<CurveDocument>,
    pub(crate) power: Option<TierPowerDocument>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct CurveDocument {
    pub(crate) mix: String,
    pub(crate) domain: Option<String>,
    pub(crate) idle_latency_ns: f64,
    pub(crate) max_bandwidth_gbps: f64,
    pub(crate) points: Vec<PointDocument>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct PointDocument {
    pub(crate) bandwidth_gbps: f64,
    pub(crate) latency_ns: f64,
    pub(crate) provenance: String,
    pub(crate) source: String,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct LinkDocument {
    pub(crate) name: String,
    pub(crate) tiers: Vec<String>,
    pub(crate) domains: Vec<String>,
    pub(crate) bandwidth_gbps: FigureDocument,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct CouplingDocument {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) loss: FigureDocument,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct PowerDocument {
    pub(crate) idle_w: f64,
    pub(crate) core_w: f64,
    pub(crate) provenance: String,
    pub(crate) source: String,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct TierPowerDocument {
    pub(crate) static_w: f64,
    pub(crate) energy_pj_per_bit: f64,
    pub(crate) provenance: String,
    pub(crate) source: String,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct FigureDocument {
    pub(crate) value: f64,
    pub(crate) provenance: String,
    pub(crate) source: String,
}

impl FigureDocument {
    fn new(value: f64, figure: &interleaf_model::provenance::Figure) -> Self {
        let provenance = figure.provenance.to_string();
        Self { value: rounded(value), provenance, source: figure.source.clone() }
    }
}

impl PowerDocument {
    fn new(power: &Power) -> Self {
        Self {
            idle_w: rounded(power.idle_w),
            core_w: rounded(power.core_w),
            provenance: power.figure.provenance.to_string(),
            source: power.figure.source.clone(),
        }
    }
}

impl TierPowerDocument {
    fn new(power: &TierPower) -> Self {
        Self {
            static_w: rounded(power.static_w),
            energy_pj_per_bit: rounded(power.energy_pj_per_bit),
            provenance: power.figure.provenance.to_string(),
            source: power.figure.source.clone(),
        }
    }
}

impl ShowDocument {
    pub(crate) fn new(platform: &Platform) -> Self {
        let tier_name = |at: &usize| platform.tiers[*at].name.clone();
        Self {
            schema: SCHEMA.into(),
            platform: platform.name.clone(),
            source: platform.source.clone(),
            cores: platform.cpu.cores,
            outstanding_lines_per_core: platform.cpu.outstanding_lines_per_core,
            uncore_latency_ns: platform.cpu.uncore_latency_ns,
            domains: platform
                .domains
                .iter()
                .map(|domain| DomainDocument { name: domain.name.clone(), cores: domain.cores })
                .collect(),
            tiers: platform.tiers.iter().map(TierDocument::new).collect(),
            links: platform
                .links
                .iter()
                .map(|link| LinkDocument {
                    name: link.name.clone(),
                    tiers: link.tiers.iter().map(tier_name).collect(),
                    domains: link
                        .domains
                        .iter()
                        .map(|at| platform.domains[*at].name.clone())
                        .collect(),
                    bandwidth_gbps: FigureDocument::new(link.bandwidth_gbps, &link.figure),
                })
                .collect(),
            couplings: platform
                .couplings
                .iter()
                .map(|coupling| CouplingDocument {
                    from: tier_name(&coupling.from),
                    to: tier_name(&coupling.to),
                    loss: FigureDocument::new(coupling.loss, &coupling.figure),
                })
                .collect(),
            page_streams: FigureDocument::new(
                f64::from(platform.interleaving.page_streams),
                &platform.interleaving.figure,
            ),
            power: platform.power.as_ref().map(PowerDocument::new),
        }
    }
}

impl TierDocument {
    fn new(tier: &Tier) -> Self {
        let points = |curve: &Curve| {
            let points = curve.points().iter();
            points
                .map(|point| PointDocument {
                    bandwidth_gbps: rounded(point.bandwidth_gbps),
                    latency_ns: rounded(point.latency_ns),
                    provenance: point.figure.provenance.to_string(),
                    source: point.figure.source.clone(),
                })
                .collect()
        };
        Self {
            name: tier.name.clone(),
            kind: tier.kind.to_string(),
            capacity_bytes: tier.capacity.get(),
            curves: tier
                .curves
                .iter()
                .map(|curve| CurveDocument {
                    mix: curve.mix.to_string(),
                    domain: curve.domain.clone(),
                    idle_latency_ns: rounded(curve.curve.idle_latency_ns()),
                    max_bandwidth_gbps: rounded(curve.curve.max_bandwidth_gbps()),
                    points: points(&curve.curve),
                })
                .collect(),
            power: tier.power.as_ref().map(TierPowerDocument::new),
        }
    }
}
