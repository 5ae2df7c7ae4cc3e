//! `interleaf balance`: migrates pages between memory tiers as a policy decides, on this machine or
//! on a simulated one; prints advice; or watches a running daemon.

mod monitor;

use crate::args::BalanceArgs;
use interleaf_console::{Failure, output, support, system};
use interleaf_daemon::{
    Config, EXAMPLE, Options, Overrides, advise,
    config::SourceChoice,
    dry_run,
    simulated::{self, Machine},
};
use interleaf_launch::restore;
use interleaf_model::format::shell_text;
use interleaf_policy_process::PolicyCommand;
use std::path::Path;

pub(super) fn run(args: &BalanceArgs, root: Option<&Path>) -> Result<(), Failure> {
    if args.example_config {
        return output::data(EXAMPLE);
    }
    if let Some(socket) = &args.monitor {
        return monitor::monitor(socket.as_deref(), args.json);
    }
    if args.restore {
        return restore::restore(args.dry_run, args.json, &system::open_root(root)?);
    }
    check_outputs(args)?;
    let config = config(args)?;
    let command = policy_command(args)?;
    let options = Options { duration: args.duration, json: args.json, output: args.output.clone() };
    if let Some(platform) = &args.platform {
        let workload = args.workload.as_deref();
        let machine = Machine { platform, workload, threads: args.threads };
        return simulated::run(&options, &config, &machine);
    }
    if args.advise || args.dry_run {
        // Open this machine as if it were a captured machine. Then a write to a file of the kernel
        // is only recorded as planned, and changes nothing.
        let read = system::open_root(Some(root.unwrap_or(Path::new("/"))))?;
        return match args.advise {
            true => {
                let own = command.map(|command| advise::OwnPolicy {
                    name: args.policy.clone().unwrap_or_default(),
                    command,
                });
                advise::run(&options, &config, own.as_ref(), &read, root.is_some())
            }
            false => dry_run::run(&config, args.json, &read),
        };
    }
    interleaf_daemon::run(&options, &config, &system::open_root(root)?)
}

/// Rejects output options that do not suit the requested kind of run (daemon, simulation, advice or
/// dry run), and output files that cannot be written.
fn check_outputs(args: &BalanceArgs) -> Result<(), Failure> {
    support::reject_given(
        &[(args.dry_run && args.output.is_some(), "-o")],
        "records periods, and --dry-run has none",
        "write the plan to a file: balance --dry-run --json > FILE",
    )?;
    let has_loop = args.platform.is_none() && !args.advise && !args.dry_run;
    support::reject_given(
        &[(!has_loop && args.metrics.is_some(), "--metrics")],
        "serves the metrics of pages that move on this machine",
        "leave out what keeps them from moving: --platform, --advise or --dry-run",
    )?;
    let is_stdout = args.output.as_deref() == Some(Path::new("-"));
    support::reject_given(
        &[(is_stdout, "-o -")],
        "would be mixed with the lines of the periods on stdout",
        "print the documents there: --json",
    )?;
    support::check_outputs(args.output.as_deref(), None, &[])
}

/// Returns the command of the policy `exec:COMMAND`, which is allowed only with `--advise`. A
/// policy that migrates pages has the daemon's rights, so it must be part of the daemon.
fn policy_command(args: &BalanceArgs) -> Result<Option<PolicyCommand>, Failure> {
    let Some(policy) = &args.policy else { return Ok(None) };
    let Some(command) = PolicyCommand::parse(policy) else { return Ok(None) };
    if !args.advise {
        let problem = format!("--policy {policy}: a process as policy moves no pages of a machine");
        // `--advise` cannot be combined with `--platform`, so the hint for a platform names another
        // verb.
        let hint = match &args.platform {
            Some(name) => format!(
                "simulate it: interleaf simulate machine --platform {} --workload {} --policy {}",
                shell_text::word(name),
                shell_text::word(args.workload.as_deref().unwrap_or(simulated::WORKLOAD)),
                shell_text::word(policy)
            ),
            None => "add --advise, or simulate it: interleaf simulate machine --policy \
                     exec:COMMAND"
                .into(),
        };
        return Err(Failure::new(problem, hint));
    }
    command.map(Some).map_err(|why| Failure::new(why.to_string(), why.hint()))
}

/// Reads the configuration file. Options of the command line override its values.
fn config(args: &BalanceArgs) -> Result<Config, Failure> {
    let overrides = Overrides {
        policy: args.policy.as_deref().filter(|policy| PolicyCommand::parse(policy).is_none()),
        period: args.period,
        feed: args.feed.as_deref(),
        actuator: args.way.as_deref(),
        curves: args.curves.as_deref(),
        stop_rivals: args.stop_rivals,
    };
    let mut config = Config::load(args.config.as_deref(), &overrides)?;
    if !args.process.is_empty() {
        config.steer_processes(&args.process, "--process")?;
    }
    if let Some(path) = &args.replay {
        config.source = SourceChoice::Replay(path.clone());
    }
    config.metrics = args.metrics.or(config.metrics);
    Ok(config)
}
