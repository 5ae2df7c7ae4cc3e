//! What was changed on a machine, on disk before it is changed: whoever leaves puts it back, and
//! what a killed process left is put back by the next one.
//!
//! Each process that changes something keeps a file of its own below `/run/interleaf`, which is
//! gone after a boot as the kernel's settings are. Settings are global, processes are not: several
//! may hold the same file of the kernel as long as they want the same in it, and the last one puts
//! back what the first one found. A setting that somebody else has changed meanwhile is left alone.
//!
//! ```text
//! A: 1 -> 3   found 1, wrote 3
//! B: 3        wants 3 too: notes that A found 1, writes nothing
//! A leaves    B holds it: 3 stays
//! B leaves    nobody holds it: 1
//! ```

use crate::{
    process::process,
    root::{Root, RootError},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// Where the journals are, below the root.
const FOLDER: &str = "/run/interleaf";

/// Whose turn it is.
const LOCK: &str = "lock";

const SCHEMA: &str = "interleaf.journal/1";

/// What this process has changed. It is put back when this goes.
#[derive(Debug)]
pub struct Journal<'a> {
    root: &'a Root,
    document: Document,
    /// What became of changes that were put back before the rest.
    undone: Vec<Undone>,
    /// Whether it was put back already.
    is_closed: bool,
}

/// The file of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema: String,
    pid: u32,
    start_ticks: u64,
    /// What is changed, in the order in which it was.
    changes: Vec<Change>,
}

/// A setting of the kernel that is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The file.
    pub path: String,
    /// What was in it before anybody of us changed it.
    pub was: String,
    /// What we want in it.
    pub set: String,
}

/// What became of a change when it was to be put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It is as it was.
    Restored(Change),
    /// Another process of ours still wants it so.
    Held(Change, u32),
    /// Somebody has written something else since; it is left alone.
    ChangedSince(Change, String),
    /// It could not be put back.
    Failed(Change, String),
}

/// A process that ended without putting back what it had changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The process.
    pub pid: u32,
    /// What it changed.
    pub changes: Vec<Change>,
}

/// Why something is not changed, or not put back.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The journal cannot be kept, so nothing is changed.
    #[error("{path}: cannot be kept: {why}")]
    Keep {
        /// The file or folder.
        path: String,
        /// The system's reason.
        why: io::Error,
    },
    /// A file among the journals is none.
    #[error("{path}: is no journal: {why}")]
    Content {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// Another process of ours wants something else.
    #[error("{path}: process {pid} holds it at {holds}, and {wanted} is wanted")]
    Held {
        /// The setting.
        path: String,
        /// Who holds it.
        pid: u32,
        /// What it wants.
        holds: String,
        /// What was to be written.
        wanted: String,
    },
    /// There is no such setting.
    #[error("{path}: there is no such file")]
    Absent {
        /// The setting.
        path: String,
    },
    /// The setting cannot be read or written.
    #[error(transparent)]
    Root(#[from] RootError),
}

impl JournalError {
    /// Whether it failed for want of permission.
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Keep { why, .. } => why.kind() == io::ErrorKind::PermissionDenied,
            Self::Root(why) => why.is_permission(),
            _ => false,
        }
    }
}

impl<'a> Journal<'a> {
    /// A journal with nothing in it yet. What processes that are gone have left is put back first.
    ///
    /// # Errors
    /// When the journals cannot be read or written.
    pub fn open(root: &'a Root) -> Result<(Self, Vec<Undone>), JournalError> {
        let pid = std::process::id();
        let mine = process(&Root::live(), pid)?;
        let start_ticks = mine.map_or(0, |process| process.start_ticks);
        let document = Document { schema: SCHEMA.into(), pid, start_ticks, changes: vec![] };
        let _turn = lock(root)?;
        let undone = restore_dead(root)?;
        Ok((Self { root, document, undone: vec![], is_closed: false }, undone))
    }

