//! Checks, before memory is mapped, that the nodes have enough free memory or huge pages.

use crate::pages::{HUGE_BYTES, Pages};
use interleaf_linux::{
    machine::{id_list::IdList, node},
    place::mempolicy::Policy,
    process::{available::available, cgroup::Headroom},
    root::{Root, RootError},
};

/// The reason why requested memory is refused: the machine, its nodes or a control group have too
/// little free memory, or the kernel's files about free memory cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AvailabilityError {
    /// Less memory is available than requested.
    #[error(
        "{} MiB of memory are asked for, and {} MiB can be had of {}",
        needed >> 20, available >> 20, limited(limit, nodes)
    )]
    Memory {
        /// Memory that is requested, bytes.
        needed: u64,
        /// Memory that is available, bytes.
        available: u64,
        /// The nodes of the request; `None` if the request may use all nodes.
        nodes: Option<IdList>,
        /// The limit of the control group, if this limit is the reason for the refusal; `None` if
        /// the nodes have too little memory.
        limit: Option<Box<Headroom>>,
    },
    /// Too few huge pages are reserved.
    #[error(
        "{needed} huge pages of 2 MiB are asked for, and {available} are reserved and free on {}",
        of(nodes)
    )]
    Reserved {
        /// Huge pages that are requested.
        needed: u64,
        /// Reserved huge pages that are free.
        available: u64,
        /// The nodes of the request; `None` if the request may use all nodes.
        nodes: Option<IdList>,
    },
    /// Files of `/proc` or `/sys` cannot be read.
    #[error(transparent)]
    Root(#[from] RootError),
}

fn of(nodes: &Option<IdList>) -> String {
    match nodes {
        None => "the machine".into(),
        Some(nodes) => format!("nodes {nodes}"),
    }
}

fn limited(limit: &Option<Box<Headroom>>, nodes: &Option<IdList>) -> String {
    match limit {
        None => of(nodes),
        Some(limit) => format!(
            "the control group {} (limit {} MiB, in use {} MiB)",
            limit.group.name,
            limit.limit_bytes >> 20,
            limit.used_bytes >> 20
        ),
    }
}

impl AvailabilityError {
    pub fn hint(&self) -> String {
        match self {
            Self::Memory { limit: Some(limit), .. } => {
                format!("ask for less a thread, or for fewer threads; or raise {}", limit.path())
            }
            Self::Memory { .. } => "ask for less a thread, or for fewer threads".into(),
            Self::Reserved { needed, nodes, .. } => {
                let reserve = |node: u32| {
                    format!(
                        "echo {needed} > /sys/devices/system/node/node{node}/hugepages/\
                         hugepages-2048kB/nr_hugepages"
                    )
                };
                let node = nodes.as_ref().and_then(|nodes| nodes.iter().next());
                let command = node.map_or(format!("sysctl vm.nr_hugepages={needed}"), reserve);
                format!("reserve them as root ({command}), or ask for huge pages unreserved")
            }
            Self::Root(_) => "measure less memory".into(),
        }
    }
}

/// Checks that `bytes` of memory are available on the nodes of `policy`. [`Pages::Reserved`] needs
/// free 2 MiB pages of hugetlbfs; the other kinds of pages need usable memory, which includes
/// reclaimable page cache.
///
/// # Errors
/// When the memory is not available, or `/proc` and `/sys` cannot be read.
pub fn check(
    root: &Root,
    bytes: u64,
    pages: Pages,
    policy: &Policy,
) -> Result<(), AvailabilityError> {
    let nodes = match policy {
        Policy::Default => None,
        Policy::Bind(nodes) | Policy::Interleave(nodes) | Policy::WeightedInterleave(nodes) => {
            Some(nodes.clone())
        }
    };
    if pages == Pages::Reserved {
        let needed = bytes.div_ceil(HUGE_BYTES as u64);
        let available = reserved(root, nodes.as_ref())?;
        return if needed <= available {
            Ok(())
        } else {
            Err(AvailabilityError::Reserved { needed, available, nodes })
        };
    }
    // If the kernel does not report available memory, the check is skipped.
    let Some(found) = available(root, nodes.as_ref())? else { return Ok(()) };
    let available = found.usable_bytes();
    if bytes <= available {
        return Ok(());
    }
    Err(AvailabilityError::Memory {
        needed: bytes,
        available,
        nodes,
        limit: found.limit.map(Box::new),
    })
}

