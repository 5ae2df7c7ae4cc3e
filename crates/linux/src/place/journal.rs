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

mod settings;

mod files;

mod claim;

pub(crate) mod swap_file;

pub use claim::Claim;
pub use files::Damaged;

use crate::{
    process::process,
    root::{Root, RootError},
};
use files::{Found, lock};
use serde::{Deserialize, Serialize};
use std::{io, path::Path};

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
    /// Whose pages it steers; absent of one that steers none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim: Option<Claim>,
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
    /// A journal is damaged: it was renamed, and what of it can be believed is put back.
    SetAside {
        /// The file, and its fault.
        damaged: Damaged,
        /// Its path now, or why it could not be renamed.
        aside: Result<String, String>,
    },
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
    /// Somebody else can write where the journals are.
    #[error("{path}: is not used for journals: {why}")]
    Untrusted {
        /// The folder.
        path: String,
        /// Why.
        why: String,
    },
    /// A setting or its value is none that is ever put back, so it is not changed.
    #[error("{0}")]
    Unknown(String),
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
    /// Another process of ours steers some of the same pages.
    #[error("process {pid} of interleaf steers some of these pages already, those of {claim}")]
    Claimed {
        /// The process that steers them.
        pid: u32,
        /// The pages that it steers.
        claim: Claim,
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
    /// A journal. What processes that are gone have left is put back first, and what an earlier
    /// journal of this process could not put back is tried again: the changes that still fail are
    /// in the new journal.
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
        if let Some(earlier) = living(root)?.into_iter().find(|other| other.is(&document)) {
            document = earlier;
            undone.extend(document.undo(root)?);
        }
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
        for value in [now.trim(), text] {
            settings::check(path, value).map_err(JournalError::Unknown)?;
        }
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

    /// Claims the pages that this process steers from now on, until the journal is closed.
    ///
    /// # Errors
    /// When another process steers some of them, or the journals cannot be read or written.
    pub fn claim(&mut self, claim: Claim) -> Result<(), JournalError> {
        if !self.root.is_live() {
            return Ok(());
        }
        let _turn = lock(self.root)?;
        for other in living(self.root)? {
            if let Some(theirs) = &other.claim
                && !other.is(&self.document)
                && claim.overlaps(theirs, self.root)?
            {
                return Err(JournalError::Claimed { pid: other.pid, claim: theirs.clone() });
            }
        }
        self.document.claim = Some(claim);
        self.document.keep(self.root)
    }

    /// Writes to the journal that this process is about to create a swap file and to switch it on.
    /// Undoing it switches the file off and removes it.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub(crate) fn note_swap_file(&mut self, path: &str) -> Result<(), JournalError> {
        let _turn = lock(self.root)?;
        let (was, set) = (swap_file::ABSENT.into(), swap_file::IN_USE.into());
        self.document.changes.push(Change { path: path.into(), was, set });
        let kept = self.document.keep(self.root);
        if kept.is_err() {
            self.document.changes.pop();
        }
        kept
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
            // An error is on its way already, and the journal on disk remembers what is left.
            let _ = self.put_back();
        }
    }
}

impl Document {
    fn is(&self, other: &Self) -> bool {
        (self.pid, self.start_ticks) == (other.pid, other.start_ticks)
    }

    /// The name of its file.
    fn name(&self) -> String {
        format!("{}-{}.json", self.pid, self.start_ticks)
    }

    /// Whether its process is still there.
    fn lives(&self) -> Result<bool, RootError> {
        // Processes are those of this machine, whatever the root is.
        let found = process(&Root::live(), self.pid)?;
        Ok(found.is_some_and(|found| found.start_ticks == self.start_ticks && !found.is_zombie))
    }

