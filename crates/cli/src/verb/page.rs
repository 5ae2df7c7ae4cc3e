//! The HTML page of a result, which `--report` writes in addition to the output.

use interleaf_console::{Failure, output};
use interleaf_record::Document;
use std::path::Path;

/// Writes the page of a document if a file was given, and prints a message with the file's name.
pub(super) fn write(
    target: Option<&Path>,
    document: impl FnOnce() -> Document,
) -> Result<(), Failure> {
    let Some(target) = target else { return Ok(()) };
    output::file(target, &interleaf_report::html::page(&document()))?;
    output::message(&format!("the report is in {}", target.display()));
    Ok(())
}
