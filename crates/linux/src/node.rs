//! NUMA nodes: memory, CPUs, distances, and what the firmware says of their speed.

use crate::{
    list::List,
    root::{Root, RootError},
};

pub(crate) const NODES: &str = "/sys/devices/system/node";

/// A NUMA node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// Its CPUs; none of a node that is memory only.
    pub cpus: List,
    /// What it has, bytes.
    pub total_bytes: u64,
    /// What is free, bytes.
    pub free_bytes: u64,
    /// How far each online node is, in their order, as the firmware's SLIT has it: 10 is itself.
    pub distances: Vec<u32>,
    /// What the nearest initiators get from it, as the firmware's HMAT or CDAT rates it.
    pub rated: Option<Rated>,
    /// Huge pages of each size.
    pub huge_pages: Vec<HugePages>,
}

/// What a node's nearest initiators get from it: rated, not measured (numaperf.rst).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rated {
    /// The nodes that are nearest.
    pub initiators: List,
    /// Bandwidth of reads and writes, MiB/s, as the kernel gives it; 0 is unknown.
    pub read_mibps: Option<u64>,
    /// The same of writes.
    pub write_mibps: Option<u64>,
    /// Latency of reads, ns.
    pub read_ns: Option<u64>,
    /// The same of writes.
    pub write_ns: Option<u64>,
}

/// Huge pages of one size on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePages {
    /// Bytes of one.
    pub page_bytes: u64,
    /// How many are reserved.
    pub total: u64,
    /// How many of them are free.
    pub free: u64,
}

/// The numbers of the nodes that are online.
///
/// # Errors
/// When the list cannot be read. A kernel without NUMA has node 0.
pub fn online(root: &Root) -> Result<List, RootError> {
    let path = format!("{NODES}/online");
    let list = root.value(&path, "a list of nodes", |text| List::of_kernel(text).ok())?;
    Ok(list.filter(|list| !list.is_empty()).unwrap_or_else(|| [0].into_iter().collect()))
}

/// The nodes that are online, in order.
///
/// # Errors
/// When a file that is there cannot be read or holds nonsense.
pub fn nodes(root: &Root) -> Result<Vec<Node>, RootError> {
    // A kernel without NUMA has no folder of nodes.
    if !root.has(NODES) {
        return Ok(vec![whole(root)?]);
    }
    online(root)?.iter().map(|id| node(root, id)).collect()
}

fn node(root: &Root, id: u32) -> Result<Node, RootError> {
    let folder = format!("{NODES}/node{id}");
    let cpus = root
        .value(&format!("{folder}/cpulist"), "a list of CPUs", |text| List::of_kernel(text).ok())?;
    let (total_bytes, free_bytes) = memory(root, id)?;
    let numbers = |text: &str| text.split_whitespace().map(|word| word.parse().ok()).collect();
    let distances = root.value(&format!("{folder}/distance"), "a list of distances", numbers)?;
    Ok(Node {
        id,
        cpus: cpus.unwrap_or_default(),
        total_bytes,
        free_bytes,
        distances: distances.unwrap_or_default(),
        rated: rated(root, &folder)?,
        huge_pages: huge_pages(root, &folder)?,
    })
}

/// What a node has and what of it is free, bytes; nothing of one that is not there.
///
/// # Errors
/// When its file cannot be read, or has no such lines.
pub fn memory(root: &Root, id: u32) -> Result<(u64, u64), RootError> {
    let path = format!("{NODES}/node{id}/meminfo");
    let meminfo = root.text(&path)?.unwrap_or_default();
    let bytes = |key: &str| match kib(&meminfo, key) {
        Some(kib) => Ok(kib * 1024),
        None if meminfo.is_empty() => Ok(0),
        None => Err(RootError::Content {
            path: path.clone(),
            text: meminfo.lines().next().unwrap_or_default().into(),
            expected: "a meminfo with MemTotal and MemFree in kB",
        }),
    };
    Ok((bytes("MemTotal")?, bytes("MemFree")?))
}

/// What can be had of a node, or of the machine, bytes: what is free, and what the kernel gives
/// back of the files that it keeps; of a node no more than of the machine. `None` where it does
/// not say.
///
/// # Errors
/// When a file that is there cannot be read.
pub fn available(root: &Root, id: Option<u32>) -> Result<Option<u64>, RootError> {
    let machine = root.text("/proc/meminfo")?.unwrap_or_default();
    let of_machine = kib(&machine, "MemAvailable").map(|kib| kib * 1024);
    let Some(id) = id else { return Ok(of_machine) };
    let node = root.text(&format!("{NODES}/node{id}/meminfo"))?.unwrap_or_default();
    let Some(free) = kib(&node, "MemFree") else { return Ok(of_machine) };
    let files: u64 =
        ["Active(file)", "Inactive(file)"].iter().filter_map(|key| kib(&node, key)).sum();
    // As the kernel reckons it: not all files can go (`si_mem_available` in mm/show_mem.c).
    let of_node = (free + files / 2) * 1024;
    Ok(Some(of_machine.map_or(of_node, |of_machine| of_node.min(of_machine))))
}

/// All memory as one node.
fn whole(root: &Root) -> Result<Node, RootError> {
    let list = |text: &str| List::of_kernel(text).ok();
    let cpus = root.value("/sys/devices/system/cpu/online", "a list of CPUs", list)?;
    let meminfo = root.text("/proc/meminfo")?.unwrap_or_default();
    let bytes = |key| kib(&meminfo, key).unwrap_or(0) * 1024;
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

/// The value of a line such as `Node 0 MemTotal: 1024 kB` or `MemTotal: 1024 kB`, KiB.
pub(crate) fn kib(meminfo: &str, key: &str) -> Option<u64> {
    let mut lines = meminfo.lines().filter_map(|line| line.split_once(':'));
    let named = |(name, _): &(&str, &str)| name.split_whitespace().next_back() == Some(key);
    let (_, value) = lines.find(named)?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn rated(root: &Root, folder: &str) -> Result<Option<Rated>, RootError> {
    // Class 0 has the nearest initiators of all kinds, class 1 the nearest CPUs.
    let folder = format!("{folder}/access0/initiators");
    if !root.has(&folder) {
        return Ok(None);
    }
    let number = |name: &str| root.number(&format!("{folder}/{name}"));
    let initiators = root.names(&folder)?;
    let initiators = initiators.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok());
    Ok(Some(Rated {
        initiators: initiators.collect(),
        read_mibps: number("read_bandwidth")?,
        write_mibps: number("write_bandwidth")?,
        read_ns: number("read_latency")?,
        write_ns: number("write_latency")?,
    }))
}

fn huge_pages(root: &Root, folder: &str) -> Result<Vec<HugePages>, RootError> {
    let folder = format!("{folder}/hugepages");
    let mut found = vec![];
    for name in root.names(&folder)? {
        let size = name.strip_prefix("hugepages-").and_then(|rest| rest.strip_suffix("kB"));
        let Some(kib) = size.and_then(|size| size.parse::<u64>().ok()) else { continue };
        found.push(HugePages {
            page_bytes: kib * 1024,
            total: root.number(&format!("{folder}/{name}/nr_hugepages"))?.unwrap_or(0),
            free: root.number(&format!("{folder}/{name}/free_hugepages"))?.unwrap_or(0),
        });
    }
    found.sort_by_key(|pages| pages.page_bytes);
    Ok(found)
}
