//! A place to which the loop writes, such as a record. One that cannot be written to, as on a full
//! disk, does not end the loop: that is told once, and again when it can be written to.

use interleaf_console::{Failure, output};
use std::{
    fs::File,
    io::{self, Write as _},
    path::PathBuf,
};

/// State of one output.
#[derive(Debug)]
pub(super) struct Outlet {
    name: String,
    /// Periods that are not there, since the disk was full, say.
    missing: u64,
    /// The error of the last write.
    failing: Option<String>,
}

impl Outlet {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), missing: 0, failing: None }
    }

    /// Notes whether a period could be written; what to tell the user of that.
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
                let told = format!("{name}: cannot be written: {why}; the loop goes on without it");
                before.is_none().then_some(told)
            }
        }
    }

    /// Notes whether a period could be written, and tells the user when that has changed.
    pub(super) fn tell(&mut self, done: io::Result<()>) {
        if let Some(text) = self.note(done) {
            output::message(&format!("interleaf: {text}"));
        }
    }

    /// The number of periods that could not be written.
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

/// A file of lines that grows. A line is there whole or not at all.
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
        self.outlet.tell(done);
    }

    pub(super) fn missing(&self) -> Result<(), Failure> {
        self.outlet.missing()
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let before = self.file.metadata()?;
        let done = self.file.write_all(format!("{line}\n").as_bytes());
        if done.is_err() && before.is_file() {
            // The rest of a line that was cut off would make the next one unreadable.
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
    fn it_is_told_once_and_when_it_is_over() {
        let mut outlet = Outlet::new("x.jsonl");
        assert_eq!(outlet.note(Ok(())), None);
        let told = outlet.note(Err(full())).unwrap();
        assert!(told.starts_with("x.jsonl: cannot be written: "), "{told}");
        assert_eq!(outlet.note(Err(full())), None);
        let over = "x.jsonl: can be written to again; 2 periods are missing";
        assert_eq!(outlet.note(Ok(())).unwrap(), over);
        assert_eq!(outlet.note(Ok(())), None);
        assert!(outlet.note(Err(full())).is_some(), "it is another time");
        let Failure::Error { problem, .. } = outlet.missing().unwrap_err() else { panic!() };
        assert!(problem.starts_with("x.jsonl: 3 periods are missing: "), "{problem}");
    }
}
