//! `interleaf simulate machine --sweep`: simulates every combination of the lists in a sweep file.
//!
//! Rows are computed on all cores and recorded in order of completion, each with its number. At the
//! end the rows are sorted, so the file does not depend on the number of cores. An interrupted
//! sweep continues: rows that are already in the file are kept.

mod fingerprint;
mod progress;
mod record;

use crate::verb::page;
use interleaf_console::{Failure, output};
use interleaf_job::sweep::{Case, Load, Sweep};
use interleaf_model::{control::Settings, units::Time};
use interleaf_record::{
    Document,
    sweep::{COLUMNS, SweepDocument},
};
use interleaf_sim::machine::{Outcome, PreparedScenario, Scenario, StaticBest, Trial, static_best};
use progress::Progress;
use rayon::prelude::*;
use record::Record;
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Runs the sweep of the file `path`. Writes its rows to `target`, or to stdout, and a page to
/// `report`.
pub(super) fn run(
    path: &Path,
    target: Option<&Path>,
    report: Option<&Path>,
) -> Result<(), Failure> {
    let sweep = Sweep::read(path)?;
    // Continue only a regular file: a device has no rows, and reading from a device might not end.
    let stream = |target: &Path| target == Path::new("-") || target.exists() && !target.is_file();
    let to_file = target.filter(|target| !stream(target));
    progress::say_cases(sweep.count(), to_file.is_some());
    let scenarios = scenarios(&sweep)?;
    let rows_of = |case: usize| scenarios[sweep.base_case(case)].tasks.len();
    let made_from = fingerprint(&sweep, &scenarios);
    let record = Record::open(to_file, made_from, sweep.count(), &rows_of)?;
    progress::say_done(record.done());
    let base_cases = base_cases(scenarios, sweep.duration.value);
    let progress = Progress::begin(path, &sweep.name, sweep.count(), record.done());
    let compute = |cases: &[usize]| {
        cases.par_iter().try_for_each(|number| {
            let case = sweep.case(*number);
            record.add(*number, rows(&case, &base_cases[sweep.base_case(*number)])?)?;
            progress.advance();
            Ok::<(), Failure>(())
        })
    };
    let missing: Vec<usize> = (0..sweep.count()).filter(|case| !record.has(*case)).collect();
    let (sample, others) = sampled(&missing, rayon::current_num_threads());
    let begun = Instant::now();
    let done = compute(&sample).and_then(|()| {
        progress.say_time(begun.elapsed(), sample.len(), others.len());
        compute(&others)
    });
    progress.end();
    done?;
    let text = record.finish()?;
    match to_file {
        Some(target) => {
            let rows = text.lines().count() - 1;
            output::message(&format!("{rows} rows are in {}", target.display()));
        }
        None => output::file(target.unwrap_or(Path::new("-")), &text)?,
    }
    if report.is_none() {
        return Ok(());
    }
    let document = SweepDocument::read(&sweep.name, &text)
        .map_err(|why| Failure::new(why.problem, why.hint))?;
    page::write(report, || Document::Sweep(Box::new(document)))
}

/// Returns a fingerprint of the sweep, its scenarios and the version of the tool.
fn fingerprint(sweep: &Sweep, scenarios: &[Scenario]) -> String {
    let tool = [sweep.text(), env!("CARGO_PKG_VERSION")].into_iter().chain(COLUMNS);
    let scenarios = scenarios.iter().map(|scenario| format!("{scenario:?}"));
    fingerprint::of(tool.map(String::from).chain(scenarios))
}

/// Returns `count` cases that are spread evenly over `cases`, and the remaining cases.
fn sampled(cases: &[usize], count: usize) -> (Vec<usize>, Vec<usize>) {
    let step = cases.len().div_ceil(count.max(1)).max(1);
    let (sample, others): (Vec<_>, Vec<_>) =
        cases.iter().enumerate().partition(|(at, _)| at % step == 0);
    let numbers = |part: Vec<(usize, &usize)>| part.into_iter().map(|(_, case)| *case).collect();
    (numbers(sample), numbers(others))
}

/// The common part of all cases that differ only in policy, noise, curve error, migration rate and
/// seed.
struct BaseCase {
    scenario: Scenario,
    duration: Duration,
    best_static: Option<StaticBest>,
}

/// Reads the scenario of each base case, so that an invalid scenario stops the sweep before any
/// computation.
fn scenarios(sweep: &Sweep) -> Result<Vec<Scenario>, Failure> {
    let first = (0..sweep.base_cases()).map(|base_case| sweep.case(sweep.first_case_of(base_case)));
    first.map(|case| scenario(sweep, &case)).collect()
}

