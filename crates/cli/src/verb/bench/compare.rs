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
    args::BenchCompareArgs, document::bench_compare::CompareDocument, failure::Failure, output,
    render, verb::give,
};
use child::Bench;
use interleaf_linux::{command::Signals, root::Root};
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
    for pattern in chosen(args) {
        for ratio in &args.ratio {
            let all = turns(&bench, args, pattern, *ratio)?;
            let rows: Vec<_> = all.iter().map(Series::document).collect();
            let ceiling = match bench.signal() {
                None => ceiling::of(&bench, pattern, *ratio, &rows)?,
                Some(_) => None,
            };
            document.add(rows, ceiling);
            if bench.signal().is_some() {
                break;
            }
        }
    }
    let (csv, text) =
        (|| render::bench_compare::csv(&document), || render::bench_compare::text(&document));
    give(&args.output, &document, csv, text)?;
    Ok(ExitCode::from(match bench.signal() {
        Some(signal) => 128 + signal as u8,
        None => u8::from(document.has_wrong()),
    }))
}

fn chosen(args: &BenchCompareArgs) -> Vec<&'static Pattern> {
    let is_chosen =
        |pattern: &&Pattern| args.workload.iter().any(|it| it == "all" || it == pattern.name);
    PATTERNS.iter().filter(is_chosen).collect()
}

/// All runs of a pattern: each way in turn in every round, so that what else happens on the machine
/// happens to all of them.
fn turns(
    bench: &Bench<'_>,
    args: &BenchCompareArgs,
    pattern: &'static Pattern,
    ratio: f64,
) -> Result<Vec<Series>, Failure> {
    let ways = args.ways.iter().filter_map(|name| Way::of(name));
    let mut all: Vec<Series> = ways.map(|way| Series::new(pattern, ratio, way)).collect();
    for _ in 0..args.rounds {
        for series in &mut all {
            for hint in series.hints() {
                if bench.signal().is_some() {
                    return Ok(all);
                }
                let ended = bench.run(pattern, ratio, series.way(), hint)?;
                let (name, way) = (pattern.name, series.way().name());
                let hint_text = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                let said = render::bench_compare::ended(&ended);
                output::message(&format!("{name} at {ratio} x on {way}{hint_text}: {said}"));
                series.add(hint, ended);
            }
        }
    }
    Ok(all)
}
