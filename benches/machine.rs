//! Measures the time of the machine simulation: `cargo bench -p interleaf-benches --bench machine`.
//!
//! The simulation has three requirements. 600 s of `gnr120-cz122` with 64 Ki page groups take at
//! most 1 s on one core. The run time grows at most linearly with the number of page groups. A
//! batch of many scenarios uses all cores. `README.md` has the last result.

mod files;

use core::time::Duration;
use divan::Bencher;
use files::{platform, workload};
use interleaf_model::{control::Settings, policy::PolicyKind};
use interleaf_sim::machine::{Outcome, PreparedScenario, Scenario, Task, Trial, static_best};
use rayon::prelude::*;

fn main() {
    divan::main();
}

const DURATION: Duration = Duration::from_secs(600);

fn scenario(names: &[(&str, u32)], page_groups: usize) -> Scenario {
    let platform = platform("gnr120-cz122");
    let task =
        |(name, threads): &(&str, u32)| Task::new(&platform, &platform, &workload(name), *threads);
    let tasks = names.iter().map(task).collect();
    Scenario { page_groups, ..Scenario::new("bench", platform.clone(), tasks) }
}

fn trial(policy: PolicyKind) -> Trial {
    Trial { policy, points: None, curve_error: 0.0, settings: Settings::default() }
}

/// Simulates the scenario under `policy`. The search for the best static weights is not timed,
/// because its result is the same for all policies.
fn run(prepared: &PreparedScenario<'_>, policy: PolicyKind) -> Outcome {
    prepared.run(&trial(policy)).expect("curves without error are curves")
}

/// The requirement of 1 s is for 65536 page groups.
#[divan::bench(args = [4096, 16384, 65536, 262_144, 1_048_576], sample_count = 5)]
fn groups(bencher: Bencher<'_, '_>, groups: usize) {
    let scenario = scenario(&[("cloverleaf", 119)], groups);
    let prepared = PreparedScenario::new(&scenario, DURATION);
    bencher.bench_local(|| run(&prepared, PolicyKind::Dmi));
}

#[divan::bench(args = ["local", "dmi", "colloid", "hotcold", "guided"], sample_count = 5)]
fn policies(bencher: Bencher<'_, '_>, name: &str) {
    let scenario = scenario(&[("cloverleaf", 119)], 65536);
    let prepared = PreparedScenario::new(&scenario, DURATION);
    let policy: PolicyKind = name.parse().expect("it is a policy");
    bencher.bench_local(|| run(&prepared, policy));
}

#[divan::bench(sample_count = 5)]
fn two_workloads(bencher: Bencher<'_, '_>) {
    let scenario = scenario(&[("lbm", 16), ("lbm", 80)], 65536);
    let prepared = PreparedScenario::new(&scenario, DURATION);
    bencher.bench_local(|| run(&prepared, PolicyKind::Dmi));
}

#[divan::bench(sample_count = 5)]
fn best_static_shares(bencher: Bencher<'_, '_>) {
    let scenario = scenario(&[("cloverleaf", 119)], 65536);
    bencher.bench_local(|| static_best(&scenario, 600.0));
}

/// Simulates 100 scenarios that differ only in their seeds, on one core (`threads` is 1) and on all
/// cores (`threads` is 0, for which rayon starts a thread per core).
#[divan::bench(args = [1, 0], sample_count = 3)]
fn hundred_seeds(bencher: Bencher<'_, '_>, threads: usize) {
    let seeds: Vec<Scenario> = (1..=100)
        .map(|seed| Scenario { seed, ..scenario(&[("cloverleaf", 119)], 65536) })
        .collect();
    let arenas: Vec<PreparedScenario<'_>> =
        seeds.iter().map(|scenario| PreparedScenario::new(scenario, DURATION)).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.expect("threads can be started");
    bencher.bench_local(|| {
        pool.install(|| {
            let outcomes = arenas.par_iter().map(|prepared| run(prepared, PolicyKind::Guided));
            outcomes.map(|outcome| outcome.moved_bytes).sum::<u64>()
        })
    });
}
