//! The log of a command that is run several times: a file with the output of all runs. The file is
//! read while it grows.

use indicatif::ProgressBar;
use interleaf_console::{Failure, output};
use interleaf_linux::replace::Existing;
use regex_lite::Regex;
use std::{
    fs::File,
    io::{self, Write as _},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Maximum number of bytes at the end of a run's output that are searched for a metric, and of
/// bytes that are printed at once.
const TEXT_MAX: u64 = 16 << 20;

/// Number of lines at the end of the output that are printed for a failed command.
const LAST_LINES: usize = 10;

/// The log of all runs.
pub(crate) struct Log {
    file: File,
    /// The name of `file`; `None` for an unnamed file.
    path: Option<PathBuf>,
    /// The offset in `file` at which the output of the current run begins.
    start: u64,
    /// True if the output is also printed while the file grows.
    is_shown: bool,
}

impl Log {
    /// Opens a log: appends to the file `path`, or uses an unnamed file if `path` is `None`. The
    /// output is also printed only without `path` and without `quiet`.
    pub(crate) fn open(path: Option<&Path>, quiet: bool) -> Result<Self, Failure> {
        let file = match path {
            Some(path) => output::growing(path, Existing::Append)?,
            None => tempfile::tempfile().map_err(|why| log_failure(path, &why))?,
        };
        let start = file.metadata().map_err(|why| log_failure(path, &why))?.len();
        let is_shown = path.is_none() && !quiet;
        Ok(Self { file, path: path.map(Into::into), start, is_shown })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    fn failure(&self, why: &io::Error) -> Failure {
        log_failure(self.path.as_deref(), why)
    }

    fn length(&self) -> u64 {
        self.file.metadata().map_or(self.start, |metadata| metadata.len())
    }

    /// Begins a run: output from now on belongs to it.
    pub(crate) fn begin_run(&mut self) {
        self.start = self.length();
    }

    /// Returns a value that prints the output of the current run while it grows.
    pub(crate) fn shown(&self) -> LogPrinter<'_> {
        LogPrinter { log: self, next: self.start }
    }

    /// Returns the output of the current run: that since the last [`Self::begin_run`], but at most
    /// its last [`TEXT_MAX`] bytes.
    pub(crate) fn text(&self) -> Result<String, Failure> {
        let end = self.length();
        let start = self.start.max(end.saturating_sub(TEXT_MAX));
        let mut bytes = vec![0; (end - start) as usize];
        self.file.read_exact_at(&mut bytes, start).map_err(|why| self.failure(&why))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the last lines of the current run, which failed.
    ///
    /// # Errors
    /// When the log cannot be read or written. If the disk is full, a command that checks its
    /// writes fails, so a newline is written to the log as a test.
    pub(crate) fn last_lines(&self) -> Result<String, Failure> {
        let text = self.text()?;
        (&self.file).write_all(b"\n").map_err(|why| self.failure(&why))?;
        let lines: Vec<&str> = text.trim_end().lines().collect();
        Ok(lines[lines.len().saturating_sub(LAST_LINES)..].join("\n"))
    }
}

fn log_failure(path: Option<&Path>, why: &io::Error) -> Failure {
    let (place, hint) = match path {
        Some(path) => (
            format!("--log {}: ", path.display()),
            "make room there, or name a file on another file system",
        ),
        None => (
            String::new(),
            "name a file for it with --log FILE, or make room in the folder for temporary files",
        ),
    };
    Failure::new(format!("{place}the output of the command cannot be kept: {why}"), hint)
}

/// Prints the output of a run from its log while the run writes it.
pub(crate) struct LogPrinter<'a> {
    log: &'a Log,
    next: u64,
}

impl LogPrinter<'_> {
    /// Prints the output since the last call, at most [`TEXT_MAX`] bytes. The next call continues
    /// there.
    pub(crate) fn print_new(&mut self, bar: &ProgressBar) {
        let end = self.log.length();
        if !self.log.is_shown || end <= self.next {
            return;
        }
        let mut bytes = vec![0; (end - self.next).min(TEXT_MAX) as usize];
        if self.log.file.read_exact_at(&mut bytes, self.next).is_ok() {
            self.next += bytes.len() as u64;
            bar.suspend(|| output::forward_stderr(&bytes));
        }
    }
}

/// Returns the number that `pattern` finds in `text`: the first group of the last match, or the
/// whole last match if that group is missing. Fails if there is no match, or the number is not
/// above 0.
pub(crate) fn number(pattern: &Regex, text: &str) -> Result<f64, String> {
    let last = pattern.captures_iter(text).last();
    let last = last.ok_or_else(|| format!("--metric {pattern}: nothing in the output matches"))?;
    let found = last.get(1).or_else(|| last.get(0)).map_or("", |found| found.as_str()).trim();
    let number = found.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("--metric {pattern}: \"{found}\" is not a number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found() {
        let table = [
            ("Triad: +([0-9.]+)", "Copy: 1\nTriad:   12.5\nTriad: 13\n", Ok(13.0)),
            ("[0-9.]+(?:e[0-9]+)?", "took 2.5e3", Ok(2500.0)),
            ("([0-9]+) s", "none", Err("--metric ([0-9]+) s: nothing in the output matches")),
            ("(.+) s", "few s", Err("--metric (.+) s: \"few\" is not a number above 0")),
            ("x=(.*)", "x=0", Err("--metric x=(.*): \"0\" is not a number above 0")),
            ("x=(.*)", "x=inf", Err("--metric x=(.*): \"inf\" is not a number above 0")),
        ];
        for (pattern, text, expected) in table {
            let found = number(&Regex::new(pattern).unwrap(), text);
            assert_eq!(found, expected.map_err(String::from), "{pattern}");
        }
    }
}
