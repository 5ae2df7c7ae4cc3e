//! A command under a placement: once for `run`, again and again for `tune`.

use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    launch::command::{Running, Signals},
    machine::topology::Machine,
    place::{
        journal::{Journal, JournalError},
        migrate::{MigrateError, Migrator, Outcome, plan::Target},
        placement::{Means, Placement},
        placement_audit::Survey,
    },
    root::{Root, RootError},
};
use interleaf_model::units::Bandwidth;
use interleaf_record::run::{
    ChangedSetting, MemoryDocument, MovedDocument, PutBackDocument, RunDocument,
};
use std::{
    ffi::OsString,
    fs::File,
    ops::ControlFlow,
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
    time::{Duration, Instant},
};

/// When a command is looked at first, and how much later each time: a program that is short is
/// seen, and one that is long is left alone.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LOOK_FACTOR: u32 = 2;
const LOOK_MAX: Duration = Duration::from_secs(60);

/// How often whoever waits for a command may do something else.
const TICK: Duration = Duration::from_millis(100);

/// A command, and how it is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a> {
    pub(super) root: &'a Root,
    pub(super) command: &'a [OsString],
    /// Where all that it writes goes, in place of where our own goes.
    pub(super) output: Option<&'a File>,
    /// How fast pages are moved at most, where that is the means.
    pub(super) rate: Bandwidth,
    /// Looking keeps the program from changing its mappings meanwhile: it gets at most one part of
    /// so many of its time.
    pub(super) look_cost: u32,
    /// Whether only what went wrong is told.
    pub(super) quiet: bool,
}

/// How a command ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// `None` when a signal came before it was started.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) elapsed: Duration,
    /// The first signal that came.
    pub(crate) signal: Option<i32>,
}

/// What is done while a command runs, now and then.
pub(super) type Meanwhile<'a> = &'a mut dyn FnMut(&mut Running<'_>);

/// Runs the command under the placement, and puts back what was set for it. `document` has the
/// settings, and is told how it went.
pub(super) fn under(
    job: &Job<'_>,
    signals: &Signals,
    placement: &Placement,
    document: &mut RunDocument,
    meanwhile: Option<Meanwhile<'_>>,
) -> Result<Ended, Failure> {
    say(job.quiet, &interleaf_report::run::placement(document));
    let journal = set(job, &document.settings)?;
    let ended = match signals.come() {
        Some(signal) => Ok(Ended { status: None, elapsed: Duration::ZERO, signal: Some(signal) }),
        None => command(job, signals, placement, document, meanwhile),
    };
    if let Some(journal) = journal {
        let undone = journal.close().map_err(system::journal_failure)?;
        document.put_back = undone.iter().map(PutBackDocument::from).collect();
        tell_put_back(job.quiet, &document.put_back);
    }
    ended
}

/// Sets what has to be set, with a journal of it. None is needed, and none can be kept, when an
/// ordinary user finds it set already.
fn set<'a>(job: &Job<'a>, settings: &[ChangedSetting]) -> Result<Option<Journal<'a>>, Failure> {
    if settings.is_empty() {
        return Ok(None);
    }
    let is_set = settings.iter().all(|setting| setting.was == setting.set);
    let (mut journal, undone) = match Journal::open(job.root) {
        Err(why) if why.is_permission() && is_set => return Ok(None),
        Err(why) if why.is_permission() => return Err(settings_failure(&why, settings)),
        opened => opened.map_err(system::journal_failure)?,
    };
    tell_put_back(job.quiet, &undone.iter().map(PutBackDocument::from).collect::<Vec<_>>());
    for setting in settings {
        journal.set(&setting.path, &setting.set).map_err(|why| match why.is_permission() {
            true => settings_failure(&why, settings),
            false => system::journal_failure(why),
        })?;
    }
    let changed: Vec<String> = journal
        .changes()
        .iter()
        .filter(|change| change.was != change.set)
        .map(|change| format!("{}: {} -> {}", change.path, change.was, change.set))
        .collect();
    if !changed.is_empty() {
        say(job.quiet, &format!("set until the end: {}", changed.join(", ")));
    }
    Ok(Some(journal))
}

