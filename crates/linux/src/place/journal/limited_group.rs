//! The journal entry for a control group with a memory limit, and the removal of the group.
//!
//! [`crate::launch::limited_group`] creates the group. Removing it is part of the journal, so that
//! `interleaf run --restore` can remove the group of a process that was killed. Other processes may
//! then still be in the group. They are moved back to their former group, without the limit.

use super::Change;
use crate::{
    process::cgroup::{Group, Trees},
    root::{Root, RootError},
};
use interleaf_procfs::cgroup::{PROCESSES_FILE, Version};
use std::{thread, time::Duration};

/// The prefix of the names of groups with a memory limit; the creator's process ID follows.
pub(crate) const PREFIX: &str = "interleaf-extend-";

/// The value in a journal for a group that exists, or is about to be created.
const LIMITED: &str = "limits the memory of a command";

/// The value in a journal for an absent group; the name of the processes' former group follows.
const ABSENT: &str = "no group: its processes are from ";

/// A group cannot be removed while its last process is just leaving it or exiting. `TRIES` is the
/// maximum number of attempts, and `PAUSE` the time between two attempts: one second in total.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// Returns the change that creates `group` for processes of the group `former`.
pub(super) fn change(group: &Group, former: &Group) -> Change {
    let was = format!("{ABSENT}{}", former.name);
    Change { path: group.folder(), was, set: LIMITED.into() }
}

/// True when a change records a control group with a memory limit.
pub(super) fn is_group(change: &Change) -> bool {
    change.set == LIMITED && former(change).is_some() && name(change).is_some()
}

/// Returns the group's name in `change`; `None` unless it consists of [`PREFIX`] and a process ID.
fn name(change: &Change) -> Option<&str> {
    let (_, name) = change.path.rsplit_once('/')?;
    name.strip_prefix(PREFIX)?.parse::<u32>().is_ok().then_some(name)
}

/// Returns the path, below the mount, of the former group in `change`; `None` if invalid.
fn former(change: &Change) -> Option<&str> {
    let name = change.was.strip_prefix(ABSENT)?;
    (name.starts_with('/') && !name.split('/').any(|part| part == "..")).then_some(name)
}

/// Moves the processes of the group that `change` records back to their former group, and removes
/// the group. Returns true if the group existed.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn remove(root: &Root, change: &Change) -> Result<bool, RootError> {
    let (Some(name), Some(former)) = (name(change), former(change)) else { return Ok(false) };
    let Some(tree) = Trees::read(root)?.and_then(|trees| trees.memory) else { return Ok(false) };
    let group = tree.group(name);
    // The path is from a journal, which may be forged. Remove only the folder of the named group.
    if group.folder() != change.path || !group.exists(root) {
        return Ok(false);
    }
    let mut former = tree.group(former);
    if !former.exists(root) {
        // The former group is gone, as after a logout. Use the group of the restoring process.
        former = tree.group_of(root, None)?.unwrap_or_else(|| tree.group("/"));
    }
    remove_limit(root, &group)?;
    for _ in 1..TRIES {
        move_processes(root, &group, &former)?;
        if root.remove_folder(&group.folder()).is_ok() {
            return Ok(true);
        }
        thread::sleep(PAUSE);
    }
    root.remove_folder(&group.folder()).map(|()| true)
}

/// Removes the limit of a group. Under the limit, the swapped-out pages of processes that still run
/// might not fit into memory, and then could not be swapped in.
fn remove_limit(root: &Root, group: &Group) -> Result<(), RootError> {
    let unlimited = match group.tree.version {
        Version::One => "-1",
        Version::Two => "max",
    };
    root.write(&format!("{}/{}", group.folder(), group.tree.version.limit_file()), unlimited)
}

fn move_processes(root: &Root, from: &Group, to: &Group) -> Result<(), RootError> {
    let procs = format!("{}/{PROCESSES_FILE}", to.folder());
    for process in from.processes(root)? {
        // The write fails if the process has just ended.
        let _ = root.write(&procs, &process.to_string());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::place::journal::Journal;
    use std::fs;

    /// Makes a machine with the memory controller of version 2 and a group `/shell`.
    fn machine() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let mount = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        write("proc/self/mountinfo", mount);
        write("proc/self/cgroup", "0::/shell\n");
        write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
        write("sys/fs/cgroup/shell/cgroup.procs", "");
        let root = Root::live_below(folder.path());
        (folder, root)
    }

    fn limited(root: &Root) -> (Group, Group) {
        let tree = Trees::read(root).unwrap().unwrap().memory.unwrap();
        (tree.group(&format!("{PREFIX}7")), tree.group("/shell"))
    }

    #[test]
    fn processes_return_to_their_group_without_the_limit() {
        let (_folder, root) = machine();
        let (group, former) = limited(&root);
        let path = |group: &Group, file: &str| root.at(&group.folder()).join(file);
        fs::create_dir(root.at(&group.folder())).unwrap();
        fs::write(path(&group, "cgroup.procs"), "41\n").unwrap();
        fs::write(path(&group, "memory.max"), "4096").unwrap();
        remove_limit(&root, &group).unwrap();
        move_processes(&root, &group, &former).unwrap();
        assert_eq!(fs::read_to_string(path(&group, "memory.max")).unwrap(), "max");
        assert_eq!(fs::read_to_string(path(&former, "cgroup.procs")).unwrap(), "41");
    }

    #[test]
    fn a_group_that_was_not_made_is_skipped() {
        let (_folder, root) = machine();
        let (group, former) = limited(&root);
        let (mut journal, _) = Journal::open(&root).unwrap();
        journal.note_group(&group, &former).unwrap();
        assert_eq!(journal.changes().len(), 1);
        assert_eq!(journal.close().unwrap(), []);
    }

    #[test]
    fn a_journal_chooses_no_other_folder() {
        let (_folder, root) = machine();
        let (group, former) = limited(&root);
        let change = change(&group, &former);
        assert!(is_group(&change));
        for (path, was) in [
            ("/sys/fs/cgroup/other-7", &change.was),
            ("/sys/fs/cgroup/interleaf-extend-x", &change.was),
            (&change.path, &"no group: its processes are from /../etc".to_string()),
            (&change.path, &"no group: its processes are from shell".to_string()),
        ] {
            assert!(!is_group(&Change { path: path.into(), was: was.clone(), ..change.clone() }));
        }
        let elsewhere = Change { path: format!("/etc/{PREFIX}7"), ..change };
        assert!(!remove(&root, &elsewhere).unwrap());
    }
}
