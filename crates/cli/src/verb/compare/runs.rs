//! `interleaf compare --a CONFIG --b CONFIG`: compares configurations by alternating runs.

use crate::{
    args::{CompareArgs, QuantityChoice},
    verb::{bench, page},
};
use interleaf_console::{Failure, check_distinct, support, system};
use interleaf_launch::{
    RunsEnd,
    compare::{self, CompareOptions, Compared, Quantity},
    signal_status,
};
use interleaf_model::{paired::Design, units::Bytes};
use interleaf_record::Document;
use std::{path::Path, process::ExitCode};

/// Default of the maximum number of rounds. The results are evaluated after 6, 10, 20 and 40
/// rounds. A clear result ends the comparison early.
const ROUNDS_MAX: usize = 40;

/// Defaults of other options. `MIN_DIFFERENCE` is a fraction, and `FOOTPRINT` is in bytes.
const CONFIDENCE: f64 = 0.95;
const MIN_DIFFERENCE: f64 = 0.02;
const WARM_UP: usize = 1;
const SEED: u64 = 1;
const FOOTPRINT: Bytes = Bytes::new(512 << 20);

pub(super) fn run(args: &CompareArgs, root: Option<&Path>) -> Result<ExitCode, Failure> {
    let root = system::open_root(root)?;
    let (output, report) = (args.output.output.as_deref(), args.runs.report.as_deref());
    support::check_outputs(output, report, &[args.runs.log.as_deref()])?;
    let (document, end) = compare::compare(&options(args)?, &root)?;
    let text = || match args.markdown {
        true => interleaf_report::compare_runs::markdown(&document),
        false => interleaf_report::compare_runs::text(&document),
    };
    let csv = || interleaf_report::compare_runs::csv(&document);
    let json = interleaf_record::json(&document);
    support::print_document(args.output.options(), &json, csv, text)?;
    page::write_quiet(args.runs.quiet, report, || {
        Document::CompareRuns(Box::new(document.clone()))
    })?;
    match end {
        RunsEnd::DryRun => Ok(ExitCode::SUCCESS),
        RunsEnd::Done => Ok(ExitCode::from(u8::from(args.same && document.differs()))),
        RunsEnd::Signal(number) => Ok(signal_status(number)),
        RunsEnd::Failed(why) => Err(why),
    }
}

fn options(args: &CompareArgs) -> Result<CompareOptions, Failure> {
    let runs = &args.runs;
    let confidence = runs.confidence.map_or(CONFIDENCE, |it| it.fraction());
    let min_difference = runs.min_difference.map_or(MIN_DIFFERENCE, |it| it.fraction());
    let seed = runs.seed.unwrap_or(SEED);
    let design = match runs.rounds {
        Some(rounds) => Design::fixed(rounds, confidence, min_difference, seed),
        None => {
            let most = runs.max_rounds.unwrap_or(ROUNDS_MAX);
            Design::sequential(most, confidence, min_difference, seed)
        }
    };
    Ok(CompareOptions {
        configurations: args.configurations.all(),
        workloads: workloads(args)?,
        design,
        warm_up: runs.warm_up.unwrap_or(WARM_UP),
        time_limit: runs.time_limit,
        metric: runs.metric.clone(),
        higher_is_better: runs.higher_is_better,
        quantity: match runs.quantity {
            None | Some(QuantityChoice::Wall) => Quantity::WallTime,
            Some(QuantityChoice::Cpu) => Quantity::CpuTime,
            Some(QuantityChoice::Memory) => Quantity::Memory,
        },
        dry_run: runs.dry_run,
        quiet: runs.quiet,
        output: args.output.output.clone(),
        log: runs.log.clone(),
    })
}

/// Returns the programs that run under each configuration: the command of the command line, or the
/// workloads of `--workload`.
fn workloads(args: &CompareArgs) -> Result<Vec<Compared>, Failure> {
    if !args.command.is_empty() {
        support::reject_given(
            &[(args.runs.footprint.is_some(), "--footprint")],
            "is of a workload, and a command has its own",
            "name workloads with --workload",
        )?;
        return Ok(vec![Compared::Command(args.command.clone())]);
    }
    if args.runs.workload.is_empty() {
        return Err(Failure::new(
            "there is nothing to run under the configurations",
            "write a command after --, or name workloads with --workload stream,fft",
        ));
    }
    check_distinct("--workload", args.runs.workload.iter().map(String::as_str))?;
    let footprint = args.runs.footprint.unwrap_or(FOOTPRINT);
    let workload = |name: &String| {
        let rate_unit = bench::rate_unit(name)?;
        Ok(Compared::Bench { name: name.clone(), footprint, rate_unit })
    };
    args.runs.workload.iter().map(workload).collect()
}
