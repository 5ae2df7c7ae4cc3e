//! `interleaf bench compare`: runs the same patterns on DRAM, the pager, swap and mapped files.

mod ceiling;
mod child;
mod drive;
mod series;

use crate::{
    args::BenchCompareArgs,
    comparison::{
        memory_kind::MemoryKind,
        pattern::{PATTERNS, Pattern},
    },
    verb::page,
};
use child::{Comparison, RunOutcome};
use interleaf_console::{Failure, output, support};
use interleaf_linux::{launch::command::Signals, root::Root};
use interleaf_record::{
    Document,
    bench_compare::{BenchCompareDocument, BenchRow, Budget},
};
use series::{OOM_KILLED, Series};
use std::{process::ExitCode, time::Instant};

pub(super) fn run(args: &BenchCompareArgs) -> Result<ExitCode, Failure> {
    support::check_outputs(args.output.output.as_deref(), args.report.as_deref(), &[])?;
    drive::check(args)?;
    let root = Root::live();
    let held = Signals::hold();
    let signals =
        held.map_err(|why| Failure::new(format!("signals cannot be held: {why}"), "report it"))?;
    let bench = Comparison::new(&root, &signals, args)?;
    let budget = Budget { dram_bytes: args.dram.get(), slack_bytes: args.slack.get() };
    let mut document = BenchCompareDocument::new(budget, args.threads, &args.store, &root);
    let measured = measure(&bench, args, &mut document);
    let (csv, text) = (
        || interleaf_report::bench_compare::csv(&document),
        || interleaf_report::bench_compare::text(&document),
    );
    // After the failure of a round, the earlier rounds are still valid and are printed.
    if measured.is_ok() || !document.rows.is_empty() {
        support::print_document(
            args.output.options(),
            &interleaf_record::json(&document),
            csv,
            text,
        )?;
        page::write(args.report.as_deref(), || Document::Bench(Box::new(document.clone())))?;
    }
    measured?;
    bench.check_restored()?;
    Ok(ExitCode::from(match bench.signal() {
        Some(signal) => 128 + signal as u8,
        None => u8::from(document.has_wrong_result()),
    }))
}

/// Maximum number of attempts of a run that the OOM killer ends.
const OOM_TRIES: u32 = 4;

/// The comparisons of a study that were run.
#[derive(Debug, Default)]
pub(in crate::verb) struct Comparisons {
    /// A document for each comparison that was begun, in the order of the arguments.
    pub(in crate::verb) documents: Vec<BenchCompareDocument>,
    /// Patterns with footprints whose runs were not begun before the deadline.
    pub(in crate::verb) left_out: Vec<String>,
    /// The signal that ended the comparisons.
    pub(in crate::verb) signal: Option<i32>,
}

/// Runs comparisons for a study until a signal arrives, or until `deadline`. A run that has not
/// ended at the deadline is killed, unless a launcher (`--by`) still queues it. Within a
/// comparison, all patterns run at one footprint before any pattern runs at the next footprint.
///
/// # Errors
/// When the store or fio cannot be used, the budget cannot be enforced, or a setting cannot be
/// restored.
pub(in crate::verb) fn comparisons(
    all: &[BenchCompareArgs],
    deadline: Instant,
) -> Result<Comparisons, Failure> {
    let root = Root::live();
    let held = Signals::hold();
    let signals =
        held.map_err(|why| Failure::new(format!("signals cannot be held: {why}"), "report it"))?;
    let steps = |args: &BenchCompareArgs| args.ratio.len() * chosen(args).len();
    let total: usize = all.iter().map(steps).sum();
    let mut done = 0;
    let mut found = Comparisons::default();
    all.iter().try_for_each(drive::check)?;
    for args in all {
        let bench = Comparison::new(&root, &signals, args)?.until(deadline);
        let budget = Budget { dram_bytes: args.dram.get(), slack_bytes: args.slack.get() };
        let mut document = BenchCompareDocument::new(budget, args.threads, &args.store, &root);
        for ratio in &args.ratio {
            for pattern in chosen(args) {
                done += 1;
                if found.signal.is_some() {
                    continue;
                }
                if Instant::now() >= deadline {
                    let threads = args.threads;
                    found.left_out.push(format!("{} at {ratio} x ({threads})", pattern.name));
                    continue;
                }
                let ran = rounds(&bench, args, pattern, *ratio, &mut document, (done, total));
                // If a run failed, check that its settings are restored before its error is
                // returned.
                if ran.is_err() {
                    bench.check_restored()?;
                }
                ran?;
                found.signal = bench.signal();
            }
        }
        bench.check_restored()?;
        found.documents.push(document);
    }
    Ok(found)
}

