//! Writes the result of a command to stdout and to a file, as JSON, CSV or text.

use crate::{Failure, output};
use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, absolute},
};

/// The output options of a command.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputOptions<'a> {
    /// Print the JSON document in place of tables.
    pub json: bool,
    /// Print CSV in place of tables.
    pub csv: bool,
    /// The file to which the JSON document is written; `-` is stdout.
    pub output: Option<&'a Path>,
}

/// Checks, before long work begins, that the record (`output`), the HTML page (`report`) and the
/// files `others` can be written.
///
/// # Errors
/// When one of these files cannot be written, when two of them are the same file, when one of them
/// is an input of this command line, or when `report` cannot be the name of an HTML page.
pub fn check_outputs(
    output: Option<&Path>,
    report: Option<&Path>,
    others: &[Option<&Path>],
) -> Result<(), Failure> {
    check_outputs_of("-o", output, report, others)
}

/// Checks the outputs like [`check_outputs`]. `record` is the option with which the command writes
/// its record, such as `--stats FILE`. The hint about an invalid HTML file name names this option.
///
/// # Errors
/// Those of [`check_outputs`].
pub fn check_outputs_of(
    record: &str,
    output: Option<&Path>,
    report: Option<&Path>,
    others: &[Option<&Path>],
) -> Result<(), Failure> {
    check_report(record, output, report)?;
    let targets: Vec<&Path> = [output, report].iter().chain(others).copied().flatten().collect();
    for (at, target) in targets.iter().enumerate() {
        if targets[..at].iter().any(|other| is_same_file(target, other)) {
            return Err(Failure::new(
                format!("{}: is to be written twice", target.display()),
                "name a file for each output",
            ));
        }
    }
    for target in targets {
        check_no_input(target)?;
        output::check_writable(Some(target))?;
    }
    Ok(())
}

/// Fails if one of `options` is given. Each entry has the flag "is given" and the name of an
/// option. In the error, `why` follows the name of the first given option, and `instead` follows
/// "leave it out, or".
///
/// # Errors
/// When one of the options is given.
pub fn reject_given(options: &[(bool, &str)], why: &str, instead: &str) -> Result<(), Failure> {
    match options.iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) => Err(Failure::new(
            format!("{option} {why}"),
            format!("leave {option} out, or {instead}"),
        )),
        None => Ok(()),
    }
}

/// True if `one` and `other` name the same file, which may not exist yet. False for stdout and for
/// a device such as /dev/null, to which several outputs may go.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let is_device = fs::metadata(one).is_ok_and(|found| !found.is_file());
    let is_equal = one != Path::new("-")
        && !is_device
        && absolute(one).is_ok_and(|one| absolute(other).is_ok_and(|other| one == other));
    is_equal || identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Returns the device number and the inode number of a regular file; `None` for stdout and for any
/// other file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found =
        fs::metadata(path).ok().filter(|found| found.is_file() && path != Path::new("-"))?;
    Some((found.dev(), found.ino()))
}

/// Checks that `report` can be the name of an HTML page, and is not the file `output` of the
/// record.
fn check_report(record: &str, output: Option<&Path>, report: Option<&Path>) -> Result<(), Failure> {
    let (problem, hint) = match report {
        Some(report) if report == Path::new("-") => (
            "--report -: a page would follow what is printed on stdout".to_string(),
            "name a file, such as --report page.html".to_string(),
        ),
        Some(report) if output.is_some_and(|output| is_same_file(report, output)) => (
            format!("--report would overwrite {}, which -o writes", report.display()),
            "name two files: the document is JSON, the report HTML".to_string(),
        ),
        Some(report) if !is_page(report) => (
            format!("--report {}: a report is a page of HTML", report.display()),
            format!(
                "end the name with .html; `interleaf report` makes other formats of the record \
                 ({record})"
            ),
        ),
        _ => return Ok(()),
    };
    Err(Failure::new(problem, hint))
}

