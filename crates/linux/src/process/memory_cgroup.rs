//! A temporary control group that limits the memory of some processes, including their page cache.

use crate::{
    process::{
        cgroup::{Group, Tree, Trees},
        has_owner_ended, owner_suffix,
    },
    root::{Root, RootError},
};
use interleaf_procfs::cgroup::PROCESSES_FILE;
use rustix::process::{Pid, Signal, kill_process};
use std::{thread, time::Duration};

/// The prefix of the names of Interleaf's groups. The [`owner_suffix`] of the process that created
/// the group follows.
const PREFIX: &str = "interleaf-bench-";

/// A group cannot be removed while its last process is just exiting. `TRIES` is the maximum number
/// of attempts, and `PAUSE` the time between two attempts: two seconds in total.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// A control group with a memory limit. Drop kills the group's processes and removes the group.
#[derive(Debug)]
pub struct MemoryCgroup<'a> {
    root: &'a Root,
    group: Group,
}

/// The reason why a control group cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum MemoryCgroupError {
    /// The machine has no control groups with the memory controller, or the controller is not
    /// enabled for new groups.
    #[error("no control group counts memory here: {0}")]
    Missing(&'static str),
    #[error(transparent)]
    Root(#[from] RootError),
}

impl<'a> MemoryCgroup<'a> {
    /// Creates a group that may use at most `limit` bytes of memory. With `None`, the group only
    /// measures its memory. Groups whose creators have ended are removed first.
    ///
    /// # Errors
    /// When the machine has no groups with a memory limit, or this user may not create a group.
    pub fn new(root: &'a Root, limit: Option<u64>) -> Result<Self, MemoryCgroupError> {
        let tree = Trees::read(root)?.and_then(|trees| trees.memory);
        let tree =
            tree.ok_or(MemoryCgroupError::Missing("no cgroup with the controller `memory`"))?;
        remove_leftovers_of(root, &tree)?;
        let own = owner_suffix(root, std::process::id())?;
        let group = tree.group(&format!("{PREFIX}{own}"));
        root.make_folder(&group.folder())?;
        let this = Self { root, group };
        let path = format!("{}/{}", this.group.folder(), tree.version.limit_file());
        if !root.has(&path) {
            return Err(MemoryCgroupError::Missing(
                "new groups have no `memory.max`: write +memory to cgroup.subtree_control",
            ));
        }
        if let Some(limit) = limit {
            root.write(&path, &limit.to_string())?;
        }
        Ok(this)
    }

    /// Returns the path of the file to which a process writes its ID in order to enter the group.
    pub fn procs_path(&self) -> String {
        format!("{}/{PROCESSES_FILE}", self.group.folder())
    }

    /// Returns the peak memory of the group, bytes; `None` if the kernel does not record it.
    pub fn used_max(&self) -> Option<u64> {
        let name = self.group.tree.version.peak_file();
        self.root.number(&format!("{}/{name}", self.group.folder())).ok().flatten()
    }

    /// True if the OOM killer has ended a process of the group.
    pub fn has_oom_killed(&self) -> bool {
        self.group.has_oom_killed(self.root)
    }

    /// True while a process is in the group.
    pub fn is_in_use(&self) -> bool {
        self.group.processes(self.root).is_ok_and(|processes| !processes.is_empty())
    }

    /// Kills all processes in the group.
    pub fn kill_all(&self) {
        for pid in self.group.processes(self.root).unwrap_or_default() {
            if let Some(pid) = Pid::from_raw(pid as i32) {
                // The call fails if the process has just ended.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Removes the groups whose creators have ended, and kills the processes in them.
///
/// # Errors
/// When the groups cannot be listed.
pub(crate) fn remove_leftovers(root: &Root) -> Result<(), RootError> {
    match Trees::read(root)?.and_then(|trees| trees.memory) {
        Some(tree) => remove_leftovers_of(root, &tree),
        None => Ok(()),
    }
}

fn remove_leftovers_of(root: &Root, tree: &Tree) -> Result<(), RootError> {
    for name in root.peek_names(&tree.group("/").folder())? {
        let Some(creator) = name.strip_prefix(PREFIX) else { continue };
        if has_owner_ended(root, creator)? {
            drop(MemoryCgroup { root, group: tree.group(&name) });
        }
    }
    Ok(())
}

impl Drop for MemoryCgroup<'_> {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            self.kill_all();
            // A group can be removed only when its last process has exited, which takes a moment.
            if self.root.remove_folder(&self.group.folder()).is_ok() {
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}
