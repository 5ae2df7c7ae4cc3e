//! A scope, which is the processes whose pages are steered, and the placement of these pages.

use crate::{
    machine::node::{self, NODES},
    process::{
        Process, Snapshot,
        cgroup::Group,
        numa_maps::{self, NodeBytes},
        placement_sample,
    },
    root::{Root, RootError},
    stop_flag::StopFlag,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// The minimum memory of a process that DAMON monitors (the actuator `vaddr`), bytes. Monitoring a
/// smaller process would cost more time than steering could save. A smaller process joins once it
/// has grown to this size.
pub const JOINS_BYTES: u64 = 1 << 20;

/// Process 1, the ancestor of all other processes except the kernel's threads.
const INIT: u32 = 1;

/// The minimum resident memory, bytes, of a process whose placement is estimated from a sample of
/// its pages. For a smaller process it is cheaper to read `numa_maps`, although the kernel then
/// walks all pages of the process.
const LARGE_BYTES: u64 = 1 << 30;

/// The processes whose pages are steered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The scope is all processes of the machine.
    Machine,
    /// The scope is the processes of a control group and of its descendants.
    Cgroup(Group),
    /// The scope is these processes and their descendants.
    Processes(Vec<u32>),
    /// The scope is all processes with one of these names and their descendants, including
    /// processes that start later.
    Named(Vec<String>),
}

impl Scope {
    /// Finds the processes of the scope, without zombies. Listed processes are in the order of the
    /// list, each followed by its descendants; the processes of a control group are in the kernel's
    /// order. In other scopes parents come before children. A descendant of a listed or named
    /// process is not found any more once its parent has ended. A control group, in contrast, keeps
    /// such a process.
    ///
    /// # Errors
    /// When `/proc` or the group's files cannot be read.
    pub fn processes(&self, root: &Root) -> Result<Vec<Process>, RootError> {
        self.processes_of(&Snapshot::new(root, &StopFlag::default()))
    }

    /// Finds the processes of the scope in `snapshot`. Several scopes can share a snapshot, so that
    /// `/proc` is read only once.
    ///
    /// # Errors
    /// The errors of [`Self::processes`].
    pub fn processes_of(&self, snapshot: &Snapshot<'_>) -> Result<Vec<Process>, RootError> {
        let root = snapshot.root();
        let mut found: Vec<Process> = vec![];
        match self {
            Self::Machine => found = snapshot.table()?.tree(INIT),
            Self::Processes(pids) => {
                for pid in pids {
                    found.extend(snapshot.table()?.tree(*pid));
                }
            }
            Self::Named(names) => {
                found = snapshot.table()?.within(INIT, |process| names.contains(&process.name));
            }
            Self::Cgroup(group) => {
                let mut groups = vec![group.clone()];
                groups.extend(group.descendants(root)?);
                for group in groups {
                    for pid in group.processes(root)? {
                        found.extend(snapshot.process(pid)?);
                    }
                }
            }
        }
        let mut seen = BTreeSet::new();
        found.retain(|process| !process.is_zombie && seen.insert(process.pid));
        Ok(found)
    }

    /// Finds the processes of the scope in `snapshot` that are in none of the `protected` scopes.
    ///
    /// # Errors
    /// The errors of [`Self::processes`].
    pub fn processes_without(
        &self,
        protected: &[Self],
        snapshot: &Snapshot<'_>,
    ) -> Result<Vec<Process>, RootError> {
        let mut found = self.processes_of(snapshot)?;
        let mut excluded = BTreeSet::new();
        for scope in protected {
            excluded.extend(scope.processes_of(snapshot)?.iter().map(|process| process.pid));
        }
        found.retain(|process| !excluded.contains(&process.pid));
        Ok(found)
    }

    /// Returns the anonymous memory of the scope by node; `None` if the kernel does not count
    /// memory by node. `processes` are the processes of the scope, which only the scopes
    /// [`Self::Processes`] and [`Self::Named`] need.
    ///
    /// The kernel has counters for a control group and for the machine, but none for a process: it
    /// walks all pages of the process, which takes about 10 ms per GiB. Therefore large processes
    /// are sampled. No further process is read once `stop` is set.
    ///
    /// # Errors
    /// When a file cannot be read. A process that ends during the call is left out.
    pub fn placement(
        &self,
        root: &Root,
        processes: &[Process],
        stop: &StopFlag,
    ) -> Result<Option<NodeBytes>, RootError> {
        match self {
            Self::Machine => machine(root).map(Some),
            Self::Cgroup(group) => of_group(root, group),
            Self::Processes(_) | Self::Named(_) => {
                let mut sum = None;
                for process in processes.iter().take_while(|_| !stop.is_set()) {
                    let on = match of_process(root, process.pid, processes.len()) {
                        // This user may not read the memory of the process. Skip it.
                        Err(why) if why.is_permission() => None,
                        on => on?,
                    };
                    if let Some(on) = on {
                        sum.get_or_insert_with(NodeBytes::default).add(&on);
                    }
                }
                Ok(sum)
            }
        }
    }

