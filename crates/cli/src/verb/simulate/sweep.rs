//! `interleaf simulate machine|dimm --sweep`: simulates each combination of the values in a sweep
//! file's lists. A combination is a *case*, and gives one or more rows of a CSV file.
//!
//! Cases are simulated on all cores, and their rows are written in order of completion. At the end
//! the rows are sorted, so the file does not depend on the number of cores. An interrupted sweep
//! that is started again keeps the rows that are already in the file.

mod progress;

use crate::verb::page;
use interleaf_console::{Failure, output, support};
use interleaf_job::sweep::{Cases, Record, parquet};
use progress::Progress;
use rayon::prelude::*;
use std::{path::Path, time::Instant};

/// The files that a sweep writes.
pub(super) struct Outputs<'a> {
    /// The CSV file of the rows. With `None`, the rows go to stdout.
    pub(super) rows: Option<&'a Path>,
    pub(super) parquet: Option<&'a Path>,
    pub(super) report: Option<&'a Path>,
}

/// Rejects `--parquet` without `--sweep`.
pub(super) fn reject_parquet(parquet: Option<&Path>) -> Result<(), Failure> {
    let given = [(parquet.is_some(), "--parquet")];
    support::reject_given(&given, "goes with --sweep", "give --sweep FILE")
}

/// Simulates the cases of the sweep file `path`, and writes the output files.
pub(super) fn run(
    path: &Path,
    cases: &mut dyn Cases,
    outputs: &Outputs<'_>,
) -> Result<(), Failure> {
    support::check_outputs(outputs.rows, outputs.report, &[outputs.parquet])?;
    // Only a sweep with its rows in a regular file can be continued. A device has no earlier rows,
    // and reading from it might never end.
    let stream = |target: &Path| target == Path::new("-") || target.exists() && !target.is_file();
    let to_file = outputs.rows.filter(|target| !stream(target));
    progress::say_cases(cases.count(), to_file.is_some());
    cases.notes().iter().for_each(|note| output::message(note));
    let record = Record::open(to_file, cases)?;
    progress::say_done(record.done());
    let missing: Vec<usize> = (0..cases.count()).filter(|case| !record.has(*case)).collect();
    cases.prepare(&missing);
    let progress = Progress::begin(path, cases.name(), cases.count(), record.done());
    if let Some(target) = to_file {
        progress.exit_on_signal(target)?;
    }
    let cases: &dyn Cases = cases;
    let compute = |numbers: &[usize]| {
        numbers.par_iter().try_for_each(|number| {
            record.add(*number, cases.rows(*number)?)?;
            progress.advance();
            Ok::<(), Failure>(())
        })
    };
    let (sample, others) = sampled(&missing, rayon::current_num_threads());
    let begun = Instant::now();
    let done = compute(&sample).and_then(|()| {
        progress.say_time(begun.elapsed(), sample.len(), others.len());
        compute(&others)
    });
    progress.end();
    done?;
    let text = record.finish()?;
    match to_file {
        Some(target) => {
            let rows = interleaf_report::page::counted(text.lines().count() - 1, "row");
            output::message(&format!("{rows} in {}", target.display()));
        }
        None => output::file(outputs.rows.unwrap_or(Path::new("-")), &text)?,
    }
    if let Some(target) = outputs.parquet {
        output::bytes(target, &parquet::file(cases.columns(), &text)?)?;
        output::message(&format!("the rows as Parquet are in {}", target.display()));
    }
    if outputs.report.is_none() {
        return Ok(());
    }
    let document = interleaf_record::read(cases.name(), &text)
        .map_err(|why| Failure::new(why.problem, why.hint))?;
    page::write(outputs.report, || document)
}

/// Splits `cases` into a sample, which has at most `count` cases at equal distances, and the other
/// cases. The sample is simulated first, to estimate the time of the other cases.
fn sampled(cases: &[usize], count: usize) -> (Vec<usize>, Vec<usize>) {
    let step = cases.len().div_ceil(count.max(1)).max(1);
    let (sample, others): (Vec<_>, Vec<_>) =
        cases.iter().enumerate().partition(|(at, _)| at % step == 0);
    let numbers = |part: Vec<(usize, &usize)>| part.into_iter().map(|(_, case)| *case).collect();
    (numbers(sample), numbers(others))
}
