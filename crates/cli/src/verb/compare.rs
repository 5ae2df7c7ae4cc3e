//! `interleaf compare`: compares two records of `interleaf measure`, or runs a command in several
//! configurations and compares the results.

mod runs;

use crate::{args::CompareArgs, verb::page};
use interleaf_console::{Failure, support};
use interleaf_record::{Document, compare_records::CompareDocument, measure::MeasureDocument};
use std::{path::Path, process::ExitCode};

pub(super) fn run(args: &CompareArgs, root: Option<&Path>) -> Result<ExitCode, Failure> {
    match (&args.first, &args.second) {
        (Some(first), Some(second)) => records(args, [first, second]),
        _ => runs::run(args, root),
    }
}

/// Reads two records of `interleaf measure` from the files `paths`, and prints their comparison.
fn records(args: &CompareArgs, paths: [&Path; 2]) -> Result<ExitCode, Failure> {
    support::check_outputs(args.output.output.as_deref(), args.runs.report.as_deref(), &[])?;
    let [first, second] = [record(paths[0])?, record(paths[1])?];
    let [a, b] = paths.map(|path| path.display().to_string());
    let document = CompareDocument::of_measure((&a, &first), (&b, &second));
    if document.rows.is_empty() {
        return Err(Failure::new(
            format!("{a} and {b} have no point in common: {} and {}", first.what, second.what),
            "measure both in the same way, with the same mixes, nodes and threads",
        ));
    }
    let csv = || interleaf_report::compare_records::csv(&document);
    let text = || match args.markdown {
        true => interleaf_report::compare_records::markdown(&document),
        false => interleaf_report::compare_records::text(&document),
    };
    support::print_document(args.output.options(), &interleaf_record::json(&document), csv, text)?;
    let differ = document.differ();
    page::write(args.runs.report.as_deref(), || Document::Compare(Box::new(document)))?;
    match (args.same, differ) {
        (false, _) | (true, Some(false)) => Ok(ExitCode::SUCCESS),
        (true, Some(true)) => Ok(ExitCode::from(1)),
        (true, None) => Err(Failure::new(
            "--same: no point that both have is good and has a spread in both",
            "measure with --repeat 3 or more, when nothing else runs",
        )),
    }
}

/// Reads the record of a measurement: the document of `interleaf measure`, or the output of MLC or
/// of the Mess benchmark, which is converted.
fn record(path: &Path) -> Result<MeasureDocument, Failure> {
    let hint = "name a document that `interleaf measure -o FILE` recorded";
    let name = path.display().to_string();
    let text = interleaf_catalog::document(path, hint)?;
    let record = interleaf_record::read(&name, &text);
    match record.map_err(|why| Failure::new(why.problem, why.hint))? {
        Document::Measure(document) => Ok(*document),
        _ => Err(Failure::new(format!("{name}: it is not a record of a measurement"), hint)),
    }
}