    /// Does the same as [`Self::placement`], but without the memory of `protected` control groups.
    /// `processes` are the processes that [`Self::processes_without`] returns.
    ///
    /// # Errors
    /// The errors of [`Self::placement`].
    pub fn placement_without(
        &self,
        protected: &[Self],
        root: &Root,
        processes: &[Process],
        stop: &StopFlag,
    ) -> Result<Option<NodeBytes>, RootError> {
        let Some(mut on) = self.placement(root, processes, stop)? else { return Ok(None) };
        for group in self.counted_groups(protected) {
            let excluded = of_group(root, group)?.unwrap_or_default();
            for (node, bytes) in &mut on.0 {
                *bytes = bytes.saturating_sub(excluded.on(*node));
            }
        }
        Ok(Some(on))
    }

    /// Returns the groups among `protected` whose memory the kernel counts as memory of the scope.
    /// The memory of a group includes that of its descendants. Therefore, if a group and its
    /// descendants are protected, only the group is returned.
    fn counted_groups<'p>(&self, protected: &'p [Self]) -> Vec<&'p Group> {
        let mut groups: Vec<&Group> = vec![];
        for scope in protected {
            let Self::Cgroup(group) = scope else { continue };
            let is_counted = match self {
                Self::Machine => true,
                Self::Cgroup(own) => group.is_within(own),
                Self::Processes(_) | Self::Named(_) => false,
            };
            if is_counted && !groups.iter().any(|outer| group.is_within(outer)) {
                groups.retain(|inner| !inner.is_within(group));
                groups.push(group);
            }
        }
        groups
    }

    /// True when a sample must read each process of the scope; false if the kernel has counters.
    pub fn is_slow_to_sample(&self) -> bool {
        matches!(self, Self::Processes(_) | Self::Named(_))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => f.write_str("the machine"),
            Self::Cgroup(group) => write!(f, "{} and the groups below it", group.name),
            Self::Processes(pids) => {
                let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
                write!(f, "{} and what they start", pids.join(", "))
            }
            Self::Named(names) => write!(f, "{} and what they start", names.join(", ")),
        }
    }
}

/// Returns the anonymous memory of a group and its descendants by node; `None` if the kernel does
/// not count it by node.
fn of_group(root: &Root, group: &Group) -> Result<Option<NodeBytes>, RootError> {
    let on = group.on_nodes(root)?;
    Ok(on.map(|on| NodeBytes(on.iter().map(|on| (on.node, on.anon_bytes)).collect())))
}

/// Returns the anonymous memory of a process by node. A large process is sampled: the more
/// `processes` the scope has, the fewer pages of each process are in the sample.
fn of_process(root: &Root, pid: u32, processes: usize) -> Result<Option<NodeBytes>, RootError> {
    if root.is_live() && resident_bytes(root, pid)? >= LARGE_BYTES {
        let sampled = placement_sample::anonymous(root, pid, processes)?;
        if sampled.is_some() {
            return Ok(sampled);
        }
    }
    let mappings = numa_maps::mappings(root, pid)?;
    Ok(mappings.map(|mappings| numa_maps::anonymous(&mappings)))
}

/// Returns the resident memory of a process, bytes, which is the second number of `statm`.
///
/// # Errors
/// When the file exists and cannot be read.
pub fn resident_bytes(root: &Root, pid: u32) -> Result<u64, RootError> {
    let text = root.peek(&format!("/proc/{pid}/statm"))?.unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    Ok(pages.unwrap_or(0).saturating_mul(rustix::param::page_size() as u64))
}

/// Returns the anonymous memory of the machine by node.
fn machine(root: &Root) -> Result<NodeBytes, RootError> {
    let mut on = BTreeMap::new();
    for node in node::online(root)?.iter() {
        let text = root.peek(&format!("{NODES}/node{node}/meminfo"))?.unwrap_or_default();
        if let Some(bytes) = node::size(&text, "AnonPages") {
            on.insert(node, bytes);
        }
    }
    Ok(NodeBytes(on))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::cgroup::{Tree, Version};

    fn group(name: &str) -> Scope {
        let mount = "/sys/fs/cgroup".into();
        let tree = Tree { version: Version::Two, controller: "memory", mount, top: "/".into() };
        Scope::Cgroup(Group { tree, name: name.into() })
    }

    #[test]
    fn the_memory_of_a_protected_group_counts_once_and_only_within_the_scope() {
        let protected = ["/a/b", "/other", "/a/b/c", "/ab", "/a"].map(group);
        let counted = |scope: Scope| -> Vec<String> {
            scope.counted_groups(&protected).iter().map(|group| group.name.clone()).collect()
        };
        assert_eq!(counted(Scope::Machine), ["/other", "/ab", "/a"]);
        assert_eq!(counted(group("/")), ["/other", "/ab", "/a"]);
        assert_eq!(counted(group("/a")), ["/a"]);
        assert_eq!(counted(group("/a/b")), ["/a/b"]);
        assert_eq!(counted(group("/b")), [""; 0]);
        assert_eq!(counted(Scope::Named(vec!["x".into()])), [""; 0]);
    }
}
