//! A swap file that exists while a benchmark or a command runs.
//!
//! The journal records the swap file before it is created. Closing the journal switches the swap
//! file off and removes it. If this process is killed, the next process that opens a journal does
//! so, as does `interleaf run --restore`.
//!
//! The process that made a swap file holds a lock on it, so a swap file without a lock is a
//! leftover of an ended process. This holds even if the journal is lost and the process ID in the
//! file's name belongs to a new process, as after a restart of a container.

use crate::{
    place::journal::{
        Journal, JournalError,
        swap_file::{COMMAND_PREFIX, PREFIX, RemoveError, is_ours, remove, run_tool},
    },
    root::{Root, RootError},
};
use interleaf_model::units::Bytes;
use interleaf_procfs::swap;
use rustix::fs::{FallocateFlags, OFlags, fallocate, fstatvfs};
use std::{
    ffi::CString,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// Number of bytes in each write that fills a new swap file with zeros.
const CHUNK: usize = 1 << 20;

/// Maximum number of names tried for a new swap file; the counter in a name is below this number.
const NAMES: u32 = 1000;

/// A swap file that is in use. Closing the journal that records the file switches it off and
/// removes it.
#[derive(Debug)]
pub struct SwapFile {
    /// The swap file, locked while this descriptor is open, so that no other process removes it.
    _lock: File,
}

/// The reason why a swap file could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SwapError {
    /// An earlier run's swap file is still in use: the kernel could swap this run's pages to it.
    #[error("{}: the swap file of an earlier run cannot be switched off: {why}", path.display())]
    Leftover { path: PathBuf, why: io::Error },
    #[error(transparent)]
    System(#[from] io::Error),
    /// The journal cannot be written. No file is made: nothing would switch it off after SIGKILL.
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Root(#[from] RootError),
}

impl SwapFile {
    /// Creates a swap file of `bytes` bytes, rounded up to whole MiB, in `folder` and switches it
    /// on. Before that, removes the swap files of processes that have ended.
    ///
    /// # Errors
    /// When space or permission is missing, or the swap file of an ended process cannot be removed.
    /// Closing the journal then removes the new file.
    pub fn new(
        root: &Root,
        journal: &mut Journal<'_>,
        folder: &Path,
        bytes: u64,
    ) -> Result<Self, SwapError> {
        let (path, mut file) = begin(root, journal, folder, PREFIX)?;
        let system = fstatvfs(&file).map_err(io::Error::from)?;
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        if free < bytes {
            let why = format!("{} of {} are free", Bytes::new(free), Bytes::new(bytes));
            return Err(io::Error::new(io::ErrorKind::StorageFull, why).into());
        }
        // Write zeros to allocate all blocks of the file: the kernel refuses swap files with holes.
        let zeros = vec![0; CHUNK];
        for _ in 0..bytes.div_ceil(CHUNK as u64) {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
        run_tool("mkswap", &path)?;
        run_tool("swapon", &path)?;
        Ok(Self { _lock: file })
    }

    /// Creates a swap file as [`Self::new`] does, with three differences: the kernel uses it before
    /// all other swap; its blocks are reserved with fallocate(2) instead of written; `bytes` is not
    /// rounded.
    ///
    /// # Errors
    /// The errors of [`Self::new`], and when the file system cannot reserve blocks.
    pub fn preferred(
        root: &Root,
        journal: &mut Journal<'_>,
        folder: &Path,
        bytes: u64,
    ) -> Result<Self, SwapError> {
        let (path, file) = begin(root, journal, folder, COMMAND_PREFIX)?;
        fallocate(&file, FallocateFlags::empty(), 0, bytes).map_err(io::Error::from)?;
        file.sync_all()?;
        run_tool("mkswap", &path)?;
        let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
        swap::swap_on(&path, swap::HIGHEST_PRIORITY)?;
        Ok(Self { _lock: file })
    }
}

/// Removes the swap files of ended processes from `folder`. Then creates an empty, locked file in
/// `folder` with a name that begins with `prefix`. Returns the path and the open file.
fn begin(
    root: &Root,
    journal: &mut Journal<'_>,
    folder: &Path,
    prefix: &str,
) -> Result<(PathBuf, File), SwapError> {
    let folder = folder.canonicalize()?;
    remove_leftovers(root, &folder)?;
    create(journal, &folder, prefix)
}

/// Records a swap file in the journal, creates it as an empty file, and locks it. Its name is
/// unused until now and begins with `prefix`.
fn create(
    journal: &mut Journal<'_>,
    folder: &Path,
    prefix: &str,
) -> Result<(PathBuf, File), SwapError> {
    let pid = std::process::id();
    for count in 0..NAMES {
        let path = folder.join(format!("{prefix}{pid}-{count}"));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        let text = path.to_str().ok_or_else(|| {
            let why = format!("{}: the path is not UTF-8", folder.display());
            io::Error::new(io::ErrorKind::InvalidInput, why)
        })?;
        journal.note_swap_file(text)?;
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        file.lock()?;
        return Ok((path, file));
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists).into())
}

/// Removes Interleaf's swap files in `folder`, except those on which a running process has a lock.
fn remove_leftovers(root: &Root, folder: &Path) -> Result<(), SwapError> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if !is_ours(&path) {
            continue;
        }
        // Opening a swap file for writing fails (`ETXTBSY`); reading suffices for a lock.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = File::options().read(true).custom_flags(flags).open(&path);
        if file.is_ok_and(|file| matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock))) {
            continue;
        }
        remove(root, &path).map_err(|why| match why {
            RemoveError::System(why) => SwapError::Leftover { path, why },
            RemoveError::Root(why) => why.into(),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::place::journal::{Undone, swap_file::tests::machine};

    #[test]
    fn a_journal_removes_a_swap_file_that_is_not_in_use() {
        let (folder, root) = machine("");
        let (mut journal, _) = Journal::open(&root).unwrap();
        let (path, _lock) = create(&mut journal, folder.path(), PREFIX).unwrap();
        assert!(path.exists());
        let undone = journal.close().unwrap();
        assert!(matches!(&undone[..], [Undone::Restored(change)] if change.was == "no file"));
        assert!(!path.exists());
    }

    /// `swapoff` fails on an ordinary file that `/proc/swaps` lists as swap, even for root. The
    /// failure is reported, and the next journal tries again.
    #[test]
    fn a_failed_swapoff_is_reported_and_retried_by_the_next_journal() {
        let (folder, root) = machine("");
        let (mut journal, _) = Journal::open(&root).unwrap();
        let (path, _lock) = create(&mut journal, folder.path(), PREFIX).unwrap();
        let line = format!("{} file 65532 0 -2\n", path.display());
        let swaps = root.at("/proc/swaps");
        fs::write(&swaps, format!("Filename Type Size Used Priority\n{line}")).unwrap();
        let undone = journal.close().unwrap();
        assert!(matches!(&undone[..], [Undone::Failed(_, why)] if why.contains("swapoff")));
        assert!(path.exists(), "it is in use");

        let (journal, undone) = Journal::open(&root).unwrap();
        assert!(matches!(&undone[..], [Undone::Failed(..)]), "{undone:?}");
        assert_eq!(journal.changes().len(), 1, "it is still to be undone");
        drop(journal);
        fs::write(&swaps, "Filename Type Size Used Priority\n").unwrap();
        let (journal, undone) = Journal::open(&root).unwrap();
        assert!(matches!(&undone[..], [Undone::Restored(_)]), "{undone:?}");
        assert_eq!((journal.changes().len(), path.exists()), (0, false));
    }

    #[test]
    fn a_leftover_is_removed_unless_a_process_holds_it() {
        let (folder, root) = machine("");
        let (mut journal, _) = Journal::open(&root).unwrap();
        let (held, lock) = create(&mut journal, folder.path(), PREFIX).unwrap();
        // A leftover: not locked, named after a running process, as after a restart of a container.
        let left = folder.path().join(format!("{PREFIX}{}-7", std::process::id()));
        fs::write(&left, "").unwrap();
        remove_leftovers(&root, folder.path()).unwrap();
        assert_eq!((held.exists(), left.exists()), (true, false));
        // Unlock the file before closing it: a process that another test forks at this moment has a
        // copy of the descriptor, which would keep the lock.
        lock.unlock().unwrap();
        remove_leftovers(&root, folder.path()).unwrap();
        assert!(!held.exists());
    }
}
