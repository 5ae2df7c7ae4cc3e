//! Runs a command, whose pages the control loop steers until the command ends.

use crate::{
    config::{Config, Overrides, Scope as Wanted},
    control_loop::{Stop, host_failure, place_first, steer},
    setup::Setup,
};
use interleaf_console::{Failure, output, system};
use interleaf_launch::Ended;
use interleaf_linux::{
    launch::command::{Running, Signals},
    place::{
        actuator::{Scope, SharedJournal},
        journal::Journal,
        mempolicy::Policy,
    },
    root::Root,
    stop_flag::StopFlag,
};
use interleaf_model::{
    control::Controller,
    units::{Bandwidth, Time},
};
use interleaf_observe::{
    host::{Clock, Host, HostError},
    source::Source,
};
use interleaf_record::{
    balance::BalancePeriod,
    run::{BalancedDocument, PutBackDocument, RunDocument},
};
use std::{
    cell::RefCell, ffi::OsString, io, path::PathBuf, process::ExitStatus, rc::Rc, time::Duration,
};

/// The longest single wait for the end of the command after steering has ended. Waits are repeated
/// until the command ends.
const WAIT_INTERVAL: Duration = Duration::from_secs(3600);

/// The options of a command whose pages a policy steers.
#[derive(Clone, Debug)]
pub struct SteerOptions {
    /// The command and its arguments; never empty.
    pub command: Vec<OsString>,
    /// The name of the policy; `None` for `dmi`.
    pub policy: Option<String>,
    /// The time between two decisions of the policy; `None` for 6 s.
    pub period: Option<Time>,
    /// The socket to which other programs write counts of traffic; these counts are then read in
    /// place of counters.
    pub feed: Option<PathBuf>,
    /// The name of the actuator, such as `vaddr` or `pages`; `None` for the best that the machine
    /// supports.
    pub actuator: Option<String>,
    /// The name or the file of a platform (the description of a server). The policy takes the
    /// latency-bandwidth curves of this platform as those of this machine. With `None`, it uses the
    /// firmware's ratings of the nodes.
    pub platform: Option<String>,
    /// True if kernel features that move pages or use DAMON are switched off while the command
    /// runs.
    pub stop_rivals: bool,
    /// The upper limit of the migration rate.
    pub migration_rate: Bandwidth,
    /// True if the run of the command is only planned.
    pub dry_run: bool,
    /// True if the setup, the periods and the restored settings are not printed. Warnings and
    /// errors are always printed.
    pub quiet: bool,
}

/// Runs a command and steers its pages until it ends. A dry run only reads the machine and plans.
/// `command` is the command as written to the record. Returns the record, and, if the command ran,
/// how it ended.
///
/// # Errors
/// When the pages cannot be steered, or the command cannot be started.
pub fn run_steered(
    options: &SteerOptions,
    root: &Root,
    command: Vec<String>,
) -> Result<(RunDocument, Option<Ended>), Failure> {
    let config = config(options, &command)?;
    if options.dry_run {
        let setup = prepare(&config, root)?;
        let document = document(&setup, &config, root, command)?;
        return Ok((document, None));
    }
    let signals = Signals::hold().map_err(system::signal_failure)?;
    let (journal, undone) = Journal::open(root).map_err(system::journal_failure)?;
    for undone in &undone {
        output::message(&format!("interleaf: {}", interleaf_report::run::restored(&undone.into())));
    }
    let journal: SharedJournal<'_> = Rc::new(RefCell::new(journal));
    let mut setup = prepare(&config, root)?;
    let source = setup.source(&config, root)?;
    let mut document = document(&setup, &config, root, command)?;
    if let Some(balanced) = &mut document.balance {
        balanced.source = source.describe();
        output::note(options.quiet, &interleaf_report::run::balanced(balanced));
    }
    let ended = match signals.arrived_signal() {
        Some(signal) => Ended::not_started(signal),
        None => {
            let job = Job { options, config: &config, root, setup: &mut setup, source };
            job.run(&signals, &journal, &mut document)?
        }
    };
    if let Ok(journal) = Rc::try_unwrap(journal) {
        let undone = journal.into_inner().close().map_err(system::journal_failure)?;
        document.put_back = undone.iter().map(PutBackDocument::from).collect();
        interleaf_launch::restore::report_restored(options.quiet, &document.put_back);
    }
    Ok((document, Some(ended)))
}

/// Returns the configuration of the control loop that steers the pages of `command`.
fn config(options: &SteerOptions, command: &[String]) -> Result<Config, Failure> {
    let mut config = Config { rate_limit: options.migration_rate, ..Config::default() };
    config.overrule(&Overrides {
        policy: options.policy.as_deref(),
        period: options.period,
        feed: options.feed.as_deref(),
        actuator: options.actuator.as_deref(),
        curves: options.platform.as_deref(),
        stop_rivals: options.stop_rivals,
    })?;
    config.scope = Wanted::Processes(command.first().cloned().into_iter().collect());
    Ok(config)
}

