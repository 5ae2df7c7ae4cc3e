//! The memory that the calling process can still allocate: on the machine or on some nodes, and
//! within the limits of its control groups. Every large allocation of Interleaf is checked against
//! this amount.

use crate::{
    machine::{
        id_list::IdList,
        node::{self, size},
    },
    process::cgroup::{self, Headroom},
    root::{Root, RootError},
};

/// The memory that is available to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    pub bytes: u64,
    /// The limit of a control group, if the group has less unused memory below its limit than the
    /// machine or the nodes have available.
    pub limit: Option<Headroom>,
}

/// The number of sixteenths of the available memory that this process may request. The last
/// sixteenth is left for other programs.
const SIXTEENTHS: u64 = 15;

impl Available {
    /// Returns the size of the largest allocation that this process may request, bytes.
    pub fn usable_bytes(&self) -> u64 {
        self.bytes / 16 * SIXTEENTHS
    }
}

/// Returns the memory that is available on the machine or, if `nodes` is given, on these nodes:
/// free memory and reclaimable page cache, within the limits of the process's control groups.
/// Returns `None` if the kernel reports no figure.
///
/// # Errors
/// When an existing file cannot be read or parsed.
pub fn available(root: &Root, nodes: Option<&IdList>) -> Result<Option<Available>, RootError> {
    let meminfo = root.text("/proc/meminfo")?.unwrap_or_default();
    let of_machine = size(&meminfo, "MemAvailable");
    let of_nodes = match nodes {
        None => None,
        Some(nodes) => {
            let each = nodes.iter().map(|id| of_node(root, id));
            each.sum::<Result<Option<u64>, RootError>>()?
        }
    };
    let available = [of_machine, of_nodes].into_iter().flatten().min();
    let limit = cgroup::headroom(root)?;
    let limit = limit.filter(|limit| available.is_none_or(|available| limit.bytes() < available));
    let bytes = limit.as_ref().map(Headroom::bytes).or(available);
    Ok(bytes.map(|bytes| Available { bytes, limit }))
}

/// Returns the free swap, bytes; 0 without swap.
///
/// # Errors
/// When an existing file cannot be read.
pub fn swap(root: &Root) -> Result<u64, RootError> {
    let meminfo = root.text("/proc/meminfo")?.unwrap_or_default();
    Ok(size(&meminfo, "SwapFree").unwrap_or(0))
}

/// Returns the memory of a node that is available to a program, bytes: free memory, and half of the
/// page cache, because the kernel evicts page cache for the program. `None` if the node does not
/// exist.
///
/// # Errors
/// When `meminfo` cannot be read.
pub fn of_node(root: &Root, id: u32) -> Result<Option<u64>, RootError> {
    let meminfo = root.text(&format!("{}/node{id}/meminfo", node::NODES))?.unwrap_or_default();
    let Some(free) = size(&meminfo, "MemFree") else { return Ok(None) };
    let files: u64 =
        ["Active(file)", "Inactive(file)"].iter().filter_map(|key| size(&meminfo, key)).sum();
    // Only half of the page cache counts, because not all of it can be reclaimed. The kernel's own
    // estimate subtracts half at most (`si_mem_available` in mm/show_mem.c).
    Ok(Some(free + files / 2))
}
