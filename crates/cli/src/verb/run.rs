//! `interleaf run`.

mod processes;

use super::{
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
    command::Signals,
    placement::{Placement, PlacementError},
    process::allowed_nodes,
    topology::Machine,
};
use std::{path::Path, process::ExitCode};

/// What part of its time a command may be kept waiting because it is looked at.
const LOOK_COST: u32 = 20;

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
