//! `interleaf measure app`: profiles the memory traffic, placement and resources of a command.

mod demand;
mod sources;
mod watch;

use crate::{args::AppArgs, verb::page};
use interleaf_console::{Failure, output, support, system};
use interleaf_launch::Ended;
use interleaf_linux::{
    launch::command::Signals,
    machine::{hardware::Hardware, topology::Machine},
    place::mempolicy::Policy,
    root::Root,
};
use interleaf_record::{
    Document,
    measure::{MeasuredMachine, SCHEMA},
    measure_app::{AppDocument, AppKind, ProfileDocument},
};
use sources::Sources;
use std::{
    fs::File,
    io::{self, IsTerminal as _},
    os::fd::AsFd as _,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{ExitCode, ExitStatus},
    time::Duration,
};
use watch::AppSampler;

pub(super) fn run(args: &AppArgs, root: Option<&Path>) -> Result<ExitCode, Failure> {
    let root = system::open_root(root)?;
    if !args.dry_run {
        system::check_live(&root)?;
    }
    check(args)?;
    let machine = Machine::read(&root).map_err(system::read_failure)?;
    let sources = Sources::find(args, &root, &machine)?;
    let hardware = Hardware::read(&root).map_err(system::read_failure)?;
    let described = MeasuredMachine::new(&machine, &hardware);
    let mut document = document(args, &root, &machine, described, &sources);
    if args.dry_run {
        write_document(args, &document, interleaf_report::measure_app::dry_run)?;
        return Ok(ExitCode::SUCCESS);
    }
    let signals = Signals::hold().map_err(system::signal_failure)?;
    let (status, arrived_signal) = match signals.arrived_signal() {
        Some(signal) => return Ok(interleaf_launch::signal_status(signal)),
        None => measured(args, &root, &signals, sources, &mut document)?,
    };
    let wanted = args.demand.as_deref().map(|path| (path, args));
    let demand =
        wanted.map(|(path, args)| demand::write(path, args, &mut document, arrived_signal));
    // Write the record even if the demand file could not be written.
    if let Some(target) = &args.output {
        output::file(target, &interleaf_record::json(&document))?;
    }
    if args.json {
        output::data(&interleaf_record::json(&document))?;
    } else if !args.quiet {
        output::message(interleaf_report::measure_app::text(&document).trim_end());
    }
    page::write_quiet(args.quiet, args.report.as_deref(), || {
        Document::Profile(Box::new(document))
    })?;
    match demand.transpose() {
        Err(failure) if status.success() => return Err(failure),
        // The command failed too. The exit status of this process must be that of the command, so
        // the failure to write the demand is only printed.
        Err(failure) => drop(output::print_failure(failure)),
        Ok(_) => {}
    }
    Ok(exit(status))
}

/// Rejects, before the command starts, options that cannot be satisfied.
fn check(args: &AppArgs) -> Result<(), Failure> {
    let targets = [
        ("-o", &args.output),
        ("--report", &args.report),
        ("--demand", &args.demand),
        ("--record", &args.record),
    ];
    for (option, target) in targets {
        if target.as_deref() == Some(Path::new("-")) {
            return Err(Failure::new(
                format!("{option} -: stdout is the command's"),
                "name a file; --json prints the document, and the command writes to stderr then",
            ));
        }
    }
    let others = [args.demand.as_deref(), args.record.as_deref()];
    support::check_outputs(args.output.as_deref(), args.report.as_deref(), &others)?;
    if let Some(name) = &args.platform {
        interleaf_catalog::platform(name)?;
    }
    Ok(())
}

