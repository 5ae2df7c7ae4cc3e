//! The record of a sweep: its rows, which are added to a file as cases are completed.

use super::{Cases, fingerprint};
use interleaf_console::{Failure, output, output::Existing};
use interleaf_record::sweep::header;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The rows of a sweep, in memory and in a file.
pub struct Record {
    target: Option<PathBuf>,
    /// The first line: the names of the columns.
    header: String,
    /// Fingerprint of the sweep's input. The last column but one of each row has this fingerprint.
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
    /// Creates a record of the rows of `cases` in the file `target`, or continues an existing
    /// record; without a target, rows are in memory only.
    ///
    /// # Errors
    /// The file cannot be read or written, or is not a record of this sweep.
    pub fn open(target: Option<&Path>, cases: &dyn Cases) -> Result<Self, Failure> {
        let sweep = super::fingerprint(cases);
        let header = header(cases.columns()) + "\n";
        let mut rows = BTreeMap::new();
        let mut file = None;
        if let Some(target) = target {
            let present = match fs::read(target) {
                Ok(present) => present,
                Err(why) if why.kind() == ErrorKind::NotFound => vec![],
                Err(why) => return Err(output::file_failure(target, &why)),
            };
            // A sweep that was stopped during its first write leaves a truncated header. In this
            // case the file has no rows, and the sweep starts over.
            if !header.as_bytes().starts_with(&present) {
                rows = read(target, &present, &header, &sweep)?;
                rows.retain(|case, rows| {
                    *case < cases.count() && rows.lines().count() == cases.rows_of(*case)
                });
            }
            // Rewrites the file without the cases whose rows are incomplete.
            let text = header.clone() + &rows.values().cloned().collect::<String>();
            write(target, &present, &text)?;
            file = Some(output::growing(target, Existing::Append)?);
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

    /// Adds the rows of a case.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&self, case: usize, rows: Vec<Vec<String>>) -> Result<(), Failure> {
        let whole = |row: Vec<String>| sealed(&line(&[row, vec![self.sweep.clone()]].concat()));
        let text: String = rows.into_iter().map(whole).collect();
        let mut state = self.state();
        if let (Some(file), Some(target)) = (&mut state.file, &self.target) {
            // Writes all rows of a case in a single call, so that an interruption seldom leaves
            // only some of them. [`Self::open`] removes such rows.
            file.write_all(text.as_bytes()).map_err(|why| output::file_failure(target, &why))?;
        }
        state.rows.insert(case, text);
        Ok(())
    }

    /// Sorts all rows, writes the file, and returns the text.
    ///
    /// # Errors
    /// The file cannot be read or written.
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
        // A panic of another thread poisons the lock. The rows are complete even then.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the complete rows of an existing record whose content is `present`. The key of a case's
/// rows is the index of the case. `sweep` is the expected fingerprint.
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
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    if first.trim_end() != header.trim_end() {
        let is_sweep = interleaf_record::sweep::is_start(text);
        return Err(other(match is_sweep {
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

/// Writes `text` to `target`, unless the file's content `present` is equal to `text`.
fn write(target: &Path, present: &[u8], text: &str) -> Result<(), Failure> {
    if present == text.as_bytes() {
        return Ok(());
    }
    output::file(target, text)
}

/// Appends the fingerprint of a row as the last column, by which later changes of the row are
/// detected.
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
