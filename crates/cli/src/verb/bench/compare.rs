//! `interleaf bench compare`: the same loops on DRAM, on the pager, on swap and on mapped files.

mod ceiling;
mod child;
mod drive;
mod pattern;
mod series;
mod way;

pub(crate) use child::Ended;
pub(crate) use pattern::PATTERNS;
pub(crate) use way::WAYS;

use crate::{
    args::BenchCompareArgs,
    document::{
        self,
        bench_compare::{CompareDocument, RowDocument},
    },
    failure::Failure,
    output, render,
    verb::give,
};
use child::Bench;
use interleaf_linux::{launch::command::Signals, root::Root};
use pattern::Pattern;
use series::Series;
use std::process::ExitCode;
use way::Way;

pub(super) fn run(args: &BenchCompareArgs) -> Result<ExitCode, Failure> {
    output::check_writable(args.output.output.as_deref())?;
    let root = Root::live();
    let held = Signals::hold();
    let signals =
        held.map_err(|why| Failure::new(format!("signals cannot be held: {why}"), "report it"))?;
    let bench = Bench::new(&root, &signals, args)?;
    let mut document = CompareDocument::new(args, &root);
    let measured = measure(&bench, args, &mut document);
    let (csv, text) =
        (|| render::bench_compare::csv(&document), || render::bench_compare::text(&document));
    // Rounds before a failure stay valid.
    if measured.is_ok() || !document.rows.is_empty() {
        give(&args.output, &document, csv, text)?;
    }
    measured?;
    bench.undone()?;
    Ok(ExitCode::from(match bench.signal() {
        Some(signal) => 128 + signal as u8,
        None => u8::from(document.has_wrong()),
    }))
}

/// Runs all patterns at all footprints.
fn measure(
    bench: &Bench<'_>,
    args: &BenchCompareArgs,
    document: &mut CompareDocument,
) -> Result<(), Failure> {
    for pattern in chosen(args) {
        for ratio in &args.ratio {
            rounds(bench, args, pattern, *ratio, document)?;
            if bench.signal().is_some() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Writes what is known so far to the file of `-o`, for whatever ends this process.
fn record(args: &BenchCompareArgs, document: &CompareDocument) -> Result<(), Failure> {
    let target = args.output.output.as_deref().filter(|target| {
        // A pipe is given the whole record, once.
        target.as_os_str() != "-" && target.metadata().map_or(true, |found| found.is_file())
    });
    match target {
        Some(target) => output::interim(target, &document::json(document)?),
        None => Ok(()),
    }
}

fn chosen(args: &BenchCompareArgs) -> Vec<&'static Pattern> {
    let is_chosen =
        |pattern: &&Pattern| args.workload.iter().any(|it| it == "all" || it == pattern.name);
    PATTERNS.iter().filter(is_chosen).collect()
}

/// All runs of a pattern: each way in turn in every round, and the drive alone behind them, so that
/// what else happens on the machine happens to all of them. The document has the rows after each
/// round, and so has the record.
fn rounds(
    bench: &Bench<'_>,
    args: &BenchCompareArgs,
    pattern: &'static Pattern,
    ratio: f64,
    document: &mut CompareDocument,
) -> Result<(), Failure> {
    let mut ways: Vec<Way> = args.ways.iter().filter_map(|name| Way::of(name)).collect();
    // A group gets as much memory as the pager used, which has to be known then.
    ways.sort_by_key(|way| way.is_bounded());
    let mut all: Vec<Series> =
        ways.into_iter().map(|way| Series::new(pattern, ratio, way)).collect();
    let mut measured = None;
    for _ in 0..args.rounds {
        let ended = round(bench, pattern, ratio, &mut all);
        let rows: Vec<RowDocument> = all.iter().map(Series::document).collect();
        document.put(rows.clone(), None);
        record(args, document)?;
        ended?;
        if bench.signal().is_some() {
            break;
        }
        let ceiling = ceiling::of(bench, pattern, ratio, &rows, &mut measured)?;
        document.put(rows, ceiling);
        record(args, document)?;
    }
    Ok(())
}

/// Runs each way once, until a signal comes.
fn round(
    bench: &Bench<'_>,
    pattern: &'static Pattern,
    ratio: f64,
    all: &mut [Series],
) -> Result<(), Failure> {
    for at in 0..all.len() {
        let memory = series::memory_of_pager(all);
        let series = &mut all[at];
        for hint in series.hints() {
            if bench.signal().is_some() {
                return Ok(());
            }
            let ended = bench.run(pattern, ratio, series.way(), hint, memory)?;
            let (name, way) = (pattern.name, series.way().name());
            let hint_text = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            let said = render::bench_compare::ended(&ended);
            output::message(&format!("{name} at {ratio} x on {way}{hint_text}: {said}"));
            series.add(hint, ended);
        }
    }
    Ok(())
}
