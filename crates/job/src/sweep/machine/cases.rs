//! Simulates the cases of a sweep of the simulated machine, and makes their rows.

use super::{Case, Load, MachineSweep};
use crate::{machine, sweep::Cases};
use interleaf_console::Failure;
use interleaf_model::{control::Settings, units::Time};
use interleaf_record::sweep::{COLUMNS, Column};
use interleaf_sim::machine::{Outcome, PreparedScenario, Scenario, StaticBest, Trial, static_best};
use rayon::prelude::*;
use std::{path::Path, time::Duration};

/// The cases of a sweep whose scenarios have been read and checked.
pub struct MachineCases {
    sweep: MachineSweep,
    /// The base cases, in the order of their indices.
    base_cases: Vec<BaseCase>,
}

/// The scenario that cases share if they differ only in the policy, the noise of counters, the
/// error of the curves that the policy believes, the migration rate, and the seed.
struct BaseCase {
    scenario: Scenario,
    /// Simulated time of each case.
    duration: Duration,
    /// The best static weights. `None` until a case of the base case is prepared; `Some(None)` if
    /// the pages do not fit into the tiers.
    best_static: Option<Option<StaticBest>>,
}

impl MachineSweep {
    /// Reads the scenario of each base case, so that an invalid scenario stops the sweep before any
    /// computation.
    ///
    /// # Errors
    /// When a platform, workload or scenario is unknown, a file is invalid, or a combination of
    /// values is impossible.
    pub fn checked(self) -> Result<MachineCases, Failure> {
        let of_base_case = |base_case: usize| {
            let case = self.case(self.first_case_of(base_case));
            let (scenario, own) = scenario(&self, &case)?;
            let asked = self.duration.as_ref().map(|duration| duration.value);
            let duration = machine::duration(asked, own);
            Ok(BaseCase { scenario, duration, best_static: None })
        };
        let base_cases: Result<_, Failure> = (0..self.base_cases()).map(of_base_case).collect();
        Ok(MachineCases { base_cases: base_cases?, sweep: self })
    }
}

impl Cases for MachineCases {
    fn name(&self) -> &str {
        &self.sweep.name
    }

    fn count(&self) -> usize {
        self.sweep.count()
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn input(&self) -> Vec<String> {
        let scenarios =
            self.base_cases.iter().map(|it| format!("{:?} {:?}", it.scenario, it.duration));
        std::iter::once(self.sweep.text.clone()).chain(scenarios).collect()
    }

    fn notes(&self) -> &[String] {
        &[]
    }

    fn rows_of(&self, case: usize) -> usize {
        self.base_cases[self.sweep.base_case(case)].scenario.tasks.len()
    }

    fn prepare(&mut self, cases: &[usize]) {
        let mut needed = vec![false; self.base_cases.len()];
        cases.iter().for_each(|case| needed[self.sweep.base_case(*case)] = true);
        self.base_cases.par_iter_mut().zip(needed).filter(|(_, needed)| *needed).for_each(
            |(base_case, _)| {
                let duration_s = base_case.duration.as_secs_f64();
                base_case.best_static = Some(static_best(&base_case.scenario, duration_s));
            },
        );
    }

    /// Simulates a case and returns a row for each of its workloads.
    fn rows(&self, case: usize) -> Result<Vec<Vec<String>>, Failure> {
        let base_case = &self.base_cases[self.sweep.base_case(case)];
        let case = self.sweep.case(case);
        let mut scenario = base_case.scenario.clone();
        if let Some(seed) = case.seed {
            scenario.seed = seed;
        }
        if let Some(noise) = &case.counter_noise {
            scenario.counter_noise = noise.value.fraction();
        }
        if let Some(rate) = &case.migration_rate {
            scenario.migration.bandwidth_gbps = rate.value.gbps();
        }
        let duration = base_case.duration;
        let best_static = base_case.best_static.clone().unwrap_or_else(|| {
            // Reached only if `prepare` was not called for this case: the best static weights are
            // searched now.
            static_best(&base_case.scenario, duration.as_secs_f64())
        });
        let prepared = PreparedScenario::with_best(&scenario, duration, best_static);
        let trial = Trial {
            policy: case.policy.kind,
            points: case.policy.points(&scenario)?,
            curve_error: curve_error(&case),
            settings: Settings::default(),
        };
        let outcome =
            prepared.run(&trial).map_err(|why| Failure::new(why.to_string(), why.hint()))?;
        Ok((0..scenario.tasks.len()).map(|task| row(&case, &scenario, &outcome, task)).collect())
    }
}

/// Returns the scenario of a case, and the duration in the scenario file, if the file has one.
fn scenario(sweep: &MachineSweep, case: &Case) -> Result<(Scenario, Option<Time>), Failure> {
    let platform = case.platform.as_ref().map(|name| name.get_ref().as_str());
    let of_platform = |why: Failure| match &case.platform {
        Some(name) => why.within(&sweep.place_of_platform(name)),
        None => why,
    };
    let (mut scenario, duration) = match &case.load {
        Load::Scenario(name) => {
            let platform =
                platform.map(interleaf_catalog::platform).transpose().map_err(of_platform)?;
            let of_scenario = |why: Failure| why.within(&sweep.place("scenario", name));
            interleaf_catalog::scenario(name.get_ref(), platform).map_err(of_scenario)?
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
            (interleaf_catalog::single_workload(&platform, &demand, threads, footprint)?, None)
        }
    };
    if let Some(groups) = sweep.page_groups {
        scenario.page_groups = groups;
    }
    scenario.check().map_err(|why| {
        Failure::new(format!("{case}: {why}"), why.hint()).within(&sweep.place_of(case, &why))
    })?;
    sweep.check_weights(&scenario)?;
    Ok((scenario, duration))
}

fn curve_error(case: &Case) -> f64 {
    case.curve_error.as_ref().map_or(0.0, |error| error.value.fraction())
}

fn row(case: &Case, scenario: &Scenario, outcome: &Outcome, at: usize) -> Vec<String> {
    let (task, done) = (&scenario.tasks[at], &outcome.tasks[at]);
    let optional = |value: Option<f64>| {
        // Every number gets a decimal point. Without one, libraries that read the column may take
        // it for a column of integers.
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
