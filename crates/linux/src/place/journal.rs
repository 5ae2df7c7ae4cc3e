//! Journals of changed settings. A process records each change in its journal before it makes the
//! change, and restores its settings when it ends. The next process restores the settings of a
//! killed process.
//!
//! Each process that changes settings keeps a journal file below `/run/interleaf`. A boot empties
//! this folder and resets the kernel's settings. A setting is global, but several processes can
//! hold it if all of them need the same changed value. The last of them restores the value that the
//! first one found. A setting that another program has changed in the meantime is not restored.
//! Example of two processes, A and B, and a setting with the value 1:
//! ```text
//! A: 1 -> 3   found 1, wrote 3
//! B: 3        wants 3 too: notes that A found 1, writes nothing
//! A ends      B holds it: 3 stays
//! B ends      no holder is left: 1
//! ```

mod settings;

mod files;

mod claim;

pub(crate) mod swap_file;

pub(crate) mod limited_group;

pub(crate) mod controller;

pub use claim::Claim;
pub use files::Damaged;

use crate::{
    process::{cgroup::Group, process},
    root::{Root, RootError},
};
use files::{JournalFile, lock};
use serde::{Deserialize, Serialize};
use std::{io, path::Path};

const SCHEMA: &str = "interleaf.journal/1";

/// The settings that this process has changed. Dropping this value restores the settings.
#[derive(Debug)]
pub struct Journal<'a> {
    root: &'a Root,
    document: Document,
    /// The outcomes of all earlier calls of [`Self::release`], except failures.
    undone: Vec<Undone>,
    /// True once the journal has tried to undo all changes.
    is_closed: bool,
}

/// The content of the journal file of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema: String,
    pid: u32,
    start_ticks: u64,
    /// Changes in the order in which they were made.
    changes: Vec<Change>,
    /// The pages that the process steers; absent if the process steers no pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim: Option<Claim>,
}

/// A setting of the kernel that a process has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    pub path: String,
    /// The value before any process of Interleaf changed the setting.
    pub was: String,
    /// The value that the process needs.
    pub set: String,
}

/// The outcome of undoing a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The setting has its old value again, or the swap file or control group is removed.
    Restored(Change),
    /// The new value stays, because another Interleaf process (ID in the second field) needs it.
    Held(Change, u32),
    /// The setting is not restored, because another program has changed it since, or because a
    /// control group needs the memory controller that this change enabled. The second field is the
    /// present value of the setting, followed, in the second case, by the name of the control
    /// group.
    ChangedSince(Change, String),
    /// The old value could not be written. The second field is the reason.
    Failed(Change, String),
    /// A damaged journal, which was renamed if possible. Its valid changes are undone.
    SetAside {
        /// The damaged file, and what is wrong with it.
        damaged: Damaged,
        /// The new path of the file, or the reason why it could not be renamed.
        aside: Result<String, String>,
    },
}

/// A process that ended without undoing its changes, such as a killed process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    pub pid: u32,
    pub changes: Vec<Change>,
}

/// The reason why a setting was not changed or not restored.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The journal cannot be written, so no setting is changed.
    #[error("{path}: cannot be kept: {why}")]
    Keep { path: String, why: io::Error },
    /// Users besides this user and root can write to the folder, so its journals are not trusted.
    #[error("{path}: is not used for journals: {why}")]
    Untrusted { path: String, why: String },
    /// The table of settings lacks the path or value. Nothing is written, because the journal
    /// restores only settings and values of this table.
    #[error("{0}")]
    Unknown(String),
    /// Another process of Interleaf holds the setting at another value.
    #[error("{path}: process {pid} holds it at {holds}, and {wanted} is wanted")]
    Held {
        path: String,
        /// The process that holds the setting.
        pid: u32,
        /// The value that the holder wants.
        holds: String,
        /// The value that was to be written.
        wanted: String,
    },
    /// Another process of Interleaf steers some of the pages that this process claims.
    #[error("process {pid} of interleaf steers some of these pages already, those of {claim}")]
    Claimed {
        /// The process that steers pages which this process claims.
        pid: u32,
        /// All pages that the process `pid` steers.
        claim: Claim,
    },
    #[error("{path}: there is no such file")]
    Absent { path: String },
    #[error(transparent)]
    Root(#[from] RootError),
}

impl JournalError {
    /// True when this process lacked a permission.
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Keep { why, .. } => why.kind() == io::ErrorKind::PermissionDenied,
            Self::Root(why) => why.is_permission(),
            _ => false,
        }
    }
}

