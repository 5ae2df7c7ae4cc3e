//! Whether memory fits, before it is touched; and which pages it turned out to have, and where.

use crate::region::{HUGE_BYTES, Pages};
use interleaf_linux::{
    machine::{id_list::IdList, node},
    place::mempolicy::Policy,
    process::{
        available::available,
        cgroup::Headroom,
        numa_maps::{self, NodeBytes},
    },
    root::{Root, RootError},
};
use std::ops::Range;

/// Memory that is not there.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// Less is available than is asked for.
    #[error(
        "{} MiB of memory are asked for, and {} MiB can be had of {}", asked >> 20, there >> 20,
        limited(limit, nodes)
    )]
    Memory {
        /// What is asked for, bytes.
        asked: u64,
        /// What can be had, bytes.
        there: u64,
        /// Of which nodes; `None` of all.
        nodes: Option<IdList>,
        /// The limit of the control group that allows no more, if one does.
        limit: Option<Box<Headroom>>,
    },
    /// Too few huge pages are reserved.
    #[error(
        "{asked} huge pages of 2 MiB are asked for, and {there} are reserved and free on {}",
        of(nodes)
    )]
    Reserved {
        /// How many are asked for.
        asked: u64,
        /// How many are free.
        there: u64,
        /// On which nodes; `None` on all.
        nodes: Option<IdList>,
    },
    /// The machine does not say.
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

impl RoomError {
    /// How to mend it.
    pub fn hint(&self) -> String {
        match self {
            Self::Memory { limit: Some(limit), .. } => {
                format!("ask for less a thread, or for fewer threads; or raise {}", limit.path())
            }
            Self::Memory { .. } => "ask for less a thread, or for fewer threads".into(),
            Self::Reserved { asked, nodes, .. } => {
                let reserve = |node: u32| {
                    format!(
                        "echo {asked} > /sys/devices/system/node/node{node}/hugepages/\
                         hugepages-2048kB/nr_hugepages"
                    )
                };
                let node = nodes.as_ref().and_then(|nodes| nodes.iter().next());
                let command = node.map_or(format!("sysctl vm.nr_hugepages={asked}"), reserve);
                format!("reserve them as root ({command}), or ask for huge pages unreserved")
            }
            Self::Root(_) => "measure less memory, which needs no look".into(),
        }
    }
}

/// Whether `bytes` in such pages fit where the policy has them.
///
/// # Errors
/// When they do not, or the machine does not say what it has.
pub fn check(root: &Root, bytes: u64, pages: Pages, policy: &Policy) -> Result<(), RoomError> {
    let nodes = match policy {
        Policy::Default => None,
        Policy::Bind(nodes) | Policy::Interleave(nodes) | Policy::WeightedInterleave(nodes) => {
            Some(nodes.clone())
        }
    };
    if pages == Pages::Reserved {
        let asked = bytes.div_ceil(HUGE_BYTES as u64);
        let there = reserved(root, nodes.as_ref())?;
        return if asked <= there {
            Ok(())
        } else {
            Err(RoomError::Reserved { asked, there, nodes })
        };
    }
    // A machine that does not say lets one try.
    let Some(found) = available(root, nodes.as_ref())? else { return Ok(()) };
    let there = found.usable_bytes();
    if bytes <= there {
        return Ok(());
    }
    Err(RoomError::Memory { asked: bytes, there, nodes, limit: found.limit.map(Box::new) })
}

/// Huge pages of 2 MiB that are reserved and free.
fn reserved(root: &Root, nodes: Option<&IdList>) -> Result<u64, RootError> {
    let all = node::nodes(root)?;
    let asked = all.iter().filter(|node| nodes.is_none_or(|nodes| nodes.has(node.id)));
    let pages = asked.flat_map(|node| &node.huge_pages);
    let ours = pages.filter(|pages| pages.page_bytes == HUGE_BYTES as u64);
    Ok(ours.map(|pages| pages.free).sum())
}

/// What memory turned out to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backing {
    /// How much there is, bytes.
    pub bytes: u64,
    /// How much of it is in huge pages, bytes.
    pub huge_bytes: u64,
    /// How much of it is on which node, bytes; on none where the kernel has no NUMA.
    pub nodes: NodeBytes,
}

impl Backing {
    /// Of memory of this process. The kernel tells of mappings, which may be more than what was
    /// asked about where such memory lies side by side: then it is the same share of it.
    ///
    /// # Errors
    /// When the kernel's files cannot be read.
    pub fn of(root: &Root, ranges: &[Range<u64>]) -> Result<Self, RootError> {
        let smaps = root.peek("/proc/self/smaps")?.unwrap_or_default();
        let mappings = mappings(&smaps);
        let placed = numa_maps::mappings(root, std::process::id())?.unwrap_or_default();
        let mut backing = Self::default();
        for range in ranges {
            let bytes = range.end - range.start;
            backing.bytes += bytes;
            backing.huge_bytes += huge_in(&mappings, range);
            let before = placed.iter().filter(|mapping| mapping.start <= range.start);
            let Some(place) = before.max_by_key(|mapping| mapping.start) else { continue };
            let total = place.bytes.total();
            let share = |(node, on_node): (&u32, &u64)| (*node, part(bytes, *on_node, total));
            backing.nodes.add(&NodeBytes(place.bytes.0.iter().map(share).collect()));
        }
        Ok(backing)
    }
}