/// Runs all patterns at all footprints.
fn measure(
    bench: &Comparison<'_>,
    args: &BenchCompareArgs,
    document: &mut BenchCompareDocument,
) -> Result<(), Failure> {
    let patterns = chosen(args);
    let total = patterns.len() * args.ratio.len();
    let mut done = 0;
    for pattern in patterns {
        for ratio in &args.ratio {
            done += 1;
            rounds(bench, args, pattern, *ratio, document, (done, total))?;
            if bench.signal().is_some() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Writes the interim record to the file of `-o`, in case this process is ended.
fn record(args: &BenchCompareArgs, document: &BenchCompareDocument) -> Result<(), Failure> {
    let target = args.output.output.as_deref().filter(|target| {
        // A pipe or a device receives the whole record once, at the end.
        target.as_os_str() != "-" && target.metadata().map_or(true, |found| found.is_file())
    });
    match target {
        Some(target) => output::interim(target, &interleaf_record::json(document)),
        None => Ok(()),
    }
}

fn chosen(args: &BenchCompareArgs) -> Vec<&'static Pattern> {
    let is_chosen =
        |pattern: &&Pattern| args.workload.iter().any(|it| it == "all" || it == pattern.name);
    PATTERNS.iter().filter(is_chosen).collect()
}

/// Runs all rounds of a pattern. Each round runs the pattern on every kind of memory (way), and
/// then measures the drive with fio if the ceiling depends on the drive, so that interference
/// affects all ways and fio equally. After each round, the rows of all rounds so far replace the
/// earlier rows of the pattern in the document and in the interim record. For the messages, `step`
/// has the position of this pair of pattern and footprint, and the count of all pairs.
fn rounds(
    bench: &Comparison<'_>,
    args: &BenchCompareArgs,
    pattern: &'static Pattern,
    ratio: f64,
    document: &mut BenchCompareDocument,
    step: (usize, usize),
) -> Result<(), Failure> {
    let mut ways: Vec<MemoryKind> =
        args.ways.iter().filter_map(|name| MemoryKind::from_name(name)).collect();
    // Kinds of memory with a limit run last, because their limit is the memory that the pager used.
    ways.sort_by_key(|way| way.is_bounded());
    let mut all: Vec<Series> =
        ways.into_iter().map(|way| Series::new(pattern, ratio, way)).collect();
    let mut measured = None;
    for _ in 0..args.rounds {
        let ended = round(bench, pattern, ratio, &mut all, step);
        let rows: Vec<BenchRow> = all.iter().map(Series::document).collect();
        document.replace_rows(rows.clone(), None, pattern.moves_bytes());
        record(args, document)?;
        ended?;
        if bench.signal().is_some() {
            break;
        }
        let ceiling = ceiling::find(bench, pattern, ratio, &rows, &mut measured)?;
        document.replace_rows(rows, ceiling, pattern.moves_bytes());
        record(args, document)?;
    }
    Ok(())
}

/// Runs the pattern once on each kind of memory (way), until a signal arrives. A mapped file is run
/// once for each advice (`madvise`) that the series asks for.
fn round(
    bench: &Comparison<'_>,
    pattern: &'static Pattern,
    ratio: f64,
    all: &mut [Series],
    (step, steps): (usize, usize),
) -> Result<(), Failure> {
    for at in 0..all.len() {
        let memory = series::memory_of_pager(all);
        let series = &mut all[at];
        for hint in series.hints() {
            if bench.signal().is_some() {
                return Ok(());
            }
            let outcome =
                run_with_retries(bench, || bench.run(pattern, ratio, series.way(), hint, memory))?;
            let (name, way) = (pattern.name, series.way().name());
            let hint_text = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            let said = outcome_text(&outcome);
            let at = format!("{name} at {ratio} x on {way}{hint_text}");
            output::message(&format!("{at}: {said} [{step}/{steps}]"));
            series.add(hint, outcome);
        }
    }
    Ok(())
}

/// Repeats a run that the OOM killer ended, up to [`OOM_TRIES`] runs in total, because a kill is
/// rare and says nothing of the speed. A repeated run that fails for another reason counts as
/// killed.
fn run_with_retries(
    bench: &Comparison<'_>,
    run: impl Fn() -> Result<RunOutcome, Failure>,
) -> Result<RunOutcome, Failure> {
    let mut outcome = run()?;
    for _ in 1..OOM_TRIES {
        if !matches!(outcome, RunOutcome::OomKilled) || bench.signal().is_some() {
            break;
        }
        output::message(&format!("a run is repeated: {OOM_KILLED}"));
        outcome = match run()? {
            RunOutcome::Failed(_) => RunOutcome::OomKilled,
            repeated => repeated,
        };
    }
    Ok(outcome)
}

/// Describes the outcome of a run.
fn outcome_text(outcome: &RunOutcome) -> String {
    match outcome {
        RunOutcome::Done(done) => {
            let document = &done.document;
            let wrong = if document.verified { "" } else { ", and the result is WRONG" };
            let round = document.seconds / document.round_seconds.len().max(1) as f64;
            format!(
                "{} {}, {} s a round{wrong}",
                interleaf_report::number(document.rate),
                document.rate_unit,
                interleaf_report::number(round)
            )
        }
        RunOutcome::TooLong => "it took too long".into(),
        RunOutcome::Failed(why) => format!("failed: {why}"),
        RunOutcome::OomKilled => format!("failed: {OOM_KILLED}"),
        RunOutcome::Signal(signal) => format!("ended by signal {signal}"),
    }
}
