//! NUMA nodes: their memory, CPUs and distances, and the firmware's ratings of their bandwidth and
//! latency.

use crate::{
    machine::id_list::IdList,
    root::{Root, RootError},
};
use interleaf_model::rated;
use std::ops::RangeInclusive;

pub(crate) const NODES: &str = "/sys/devices/system/node";

/// The number of GB/s in one MiB/s.
pub const GBPS_OF_MIBPS: f64 = 1.048_576e-3;

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub id: u32,
    /// The CPUs of the node; empty for a memory-only node.
    pub cpus: IdList,
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// The distance to each online node, in order of IDs, from the firmware's SLIT; 10 to itself.
    pub distances: Vec<u32>,
    /// The firmware's ratings of bandwidth and latency for accesses from the nearest initiators
    /// (CPUs or devices), from the HMAT or the CDAT. `None` if the firmware gives no rating.
    pub rated: Option<Rated>,
    /// The pools of huge pages (hugetlbfs) on the node, one for each size of huge pages.
    pub huge_pages: Vec<HugePages>,
}

/// Bandwidth and latency of a node for accesses from its nearest initiators, as rated by the
/// firmware and not measured (numaperf.rst). A figure that is 0 or outside the limits of
/// [`interleaf_model::rated`] counts as unrated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rated {
    /// The nodes that have the initiators (CPUs or devices) nearest to this node.
    pub initiators: IdList,
    /// Read bandwidth, MiB/s, the kernel's unit.
    pub read_mibps: Option<u64>,
    pub write_mibps: Option<u64>,
    pub read_ns: Option<u64>,
    pub write_ns: Option<u64>,
    /// Impossible figures, such as `read_latency of 500000000 ns`. They count as unrated.
    pub implausible: Vec<String>,
}

/// The pool of huge pages (hugetlbfs) of one size on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePages {
    pub page_bytes: u64,
    /// Number of pages in the kernel's pool (`nr_hugepages`).
    pub total: u64,
    /// Number of free pages in the pool.
    pub free: u64,
}

/// Returns the IDs of the online nodes; only node 0 on a kernel without NUMA.
///
/// # Errors
/// When the list cannot be parsed.
pub fn online(root: &Root) -> Result<IdList, RootError> {
    let path = format!("{NODES}/online");
    let list = root.value(&path, "a list of nodes", |text| IdList::of_kernel(text).ok())?;
    Ok(list.filter(|list| !list.is_empty()).unwrap_or_else(|| [0].into_iter().collect()))
}

/// Reads the online nodes, in order of their IDs.
///
/// # Errors
/// When an existing file cannot be read or parsed.
pub fn nodes(root: &Root) -> Result<Vec<Node>, RootError> {
    // A kernel without NUMA lacks the folder of the nodes.
    if !root.has(NODES) {
        return Ok(vec![whole_machine(root)?]);
    }
    online(root)?.iter().map(|id| node(root, id)).collect()
}

fn node(root: &Root, id: u32) -> Result<Node, RootError> {
    let folder = format!("{NODES}/node{id}");
    let cpus = root.value(&format!("{folder}/cpulist"), "a list of CPUs", |text| {
        IdList::of_kernel(text).ok()
    })?;
    let (total_bytes, free_bytes) = memory(root, id)?;
    let numbers = |text: &str| text.split_whitespace().map(|word| word.parse().ok()).collect();
    let distances = root.value(&format!("{folder}/distance"), "a list of distances", numbers)?;
    Ok(Node {
        id,
        cpus: cpus.unwrap_or_default(),
        total_bytes,
        free_bytes,
        distances: distances.unwrap_or_default(),
        rated: rating(root, &folder)?,
        huge_pages: huge_pages(root, &folder)?,
    })
}

/// Returns the total and the free memory of node `id`, bytes; 0 and 0 if the node does not exist.
///
/// # Errors
/// When `meminfo` cannot be read, or its line `MemTotal` or `MemFree` is missing, malformed or
/// above 8 PiB.
pub fn memory(root: &Root, id: u32) -> Result<(u64, u64), RootError> {
    let path = format!("{NODES}/node{id}/meminfo");
    let meminfo = root.text(&path)?.unwrap_or_default();
    let bytes = |key: &str| match size(&meminfo, key) {
        Some(bytes) => Ok(bytes),
        None if meminfo.is_empty() => Ok(0),
        None => Err(RootError::Content {
            path: path.clone(),
            text: meminfo.lines().next().unwrap_or_default().into(),
            expected: "a meminfo with MemTotal and MemFree in kB, of 8 PiB at most",
        }),
    };
    Ok((bytes("MemTotal")?, bytes("MemFree")?))
}