    /// Writes `text` to a setting, or joins those who hold it at that.
    ///
    /// # Errors
    /// When somebody holds it at something else, when it is not there, or cannot be written;
    /// nothing has changed then.
    pub fn set(&mut self, path: &str, text: &str) -> Result<(), JournalError> {
        let _turn = lock(self.root)?;
        let now = self.root.text(path)?;
        let now = now.ok_or_else(|| JournalError::Absent { path: path.into() })?;
        let others = living(self.root)?;
        let holder = others.iter().filter(|other| !other.is(&self.document)).find_map(|other| {
            let change = other.changes.iter().rfind(|change| change.path == path)?;
            Some((other.pid, change))
        });
        let was = match holder {
            Some((pid, held)) if held.set != text => {
                return Err(JournalError::Held {
                    path: path.into(),
                    pid,
                    holds: held.set.clone(),
                    wanted: text.into(),
                });
            }
            Some((_, held)) => held.was.clone(),
            None => now.trim().to_string(),
        };
        // First the journal: a process that is killed in between has changed nothing then.
        self.document.changes.push(Change { path: path.into(), was, set: text.into() });
        if let Err(why) = self.document.keep(self.root) {
            self.document.changes.pop();
            return Err(why);
        }
        if now.trim() != text
            && let Err(why) = self.root.write(path, text)
        {
            self.document.changes.pop();
            self.document.keep(self.root)?;
            return Err(why.into());
        }
        Ok(())
    }

    /// Puts back some of what was changed, the last change first, and keeps the rest; nothing of
    /// what this process has not changed. What cannot be put back stays in the journal.
    ///
    /// # Errors
    /// When the journals cannot be read or written.
    pub fn release(&mut self, paths: &[String]) -> Result<Vec<Undone>, JournalError> {
        let is_named = |change: &Change| paths.contains(&change.path);
        if !self.document.changes.iter().any(is_named) {
            return Ok(vec![]);
        }
        let _turn = lock(self.root)?;
        let others = living(self.root)?;
        let others: Vec<Document> =
            others.into_iter().filter(|other| !other.is(&self.document)).collect();
        let named = self.document.changes.iter().rev().filter(|change| is_named(change));
        let undone: Vec<Undone> =
            named.filter_map(|change| undo(self.root, &others, change)).collect();
        let failed = |change: &Change| {
            undone.iter().any(|it| matches!(it, Undone::Failed(other, _) if other == change))
        };
        self.document.changes.retain(|change| !is_named(change) || failed(change));
        self.document.keep(self.root)?;
        self.undone.extend(undone.iter().filter(|it| !matches!(it, Undone::Failed(..))).cloned());
        Ok(undone)
    }

    /// What is changed so far.
    pub fn changes(&self) -> &[Change] {
        &self.document.changes
    }

    /// Puts everything back, the last change first; what became of it, and of what was put back
    /// before.
    ///
    /// # Errors
    /// When the journals cannot be read or written.
    pub fn close(mut self) -> Result<Vec<Undone>, JournalError> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<Vec<Undone>, JournalError> {
        self.is_closed = true;
        let mut undone = std::mem::take(&mut self.undone);
        if !self.document.changes.is_empty() {
            let _turn = lock(self.root)?;
            undone.extend(self.document.undo(self.root)?);
        }
        Ok(undone)
    }
}

impl Drop for Journal<'_> {
    fn drop(&mut self) {
        if !self.is_closed {
            // An error is on its way already, and the journal on disk remembers what is left.
            let _ = self.put_back();
        }
    }
}

impl Document {
    fn is(&self, other: &Self) -> bool {
        (self.pid, self.start_ticks) == (other.pid, other.start_ticks)
    }

    fn file(&self, root: &Root) -> PathBuf {
        root.at(FOLDER).join(format!("{}-{}.json", self.pid, self.start_ticks))
    }

    /// Whether its process is still there.
    fn lives(&self) -> Result<bool, RootError> {
        // Processes are those of this machine, whatever the root is.
        let found = process(&Root::live(), self.pid)?;
        Ok(found.is_some_and(|found| found.start_ticks == self.start_ticks && !found.is_zombie))
    }

