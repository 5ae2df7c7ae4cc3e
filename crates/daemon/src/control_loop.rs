//! The loop of the daemon: it observes the machine for a period, the policies decide, and the
//! actuators carry out the decision. The loop ends at a signal, at its deadline or at an error.

use crate::{
    config::Config,
    notify::Manager,
    options::Options,
    publish::Publisher,
    setup::{self, Setup},
};
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
use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, Instant},
};

/// A time limit that no period reaches (100 years).
pub(crate) const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Balances the pages of the live machine `root` until a signal, the deadline or an error. Then
/// restores the changed settings.
///
/// # Errors
/// When the machine cannot be observed, its pages cannot be migrated, or a setting cannot be
/// restored.
pub fn run(options: &Options, config: &Config, root: &Root) -> Result<(), Failure> {
    system::check_live(root)?;
    let signals = Signals::hold().map_err(system::signal_failure)?;
    let (journal, undone) = Journal::open(root).map_err(system::journal_failure)?;
    for undone in &undone {
        output::message(&format!("interleaf: {}", interleaf_report::run::restored(&undone.into())));
    }
    let journal: SharedJournal<'_> = Rc::new(RefCell::new(journal));
    let ended = balance(options, config, root, &journal, &signals);
    // The actuators were dropped when `balance` returned. Now restore the settings that they
    // changed.
    match (ended, restore_settings(journal)) {
        (Err(why), Err(left)) => {
            output::print_failure(left);
            Err(why)
        }
        (ended, done) => done.and(ended),
    }
}

/// Restores all settings that are still changed, and prints them.
fn restore_settings(journal: SharedJournal<'_>) -> Result<(), Failure> {
    // This is the last reference to the journal. If another one remained, dropping it would restore
    // the settings.
    let Some(journal) = Rc::into_inner(journal) else { return Ok(()) };
    let undone = journal.into_inner().close().map_err(system::journal_failure)?;
    let undone: Vec<PutBackDocument> = undone.iter().map(PutBackDocument::from).collect();
    interleaf_launch::restore::report_restored(false, &undone);
    Ok(())
}

/// Runs the control loop until a signal, the deadline or an error.
fn balance<'a>(
    options: &Options,
    config: &Config,
    root: &'a Root,
    journal: &SharedJournal<'a>,
    signals: &Signals,
) -> Result<(), Failure> {
    let setup = Setup::read(config, root)?;
    let source = setup.source(config, root)?;
    let actuators = setup.actuators(config, root, journal, signals.stop_flag())?;
    for line in setup.words(config, &actuators, source.describe()) {
        output::message(&format!("interleaf: {line}"));
    }
    let mut controller = setup.controller(config, None)?;
    let manager = &Manager::new();
    let clock = Box::new(SignalClock { signals, manager, until: until(options) });
    let mut host = Host::new(root, setup.host.clone(), source, clock, actuators)
        .map_err(|why| host_failure(&why))?;
    let mut publisher = Publisher::daemon(config, options, manager)?;
    let publish = &mut |period: &[BalancePeriod]| publisher.publish(period);
    let done = place_first(&mut host, &controller, &setup, config)
        .inspect(|()| manager.ready("observing for the first period"))
        .and_then(|()| steer(&mut host, &mut controller, publish));
    manager.stopping();
    // If an output lacks periods because writes to it failed, print the error, but do not return
    // it.
    let missing = publisher.close();
    match done {
        Ok(()) | Err(Stop::Machine(HostError::Stopped)) if missing.is_err() => {
            missing.err().map(output::print_failure);
            Ok(())
        }
        Ok(()) | Err(Stop::Machine(HostError::Stopped)) => Ok(()),
        Err(Stop::Machine(why)) => Err(host_failure(&why)),
        Err(Stop::Output(why)) => Err(why),
    }
}

/// Returns the deadline of the control loop; `None` if it has none.
pub(crate) fn until(options: &Options) -> Option<Instant> {
    let limit =
        options.duration.and_then(|limit| Duration::try_from_secs_f64(limit.seconds()).ok());
    // A deadline beyond the range of the clock is never reached.
    limit.and_then(|limit| Instant::now().checked_add(limit))
}

/// The reason why the control loop ended.
pub(crate) enum Stop {
    /// The machine cannot be observed or steered any more. The error is [`HostError::Stopped`] if a
    /// signal, the deadline or the end of the steered command ended the loop.
    Machine(HostError),
    /// Writing to an output failed.
    Output(Failure),
}

impl From<HostError> for Stop {
    fn from(why: HostError) -> Self {
        Self::Machine(why)
    }
}

/// Gives the actuators the initial shares of the policies, before the machine is observed.
pub(crate) fn place_first(
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

/// Runs the control loop after [`place_first`] until a signal, the deadline or an error. After each
/// period, `publish` gets the JSON documents of the period, one for each domain (socket).
pub(crate) fn steer(
    host: &mut Host<'_>,
    controller: &mut Controller,
    publish: &mut dyn FnMut(&[BalancePeriod]) -> Result<(), Failure>,
) -> Result<(), Stop> {
    loop {
        let period = controller.period(host, FOR_EVER);
        let notes = host.take_notes();
        // Print the notes of the period even if a signal cuts the period short.
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
        publish(&documents).map_err(Stop::Output)?;
        print();
    }
}

/// A clock whose waits end early at a signal or at the deadline. Each wait also notifies the
/// watchdog of the service manager.
pub(crate) struct SignalClock<'a> {
    pub(crate) signals: &'a Signals,
    pub(crate) manager: &'a Manager,
    pub(crate) until: Option<Instant>,
}

impl Clock for SignalClock<'_> {
    fn wait(&mut self, span: Duration) -> bool {
        self.manager.alive();
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let is_last = left.is_some_and(|left| left < span);
        let wait = left.map_or(span, |left| left.min(span));
        self.signals.wait(wait).is_none() && !is_last
    }
}

pub(crate) fn host_failure(why: &HostError) -> Failure {
    let hint: String = match why {
        HostError::Actuator(why) => return setup::actuator_failure(why),
        HostError::Source(_) => "check that the files it reads still exist".into(),
        HostError::Root(why) if why.is_permission() => "run it as root".into(),
        HostError::Root(_) | HostError::Stopped => "report it".into(),
    };
    Failure::new(why.to_string(), hint)
}
