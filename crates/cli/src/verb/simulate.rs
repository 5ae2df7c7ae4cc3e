//! `interleaf simulate`: simulates a machine with a placement policy, memory modules, or NVRAM
//! cards.

mod card;
mod dimm;
mod policy_process;
mod sweep;

pub(super) use {card::card, dimm::dimm};

use super::{page, progress::Bar};
use crate::args::MachineArgs;
use interleaf_console::{Failure, support};
use interleaf_job::{
    machine::{self, MachineJob, ScenarioChanges},
    sweep::machine::MachineSweep,
};
use interleaf_launch::signal_status;
use interleaf_model::{
    policy::PolicyKind,
    units::{Percent, Time},
};
use interleaf_record::Document;
use interleaf_sim::machine::{Scenario, ScenarioError};
use policy_process::SimulationEnd;
use std::process::ExitCode;
use sweep::Outputs;

pub(super) fn machine(args: &MachineArgs) -> Result<ExitCode, Failure> {
    if let Some(file) = &args.sweep {
        let outputs = Outputs {
            rows: args.output.output.as_deref(),
            parquet: args.parquet.as_deref(),
            report: args.report.as_deref(),
        };
        sweep::run(file, &mut MachineSweep::read(file)?.checked()?, &outputs)?;
        return Ok(ExitCode::SUCCESS);
    }
    sweep::reject_parquet(args.parquet.as_deref())?;
    support::check_outputs(args.output.output.as_deref(), args.report.as_deref(), &[])?;
    let command = policy_process::command(args)?;
    let (scenario, own_duration) = scenario(args)?;
    let job = MachineJob {
        scenario,
        duration: machine::duration(args.duration, own_duration),
        // A policy that is a command (`exec:COMMAND`) runs in the module `policy_process`, which
        // ignores this field. The value is arbitrary then.
        policy: match command {
            Some(_) => PolicyKind::Dmi,
            None => args.policy.parse().map_err(|why: String| Failure::new(why, ""))?,
        },
        weights: args.weights.clone(),
        curve_error: args.curve_error,
        compare: args.compare,
    };
    if args.curve_error != Percent::ZERO && !args.compare && !machine::uses_curves(job.policy) {
        return Err(Failure::new(
            format!("--curve-error goes with --policy guided: {} uses no curves", args.policy),
            "leave --curve-error out, or ask for --policy guided or --compare",
        ));
    }
    let document = match command {
        None => job.run(&Bar::default())?,
        Some(command) => match policy_process::run(&job, &args.policy, command)? {
            SimulationEnd::Done(document) => *document,
            SimulationEnd::Signal(number) => return Ok(signal_status(number)),
        },
    };
    support::print_document(
        args.output.options(),
        &interleaf_record::json(&document),
        || interleaf_report::simulate_machine::csv(&document),
        || interleaf_report::simulate_machine::text(&document),
    )?;
    support::warn_beside_csv(args.output.options(), &document.warnings);
    page::write(args.report.as_deref(), || Document::Machine(Box::new(document)))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the scenario of `--scenario` and its duration. Without `--scenario`, creates a scenario
/// from the workload in `args`, without a duration. Applies the options that change a scenario.
fn scenario(args: &MachineArgs) -> Result<(Scenario, Option<Time>), Failure> {
    let (mut scenario, own_duration) = match &args.scenario {
        Some(name) => of_file(args, name)?,
        None => (of_workload(args)?, None),
    };
    let changes = ScenarioChanges {
        migration_rate: args.migration_rate,
        counter_noise: args.counter_noise,
        seed: args.seed,
    };
    changes.apply(&mut scenario);
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
    Ok((scenario, own_duration))
}

fn of_file(args: &MachineArgs, name: &str) -> Result<(Scenario, Option<Time>), Failure> {
    support::reject_given(
        &[(args.threads.is_some(), "--threads"), (args.footprint.is_some(), "--footprint")],
        "goes with --workload: a scenario has its own workloads",
        "change it in the scenario file",
    )?;
    let platform = args.platform.as_deref().map(interleaf_catalog::platform).transpose()?;
    interleaf_catalog::scenario(name, platform)
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
        // clap requires one of --workload and --demand, so this case does not occur.
        (None, None) => return Err(Failure::new("there is no workload", "give --workload NAME")),
    };
    interleaf_catalog::single_workload(&platform, &demand, args.threads, args.footprint)
}
