//! `interleaf run`.

mod processes;

use super::{
    balance,
    placed::{self, Job, live, settings},
    restore,
};
use crate::{
    args::RunArgs,
    document::{self, run::RunDocument},
    failure::Failure,
    output, render,
};
use interleaf_linux::{
    launch::command::Signals,
    machine::topology::Machine,
    place::placement::{Placement, PlacementError},
    process::allowed_nodes,
    root::Root,
};
use std::{path::Path, process::ExitCode};

/// What part of its time a command may be kept waiting because it is looked at.
const LOOK_COST: u32 = 20;

pub(super) fn run(args: &RunArgs, root: Option<&Path>) -> Result<ExitCode, Failure> {
    let root = super::root(root)?;
    if args.restore {
        return restore::restore(args.dry_run, args.json, &root).map(|()| ExitCode::SUCCESS);
    }
    output::check_writable(args.output.as_deref())?;
    let Some(weights) = &args.weights else { return by_policy(args, root) };
    let machine = Machine::read(&root).map_err(super::unread)?;
    let allowed = allowed_nodes(&root, "self").map_err(super::unread)?;
    let placement = Placement::new(&machine, weights, args.nodes.as_deref(), allowed.as_ref())
        .map_err(|why: PlacementError| Failure::new(why.to_string(), why.hint()))?;
    let mut document = RunDocument::new(weights.to_string(), &placement, words(args));
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
    check_stdout(args)?;
    let job = Job {
        root: &root,
        command: &args.command,
        output: None,
        rate: args.migration_rate,
        look_cost: LOOK_COST,
        quiet: args.quiet,
    };
    let signals = Signals::hold().map_err(placed::unheld)?;
    let ended = placed::under(&job, &signals, &placement, &mut document, None)?;
    give(args, &document, |_| String::new())?;
    Ok(placed::exit(&ended))
}

/// Runs the command with its pages steered by a policy while it runs.
fn by_policy(args: &RunArgs, root: Root) -> Result<ExitCode, Failure> {
    // In a dry run, this machine is read like a captured one.
    let root = match (args.dry_run, root.is_live()) {
        (true, true) => Root::captured("/"),
        _ => root,
    };
    if !args.dry_run {
        live(&root)?;
        check_stdout(args)?;
    }
    let (document, ended) = balance::steered(args, &root, words(args))?;
    let Some(ended) = ended else {
        give(args, &document, render::run::dry_run)?;
        return Ok(ExitCode::SUCCESS);
    };
    give(args, &document, |_| String::new())?;
    Ok(placed::exit(&ended))
}

/// The command, as text.
fn words(args: &RunArgs) -> Vec<String> {
    args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// What the command writes and a document would go to the same place.
fn check_stdout(args: &RunArgs) -> Result<(), Failure> {
    for (given, option) in [(args.json, "--json"), (is_recorded_on_stdout(args), "-o -")] {
        if given {
            return Err(Failure::new(
                format!("{option}: stdout is the command's"),
                "record the document with -o FILE",
            ));
        }
    }
    Ok(())
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