/// Returns the number of free 2 MiB pages of hugetlbfs on `nodes`, or on all nodes if `nodes` is
/// `None`.
fn reserved(root: &Root, nodes: Option<&IdList>) -> Result<u64, RootError> {
    let all = node::nodes(root)?;
    let needed = all.iter().filter(|node| nodes.is_none_or(|nodes| nodes.has(node.id)));
    let pages = needed.flat_map(|node| &node.huge_pages);
    let ours = pages.filter(|pages| pages.page_bytes == HUGE_BYTES as u64);
    Ok(ours.map(|pages| pages.free).sum())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::fs;

    /// Makes the files of a machine with two nodes. Each node has 64 MiB of free memory and 32 MiB
    /// of page cache; 3 huge pages are free on node 1.
    fn machine() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/meminfo", "MemTotal: 1048576 kB\nMemFree: 16384 kB\nMemAvailable: 524288 kB\n");
        let nodes = "sys/devices/system/node";
        write(&format!("{nodes}/online"), "0-1\n");
        for node in [0, 1] {
            let meminfo = ["MemTotal: 524288", "MemFree: 65536", "Active(file): 32768"];
            let line = |line: &str| format!("Node {node} {line} kB\n");
            write(&format!("{nodes}/node{node}/meminfo"), &meminfo.map(line).concat());
            let pages = format!("{nodes}/node{node}/hugepages/hugepages-2048kB");
            write(&format!("{pages}/nr_hugepages"), "4\n");
            write(&format!("{pages}/free_hugepages"), if node == 1 { "3\n" } else { "0\n" });
        }
        let root = Root::captured(folder.path());
        (folder, root)
    }

    fn on(node: u32) -> Policy {
        Policy::Bind([node].into_iter().collect())
    }

    #[test]
    fn requests_beyond_free_memory_or_huge_pages_are_refused() {
        let (_folder, root) = machine();
        let checked = |bytes, pages, policy: &Policy| {
            check(&root, bytes, pages, policy).map_err(|why| (why.to_string(), why.hint()))
        };
        assert_eq!(checked(480 << 20, Pages::Huge, &Policy::Default), Ok(()));
        assert_eq!(checked(75 << 20, Pages::Small, &on(1)), Ok(()));
        assert_eq!(checked(6 << 20, Pages::Reserved, &on(1)), Ok(()));
        let (why, _) = checked(481 << 20, Pages::Huge, &Policy::Default).unwrap_err();
        assert_eq!(why, "481 MiB of memory are asked for, and 480 MiB can be had of the machine");
        let (why, _) = checked(76 << 20, Pages::Small, &on(1)).unwrap_err();
        assert_eq!(why, "76 MiB of memory are asked for, and 75 MiB can be had of nodes 1");
        let (why, hint) = checked(8 << 20, Pages::Reserved, &on(1)).unwrap_err();
        assert!(why.starts_with("4 huge pages of 2 MiB are asked for, and 3 are"), "{why}");
        assert!(hint.contains("echo 4 > /sys/devices/system/node/node1/"), "{hint}");
        let (_, hint) = checked(8 << 20, Pages::Reserved, &Policy::Default).unwrap_err();
        assert!(hint.contains("sysctl vm.nr_hugepages=4"), "{hint}");
    }

    #[test]
    fn memory_beyond_the_limit_of_a_control_group_is_refused_on_any_node() {
        let (folder, root) = machine();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/mountinfo", "24 1 0:21 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        write("proc/self/cgroup", "0::/jobs/one\n");
        write("sys/fs/cgroup/cgroup.controllers", "memory\n");
        write("sys/fs/cgroup/jobs/memory.max", "67108864\n");
        write("sys/fs/cgroup/jobs/memory.current", "33554432\n");
        let both = Policy::Interleave([0, 1].into_iter().collect());
        for policy in [Policy::Default, on(0), both] {
            assert!(check(&root, 30 << 20, Pages::Small, &policy).is_ok());
            let why = check(&root, 31 << 20, Pages::Small, &policy).unwrap_err();
            assert_eq!(
                why.to_string(),
                "31 MiB of memory are asked for, and 30 MiB can be had of the control group /jobs \
                 (limit 64 MiB, in use 32 MiB)"
            );
            assert!(why.hint().ends_with("raise /sys/fs/cgroup/jobs/memory.max"), "{why:?}");
        }
    }
}
