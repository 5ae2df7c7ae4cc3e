//! Runs a command under a placement: its new pages are interleaved over nodes by weights.
//!
//! The placement needs settings of the kernel: the weights of weighted interleaving. They are
//! changed before the command starts, and restored when it ends; a journal keeps their old values.
//! The command's memory is audited several times, and the document gets the audit that found the
//! most memory. A kernel without weighted interleaving interleaves new pages evenly. On such a
//! kernel, pages are migrated at intervals until each node has its share by the weights.

use crate::{Ended, restore::report_restored};
use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    launch::command::{Running, Signals},
    machine::topology::Machine,
    place::{
        journal::{Journal, JournalError},
        migrate::{MigrateError, Migrator, Outcome, plan::Target},
        placement::{Means, Placement},
        placement_audit::PlacementAudit,
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
    path::Path,
    process::ExitStatus,
    time::{Duration, Instant},
};

/// `FIRST_AUDIT` is the pause before the first placement audit: short, so that short programs are
/// audited too. Each further pause is `AUDIT_FACTOR` times as long as the previous one, but at most
/// `AUDIT_MAX`, so that long programs are hardly disturbed. [`PlacedCommand::audit_cost`] may
/// lengthen a pause.
const FIRST_AUDIT: Duration = Duration::from_millis(100);
const AUDIT_FACTOR: u32 = 2;
const AUDIT_MAX: Duration = Duration::from_secs(60);

/// The interval between two calls of the callback [`Meanwhile`] while the command runs.
const TICK: Duration = Duration::from_millis(100);

/// A command and the options of its run.
#[derive(Clone, Copy, Debug)]
pub struct PlacedCommand<'a> {
    pub root: &'a Root,
    /// The program and its arguments; never empty.
    pub command: &'a [OsString],
    /// The file for stdout and stderr of the command; `None` to share those of this process.
    pub output: Option<&'a File>,
    /// The file to which the unfinished document is written after each audit.
    pub interim: Option<&'a Path>,
    /// The highest rate at which pages are migrated. Pages are migrated only on a kernel without
    /// weighted interleaving.
    pub rate: Bandwidth,
    /// Audits take at most 1 / `audit_cost` of the command's time. An audit slows the command down:
    /// meanwhile, the command cannot change its mappings. On a kernel on which pages are migrated
    /// too, audits may take a larger part of the time.
    pub audit_cost: u32,
    /// True if only errors are printed.
    pub quiet: bool,
}

/// A callback that is called every [`TICK`] while a command runs.
pub type Meanwhile<'a> = &'a mut dyn FnMut(&mut Running<'_>);

/// Changes the kernel settings that the placement needs, runs the command under the placement, and
/// restores the settings. The caller lists the settings in `document`. This function adds the exit
/// status, the last migration of pages, one audit of the placement of pages (of all audits during
/// the run, the one with the most resident memory), and the restored settings.
///
/// # Errors
/// When a setting cannot be changed or restored, or the command cannot be started.
pub fn run_placed(
    job: &PlacedCommand<'_>,
    signals: &Signals,
    placement: &Placement,
    document: &mut RunDocument,
    meanwhile: Option<Meanwhile<'_>>,
) -> Result<Ended, Failure> {
    output::note(job.quiet, &interleaf_report::run::placement(document));
    let journal = apply_settings(job, &document.settings)?;
    let ended = match signals.arrived_signal() {
        Some(signal) => Ok(Ended::not_started(signal)),
        None => run_command(job, signals, placement, document, meanwhile),
    };
    if let Some(journal) = journal {
        let undone = journal.close().map_err(system::journal_failure)?;
        document.put_back = undone.iter().map(PutBackDocument::from).collect();
        report_restored(job.quiet, &document.put_back);
    }
    ended
}

/// Changes the kernel settings that a placement needs, and returns the journal of the old values.
/// Returns `None` if the placement needs no settings. Also returns `None` if this user may not
/// write a journal, but all settings already have the needed values.
fn apply_settings<'a>(
    job: &PlacedCommand<'a>,
    settings: &[ChangedSetting],
) -> Result<Option<Journal<'a>>, Failure> {
    if settings.is_empty() {
        return Ok(None);
    }
    let is_set = settings.iter().all(|setting| setting.was == setting.set);
    let (mut journal, undone) = match Journal::open(job.root) {
        Err(why) if why.is_permission() && is_set => return Ok(None),
        Err(why) if why.is_permission() => return Err(settings_failure(&why, settings)),
        opened => opened.map_err(system::journal_failure)?,
    };
    report_restored(job.quiet, &undone.iter().map(PutBackDocument::from).collect::<Vec<_>>());
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
        output::note(job.quiet, &format!("set until the end: {}", changed.join(", ")));
    }
    Ok(Some(journal))
}

/// The longest pause between two migrations. If the last migration and its audit took longer, the
/// pause is as long as they took.
const MOVE_MAX: Duration = Duration::from_secs(2);

