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
use interleaf_sim::machine::{Arena, Outcome, Scenario, StaticBest, Trial, static_best};
use rayon::prelude::*;
use record::Record;
use std::{collections::BTreeMap, path::Path};

/// Runs the sweep in `path` and writes its rows to `target`, or to stdout.
pub(super) fn run(path: &Path, target: Option<&Path>) -> Result<(), Failure> {
    let sweep = Sweep::read(path)?;
    let cases = sweep.cases();
    let grounds = grounds(&sweep, &cases)?;
    let to_file = target.filter(|target| *target != Path::new("-"));
    let record = Record::open(to_file, &sweep, cases.len())?;
    let progress = output::progress(cases.len() as u64, &sweep.name);
    progress.inc(record.done() as u64);
    let failures: Vec<Failure> = cases
        .par_iter()
        .filter(|case| !record.has(case.number))
        .filter_map(|case| {
            let rows = rows(case, &grounds[&ground_key(case)]);
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

/// What cases have in common that differ only in policy, noise, migration and seed.
struct Ground {
    scenario: Scenario,
    duration: Duration,
    best_static: Option<StaticBest>,
}

/// What tells the grounds of cases apart.
fn ground_key(case: &Case) -> String {
    format!("{:?}", (&case.platform, &case.what, case.footprint))
}

/// The ground of each case. Wrong ones stop the sweep before anything is computed.
fn grounds(sweep: &Sweep, cases: &[Case]) -> Result<BTreeMap<String, Ground>, Failure> {
    let first: BTreeMap<String, &Case> =
        cases.iter().rev().map(|case| (ground_key(case), case)).collect();
    let duration = Duration::from_secs_f64(sweep.duration.seconds());
    let ground = |(key, case): (String, &Case)| {
        let scenario = scenario(sweep, case)?;
        let best_static = static_best(&scenario, duration.as_secs_f64());
        Ok((key, Ground { scenario, duration, best_static }))
    };
    first.into_par_iter().map(ground).collect()
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
            super::single(&platform, &library::workload(name)?, *threads, case.footprint)?
        }
    };
    if let Some(groups) = sweep.page_groups {
        scenario.page_groups = groups;
    }
    scenario.check().map_err(|why| {
        Failure::new(why.to_string(), why.hint()).within(&format!("{}: {case}", sweep.file))
    })?;
    Ok(scenario)
}

/// One row for each workload of the case.
fn rows(case: &Case, ground: &Ground) -> Result<Vec<Vec<String>>, Failure> {
    let mut scenario = Scenario { seed: case.seed, ..ground.scenario.clone() };
    if let Some(noise) = case.counter_noise {
        scenario.counter_noise = noise.part();
    }
    if let Some(rate) = case.migration_rate {
        scenario.migration.bandwidth_gbps = rate.gbps();
    }
    let arena = Arena::with_best(&scenario, ground.duration, ground.best_static.clone());
    let trial = Trial {
        policy: case.policy,
        points: None,
        curve_error: case.curve_error.part(),
        settings: Settings::default(),
    };
    let outcome = arena.run(&trial).map_err(|why| Failure::new(why.to_string(), why.hint()))?;
    Ok((0..scenario.tasks.len()).map(|task| row(case, &scenario, &outcome, task)).collect())
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
