//! `interleaf simulate machine --sweep`: every combination of what a file lists.
//!
//! Rows are computed on all cores and recorded as they come, each with its number; in the end they
//! are put in order, so that the file is the same on any number of cores. A sweep that was
//! interrupted goes on where it was: rows that are there already are kept.

mod file;
mod record;

use crate::{failure::Failure, library, output};
use core::time::Duration;
use file::{Case, Sweep, What};
use interleaf_model::control::Settings;
use interleaf_sim::machine::{Arena, Outcome, Scenario, Task, Trial};
use rayon::prelude::*;
use record::Record;
use std::path::Path;

/// Runs the sweep in `path` and writes its rows to `target`, or to stdout.
pub(super) fn run(path: &Path, target: Option<&Path>) -> Result<(), Failure> {
    let sweep = Sweep::read(path)?;
    let cases = sweep.cases();
    let scenarios = scenarios(&sweep, &cases)?;
    let to_file = target.filter(|target| *target != Path::new("-"));
    let record = Record::open(to_file, &sweep, cases.len())?;
    let progress = output::progress(cases.len() as u64, &sweep.name);
    progress.inc(record.done() as u64);
    let failures: Vec<Failure> = cases
        .par_iter()
        .zip(&scenarios)
        .filter(|(case, _)| !record.has(case.number))
        .filter_map(|(case, scenario)| {
            let rows = rows(&sweep, case, scenario);
            let added = rows.and_then(|rows| record.add(case.number, rows));
            progress.inc(1);
            added.err()
        })
        .collect();
    progress.finish_and_clear();
    if let Some(failure) = failures.into_iter().next() {
        return Err(failure);
    }
    let text = record.finish()?;
    match to_file {
        Some(target) => {
            output::message(&format!(
                "{} rows are in {}",
                text.lines().count() - 1,
                target.display()
            ));
            Ok(())
        }
        None => output::data(&text),
    }
}

/// The scenario of each case. Wrong ones stop the sweep before anything is computed.
fn scenarios(sweep: &Sweep, cases: &[Case]) -> Result<Vec<Scenario>, Failure> {
    cases.par_iter().map(|case| scenario(sweep, case)).collect()
}

fn scenario(sweep: &Sweep, case: &Case) -> Result<Scenario, Failure> {
    let mut scenario = match &case.what {
        What::Scenario(name) => library::scenario(name, case.platform.as_deref())?.0,
        What::Workload { name, threads } => {
            let Some(platform) = &case.platform else {
                return Err(sweep.failure(
                    "platform",
                    "there is none",
                    "add platform = [\"NAME\"]",
                ));
            };
            let platform = library::platform(platform)?;
            let demand = library::workload(name)?;
            let measured_on = library::measured_on(&platform, &demand)?;
            let threads = threads.unwrap_or(platform.domains[0].cores);
            let mut task = Task::new(&platform, &measured_on, &demand, threads);
            if let Some(footprint) = case.footprint {
                task.footprint_bytes = footprint.get();
            }
            Scenario::new(&demand.name, platform, vec![task])
        }
    };
    if let Some(noise) = case.counter_noise {
        scenario.counter_noise = noise.part();
    }
    if let Some(rate) = case.migration_rate {
        scenario.migration.bandwidth_gbps = rate.gbps();
    }
    if let Some(groups) = sweep.page_groups {
        scenario.page_groups = groups;
    }
    scenario.seed = case.seed;
    scenario.check().map_err(|why| {
        Failure::new(why.to_string(), why.hint()).within(&format!("{}: {case}", sweep.file))
    })?;
    Ok(scenario)
}

/// One row for each workload of the case.
fn rows(sweep: &Sweep, case: &Case, scenario: &Scenario) -> Result<Vec<Vec<String>>, Failure> {
    let duration = Duration::from_secs_f64(sweep.duration.seconds());
    let arena = Arena::new(scenario, duration);
    let trial = Trial {
        policy: case.policy,
        points: None,
        curve_error: case.curve_error.part(),
        settings: Settings::default(),
    };
    let outcome = arena.run(&trial).map_err(|why| Failure::new(why.to_string(), why.hint()))?;
    Ok((0..scenario.tasks.len()).map(|task| row(case, scenario, &outcome, task)).collect())
}

fn row(case: &Case, scenario: &Scenario, outcome: &Outcome, at: usize) -> Vec<String> {
    let (task, done) = (&scenario.tasks[at], &outcome.tasks[at]);
    let optional = |value: Option<f64>| {
        value.map_or(String::new(), |value| crate::document::rounded(value).to_string())
    };
    let weights = |points: &[u16]| crate::document::predict::weights_text(points);
    let last = outcome
        .periods
        .last()
        .map(|period| interleaf_model::weights::Weights::percent(&period.target).to_string());
    vec![
        case.number.to_string(),
        scenario.platform.name.clone(),
        scenario.name.clone(),
        task.name.clone(),
        task.threads.to_string(),
        task.footprint_bytes.to_string(),
        case.policy.to_string(),
        scenario.counter_noise.to_string(),
        case.curve_error.part().to_string(),
        scenario.migration.bandwidth_gbps.to_string(),
        scenario.seed.to_string(),
        optional(done.runtime_s),
        optional(Some(done.speedup())),
        outcome
            .best_static
            .as_ref()
            .map_or(String::new(), |best| weights(&best.points[task.domain])),
        optional(done.best_static.as_ref().map(|best| best.runtime_s)),
        optional(done.regret()),
        optional(done.regret_over_duration()),
        optional(outcome.converged_after_s),
        last.unwrap_or_default(),
        optional(Some(outcome.unsettled_share())),
        outcome.moved_bytes.to_string(),
        optional(done.energy_j),
    ]
}

/// The columns of [`row`].
const HEADER: [&str; 22] = [
    "case",
    "platform",
    "scenario",
    "workload",
    "threads",
    "footprint_bytes",
    "policy",
    "counter_noise",
    "curve_error",
    "migration_rate_gbps",
    "seed",
    "runtime_s",
    "speedup",
    "best_static_weights",
    "best_static_runtime_s",
    "regret",
    "regret_over_duration",
    "converged_after_s",
    "final_weights",
    "unsettled_share",
    "migrated_bytes",
    "energy_per_run_j",
];
