//! `interleaf bench compare`: runs patterns (workloads with fixed arguments) on several kinds of
//! memory (DRAM, pager, swap, mapped files), and compares the speeds.

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
    // If a round failed, the results of the earlier rounds are valid, so print them.
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

/// Maximum number of attempts at a run that the OOM killer ends.
const OOM_TRIES: u32 = 4;

/// The results of the comparisons that a study (`interleaf reproduce`) runs.
#[derive(Debug, Default)]
pub(in crate::verb) struct Comparisons {
    /// A document for each comparison that was begun, in the order of the argument `all` of the
    /// function `comparisons`.
    pub(in crate::verb) documents: Vec<BenchCompareDocument>,
    /// The names of the combinations of pattern, footprint and number of threads whose runs had not
    /// begun at the deadline.
    pub(in crate::verb) left_out: Vec<String>,
    /// The signal that ended the comparisons early, if any.
    pub(in crate::verb) signal: Option<i32>,
}

/// Runs the comparisons `all` of a study until `deadline`, or until a signal arrives. At the
/// deadline, a run in progress is killed, unless a launcher (`--by`) still queues it. A comparison
/// runs all patterns at one footprint, and then all patterns at the next footprint.
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
                // If a run failed, restore its kernel settings before its error is returned.
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

/// Runs each chosen pattern at each footprint, and adds the results to `document`.
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

/// Writes the results so far to the file of `-o`, so that they survive if this process is killed.
fn record(args: &BenchCompareArgs, document: &BenchCompareDocument) -> Result<(), Failure> {
    let target = args.output.output.as_deref().filter(|target| {
        // If the target is a pipe or a device, the record is written once, at the end.
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

/// Runs all rounds of `pattern` at one footprint. A round runs the pattern on each kind of memory
/// (way). If the pattern's ceiling depends on the drive, the round then measures the drive with
/// fio, so that interference affects all ways and fio equally. After each round, the results of all
/// rounds so far replace the pattern's rows in `document` and in the interim record. `step` is for
/// the messages: the number of this combination of pattern and footprint, and the count of all
/// combinations.
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
    // Run swap and mapped files last: the memory that the pager used is the limit of their memory.
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

/// Runs the pattern once on each kind of memory in `all`, until a signal arrives. On a mapped file,
/// runs the pattern once with each advice (`madvise`) in `series.hints()`.
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

/// Calls `run`, and calls it again while the OOM killer ends the runs, up to [`OOM_TRIES`] calls in
/// total. Such a kill is rare, and does not mean that the memory is slow. If a later run fails for
/// another reason, the returned outcome is still `OomKilled`.
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

/// Describes the outcome of a run in a line for the user's terminal.
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
