//! The journal entry for a swap file, and the removal of the file.
//!
//! [`crate::launch::swapfile`] creates the file. This module switches it off and removes it, so
//! that the journal does not depend on `launch`. `interleaf run --restore` does the same, through
//! this module, with the swap file of a process that was killed.

use super::Change;
use crate::{
    process::memory_cgroup,
    root::{Root, RootError},
};
use interleaf_procfs::swap;
use std::{
    fs, io,
    os::unix::{fs::FileTypeExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
};

/// The prefix of the names of swap files. The ID of the process and a counter follow.
pub(crate) const PREFIX: &str = "interleaf-bench-swap-";

/// The prefix of the names of hidden swap files that extend the memory of a command.
pub(crate) const COMMAND_PREFIX: &str = ".interleaf-swap-";

/// The value in a journal for a file that neither exists nor is in use.
pub(super) const ABSENT: &str = "no file";

/// The value in a journal for a file that is in use as swap, or is about to be.
pub(super) const IN_USE: &str = "in use as swap";

/// The reason why a swap file was not removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoveError {
    #[error(transparent)]
    System(#[from] io::Error),
    #[error(transparent)]
    Root(#[from] RootError),
}

/// True when a change records a swap file.
pub(super) fn is_swap_file(change: &Change) -> bool {
    change.set == IN_USE && change.was == ABSENT && is_ours(Path::new(&change.path))
}

/// True when `path` is absolute and its file name has a prefix of Interleaf's swap files.
pub(crate) fn is_ours(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    path.is_absolute()
        && name.is_some_and(|name| {
            [PREFIX, COMMAND_PREFIX].iter().any(|prefix| name.starts_with(prefix))
        })
}

/// Switches a swap file off if it is in use, and removes it. Returns true if the file existed.
///
/// # Errors
/// When the kernel cannot switch the file off, for example for lack of memory, or the file cannot
/// be removed.
pub(crate) fn remove(root: &Root, path: &Path) -> Result<bool, RemoveError> {
    let found = match path.symlink_metadata() {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?.file_type(),
    };
    if !found.is_file() || found.is_symlink() || found.is_fifo() {
        let why = format!("{}: it is not a regular file any more: inspect it", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why).into());
    }
    if is_in_use(root, path)? {
        // swapoff(8) reads the swapped pages into memory, which the control group of the ended run
        // still limits. Remove this group first.
        let _ = memory_cgroup::remove_leftovers(root);
        run_tool("swapoff", path)?;
    }
    fs::remove_file(path)?;
    Ok(true)
}

/// True when the kernel swaps to the file `path`. Only the file name is compared, not the folder:
/// `/proc/swaps` escapes spaces in paths, but the names of Interleaf's swap files contain none.
fn is_in_use(root: &Root, path: &Path) -> Result<bool, RootError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let swaps = root.peek("/proc/swaps")?.unwrap_or_default();
    Ok(swap::is_in_use(&swaps, &name))
}

/// Runs the tool `name` of util-linux on a file, in its own process group. In a terminal's
/// foreground group, Ctrl-C would end swapoff(2) with `EINTR` and leave the file in use.
pub(crate) fn run_tool(name: &str, path: &Path) -> io::Result<()> {
    let ran = Command::new(name).arg(path).process_group(0).output().map_err(|why| {
        io::Error::new(why.kind(), format!("{name} (of util-linux) cannot be run: {why}"))
    })?;
    if ran.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&ran.stderr);
    let message = message.trim().trim_start_matches(&format!("{name}: ")).to_string();
    Err(io::Error::other(format!("{name}: {message}")))
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    /// Makes a machine whose `/proc/swaps` consists of a header and the lines `swaps`.
    pub(crate) fn machine(swaps: &str) -> (tempfile::TempDir, Root) {
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
