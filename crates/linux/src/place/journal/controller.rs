//! The setting that enables the memory controller below the root group (cgroup version 2).
//!
//! The file `cgroup.subtree_control` lists all enabled controllers, and takes `+memory` and
//! `-memory` (Linux, Documentation/admin-guide/cgroup-v2.rst, "Enabling and Disabling"). A journal
//! keeps one of these two texts as the value of the setting. If another program has meanwhile
//! limited memory in the tree, the controller stays enabled, because disabling it would remove
//! these limits.

use crate::root::{Root, RootError};
use interleaf_procfs::cgroup::{SUBTREE_CONTROL_FILE, lists};

/// The values that the memory controller's setting can have in a journal.
pub(crate) const ENABLED: &str = "+memory";
pub(super) const DISABLED: &str = "-memory";

/// Where distributions mount cgroup version 2: the second folder if version 1 is mounted too.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// The files with the limits and protections of a group, each with its value in a new group.
const LIMITS: [(&str, &str); 4] =
    [("memory.max", "max"), ("memory.high", "max"), ("memory.min", "0"), ("memory.low", "0")];

/// Returns the mount point of the group tree if `path` is the `cgroup.subtree_control` of the
/// tree's root group; `None` for any other path.
fn mount(path: &str) -> Option<&str> {
    let (mount, file) = path.rsplit_once('/')?;
    (file == SUBTREE_CONTROL_FILE && MOUNTS.contains(&mount)).then_some(mount)
}

/// True when `path` is that of the root group's `cgroup.subtree_control`.
pub(super) fn is_controller(path: &str) -> bool {
    mount(path).is_some()
}

/// Converts the text of `cgroup.subtree_control` to [`ENABLED`] or [`DISABLED`].
pub(super) fn value(text: &str) -> &'static str {
    if lists(text, "memory") { ENABLED } else { DISABLED }
}

/// Returns a child of the root group that needs the memory controller, because the child limits or
/// protects memory, or enables the controller for its own children. Returns `None` if there is no
/// such child, or `path` is not the root group's `cgroup.subtree_control`.
///
/// # Errors
/// When the groups cannot be read.
pub(super) fn user(root: &Root, path: &str) -> Result<Option<String>, RootError> {
    let Some(mount) = mount(path) else { return Ok(None) };
    for name in root.peek_names(mount)? {
        let folder = format!("{mount}/{name}");
        let has = |file: &str, is: &dyn Fn(&str) -> bool| -> Result<bool, RootError> {
            Ok(root.peek(&format!("{folder}/{file}"))?.is_some_and(|text| is(text.trim())))
        };
        let mut is_user = has(SUBTREE_CONTROL_FILE, &|text| lists(text, "memory"))?;
        for (file, unused) in LIMITS {
            is_user |= has(file, &|text| text != unused)?;
        }
        if is_user {
            return Ok(Some(folder));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::place::journal::{Journal, Undone};
    use std::{fs, path::Path};

    const PATH: &str = "/sys/fs/cgroup/cgroup.subtree_control";

    fn machine(enabled: &str) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::live_below(folder.path());
        fs::create_dir_all(root.at("/sys/fs/cgroup/a.slice")).unwrap();
        fs::write(root.at(PATH), enabled).unwrap();
        (folder, root)
    }

    /// Enables the controller through a journal. Then writes the list of enabled controllers to the
    /// file, as the kernel does after such a request.
    fn enable(root: &Root) -> Journal<'_> {
        let (mut journal, _) = Journal::open(root).unwrap();
        journal.set(PATH, ENABLED).unwrap();
        assert_eq!(fs::read_to_string(root.at(PATH)).unwrap(), "+memory");
        fs::write(root.at(PATH), "cpu memory\n").unwrap();
        journal
    }

    #[test]
    fn an_enabled_controller_is_disabled_again() {
        let (_folder, root) = machine("cpu\n");
        let undone = enable(&root).close().unwrap();
        assert!(matches!(&undone[..], [Undone::Restored(change)] if change.was == "-memory"));
        assert_eq!(fs::read_to_string(root.at(PATH)).unwrap(), "-memory");
    }

    #[test]
    fn a_controller_that_was_enabled_stays() {
        let (_folder, root) = machine("cpu memory\n");
        let (mut journal, _) = Journal::open(&root).unwrap();
        journal.set(PATH, ENABLED).unwrap();
        assert_eq!(journal.close().unwrap(), []);
        assert_eq!(fs::read_to_string(root.at(PATH)).unwrap(), "cpu memory\n");
    }

    #[test]
    fn a_controller_with_other_limits_stays() {
        for (file, text) in [("memory.max", "4096\n"), (SUBTREE_CONTROL_FILE, "memory\n")] {
            let (_folder, root) = machine("cpu\n");
            let journal = enable(&root);
            fs::write(root.at("/sys/fs/cgroup/a.slice").join(Path::new(file)), text).unwrap();
            let undone = journal.close().unwrap();
            let [Undone::ChangedSince(_, now)] = &undone[..] else { panic!("{undone:?}") };
            assert_eq!(now, "+memory for /sys/fs/cgroup/a.slice");
            assert_eq!(fs::read_to_string(root.at(PATH)).unwrap(), "cpu memory\n");
        }
    }
}