/// Reads the setup before the command runs, and checks that an actuator can migrate the command's
/// pages.
fn prepare(config: &Config, root: &Root) -> Result<Setup, Failure> {
    let mut setup = Setup::read(config, root)?;
    if let Some(warning) = setup.ignored_ratings() {
        output::message(&format!("interleaf: warning: {warning}"));
    }
    setup.scope = Scope::Processes(vec![]);
    setup.choice(config)?;
    Ok(setup)
}

fn document(
    setup: &Setup,
    config: &Config,
    root: &Root,
    command: Vec<String>,
) -> Result<RunDocument, Failure> {
    let choice = setup.choice(config)?;
    let start = setup.points(&setup.start(config, None)?);
    let nodes = start.iter().flat_map(|domain| &domain.nodes);
    let nodes = nodes.map(|node| (node.node, u32::from(node.points))).collect();
    let balanced = BalancedDocument {
        policy: config.policy.to_string(),
        way: choice.kind.into(),
        way_reason: choice.reason,
        source: setup.counted(config, root).summary_line(),
        period_s: config.period.as_secs_f64(),
        periods: vec![],
    };
    Ok(RunDocument { dry_run: !root.is_live(), ..RunDocument::steered(nodes, balanced, command) })
}

/// A command that is about to start, with the setup for steering its pages and the source of
/// bandwidth figures.
struct Job<'j, 'a> {
    options: &'j SteerOptions,
    config: &'j Config,
    root: &'a Root,
    setup: &'j mut Setup,
    source: Box<dyn Source>,
}

/// A running command. `ended` has its exit status once it has ended.
struct Child<'s> {
    running: Running<'s>,
    ended: Option<io::Result<ExitStatus>>,
}

impl<'a> Job<'_, 'a> {
    /// Runs the command to its end, even if steering fails.
    fn run(
        self,
        signals: &Signals,
        journal: &SharedJournal<'a>,
        document: &mut RunDocument,
    ) -> Result<Ended, Failure> {
        // Make the controller before the command starts. An error that is returned after the start
        // would leave the command without a parent that waits for its end; therefore the errors of
        // `steer` are only printed.
        let mut controller = self.setup.controller(self.config, None)?;
        let (program, arguments) =
            self.options.command.split_first().unwrap_or_else(|| unreachable!());
        let running =
            signals.start(&Policy::Default, program, arguments).map_err(system::start_failure)?;
        self.setup.scope = Scope::Processes(vec![running.pid()]);
        let child = RefCell::new(Child { running, ended: None });
        let quiet = self.options.quiet;
        let mut periods = vec![];
        let steered = self.steer(&child, journal, &mut controller, &mut |period| {
            for document in period {
                output::note(quiet, interleaf_report::balance::line(document).trim_start());
            }
            periods.extend_from_slice(period);
            Ok(())
        });
        let mut child = child.into_inner();
        if let Err(Failure::Error { problem, hint }) = steered
            && child.ended.is_none()
        {
            output::message(&format!(
                "interleaf: its pages stay where they are: {problem} ({hint})"
            ));
        }
        let status = loop {
            match child.ended.take() {
                Some(ended) => break ended.map_err(system::wait_failure)?,
                None => child.ended = child.running.wait(WAIT_INTERVAL).transpose(),
            }
        };
        if let Some(balanced) = &mut document.balance {
            balanced.periods = periods;
        }
        document.record_exit(status);
        let (elapsed, signal) = (child.running.elapsed(), child.running.arrived_signal());
        Ok(Ended { status: Some(status), elapsed, signal })
    }

    /// Steers the command's pages until the command ends.
    fn steer(
        self,
        child: &RefCell<Child<'_>>,
        journal: &SharedJournal<'a>,
        controller: &mut Controller,
        publish: &mut dyn FnMut(&[BalancePeriod]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Self { config, root, setup, source, .. } = self;
        // Signals are passed to the command, and steering ends with the command. Therefore nothing
        // sets this stop flag.
        let actuators = setup.actuators(config, root, journal, StopFlag::default())?;
        let clock = Box::new(CommandClock(child));
        let mut host = Host::new(root, setup.host.clone(), source, clock, actuators)
            .map_err(|why| host_failure(&why))?;
        let done = place_first(&mut host, controller, setup, config)
            .and_then(|()| steer(&mut host, controller, publish));
        match done {
            Ok(()) | Err(Stop::Machine(HostError::Stopped)) => Ok(()),
            Err(Stop::Machine(why)) => Err(host_failure(&why)),
            Err(Stop::Output(why)) => Err(why),
        }
    }
}

/// A clock that waits for a span of time or until the end of the command, and passes signals on to
/// the command meanwhile.
struct CommandClock<'c, 's>(&'c RefCell<Child<'s>>);

impl Clock for CommandClock<'_, '_> {
    fn wait(&mut self, span: Duration) -> bool {
        let mut child = self.0.borrow_mut();
        child.ended = child.running.wait(span).transpose();
        child.ended.is_none()
    }
}
