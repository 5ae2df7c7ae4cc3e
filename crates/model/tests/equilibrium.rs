//! Tests of properties that every equilibrium has, on random platforms.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_model::{
    curve::{Curve, CurvePoint},
    equilibrium::{Equilibrium, Load, LoadEquilibrium, solve},
    mix::Mix,
    platform::{Coupling, Cpu, Domain, Interleaving, Link, Platform},
    provenance::Figure,
    tier::{Curves, MixCurve, Tier, TierKind},
    units::Bytes,
};
use proptest::prelude::*;

fn figure() -> Figure {
    Figure::assumed("test")
}

/// Generates curves from random steps of bandwidth and latency. If `bend` is true, the curve bends
/// back: the last point has less bandwidth than the point before.
fn curve(bend: bool) -> impl Strategy<Value = Curve> {
    let steps = prop::collection::vec((1.0..200.0f64, 0.0..200.0f64), 1..6);
    (50.0..800.0f64, steps, 0.7..1.0f64).prop_map(move |(idle, steps, back)| {
        let point = |bandwidth_gbps, latency_ns| CurvePoint {
            bandwidth_gbps,
            latency_ns,
            figure: figure(),
        };
        let (mut bandwidth, mut latency) = (0.0, idle);
        let mut points = vec![point(0.0, idle)];
        for (more, later) in steps {
            bandwidth += more;
            latency += later;
            points.push(point(bandwidth, latency));
        }
        if bend {
            // The curve is valid if the bytes in flight rise along the whole line to this last
            // point. They do if they still rise at the end of the line. The slope of the bytes in
            // flight there is positive if 4 - back - 2 / back is above 0: for `back` above 0.59.
            // The rise of latency then outweighs the loss of bandwidth.
            points.push(point(bandwidth * back, latency * 2.0 / back));
        }
        Curve::new(points).unwrap()
    })
}

fn platform_of(curves: Vec<Curve>, page_streams: u32) -> Platform {
    let tier = |(at, curve)| Tier {
        name: format!("tier {at}"),
        kind: TierKind::Dram,
        capacity: Bytes::new(1 << 30),
        curves: Curves::new(vec![MixCurve { domain: None, mix: Mix::READ, curve }]).unwrap(),
        power: None,
        queue_counters: None,
        count: None,
    };
    Platform {
        name: "test".into(),
        source: "test".into(),
        cpu: Cpu { cores: 64, outstanding_lines_per_core: 48.0, uncore_latency_ns: 40.0 },
        domains: vec![Domain { name: "cpu".into(), cores: 64 }],
        tiers: curves.into_iter().enumerate().map(tier).collect(),
        links: vec![],
        couplings: vec![],
        interleaving: Interleaving { page_streams, figure: figure() },
        power: None,
    }
}

/// Generates a platform of 1 to `most` tiers, and a share of the traffic for each tier. A share may
/// be zero.
fn platform_and_shares(most: usize, bend: bool) -> impl Strategy<Value = (Platform, Vec<f64>)> {
    let tier = (curve(bend), 0..10u32);
    (prop::collection::vec(tier, 1..=most), 1..33u32)
        .prop_filter("all weights are zero", |(tiers, _)| tiers.iter().any(|(_, w)| *w > 0))
        .prop_map(|(tiers, page_streams)| {
            let (curves, weights): (Vec<_>, Vec<_>) = tiers.into_iter().unzip();
            let sum: u32 = weights.iter().sum();
            let shares = weights.iter().map(|w| f64::from(*w) / f64::from(sum)).collect();
            (platform_of(curves, page_streams), shares)
        })
}

fn load(threads: f64, compute_ns: f64, overlap: f64, shares: &[f64]) -> Load {
    Load {
        threads,
        lines_per_thread: 16.0,
        line_compute_ns: compute_ns,
        overlap,
        mixes: vec![Mix::READ; shares.len()],
        shares: shares.to_vec(),
        domain_parts: vec![1.0],
        bandwidth_factors: vec![1.0; shares.len()],
    }
}

fn alone(platform: &Platform, load: &Load) -> LoadEquilibrium {
    solve(platform, std::slice::from_ref(load)).loads.remove(0)
}

/// Returns the total bandwidth, GB/s, at which one of the tiers saturates first, if the fraction
/// `shares[i]` of the traffic goes to tier `i`.
fn limit(platform: &Platform, shares: &[f64]) -> f64 {
    let most = |tier: &Tier| tier.curves.of(Mix::READ).unwrap().max_bandwidth_gbps();
    let used = platform.tiers.iter().zip(shares).filter(|(_, share)| **share > 0.0);
    used.map(|(tier, share)| most(tier) / share).fold(f64::INFINITY, f64::min)
}

fn link(bandwidth_gbps: f64, tiers: Vec<usize>) -> Link {
    Link { name: "link".into(), bandwidth_gbps, tiers, domains: vec![], figure: figure() }
}