/// Checks that the command line does not name the existing file `target` twice: as an output and as
/// an input, which the output would overwrite.
///
/// # Errors
/// When the command line names the file more than once.
pub fn check_no_input(target: &Path) -> Result<(), Failure> {
    match names_of(target, &own_words()) {
        0 | 1 => Ok(()),
        _ => Err(Failure::new(
            format!("{} is an input, and would be overwritten", target.display()),
            "name another file for the output",
        )),
    }
}

/// Checks that the command line does not name the file `beside`. This file is written together with
/// `target`, the file of the command-line option `option`.
///
/// # Errors
/// When the command line names the file `beside` as an input or as another output.
pub fn check_beside(option: &str, target: &Path, beside: &Path) -> Result<(), Failure> {
    match is_named(beside, &own_words()) {
        false => Ok(()),
        true => Err(Failure::new(
            format!(
                "{option} {}: {} is written with it, and this command line names that file too",
                target.display(),
                beside.display()
            ),
            format!("give {option} another name or another folder"),
        )),
    }
}

/// Returns the words of this process's command line before `--`. Words after `--` are the command
/// that Interleaf runs.
fn own_words() -> Vec<String> {
    let words = std::env::args_os().skip(1).take_while(|word| word != "--");
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Counts how often the words of a command line name the existing file `target`. Links to the file
/// count too.
fn names_of(target: &Path, words: &[String]) -> usize {
    let Some(own) = identity(target) else { return 0 };
    count_names(words, |name| identity(Path::new(name)) == Some(own))
}

/// True if a word of a command line names the file `target`, which may not exist yet.
fn is_named(target: &Path, words: &[String]) -> bool {
    count_names(words, |name| is_same_file(target, Path::new(name))) > 0
}

/// Counts the file names in the words of a command line for which `is_own` is true. A word may be a
/// file name, `--option=NAME`, `-oNAME`, a list of file names separated by commas, or a file name
/// with a suffix (`NAME:PARAMETERS`, `NAME=SHARE`).
fn count_names(words: &[String], is_own: impl Fn(&str) -> bool) -> usize {
    let names = words.iter().flat_map(|word| {
        let value = word.split_once('=').filter(|_| word.starts_with('-')).map(|(_, value)| value);
        value.or(word.strip_prefix("-o")).unwrap_or(word).split(',')
    });
    let begins_with_own = |name: &str| name.split([':', '=']).next().is_some_and(&is_own);
    names.filter(|name| is_own(name) || begins_with_own(name)).count()
}

/// True if `path` can be the name of an HTML page: it ends with .html or .htm, or has no ending.
fn is_page(path: &Path) -> bool {
    ends_with_one_of(path, &["html", "htm"])
}

/// True if the ending of the name is one of `endings`, in small or capital letters, or if the name
/// has no ending.
fn ends_with_one_of(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    ending.is_none_or(|ending| endings.iter().any(|one| ending == *one))
}

/// Checks that `target`, the value of the command-line option `option`, can be the name of an SVG
/// picture.
///
/// # Errors
/// When the name has another ending.
pub fn check_picture(option: &str, target: &Path) -> Result<(), Failure> {
    match ends_with_one_of(target, &["svg"]) {
        true => Ok(()),
        false => Err(Failure::new(
            format!("{option} {}: a plot is a picture in SVG", target.display()),
            format!("end the name with .svg, such as {option} plot.svg"),
        )),
    }
}

/// Writes the JSON document to the file of `-o`, if one is given, and prints the result as JSON,
/// CSV or text as `options` request. With `-o -`, prints only the JSON document.
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

/// Prints each of `warnings` to stderr if `options` request CSV: CSV has no column for them.
pub fn warn_beside_csv(options: OutputOptions<'_>, warnings: &[String]) {
    if options.csv && options.output != Some(Path::new("-")) {
        warnings.iter().for_each(|warning| output::message(&format!("warning: {warning}")));
    }
}
