//! The rows of a sweep while they come.

use super::{HEADER, file::Sweep};
use crate::failure::Failure;
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Marks a file that holds an unfinished sweep, with what it was made from.
const MARK: &str = "# interleaf sweep ";

/// The rows of a sweep while they come, in memory and in a file.
pub(super) struct Record {
    target: Option<PathBuf>,
    mark: String,
    /// Those that were there when it began.
    before: Vec<bool>,
    state: Mutex<State>,
}

struct State {
    rows: BTreeMap<usize, String>,
    file: Option<File>,
}

impl Record {
    /// Begins a record of `cases` cases in `target`, or goes on with the one that is there.
    pub(super) fn open(
        target: Option<&Path>,
        sweep: &Sweep,
        cases: usize,
    ) -> Result<Self, Failure> {
        let mark = format!("{MARK}{:016x}\n", sweep.fingerprint());
        let mut rows = BTreeMap::new();
        let mut file = None;
        if let Some(target) = target {
            let there = fs::read_to_string(target).unwrap_or_default();
            if !there.is_empty() {
                rows = read(target, &there, &mark, cases)?;
            }
            // What was cut off in the middle of a row is left out.
            let text = mark.clone() + &header() + &rows.values().cloned().collect::<String>();
            fs::write(target, text).map_err(|why| failed(target, &why))?;
            let opened = OpenOptions::new().append(true).open(target);
            file = Some(opened.map_err(|why| failed(target, &why))?);
        }
        let before = (0..cases).map(|case| rows.contains_key(&case)).collect();
        let state = Mutex::new(State { rows, file });
        Ok(Self { target: target.map(Path::to_path_buf), mark, before, state })
    }

    /// Cases that were done before.
    pub(super) fn done(&self) -> usize {
        self.before.iter().filter(|done| **done).count()
    }

    /// Whether a case was done before.
    pub(super) fn has(&self, case: usize) -> bool {
        self.before[case]
    }

    /// Adds the rows of a case.
    pub(super) fn add(&self, case: usize, rows: Vec<Vec<String>>) -> Result<(), Failure> {
        let text: String = rows.iter().map(|row| line(row)).collect();
        let mut state = self.state();
        if let (Some(file), Some(target)) = (&mut state.file, &self.target) {
            // One write for all rows of a case, so that none of them is there alone.
            file.write_all(text.as_bytes()).map_err(|why| failed(target, &why))?;
        }
        state.rows.insert(case, text);
        Ok(())
    }

    /// Puts all rows in order, and returns them.
    pub(super) fn finish(self) -> Result<String, Failure> {
        let state = self.state();
        let text = header() + &state.rows.values().cloned().collect::<String>();
        if let Some(target) = &self.target {
            let whole = self.mark.clone() + &text;
            fs::write(target, whole).map_err(|why| failed(target, &why))?;
        }
        Ok(text)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panicked while it was locked left whole rows.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The whole rows of a record that was begun before, by case.
fn read(
    target: &Path,
    text: &str,
    mark: &str,
    cases: usize,
) -> Result<BTreeMap<usize, String>, Failure> {
    let other = |what: &str| {
        Failure::new(
            format!("{}: {what}", target.display()),
            "name another file, or remove this one if nobody needs it",
        )
    };
    if !text.starts_with(MARK) {
        return Err(other("it is there already, and holds no sweep"));
    }
    let Some(rest) = text.strip_prefix(mark) else {
        return Err(other("it holds another sweep: the sweep file has changed since"));
    };
    let mut rows: BTreeMap<usize, String> = BTreeMap::new();
    let whole = rest.rfind('\n').map_or("", |end| &rest[..=end]);
    for row in whole.split_inclusive('\n').skip(1) {
        let case = row.split(',').next().and_then(|case| case.parse().ok());
        if let Some(case) = case.filter(|case| *case < cases) {
            rows.entry(case).or_default().push_str(row);
        }
    }
    if rows.len() < cases {
        // The last one may be there in part.
        let last = whole.lines().last().and_then(|row| row.split(',').next()?.parse().ok());
        last.map(|case: usize| rows.remove(&case));
    }
    Ok(rows)
}

fn header() -> String {
    line(&HEADER.map(String::from))
}

/// A row as CSV.
fn line(cells: &[String]) -> String {
    let mut writer = csv::Writer::from_writer(vec![]);
    // Writing to memory does not fail.
    let _ = writer.write_record(cells);
    String::from_utf8_lossy(&writer.into_inner().unwrap_or_default()).into_owned()
}

fn failed(target: &Path, why: &std::io::Error) -> Failure {
    Failure::new(
        format!("{}: cannot be written: {why}", target.display()),
        "name a file in a folder that is there and that you may write to",
    )
}