    /// Writes it to its file, in one step; without changes there is none.
    fn keep(&self, root: &Root) -> Result<(), JournalError> {
        if !root.is_live() {
            return Ok(());
        }
        let file = self.file(root);
        let failed = |why| JournalError::Keep { path: file.display().to_string(), why };
        if self.changes.is_empty() {
            return match fs::remove_file(&file) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => Err(failed(why)),
                _ => Ok(()),
            };
        }
        let new = file.with_extension("new");
        let text = serde_json::to_string(self).map_err(|why| failed(why.into()))?;
        // Whoever can write one chooses what root writes where, and no umask is to allow that.
        let mut options = fs::OpenOptions::new();
        let opened = options.write(true).create(true).truncate(true).mode(0o644).open(&new);
        let written = opened.and_then(|mut new| new.write_all(text.as_bytes()));
        written.and_then(|()| fs::rename(&new, &file)).map_err(|why| {
            // What could not be written whole is in nobody's way, where room is wanting too.
            let _ = fs::remove_file(&new);
            failed(why)
        })
    }

    /// Puts everything back, the last change first, and removes the file if all is well.
    fn undo(&self, root: &Root) -> Result<Vec<Undone>, JournalError> {
        let others: Vec<Self> = living(root)?.into_iter().filter(|other| !other.is(self)).collect();
        let undone: Vec<Undone> =
            self.changes.iter().rev().filter_map(|change| undo(root, &others, change)).collect();
        let left = |undone: &Undone| match undone {
            Undone::Failed(change, _) => Some(change.clone()),
            _ => None,
        };
        let mut changes: Vec<Change> = undone.iter().filter_map(left).collect();
        changes.reverse();
        Self { changes, ..self.clone() }.keep(root)?;
        Ok(undone)
    }
}

/// Puts a change back, unless one of `others` holds it; nothing when it is as it was.
fn undo(root: &Root, others: &[Document], change: &Change) -> Option<Undone> {
    let holds = |other: &&Document| other.changes.iter().any(|held| held.path == change.path);
    if let Some(other) = others.iter().find(holds) {
        return Some(Undone::Held(change.clone(), other.pid));
    }
    let now = match root.text(&change.path) {
        Ok(now) => now.unwrap_or_default().trim().to_string(),
        Err(why) => return Some(Undone::Failed(change.clone(), why.to_string())),
    };
    if now == change.was {
        return None;
    }
    if now != change.set {
        return Some(Undone::ChangedSince(change.clone(), now));
    }
    Some(match root.write(&change.path, &change.was) {
        Ok(()) => Undone::Restored(change.clone()),
        Err(why) => Undone::Failed(change.clone(), why.to_string()),
    })
}

/// Puts back what processes that are gone have left.
///
/// # Errors
/// When the journals cannot be read or written.
pub fn restore(root: &Root) -> Result<Vec<Undone>, JournalError> {
    if !root.at(FOLDER).exists() {
        return Ok(vec![]);
    }
    let _turn = lock(root)?;
    restore_dead(root)
}

fn restore_dead(root: &Root) -> Result<Vec<Undone>, JournalError> {
    let mut undone = vec![];
    for document in documents(root)? {
        if !document.lives()? {
            undone.extend(document.undo(root)?);
        }
    }
    Ok(undone)
}

/// What processes that are gone have left. Changes nothing.
///
/// # Errors
/// When a journal cannot be read.
pub fn leftovers(root: &Root) -> Result<Vec<Leftover>, JournalError> {
    let mut found = vec![];
    for document in documents(root)? {
        if !document.lives()? {
            found.push(Leftover { pid: document.pid, changes: document.changes });
        }
    }
    Ok(found)
}