impl<'a> Journal<'a> {
    /// Opens the journal of this process. First undoes older changes: those of processes that have
    /// ended, and those that an earlier journal of this process failed to undo. If this fails again
    /// for a change of this process, the new journal keeps the change. Returns the journal and the
    /// outcomes of undoing.
    ///
    /// # Errors
    /// When the journals cannot be read or written.
    pub fn open(root: &'a Root) -> Result<(Self, Vec<Undone>), JournalError> {
        let pid = std::process::id();
        let mine = process(&Root::live(), pid)?;
        let start_ticks = mine.map_or(0, |process| process.start_ticks);
        let schema = SCHEMA.into();
        let mut document = Document { schema, pid, start_ticks, changes: vec![], claim: None };
        let _turn = lock(root)?;
        let mut undone = restore_dead(root)?;
        if let Some(earlier) =
            living(root)?.into_iter().find(|other| other.is_of_same_process(&document))
        {
            document = earlier;
            undone.extend(document.undo(root)?);
        }
        Ok((Self { root, document, undone: vec![], is_closed: false }, undone))
    }

    /// Writes `text` to a setting, unless the setting has this value already. Other processes of
    /// Interleaf may hold the setting at the same value. The last holder then restores the value
    /// that the first holder found.
    ///
    /// # Errors
    /// When the table of settings lacks the path or a value, another process holds another value,
    /// or the setting does not exist or cannot be written. The setting is then unchanged. Also when
    /// the journals cannot be read or written.
    pub fn set(&mut self, path: &str, text: &str) -> Result<(), JournalError> {
        let _turn = lock(self.root)?;
        let now = self.root.text(path)?;
        let now = now.ok_or_else(|| JournalError::Absent { path: path.into() })?;
        let now = settings::value(path, &now);
        for value in [now, text] {
            settings::check(path, value).map_err(JournalError::Unknown)?;
        }
        let others = living(self.root)?;
        let holder = others
            .iter()
            .filter(|other| !other.is_of_same_process(&self.document))
            .find_map(|other| {
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
            None => now.to_string(),
        };
        // Save the journal first. If the process is killed before the write, the journal lists a
        // change that was not made, which is harmless. In the opposite order, the old value could
        // be lost.
        self.document.changes.push(Change { path: path.into(), was, set: text.into() });
        if let Err(why) = self.document.save(self.root) {
            self.document.changes.pop();
            return Err(why);
        }
        if now != text
            && let Err(why) = self.root.write(path, text)
        {
            self.document.changes.pop();
            self.document.save(self.root)?;
            return Err(why.into());
        }
        Ok(())
    }

    /// Claims the pages that this process steers from now on until the journal is closed.
    ///
    /// # Errors
    /// When another process steers some of these pages, or the journals cannot be read or written.
    pub fn claim(&mut self, claim: Claim) -> Result<(), JournalError> {
        if !self.root.is_live() {
            return Ok(());
        }
        let _turn = lock(self.root)?;
        for other in living(self.root)? {
            if let Some(theirs) = &other.claim
                && !other.is_of_same_process(&self.document)
                && claim.overlaps(theirs, self.root)?
            {
                return Err(JournalError::Claimed { pid: other.pid, claim: theirs.clone() });
            }
        }
        self.document.claim = Some(claim);
        self.document.save(self.root)
    }

    /// Records that this process is about to create a swap file and switch it on. Undoing the
    /// change switches the file off and removes it.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub(crate) fn note_swap_file(&mut self, path: &str) -> Result<(), JournalError> {
        let (was, set) = (swap_file::ABSENT.into(), swap_file::IN_USE.into());
        self.note(Change { path: path.into(), was, set })
    }

