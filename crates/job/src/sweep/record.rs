//! Writes the record of a sweep: the rows, which are added to a file as cases are completed.
//!
//! The file is locked while a record is open. Otherwise a second sweep could add rows to the file,
//! which would be lost when the first sweep sorts its own rows and replaces the file. A lock
//! belongs to an inode, and the replacement has a new inode, so a lock is valid only while the path
//! names the locked inode.

use super::{Cases, fingerprint};
use interleaf_console::{Failure, output, output::Existing};
use interleaf_record::sweep::header;
use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    io::{self, Write},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Maximum number of attempts to open and lock the file. An attempt fails if another sweep has
/// replaced the file between the opening and the locking; a sweep replaces its file at most twice.
const LOCK_ATTEMPTS: usize = 10;

/// The rows of a sweep, which are kept in memory and in a file.
pub struct Record {
    target: Option<PathBuf>,
    /// The first line of the file: the names of the columns.
    header: String,
    /// Fingerprint of the sweep's input. Each row has this fingerprint in the last column but one.
    sweep: String,
    /// For each case, true if its rows were in the file when the record was opened.
    before: Vec<bool>,
    state: Mutex<State>,
}

struct State {
    rows: BTreeMap<usize, String>,
    file: Option<File>,
}

impl Record {
    /// Creates a record of the rows of `cases` in the file `target`, or continues the record that
    /// the file contains. Without a target, the rows are only in memory.
    ///
    /// # Errors
    /// When the file cannot be read or written, is not a record of this sweep, or is open as the
    /// record of a sweep that is running.
    pub fn open(target: Option<&Path>, cases: &dyn Cases) -> Result<Self, Failure> {
        let sweep = super::fingerprint(cases);
        let header = header(cases.columns()) + "\n";
        let mut rows = BTreeMap::new();
        let mut file = None;
        if let Some(target) = target {
            let before = locked(target)?;
            let present = fs::read(target).map_err(|why| output::file_failure(target, &why))?;
            // A sweep that was stopped during its first write leaves a truncated header. Such a
            // file has no rows, and the sweep starts again.
            if !header.as_bytes().starts_with(&present) {
                rows = read(target, &present, &header, &sweep)?;
                rows.retain(|case, rows| {
                    *case < cases.count() && rows.lines().count() == cases.rows_of(*case)
                });
            }
            // Rewrites the file without the rows of incomplete cases.
            let text = header.clone() + &rows.values().cloned().collect::<String>();
            // The lock of `before` is held until the new file, which `write` puts in place of the
            // old file, is locked too.
            file = Some(match write(target, &present, &text)? {
                true => locked(target)?,
                false => before,
            });
        }
        let before = (0..cases.count()).map(|case| rows.contains_key(&case)).collect();
        let state = Mutex::new(State { rows, file });
        Ok(Self { target: target.map(Path::to_path_buf), header, sweep, before, state })
    }

    /// Returns the number of cases whose rows were in the file when the record was opened.
    pub fn done(&self) -> usize {
        self.before.iter().filter(|done| **done).count()
    }

    /// True if the rows of `case` were in the file when the record was opened.
    pub fn has(&self, case: usize) -> bool {
        self.before[case]
    }

    /// Adds the rows of `case` to the file and to the rows in memory.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add(&self, case: usize, rows: Vec<Vec<String>>) -> Result<(), Failure> {
        let whole = |row: Vec<String>| sealed(&line(&[row, vec![self.sweep.clone()]].concat()));
        let text: String = rows.into_iter().map(whole).collect();
        let mut state = self.state();
        if let (Some(file), Some(target)) = (&mut state.file, &self.target) {
            // Writes all rows of a case in a single call, so that an interruption seldom leaves
            // only a part of them. [`Self::open`] removes the rows of an incomplete case.
            file.write_all(text.as_bytes()).map_err(|why| output::file_failure(target, &why))?;
        }
        state.rows.insert(case, text);
        Ok(())
    }

    /// Sorts all rows, writes the file, and returns the text.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn finish(self) -> Result<String, Failure> {
        let state = self.state();
        let text = self.header.clone() + &state.rows.values().cloned().collect::<String>();
        if let Some(target) = &self.target {
            let present = fs::read(target).map_err(|why| output::file_failure(target, &why))?;
            write(target, &present, &text)?;
        }
        Ok(text)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another thread that held the mutex poisons the mutex. Even then, the rows are
        // complete, so the poison is ignored.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the complete rows of an existing record. `present` is the content of its file. Returns the
