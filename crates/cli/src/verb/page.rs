//! Writes the HTML page of a result, which `--report` requests in addition to the normal output.

use interleaf_console::{Failure, output};
use interleaf_record::Document;
use std::path::Path;

/// Writes the HTML page of a document to `target`, and prints a message that names this file. Does
/// nothing without `target`.
pub(super) fn write(
    target: Option<&Path>,
    document: impl FnOnce() -> Document,
) -> Result<(), Failure> {
    write_quiet(false, target, document)
}

/// Like [`write()`], but prints no message if `quiet` is set.
pub(super) fn write_quiet(
    quiet: bool,
    target: Option<&Path>,
    document: impl FnOnce() -> Document,
) -> Result<(), Failure> {
    let Some(target) = target else { return Ok(()) };
    output::file(target, &interleaf_report::html::page(&document()))?;
    if !quiet {
        output::message(&format!("the report is in {}", target.display()));
    }
    Ok(())
}
