//! What became of moving pages.

use crate::{machine::id_list::IdList, process::numa_maps::NodeBytes, root::RootError};
use std::{collections::BTreeMap, fmt, io};

/// What became of moving the pages of some processes.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The processes whose memory could be looked at, parents before children.
    pub processes: Vec<Moved>,
    /// Children whose memory could not.
    pub refused: Vec<Refusal>,
    /// Whether whoever watched wanted it to stop before it was done.
    pub stopped: bool,
    /// How often all memory was looked at, from 1. The last time is what `after` is from.
    pub passes: u32,
}

/// What became of the pages of a process. Counted is what may be moved: no files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its number.
    pub pid: u32,
    /// Its name, of at most 15 bytes.
    pub name: String,
    /// Where its pages were when each was first looked at; new ones come while it runs.
    pub before: NodeBytes,
    /// Where they were when last looked at, which is after the last move. It is this that says how
    /// it went: the kernel may have moved pages back meanwhile, or reported what did not happen.
    pub after: NodeBytes,
    /// What was moved, bytes; a page that was moved twice counts twice.
    pub moved_bytes: u64,
    /// What would have to be moved, but could not: bytes by reason.
    pub left: BTreeMap<Reason, u64>,
    /// Whether it has ended meanwhile. Where its pages were last seen says nothing then.
    pub ended: bool,
}

impl Outcome {
    /// Where the pages were first, of all processes that did not end.
    pub fn before(&self) -> NodeBytes {
        self.alive().map(|process| &process.before).collect()
    }

    /// Where they were last.
    pub fn after(&self) -> NodeBytes {
        self.alive().map(|process| &process.after).collect()
    }

    /// What was moved, bytes, of all processes.
    pub fn moved_bytes(&self) -> u64 {
        self.processes.iter().map(|process| process.moved_bytes).sum()
    }

    /// What would have to be moved, but could not: bytes by reason.
    pub fn left(&self) -> BTreeMap<Reason, u64> {
        let mut sum = BTreeMap::new();
        for (reason, bytes) in self.alive().flat_map(|process| &process.left) {
            *sum.entry(*reason).or_default() += bytes;
        }
        sum
    }

    fn alive(&self) -> impl Iterator<Item = &Moved> {
        self.processes.iter().filter(|process| !process.ended)
    }
}

/// Why pages could not be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// In use at each attempt (`EBUSY`).
    Busy,
    /// Mapped by another process too (`EACCES`).
    Shared,
    /// Part of a large page that is mapped in part only, and goes with the rest of it.
    Joined,
    /// This node, where they should go, has no room (`ENOMEM`).
    Full(u32),
    /// The kernel said that they were moved, but they were not there a moment later.
    Returned,
    /// Something else: the number of the system's error.
    Other(i32),
}

impl Reason {
    /// What can be done about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Busy => {
                "try again later; memory that a device works on (RDMA, GPU, VFIO) never moves, \
                 and has to be placed when the program starts"
            }
            Self::Shared => {
                "shared memory has to be placed when it is made: start all its programs under a \
                 policy of interleaving"
            }
            Self::Joined => "nothing need be done: it is a few pages at the ends of mappings",
            Self::Full(_) => {
                "free memory there, or choose weights that leave more of the pages elsewhere; of \
                 huge pages (hugetlbfs) the node's own pool has to have free ones"
            }
            Self::Returned => "see whether the kernel balances NUMA nodes: interleaf doctor",
            Self::Other(_) => "look into the kernel's log",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("in use by I/O, or pinned"),
            Self::Shared => f.write_str("shared with another process"),
            Self::Joined => f.write_str("part of a larger page"),
            Self::Full(node) => write!(f, "node {node} is full"),
            Self::Returned => f.write_str("moved back at once"),
            Self::Other(errno) => write!(f, "{}", io::Error::from_raw_os_error(*errno)),
        }
    }
}

/// A process whose memory could not be looked at or moved at all.
#[derive(Debug, thiserror::Error)]
#[error("process {pid} ({name}): {why}")]
pub struct Refusal {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Why.
    pub why: Why,
}

/// Why the memory of a process cannot be looked at or moved.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// Another user's, or a container that does not allow it (`EPERM`).
    #[error("its memory is not ours to move")]
    Permission,
    /// Its cpuset does not have all nodes that pages should go to.
    #[error("it may not have memory on node {missing}: its cpuset has {allowed}")]
    Cpuset {
        /// Nodes of the target that it may not use.
        missing: IdList,
        /// Those that it may.
        allowed: IdList,
    },
    /// A file of the kernel cannot be read.
    #[error(transparent)]
    Read(RootError),
    /// `move_pages` failed otherwise.
    #[error("its pages cannot be moved: {0}")]
    System(io::Error),
}

impl Why {
    /// What can be done about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Permission => {
                "run as root, or with CAP_SYS_NICE and CAP_SYS_PTRACE; a container may have to \
                 be allowed the system call move_pages"
            }
            Self::Cpuset { .. } => {
                "name other nodes, or add these to the cpuset.mems of its cgroup"
            }
            Self::Read(_) => "see whether /proc is mounted and whole",
            Self::System(_) => "see what interleaf doctor says of this kernel",
        }
    }
}

/// Why nothing was moved.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The target is not one of this machine.
    #[error(transparent)]
    Target(#[from] super::plan::TargetError),
    /// The kernel does not say where pages are.
    #[error("there is no /proc/self/numa_maps: this kernel has no NUMA")]
    Numa,
    /// There is no such process.
    #[error("there is no process {0}")]
    Absent(u32),
    /// A process that was named cannot be moved.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What the machine says of itself cannot be read.
    #[error(transparent)]
    Read(#[from] RootError),
}