/// Starts the command and waits for its end. Meanwhile, audits its memory.
fn run_command(
    job: &PlacedCommand<'_>,
    signals: &Signals,
    placement: &Placement,
    document: &mut RunDocument,
    meanwhile: Option<Meanwhile<'_>>,
) -> Result<Ended, Failure> {
    let (program, arguments) = job.command.split_first().unwrap_or_else(|| unreachable!());
    // Make the migrator before the start: if it failed after the start, the command would go on
    // without this process.
    let migrator = match placement.means {
        Means::Moved => Some(migrator(job.rate, placement)?),
        Means::Weighted | Means::Interleave => None,
    };
    let mut running = signals
        .start_into(job.output, &[], &placement.policy(), program, arguments)
        .map_err(system::start_failure)?;
    let mut watch = Watch {
        job,
        placement,
        largest: None,
        audit_failure: None,
        migration: None,
        migrate_failure: None,
    };
    let status = watch.wait_for_end(&mut running, migrator, meanwhile, document)?;
    watch.add_to(document);
    if document.moved.is_some() {
        output::note(job.quiet, &interleaf_report::run::moved(document));
    }
    if let Some(why) = watch.migrate_failure {
        output::message(&format!("interleaf: its pages are spread evenly, and not moved: {why}"));
    }
    if let Some(why) = watch.audit_failure {
        output::message(&format!("interleaf: its memory could not be read: {why}"));
    }
    if let Some(memory) = &document.memory {
        output::note(job.quiet, &interleaf_report::run::memory(memory));
    }
    document.record_exit(status);
    Ok(Ended { status: Some(status), elapsed: running.elapsed(), signal: running.arrived_signal() })
}

/// Observations of a command while the command runs.
struct Watch<'a> {
    job: &'a PlacedCommand<'a>,
    placement: &'a Placement,
    /// The audit that found the most memory.
    largest: Option<PlacementAudit>,
    /// The last failure of an audit.
    audit_failure: Option<RootError>,
    /// The last migration during which no process ended.
    migration: Option<Outcome>,
    /// The last failure of a migration.
    migrate_failure: Option<MigrateError>,
}

impl Watch<'_> {
    /// Waits for the end of a command, and audits the command's memory meanwhile. If a `migrator`
    /// is given, also migrates the command's pages.
    fn wait_for_end(
        &mut self,
        running: &mut Running<'_>,
        mut migrator: Option<Migrator>,
        mut meanwhile: Option<Meanwhile<'_>>,
        document: &mut RunDocument,
    ) -> Result<ExitStatus, Failure> {
        let mut pause = FIRST_AUDIT;
        loop {
            if let Some(status) = wait(running, pause, &mut meanwhile)? {
                return Ok(status);
            }
            let start = Instant::now();
            if let Some(migrator) = &mut migrator
                && let Some(status) = self.migrate_pages(running, migrator)?
            {
                return Ok(status);
            }
            self.audit(running.pid());
            if let Some(file) = self.job.interim {
                self.add_to(document);
                // A failure is ignored here: the complete document is written after the command's
                // end, and a failure is reported then.
                let _ = output::interim(file, &interleaf_record::json(document));
            }
            pause =
                (pause * AUDIT_FACTOR).min(AUDIT_MAX).max(start.elapsed() * self.job.audit_cost);
            if migrator.is_some() {
                pause = pause.min(MOVE_MAX).max(start.elapsed());
            }
        }
    }

    /// Adds the last migration and the largest audit to the document.
    fn add_to(&self, document: &mut RunDocument) {
        document.moved = self.migration.as_ref().map(MovedDocument::from);
        document.memory = self.largest.as_ref().map(MemoryDocument::from);
    }

    /// Audits the command's memory. A failure is kept in `audit_failure`, and the command goes on.
    fn audit(&mut self, pid: u32) {
        let is_largest = |survey: &PlacementAudit| {
            let largest = self.largest.as_ref();
            largest.is_none_or(|largest| largest.total_bytes() <= survey.total_bytes())
        };
        match PlacementAudit::of_tree(self.job.root, pid, self.placement) {
            Ok(survey) if is_largest(&survey) => self.largest = Some(survey),
            Ok(_) => {}
            Err(why) => self.audit_failure = Some(why),
        }
    }

    /// Migrates the command's pages. Returns the exit status of the command if it ended during the
    /// migration.
    fn migrate_pages(
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
                self.migration = Some(outcome);
            }
            // A process ended during the migration, so this outcome is not recorded. If the process
            // was the command itself, `ended` or the next wait has the exit status.
            Ok(_) | Err(MigrateError::Absent(_)) => {}
            Err(why) => self.migrate_failure = Some(why),
        }
        ended.map_err(system::wait_failure)
    }
}

/// Waits for at most `pause` for the end of a command, and calls `meanwhile` every [`TICK`].
/// Returns the exit status; `None` if the command still runs.
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

/// Returns the settings that a placement needs, with their present values.
///
/// # Errors
/// When a setting cannot be read.
pub fn settings(
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

/// Makes a migrator that gives each node its share of the pages by `placement`, at a rate of at
/// most `rate`.
///
/// # Errors
/// When the kernel cannot migrate pages at all, or cannot migrate them to these nodes.
pub fn migrator(rate: Bandwidth, placement: &Placement) -> Result<Migrator, Failure> {
    let target = Target::new(placement.nodes.iter().copied())
        .map_err(|why| system::migrate_failure(MigrateError::Target(why)))?;
    let migrator = Migrator::new(target).map_err(system::migrate_failure)?;
    Ok(migrator.at_rate((rate.gbps() * 1e9) as u64))
}