/// How long new pages wait at most until they are moved to where the weights want them.
const MOVE_MAX: Duration = Duration::from_secs(2);

/// Starts the command and waits for its end, looking at its memory now and then.
fn command(
    job: &Job<'_>,
    signals: &Signals,
    placement: &Placement,
    document: &mut RunDocument,
    meanwhile: Option<Meanwhile<'_>>,
) -> Result<Ended, Failure> {
    let (program, arguments) = job.command.split_first().unwrap_or_else(|| unreachable!());
    // All that can fail comes before the command: once it runs, nobody else waits for it.
    let migrator = match placement.means {
        Means::Moved => Some(migrator(job.rate, placement)?),
        Means::Weighted | Means::Interleave => None,
    };
    let mut running = signals
        .start_into(job.output, &placement.policy(), program, arguments)
        .map_err(system::start_failure)?;
    let mut watch = Watch { job, placement, most: None, unseen: None, moved: None, unmoved: None };
    let status = watch.until_end(&mut running, migrator, meanwhile)?;
    if let Some(moved) = watch.moved.as_ref().map(MovedDocument::from) {
        document.moved = Some(moved);
        say(job.quiet, &interleaf_report::run::moved(document));
    }
    if let Some(why) = watch.unmoved {
        output::message(&format!("interleaf: its pages are spread evenly, and not moved: {why}"));
    }
    if let Some(why) = watch.unseen {
        output::message(&format!("interleaf: its memory could not be looked at: {why}"));
    }
    if let Some(most) = watch.most {
        let memory = MemoryDocument::from(&most);
        say(job.quiet, &interleaf_report::run::memory(&memory));
        document.memory = Some(memory);
    }
    document.record_exit(status);
    Ok(Ended { status: Some(status), elapsed: running.elapsed(), signal: running.came() })
}

/// What is seen of a command while it runs.
struct Watch<'a> {
    job: &'a Job<'a>,
    placement: &'a Placement,
    /// Its memory when it had the most.
    most: Option<Survey>,
    /// Why it could not be looked at, the last time.
    unseen: Option<RootError>,
    /// What became of moving its pages, the last time it was there to the end of it.
    moved: Option<Outcome>,
    /// Why they could not be moved.
    unmoved: Option<MigrateError>,
}

impl Watch<'_> {
    /// Waits for the end of a command, and looks at its memory now and then; moves its pages where
    /// that is the means.
    fn until_end(
        &mut self,
        running: &mut Running<'_>,
        mut migrator: Option<Migrator>,
        mut meanwhile: Option<Meanwhile<'_>>,
    ) -> Result<ExitStatus, Failure> {
        let mut pause = FIRST_LOOK;
        loop {
            if let Some(status) = wait(running, pause, &mut meanwhile)? {
                return Ok(status);
            }
            let start = Instant::now();
            if let Some(migrator) = &mut migrator
                && let Some(status) = self.move_pages(running, migrator)?
            {
                return Ok(status);
            }
            self.look(running.pid());
            pause = (pause * LOOK_FACTOR).min(LOOK_MAX).max(start.elapsed() * self.job.look_cost);
            if migrator.is_some() {
                pause = pause.min(MOVE_MAX).max(start.elapsed());
            }
        }
    }

    /// Looks at the command's memory. That it cannot be seen is no reason to leave it alone.
    fn look(&mut self, pid: u32) {
        let is_most = |survey: &Survey| {
            self.most.as_ref().is_none_or(|most| most.total_bytes() <= survey.total_bytes())
        };
        match Survey::of_tree(self.job.root, pid, self.placement) {
            Ok(survey) if is_most(&survey) => self.most = Some(survey),
            Ok(_) => {}
            Err(why) => self.unseen = Some(why),
        }
    }

    /// Moves the command's pages; its status if it ended meanwhile.
    fn move_pages(
        &mut self,
        running: &mut Running<'_>,
        migrator: &mut Migrator,
    ) -> Result<Option<ExitStatus>, Failure> {
        let mut ended = Ok(None);
        let outcome = migrator.run(&[running.pid()], &mut |_| {
            ended = running.wait(Duration::ZERO);
            match &ended {
                Ok(None) => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        });
        match outcome {
            Ok(outcome) if !outcome.processes.iter().any(|process| process.ended) => {
                self.moved = Some(outcome);
            }
            // It has ended, which is noticed in a moment.
            Ok(_) | Err(MigrateError::Absent(_)) => {}
            Err(why) => self.unmoved = Some(why),
        }
        ended.map_err(system::wait_failure)
    }
}

