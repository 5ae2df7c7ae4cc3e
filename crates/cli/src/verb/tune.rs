//! `interleaf tune`: finds the interleaving weights with which a command is fastest, by runs.

use super::page;
use crate::args::TuneArgs;
use interleaf_console::{
    Failure,
    support::{self, OutputOptions},
    system,
};
use interleaf_launch::{
    RunsEnd, signal_status,
    tune::{self, TuneOptions},
};
use interleaf_record::Document;
use std::{path::Path, process::ExitCode};

pub(super) fn run(args: &TuneArgs, root: Option<&Path>) -> Result<ExitCode, Failure> {
    let root = system::open_root(root)?;
    let (output, report) = (args.output.as_deref(), args.report.as_deref());
    support::check_outputs(output, report, &[args.log.as_deref()])?;
    let (document, end) = tune::tune(&options(args), &root)?;
    let output = OutputOptions { json: args.json, csv: false, output: args.output.as_deref() };
    let text = || interleaf_report::tune::text(&document);
    support::print_document(output, &interleaf_record::json(&document), String::new, text)?;
    let is_better = document.is_better;
    page::write_quiet(args.quiet, args.report.as_deref(), || Document::Tune(Box::new(document)))?;
    match end {
        RunsEnd::DryRun => Ok(ExitCode::SUCCESS),
        RunsEnd::Done => Ok(ExitCode::from(u8::from(!is_better))),
        RunsEnd::Signal(number) => Ok(signal_status(number)),
        RunsEnd::Failed(why) => Err(why),
    }
}

fn options(args: &TuneArgs) -> TuneOptions {
    TuneOptions {
        command: args.command.clone(),
        weights: args.weights.clone(),
        nodes: args.nodes.clone(),
        platform: args.platform.clone(),
        runs: args.runs,
        min_gain: args.min_gain,
        metric: args.metric.clone(),
        higher_is_better: args.higher_is_better,
        warm_up: args.warm_up,
        migration_rate: args.migration_rate,
        dry_run: args.dry_run,
        quiet: args.quiet,
        output: args.output.clone(),
        log: args.log.clone(),
    }
}
