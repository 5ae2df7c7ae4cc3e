//! The files of journals: the check of their owners, and the handling of damaged files.
//!
//! Root writes the values of a journal to the kernel, so no other user may be able to write a
//! journal. The folder and each file must belong to root or to this user, and no other user may
//! have the right to write to them. A file that fails this check, or does not contain a journal,
//! counts as damaged. A damaged file is renamed, so that it is reported only once. It does not
//! prevent the changes in other journals from being undone.

use super::{Change, Document, JournalError, SCHEMA, limited_group, settings, swap_file};
use crate::{replace::Folder, root::Root};
use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
};

/// The folder of the journals, as a path on the machine ([`Root::at`]).
pub(super) const FOLDER: &str = "/run/interleaf";

/// The name of the lock file. Only the process that has locked this file changes settings.
pub(super) const LOCK: &str = "lock";

/// The suffix that the name of a damaged journal gets.
const ASIDE: &str = ".damaged";

/// Maximum size of a journal, bytes. On a machine with 256 nodes a journal takes about 40 KB.
const BYTES_MAX: u64 = 1 << 20;

/// The mode of the journals' folder. All users may enter, for the daemon's socket and files.
const FOLDER_MODE: u32 = 0o755;

/// A file in the folder of the journals.
#[derive(Debug)]
pub(super) enum JournalFile {
    /// A valid journal.
    Whole(Document),
    /// A file that is not a journal, or a journal of which only a part is valid.
    Damaged(Damaged),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    pub path: String,
    pub why: String,
    /// The valid changes of the journal; `None` if the whole file is invalid.
    pub(super) rest: Option<Document>,
}

/// Reads all journals, valid and damaged.
///
/// # Errors
/// When the folder cannot be listed, or other users can write to it.
pub(super) fn read_all(root: &Root) -> Result<Vec<JournalFile>, JournalError> {
    let is_journal = |name: &String| name.ends_with(".json");
    if !root.is_live() {
        let names = root.peek_names(FOLDER)?.into_iter().filter(is_journal);
        let read = |name: String| {
            let text = root.peek(&format!("{FOLDER}/{name}")).map_err(|why| why.to_string());
            classify(&name, text)
        };
        return Ok(names.filter_map(read).collect());
    }
    let Some(folder) = folder(root)? else { return Ok(vec![]) };
    let names = folder.names().map_err(|why| unusable(root, why))?.into_iter().filter(is_journal);
    let read = |name: String| {
        let text = folder.private_text(&name, BYTES_MAX).map_err(|why| why.to_string());
        classify(&name, text)
    };
    Ok(names.filter_map(read).collect())
}

/// Parses `text`, the content of the file `name` in the folder of the journals, as a valid or
/// damaged journal. Returns `None` if the file has been removed since it was listed.
fn classify(name: &str, text: Result<Option<String>, String>) -> Option<JournalFile> {
    let damaged =
        |why, rest| JournalFile::Damaged(Damaged { path: format!("{FOLDER}/{name}"), why, rest });
    let text = match text {
        Ok(text) => text?,
        Err(why) => return Some(damaged(why, None)),
    };
    let document: Document = match serde_json::from_str(&text) {
        Ok(document) => document,
        Err(why) => return Some(damaged(why.to_string(), None)),
    };
    if document.schema != SCHEMA {
        let why = format!("schema: {:?} is not {SCHEMA}", document.schema);
        return Some(damaged(why, None));
    }
    if document.name() != name {
        return Some(damaged(format!("it is of {}", document.name()), None));
    }
    let check = |change: &Change| {
        if swap_file::is_swap_file(change) || limited_group::is_group(change) {
            return Ok(());
        }
        settings::check(&change.path, &change.was)?;
        settings::check(&change.path, &change.set)
    };
    let (mut changes, mut refused) = (vec![], vec![]);
    for change in document.changes.clone() {
        match check(&change) {
            Ok(()) => changes.push(change),
            Err(why) => refused.push(why),
        }
    }
    match refused.is_empty() {
        true => Some(JournalFile::Whole(document)),
        false => Some(damaged(refused.join("; "), Some(Document { changes, ..document }))),
    }
}

/// Renames a damaged journal, so that it is not read again. Returns its new path.
pub(super) fn set_aside(root: &Root, damaged: &Damaged) -> Result<String, JournalError> {
    let name = damaged.path.rsplit_once('/').map_or("", |(_, name)| name);
    let Some(folder) = folder(root)? else { return Ok(damaged.path.clone()) };
    let mut aside = format!("{name}{ASIDE}");
    let mut count = 1;
    while folder.has(OsStr::new(&aside)) {
        count += 1;
        aside = format!("{name}{ASIDE}-{count}");
    }
    let renamed = folder.rename(OsStr::new(name), OsStr::new(&aside));
    renamed.map_err(|why| JournalError::Keep { path: damaged.path.clone(), why })?;
    Ok(format!("{FOLDER}/{aside}"))
}

/// Writes `text` to the journal file `name`. If `text` is `None`, removes the file.
pub(super) fn update(root: &Root, name: &str, text: Option<&str>) -> Result<(), JournalError> {
    let path = format!("{FOLDER}/{name}");
    let failed = |why| JournalError::Keep { path, why };
    match (folder(root)?, text) {
        (Some(folder), Some(text)) => {
            folder.keep(OsStr::new(name), text.as_bytes(), 0o644).map(drop).map_err(failed)
        }
        (Some(folder), None) => folder.unlink(OsStr::new(name)).map_err(failed),
        (None, Some(_)) => Err(failed(io::ErrorKind::NotFound.into())),
        (None, None) => Ok(()),
    }
}

/// Locks the folder until the returned file is closed. On a captured machine (a copy of a machine's
/// files) nothing is locked.
pub(super) fn lock(root: &Root) -> Result<Option<File>, JournalError> {
    if !root.is_live() {
        return Ok(None);
    }
    create_folder(root).map_err(|why| unusable(root, why))?;
    let failed = |why| JournalError::Keep { path: format!("{FOLDER}/{LOCK}"), why };
    let Some(folder) = folder(root)? else { return Err(failed(io::ErrorKind::NotFound.into())) };
    // Make the lock file private: another user who could open it could hold its lock forever.
    let file = folder.private_file(LOCK).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(Some(file))
}

fn create_folder(root: &Root) -> io::Result<()> {
    let path = root.at(FOLDER);
    if fs::symlink_metadata(&path).is_ok() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&path)?;
    // The umask restricts the mode of a new folder, so set the mode explicitly.
    Folder::trusted(&path)?.set_mode(FOLDER_MODE)
}

/// Opens the journals' folder if no other user can write to it. `None` if it does not exist.
fn folder(root: &Root) -> Result<Option<Folder>, JournalError> {
    let opened = Folder::trusted(&root.at(FOLDER)).and_then(|folder| {
        folder.check_private()?;
        Ok(folder)
    });
    match opened {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(|why| unusable(root, why)),
    }
}

fn unusable(root: &Root, why: io::Error) -> JournalError {
    let path = root.at(FOLDER).display().to_string();
    match why.kind() {
        io::ErrorKind::InvalidData => JournalError::Untrusted { path, why: why.to_string() },
        _ => JournalError::Keep { path, why },
    }
}
