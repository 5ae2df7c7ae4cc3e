//! `interleaf measure`: measures the memory of this machine.

mod app;

use super::{export, page};
use crate::args::{
    ChaseArgs, CommonArgs, InterleaveArgs, LoadArgs, Measure, MeasureArgs, TrafficArgs,
};
use interleaf_campaign::{
    CampaignEnd, ChaseOptions, InterleaveOptions, LoadOptions, Measurement, Options, TrafficOptions,
};
use interleaf_console::{
    Failure, output,
    support::{self, OutputOptions},
    system,
};
use interleaf_job::option::WeightsChoice;
use interleaf_launch::signal_status;
use interleaf_linux::machine::topology::Machine;
use interleaf_measure::region::Pages;
use interleaf_model::{units::Time, weights::Weights};
use interleaf_record::Document;
use std::{path::Path, process::ExitCode, time::Duration};

/// `--weights all` measures every ratio of two weights from 1 to this value.
const RATIO_MAX: u16 = 10;

pub(super) fn run(args: &MeasureArgs, root: Option<&Path>) -> Result<ExitCode, Failure> {
    if let Some(Measure::App(args)) = &args.measurement {
        return app::run(args, root);
    }
    let root = system::open_root(root)?;
    let subject = subject(args);
    let common = subject.common;
    let export = common.export_curves.as_deref();
    if let Some(target) = export {
        let machine = Machine::read(&root).map_err(system::read_failure)?;
        export::check("--export-curves", target, &machine.memory_nodes())?;
        if !subject.measurement.has_curves() {
            let name = subject.measurement.name();
            return Err(Failure::new(
                format!(
                    "--export-curves: `measure {name}` measures no curve of latency and bandwidth"
                ),
                "leave it out, or measure curves: interleaf measure, or interleaf measure loaded",
            ));
        }
    }
    support::check_outputs(common.output.as_deref(), common.report.as_deref(), &[export])?;
    if !common.dry_run && !root.is_live() {
        return Err(Failure::new(
            "nothing can be measured on a captured machine",
            "add --dry-run to list the measurements there, or leave --root out",
        ));
    }
    let (document, end) = interleaf_campaign::run(&options(&subject), &root)?;
    // If a point could not be measured, the earlier points are valid, so print them.
    if !document.points.is_empty() || !matches!(end, CampaignEnd::Failed(_)) {
        let to = OutputOptions { json: common.json, csv: false, output: common.output.as_deref() };
        let text = || interleaf_report::measure::text(&document);
        support::print_document(to, &interleaf_record::json(&document), String::new, text)?;
        let page = || Document::Measure(Box::new(document.clone()));
        page::write_quiet(common.quiet, common.report.as_deref(), page)?;
    }
    let exported =
        || export.map_or(Ok(()), |file| export::write("--export-curves", file, &document));
    match end {
        CampaignEnd::DryRun => Ok(ExitCode::SUCCESS),
        CampaignEnd::Failed(why) => Err(why),
        CampaignEnd::Signal(number) => {
            // An interrupted measurement may have no complete curve to export. Print this error,
            // and exit with the status of the signal.
            if let Err(why) = exported() {
                output::print_failure(why);
            }
            Ok(signal_status(number))
        }
        CampaignEnd::Done => exported().map(|()| ExitCode::SUCCESS),
    }
}

/// The requested measurement and its groups of options. A group that the measurement does not have
/// is `None`.
struct Subject<'a> {
    measurement: Measurement,
    chase: Option<&'a ChaseArgs>,
    traffic: Option<&'a TrafficArgs>,
    load: Option<&'a LoadArgs>,
    interleave: Option<&'a InterleaveArgs>,
    common: &'a CommonArgs,
}

fn subject(args: &MeasureArgs) -> Subject<'_> {
    let of = |measurement, chase, traffic, load, common| Subject {
        measurement,
        chase,
        traffic,
        load,
        interleave: None,
        common,
    };
    match &args.measurement {
        None | Some(Measure::App(_)) => {
            let (chase, traffic, load) = (&args.chase, &args.traffic, &args.load);
            of(Measurement::All, Some(chase), Some(traffic), Some(load), &args.common)
        }
        Some(Measure::Idle { chase, common }) => {
            of(Measurement::Idle, Some(chase), None, None, common)
        }
        Some(Measure::Bandwidth { traffic, common }) => {
            of(Measurement::Bandwidth, None, Some(traffic), None, common)
        }
        Some(Measure::Loaded { chase, traffic, load, common }) => {
            of(Measurement::Loaded, Some(chase), Some(traffic), Some(load), common)
        }
        Some(Measure::Histogram { chase, traffic, load, common }) => {
            of(Measurement::Histogram, Some(chase), Some(traffic), Some(load), common)
        }
        Some(Measure::Matrix { chase, traffic, common }) => {
            of(Measurement::Matrix, Some(chase), Some(traffic), None, common)
        }
        Some(Measure::Interleave(args)) => {
            let (chase, traffic, load) = (&args.chase, &args.traffic, &args.load);
            let of_all =
                of(Measurement::Interleave, Some(chase), Some(traffic), Some(load), &args.common);
            Subject { interleave: Some(args), ..of_all }
        }
    }
}

/// Converts the arguments to the options of `interleaf_campaign`.
fn options(subject: &Subject<'_>) -> Options {
    let common = subject.common;
    let chase = |chase: &ChaseArgs| ChaseOptions { bytes: chase.chase, stride: chase.stride };
    let traffic = |traffic: &TrafficArgs| TrafficOptions {
        threads: traffic.threads,
        mixes: traffic.mix.clone().or(traffic.read_share.clone()).map(|mixes| mixes.0),
        random: traffic.random,
        buffer: traffic.buffer,
    };
    let delay = |time: &Time| Duration::from_secs_f64(time.seconds());
    let load = |load: &LoadArgs| LoadOptions {
        delays: load.delays.iter().map(delay).collect(),
        rates: load.rate.clone(),
    };
    let weights = |choice: &WeightsChoice| match choice {
        WeightsChoice::All => Weights::every_ratio(2, RATIO_MAX),
        WeightsChoice::List(list) => list.clone(),
    };
    let interleave = |args: &InterleaveArgs| InterleaveOptions {
        weights: args.weights.as_ref().map(weights),
        method: args.way.map(Into::into),
        loads: args.loads,
    };
    Options {
        measurement: subject.measurement,
        chase: subject.chase.map(chase).unwrap_or_default(),
        traffic: subject.traffic.map(traffic).unwrap_or_default(),
        load: subject.load.map(load).unwrap_or_default(),
        interleave: subject.interleave.map(interleave),
        cpus: common.cpus.clone(),
        cpu_node: common.cpu_node,
        nodes: common.nodes.clone(),
        isa: common.isa,
        pages: common.pages.map_or(Pages::Huge, Into::into),
        duration: common.duration,
        repeat: common.repeat,
        seed: common.seed,
        quick: common.quick,
        replay: common.replay.clone(),
        dry_run: common.dry_run,
        quiet: common.quiet,
        output: common.output.clone(),
    }
}
