//! `interleaf run`.

use crate::{
    args::RunArgs,
    document::{
        self,
        run::{MemoryDocument, PutBackDocument, RunDocument, SettingDocument},
    },
    failure::Failure,
    output, render,
};
use interleaf_linux::{
    command::{Running, Signals, StartError},
    journal::{self, Journal, JournalError},
    placement::{Placement, PlacementError},
    process::allowed_nodes,
    root::Root,
    survey::Survey,
    topology::Machine,
};
use std::{
    path::Path,
    process::{ExitCode, ExitStatus},
    time::{Duration, Instant},
};

/// When a command is looked at first, and how much later each time: a program that is short is
/// seen, and one that is long is left alone.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LOOK_FACTOR: u32 = 2;
const LOOK_MAX: Duration = Duration::from_secs(60);

/// Looking stops the program from changing its mappings meanwhile: it gets at most this part of
/// its time.
const LOOK_COST: u32 = 100;

pub(super) fn run(args: &RunArgs, root: Option<&Path>) -> Result<ExitCode, Failure> {
    let root = super::root(root)?;
    if args.restore {
        return restore(args, &root).map(|()| ExitCode::SUCCESS);
    }
    let Some(weights) = &args.weights else { return Ok(ExitCode::SUCCESS) };
    output::check_writable(args.output.as_deref())?;
    let machine = Machine::read(&root).map_err(super::unread)?;
    let allowed = allowed_nodes(&root, "self").map_err(super::unread)?;
    let placement = Placement::new(&machine, weights, args.nodes.as_deref(), allowed.as_ref())
        .map_err(|why: PlacementError| Failure::new(why.to_string(), why.hint()))?;
    let command = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut document = RunDocument::new(weights.to_string(), &placement, command);
    document.settings = settings(&root, &machine, &placement)?;
    if args.dry_run {
        document.dry_run = true;
        give(args, &document)?;
        if !args.json {
            output::data(&render::run::dry_run(&document))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !root.is_live() {
        return Err(Failure::new(
            "a captured machine runs nothing",
            "add --dry-run to see what would be done there, or leave --root out",
        ));
    }
    if args.json {
        return Err(Failure::new(
            "--json: stdout is the command's",
            "record the document with -o FILE",
        ));
    }
    let ended = under(args, &root, &placement, &mut document)?;
    give(args, &document)?;
    Ok(ended)
}

/// Records and prints the document as the options say.
fn give(args: &RunArgs, document: &RunDocument) -> Result<(), Failure> {
    if args.json || args.output.is_some() {
        let json = document::json(document)?;
        if let Some(target) = &args.output {
            output::file(target, &json)?;
        }
        if args.json {
            output::data(&json)?;
        }
    }
    Ok(())
}

/// What has to be set for a placement, and what is set now.
fn settings(
    root: &Root,
    machine: &Machine,
    placement: &Placement,
) -> Result<Vec<SettingDocument>, Failure> {
    let settings = placement.settings(machine).into_iter();
    let mut found = vec![];
    for setting in settings {
        let was = root.text(&setting.path).map_err(super::unread)?.unwrap_or_default();
        let was = was.trim().to_string();
        found.push(SettingDocument { path: setting.path, was, set: setting.text });
    }
    Ok(found)
}

/// Runs the command under the placement, and puts back what was set for it.
fn under(
    args: &RunArgs,
    root: &Root,
    placement: &Placement,
    document: &mut RunDocument,
) -> Result<ExitCode, Failure> {
    let signals = Signals::hold().map_err(|why| {
        Failure::new(format!("signals cannot be held: {why}"), "look at the limits of processes")
    })?;
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

/// Starts the command and waits for its end, looking at its memory now and then.
fn command(
    args: &RunArgs,
    root: &Root,
    signals: &Signals,
    placement: &Placement,
    document: &mut RunDocument,
) -> Result<ExitCode, Failure> {
    let (program, arguments) = args.command.split_first().unwrap_or_else(|| unreachable!());
    let mut running = signals.start(&placement.policy(), program, arguments).map_err(unstarted)?;
    let (status, most) = watch(root, &mut running, placement)?;
    if let Some(most) = most {
        let memory = MemoryDocument::from(&most);
        say(args, &render::run::memory(&memory));
        document.memory = Some(memory);
    }
    Ok(exit(status, document))
}

/// Waits for the end of a command; how it ended, and its memory when it had the most.
fn watch(
    root: &Root,
    running: &mut Running<'_>,
    placement: &Placement,
) -> Result<(ExitStatus, Option<Survey>), Failure> {
    let mut most: Option<Survey> = None;
    let mut pause = FIRST_LOOK;
    loop {
        let ended = running.wait(pause).map_err(|why| {
            Failure::new(format!("the command cannot be waited for: {why}"), "report it")
        })?;
        if let Some(status) = ended {
            return Ok((status, most));
        }
        let start = Instant::now();
        let survey = Survey::of_tree(root, running.pid(), placement).map_err(super::unread)?;
        pause = (pause * LOOK_FACTOR).min(LOOK_MAX).max(start.elapsed() * LOOK_COST);
        if most.as_ref().is_none_or(|most| most.total_bytes() <= survey.total_bytes()) {
            most = Some(survey);
        }
    }
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

/// Puts back what processes that were killed have left.
fn restore(args: &RunArgs, root: &Root) -> Result<(), Failure> {
    if args.dry_run || !root.is_live() {
        let left = journal::leftovers(root).map_err(unkept)?;
        let mut text = String::new();
        for leftover in &left {
            for change in leftover.changes.iter().rev() {
                let (path, set, was) = (&change.path, &change.set, &change.was);
                text += &format!("process {} left {path} at {set}: {was}\n", leftover.pid);
            }
        }
        return output::data(if text.is_empty() { "nothing was left\n" } else { &text });
    }
    let undone = journal::restore(root).map_err(unkept)?;
    let undone: Vec<PutBackDocument> = undone.iter().map(PutBackDocument::from).collect();
    if args.json {
        let value = serde_json::json!({ "schema": document::run::SCHEMA, "put_back": undone });
        return output::data(&document::json(&value)?);
    }
    let lines: Vec<String> = undone.iter().map(render::run::put_back).collect();
    output::data(&match lines.is_empty() {
        true => "nothing was left\n".to_string(),
        false => format!("{}\n", lines.join("\n")),
    })
}

/// Tells the user, unless told not to.
fn say(args: &RunArgs, text: &str) {
    if !args.quiet {
        for line in text.lines() {
            output::message(&format!("interleaf: {line}"));
        }
    }
}

/// What went wrong is told in any case.
fn tell_put_back(args: &RunArgs, undone: &[PutBackDocument]) {
    for undone in undone {
        let line = render::run::put_back(undone);
        match undone.outcome == "restored" {
            true => say(args, &line),
            false => output::message(&format!("interleaf: {line}")),
        }
    }
}

fn unstarted(why: StartError) -> Failure {
    let hint = match &why {
        StartError::Command { .. } => {
            "name a program that is there and may be run; options of \
             `interleaf run` stand before it"
        }
        StartError::Policy { why, .. } if why.kind() == std::io::ErrorKind::PermissionDenied => {
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

fn unkept(why: JournalError) -> Failure {
    let hint = match &why {
        JournalError::Held { .. } => {
            "weights are the whole machine's: wait until that process has ended, or use the same"
        }
        JournalError::Content { .. } => {
            "look into the file, set by hand what it says, and remove it"
        }
        _ if why.is_permission() => "run it as root",
        _ => "make room in /run, and try again",
    };
    Failure::new(why.to_string(), hint)
}
