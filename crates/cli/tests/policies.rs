//! Tests of placement policies on the simulated server gnr120-cz122: their regret (slow-down
//! against the best static weights), speed-up, convergence and stability must stay within limits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::time::Duration;
use interleaf_model::{
    control::Settings,
    demand::Demand,
    equilibrium::{Load, solve},
    format::{FileError, demand_toml, platform_toml},
    platform::Platform,
    policy::{PolicyContext, PolicyKind},
};
use interleaf_sim::machine::{
    Outcome, PreparedScenario, Run, Scenario, StaticBest, Task, TaskOutcome, Trial,
    scenario_toml::{self, DemandSource, LoadedDemand},
    static_best, with_curve_error,
};
use rayon::prelude::*;
use std::{fs, ops::RangeInclusive, process::Command, sync::LazyLock};

const THREADS: u32 = 119;
const DURATION: Duration = Duration::from_secs(600);

/// Workloads whose speed is limited by the bandwidth of memory. bwaves is not in the list: its
/// measured runs do not show which resource limits it (docs/model.md).
const HUNGRY: [&str; 3] = ["cloverleaf", "lbm", "stream"];

/// Number of page groups of a workload. The simulated machine migrates a page group as a whole. The
/// groups are small enough for a resolution of 0.1 % of the shares, and few enough for a fast test.
const PAGE_GROUPS: usize = 4096;

fn read(path: &str) -> Result<String, String> {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).map_err(|why| format!("{path}: {why}"))
}

static SERVER: LazyLock<Platform> = LazyLock::new(|| {
    let text = read("platforms/gnr120-cz122.toml").unwrap();
    let curves = |path: &str| read(&format!("platforms/{path}"));
    platform_toml::parse("gnr120-cz122.toml", &text, &curves).unwrap()
});

fn demand(name: &str) -> Demand {
    let text = read(&format!("workloads/{name}.toml")).unwrap();
    demand_toml::parse(name, &text).unwrap()
}

/// Creates the scenario in which `workload` runs alone on [`SERVER`].
fn scenario(workload: &str, threads: u32, counter_noise: f64) -> Scenario {
    let task = Task::new(&SERVER, &SERVER, &demand(workload), threads);
    Scenario {
        page_groups: PAGE_GROUPS,
        counter_noise,
        ..Scenario::new(workload, SERVER.clone(), vec![task])
    }
}

/// A scenario, and its best static weights. Policies are compared with these weights.
struct Bar {
    scenario: Scenario,
    best: StaticBest,
}

impl Bar {
    fn new(workload: &str, threads: u32, counter_noise: f64) -> Self {
        let scenario = scenario(workload, threads, counter_noise);
        let best = static_best(&scenario, DURATION.as_secs_f64()).unwrap();
        Self { scenario, best }
    }

    /// Runs `policy` on the scenario. The curves by which the policy decides have the relative
    /// error `curve_error`. `seed` is the seed of the counter noise.
    fn play(&self, policy: PolicyKind, curve_error: f64, seed: u64) -> Outcome {
        let scenario = Scenario { seed, ..self.scenario.clone() };
        let believed = with_curve_error(&scenario.platform, curve_error).unwrap();
        let mut run = Run::new(&scenario, Settings::default(), DURATION, |domain, tiers| {
            let (near, fixed) = ([0, 1], [1.0, 0.0]);
            policy.make(&PolicyContext {
                domain,
                near: &near,
                tiers,
                believed: &believed,
                fixed: &fixed,
            })
        });
        while run.period().is_some() {}
        run.outcome(Some(self.best.clone()))
    }

    /// Runs `policy` with exact curves, once for each seed in `seeds`.
    fn seeds(&self, policy: PolicyKind, seeds: RangeInclusive<u64>) -> Vec<Outcome> {
        seeds.into_par_iter().map(|seed| self.play(policy, 0.0, seed)).collect()
    }
}

/// Returns the outcome of the only task of a scenario.
fn only(outcome: &Outcome) -> &TaskOutcome {
    &outcome.tasks[0]
}