    /// Records that this process is about to create `group` for processes of the group `former`.
    /// Undoing the change moves the processes back to `former` and removes `group`.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub(crate) fn note_group(&mut self, group: &Group, former: &Group) -> Result<(), JournalError> {
        self.note(limited_group::change(group, former))
    }

    fn note(&mut self, change: Change) -> Result<(), JournalError> {
        let _turn = lock(self.root)?;
        self.document.changes.push(change);
        let kept = self.document.save(self.root);
        if kept.is_err() {
            self.document.changes.pop();
        }
        kept
    }

    /// Undoes the changes of the settings at `paths`, the last change first, and keeps all other
    /// changes. Settings that this process has not changed are skipped. A change that cannot be
    /// undone stays in the journal.
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
            others.into_iter().filter(|other| !other.is_of_same_process(&self.document)).collect();
        let named = self.document.changes.iter().rev().filter(|change| is_named(change));
        let undone: Vec<Undone> =
            named.filter_map(|change| undo(self.root, &others, change)).collect();
        let failed = |change: &Change| {
            undone.iter().any(|it| matches!(it, Undone::Failed(other, _) if other == change))
        };
        self.document.changes.retain(|change| !is_named(change) || failed(change));
        self.document.save(self.root)?;
        self.undone.extend(undone.iter().filter(|it| !matches!(it, Undone::Failed(..))).cloned());
        Ok(undone)
    }

    /// Returns the changes that are not undone yet.
    pub fn changes(&self) -> &[Change] {
        &self.document.changes
    }

    /// Undoes all changes, the last first. Returns all outcomes, also those of [`Self::release`].
    ///
    /// # Errors
    /// When the journals cannot be read or written.
    pub fn close(mut self) -> Result<Vec<Undone>, JournalError> {
        self.undo_all()
    }

    fn undo_all(&mut self) -> Result<Vec<Undone>, JournalError> {
        self.is_closed = true;
        let mut undone = std::mem::take(&mut self.undone);
        if !self.document.is_empty() {
            let _turn = lock(self.root)?;
            undone.extend(self.document.undo(self.root)?);
        }
        Ok(undone)
    }
}

impl Drop for Journal<'_> {
    fn drop(&mut self) {
        if !self.is_closed {
            // A journal is dropped without `close` only after an error or a panic, which is
            // reported already. The journal file keeps the changes that cannot be undone.
            let _ = self.undo_all();
        }
    }
}

impl Document {
    fn is_of_same_process(&self, other: &Self) -> bool {
        (self.pid, self.start_ticks) == (other.pid, other.start_ticks)
    }

    fn name(&self) -> String {
        format!("{}-{}.json", self.pid, self.start_ticks)
    }

    /// True while the process that wrote this journal runs.
    fn is_alive(&self) -> Result<bool, RootError> {
        // Look the process up on this machine, even if the journal is from a captured machine (a
        // copy of files).
        let found = process(&Root::live(), self.pid)?;
        Ok(found.is_some_and(|found| found.start_ticks == self.start_ticks && !found.is_zombie))
    }

    /// True when the journal has neither a change of a setting nor a claim to pages.
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.claim.is_none()
    }

    /// Replaces the journal file atomically by this document, or removes the file if the document
    /// is empty. On a captured machine (a copy of a machine's files) nothing is written.
    fn save(&self, root: &Root) -> Result<(), JournalError> {
        if !root.is_live() {
            return Ok(());
        }
        if self.is_empty() {
            return files::update(root, &self.name(), None);
        }
        let failed =
            |why: serde_json::Error| JournalError::Keep { path: self.name(), why: why.into() };
        let text = serde_json::to_string(self).map_err(failed)?;
        files::update(root, &self.name(), Some(&text))
    }

    /// Undoes all changes, the last change first, and ends the claim. Changes that cannot be undone
    /// stay in the journal file; the file is removed if no change is left.
    fn undo(&mut self, root: &Root) -> Result<Vec<Undone>, JournalError> {
        let others: Vec<Self> =
            living(root)?.into_iter().filter(|other| !other.is_of_same_process(self)).collect();
        let undone: Vec<Undone> =
            self.changes.iter().rev().filter_map(|change| undo(root, &others, change)).collect();
        let left = |undone: &Undone| match undone {
            Undone::Failed(change, _) => Some(change.clone()),
            _ => None,
        };
        self.changes = undone.iter().rev().filter_map(left).collect();
        self.claim = None;
        self.save(root)?;
        Ok(undone)
    }
}

