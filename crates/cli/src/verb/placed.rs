//! A command under a placement.

use super::{processes, say, tell_put_back, unkept};
use crate::{
    args::RunArgs,
    document::run::{MemoryDocument, MovedDocument, PutBackDocument, RunDocument, SettingDocument},
    failure::Failure,
    output, render,
};
use interleaf_linux::{
    command::{Running, Signals, StartError},
    journal::{Journal, JournalError},
    migrate::{MigrateError, Migrator, Outcome},
    placement::{Means, Placement},
    root::{Root, RootError},
    survey::Survey,
};
use std::{
    ops::ControlFlow,
    process::{ExitCode, ExitStatus},
    time::{Duration, Instant},
};

/// When a command is looked at first, and how much later each time: a program that is short is
/// seen, and one that is long is left alone.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LOOK_FACTOR: u32 = 2;
const LOOK_MAX: Duration = Duration::from_secs(60);

/// Looking keeps the program from changing its mappings meanwhile: it gets at most one part of so
/// many of its time.
const LOOK_COST: u32 = 20;

/// Runs the command under the placement, and puts back what was set for it.
pub(super) fn under(
    args: &RunArgs,
    root: &Root,
    placement: &Placement,
    document: &mut RunDocument,
) -> Result<ExitCode, Failure> {
    let signals = Signals::hold().map_err(super::unheld)?;
    say(args, &render::run::placement(document));
    let journal = set(args, root, &document.settings)?;
    let ended = match signals.come() {
        Some(signal) => Ok(ExitCode::from(signal_status(signal))),
        None => command(args, root, &signals, placement, document),
    };
    if let Some(journal) = journal {
        let undone = journal.close().map_err(unkept)?;
        document.put_back = undone.iter().map(PutBackDocument::from).collect();
        tell_put_back(args, &document.put_back);
    }
    ended
}

/// Sets what has to be set, with a journal of it. None is needed, and none can be kept, when an
/// ordinary user finds it set already.
fn set<'a>(
    args: &RunArgs,
    root: &'a Root,
    settings: &[SettingDocument],
) -> Result<Option<Journal<'a>>, Failure> {
    if settings.is_empty() {
        return Ok(None);
    }
    let is_set = settings.iter().all(|setting| setting.was == setting.set);
    let (mut journal, undone) = match Journal::open(root) {
        Err(why) if why.is_permission() && is_set => return Ok(None),
        Err(why) if why.is_permission() => return Err(unset(&why, settings)),
        opened => opened.map_err(unkept)?,
    };
    tell_put_back(args, &undone.iter().map(PutBackDocument::from).collect::<Vec<_>>());
    for setting in settings {
        journal.set(&setting.path, &setting.set).map_err(|why| match why.is_permission() {
            true => unset(&why, settings),
            false => unkept(why),
        })?;
    }
    let changed: Vec<String> = journal
        .changes()
        .iter()
        .filter(|change| change.was != change.set)
        .map(|change| format!("{}: {} -> {}", change.path, change.was, change.set))
        .collect();
    if !changed.is_empty() {
        say(args, &format!("set until the end: {}", changed.join(", ")));
    }
    Ok(Some(journal))
}

/// How long new pages wait at most until they are moved to where the weights want them.
const MOVE_MAX: Duration = Duration::from_secs(2);

/// Starts the command and waits for its end, looking at its memory now and then.
fn command(
    args: &RunArgs,
    root: &Root,
    signals: &Signals,
    placement: &Placement,
    document: &mut RunDocument,
) -> Result<ExitCode, Failure> {
    let (program, arguments) = args.command.split_first().unwrap_or_else(|| unreachable!());
    // All that can fail comes before the command: once it runs, nobody else waits for it.
    let migrator = match placement.means {
        Means::Moved => Some(processes::migrator(args, placement)?),
        Means::Weighted | Means::Interleave => None,
    };
    let mut running = signals.start(&placement.policy(), program, arguments).map_err(unstarted)?;
    let mut watch = Watch { root, placement, most: None, unseen: None, moved: None, unmoved: None };
    let status = watch.until_end(&mut running, migrator)?;
    if let Some(moved) = watch.moved.as_ref().map(MovedDocument::from) {
        document.moved = Some(moved);
        say(args, &render::run::moved(document));
    }
    if let Some(why) = watch.unmoved {
        output::message(&format!("interleaf: its pages are spread evenly, and not moved: {why}"));
    }
    if let Some(why) = watch.unseen {
        output::message(&format!("interleaf: its memory could not be looked at: {why}"));
    }
    if let Some(most) = watch.most {
        let memory = MemoryDocument::from(&most);
        say(args, &render::run::memory(&memory));
        document.memory = Some(memory);
    }
    Ok(exit(status, document))
}

/// What is seen of a command while it runs.
struct Watch<'a> {
    root: &'a Root,
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
    ) -> Result<ExitStatus, Failure> {
        let mut pause = FIRST_LOOK;
        loop {
            if let Some(status) = running.wait(pause).map_err(unwaited)? {
                return Ok(status);
            }
            let start = Instant::now();
            if let Some(migrator) = &mut migrator
                && let Some(status) = self.move_pages(running, migrator)?
            {
                return Ok(status);
            }
            self.look(running.pid());
            pause = (pause * LOOK_FACTOR).min(LOOK_MAX).max(start.elapsed() * LOOK_COST);
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
        match Survey::of_tree(self.root, pid, self.placement) {
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
        ended.map_err(unwaited)
    }
}

fn unwaited(why: std::io::Error) -> Failure {
    Failure::new(format!("the command cannot be waited for: {why}"), "see whether it still runs")
}

/// Our status for a command's, which is noted.
fn exit(status: ExitStatus, document: &mut RunDocument) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    document.exit_code = status.code();
    document.signal = status.signal();
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCode::from(code as u8),
        (None, signal) => ExitCode::from(signal_status(signal.unwrap_or(0))),
    }
}

/// The status of what a signal has ended, as shells have it.
fn signal_status(signal: i32) -> u8 {
    (128 + signal) as u8
}

fn unstarted(why: StartError) -> Failure {
    use std::io::ErrorKind;
    let hint = match &why {
        StartError::Command { why, .. } if why.kind() == ErrorKind::WouldBlock => {
            "the limit of processes is reached: ulimit -u"
        }
        StartError::Command { why, .. } if why.kind() == ErrorKind::ArgumentListTooLong => {
            "give it fewer arguments or a smaller environment: getconf ARG_MAX"
        }
        StartError::Command { .. } => {
            "name a program that is there and may be run; options of \
             `interleaf run` stand before it"
        }
        StartError::Policy { why, .. } if why.kind() == ErrorKind::PermissionDenied => {
            "something filters the call set_mempolicy; a container needs --cap-add SYS_NICE"
        }
        StartError::Policy { .. } => {
            "the nodes may have gone, or a cpuset may not have them: `interleaf show`, `grep Mems \
             /proc/self/status`"
        }
    };
    Failure::new(why.to_string(), hint)
}

fn unset(why: &JournalError, settings: &[SettingDocument]) -> Failure {
    let line = |setting: &SettingDocument| format!("echo {} > {}", setting.set, setting.path);
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