/// Returns the task's speed-up over a run with all pages on the first tier: the ratio of the
/// runtimes. If the task's first run did not end in the simulated time, it is the ratio of the work
/// done.
fn speedup(outcome: &Outcome) -> f64 {
    let TaskOutcome { runtime_s, work, local, .. } = only(outcome);
    runtime_s.map_or(work / local.work, |runtime_s| local.runtime_s / runtime_s)
}

fn regret(outcome: &Outcome) -> f64 {
    only(outcome).regret().unwrap()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

// --- Workloads that saturate memory -------------------------------------------------------------

#[test]
fn dmi_settles_near_the_best_static_ratio() {
    for workload in HUNGRY {
        let bar = Bar::new(workload, THREADS, 0.02);
        // The regret is the runtime divided by that with the best static weights, minus 1. It
        // includes the periods in which the policy still searches for these weights. The run of lbm
        // is short, so its search may cost a fifth of the runtime.
        let most = if workload == "lbm" { 0.2 } else { 0.08 };
        let outcomes = bar.seeds(PolicyKind::Dmi, 1..=12);
        let colloid = bar.seeds(PolicyKind::Colloid, 1..=12);
        for (at, (outcome, colloid)) in outcomes.iter().zip(&colloid).enumerate() {
            let label = format!("{workload}, seed {}: regret {}", at + 1, regret(outcome));
            assert!(outcome.converged_after_s.is_some(), "{label}");
            assert!((0.0..=most).contains(&regret(outcome)), "{label}");
            assert!(speedup(outcome) >= 1.0, "{label}");
            if workload != "stream" {
                assert!(regret(outcome) <= regret(colloid), "{label}, colloid {}", regret(colloid));
            }
        }
    }
}

#[test]
fn guided_settles_in_a_few_periods() {
    for workload in HUNGRY {
        let bar = Bar::new(workload, THREADS, 0.02);
        for (curve_error, most) in [(0.0, 0.01), (0.2, 0.02), (-0.2, 0.02)] {
            let outcomes: Vec<Outcome> = (1..=12u64)
                .into_par_iter()
                .map(|seed| bar.play(PolicyKind::Guided, curve_error, seed))
                .collect();
            for outcome in outcomes {
                let regret = only(&outcome).regret_over_duration().unwrap();
                let settled = outcome.converged_after_s;
                let label = format!("{workload} with {curve_error}: {regret}, {settled:?}");
                assert!(settled.is_some_and(|after| after <= 24.0), "{label}");
                assert!(regret <= most && speedup(&outcome) > 1.2, "{label}");
            }
        }
    }
}

/// Returns the bandwidth, GB/s, that a load reaches on [`SERVER`] with the fractions `shares` of
/// its pages on the tiers. `load` creates the load from the shares.
fn reaches(load: impl Fn(Vec<f64>) -> Load, shares: &[f64]) -> f64 {
    solve(&SERVER, &[load(shares.to_vec())]).loads[0].bandwidth_gbps
}

#[test]
fn with_right_curves_and_true_counters_guided_finds_the_top() {
    for workload in HUNGRY {
        let mut bar = Bar::new(workload, THREADS, 0.0);
        bar.scenario.platform.tiers[0].queue_counters = None;
        let outcome = bar.play(PolicyKind::Guided, 0.0, 1);
        let program = &bar.scenario.tasks[0].program;
        let load = |shares| program.load(0, 0, shares);
        let points = |first: u16| f64::from(first) / 100.0;
        let all = (0..=100).map(|first| reaches(load, &[points(first), points(100 - first)]));
        let most = all.fold(0.0, f64::max);
        let reached = reaches(load, &outcome.periods.last().unwrap().reached);
        assert!(reached > 0.997 * most, "{workload}: {reached} of {most} GB/s");
    }
}

// --- Workloads that do not saturate memory ------------------------------------------------------

#[test]
fn unsaturated_stays_local() {
    let cases = [
        ("cloverleaf", 30),
        ("bwaves", 30),
        ("lbm", 12),
        ("lbm", 16),
        ("pr", THREADS),
        ("bfs", THREADS),
        ("bc", THREADS),
        ("pr", 32),
        ("bc", 32),
    ];
    for (workload, threads) in cases {
        let bar = Bar::new(workload, threads, 0.02);
        for policy in [PolicyKind::Dmi, PolicyKind::Guided] {
            for outcome in bar.seeds(policy, 1..=4) {
                let speedup = speedup(&outcome);
                let label = format!("{workload}, {threads} threads, {policy}");
                assert!(speedup >= 0.98, "{label}: {speedup}");
                let footprint = bar.scenario.tasks[0].footprint_bytes as f64;
                let moved = outcome.moved_bytes as f64 / footprint;
                assert!(policy != PolicyKind::Guided || moved < 0.01, "{label}: {moved} moved");
            }
        }
    }
}

// --- Noise --------------------------------------------------------------------------------------

#[test]
fn noise_does_not_unsettle() {
    for workload in HUNGRY {
        let bar = Bar::new(workload, THREADS, 0.05);
        for (policy, most) in [(PolicyKind::Guided, 0.01), (PolicyKind::Dmi, 0.1)] {
            let outcomes = bar.seeds(policy, 1..=40);
            let away = mean(outcomes.iter().map(Outcome::unsettled_share));
            assert!(away < most, "{workload} under {policy}: {away}");
        }
    }
}

// --- Shifting demand ----------------------------------------------------------------------------

fn shifting_demand() -> Scenario {
    let text = read("scenarios/shifting-demand.toml").unwrap();
    let file = scenario_toml::parse("shifting-demand.toml", &text).unwrap();
    let demands = |source: DemandSource<'_>| -> Result<LoadedDemand, FileError> {
        let DemandSource::Workload(name) = source else { panic!("a demand file") };
        Ok(LoadedDemand { demand: demand(name), measured_on: None })
    };
    let scenario = file.build(SERVER.clone(), &demands).unwrap();
    Scenario { page_groups: PAGE_GROUPS, ..scenario }
}