/// The process of ours that is still there and holds a setting; `None` when none does.
///
/// # Errors
/// When the journals cannot be read.
pub fn holder(root: &Root, path: &str) -> Result<Option<u32>, JournalError> {
    let holds = |other: &Document| other.changes.iter().any(|held| held.path == path);
    Ok(living(root)?.into_iter().find(holds).map(|other| other.pid))
}

/// The journals of processes that are still there. What is no journal is of nobody who lives: each
/// writes its own in one step. It keeps nobody from putting back what is his.
fn living(root: &Root) -> Result<Vec<Document>, JournalError> {
    let mut found = vec![];
    for name in names(root)? {
        let document = match document(root, &name) {
            Err(JournalError::Content { .. }) => None,
            document => document?,
        };
        if let Some(document) = document
            && document.lives()?
        {
            found.push(document);
        }
    }
    Ok(found)
}

/// All journals.
fn documents(root: &Root) -> Result<Vec<Document>, JournalError> {
    let mut found = vec![];
    for name in names(root)? {
        found.extend(document(root, &name)?);
    }
    Ok(found)
}

/// The names of files that should be journals.
fn names(root: &Root) -> Result<Vec<String>, JournalError> {
    let mut names = root.peek_names(FOLDER)?;
    names.retain(|name| name.ends_with(".json"));
    Ok(names)
}

/// A journal by the name of its file; `None` when it has gone.
fn document(root: &Root, name: &str) -> Result<Option<Document>, JournalError> {
    let path = format!("{FOLDER}/{name}");
    let Some(text) = root.peek(&path)? else { return Ok(None) };
    let content = |why: String| JournalError::Content { path: path.clone(), why };
    let document: Document = serde_json::from_str(&text).map_err(|why| content(why.to_string()))?;
    if document.schema != SCHEMA {
        return Err(content(format!("its schema is {}, not {SCHEMA}", document.schema)));
    }
    Ok(Some(document))
}

