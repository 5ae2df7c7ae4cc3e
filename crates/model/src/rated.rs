//! A platform from ratings alone: its bandwidths and latencies are the figures of firmware tables,
//! and the shape of its curves was measured on another machine.
//!
//! The platform serves policies that need curves, on a machine whose curves were not measured. All
//! of its figures have the provenance `assumed`. Each tier has one curve for all mixes, which ends
//! at the rated bandwidth.

use crate::{
    curve::{Curve, CurvePoint},
    machine::{Layout, TierLayout},
    mix::Mix,
    platform::{Cpu, Domain, Interleaving, Platform},
    provenance::Figure,
    tier::{Curves, MixCurve, Tier, TierKind},
    units::Bytes,
};
use core::ops::RangeInclusive;

/// The shape of a DRAM curve for reads, from dram.csv of the platform `xeon6-cz122`: pairs of a
/// fraction of the maximum bandwidth, and the latency at this fraction divided by the idle latency.
const DRAM: [(f64, f64); 8] = [
    (0.0, 1.0),
    (0.25, 1.1),
    (0.5, 1.3),
    (0.75, 1.55),
    (0.9, 1.85),
    (0.95, 2.0),
    (0.98, 2.45),
    (1.0, 3.2),
];

/// The shape of an expander's curve for reads: pairs of a fraction of the maximum bandwidth, and
/// the latency at this fraction divided by the idle latency. Up to 0.97 of the maximum bandwidth,
/// the shape follows cxl.csv of the platform `xeon6-cz122`. At higher bandwidths, its latencies are
/// lower than in cxl.csv. NVRAM and storage have this shape too.
const EXPANDER: [(f64, f64); 7] =
    [(0.0, 1.0), (0.5, 1.07), (0.8, 1.22), (0.92, 1.45), (0.97, 1.8), (0.99, 2.5), (1.0, 4.5)];

/// Maximum number of outstanding lines of a core: the number of `xeon6-cz122`, assumed for every
/// machine.
const OUTSTANDING_LINES: f64 = 48.0;

/// Uncore latency (round trip between a core and the memory controller), ns: the latency of
/// `xeon6-cz122`, assumed for every machine.
const UNCORE_NS: f64 = 60.0;

/// The valid range of a rated read bandwidth, GB/s. Firmware whose HMAT has a wrong base unit gives
/// figures far outside of this range.
pub const BANDWIDTH_GBPS: RangeInclusive<f64> = 1e-3..=1e5;

/// The valid range of a rated idle latency, ns: up to 1 ms.
pub const LATENCY_NS: RangeInclusive<f64> = 1.0..=1e6;

/// Builds the platform of a machine from the rated bandwidths and latencies in `layout`. The caller
/// must have checked that they are within [`BANDWIDTH_GBPS`] and [`LATENCY_NS`].
pub fn platform(layout: &Layout) -> Platform {
    let domains = layout.domains.iter();
    Platform {
        name: "rated".into(),
        source: "ratings of the firmware; the shape of the curves is that of xeon6-cz122".into(),
        cpu: Cpu {
            cores: layout.domains.iter().map(|domain| domain.cores).sum(),
            outstanding_lines_per_core: OUTSTANDING_LINES,
            uncore_latency_ns: UNCORE_NS,
        },
        domains: domains
            .map(|domain| Domain { name: domain.name.clone(), cores: domain.cores })
            .collect(),
        tiers: layout.tiers.iter().map(tier).collect(),
        links: vec![],
        couplings: vec![],
        interleaving: Interleaving::default(),
        power: None,
    }
}

/// Returns the share of pages on each tier of the machine for threads in domain `domain`. The tiers
/// near this domain have shares in the ratio of their rated bandwidths; all other tiers have 0.
pub fn shares(layout: &Layout, domain: usize) -> Vec<f64> {
    let near = &layout.domains[domain].tiers;
    let all: f64 = near.iter().map(|at| layout.tiers[*at].rated_gbps).sum();
    let part = |at: usize| layout.tiers[at].rated_gbps / all;
    (0..layout.tiers.len()).map(|at| if near.contains(&at) { part(at) } else { 0.0 }).collect()
}

fn tier(rated: &TierLayout) -> Tier {
    let shape: &[(f64, f64)] = match rated.kind {
        TierKind::Dram => &DRAM,
        TierKind::Cxl | TierKind::Nvram | TierKind::Storage => &EXPANDER,
    };
    let points = shape.iter().map(|(part, factor)| CurvePoint {
        bandwidth_gbps: part * rated.rated_gbps,
        latency_ns: factor * rated.rated_latency_ns,
        figure: Figure::assumed("rated, with the shape of xeon6-cz122"),
    });
    let curve = Curve::new(points.collect()).expect("ratings are within their limits");
    let curves = Curves::new(vec![MixCurve { domain: None, mix: Mix::READ, curve }]);
    Tier {
        name: rated.name.clone(),
        kind: rated.kind,
        capacity: Bytes::new(rated.capacity_bytes),
        curves: curves.expect("there is one"),
        power: None,
        queue_counters: None,
        count: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::DomainLayout;
    use proptest::prelude::*;

    fn layout(gbps: [f64; 2], ns: [f64; 2]) -> Layout {
        let tier = |at: usize| TierLayout {
            name: format!("node{at}"),
            kind: [TierKind::Dram, TierKind::Cxl][at],
            capacity_bytes: 1 << 30,
            rated_gbps: gbps[at],
            rated_latency_ns: ns[at],
        };
        let domain = DomainLayout { name: "socket0".into(), cores: 8, tiers: vec![0, 1] };
        Layout { domains: vec![domain], tiers: vec![tier(0), tier(1)], scopes: vec![] }
    }

    proptest! {
        /// Asserts for any valid ratings of two tiers that the curve of each tier has the rated
        /// latency as its idle latency, and the rated bandwidth as its maximum.
        #[test]
        fn curves_are_as_rated(log_gbps in -2.5..=5.0f64, log_ns in 0.0..=5.6f64) {
            let (gbps, ns) = (libm::pow(10.0, log_gbps), libm::pow(10.0, log_ns));
            let platform = platform(&layout([gbps, gbps / 3.0], [ns, 2.5 * ns]));
            for (tier, rated) in platform.tiers.iter().zip([(gbps, ns), (gbps / 3.0, 2.5 * ns)]) {
                let curve = tier.curves.of(Mix::READ).expect("there is one");
                prop_assert!((curve.max_bandwidth_gbps() / rated.0 - 1.0).abs() < 1e-9);
                prop_assert!((curve.idle_latency_ns() / rated.1 - 1.0).abs() < 1e-9);
            }
        }
    }
}