#[test]
fn demand_that_shifts_is_followed() {
    let scenario = shifting_demand();
    let best = static_best(&scenario, DURATION.as_secs_f64()).unwrap();
    let bar = Bar { scenario, best };
    for policy in [PolicyKind::Dmi, PolicyKind::Guided] {
        for outcome in bar.seeds(policy, 1..=6) {
            let regrets: Vec<f64> =
                outcome.tasks.iter().map(|task| task.regret().unwrap()).collect();
            assert!(regrets[0] <= 0.0, "{policy}: {regrets:?}");
            assert!(regrets[1] <= 0.05, "{policy}: {regrets:?}");
        }
    }
}

// --- Equal output of an arena and a trial, and with any number of threads -----------------------

#[test]
fn the_arena_and_a_trial_have_the_same_outcome() {
    let bar = Bar::new("lbm", THREADS, 0.02);
    let (policy, settings) = (PolicyKind::Guided, Settings::default());
    let trial = Trial { policy, points: None, curve_error: 0.2, settings };
    let outcome = PreparedScenario::new(&bar.scenario, DURATION).run(&trial).unwrap();
    assert_eq!(outcome, bar.play(policy, 0.2, bar.scenario.seed));
}

#[test]
fn the_number_of_threads_does_not_change_the_output() {
    let simulate = |threads: &str, policy: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
        command.args(["simulate", "machine", "--platform", "gnr120-cz122", "--workload", "lbm"]);
        command.args(["--policy", policy, "--duration", "120s", "--compare", "--json"]);
        let output = command.env("RAYON_NUM_THREADS", threads).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    for policy in ["dmi", "guided"] {
        let one = simulate("1", policy);
        assert!(!one.is_empty() && one == simulate("2", policy), "{policy}");
        assert!(one == simulate("2", policy), "{policy}, once more");
    }
}
