//! An output of the control loop, such as a record. A write that fails, for example on a full disk,
//! does not end the control loop. Of consecutive failures only the first is reported, and after
//! them the first success.

use interleaf_console::{Failure, output};
use std::{
    fs::File,
    io::{self, Write as _},
    path::PathBuf,
};

/// An output, and the failures of the writes to it so far.
#[derive(Debug)]
pub(super) struct Outlet {
    name: String,
    /// The number of periods that could not be written, for example because the disk was full.
    missing: u64,
    /// The error of the last write; `None` if the last write succeeded.
    failing: Option<String>,
}

impl Outlet {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), missing: 0, failing: None }
    }

    /// Notes whether a period could be written. Returns a message for the first of consecutive
    /// failures, and for the first success after them.
    fn note(&mut self, done: io::Result<()>) -> Option<String> {
        let name = &self.name;
        match (done, self.failing.take()) {
            (Ok(()), None) => None,
            (Ok(()), Some(_)) => {
                Some(format!("{name}: can be written to again; {} missing", periods(self.missing)))
            }
            (Err(why), before) => {
                self.missing += 1;
                self.failing = Some(why.to_string());
                let message =
                    format!("{name}: cannot be written: {why}; the loop goes on without it");
                before.is_none().then_some(message)
            }
        }
    }

    /// Notes whether a period could be written, and prints the message of [`Self::note`], if any.
    pub(super) fn report(&mut self, done: io::Result<()>) {
        if let Some(text) = self.note(done) {
            output::message(&format!("interleaf: {text}"));
        }
    }

    /// Returns an error if periods could not be written.
    pub(super) fn missing(&self) -> Result<(), Failure> {
        if self.missing == 0 {
            return Ok(());
        }
        let why = self.failing.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let problem = format!("{}: {} missing{why}", self.name, periods(self.missing));
        Err(Failure::new(problem, "make room there, or name a file on another file system"))
    }
}

fn periods(count: u64) -> String {
    match count {
        1 => "1 period is".into(),
        more => format!("{more} periods are"),
    }
}

/// A file to which lines are appended. If a write to a regular file fails, the incomplete line is
/// removed.
#[derive(Debug)]
pub(super) struct LineFile {
    file: File,
    outlet: Outlet,
}

impl LineFile {
    pub(super) fn new(path: PathBuf, file: File) -> Self {
        Self { file, outlet: Outlet::new(path.display().to_string()) }
    }

    pub(super) fn add(&mut self, line: &str) {
        let done = self.write(line);
        self.outlet.report(done);
    }

    pub(super) fn missing(&self) -> Result<(), Failure> {
        self.outlet.missing()
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let before = self.file.metadata()?;
        let done = self.file.write_all(format!("{line}\n").as_bytes());
        if done.is_err() && before.is_file() {
            // Remove the incomplete line, because it would make the next line unreadable.
            self.file.set_len(before.len())?;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn full() -> io::Error {
        io::ErrorKind::StorageFull.into()
    }

    #[test]
    fn a_write_error_is_reported_once_and_at_its_end() {
        let mut outlet = Outlet::new("x.jsonl");
        assert_eq!(outlet.note(Ok(())), None);
        let message = outlet.note(Err(full())).unwrap();
        assert!(message.starts_with("x.jsonl: cannot be written: "), "{message}");
        assert_eq!(outlet.note(Err(full())), None);
        let over = "x.jsonl: can be written to again; 2 periods are missing";
        assert_eq!(outlet.note(Ok(())).unwrap(), over);
        assert_eq!(outlet.note(Ok(())), None);
        assert!(outlet.note(Err(full())).is_some(), "it is another time");
        let Failure::Error { problem, .. } = outlet.missing().unwrap_err() else { panic!() };
        assert!(problem.starts_with("x.jsonl: 3 periods are missing: "), "{problem}");
    }
}