/// How much of memory of this process is in huge pages, bytes, as [`Backing::of`] has it: without
/// a look where its pages are, for which the kernel walks them all.
///
/// # Errors
/// When the kernel's file cannot be read.
pub(crate) fn huge_bytes(root: &Root, range: &Range<u64>) -> Result<u64, RootError> {
    let smaps = root.peek("/proc/self/smaps")?.unwrap_or_default();
    Ok(huge_in(&mappings(&smaps), range))
}

fn huge_in(mappings: &[Mapping], range: &Range<u64>) -> u64 {
    let ours = mappings.iter().find(|mapping| mapping.addresses.contains(&range.start));
    let bytes = range.end - range.start;
    ours.map_or(0, |mapping| part(bytes, mapping.huge_bytes, mapping.resident_bytes))
}

/// `bytes * part / whole`; nothing of nothing.
fn part(bytes: u64, part: u64, whole: u64) -> u64 {
    let exact = u128::from(bytes) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(exact).unwrap_or(bytes)
}

/// What `smaps` says of a mapping.
#[derive(Debug, PartialEq)]
struct Mapping {
    addresses: Range<u64>,
    resident_bytes: u64,
    huge_bytes: u64,
}

fn mappings(smaps: &str) -> Vec<Mapping> {
    let mut all: Vec<Mapping> = vec![];
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        let (Some(first), second) = (words.next(), words.next().unwrap_or("")) else { continue };
        let bytes = second.parse::<u64>().unwrap_or(0) * 1024;
        match (first, all.last_mut()) {
            ("Rss:", Some(last)) => last.resident_bytes += bytes,
            ("AnonHugePages:", Some(last)) => last.huge_bytes += bytes,
            // What is reserved is in neither of the two.
            ("Private_Hugetlb:", Some(last)) => {
                last.resident_bytes += bytes;
                last.huge_bytes += bytes;
            }
            _ => {
                if let Some(addresses) = numa_maps::addresses(line) {
                    all.push(Mapping { addresses, resident_bytes: 0, huge_bytes: 0 });
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::region::Region;
    use std::fs;

    /// A machine of two nodes, the second with 64 MiB of page cache and 3 huge pages free.
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
    fn what_does_not_fit_is_refused() {
        let (_folder, root) = machine();
        let said = |bytes, pages, policy: &Policy| {
            check(&root, bytes, pages, policy).map_err(|why| (why.to_string(), why.hint()))
        };
        assert_eq!(said(480 << 20, Pages::Huge, &Policy::Default), Ok(()));
        assert_eq!(said(75 << 20, Pages::Small, &on(1)), Ok(()));
        assert_eq!(said(6 << 20, Pages::Reserved, &on(1)), Ok(()));
        let (why, _) = said(481 << 20, Pages::Huge, &Policy::Default).unwrap_err();
        assert_eq!(why, "481 MiB of memory are asked for, and 480 MiB can be had of the machine");
        let (why, _) = said(76 << 20, Pages::Small, &on(1)).unwrap_err();
        assert_eq!(why, "76 MiB of memory are asked for, and 75 MiB can be had of nodes 1");
        let (why, hint) = said(8 << 20, Pages::Reserved, &on(1)).unwrap_err();
        assert!(why.starts_with("4 huge pages of 2 MiB are asked for, and 3 are"), "{why}");
        assert!(hint.contains("echo 4 > /sys/devices/system/node/node1/"), "{hint}");
        let (_, hint) = said(8 << 20, Pages::Reserved, &Policy::Default).unwrap_err();
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

    #[test]
    fn smaps_tells_of_huge_pages() {
        let smaps = "7f00-7f80 rw-p 00000000 00:00 0\nRss: 8 kB\nAnonHugePages: 4 kB\n\
                     VmFlags: rd wr\n7f80-7fa0 rw-p 00000000 00:0f 1 /anon_hugepage\n\
                     Rss: 0 kB\nPrivate_Hugetlb: 2048 kB\n";
        let mapping = |addresses, resident_bytes, huge_bytes| Mapping {
            addresses,
            resident_bytes,
            huge_bytes,
        };
        let expected =
            [mapping(0x7f00..0x7f80, 8192, 4096), mapping(0x7f80..0x7fa0, 2 << 20, 2 << 20)];
        assert_eq!(mappings(smaps), expected);
    }

    #[test]
    fn small_pages_are_said_to_be_small_and_to_be_somewhere() {
        let region = Region::new(4 << 20, Pages::Small, &Policy::Default).unwrap();
        let backing = Backing::of(&Root::live(), &[region.addresses()]).unwrap();
        assert_eq!((backing.bytes, backing.huge_bytes), (4 << 20, 0));
        let total = backing.nodes.total();
        assert!(total == 0 || total.abs_diff(4 << 20) < 8, "{backing:?}");
    }
}
