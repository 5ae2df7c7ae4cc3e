//! Writes the result of a command to stdout and to a file, as JSON, CSV or text.

use crate::{Failure, output};
use std::path::Path;

/// The output options of a command.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputOptions<'a> {
    /// Print the JSON document in place of tables.
    pub json: bool,
    /// Print CSV in place of tables.
    pub csv: bool,
    /// The file that the JSON document is recorded in; `-` is stdout.
    pub output: Option<&'a Path>,
}

/// Checks before long work that the record (`options.output`) and the HTML page (`report`) can be
/// written.
///
/// # Errors
/// When one of the files cannot be written, when both are the same file, or when `report` cannot be
/// the name of an HTML page.
pub fn check_outputs(options: OutputOptions<'_>, report: Option<&Path>) -> Result<(), Failure> {
    output::check_writable(options.output)?;
    output::check_writable(report)?;
    let (problem, hint) = match report {
        Some(report) if report == Path::new("-") => (
            "--report -: a page would follow what is printed on stdout".to_string(),
            "name a file, such as --report page.html",
        ),
        Some(report) if Some(report) == options.output => (
            format!("--report would overwrite {}, which -o writes", report.display()),
            "name two files: the document is JSON, the report HTML",
        ),
        Some(report) if !is_page(report) => (
            format!("--report {}: a report is a page of HTML", report.display()),
            "end the name with .html; `interleaf report` makes other formats of the record (-o)",
        ),
        _ => return Ok(()),
    };
    Err(Failure::new(problem, hint))
}

/// True if an HTML page can have this name: the name ends with .html or .htm, or has no ending.
fn is_page(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    ending.is_none_or(|ending| ending == "html" || ending == "htm")
}

/// Writes a document to the file of `-o`, and prints it as JSON, CSV or text. With `-o -` only the
/// JSON is printed.
///
/// # Errors
/// When stdout or the file cannot be written.
pub fn print_document(
    options: OutputOptions<'_>,
    json: &str,
    csv: impl FnOnce() -> String,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if let Some(target) = options.output {
        output::file(target, json)?;
        if target.as_os_str() == "-" {
            return Ok(());
        }
    }
    if options.json {
        output::data(json)
    } else if options.csv {
        output::data(&csv())
    } else {
        output::text(&text())
    }
}