/// Undoes a change. `others` are the journals of other running processes. If one of these processes
/// holds the setting, the new value stays. Returns `None` when nothing was to be undone: the
/// setting had its old value, or the swap file or control group did not exist.
fn undo(root: &Root, others: &[Document], change: &Change) -> Option<Undone> {
    if swap_file::is_swap_file(change) {
        return match swap_file::remove(root, Path::new(&change.path)) {
            Ok(false) => None,
            Ok(true) => Some(Undone::Restored(change.clone())),
            Err(why) => Some(Undone::Failed(change.clone(), why.to_string())),
        };
    }
    if limited_group::is_group(change) {
        return match limited_group::remove(root, change) {
            Ok(false) => None,
            Ok(true) => Some(Undone::Restored(change.clone())),
            Err(why) => Some(Undone::Failed(change.clone(), why.to_string())),
        };
    }
    let holds = |other: &&Document| other.changes.iter().any(|held| held.path == change.path);
    if let Some(other) = others.iter().find(holds) {
        return Some(Undone::Held(change.clone(), other.pid));
    }
    let now = match root.text(&change.path) {
        Ok(now) => settings::value(&change.path, &now.unwrap_or_default()).to_string(),
        Err(why) => return Some(Undone::Failed(change.clone(), why.to_string())),
    };
    if now == change.was {
        return None;
    }
    if now != change.set {
        return Some(Undone::ChangedSince(change.clone(), now));
    }
    match controller::user(root, &change.path) {
        Ok(None) => {}
        Ok(Some(user)) => {
            let now = format!("{now} for {user}");
            return Some(Undone::ChangedSince(change.clone(), now));
        }
        Err(why) => return Some(Undone::Failed(change.clone(), why.to_string())),
    }
    Some(match root.write(&change.path, &change.was) {
        Ok(()) => Undone::Restored(change.clone()),
        Err(why) => Undone::Failed(change.clone(), why.to_string()),
    })
}

/// Undoes the changes of processes that have ended.
///
/// # Errors
/// When the journals cannot be read or written.
pub fn restore(root: &Root) -> Result<Vec<Undone>, JournalError> {
    if !root.at(files::FOLDER).exists() {
        return Ok(vec![]);
    }
    let _turn = lock(root)?;
    restore_dead(root)
}

/// Like [`restore`], but the caller holds the lock. If a journal is damaged or its changes cannot
/// be undone, the changes of the other journals are still undone.
fn restore_dead(root: &Root) -> Result<Vec<Undone>, JournalError> {
    let (mut undone, mut failed) = (vec![], None);
    for found in files::read_all(root)? {
        let document = match found {
            JournalFile::Whole(document) => Some(document),
            JournalFile::Damaged(damaged) => {
                let aside = files::set_aside(root, &damaged).map_err(|why| why.to_string());
                let rest = damaged.rest.clone();
                undone.push(Undone::SetAside { damaged, aside });
                rest
            }
        };
        if let Some(mut document) = document
            && !document.is_alive()?
        {
            match document.undo(root) {
                Ok(changes) => undone.extend(changes),
                Err(why) => failed = failed.or(Some(why)),
            }
        }
    }
    failed.map_or(Ok(undone), Err)
}

/// Returns the changes of processes that have ended, without undoing them.
///
/// # Errors
/// When the journals cannot be read.
pub fn leftovers(root: &Root) -> Result<Vec<Leftover>, JournalError> {
    let mut left = vec![];
    for found in files::read_all(root)? {
        if let JournalFile::Whole(document) = found
            && !document.is_alive()?
        {
            left.push(Leftover { pid: document.pid, changes: document.changes });
        }
    }
    Ok(left)
}

/// Returns the damaged journals, which [`restore`] would rename, without renaming them.
///
/// # Errors
/// When the journals cannot be read.
pub fn damaged(root: &Root) -> Result<Vec<Damaged>, JournalError> {
    let damaged = files::read_all(root)?.into_iter().filter_map(|found| match found {
        JournalFile::Damaged(damaged) => Some(damaged),
        JournalFile::Whole(_) => None,
    });
    Ok(damaged.collect())
}

/// Returns the running process of Interleaf that holds a setting; `None` if no process holds it.
///
/// # Errors
/// When the journals cannot be read.
pub fn holder(root: &Root, path: &str) -> Result<Option<u32>, JournalError> {
    let holds = |other: &Document| other.changes.iter().any(|held| held.path == path);
    Ok(living(root)?.into_iter().find(holds).map(|other| other.pid))
}

/// Returns the journals of running processes. A damaged journal does not belong to a running
/// process, because a process replaces its journal atomically.
fn living(root: &Root) -> Result<Vec<Document>, JournalError> {
    let mut living = vec![];
    for found in files::read_all(root)? {
        if let JournalFile::Whole(document) = found
            && document.is_alive()?
        {
            living.push(document);
        }
    }
    Ok(living)
}

#[cfg(test)]
mod tests;