/// Waits for the end of a command for so long, doing something else meanwhile.
fn wait(
    running: &mut Running<'_>,
    pause: Duration,
    meanwhile: &mut Option<Meanwhile<'_>>,
) -> Result<Option<ExitStatus>, Failure> {
    let Some(meanwhile) = meanwhile else {
        return running.wait(pause).map_err(system::wait_failure);
    };
    let end = Instant::now() + pause;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let ended = running.wait(left.min(TICK)).map_err(system::wait_failure)?;
        meanwhile(running);
        if ended.is_some() || left.is_zero() {
            return Ok(ended);
        }
    }
}

/// Our status for that of a command.
pub(super) fn exit(ended: &Ended) -> ExitCode {
    match (ended.status, ended.signal) {
        (Some(status), _) => match (status.code(), status.signal()) {
            (Some(code), _) => ExitCode::from(code as u8),
            (None, signal) => signal_status(signal.unwrap_or(0)),
        },
        (None, signal) => signal_status(signal.unwrap_or(0)),
    }
}

/// The status of what a signal has ended, as shells have it.
pub(super) fn signal_status(signal: i32) -> ExitCode {
    ExitCode::from((128 + signal) as u8)
}

fn settings_failure(why: &JournalError, settings: &[ChangedSetting]) -> Failure {
    let line = |setting: &ChangedSetting| format!("echo {} > {}", setting.set, setting.path);
    let lines: Vec<String> =
        settings.iter().filter(|setting| setting.was != setting.set).map(line).collect();
    Failure::new(
        format!("the weights cannot be set: {why}"),
        format!(
            "run it as root, or let root set them once and run it again as you are: {}",
            lines.join("; ")
        ),
    )
}

/// What has to be set for a placement, and what is set now.
pub(super) fn settings(
    root: &Root,
    machine: &Machine,
    placement: &Placement,
) -> Result<Vec<ChangedSetting>, Failure> {
    let settings = placement.settings(machine).into_iter();
    let mut found = vec![];
    for setting in settings {
        let was = root.text(&setting.path).map_err(system::read_failure)?.unwrap_or_default();
        let was = was.trim().to_string();
        found.push(ChangedSetting { path: setting.path, was, set: setting.text });
    }
    Ok(found)
}

/// Tells the user, unless told not to.
pub(super) fn say(quiet: bool, text: &str) {
    if !quiet {
        for line in text.lines() {
            output::message(&format!("interleaf: {line}"));
        }
    }
}

/// What went wrong is told in any case.
pub(super) fn tell_put_back(quiet: bool, undone: &[PutBackDocument]) {
    for undone in undone {
        let line = interleaf_report::run::restored(undone);
        match undone.outcome == "restored" {
            true => say(quiet, &line),
            false => output::message(&format!("interleaf: {line}")),
        }
    }
}

/// A mover of pages to where a placement wants them.
pub(super) fn migrator(rate: Bandwidth, placement: &Placement) -> Result<Migrator, Failure> {
    let target = Target::new(placement.nodes.iter().copied())
        .map_err(|why| system::migrate_failure(MigrateError::Target(why)))?;
    let migrator = Migrator::new(target).map_err(system::migrate_failure)?;
    Ok(migrator.at_rate((rate.gbps() * 1e9) as u64))
}
