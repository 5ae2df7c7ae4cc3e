//! A swap file that exists for the time of a run.
//!
//! The journal knows of the file before it exists, so that whatever ends this process, the next
//! start or `--restore` switches it off and removes it. The process that made a file holds a lock
//! on it: a file without one is a leftover even where the journal is gone and its process number is
//! in use again, as after a restart of a container.

use crate::{
    launch::memory_cgroup,
    place::journal::{Change, Journal, JournalError},
    root::{Root, RootError},
};
use interleaf_procfs::swap;
use rustix::fs::OFlags;
use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::{
        fs::{FileTypeExt as _, OpenOptionsExt as _},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::Command,
};

/// The prefix of the names of swap files; the number of the process comes next, then a counter.
const PREFIX: &str = "interleaf-bench-swap-";

/// The journal's word for a file that is neither there nor in use.
pub(crate) const ABSENT: &str = "no file";

/// The journal's word for a file that is in use as swap, or about to be.
pub(crate) const IN_USE: &str = "in use as swap";

/// Size of a write while the file is filled.
const CHUNK: usize = 1 << 20;

/// How many names are tried.
const NAMES: u32 = 1000;

/// A file that the kernel swaps to. The journal that it was made with switches it off and removes
/// it.
#[derive(Debug)]
pub struct SwapFile {
    /// Open for as long as the file is in use: its lock says so to other processes.
    _lock: File,
}

/// Why there is no swap file.
#[derive(Debug, thiserror::Error)]
pub enum SwapError {
    /// One of an earlier run is still in use: pages of this run could go there.
    #[error("{}: the swap file of an earlier run cannot be switched off: {why}", path.display())]
    Leftover {
        /// The file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// The system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The journal cannot be written, so that a kill could leave the file in use.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// `/proc/swaps` cannot be read.
    #[error(transparent)]
    Root(#[from] RootError),
}

impl SwapFile {
    /// Creates a swap file of `bytes` in `folder` and switches it on. Those of runs that are gone
    /// are removed from the folder first.
    ///
    /// # Errors
    /// When there is no room, when this user may not, or when a leftover cannot be removed. The
    /// journal then removes whatever was created.
    pub fn new(
        root: &Root,
        journal: &mut Journal<'_>,
        folder: &Path,
        bytes: u64,
    ) -> Result<Self, SwapError> {
        let folder = folder.canonicalize()?;
        remove_leftovers(root, &folder)?;
        let (path, mut file) = create(journal, &folder)?;
        // Swap needs allocated blocks: the kernel refuses holes.
        let zeros = vec![0; CHUNK];
        for _ in 0..bytes.div_ceil(CHUNK as u64) {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
        tool("mkswap", &path)?;
        tool("swapon", &path)?;
        Ok(Self { _lock: file })
    }
}

/// Creates the file, locked, under a name that nothing has yet.
fn create(journal: &mut Journal<'_>, folder: &Path) -> Result<(PathBuf, File), SwapError> {
    let pid = std::process::id();
    for count in 0..NAMES {
        let path = folder.join(format!("{PREFIX}{pid}-{count}"));
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

/// Whether a journal's change records a swap file.
pub(crate) fn is_of_journal(change: &Change) -> bool {
    change.set == IN_USE && change.was == ABSENT && is_ours(Path::new(&change.path))
}

/// Whether a path is one that [`SwapFile::new`] could have made.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    path.is_absolute() && name.is_some_and(|name| name.starts_with(PREFIX))
}

/// Switches a swap file off where it is in use, and removes it; whether there was one.
///
/// # Errors
/// When the kernel does not switch it off, as where memory is short, or the file cannot be removed.
pub(crate) fn remove(root: &Root, path: &Path) -> Result<bool, SwapError> {
    let found = match path.symlink_metadata() {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?.file_type(),
    };
    if !found.is_file() || found.is_symlink() || found.is_fifo() {
        let why = format!("{}: it is no regular file any more: look at it", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why).into());
    }
    if is_in_use(root, path)? {
        // Pages of a run that is gone would have to fit into memory, and into its group.
        let _ = memory_cgroup::remove_leftovers(root);
        tool("swapoff", path)?;
    }
    fs::remove_file(path)?;
    Ok(true)
}

/// True when the kernel swaps to a file. Names of our files have no spaces.
fn is_in_use(root: &Root, path: &Path) -> Result<bool, RootError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let swaps = root.peek("/proc/swaps")?.unwrap_or_default();
    Ok(swap::is_in_use(&swaps, &name))
}

/// Removes the swap files of processes that are gone.
fn remove_leftovers(root: &Root, folder: &Path) -> Result<(), SwapError> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if !is_ours(&path) {
            continue;
        }
        // The kernel lets nobody open a swap file to write, but a lock needs no more than reading.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = File::options().read(true).custom_flags(flags).open(&path);
        if file.is_ok_and(|file| matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock))) {
            continue;
        }
        remove(root, &path).map_err(|why| match why {
            SwapError::System(why) => SwapError::Leftover { path, why },
            other => other,
        })?;
    }
    Ok(())
}

