//! Compares real runs of the prototype of DMI and of Colloid with the same runs on the simulated
//! server.
//!
//! A group has the real runs of one policy with one workload, one number of threads and one cutoff.
//! The cutoff is the bandwidth below which the calibrator does not interleave. A group's published
//! values are medians over the campaigns of measurement. The campaigns differ by up to a fifth;
//! the note of a row has their range.

use super::{DURATION, PLATFORM};
use crate::{advance, gnr120_interleaving, published::table};
use core::time::Duration;
use interleaf_console::Failure;
use interleaf_job::Progress;
use interleaf_model::{
    control::Settings,
    machine::TierLayout,
    platform::Platform,
    policy::{Calibrator, ClosedForm, DmiSettings, Policy},
    statistics,
};
use interleaf_record::reproduce::{Published, ReproduceRow};
use interleaf_sim::machine::{Outcome, PreparedScenario, Scenario, Task};
use rayon::prelude::*;
use serde::Deserialize;

/// The number of groups of runs in the table `real-runs.csv`.
pub(super) const GROUPS: usize = 33;

const REAL_RUNS: &str = include_str!("../../../../reproduce/dmi/real-runs.csv");

/// The simulated duration, as a multiple of the 600 s of the study's other experiments. 600 s would
/// cut off long runs: the longest real run in the logs took 851 s.
const DURATIONS: u32 = 2;

/// Names of the sections of the study's document that have the rows of the real runs.
const PROTOTYPE: &str = "real runs: speed-up of the prototype";
const COLLOID: &str = "real runs: speed-up of Colloid";
const RATIO: &str = "real runs: median ratio of the prototype";

#[derive(Deserialize)]
struct RunRow {
    workload: String,
    threads: u32,
    policy: String,
    cutoff_gbps: Option<f64>,
    speedup: f64,
    median_ratio_pct: Option<f64>,
}

/// The real runs of one policy with one workload, one number of threads and one cutoff (the
/// bandwidth below which the prototype does not interleave).
struct Group<'a> {
    first: &'a RunRow,
    speedups: Vec<f64>,
    /// For each run, the median percentage of the pages on DRAM. Runs whose campaign did not log
    /// the percentage are left out.
    ratios: Vec<f64>,
}

/// The speed-up of a simulated run, and the median percentage of its pages on DRAM.
struct SimulatedRun {
    speedup: f64,
    points: f64,
}