/// text of the rows, keyed by the index of their case. `sweep` is the expected fingerprint of the
/// sweep's input.
fn read(
    target: &Path,
    present: &[u8],
    header: &str,
    sweep: &str,
) -> Result<BTreeMap<usize, String>, Failure> {
    let other = |problem: &str| {
        Failure::new(
            format!("{}: {problem}", target.display()),
            "name another file, or remove this one",
        )
    };
    // A truncated file may end within a UTF-8 sequence.
    let text = String::from_utf8_lossy(present);
    // A spreadsheet or an editor may have added a byte order mark, and CR to the ends of lines.
    let text = interleaf_record::without_byte_order_mark(&text);
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    if first.trim_end() != header.trim_end() {
        let is_sweep = interleaf_record::sweep::is_start(text);
        let names = interleaf_record::sweep::column_names(text);
        return Err(other(match is_sweep {
            true if names.join(",") == header.trim_end() => {
                "its header was altered, and a sweep continues only a file as it wrote it"
            }
            true => "it holds a sweep of another version, with other columns",
            false => "it is there already, and holds no sweep",
        }));
    }
    let mut rows: BTreeMap<usize, String> = BTreeMap::new();
    let whole = rest.rfind('\n').map_or("", |end| &rest[..=end]);
    for (number, row) in whole.lines().enumerate() {
        let row = row.trim_end();
        let Some((content, last)) = row.rsplit_once(',') else { continue };
        let made_from = content.rsplit(',').next().unwrap_or_default();
        if [made_from, last].iter().any(|it| it.len() != sweep.len()) {
            // A truncated row is skipped, so that its case is computed again.
            continue;
        }
        if made_from != sweep {
            return Err(other(
                "it holds another sweep: the sweep file, or a file that it names, has changed \
                 since",
            ));
        }
        if last != fingerprint::of([content]) {
            // The header is line 1, so the first row is line 2.
            let place = format!("{}:{}", target.display(), number + 2);
            let hint = "restore the row, or remove it: then its case is computed again";
            return Err(Failure::new(format!("{place}: the row was altered"), hint));
        }
        let case = row.split(',').next().and_then(|case| case.parse().ok());
        if let Some(case) = case {
            let rows = rows.entry(case).or_default();
            rows.push_str(row);
            rows.push('\n');
        }
    }
    Ok(rows)
}

/// Writes `text` to `target`, unless the file's present content, `present`, is equal to `text`.
/// Returns true if the file was written.
fn write(target: &Path, present: &[u8], text: &str) -> Result<bool, Failure> {
    let is_other = present != text.as_bytes();
    if is_other {
        output::file(target, text)?;
    }
    Ok(is_other)
}

/// Opens `target` to append rows, and locks it until the file is closed. Creates the file if it
/// does not exist.
///
/// # Errors
/// When the file cannot be opened, or another sweep has locked it.
fn locked(target: &Path) -> Result<File, Failure> {
    let failure = |why: &io::Error| output::file_failure(target, why);
    for _ in 0..LOCK_ATTEMPTS {
        let file = output::growing(target, Existing::Append)?;
        match file.try_lock() {
            // Some network file systems do not support locks. On such a file system, the sweep runs
            // without a lock.
            Ok(()) | Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => break,
        }
        let own = file.metadata().map_err(|why| failure(&why))?;
        // Another sweep may have replaced the file between `growing` and `try_lock`: then the path
        // names another inode, and the loop tries again.
        let is_named = |it: &fs::Metadata| (it.dev(), it.ino()) == (own.dev(), own.ino());
        if fs::metadata(target).is_ok_and(|named| is_named(&named)) {
            return Ok(file);
        }
    }
    Err(Failure::new(
        format!("{}: another sweep that runs now adds its rows to this file", target.display()),
        "wait until it ends, or name another file",
    ))
}

/// Appends the fingerprint of a row to the row as the last column. By this fingerprint, a later
/// change of the row is detected.
fn sealed(row: &str) -> String {
    let row = row.trim_end();
    format!("{row},{}\n", fingerprint::of([row]))
}

/// Formats a row as CSV.
fn line(cells: &[String]) -> String {
    let mut writer = csv::Writer::from_writer(vec![]);
    // Writing to memory does not fail.
    let _ = writer.write_record(cells);
    String::from_utf8_lossy(&writer.into_inner().unwrap_or_default()).into_owned()
}
