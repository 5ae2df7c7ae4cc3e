//! Finds the best static interleaving, with which the results of each policy are compared.
//!
//! Static shares apply from the first page on, so no page moves, and the accesses have the same
//! shares as the pages. Rates are then constant between events (the start or the end of a task, a
//! phase or a device), so the simulation needs no other steps.

use super::{Scenario, SimMachine, Task, task::TaskState};
use interleaf_model::{machine::Layout, search::best_points};

/// The simulation of static shares is stopped when `PATIENCE` times the longest
/// [`Task::local_runtime_s`] has passed since the last start of a task. If a task has not ended by
/// then, the time since its start is a lower bound of its runtime.
const PATIENCE: f64 = 50.0;

/// The number of times that the search optimises the shares of each domain in turn, on a machine
/// with several domains.
const SWEEPS: usize = 2;

/// The static shares of the tiers with which the tasks run fastest, and the results of the tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticBest {
    /// For each domain (socket), the share of its tasks' pages on each tier of the machine, in
    /// percent.
    pub points: Vec<Vec<u16>>,
    /// The result of each task.
    pub tasks: Vec<StaticTask>,
}

/// The result of a task with static shares.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticTask {
    /// Duration of the first run, s; a lower bound if the simulation was stopped before the run
    /// ended.
    pub runtime_s: f64,
    /// The work at the end of the simulated `duration_s`: the number of completed runs, plus the
    /// completed fraction of the run in progress.
    pub work: f64,
    /// Energy of the first run, J; 0 on a platform without power figures, or if the simulation was
    /// stopped before the end of the run.
    pub energy_j: f64,
}

/// Returns the best static shares of `scenario` over `duration_s` seconds: the shares with the
/// highest product of the speeds of the tasks that start within this time. `None` if the pages do
/// not fit into the tiers with any of the shares that were tried.
pub fn static_best(scenario: &Scenario, duration_s: f64) -> Option<StaticBest> {
    let layout = scenario.layout();
    let mut points: Vec<Vec<u16>> =
        (0..layout.domains.len()).map(|domain| local(&layout, domain)).collect();
    let begun = Scenario {
        tasks: scenario.tasks.iter().filter(|task| task.start_s < duration_s).cloned().collect(),
        ..scenario.clone()
    };
    let score = |points: &[Vec<u16>]| fits(scenario, points).then(|| score(&begun, points));
    // Optimises one domain after the other. While one domain is optimised, the other domains keep
    // the best shares found so far.
    let sweeps = if points.len() > 1 { SWEEPS } else { 1 };
    let mut found = false;
    for domain in (0..points.len()).cycle().take(sweeps * points.len()) {
        let near = &layout.domains[domain].tiers;
        let best = best_points(near.len(), |own| {
            let mut tried = points.clone();
            tried[domain] = of_machine(&layout, near, own);
            score(&tried)
        });
        if let Some((own, _)) = best {
            points[domain] = of_machine(&layout, near, &own);
            found = true;
        }
    }
    let tasks = found.then(|| run(scenario, &points, duration_s))?;
    Some(StaticBest { tasks, points })
}

/// Returns the results of `scenario` if the pages of each domain's tasks are all on the first local
/// tier of the domain. The capacity of the tiers is ignored.
pub(super) fn all_local(scenario: &Scenario, duration_s: f64) -> Vec<StaticTask> {
    let layout = scenario.layout();
    let points: Vec<Vec<u16>> =
        (0..layout.domains.len()).map(|domain| local(&layout, domain)).collect();
    run(scenario, &points, duration_s)
}

/// Returns the shares in percent that put all pages on the first local tier of `domain`.
fn local(layout: &Layout, domain: usize) -> Vec<u16> {
    of_machine(layout, &layout.domains[domain].tiers, &[100])
}

/// Returns the shares of all tiers of the machine, in percent: the shares `own` for the tiers
/// `near`, and 0 for the other tiers.
fn of_machine(layout: &Layout, near: &[usize], own: &[u16]) -> Vec<u16> {
    let mut points = vec![0; layout.tiers.len()];
    near.iter().zip(own).for_each(|(tier, own)| points[*tier] = *own);
    points
}

fn shares(points: &[u16]) -> Vec<f64> {
    points.iter().map(|points| f64::from(*points) / 100.0).collect()
}

/// Returns true if the pages of all tasks fit into the tiers with the shares `points`, in percent.
fn fits(scenario: &Scenario, points: &[Vec<u16>]) -> bool {
    let mut needed = vec![0.0; scenario.platform.tiers.len()];
    for task in &scenario.tasks {
        for (needed, share) in needed.iter_mut().zip(shares(&points[task.domain])) {
            *needed += share * task.footprint_bytes as f64;
        }
    }
    needed.iter().zip(scenario.free_bytes()).all(|(needed, free)| *needed <= free as f64)
}

/// Returns the sum of the logarithms of the speeds of the tasks' first runs; higher is better.
/// `points` has the shares of each domain's pages on each tier, in percent. A speed is relative to
/// the task alone on the machine with all its pages on the first tier.
fn score(scenario: &Scenario, points: &[Vec<u16>]) -> f64 {
    let tasks = run(scenario, points, 0.0);
    let log =
        |(task, given): (&Task, &StaticTask)| libm::log(task.local_runtime_s() / given.runtime_s);
    scenario.tasks.iter().zip(&tasks).map(log).sum()
}

/// Runs `scenario` with static shares until each task has ended its first run or the limit of
/// [`PATIENCE`] is reached, and at least for `duration_s`. The `work` of a result is the work done
/// in the first `duration_s`.
fn run(scenario: &Scenario, points: &[Vec<u16>], duration_s: f64) -> Vec<StaticTask> {
    let start = points.iter().map(|points| shares(points)).collect();
    let mut machine = SimMachine::with_fixed(scenario, start);
    machine.advance((duration_s * 1e9) as u64);
    let work: Vec<f64> = machine.tasks.iter().map(|state| state.work()).collect();
    let longest = scenario.tasks.iter().map(|task| task.local_runtime_s()).fold(0.0, f64::max);
    let last_start = scenario.tasks.iter().map(|task| task.start_s).fold(0.0, f64::max);
    let limit_ns = ((last_start + PATIENCE * longest) * 1e9) as u64;
    while machine.tasks.iter().any(|state| state.first_run_ns.is_none())
        && machine.now_ns < limit_ns
    {
        machine.advance(((0.1 * longest * 1e9) as u64).max(1));
    }
    let given = |((task, state), work): ((&Task, &TaskState), f64)| {
        let so_far = machine.now_ns as f64 * 1e-9 - task.start_s;
        StaticTask {
            runtime_s: state.first_run_ns.map_or(so_far, |ns| ns as f64 * 1e-9),
            work,
            energy_j: state.first_run_j.unwrap_or(0.0),
        }
    };
    scenario.tasks.iter().zip(&machine.tasks).zip(work).map(given).collect()
}