    /// Whether there is nothing that others would have to know.
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.claim.is_none()
    }

    /// Writes it to its file, in one step; an empty one has none.
    fn keep(&self, root: &Root) -> Result<(), JournalError> {
        if !root.is_live() {
            return Ok(());
        }
        if self.is_empty() {
            return files::keep(root, &self.name(), None);
        }
        let failed =
            |why: serde_json::Error| JournalError::Keep { path: self.name(), why: why.into() };
        let text = serde_json::to_string(self).map_err(failed)?;
        files::keep(root, &self.name(), Some(&text))
    }

    /// Puts everything back, the last change first, and keeps the changes for which that fails;
    /// without any, the file is removed.
    fn undo(&mut self, root: &Root) -> Result<Vec<Undone>, JournalError> {
        let others: Vec<Self> = living(root)?.into_iter().filter(|other| !other.is(self)).collect();
        let undone: Vec<Undone> =
            self.changes.iter().rev().filter_map(|change| undo(root, &others, change)).collect();
        let left = |undone: &Undone| match undone {
            Undone::Failed(change, _) => Some(change.clone()),
            _ => None,
        };
        self.changes = undone.iter().rev().filter_map(left).collect();
        self.claim = None;
        self.keep(root)?;
        Ok(undone)
    }
}

/// Puts a change back, unless one of `others` holds it; nothing when it is as it was.
fn undo(root: &Root, others: &[Document], change: &Change) -> Option<Undone> {
    if swap_file::is_swap_file(change) {
        return match swap_file::remove(root, Path::new(&change.path)) {
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
    if !root.at(files::FOLDER).exists() {
        return Ok(vec![]);
    }
    let _turn = lock(root)?;
    restore_dead(root)
}

/// A journal that is damaged, or cannot be brought up to date, keeps none of the others from being
/// put back.
fn restore_dead(root: &Root) -> Result<Vec<Undone>, JournalError> {
    let mut undone = vec![];
    for found in files::all(root)? {
        let document = match found {
            Found::Whole(document) => Some(document),
            Found::Damaged(damaged) => {
                let aside = files::set_aside(root, &damaged).map_err(|why| why.to_string());
                let rest = damaged.rest.clone();
                undone.push(Undone::SetAside { damaged, aside });
                rest
            }
        };
        if let Some(mut document) = document
            && !document.lives()?
        {
            undone.extend(document.undo(root)?);
        }
    }
    Ok(undone)
}

/// What processes that are gone have left. Changes nothing.
///
/// # Errors
/// When the journals cannot be read.
pub fn leftovers(root: &Root) -> Result<Vec<Leftover>, JournalError> {
    let mut left = vec![];
    for found in files::all(root)? {
        if let Found::Whole(document) = found
            && !document.lives()?
        {
            left.push(Leftover { pid: document.pid, changes: document.changes });
        }
    }
    Ok(left)
}

/// Journals that are damaged: [`restore`] sets them aside. Changes nothing.
///
/// # Errors
/// When the journals cannot be read.
pub fn damaged(root: &Root) -> Result<Vec<Damaged>, JournalError> {
    let damaged = files::all(root)?.into_iter().filter_map(|found| match found {
        Found::Damaged(damaged) => Some(damaged),
        Found::Whole(_) => None,
    });
    Ok(damaged.collect())
}

/// The process of ours that is still there and holds a setting; `None` when none does.
///
/// # Errors
/// When the journals cannot be read.
pub fn holder(root: &Root, path: &str) -> Result<Option<u32>, JournalError> {
    let holds = |other: &Document| other.changes.iter().any(|held| held.path == path);
    Ok(living(root)?.into_iter().find(holds).map(|other| other.pid))
}

/// The journals of processes that are still there. One that is damaged is of nobody who lives: each
/// process replaces its own atomically.
fn living(root: &Root) -> Result<Vec<Document>, JournalError> {
    let mut living = vec![];
    for found in files::all(root)? {
        if let Found::Whole(document) = found
            && document.lives()?
        {
            living.push(document);
        }
    }
    Ok(living)
}

#[cfg(test)]
mod tests;
