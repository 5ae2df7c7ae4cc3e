//! `interleaf simulate`: simulates a policy on a machine, or a memory module.

mod dimm;
mod sweep;

pub(super) use dimm::dimm;

use crate::args::MachineArgs;
use core::time::Duration;
use interleaf_console::{Failure, output, support};
use interleaf_model::{control::Settings, policy::PolicyKind, units::Time};
use interleaf_record::{
    Document,
    simulate::{SimulateDocument, TrialParameters},
};
use interleaf_sim::machine::{Arena, Outcome, Scenario, ScenarioError, Trial};

/// Default simulated time, s.
const DURATION_S: f64 = 600.0;

/// Steps of the progress bar for each policy.
const STEPS: u64 = 100;

pub(super) fn machine(args: &MachineArgs) -> Result<(), Failure> {
    support::check_outputs(args.output.options(), args.report.as_deref())?;
    if let Some(file) = &args.sweep {
        return sweep::run(file, args.output.output.as_deref());
    }
    let policy: PolicyKind = args.policy.parse().map_err(|why: String| Failure::new(why, ""))?;
    if args.weights.is_some() && policy != PolicyKind::Static {
        return Err(Failure::new(
            format!("--weights goes with --policy static: {policy} finds its own"),
            "leave --weights out, or ask for --policy static",
        ));
    }
    let (scenario, duration) = scenario(args)?;
    let names = scenario.platform.tier_names();
    let points = match &args.weights {
        None => None,
        Some(weights) => {
            let weights = weights.clone().for_tiers(&names).map_err(|why| {
                Failure::new(why.to_string(), "give one weight for each tier, 0 keeps one out")
            })?;
            Some(weights.as_slice().to_vec())
        }
    };
    let trial = Trial {
        policy,
        points,
        curve_error: args.curve_error.part(),
        settings: Settings::default(),
    };
    let document = document(&scenario, duration, &trial, args.compare)?;
    support::print_document(
        args.output.options(),
        &interleaf_record::json(&document),
        || interleaf_report::simulate::csv(&document),
        || interleaf_report::simulate::text(&document),
    )?;
    if let Some(target) = &args.report {
        output::file(
            target,
            &interleaf_report::html::page(&Document::Machine(Box::new(document))),
        )?;
        output::message(&format!("the report is in {}", target.display()));
    }
    Ok(())
}

/// Runs the trial, and with `compare` also every other policy.
fn document(
    scenario: &Scenario,
    duration: Duration,
    trial: &Trial,
    compare: bool,
) -> Result<SimulateDocument, Failure> {
    let others: Vec<PolicyKind> = PolicyKind::ALL
        .iter()
        .map(|(kind, ..)| *kind)
        .filter(|kind| compare && *kind != trial.policy)
        .collect();
    let steps = STEPS * (1 + others.len() as u64);
    let progress = output::progress(steps, "the best static weights");
    let arena = Arena::new(scenario, duration);
    let run = |trial: &Trial| -> Result<Outcome, Failure> {
        progress.set_message(trial.policy.to_string());
        let begun = progress.position();
        let mut run = arena.start(trial).map_err(interleaf_catalog::curve_failure)?;
        while run.period().is_some() {
            progress.set_position(begun + (run.progress() * STEPS as f64) as u64);
        }
        Ok(arena.outcome(run))
    };
    let outcome = run(trial)?;
    let policy = trial.policy.to_string();
    let stated = TrialParameters {
        policy: &policy,
        duration_s: duration.as_secs_f64(),
        curve_error: trial.curve_error,
    };
    let mut document = SimulateDocument::new(scenario, &stated, &outcome);
    for policy in others {
        let outcome = run(&Trial { policy, points: None, ..trial.clone() })?;
        document.add_comparison(scenario, &policy.to_string(), &outcome);
    }
    progress.finish_and_clear();
    Ok(document)
}

/// Reads the scenario and its duration.
fn scenario(args: &MachineArgs) -> Result<(Scenario, Duration), Failure> {
    let (mut scenario, own_duration) = match &args.scenario {
        Some(name) => of_file(args, name)?,
        None => (of_workload(args)?, None),
    };
    if let Some(rate) = &args.migration_rate {
        scenario.migration.bandwidth_gbps = rate.gbps();
    }
    if let Some(noise) = &args.counter_noise {
        scenario.counter_noise = noise.part();
    }
    if let Some(seed) = args.seed {
        scenario.seed = seed;
    }
    scenario.check().map_err(|why| {
        let failure = Failure::new(why.to_string(), why.hint());
        match (why, &args.demand) {
            (ScenarioError::TooManyThreads { .. }, _) if args.threads.is_some() => {
                failure.within("--threads")
            }
            (ScenarioError::TooLarge { .. }, _) if args.footprint.is_some() => {
                failure.within("--footprint")
            }
            (ScenarioError::TooShort { .. } | ScenarioError::TooLong { .. }, Some(demand)) => {
                failure.within(&demand.display().to_string())
            }
            _ => failure,
        }
    })?;
    let duration = args.duration.or(own_duration).map_or(DURATION_S, Time::seconds);
    Ok((scenario, Duration::from_secs_f64(duration)))
}

fn of_file(args: &MachineArgs, name: &str) -> Result<(Scenario, Option<Time>), Failure> {
    for (given, option) in
        [(args.threads.is_some(), "--threads"), (args.footprint.is_some(), "--footprint")]
    {
        if given {
            return Err(Failure::new(
                format!("{option} goes with --workload: a scenario has its own workloads"),
                format!("leave {option} out, or change it in the scenario file"),
            ));
        }
    }
    interleaf_catalog::scenario(name, args.platform.as_deref())
}

fn of_workload(args: &MachineArgs) -> Result<Scenario, Failure> {
    let Some(platform) = &args.platform else {
        return Err(Failure::new(
            "there is no platform to simulate",
            format!("give --platform, one of {}", interleaf_catalog::platform_names().join(", ")),
        ));
    };
    let platform = interleaf_catalog::platform(platform)?;
    let demand = match (&args.workload, &args.demand) {
        (Some(name), _) => interleaf_catalog::workload(name)?,
        (_, Some(path)) => interleaf_catalog::demand(path)?,
        // clap requires one of the two.
        (None, None) => return Err(Failure::new("there is no workload", "give --workload NAME")),
    };
    interleaf_catalog::single_workload(&platform, &demand, args.threads, args.footprint)
}