fn base_cases(scenarios: Vec<Scenario>, duration: Time) -> Vec<BaseCase> {
    let duration = Duration::from_secs_f64(duration.seconds());
    let base_case = |scenario: Scenario| {
        let best_static = static_best(&scenario, duration.as_secs_f64());
        BaseCase { scenario, duration, best_static }
    };
    scenarios.into_par_iter().map(base_case).collect()
}

fn scenario(sweep: &Sweep, case: &Case) -> Result<Scenario, Failure> {
    let platform = case.platform.as_ref().map(|name| name.get_ref().as_str());
    let of_platform = |why: Failure| match &case.platform {
        Some(name) => why.within(&sweep.place("platform", name)),
        None => why,
    };
    let mut scenario = match &case.load {
        Load::Scenario(name) => {
            let platform =
                platform.map(interleaf_catalog::platform).transpose().map_err(of_platform)?;
            let of_scenario = |why: Failure| why.within(&sweep.place("scenario", name));
            interleaf_catalog::scenario(name.get_ref(), platform).map_err(of_scenario)?.0
        }
        Load::Workload { name, is_file, threads } => {
            let place = sweep.place(if *is_file { "demand" } else { "workload" }, name);
            let Some(platform) = platform else {
                let hint = "add platform = [\"NAME\"]";
                return Err(Failure::new(format!("{place}: there is no platform for it"), hint));
            };
            let platform = interleaf_catalog::platform(platform).map_err(of_platform)?;
            let demand = match is_file {
                true => interleaf_catalog::demand(Path::new(name.get_ref())),
                false => interleaf_catalog::workload(name.get_ref()),
            };
            let demand = demand.map_err(|why| why.within(&place))?;
            let threads = threads.as_ref().map(|threads| *threads.get_ref());
            let footprint = case.footprint.as_ref().map(|size| size.get_ref().value);
            interleaf_catalog::single_workload(&platform, &demand, threads, footprint)?
        }
    };
    if let Some(groups) = sweep.page_groups {
        scenario.page_groups = groups;
    }
    scenario.check().map_err(|why| {
        Failure::new(format!("{case}: {why}"), why.hint()).within(&sweep.place_of(case, &why))
    })?;
    sweep.check_weights(&scenario)?;
    Ok(scenario)
}

/// Simulates a case and returns a row for each of its workloads.
fn rows(case: &Case, base_case: &BaseCase) -> Result<Vec<Vec<String>>, Failure> {
    let mut scenario = Scenario { seed: case.seed, ..base_case.scenario.clone() };
    if let Some(noise) = &case.counter_noise {
        scenario.counter_noise = noise.value.fraction();
    }
    if let Some(rate) = &case.migration_rate {
        scenario.migration.bandwidth_gbps = rate.value.gbps();
    }
    let prepared =
        PreparedScenario::with_best(&scenario, base_case.duration, base_case.best_static.clone());
    let trial = Trial {
        policy: case.policy.kind,
        points: case.policy.points(&scenario)?,
        curve_error: curve_error(case),
        settings: Settings::default(),
    };
    let outcome = prepared.run(&trial).map_err(|why| Failure::new(why.to_string(), why.hint()))?;
    Ok((0..scenario.tasks.len()).map(|task| row(case, &scenario, &outcome, task)).collect())
}

fn curve_error(case: &Case) -> f64 {
    case.curve_error.as_ref().map_or(0.0, |error| error.value.fraction())
}

fn row(case: &Case, scenario: &Scenario, outcome: &Outcome, at: usize) -> Vec<String> {
    let (task, done) = (&scenario.tasks[at], &outcome.tasks[at]);
    let optional = |value: Option<f64>| {
        // Every number has a decimal point. Otherwise libraries may take the column for integers.
        value.map_or(String::new(), |value| format!("{:?}", interleaf_record::rounded(value)))
    };
    let weights = |points: &[u16]| interleaf_record::predict::weights_text(points);
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
        case.policy.kind.to_string(),
        case.policy
            .weights
            .as_ref()
            .map_or(String::new(), |given| given.get_ref().value.to_string()),
        scenario.counter_noise.to_string(),
        curve_error(case).to_string(),
        scenario.migration.bandwidth_gbps.to_string(),
        scenario.seed.to_string(),
        optional(done.runtime_s),
        optional(done.speedup()),
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
