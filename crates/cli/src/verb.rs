//! The verbs of the command line. Each verb has its own module.

mod balance;
mod bench;
mod compare;
mod doctor;
mod export;
mod extend;
mod measure;
mod page;
mod plan;
mod predict;
mod progress;
mod report;
mod reproduce;
mod run;
mod show;
mod simulate;
mod terminal;
mod tune;

use crate::args::{Cli, ShowArgs, Simulate, Verb};
use interleaf_console::Failure;
use std::process::ExitCode;

/// Runs the verb in `cli`. Rejects `--root` (a captured machine) with verbs that read no machine.
pub(crate) fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let root = cli.root.as_deref();
    let refused = match cli.verb {
        Some(
            Verb::Predict(_)
            | Verb::Plan(_)
            | Verb::Simulate(_)
            | Verb::Reproduce(_)
            | Verb::Report(_),
        ) => Some((
            "--root: this verb reads no machine",
            "leave it out; --platform names a platform, and measure --export-curves measures one",
        )),
        Some(Verb::Bench(_)) => Some((
            "--root: benchmarks run on this machine only",
            "leave it out; `interleaf predict` and `interleaf simulate machine` need no machine",
        )),
        _ => None,
    };
    if let Some((problem, hint)) = refused.filter(|_| root.is_some()) {
        return Err(Failure::new(problem, hint));
    }
    let done = match cli.verb {
        Some(Verb::Run(args)) => return run::run(&args, root),
        Some(Verb::Extend(args)) => return extend::run(&args, root),
        Some(Verb::Tune(args)) => return tune::run(&args, root),
        Some(Verb::Measure(args)) => return measure::run(&args, root),
        Some(Verb::Bench(bench)) => return bench::run(&bench),
        Some(Verb::Compare(args)) => return compare::run(&args, root),
        Some(Verb::Balance(args)) => balance::run(&args, root),
        None => show::run(&ShowArgs::default(), root),
        Some(Verb::Show(args)) => show::run(&args, root),
        Some(Verb::Doctor(args)) => doctor::run(&args, root),
        Some(Verb::Predict(args)) => predict::run(&args),
        Some(Verb::Plan(args)) => plan::run(&args),
        Some(Verb::Simulate(Simulate::Card(args))) => return simulate::card(&args),
        Some(Verb::Simulate(Simulate::Machine(args))) => return simulate::machine(&args),
        Some(Verb::Simulate(Simulate::Dimm(args))) => simulate::dimm(&args),
        Some(Verb::Reproduce(args)) => return reproduce::run(&args),
        Some(Verb::Report(args)) => report::run(&args),
    };
    done.map(|()| ExitCode::SUCCESS)
}