/// Describes the whole machine as node 0, for a kernel without NUMA.
fn whole_machine(root: &Root) -> Result<Node, RootError> {
    let list = |text: &str| IdList::of_kernel(text).ok();
    let cpus = root.value("/sys/devices/system/cpu/online", "a list of CPUs", list)?;
    let meminfo = root.text("/proc/meminfo")?.unwrap_or_default();
    let bytes = |key| size(&meminfo, key).unwrap_or(0);
    Ok(Node {
        id: 0,
        cpus: cpus.unwrap_or_default(),
        total_bytes: bytes("MemTotal"),
        free_bytes: bytes("MemFree"),
        distances: vec![10],
        rated: None,
        huge_pages: huge_pages(root, "/sys/kernel/mm")?,
    })
}

/// The largest plausible size, bytes (8 PiB). Sums over all nodes then fit into a `u64`.
const SIZE_MAX: u64 = 1 << 53;

/// Converts KiB to bytes; `None` above [`SIZE_MAX`].
fn of_kib(kib: u64) -> Option<u64> {
    kib.checked_mul(1024).filter(|bytes| *bytes <= SIZE_MAX)
}

/// Returns the bytes of `key`, from a line such as `Node 0 MemTotal: 1024 kB` or
/// `MemTotal: 1024 kB`.
pub(crate) fn size(meminfo: &str, key: &str) -> Option<u64> {
    let mut lines = meminfo.lines().filter_map(|line| line.split_once(':'));
    let named = |(name, _): &(&str, &str)| name.split_whitespace().next_back() == Some(key);
    let (_, value) = lines.find(named)?;
    of_kib(value.trim().strip_suffix("kB")?.trim().parse().ok()?)
}

fn rating(root: &Root, folder: &str) -> Result<Option<Rated>, RootError> {
    // The kernel's access class 0 has the nearest initiators of any kind, class 1 the nearest CPUs.
    let folder = format!("{folder}/access0/initiators");
    if !root.has(&folder) {
        return Ok(None);
    }
    let mut implausible = vec![];
    let mut figure = |name: &str, unit: &str, scale: f64, allowed: RangeInclusive<f64>| {
        // The kernel writes 0 for unknown figures.
        let number = root.number(&format!("{folder}/{name}"))?.filter(|number| *number > 0);
        let (known, odd) = match number {
            Some(number) if !allowed.contains(&(number as f64 * scale)) => (None, Some(number)),
            number => (number, None),
        };
        implausible.extend(odd.map(|number| format!("{name} of {number} {unit}")));
        Ok::<_, RootError>(known)
    };
    let mut gbps = |name| figure(name, "MiB/s", GBPS_OF_MIBPS, rated::BANDWIDTH_GBPS);
    let (read_mibps, write_mibps) = (gbps("read_bandwidth")?, gbps("write_bandwidth")?);
    let mut ns = |name| figure(name, "ns", 1.0, rated::LATENCY_NS);
    let (read_ns, write_ns) = (ns("read_latency")?, ns("write_latency")?);
    let initiators = root.names(&folder)?;
    let initiators = initiators.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok());
    Ok(Some(Rated {
        initiators: initiators.collect(),
        read_mibps,
        write_mibps,
        read_ns,
        write_ns,
        implausible,
    }))
}

fn huge_pages(root: &Root, folder: &str) -> Result<Vec<HugePages>, RootError> {
    let folder = format!("{folder}/hugepages");
    let mut found = vec![];
    for name in root.names(&folder)? {
        let size = name.strip_prefix("hugepages-").and_then(|rest| rest.strip_suffix("kB"));
        let size = size.and_then(|size| of_kib(size.parse().ok()?));
        let Some(page_bytes) = size else { continue };
        found.push(HugePages {
            page_bytes,
            total: root.number(&format!("{folder}/{name}/nr_hugepages"))?.unwrap_or(0),
            free: root.number(&format!("{folder}/{name}/free_hugepages"))?.unwrap_or(0),
        });
    }
    found.sort_by_key(|pages| pages.page_bytes);
    Ok(found)
}
