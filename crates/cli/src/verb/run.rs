//! `interleaf run`.

mod command;
mod processes;

use super::restore;
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
    placement::{Placement, PlacementError},
    process::allowed_nodes,
    root::Root,
    topology::Machine,
};
use std::{io, path::Path, process::ExitCode};

pub(super) fn run(args: &RunArgs, root: Option<&Path>) -> Result<ExitCode, Failure> {
    let root = super::root(root)?;
    if args.restore {
        return restore::restore(args.dry_run, args.json, &root).map(|()| ExitCode::SUCCESS);
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
pub(super) fn live(root: &Root) -> Result<(), Failure> {
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

pub(super) fn unheld(why: io::Error) -> Failure {
    Failure::new(
        format!("signals cannot be held: {why}"),
        "the limit of open files or of processes may be reached: ulimit -a",
    )
}
