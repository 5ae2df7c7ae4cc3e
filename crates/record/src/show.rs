//! A platform, as `interleaf.show/1`. `interleaf show --platform` writes the document.
//!
//! Each number has its source, and its provenance: measured, published, simulated or assumed.

use super::{
    TierKindName,
    check::Check,
    figure::{Figure, Series, SeriesKind},
    rounded,
};
use interleaf_model::{
    curve::Curve,
    platform::{Platform, Power},
    tier::{Tier, TierPower},
};
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.show/1";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShowDocument {
    pub schema: String,
    pub platform: String,
    pub source: String,
    pub cores: u32,
    pub outstanding_lines_per_core: f64,
    pub uncore_latency_ns: f64,
    pub domains: Vec<ShowDomain>,
    pub tiers: Vec<ShowTier>,
    pub links: Vec<LinkDocument>,
    pub couplings: Vec<CouplingDocument>,
    pub page_streams: FigureDocument,
    pub power: Option<PowerDocument>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShowDomain {
    pub name: String,
    pub cores: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShowTier {
    pub name: String,
    pub kind: TierKindName,
    pub capacity_bytes: u64,
    pub curves: Vec<CurveDocument>,
    pub power: Option<TierPowerDocument>,
    /// Maximum number of outstanding reads that the counters of the tier's queue can count; left
    /// out if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_reads_max: Option<FigureDocument>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CurveDocument {
    pub mix: String,
    pub domain: Option<String>,
    pub idle_latency_ns: f64,
    pub max_bandwidth_gbps: f64,
    pub points: Vec<ShowPoint>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShowPoint {
    pub bandwidth_gbps: f64,
    pub latency_ns: f64,
    pub provenance: String,
    pub source: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkDocument {
    pub name: String,
    pub tiers: Vec<String>,
    pub domains: Vec<String>,
    pub bandwidth_gbps: FigureDocument,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CouplingDocument {
    pub from: String,
    pub to: String,
    pub loss: FigureDocument,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PowerDocument {
    pub idle_w: f64,
    pub core_w: f64,
    pub provenance: String,
    pub source: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TierPowerDocument {
    pub static_w: f64,
    pub energy_pj_per_bit: f64,
    pub provenance: String,
    pub source: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FigureDocument {
    pub value: f64,
    pub provenance: String,
    pub source: String,
}

impl Check for ShowDocument {}

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
    /// Returns a figure of latency against bandwidth, with each curve of each tier.
    pub fn figures(&self) -> Vec<Figure> {
        let curves = self.tiers.iter().enumerate().flat_map(|(group, tier)| {
            tier.curves.iter().map(move |curve| {
                let from = curve.domain.as_ref().map_or(String::new(), |it| format!(" from {it}"));
                let name = format!("{}, {}{from}", tier.name, curve.mix);
                let points = curve.points.iter();
                let points = points.map(|point| (point.bandwidth_gbps, point.latency_ns));
                Series::new(name, SeriesKind::Line, group, points)
            })
        });
        let series: Vec<Series> = curves.filter(|series| !series.x.is_empty()).collect();
        if series.is_empty() {
            return vec![];
        }
        vec![Figure {
            series,
            caption: "Tiers have a colour each, and their mixes a dash.".into(),
            ..Figure::new("curves", "Latency under load", "bandwidth, GB/s", "latency, ns")
        }]
    }

    pub fn new(platform: &Platform) -> Self {
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
                .map(|domain| ShowDomain { name: domain.name.clone(), cores: domain.cores })
                .collect(),
            tiers: platform.tiers.iter().map(ShowTier::new).collect(),
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

impl ShowTier {
    fn new(tier: &Tier) -> Self {
        let points = |curve: &Curve| {
            let points = curve.points().iter();
            points
                .map(|point| ShowPoint {
                    bandwidth_gbps: rounded(point.bandwidth_gbps),
                    latency_ns: rounded(point.latency_ns),
                    provenance: point.figure.provenance.to_string(),
                    source: point.figure.source.clone(),
                })
                .collect()
        };
        Self {
            name: tier.name.clone(),
            kind: tier.kind.into(),
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
            queue_reads_max: tier
                .queue_counters
                .as_ref()
                .map(|counters| FigureDocument::new(counters.reads_max, &counters.figure)),
        }
    }
}