/// Runs a tool of util-linux on a file. Ctrl-C in a terminal is for its whole process group:
/// swapoff(2) would end with `EINTR` and leave the file in use, so that the tool is in another.
fn tool(name: &str, path: &Path) -> io::Result<()> {
    let ran = Command::new(name).arg(path).process_group(0).output().map_err(|why| {
        io::Error::new(why.kind(), format!("{name} (of util-linux) cannot be run: {why}"))
    })?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    let said = said.trim().trim_start_matches(&format!("{name}: ")).to_string();
    Err(io::Error::other(format!("{name}: {said}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::place::journal::Undone;

    /// A machine whose `/proc/swaps` has these files.
    fn machine(swaps: &str) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("proc")).unwrap();
        let header = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        fs::write(folder.path().join("proc/swaps"), format!("{header}{swaps}")).unwrap();
        let root = Root::live_below(folder.path());
        (folder, root)
    }

    #[test]
    fn a_file_is_in_use_by_its_whole_name() {
        let (_folder, root) =
            machine("/var/a\\040b/interleaf-bench-swap-71-0  file  65532  0  -2\n");
        let is_in_use = |path: &str| is_in_use(&root, Path::new(path)).unwrap();
        assert!(is_in_use("/var/a b/interleaf-bench-swap-71-0"));
        assert!(!is_in_use("/var/a b/interleaf-bench-swap-7"));
        assert!(!is_in_use("/var/a b/interleaf-bench-swap-71"));
    }

    #[test]
    fn a_journal_removes_what_is_noted_and_not_yet_in_use() {
        let (folder, root) = machine("");
        let (mut journal, _) = Journal::open(&root).unwrap();
        let (path, _lock) = create(&mut journal, folder.path()).unwrap();
        assert!(path.exists());
        let undone = journal.close().unwrap();
        assert!(matches!(&undone[..], [Undone::Restored(change)] if change.was == ABSENT));
        assert!(!path.exists());
    }

    /// `swapoff` of a file that is none fails on every machine, whoever asks.
    #[test]
    fn what_swapoff_refuses_is_told_and_tried_again_by_the_next_journal() {
        let (folder, root) = machine("");
        let (mut journal, _) = Journal::open(&root).unwrap();
        let (path, _lock) = create(&mut journal, folder.path()).unwrap();
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
        let (held, lock) = create(&mut journal, folder.path()).unwrap();
        // The number of a process that lives, as after a restart of a container.
        let left = folder.path().join(format!("{PREFIX}{}-7", std::process::id()));
        fs::write(&left, "").unwrap();
        remove_leftovers(&root, folder.path()).unwrap();
        assert_eq!((held.exists(), left.exists()), (true, false));
        drop(lock);
        remove_leftovers(&root, folder.path()).unwrap();
        assert!(!held.exists());
    }

    #[test]
    fn only_regular_files_with_our_names_are_removed() {
        let (folder, root) = machine("");
        let link = folder.path().join(format!("{PREFIX}1-0"));
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        assert!(remove(&root, &link).is_err());
        assert!(
            !is_ours(Path::new("/etc/passwd")) && !is_ours(Path::new("interleaf-bench-swap-1"))
        );
    }
}
