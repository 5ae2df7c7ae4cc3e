//! Measures the time to solve for the bandwidth and latency of each tier under a load:
//! `cargo bench -p interleaf-benches --bench equilibrium`.
//!
//! The requirements are at most 20 us for a solution with two tiers, and at most 100 us with eight
//! tiers. The search for the behaviour of a workload's threads computes thousands of solutions, and
//! so does a table of predictions. With these times, 5000 solutions take 0.1 s for two tiers and
//! 0.5 s for eight. `README.md` has the last result.

use divan::{Bencher, black_box};
use interleaf_model::{
    behaviour,
    curve::{Curve, CurvePoint},
    equilibrium::{self, Load, System},
    mix::Mix,
    platform::{Coupling, Cpu, Domain, Interleaving, Link, Platform},
    predict::Forecast,
    provenance::Figure,
    tier::{Curves, MixCurve, Tier, TierKind},
    units::Bytes,
    weights::Weights,
};

mod files;

use files::{platform, workload};

fn main() {
    divan::main();
}

/// The number of points of a synthetic curve. Measured curves have about as many.
const CURVE_POINTS: u32 = 16;

fn example() -> Figure {
    Figure::assumed("synthetic")
}

/// Returns a tier whose curve has a knee before saturation. With a higher index `number`, a tier
/// has less bandwidth and more latency.
fn tier(number: u32) -> Tier {
    let (most, idle) = (500.0 / f64::from(number + 1), 120.0 + 80.0 * f64::from(number));
    let point = |at: u32| {
        let load = f64::from(at) / f64::from(CURVE_POINTS - 1);
        let latency_ns = idle * (1.0 + 3.0 * load * load * load * load);
        CurvePoint { bandwidth_gbps: most * load, latency_ns, figure: example() }
    };
    let curve = Curve::new((0..CURVE_POINTS).map(point).collect()).expect("the curve rises");
    let curve = MixCurve { domain: None, mix: Mix::READ, curve };
    Tier {
        name: format!("tier{number}"),
        kind: if number == 0 { TierKind::Dram } else { TierKind::Cxl },
        capacity: "1TiB".parse::<Bytes>().expect("a size"),
        curves: Curves::new(vec![curve]).expect("one curve"),
        power: None,
        queue_counters: None,
        count: None,
    }
}

fn synthetic(tiers: u32) -> Platform {
    Platform {
        name: "synthetic".into(),
        source: "synthetic".into(),
        cpu: Cpu { cores: 128, outstanding_lines_per_core: 48.0, uncore_latency_ns: 60.0 },
        domains: vec![Domain { name: "all".into(), cores: 128 }],
        tiers: (0..tiers).map(tier).collect(),
        links: vec![],
        couplings: vec![],
        interleaving: Interleaving::default(),
        power: None,
    }
}

/// Returns a load without compute time. `shares` has the share of its traffic on each tier. Each
/// thread has as many outstanding lines as a core can have.
fn load(platform: &Platform, mix: Mix, threads: f64, shares: Vec<f64>) -> Load {
    Load {
        threads,
        lines_per_thread: platform.cpu.outstanding_lines_per_core,
        line_compute_ns: 0.0,
        overlap: 0.0,
        mixes: vec![mix; shares.len()],
        bandwidth_factors: vec![1.0; shares.len()],
        shares,
        domain_parts: platform.spread(),
    }
}

/// Returns the shares with which the traffic loads all synthetic tiers equally: the share of a tier
/// is proportional to its bandwidth.
fn even_shares(tiers: u32) -> Vec<f64> {
    let all: f64 = (0..tiers).map(|tier| 1.0 / f64::from(tier + 1)).sum();
    (0..tiers).map(|tier| 1.0 / f64::from(tier + 1) / all).collect()
}

fn solve(bencher: Bencher<'_, '_>, platform: &Platform, loads: &[Load]) {
    let system = System::new(platform, loads);
    bencher.bench_local(|| system.solve(black_box(loads)));
}

#[divan::bench]
fn xeon6_prepared(bencher: Bencher<'_, '_>) {
    let platform = platform("xeon6-cz122");
    let loads = [load(&platform, Mix::READ, 128.0, vec![0.75, 0.25])];
    solve(bencher, &platform, &loads);
}

#[divan::bench]
fn xeon6_with_preparation(bencher: Bencher<'_, '_>) {
    let platform = platform("xeon6-cz122");
    let loads = [load(&platform, Mix::READ, 128.0, vec![0.75, 0.25])];
    bencher.bench_local(|| equilibrium::solve(black_box(&platform), black_box(&loads)));
}

#[divan::bench(args = [2, 4, 8])]
fn tiers(bencher: Bencher<'_, '_>, tiers: u32) {
    let platform = synthetic(tiers);
    let loads = [load(&platform, Mix::READ, 128.0, even_shares(tiers))];
    solve(bencher, &platform, &loads);
}

#[divan::bench(args = [2, 4, 8])]
fn tiers_coupled(bencher: Bencher<'_, '_>, tiers: u32) {
    let mut platform = synthetic(tiers);
    platform.couplings = vec![Coupling { from: 1, to: 0, loss: 0.035, figure: example() }];
    let loads = [load(&platform, Mix::READ, 128.0, even_shares(tiers))];
    solve(bencher, &platform, &loads);
}

/// Solves for several loads with different mixes and shares on two tiers. The loads have 128
/// threads in total, divided equally.
#[divan::bench(args = [2, 4])]
fn loads_sharing(bencher: Bencher<'_, '_>, count: u32) {
    let platform = platform("xeon6-cz122");
    let threads = 128.0 / f64::from(count);
    let loads: Vec<Load> = ["R", "W5", "W2", "W10"]
        .iter()
        .zip([0.75, 0.5, 0.9, 0.6])
        .take(count as usize)
        .map(|(mix, first)| {
            let mix = mix.parse().expect("a mix by name");
            load(&platform, mix, threads, vec![first, 1.0 - first])
        })
        .collect();
    solve(bencher, &platform, &loads);
}

/// Solves for a platform with four tiers. The last `behind` tiers (three or all four) are behind a
/// link that has less bandwidth than these tiers together.
#[divan::bench(args = [3, 4])]
fn four_tiers_behind_link(bencher: Bencher<'_, '_>, behind: usize) {
    let mut platform = synthetic(4);
    platform.links = vec![Link {
        name: "link".into(),
        bandwidth_gbps: 300.0,
        tiers: (4 - behind..4).collect(),
        domains: vec![],
        figure: example(),
    }];
    let loads = [load(&platform, Mix::READ, 128.0, even_shares(4))];
    solve(bencher, &platform, &loads);
}

/// All measured runs of `stream` are on a single tier. `hpcg` has a measured run on two tiers, so
/// each step of its search for a behaviour solves the queueing network.
#[divan::bench(args = [("gnr120-cz122", "stream"), ("xeon6-cz122", "hpcg")], sample_count = 20)]
fn infer(bencher: Bencher<'_, '_>, (on, name): (&str, &str)) {
    let (platform, demand) = (platform(on), workload(name));
    bencher.bench_local(|| behaviour::infer(black_box(&platform), black_box(&demand)));
}

#[divan::bench(sample_count = 20)]
fn predict_every_ratio(bencher: Bencher<'_, '_>) {
    let (platform, demand) = (platform("xeon6-cz122"), workload("hpcg"));
    let forecast = Forecast::new(&platform, &platform, &demand);
    let weights = Weights::every_ratio(2, 10);
    assert_eq!(weights.len(), 65, "0:1 to 1:0");
    bencher.bench_local(|| forecast.predict(128.0, black_box(&weights)));
}
