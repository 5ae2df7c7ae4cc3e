//! A control group that limits the memory of a command, including its page cache.
//!
//! The journal records the group before the group is created, and the old setting of the memory
//! controller before the controller is enabled. Closing the journal moves the processes of the
//! group back to their former group and removes the group. If this process is killed, the next
//! process that opens a journal removes the group in the same way, as does `interleaf run
//! --restore`. The group of [`crate::process::memory_cgroup`] differs: its processes are killed
//! before it is removed.

use crate::{
    place::journal::{Journal, JournalError, controller::ENABLED, limited_group::PREFIX},
    process::cgroup::{Group, Trees, Version},
    root::{Root, RootError},
};
use interleaf_procfs::cgroup::{PROCESSES_FILE, SUBTREE_CONTROL_FILE};
use std::path::PathBuf;

/// A control group with a memory limit. Closing the journal that records the group removes it.
#[derive(Debug)]
pub struct LimitedGroup<'a> {
    root: &'a Root,
    group: Group,
    /// The group that this process was in before `group` was created.
    former: Group,
}

/// The reason why a control group was not created.
#[derive(Debug, thiserror::Error)]
pub enum LimitedGroupError {
    /// The machine has no control groups with the memory controller.
    #[error("no cgroup with the controller `memory`")]
    Missing,
    /// The journal cannot be written. No group is created: if SIGKILL ended this process, nothing
    /// would remove the group.
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Root(#[from] RootError),
}

impl<'a> LimitedGroup<'a> {
    /// Creates a group whose processes may have at most `limit` bytes of memory in total.
    ///
    /// # Errors
    /// When the machine has no groups with a memory limit, or this user may not create a group.
    /// Closing the journal then undoes the changes that were made.
    pub fn new(
        root: &'a Root,
        journal: &mut Journal<'_>,
        limit: u64,
    ) -> Result<Self, LimitedGroupError> {
        let tree = Trees::read(root)?.and_then(|trees| trees.memory);
        let tree = tree.ok_or(LimitedGroupError::Missing)?;
        if tree.version == Version::Two {
            journal.set(&format!("{}/{SUBTREE_CONTROL_FILE}", tree.mount), ENABLED)?;
        }
        let former = tree.group_of(root, None)?.unwrap_or_else(|| tree.group("/"));
        let group = tree.group(&format!("{PREFIX}{}", std::process::id()));
        journal.note_group(&group, &former)?;
        root.make_folder(&group.folder())?;
        let file = format!("{}/{}", group.folder(), tree.version.limit_file());
        root.write(&file, &limit.to_string())?;
        Ok(Self { root, group, former })
    }

    /// Returns the path of the file that lists the processes of the group.
    pub fn processes_file(&self) -> PathBuf {
        self.root.at(&procs(&self.group))
    }

    /// True if the OOM killer has ended a process of the group.
    pub fn has_oom_killed(&self) -> bool {
        self.group.has_oom_killed(self.root)
    }

    /// Calls `start` while this process is in the group, so that the processes that it starts are
    /// in the group too. Then this process leaves the group, and the started processes stay in it.
    ///
    /// # Errors
    /// When this process cannot enter or leave the group.
    pub fn run_inside<T>(&self, start: impl FnOnce() -> T) -> Result<T, RootError> {
        let own = std::process::id().to_string();
        self.root.write(&procs(&self.group), &own)?;
        let started = start();
        self.root.write(&procs(&self.former), &own)?;
        Ok(started)
    }
}

fn procs(group: &Group) -> String {
    format!("{}/{PROCESSES_FILE}", group.folder())
}
