//! `interleaf balance`.

mod config;
mod setup;

mod publish;

mod metrics;

mod http;

mod watchers;

mod notify;

mod monitor;

use super::{placed, restore};
use crate::{
    args::BalanceArgs, document::balance::PeriodDocument, failure::Failure, output, render,
};
use config::{Config, EXAMPLE};
use interleaf_linux::{
    actuator::{Actuator, SharedJournal},
    command::Signals,
    host::{Clock, Host, HostError},
    journal::Journal,
    root::Root,
};
use interleaf_model::{
    control::Controller,
    machine::{Decision, Machine as _, Order, Target},
};
use notify::Manager;
use publish::Publisher;
use setup::Setup;
use std::{cell::RefCell, path::Path, process::ExitCode, rc::Rc, time::Duration};

/// Samples in a period, at least.
const SAMPLES_MIN: u32 = 10;

/// Longer than any daemon runs.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);

pub(super) fn start(args: &BalanceArgs, root: Option<&Path>) -> Result<ExitCode, Failure> {
    if args.example_config {
        return output::data(EXAMPLE).map(|()| ExitCode::SUCCESS);
    }
    if let Some(socket) = &args.monitor {
        return monitor::monitor(socket.as_deref(), args.json).map(|()| ExitCode::SUCCESS);
    }
    if args.restore {
        let root = super::root(root)?;
        return restore::restore(args.dry_run, args.json, &root).map(|()| ExitCode::SUCCESS);
    }
    let config = config(args)?;
    output::check_writable(args.output.as_deref())?;
    if args.dry_run {
        // This machine is read like a captured one: writes are noted.
        let root = super::root(Some(root.unwrap_or(Path::new("/"))))?;
        return dry_run(&config, &root).map(|()| ExitCode::SUCCESS);
    }
    let root = super::root(root)?;
    placed::live(&root)?;
    let signals = Signals::hold().map_err(placed::unheld)?;
    let (journal, undone) = Journal::open(&root).map_err(restore::unkept)?;
    for undone in &undone {
        output::message(&format!("interleaf: {}", render::run::put_back(&undone.into())));
    }
    let journal: SharedJournal<'_> = Rc::new(RefCell::new(journal));
    let ended = balance(args, &config, &root, &journal, &signals);
    // Whatever moved pages has gone with `balance`; what it set is put back before we go.
    drop(journal);
    ended
}

/// The configuration, with what the command line says otherwise.
fn config(args: &BalanceArgs) -> Result<Config, Failure> {
    let mut config = match &args.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    if let Some(policy) = &args.policy {
        config.policy = policy.parse().map_err(|why: String| Failure::new(why, ""))?;
    }
    if !args.process.is_empty() {
        config.scope = config::Scope::Processes(args.process.clone());
    }
    if let Some(path) = &args.feed {
        config.source = config::SourceChoice::Feed(path.clone());
    }
    if let Some(period) = args.period {
        config.period = Duration::from_secs_f64(period.seconds());
        config.sample = config.sample.min(config.period / SAMPLES_MIN);
    }
    if let Some(way) = &args.way {
        config.way = config::wanted_way(way).ok_or_else(|| {
            let problem = format!("--way {way}: there is no such way to move pages");
            Failure::new(problem, "write one of auto, vaddr, paddr, quota, pages")
        })?;
    }
    config.stop_rivals |= args.stop_rivals;
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
    let actuators: Vec<Option<Box<dyn Actuator + 'a>>> = match args.advise {
        true => setup.scopes().iter().map(|_| None).collect(),
        false => setup.actuators(config, root, journal)?,
    };
    for line in setup.words(&actuators, source.describe()) {
        output::message(&format!("interleaf: {line}"));
    }
    let mut controller = setup.controller(config)?;
    let (manager, until) = (&Manager::new(), args.duration.map(|limit| limit.seconds()));
    let clock = Box::new(Waits { signals, manager, until });
    let mut host = Host::new(root, setup.host.clone(), source, clock, actuators)
        .map_err(|why| failed(&why))?;
    let mut publisher = Publisher::new(config, args, manager)?;
    let done = started(&mut host, &controller)
        .inspect(|()| manager.ready("observing for the first period"))
        .and_then(|()| periods(&mut host, &mut controller, &mut publisher));
    manager.stopping();
    publisher.close();
    match done {
        Ok(()) | Err(Stop::Machine(HostError::Stopped)) => Ok(ExitCode::SUCCESS),
        Err(Stop::Machine(why)) => Err(failed(&why)),
        Err(Stop::Output(why)) => Err(why),
    }
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
fn started(host: &mut Host<'_>, controller: &Controller) -> Result<(), Stop> {
    let tiers = host.layout().tiers.len();
    let scopes = host.layout().scopes.iter().enumerate();
    let target = |(scope, layout): (usize, &interleaf_model::machine::ScopeLayout)| Target {
        scope,
        shares: controller.start(layout.domain, tiers),
        order: Order::Interleave,
        rate_limit_gbps: None,
    };
    let decision = Decision { targets: scopes.map(target).collect() };
    Ok(host.apply(&decision)?)
}

fn periods(
    host: &mut Host<'_>,
    controller: &mut Controller,
    publisher: &mut Publisher<'_>,
) -> Result<(), Stop> {
    loop {
        let period = controller.period(host, FOR_EVER)?;
        for (at, domain) in period.domains.iter().enumerate() {
            let document = PeriodDocument::new(host, at, period.time_s, domain);
            publisher.publish(&document).map_err(Stop::Output)?;
        }
        for note in host.followed().iter().flat_map(|followed| &followed.notes) {
            output::message(&format!("interleaf: {note}"));
        }
    }
}

/// Says what would be set up for what the policies want at first, and what would be written.
fn dry_run(config: &Config, root: &Root) -> Result<(), Failure> {
    let setup = Setup::read(config, root)?;
    let (journal, _) = Journal::open(root).map_err(restore::unkept)?;
    let journal: SharedJournal<'_> = Rc::new(RefCell::new(journal));
    let mut actuators = setup.actuators(config, root, &journal)?;
    let mut text = setup.words(&actuators, "not opened in a dry run".into()).join("\n");
    let controller = setup.controller(config)?;
    for (scope, actuator) in setup.scopes().iter().zip(&mut actuators) {
        let Some(actuator) = actuator else { continue };
        let shares = controller.start(scope.domain, setup.host.nodes.len());
        let goal = setup.goal(config, &shares);
        actuator.set(&goal).map_err(|why| Failure::new(why.to_string(), why.advice()))?;
    }
    text += "\nwould be written:\n";
    for write in root.noted() {
        text += &format!("  {} > {}\n", write.text, write.path);
    }
    output::data(&text)
}

/// Waits, unless a signal says to stop or the time is over.
struct Waits<'a> {
    signals: &'a Signals,
    manager: &'a Manager,
    until: Option<f64>,
}

impl Clock for Waits<'_> {
    fn wait(&mut self, span: Duration) -> bool {
        self.manager.alive();
        if let Some(left) = &mut self.until {
            *left -= span.as_secs_f64();
            if *left < 0.0 {
                return false;
            }
        }
        self.signals.wait(span).is_none()
    }
}

fn failed(why: &HostError) -> Failure {
    let hint = match why {
        HostError::Actuator(why) => why.advice(),
        HostError::Source(_) => "see whether what it reads is still there".into(),
        HostError::Root(why) if why.is_permission() => "run it as root".into(),
        HostError::Root(_) | HostError::Stopped => "report it".into(),
    };
    Failure::new(why.to_string(), hint)
}