/// Creates the document of the run, before the command starts. It has no samples yet.
fn document(
    args: &AppArgs,
    root: &Root,
    machine: &Machine,
    described: MeasuredMachine,
    sources: &Sources<'_>,
) -> ProfileDocument {
    let cpus = machine.sockets.iter().map(|(_, cpus)| cpus.len()).sum();
    let mut quantities = sources.quantities.clone();
    quantities.extend(sources::of_processes(root, machine));
    quantities.sort_by_key(|quantity| {
        let order = ["bandwidth", "latency", "top-down", "energy", "placement"];
        order.iter().position(|name| *name == quantity.name).unwrap_or(order.len())
    });
    ProfileDocument {
        schema: SCHEMA.into(),
        machine: described,
        points: vec![],
        app: AppDocument {
            kind: AppKind::App,
            command: args.command.iter().map(|it| it.to_string_lossy().into_owned()).collect(),
            dry_run: args.dry_run,
            exit_code: None,
            signal: None,
            runtime_s: None,
            every_s: args.every.seconds(),
            cpus,
            tiers: sources.tiers.clone(),
            energy_domains: sources.energy_domains(),
            quantities,
            whole: None,
            phases: vec![],
            warnings: vec![],
            demand_file: None,
            samples: vec![],
        },
    }
}

/// Runs the command, and samples it until it ends. Returns the command's exit status and the signal
/// that arrived first, if any.
fn measured(
    args: &AppArgs,
    root: &Root,
    signals: &Signals,
    sources: Sources<'_>,
    document: &mut ProfileDocument,
) -> Result<(ExitStatus, Option<i32>), Failure> {
    let (program, arguments) = args.command.split_first().unwrap_or_else(|| unreachable!());
    // With `--json`, stdout is for the document only, so the command's stdout goes to stderr.
    let stderr = match args.json {
        true => Some(File::from(
            io::stderr().as_fd().try_clone_to_owned().map_err(system::signal_failure)?,
        )),
        false => None,
    };
    let mut watch = AppSampler::new(args, root, sources)?;
    let policy = Policy::Default;
    let mut running = signals
        .start_into(stderr.as_ref(), &[], &policy, program, arguments)
        .map_err(system::start_failure)?;
    watch.attach(running.pid());
    let bar = live_line(args);
    let every = Duration::from_secs_f64(args.every.seconds());
    let mut pause = every.min(watch::FIRST_SAMPLE);
    loop {
        let ended = running.has_ended(pause);
        watch.sample(running.pid(), running.age(), ended);
        if ended {
            break;
        }
        bar.set_message(interleaf_report::measure_app::line(running.age(), watch.last()));
        watch.save(args, running.age(), document)?;
        // Samples are due at multiples of `every`, whatever time the last sample took.
        let age = running.age().as_nanos();
        pause = every - Duration::from_nanos((age % every.as_nanos()) as u64);
    }
    bar.finish_and_clear();
    let status = running.status().map_err(system::wait_failure)?;
    let app = &mut document.app;
    (app.exit_code, app.signal) = (status.code(), status.signal());
    watch.finish(running.elapsed(), document);
    Ok((status, running.arrived_signal()))
}

/// Creates a progress line on stderr with the run time of the command. The line is hidden with
/// `--quiet`, and if stderr is not a terminal. It is also hidden if the command may write to the
/// same terminal: if stdout is a terminal, and with `--json`, where the command's stdout goes to
/// stderr.
fn live_line(args: &AppArgs) -> indicatif::ProgressBar {
    let is_free = !args.json && !output::is_terminal();
    match io::stderr().is_terminal() && is_free && !args.quiet {
        true => output::spinner(),
        false => indicatif::ProgressBar::hidden(),
    }
}

fn exit(status: ExitStatus) -> ExitCode {
    let ended = Ended { status: Some(status), elapsed: Duration::ZERO, signal: None };
    ended.exit_code()
}

/// Writes the document to the file of `-o`. Prints it to stdout, as JSON or as `text`.
fn write_document(
    args: &AppArgs,
    document: &ProfileDocument,
    text: impl FnOnce(&ProfileDocument) -> String,
) -> Result<(), Failure> {
    if let Some(target) = &args.output {
        output::file(target, &interleaf_record::json(document))?;
    }
    match args.json {
        true => output::data(&interleaf_record::json(document)),
        false => output::text(&text(document)),
    }
}