/// Simulates one run of each group, and makes rows that compare the run's speed-up and its
/// percentage of pages on DRAM with the medians of the group.
pub(super) fn rows(
    platform: &Platform,
    progress: &dyn Progress,
) -> Result<Vec<ReproduceRow>, Failure> {
    let table: Vec<RunRow> = table("real-runs.csv", REAL_RUNS)?;
    let groups = groups(&table);
    let simulated = groups
        .par_iter()
        .map(|group| {
            let simulated = simulate(platform, group.first)?;
            advance(progress, 1)?;
            Ok(simulated)
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let static_runs = gnr120_interleaving::static_runs()?;
    let unexplained =
        |run: &RunRow| match static_runs.contains(&(run.workload.clone(), run.threads)) {
            true => "not explained",
            false => "not explained; no run with static weights and as many threads was logged",
        };
    let mut rows = vec![];
    for (group, ours) in groups.iter().zip(&simulated) {
        let section = if is_colloid(group.first) { COLLOID } else { PROTOTYPE };
        let unexplained = unexplained(group.first);
        rows.push(row((section, unexplained), group, "x", &group.speedups, ours.speedup));
    }
    for (group, ours) in groups.iter().zip(&simulated).filter(|(g, _)| !g.ratios.is_empty()) {
        rows.push(row((RATIO, ""), group, "points", &group.ratios, ours.points));
    }
    Ok(rows)
}

fn is_colloid(run: &RunRow) -> bool {
    run.policy == "colloid"
}

fn groups(table: &[RunRow]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = vec![];
    let key = |run: &RunRow| {
        (run.policy.clone(), run.workload.clone(), run.threads, run.cutoff_gbps.map(f64::to_bits))
    };
    for run in table {
        let found = groups.iter().position(|group| key(group.first) == key(run));
        let at = found.unwrap_or_else(|| {
            groups.push(Group { first: run, speedups: vec![], ratios: vec![] });
            groups.len() - 1
        });
        groups[at].speedups.push(run.speedup);
        groups[at].ratios.extend(run.median_ratio_pct);
    }
    groups
}

/// Makes a row that compares the simulated value `ours` with the median of `published`, which has
/// the value of each campaign. The note of the row has the range over the campaigns. A row on the
/// prototype's speed-up gives `unexplained` as the reason for its error.
fn row(
    (section, unexplained): (&str, &str),
    group: &Group<'_>,
    unit: &str,
    published: &[f64],
    ours: f64,
) -> ReproduceRow {
    let sorted = statistics::sorted(published.to_vec());
    let run = group.first;
    let cutoff =
        run.cutoff_gbps.map_or(String::new(), |cutoff| format!(", cutoff {cutoff:.0} GB/s"));
    let what = format!("{}, {} threads{cutoff}", run.workload, run.threads);
    let median = statistics::quantile(&sorted, 0.5);
    let row = ReproduceRow::new(section, what, unit, Published::between(median, median), ours);
    let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
    let row = match sorted.len() {
        1 => row.with_note("one campaign"),
        campaigns => row.with_note(format!("{campaigns} campaigns: {low} to {high}")),
    };
    let reason = match section {
        COLLOID => "not explained: in the real runs the gain hardly grows with the load",
        RATIO => "not explained; the ratios of campaigns differ by up to 40 points",
        _ => unexplained,
    };
    row.used_for_fit(section == COLLOID).explained(|| reason.into())
}

/// Returns the policy with which the published run `run` is simulated: Colloid, as its closed form,
/// or the calibrator of the DMI prototype, with the cutoff bandwidth of the run if the table gives
/// one.
fn policy(run: &RunRow, tiers: &[TierLayout]) -> Box<dyn Policy> {
    let tiers = tiers.to_vec();
    if is_colloid(run) {
        return Box::new(ClosedForm::new(tiers));
    }
    let settings = DmiSettings::prototype(&tiers);
    let cutoff_gbps = run.cutoff_gbps.unwrap_or(settings.cutoff_gbps);
    Box::new(Calibrator::new(tiers, DmiSettings { cutoff_gbps, ..settings }))
}

/// Simulates the real run `run` on `platform`, with its policy and workload.
fn simulate(platform: &Platform, run: &RunRow) -> Result<SimulatedRun, Failure> {
    let demand = interleaf_catalog::workload(&run.workload)?;
    // Some real runs have 128 threads, but the server has 120 cores.
    let threads = run.threads.min(platform.cpu.cores);
    let task = Task::new(platform, platform, &demand, threads);
    let scenario = Scenario::new(&run.workload, platform.clone(), vec![task]);
    let duration: Duration = DURATIONS * DURATION;
    // `None` skips the search for the best static weights. This search is not needed, because only
    // the speed-up and the target shares of the run are compared.
    let prepared = PreparedScenario::with_best(&scenario, duration, None);
    let mut simulation = prepared.start_with(Settings::default(), |_, tiers| policy(run, tiers));
    while simulation.period().is_some() {}
    let outcome = prepared.outcome(simulation);
    let speedup = outcome.tasks[0].speedup().ok_or_else(|| {
        let problem = format!("{} did not start on {PLATFORM}", run.workload);
        Failure::new(problem, "the table is part of the program: report it")
    })?;
    Ok(SimulatedRun { speedup, points: median_points(&outcome) })
}

/// Returns the median of the first tier's target share, in percent, over the periods up to the end
/// of the workload's first run.
fn median_points(outcome: &Outcome) -> f64 {
    let end_s = outcome.tasks[0].runtime_s.unwrap_or(f64::INFINITY);
    let during = outcome.periods.iter().filter(|period| period.time_s <= end_s);
    let points = during.map(|period| 100.0 * period.target[0]).collect();
    statistics::quantile(&statistics::sorted(points), 0.5)
}
