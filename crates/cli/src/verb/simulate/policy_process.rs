//! `interleaf simulate machine --policy exec:COMMAND`: the policy is a process that runs COMMAND,
//! reads the counters of each period, and answers with weights of the memory tiers.

use crate::{args::MachineArgs, verb::progress::Bar};
use core::time::Duration;
use interleaf_console::{Failure, output, support, system};
use interleaf_job::{
    Progress,
    machine::{MachineJob, OwnPolicy},
};
use interleaf_linux::launch::command::Signals;
use interleaf_model::machine::TierLayout;
use interleaf_policy_process::{PolicyCommand, PolicyProcessError, PolicyProcesses, TIME_LIMIT};
use interleaf_record::simulate_machine::SimulateDocument;

/// The command that serves as the policy, and the time limit for each of its answers.
pub(super) struct LimitedCommand {
    command: PolicyCommand,
    limit: Duration,
}

/// The way in which a simulation ended: with a document, or early after a signal.
pub(super) enum SimulationEnd {
    Done(Box<SimulateDocument>),
    /// This process received this signal.
    Signal(i32),
}

/// Returns the command that serves as the policy; `None` if the options name a built-in policy.
pub(super) fn command(args: &MachineArgs) -> Result<Option<LimitedCommand>, Failure> {
    let command = PolicyCommand::parse(&args.policy).transpose().map_err(failure)?;
    let only = |given: bool, option: &str, policy: &str| {
        let why = format!("goes with --policy {policy}, not {}", args.policy);
        support::reject_given(&[(given, option)], &why, &format!("ask for --policy {policy}"))
    };
    let Some(command) = command else {
        only(args.policy_limit.is_some(), "--policy-limit", "exec:COMMAND")?;
        return Ok(None);
    };
    only(args.weights.is_some(), "--weights", "static")?;
    let limit = args.policy_limit.map_or(TIME_LIMIT, |time| {
        // A limit above `LIMIT_MAX` makes no difference in practice, so reduce it to `LIMIT_MAX`.
        Duration::try_from_secs_f64(time.seconds()).map_or(LIMIT_MAX, |it| it.min(LIMIT_MAX))
    });
    Ok(Some(LimitedCommand { command, limit }))
}

/// The longest time limit of an answer (`--policy-limit`): a day.
const LIMIT_MAX: Duration = Duration::from_secs(86_400);

/// Simulates `job` with the command as the policy. `name` is the policy's name in the record.
pub(super) fn run(
    job: &MachineJob,
    name: &str,
    LimitedCommand { command, limit }: LimitedCommand,
) -> Result<SimulationEnd, Failure> {
    let signals = Signals::hold().map_err(system::signal_failure)?;
    let processes = PolicyProcesses::new(command, limit, signals.stop_flag());
    let make = |domain: usize, tiers: &[TierLayout]| processes.policy(domain, tiers);
    let watched = Watched { bar: Bar::default(), processes: &processes };
    let own = OwnPolicy { name, make: &make };
    let done = job.run_own(&own, &|| job.best_static(), &watched);
    if let Some(why) = processes.failure() {
        return Err(failure(why));
    }
    match (done, signals.arrived_signal()) {
        (Err(_), Some(number)) => {
            output::message("stopped by a signal before the end of the simulation");
            Ok(SimulationEnd::Signal(number))
        }
        (done, _) => done.map(|document| SimulationEnd::Done(Box::new(document))),
    }
}

fn failure(why: PolicyProcessError) -> Failure {
    Failure::new(why.to_string(), why.hint())
}

/// Shows the progress of a job. Ends the job when a policy process fails or a signal arrives.
struct Watched<'a> {
    bar: Bar,
    processes: &'a PolicyProcesses,
}

impl Progress for Watched<'_> {
    fn begin(&self, steps: u64, task: &str) {
        self.bar.begin(steps, task);
    }

    fn describe(&self, task: &str) {
        self.bar.describe(task);
    }

    fn advance(&self, steps: u64) {
        self.bar.advance(steps);
    }

    fn end(&self) {
        self.bar.end();
    }

    fn is_stopped(&self) -> bool {
        self.processes.is_stopped()
    }
}
