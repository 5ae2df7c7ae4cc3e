//! A control group whose processes have so much memory together, files in memory counted, and
//! which is gone when they are.

use crate::{
    process::{
        cgroup::{Group, Tree, Trees},
        process,
    },
    root::{Root, RootError},
};
use interleaf_procfs::cgroup::PROCESSES_FILE;
use rustix::process::{Pid, Signal, kill_process};
use std::{thread, time::Duration};

/// What the names of our groups begin with; the process that made it is behind that.
const PREFIX: &str = "interleaf-bench-";

/// How often, and how long, a group is waited for that its last process has just left.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// A group with a limit. It is removed when this goes, and so are its processes.
#[derive(Debug)]
pub struct MemoryCgroup<'a> {
    root: &'a Root,
    group: Group,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum MemoryCgroupError {
    /// Groups cannot limit memory here.
    #[error("no control group counts memory here: {0}")]
    Missing(&'static str),
    /// The kernel refuses.
    #[error(transparent)]
    Root(#[from] RootError),
}

impl<'a> MemoryCgroup<'a> {
    /// A group that has at most so many bytes of memory; as much as there is without a limit. What
    /// a process that is gone has left is removed first.
    ///
    /// # Errors
    /// When no such groups are to be had, or this user may not make one.
    pub fn new(root: &'a Root, limit: Option<u64>) -> Result<Self, MemoryCgroupError> {
        let tree = Trees::read(root)?.and_then(|trees| trees.memory);
        let tree =
            tree.ok_or(MemoryCgroupError::Missing("no cgroup with the controller `memory`"))?;
        remove_leftovers_of(root, &tree)?;
        let group = tree.group(&format!("{PREFIX}{}", std::process::id()));
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

    /// The file into which a process writes its number to be in the group.
    pub fn entrance(&self) -> String {
        format!("{}/{PROCESSES_FILE}", self.group.folder())
    }

    /// The most memory it ever had; `None` where the kernel does not say.
    pub fn used_max(&self) -> Option<u64> {
        let name = self.group.tree.version.peak_file();
        self.root.number(&format!("{}/{name}", self.group.folder())).ok().flatten()
    }

    /// Whether anything runs in it.
    pub fn is_in_use(&self) -> bool {
        self.group.processes(self.root).is_ok_and(|processes| !processes.is_empty())
    }

    /// Ends all that runs in it.
    pub fn end_all(&self) {
        for pid in self.group.processes(self.root).unwrap_or_default() {
            if let Some(pid) = Pid::from_raw(pid as i32) {
                // It fails when the process has just ended.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Removes the groups of processes that are gone, and ends what runs in them.
///
/// # Errors
/// When the groups cannot be read.
pub(crate) fn remove_leftovers(root: &Root) -> Result<(), RootError> {
    match Trees::read(root)?.and_then(|trees| trees.memory) {
        Some(tree) => remove_leftovers_of(root, &tree),
        None => Ok(()),
    }
}

fn remove_leftovers_of(root: &Root, tree: &Tree) -> Result<(), RootError> {
    for name in root.peek_names(&tree.group("/").folder())? {
        let Some(pid) = name.strip_prefix(PREFIX).and_then(|it| it.parse().ok()) else { continue };
        if process(root, pid)?.is_none() {
            drop(MemoryCgroup { root, group: tree.group(&name) });
        }
    }
    Ok(())
}

impl Drop for MemoryCgroup<'_> {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            self.end_all();
            // A group can be removed when nothing runs in it; that takes a moment.
            if self.root.remove_folder(&self.group.folder()).is_ok() {
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}