fn assert_sane(reached: &LoadEquilibrium) -> Result<(), TestCaseError> {
    prop_assert!(reached.bandwidth_gbps.is_finite() && reached.bandwidth_gbps > 0.0);
    prop_assert!(reached.latency_ns.is_finite() && reached.latency_ns > 0.0);
    Ok(())
}

fn assert_little(platform: &Platform, shares: &[f64], threads: f64) -> Result<(), TestCaseError> {
    let load = load(threads, 0.0, 0.0, shares);
    let reached = alone(platform, &load);
    let (there, asked) = (reached.bandwidth_gbps * reached.latency_ns, load.circulating_bytes());
    prop_assert!((there / asked - 1.0).abs() < 1e-6, "{there} in flight of {asked}");
    Ok(())
}

/// Returns the configuration of a test with `cases` cases. Failing seeds are not stored: proptest
/// would store them beside a folder `src`, and an integration test is not in such a folder.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn traffic_has_the_requested_shares_within_tier_bandwidths(
        (platform, shares) in platform_and_shares(8, true), threads in 0.1..1e4f64,
        compute in 0.0..100.0f64, overlap in 0.0..=1.0f64,
    ) {
        let reached = alone(&platform, &load(threads, compute, overlap, &shares));
        assert_sane(&reached)?;
        for (own, share) in reached.tier_bandwidth_gbps.iter().zip(&shares) {
            prop_assert!((own / reached.bandwidth_gbps - share).abs() < 1e-9);
        }
        prop_assert!(reached.bandwidth_gbps <= limit(&platform, &shares) * (1.0 + 1e-6));
    }

    #[test]
    fn more_threads_never_give_less(
        (platform, shares) in platform_and_shares(8, false), threads in 0.1..1e4f64,
        more in 1.0..10.0f64, compute in 0.0..100.0f64, overlap in 0.0..=1.0f64,
    ) {
        let few = alone(&platform, &load(threads, compute, overlap, &shares));
        let many = alone(&platform, &load(threads * more, compute, overlap, &shares));
        prop_assert!(many.bandwidth_gbps >= few.bandwidth_gbps * (1.0 - 1e-6));
    }

    #[test]
    fn a_link_caps_the_sum_of_its_tiers(
        (mut platform, shares) in platform_and_shares(8, true), threads in 0.1..1e4f64,
        part in 0.01..2.0f64,
    ) {
        let carried = limit(&platform, &shares) * part;
        let behind: Vec<usize> = (0..shares.len()).step_by(2).collect();
        platform.links.push(link(carried, behind.clone()));
        let reached = alone(&platform, &load(threads, 0.0, 0.0, &shares));
        assert_sane(&reached)?;
        let sum: f64 = behind.iter().map(|tier| reached.tier_bandwidth_gbps[*tier]).sum();
        prop_assert!(sum <= carried * (1.0 + 1e-6), "{sum} through {carried}");
    }

    #[test]
    fn coupling_never_raises_bandwidth(
        (mut platform, shares) in platform_and_shares(4, false), threads in 0.1..1e4f64,
        loss in 0.0..10.0f64,
    ) {
        let load = load(threads, 0.0, 0.0, &shares);
        let free = alone(&platform, &load);
        let last = shares.len() - 1;
        if last > 0 {
            platform.couplings.push(Coupling { from: last, to: 0, loss, figure: figure() });
        }
        let coupled = alone(&platform, &load);
        assert_sane(&coupled)?;
        prop_assert!(coupled.bandwidth_gbps <= free.bandwidth_gbps * (1.0 + 1e-6));
    }

    /// Asserts Little's law. Without compute time, all circulating bytes are in flight, so
    /// bandwidth times latency must equal the circulating bytes.
    #[test]
    fn littles_law_holds(
        (platform, shares) in platform_and_shares(8, true), threads in 0.1..1e4f64,
    ) {
        assert_little(&platform, &shares, threads)?;
    }

    /// All tiers are behind one link. Asserts that bandwidth times latency still equals the
    /// circulating bytes. Bytes that wait at the link are in flight, but must not be counted again
    /// at their tier.
    #[test]
    fn littles_law_holds_behind_a_link(
        (mut platform, shares) in platform_and_shares(8, true), threads in 0.1..1e4f64,
        part in 0.01..2.0f64,
    ) {
        let carried = limit(&platform, &shares) * part;
        platform.links.push(link(carried, (0..shares.len()).collect()));
        assert_little(&platform, &shares, threads)?;
    }
}

proptest! {
    // Loads that share tiers take many rounds to solve, so there are fewer cases.
    #![proptest_config(config(48))]

    #[test]
    fn equal_loads_reach_the_same(
        (platform, shares) in platform_and_shares(3, false), threads in 1.0..1e3f64,
    ) {
        let one = load(threads, 0.0, 0.0, &shares);
        let Equilibrium { loads, .. } = solve(&platform, &[one.clone(), one]);
        let [a, b] = [loads[0].bandwidth_gbps, loads[1].bandwidth_gbps];
        prop_assert!((a / b - 1.0).abs() < 1e-4, "{a} and {b}");
    }
}
