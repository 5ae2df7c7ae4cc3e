//! `interleaf run`.

mod command;
mod processes;

use crate::{
    args::RunArgs,
    document::{
        self,
        run::{PutBackDocument, RunDocument, SettingDocument},
    },
    failure::Failure,
    output, render,
};
use interleaf_linux::{
    journal::{self, JournalError},
    placement::{Placement, PlacementError},
    process::allowed_nodes,
    root::Root,
    topology::Machine,
};
use std::{io, path::Path, process::ExitCode};

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
    document.dry_run = args.dry_run;
    if !args.pid.is_empty() {
        // What is to be moved is memory that is there: a policy and its settings are for new pages.
        document.settings.clear();
        live(&root)?;
        return processes::place(args, &machine, &placement, &mut document);
    }
    if args.dry_run {
        give(args, &document, render::run::dry_run)?;
        return Ok(ExitCode::SUCCESS);
    }
    live(&root)?;
    for (given, option) in [(args.json, "--json"), (is_recorded_on_stdout(args), "-o -")] {
        if given {
            return Err(Failure::new(
                format!("{option}: stdout is the command's"),
                "record the document with -o FILE",
            ));
        }
    }
    let ended = command::under(args, &root, &placement, &mut document)?;
    give(args, &document, |_| String::new())?;
    Ok(ended)
}

/// Refuses a captured machine.
fn live(root: &Root) -> Result<(), Failure> {
    if root.is_live() {
        return Ok(());
    }
    Err(Failure::new(
        "nothing runs on a captured machine",
        "add --dry-run to a command to see what would be done there, or leave --root out",
    ))
}

/// Records and prints the document as the options say; on stdout stands one thing.
fn give(
    args: &RunArgs,
    document: &RunDocument,
    text: impl FnOnce(&RunDocument) -> String,
) -> Result<(), Failure> {
    if let Some(target) = &args.output {
        output::file(target, &document::json(document)?)?;
    }
    if is_recorded_on_stdout(args) {
        return Ok(());
    }
    output::data(&if args.json { document::json(document)? } else { text(document) })
}

/// Whether the document goes to stdout as the record.
fn is_recorded_on_stdout(args: &RunArgs) -> bool {
    args.output.as_deref() == Some(Path::new("-"))
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

/// Puts back what processes that were killed have left.
fn restore(args: &RunArgs, root: &Root) -> Result<(), Failure> {
    if args.dry_run || !root.is_live() {
        return left(args, root);
    }
    let undone = journal::restore(root).map_err(unkept)?;
    let undone: Vec<PutBackDocument> = undone.iter().map(PutBackDocument::from).collect();
    if args.json {
        let value = serde_json::json!({ "schema": document::run::SCHEMA, "put_back": undone });
        return output::data(&document::json(&value)?);
    }
    let lines: Vec<String> = undone.iter().map(render::run::put_back).collect();
    output::data(&listed(&lines))
}

/// Says what processes that were killed have left.
fn left(args: &RunArgs, root: &Root) -> Result<(), Failure> {
    let left = journal::leftovers(root).map_err(unkept)?;
    let changes = left.iter().flat_map(|left| {
        // The last change is put back first.
        left.changes.iter().rev().map(|change| (left.pid, change))
    });
    if args.json {
        let left: Vec<SettingDocument> =
            changes.map(|(_, change)| SettingDocument::from(change)).collect();
        let value = serde_json::json!({ "schema": document::run::SCHEMA, "left": left });
        return output::data(&document::json(&value)?);
    }
    let lines: Vec<String> = changes
        .map(|(pid, change)| {
            format!("process {pid} left {} at {}: {}", change.path, change.set, change.was)
        })
        .collect();
    output::data(&listed(&lines))
}

/// Lines of what was left, or that there was nothing.
fn listed(lines: &[String]) -> String {
    match lines.is_empty() {
        true => "nothing was left\n".to_string(),
        false => format!("{}\n", lines.join("\n")),
    }
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

fn unheld(why: io::Error) -> Failure {
    Failure::new(
        format!("signals cannot be held: {why}"),
        "the limit of open files or of processes may be reached: ulimit -a",
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
        JournalError::Keep { why, .. } if why.kind() == io::ErrorKind::StorageFull => {
            "make room in /run, and try again"
        }
        JournalError::Keep { .. } => {
            "/run/interleaf has to be a folder that can be written to: what is there puts the \
             settings back after a crash"
        }
        JournalError::Absent { .. } | JournalError::Root(_) => {
            "`interleaf doctor` says what this kernel can do"
        }
    };
    Failure::new(why.to_string(), hint)
}
