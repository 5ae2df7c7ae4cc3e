//! Writes the result of a command to stdout and to a file, as JSON, CSV or text.

use crate::{Failure, output};
use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

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
/// When one of the files cannot be written, when both are the same file, when one of them is an
/// input of this command line, or when `report` cannot be the name of an HTML page.
pub fn check_outputs(options: OutputOptions<'_>, report: Option<&Path>) -> Result<(), Failure> {
    for target in [options.output, report].into_iter().flatten() {
        check_no_input(target)?;
        output::check_writable(Some(target))?;
    }
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

/// Checks that the command line names the output file `target` only once. Of two names of the same
/// file, one is an input, which the output would overwrite.
///
/// # Errors
/// When the command line names the file twice.
pub fn check_no_input(target: &Path) -> Result<(), Failure> {
    let words = std::env::args_os().skip(1).take_while(|word| word != "--");
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    match names_of(target, &words) {
        0 | 1 => Ok(()),
        _ => Err(Failure::new(
            format!("{} is an input, and would be overwritten", target.display()),
            "name another file for the output",
        )),
    }
}

/// Counts how often the words of a command line name the file `target`. A word may be a name,
/// `--option=NAME`, `-oNAME`, a list of names separated by commas, or a name with a suffix
/// (`NAME:PARAMETERS`, `NAME=SHARE`). Links to the file count too.
fn names_of(target: &Path, words: &[String]) -> usize {
    let identity = |path: &Path| {
        let is_stdout = path == Path::new("-");
        let found = fs::metadata(path).ok().filter(|found| found.is_file() && !is_stdout)?;
        Some((found.dev(), found.ino()))
    };
    let Some(own) = identity(target) else { return 0 };
    let is_own = |name: &&str| identity(Path::new(name)) == Some(own);
    let names = words.iter().flat_map(|word| {
        let value = word.split_once('=').filter(|_| word.starts_with('-')).map(|(_, value)| value);
        value.or(word.strip_prefix("-o")).unwrap_or(word).split(',')
    });
    let begins_with_own = |name: &&str| name.split([':', '=']).next().is_some_and(|it| is_own(&it));
    names.filter(|name| is_own(name) || begins_with_own(name)).count()
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
