//! `interleaf measure`.

mod app;
mod counted;
mod engine;
pub(super) mod export;
mod setup;
mod task;
mod tasks;
mod weights;

use crate::args::{
    ChaseArgs, CommonArgs, InterleaveArgs, LoadArgs, Measure, MeasureArgs, TrafficArgs,
};
use counted::Counted;
use engine::{Bench, Ended};
use interleaf_console::{Failure, output, system};
use interleaf_linux::command::Signals;
use interleaf_measure::interleave::Way;
use interleaf_record::measure::MeasureDocument;
use setup::{Given, Setup};
use std::{path::Path, process::ExitCode};

pub(super) fn run(args: &MeasureArgs, root: Option<&Path>) -> Result<ExitCode, Failure> {
    if let Some(Measure::App(args)) = &args.what {
        return app::run(args, root);
    }
    let root = system::open_root(root)?;
    let given = given(args);
    let common = given.common;
    output::check_writable(common.output.as_deref())?;
    export::check("--export-curves", common.export_curves.as_deref())?;
    if !common.dry_run && !root.is_live() {
        return Err(Failure::new(
            "nothing can be measured on a captured machine",
            "add --dry-run to see what would be measured there, or leave --root out",
        ));
    }
    let setup = Setup::new(&root, &given)?;
    let mut document = setup.document();
    let tasks = tasks::of(&setup, &given)?;
    document.notes.extend(setup.notes.iter().cloned());
    let mut way = Way::Pages;
    if let Some(args) = given.interleave {
        let (found, why) = weights::way(&setup, args.way, common.dry_run)?;
        document.notes.extend(why);
        way = found;
    }
    if common.dry_run {
        document.dry_run = true;
        document.stop("dry run", "nothing was measured");
        document.plan = tasks.iter().map(|task| task.told(&setup)).collect();
        document.kernel_settings = weights::would_set(&setup, &tasks, way)?;
        return give(common, &document).map(|()| ExitCode::SUCCESS);
    }
    let (counted, said) = Counted::find(common.replay.as_deref(), &root, &setup.machine)?;
    document.notes.push(said);
    for note in setup.notes.iter().filter(|_| !common.quiet) {
        output::message(&format!("interleaf: {note}"));
    }
    let signals = Signals::hold().map_err(system::signal_failure)?;
    let ended = Bench::new(&setup, &signals, &counted, common, way).all(&tasks, &mut document);
    let status = match &ended {
        Ended::Done => {
            document.stop("done", "all was measured");
            ExitCode::SUCCESS
        }
        Ended::Signal(number) => {
            document.stop("signal", format!("signal {number} came"));
            interleaf_launch::signal_status(*number)
        }
        Ended::Failed(_) => {
            document.stop("failed", "an error came");
            ExitCode::from(2)
        }
    };
    interleaf_launch::restore::report_restored(common.quiet, &document.put_back);
    // What was measured before an error is worth as much as without it.
    if !document.points.is_empty() || matches!(ended, Ended::Done) {
        give(common, &document)?;
    }
    if let Ended::Failed(why) = ended {
        return Err(why);
    }
    if let Some(target) = &common.export_curves {
        export::write("--export-curves", target, &document)?;
    }
    Ok(status)
}

/// What was asked for, whichever word it was asked by.
fn given(args: &MeasureArgs) -> Given<'_> {
    let all = Given {
        what: "all",
        chase: args.chase.clone(),
        traffic: args.traffic.clone(),
        load: args.load.clone(),
        interleave: None,
        common: &args.common,
    };
    let none = Given {
        chase: ChaseArgs::default(),
        traffic: TrafficArgs::default(),
        load: LoadArgs::default(),
        ..all.clone()
    };
    match &args.what {
        None | Some(Measure::App(_)) => all,
        Some(Measure::Idle { chase, common }) => {
            Given { what: "idle", chase: chase.clone(), common, ..none }
        }
        Some(Measure::Bandwidth { traffic, common }) => {
            Given { what: "bandwidth", traffic: traffic.clone(), common, ..none }
        }
        Some(Measure::Loaded { chase, traffic, load, common }) => Given {
            what: "loaded",
            chase: chase.clone(),
            traffic: traffic.clone(),
            load: load.clone(),
            common,
            ..none
        },
        Some(Measure::Histogram { chase, traffic, load, common }) => Given {
            what: "histogram",
            chase: chase.clone(),
            traffic: traffic.clone(),
            load: load.clone(),
            common,
            ..none
        },
        Some(Measure::Matrix { chase, traffic, common }) => {
            Given { what: "matrix", chase: chase.clone(), traffic: traffic.clone(), common, ..none }
        }
        Some(Measure::Interleave(args)) => of_interleave(args),
    }
}

fn of_interleave(args: &InterleaveArgs) -> Given<'_> {
    Given {
        what: "interleave",
        chase: args.chase.clone(),
        traffic: args.traffic.clone(),
        load: args.load.clone(),
        interleave: Some(args),
        common: &args.common,
    }
}

/// Records and prints the document as the options say; on stdout stands one thing.
fn give(common: &CommonArgs, document: &MeasureDocument) -> Result<(), Failure> {
    let json = interleaf_record::json(document);
    if let Some(target) = &common.output {
        output::file(target, &json)?;
        if target.as_os_str() == "-" {
            return Ok(());
        }
    }
    output::data(&if common.json { json } else { interleaf_report::measure::text(document) })
}
