//! `interleaf run`: places the pages of a command, or migrates the pages of running processes.

use super::page;
use crate::args::RunArgs;
use interleaf_console::{Failure, output, support, system};
use interleaf_daemon::SteerOptions;
use interleaf_launch::{
    placed::{self, PlacedCommand, settings},
    processes::{self, MoveOptions},
    restore,
};
use interleaf_linux::{
    launch::command::Signals,
    machine::topology::Machine,
    place::placement::{Placement, PlacementError},
    process::allowed_nodes,
    root::Root,
};
use interleaf_record::{Document, run::RunDocument};
use std::{path::Path, process::ExitCode};

/// Audits of the placement of the command's pages take at most 1 / `AUDIT_COST` of the command's
/// run time. During an audit, the command cannot change its mappings.
const AUDIT_COST: u32 = 20;

pub(super) fn run(args: &RunArgs, root: Option<&Path>) -> Result<ExitCode, Failure> {
    let root = system::open_root(root)?;
    if args.restore {
        return restore::restore(args.dry_run, args.json, &root).map(|()| ExitCode::SUCCESS);
    }
    support::check_outputs(args.output.as_deref(), args.report.as_deref(), &[])?;
    let Some(weights) = &args.weights else { return by_policy(args, root) };
    let machine = Machine::read(&root).map_err(system::read_failure)?;
    let allowed = allowed_nodes(&root, "self").map_err(system::read_failure)?;
    let placement = Placement::new(&machine, weights, args.nodes.as_deref(), allowed.as_ref())
        .map_err(|why: PlacementError| Failure::new(why.to_string(), why.hint()))?;
    let mut document = RunDocument::new(weights.to_string(), &placement, words(args));
    document.settings = settings(&root, &machine, &placement)?;
    document.dry_run = args.dry_run;
    if !args.pid.is_empty() {
        // The pages of running processes (`--pid`) exist already. A memory policy and its kernel
        // settings affect only new pages, so change no setting.
        document.settings.clear();
        if !root.is_live() {
            return Err(Failure::new(
                "--pid: a captured machine has no processes to migrate",
                "leave --root out, or give a command with --dry-run in place of --pid",
            ));
        }
        return move_processes(args, &machine, &placement, &mut document);
    }
    if args.dry_run {
        write_document(args, &document, interleaf_report::run::dry_run)?;
        return Ok(ExitCode::SUCCESS);
    }
    system::check_live(&root)?;
    check_stdout(args)?;
    let job = PlacedCommand {
        root: &root,
        command: &args.command,
        output: None,
        interim: args.output.as_deref(),
        rate: args.migration_rate,
        audit_cost: AUDIT_COST,
        quiet: args.quiet,
    };
    let signals = Signals::hold().map_err(system::signal_failure)?;
    let ended = placed::run_placed(&job, &signals, &placement, &mut document, None)?;
    write_document(args, &document, |_| String::new())?;
    Ok(ended.exit_code())
}

/// Runs a command whose pages are steered by a policy (`--policy`).
fn by_policy(args: &RunArgs, root: Root) -> Result<ExitCode, Failure> {
    // A dry run must not change this machine, so open it as a captured machine, which is only read.
    let root = match (args.dry_run, root.is_live()) {
        (true, true) => Root::captured("/"),
        _ => root,
    };
    if !args.dry_run {
        system::check_live(&root)?;
        check_stdout(args)?;
    }
    let (document, ended) =
        interleaf_daemon::run_steered(&steer_options(args), &root, words(args))?;
    let Some(ended) = ended else {
        write_document(args, &document, interleaf_report::run::dry_run)?;
        return Ok(ExitCode::SUCCESS);
    };
    write_document(args, &document, |_| String::new())?;
    Ok(ended.exit_code())
}

/// Converts the arguments to the options of `interleaf_daemon` for a command with `--policy`.
fn steer_options(args: &RunArgs) -> SteerOptions {
    SteerOptions {
        command: args.command.clone(),
        policy: args.policy.clone(),
        period: args.period,
        feed: args.feed.clone(),
        actuator: args.way.clone(),
        platform: args.platform.clone(),
        stop_rivals: args.stop_rivals,
        migration_rate: args.migration_rate,
        dry_run: args.dry_run,
        quiet: args.quiet,
    }
}

/// Migrates the pages of the processes of `--pid` by `placement`, and prints the result.
fn move_processes(
    args: &RunArgs,
    machine: &Machine,
    placement: &Placement,
    document: &mut RunDocument,
) -> Result<ExitCode, Failure> {
    let options =
        MoveOptions { pids: args.pid.clone(), rate: args.migration_rate, dry_run: args.dry_run };
    let is_reached = processes::move_processes(&options, placement, document)?;
    write_document(args, document, interleaf_report::run::moved)?;
    if let Some(rival) = processes::rival(machine).filter(|_| !args.dry_run) {
        output::note(args.quiet, &rival.to_string());
    }
    Ok(if is_reached { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn words(args: &RunArgs) -> Vec<String> {
    args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Rejects options that print a document to stdout: stdout belongs to the command.
fn check_stdout(args: &RunArgs) -> Result<(), Failure> {
    for (is_set, option) in [(args.json, "--json"), (is_recorded_on_stdout(args), "-o -")] {
        if is_set {
            return Err(Failure::new(
                format!("{option}: stdout is the command's"),
                "record the document with -o FILE",
            ));
        }
    }
    Ok(())
}

/// Writes the document to the file of `-o`, its HTML page to the file of `--report`, and either
/// JSON (`--json`) or the text to stdout. With `-o -`, stdout gets only the document.
fn write_document(
    args: &RunArgs,
    document: &RunDocument,
    text: impl FnOnce(&RunDocument) -> String,
) -> Result<(), Failure> {
    if let Some(target) = &args.output {
        output::file(target, &interleaf_record::json(document))?;
    }
    page::write_quiet(args.quiet, args.report.as_deref(), || {
        Document::Run(Box::new(document.clone()))
    })?;
    if is_recorded_on_stdout(args) {
        return Ok(());
    }
    match args.json {
        true => output::data(&interleaf_record::json(document)),
        false => output::text(&text(document)),
    }
}

/// True if the document goes to stdout (`-o -`).
fn is_recorded_on_stdout(args: &RunArgs) -> bool {
    args.output.as_deref() == Some(Path::new("-"))
}
