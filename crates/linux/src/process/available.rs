//! How much memory the calling process can still have: of the machine or of some nodes, and within
//! the limits of its control groups. Everything that asks for much memory asks here first.

use crate::{
    machine::{
        id_list::IdList,
        node::{self, size},
    },
    process::cgroup::{self, Headroom},
    root::{Root, RootError},
};

/// Memory that can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// How much, bytes.
    pub bytes: u64,
    /// The limit of a control group, where that allows less than there is.
    pub limit: Option<Headroom>,
}

/// The part of what is available that may be asked for, in sixteenths: the rest is for what else
/// needs memory meanwhile.
const SIXTEENTHS: u64 = 15;

impl Available {
    /// The most that a request may take, bytes.
    pub fn usable_bytes(&self) -> u64 {
        self.bytes / 16 * SIXTEENTHS
    }
}

/// The memory that this process can have of the machine, or of some nodes: what is free, and what
/// the kernel reclaims of files, within the limits of the process's control groups. `None` where
/// the machine does not tell.
///
/// # Errors
/// When a file that is there cannot be read or holds nonsense.
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
    let there = [of_machine, of_nodes].into_iter().flatten().min();
    let limit = cgroup::headroom(root)?;
    let limit = limit.filter(|limit| there.is_none_or(|there| limit.bytes() < there));
    let bytes = limit.as_ref().map(Headroom::bytes).or(there);
    Ok(bytes.map(|bytes| Available { bytes, limit }))
}

/// Swap space that is free, bytes; 0 where there is none.
///
/// # Errors
/// When a file that is there cannot be read.
pub fn swap(root: &Root) -> Result<u64, RootError> {
    let meminfo = root.text("/proc/meminfo")?.unwrap_or_default();
    Ok(size(&meminfo, "SwapFree").unwrap_or(0))
}

fn of_node(root: &Root, id: u32) -> Result<Option<u64>, RootError> {
    let meminfo = root.text(&format!("{}/node{id}/meminfo", node::NODES))?.unwrap_or_default();
    let Some(free) = size(&meminfo, "MemFree") else { return Ok(None) };
    let files: u64 =
        ["Active(file)", "Inactive(file)"].iter().filter_map(|key| size(&meminfo, key)).sum();
    // As the kernel reckons it: not all files can go (`si_mem_available` in mm/show_mem.c).
    Ok(Some(free + files / 2))
}
