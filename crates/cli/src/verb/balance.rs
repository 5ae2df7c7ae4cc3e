//! `interleaf balance`.

mod monitor;

use crate::args::BalanceArgs;
use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    launch::command::Signals,
    place::{actuator::SharedJournal, journal::Journal},
    root::Root,
};
use interleaf_model::{
    control::Controller,
    machine::{Decision, Machine as _, ScopeLayout},
};
use interleaf_observe::host::{Clock, Host, HostError};
use interleaf_record::{balance::BalancePeriod, run::PutBackDocument};
use notify::Manager;
use publish::Publisher;
use setup::Setup;
use std::{
    cell::RefCell,
    path::Path,
    process::ExitCode,
    rc::Rc,
    time::{Duration, Instant},
};
use interleaf_launch::restore;
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
    let config = config(args)?;
    output::check_writable(args.output.as_deref())?;
    let options = Options { duration: args.duration, json: args.json, output: args.output.clone() };
    if let Some(platform) = &args.platform {
        let workload = args.workload.as_deref();
        let machine = Machine { platform, workload, threads: args.threads };
        return simulated::run(&options, &config, &machine);
    }
    if args.advise || args.dry_run {
        // This machine is read like a captured one: writes are noted, and nothing is changed.
        let read = system::open_root(Some(root.unwrap_or(Path::new("/"))))?;
        return advise::run(args, &config, &read, root.is_some());
    }
    if args.dry_run {
        // This machine is read like a captured one: writes are noted.
        let root = system::open_root(Some(root.unwrap_or(Path::new("/"))))?;
        return dry_run::run(&config, args.json, &root).map(|()| ExitCode::SUCCESS);
    }
    let root = system::open_root(root)?;
    system::check_live(&root)?;
    let signals = Signals::hold().map_err(system::signal_failure)?;
    let (journal, undone) = Journal::open(&root).map_err(system::journal_failure)?;
    for undone in &undone {
        output::message(&format!("interleaf: {}", interleaf_report::run::restored(&undone.into())));
    }
    let journal: SharedJournal<'_> = Rc::new(RefCell::new(journal));
    let ended = balance(args, &config, &root, &journal, &signals);
    // Whatever moved pages has gone with `balance`; what it set is put back before we go.
    match (ended, put_back(journal)) {
        (Err(why), Err(left)) => {
            output::print_failure(left);
            Err(why)
        }
        (ended, done) => done.and(ended),
    }
    interleaf_daemon::run(&options, &config, &system::open_root(root)?)
}

/// The configuration file, with the values that other options have in its place.
fn config(args: &BalanceArgs) -> Result<Config, Failure> {
    let overrides = Overrides {
        policy: args.policy.as_deref(),
        period: args.period,
        feed: args.feed.as_deref(),
        way: args.way.as_deref(),
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

/// Observes, decides and moves pages until it is told to stop.
fn balance<'a>(
    args: &BalanceArgs,
    config: &Config,
    root: &'a Root,
    journal: &SharedJournal<'a>,
    signals: &Signals,
) -> Result<ExitCode, Failure> {
    let setup = Setup::read(config, root)?;
    let source = setup.source(config, root)?;
    let actuators = setup.actuators(config, root, journal, signals.stop_flag())?;
    for line in setup.words(config, &actuators, source.describe()) {
        output::message(&format!("interleaf: {line}"));
    }
    let mut controller = setup.controller(config)?;
    let manager = &Manager::new();
    let clock = Box::new(Waits { signals, manager, until: until(args) });
    let mut host = Host::new(root, setup.host.clone(), source, clock, actuators)
        .map_err(|why| failed(&why))?;
    let mut publisher = Publisher::daemon(config, args, manager)?;
    let tell = &mut |period: &[BalancePeriod]| publisher.publish(period);
    let done = started(&mut host, &controller, &setup, config)
        .inspect(|()| manager.ready("observing for the first period"))
        .and_then(|()| steer(&mut host, &mut controller, tell));
    manager.stopping();
    // The daemon has done its work all the same.
    let missing = publisher.close();
    match done {
        Ok(()) | Err(Stop::Machine(HostError::Stopped)) if missing.is_err() => {
            missing.err().map(output::print_failure);
            Ok(ExitCode::SUCCESS)
        }
        Ok(()) | Err(Stop::Machine(HostError::Stopped)) => Ok(ExitCode::SUCCESS),
        Err(Stop::Machine(why)) => Err(failed(&why)),
        Err(Stop::Output(why)) => Err(why),
    }
}

/// When it is to stop by itself.
fn until(args: &BalanceArgs) -> Option<Instant> {
    let limit = args.duration.and_then(|limit| Duration::try_from_secs_f64(limit.seconds()).ok());
    // What is too far away to be told is never.
    limit.and_then(|limit| Instant::now().checked_add(limit))
}

/// Why the loop ends.
enum Stop {
    Machine(HostError),
    Output(Failure),
}

impl From<HostError> for Stop {
    fn from(why: HostError) -> Self {
        Self::Machine(why)
    }
}

/// Places pages by what the policies want before anything was observed.
fn started(
    host: &mut Host<'_>,
    controller: &Controller,
    setup: &Setup,
    config: &Config,
) -> Result<(), Stop> {
    let tiers = host.layout().tiers.len();
    let scopes = host.layout().scopes.iter().enumerate();
    let target = |(scope, layout): (usize, &ScopeLayout)| {
        setup.target(config, scope, controller.start(layout.domain, tiers))
    };
    let decision = Decision { targets: scopes.map(target).collect() };
    Ok(host.apply(&decision)?)
}

/// Steers a machine that was [`started`] until there is reason to stop, and tells of each period, a
/// document for each domain.
fn steer(
    host: &mut Host<'_>,
    controller: &mut Controller,
    tell: &mut dyn FnMut(&[BalancePeriod]) -> Result<(), Failure>,
) -> Result<(), Stop> {
    loop {
        let period = controller.period(host, FOR_EVER);
        let notes = host.take_notes();
        // The notes of a period that a signal cuts short are printed too.
        let print = || {
            for note in &notes {
                output::message(&format!("interleaf: {note}"));
            }
        };
        let period = period.inspect_err(|_| print())?;
        let domains = period.domains.iter().enumerate();
        let documents: Vec<_> = domains
            .map(|(at, domain)| BalancePeriod::new(host, at, period.time_s, domain))
            .collect();
        tell(&documents).map_err(Stop::Output)?;
        print();
    }
}

/// Waits, unless a signal says to stop or the time is over.
struct Waits<'a> {
    signals: &'a Signals,
    manager: &'a Manager,
    until: Option<Instant>,
}

impl Clock for Waits<'_> {
    fn wait(&mut self, span: Duration) -> bool {
        self.manager.alive();
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let is_last = left.is_some_and(|left| left < span);
        let wait = left.map_or(span, |left| left.min(span));
        self.signals.wait(wait).is_none() && !is_last
    }
}

fn failed(why: &HostError) -> Failure {
    let hint: String = match why {
        HostError::Actuator(why) => return setup::actuator_failure(why),
        HostError::Source(_) => "see whether what it reads is still there".into(),
        HostError::Root(why) if why.is_permission() => "run it as root".into(),
        HostError::Root(_) | HostError::Stopped => "report it".into(),
    };
    Failure::new(why.to_string(), hint)
}
