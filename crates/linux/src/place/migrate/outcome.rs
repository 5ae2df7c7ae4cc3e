//! The result of a migration: the bytes on each node before and after it, and the bytes that could
//! not be migrated, with the reasons.

use crate::{machine::id_list::IdList, process::numa_maps::NodeBytes, root::RootError};
use std::{collections::BTreeMap, fmt, io};

/// The result of a migration of several processes.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The processes whose memory could be read, parents before children.
    pub processes: Vec<ProcessOutcome>,
    /// The processes whose memory could not be read or migrated: descendants of the processes that
    /// the caller named or, after [`alone`](super::Migrator::alone), the named processes
    /// themselves.
    pub refused: Vec<Refusal>,
    /// True when the caller stopped the migration early.
    pub stopped: bool,
    /// Number of passes over all memory, at least 1. [`ProcessOutcome::after`] is from the last
    /// pass.
    pub passes: u32,
}

/// The result for one process. Counts only memory that can migrate, so no pages of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessOutcome {
    pub pid: u32,
    /// The process's command name, at most 15 bytes.
    pub name: String,
    /// The placement in the first pass over the process: each page counts on the node where it was
    /// located first. `after` can have more, because the process may allocate meanwhile.
    pub before: NodeBytes,
    /// The placement when pages were located last, after the last move. It shows the success of the
    /// migration, which `moved_bytes` does not: the kernel may have migrated pages back since, or
    /// reported moves that did not happen.
    pub after: NodeBytes,
    /// Bytes migrated; a page that was migrated twice counts twice.
    pub moved_bytes: u64,
    /// Bytes that were on the wrong node and could not be migrated, for each reason.
    pub left: BTreeMap<Reason, u64>,
    /// True if the process ended during the migration: `after` is then meaningless.
    pub ended: bool,
}

impl Outcome {
    /// Returns the placement before the migration, summed over the processes that did not end.
    pub fn before(&self) -> NodeBytes {
        self.alive().map(|process| &process.before).collect()
    }

    /// Returns the placement after the migration, summed over the processes that did not end.
    pub fn after(&self) -> NodeBytes {
        self.alive().map(|process| &process.after).collect()
    }

    /// Returns the bytes migrated, summed over all processes.
    pub fn moved_bytes(&self) -> u64 {
        self.processes.iter().map(|process| process.moved_bytes).sum()
    }

    /// Returns the bytes that were on the wrong node and could not be migrated, for each reason,
    /// summed over the processes that did not end.
    pub fn left(&self) -> BTreeMap<Reason, u64> {
        let mut sum = BTreeMap::new();
        for (reason, bytes) in self.alive().flat_map(|process| &process.left) {
            *sum.entry(*reason).or_default() += bytes;
        }
        sum
    }

    fn alive(&self) -> impl Iterator<Item = &ProcessOutcome> {
        self.processes.iter().filter(|process| !process.ended)
    }
}

/// The reason why pages could not be migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The page was in use at each attempt (`EBUSY`).
    Busy,
    /// Another process maps the page too (`EACCES`).
    Shared,
    /// This process maps only a part of the page's folio. Moving one page of the folio moves its
    /// other pages too, so no page of the folio is moved.
    Joined,
    /// The target node is full (`ENOMEM`).
    Full(u32),
    /// The kernel reported a move, but afterwards the page was found on its former node.
    Returned,
    /// `move_pages` failed for the page with another error number, the field.
    Other(i32),
}

impl Reason {
    /// Returns advice to the user.
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
            Self::Other(_) => "see the kernel's log",
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

/// A process whose memory could not be read or migrated at all.
#[derive(Debug, thiserror::Error)]
#[error("process {pid} ({name}): {why}")]
pub struct Refusal {
    pub pid: u32,
    pub name: String,
    pub why: RefusalReason,
}

/// The reason why the memory of a process cannot be read or migrated.
#[derive(Debug, thiserror::Error)]
pub enum RefusalReason {
    /// The process belongs to another user, or a container forbids `move_pages` (`EPERM`).
    #[error("its memory is not ours to move")]
    Permission,
    /// The cpuset of the process lacks nodes of the target.
    #[error("it may not have memory on node {missing}: its cpuset has {allowed}")]
    Cpuset {
        /// The nodes of the target that the process may not use.
        missing: IdList,
        /// The nodes that the process may use.
        allowed: IdList,
    },
    #[error(transparent)]
    Read(RootError),
    /// `move_pages` failed for another reason.
    #[error("its pages cannot be moved: {0}")]
    System(io::Error),
}

impl RefusalReason {
    /// Returns advice to the user.
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
            Self::System(_) => "interleaf doctor lists the features of this kernel",
        }
    }
}

/// The reason why nothing was migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The target does not fit this machine.
    #[error(transparent)]
    Target(#[from] super::plan::TargetError),
    #[error("there is no /proc/self/numa_maps: this kernel has no NUMA")]
    Numa,
    #[error("there is no process {0}")]
    Absent(u32),
    /// A process that the caller named cannot be migrated.
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Read(#[from] RootError),
}