/// Waits for our turn; it ends when the file is closed. A captured machine has no turns.
fn lock(root: &Root) -> Result<Option<File>, JournalError> {
    if !root.is_live() {
        return Ok(None);
    }
    let folder = root.at(FOLDER);
    let failed = |path: &Path, why| JournalError::Keep { path: path.display().to_string(), why };
    let created = fs::DirBuilder::new().recursive(true).mode(0o755).create(&folder);
    created.map_err(|why| failed(&folder, why))?;
    let path = folder.join(LOCK);
    // Nobody else can open it, and so lock it and keep us waiting.
    let mut options = fs::OpenOptions::new();
    let opened = options.create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = opened.map_err(|why| failed(&path, why))?;
    file.lock().map_err(|why| failed(&path, why))?;
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const NODE0: &str = "/sys/node0";
    const NODE1: &str = "/sys/node1";

    /// A machine with two settings, both 1.
    fn machine() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sys")).unwrap();
        let root = Root::live_below(folder.path());
        fs::write(root.at(NODE0), "1\n").unwrap();
        fs::write(root.at(NODE1), "1\n").unwrap();
        (folder, root)
    }

    fn now(root: &Root) -> [String; 2] {
        [NODE0, NODE1].map(|path| root.text(path).unwrap().unwrap())
    }

    /// A journal on disk of a process: one that lives has our number, one that is gone has a start
    /// that was never.
    fn other(root: &Root, lives: bool, changes: &[(&str, &str, &str)]) -> Document {
        // The first process of the machine lives as long as this one.
        let start = process(&Root::live(), 1).unwrap().unwrap().start_ticks;
        let change = |(path, was, set): &(&str, &str, &str)| Change {
            path: path.to_string(),
            was: was.to_string(),
            set: set.to_string(),
        };
        let document = Document {
            schema: SCHEMA.into(),
            pid: 1,
            start_ticks: if lives { start } else { start + 1 },
            changes: changes.iter().map(change).collect(),
        };
        fs::create_dir_all(root.at(FOLDER)).unwrap();
        document.keep(root).unwrap();
        document
    }

    fn journals(root: &Root) -> usize {
        documents(root).unwrap().len()
    }

    #[test]
    fn what_is_changed_is_put_back() {
        let (_folder, root) = machine();
        let (mut journal, undone) = Journal::open(&root).unwrap();
        assert_eq!(undone, []);
        journal.set(NODE0, "3").unwrap();
        journal.set(NODE1, "2").unwrap();
        assert_eq!((now(&root), journals(&root)), (["3".into(), "2".into()], 1));
        let paths: Vec<String> = journal
            .close()
            .unwrap()
            .into_iter()
            .map(|undone| match undone {
                Undone::Restored(change) => change.path,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(paths, [NODE1, NODE0], "the last one first");
        assert_eq!((now(&root), journals(&root)), (["1".into(), "1".into()], 0));
    }

    #[test]
    fn some_can_be_put_back_before() {
        let (_folder, root) = machine();
        let (mut journal, _) = Journal::open(&root).unwrap();
        journal.set(NODE0, "3").unwrap();
        journal.set(NODE1, "2").unwrap();
        let undone = journal.release(&[NODE0.into(), "/sys/node9".into()]).unwrap();
        assert!(matches!(&undone[..], [Undone::Restored(change)] if change.path == NODE0));
        assert_eq!((now(&root), journals(&root)), (["1".into(), "2".into()], 1));
        assert_eq!(journal.release(&[NODE0.into()]).unwrap(), []);
        journal.release(&[NODE1.into()]).unwrap();
        assert_eq!(journals(&root), 0, "nothing is left to put back");
        journal.set(NODE0, "3").unwrap();
        journal.close().unwrap();
        assert_eq!((now(&root), journals(&root)), (["1".into(), "1".into()], 0));
    }

    #[test]
    fn it_is_put_back_when_the_journal_goes() {
        let (_folder, root) = machine();
        let (mut journal, _) = Journal::open(&root).unwrap();
        journal.set(NODE0, "3").unwrap();
        drop(journal);
        assert_eq!((now(&root), journals(&root)), (["1".into(), "1".into()], 0));
    }

    #[test]
    fn what_a_dead_process_left_is_put_back() {
        let (_folder, root) = machine();
        fs::write(root.at(NODE0), "7\n").unwrap();
        other(&root, false, &[(NODE0, "1", "7"), (NODE1, "1", "9")]);
        assert_eq!(leftovers(&root).unwrap()[0].changes.len(), 2);
        let undone = restore(&root).unwrap();
        assert!(matches!(&undone[..], [Undone::Restored(change)] if change.path == NODE0));
        assert_eq!((now(&root), journals(&root)), (["1".into(), "1".into()], 0));
        assert_eq!(restore(&root).unwrap(), [], "once is enough");
    }

    #[test]
    fn the_next_one_puts_it_back_too() {
        let (_folder, root) = machine();
        fs::write(root.at(NODE0), "7\n").unwrap();
        other(&root, false, &[(NODE0, "1", "7")]);
        let (_journal, undone) = Journal::open(&root).unwrap();
        assert_eq!((undone.len(), now(&root)[0].as_str()), (1, "1"));
    }

    #[test]
    fn what_somebody_else_has_written_since_is_left_alone() {
        let (_folder, root) = machine();
        let (mut journal, _) = Journal::open(&root).unwrap();
        journal.set(NODE0, "3").unwrap();
        fs::write(root.at(NODE0), "200\n").unwrap();
        let undone = journal.close().unwrap();
        assert!(matches!(&undone[..], [Undone::ChangedSince(_, now)] if now == "200"));
        assert_eq!(now(&root)[0], "200");
    }

    #[test]
    fn several_hold_the_same_and_the_last_one_puts_it_back() {
        let (_folder, root) = machine();
        fs::write(root.at(NODE0), "3\n").unwrap();
        let first = other(&root, true, &[(NODE0, "1", "3")]);
        let (mut second, _) = Journal::open(&root).unwrap();
        let why = second.set(NODE0, "4").unwrap_err().to_string();
        assert_eq!(why, "/sys/node0: process 1 holds it at 3, and 4 is wanted");
        second.set(NODE0, "3").unwrap();
        assert_eq!(second.changes()[0].was, "1", "what the first one found");
        let undone = first.undo(&root).unwrap();
        assert!(matches!(&undone[..], [Undone::Held(_, pid)] if *pid == std::process::id()));
        assert_eq!(now(&root)[0], "3");
        second.close().unwrap();
        assert_eq!((now(&root), journals(&root)), (["1".into(), "1".into()], 0));
    }

    #[test]
    fn what_is_not_there_is_not_changed() {
        let (_folder, root) = machine();
        let (mut journal, _) = Journal::open(&root).unwrap();
        let why = journal.set("/sys/node9", "3").unwrap_err().to_string();
        assert_eq!(why, "/sys/node9: there is no such file");
        assert_eq!(journal.close().unwrap(), []);
    }

    #[test]
    fn what_the_kernel_refuses_leaves_no_journal() {
        let (_folder, root) = machine();
        // It can be read, but not even root can write to it.
        std::os::unix::fs::symlink("/proc/version", root.at("/sys/node9")).unwrap();
        let (mut journal, _) = Journal::open(&root).unwrap();
        let why = journal.set("/sys/node9", "3").unwrap_err();
        assert!(matches!(why, JournalError::Root(RootError::Write { .. })), "{why}");
        assert_eq!((journals(&root), journal.close().unwrap()), (0, vec![]));
    }

    #[test]
    fn it_is_put_back_when_the_file_is_gone() {
        let (_folder, root) = machine();
        let (mut journal, _) = Journal::open(&root).unwrap();
        journal.set(NODE0, "3").unwrap();
        fs::remove_dir_all(root.at(FOLDER)).unwrap();
        assert_eq!(journal.close().unwrap().len(), 1);
        assert_eq!(now(&root)[0], "1");
    }

    #[test]
    fn others_can_neither_write_journals_nor_keep_us_waiting() {
        let (_folder, root) = machine();
        let (mut journal, _) = Journal::open(&root).unwrap();
        journal.set(NODE0, "3").unwrap();
        let mode = |path: &Path| {
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions())
        };
        assert_eq!(mode(&root.at(FOLDER)) & 0o022, 0);
        assert_eq!(mode(&root.at(FOLDER).join(LOCK)) & 0o077, 0);
        assert_eq!(mode(&journal.document.file(&root)) & 0o022, 0);
    }

    #[test]
    fn what_is_no_journal_is_named() {
        let (_folder, root) = machine();
        fs::create_dir_all(root.at(FOLDER)).unwrap();
        for text in ["", "{}", r#"{"schema":"x","pid":1,"start_ticks":0,"changes":[]}"#] {
            fs::write(root.at(FOLDER).join("1-1.json"), text).unwrap();
            let why = restore(&root).unwrap_err().to_string();
            assert!(why.starts_with("/run/interleaf/1-1.json: is no journal"), "{why}");
        }
    }

    #[test]
    fn what_is_no_journal_keeps_nobody_from_putting_back() {
        let (_folder, root) = machine();
        let (mut journal, _) = Journal::open(&root).unwrap();
        journal.set(NODE0, "3").unwrap();
        fs::write(root.at(FOLDER).join("1-1.json"), "{").unwrap();
        assert_eq!(journal.close().unwrap().len(), 1);
        assert_eq!(now(&root)[0], "1");
    }

    #[test]
    fn on_a_captured_machine_changes_are_noted() {
        let (folder, _) = machine();
        let root = Root::captured(folder.path());
        let (mut journal, _) = Journal::open(&root).unwrap();
        journal.set(NODE0, "3").unwrap();
        assert_eq!((root.noted().len(), now(&root)[0].as_str()), (1, "1"));
        journal.close().unwrap();
        assert!(!root.at("/run").exists());
    }
}
