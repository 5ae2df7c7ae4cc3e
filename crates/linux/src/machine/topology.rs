//! The description of a whole machine: all that can be read without changing the machine.

use crate::{
    machine::{
        damon::{Damon, damon},
        id_list::IdList,
        node::{Node, nodes},
        sysctl::{Sysctls, sysctls},
        weights::{WeightedInterleave, weighted_interleave},
    },
    root::{Root, RootError},
};

const TIERS: &str = "/sys/devices/virtual/memory_tiering";
const CPUS: &str = "/sys/devices/system/cpu";

/// A machine's topology and settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The release of the kernel, such as `6.12.48`.
    pub kernel: Option<String>,
    pub cpu: Option<String>,
    /// The ID and the CPUs of each socket, in order of the IDs.
    pub sockets: Vec<(u32, IdList)>,
    /// Memory that the kernel manages, bytes; `None` if unknown. The nodes' sizes can sum to less.
    pub total_bytes: Option<u64>,
    /// The NUMA nodes in order of their IDs.
    pub nodes: Vec<Node>,
    /// The ID and nodes of each memory tier, the fastest first; empty if the kernel has no tiers.
    pub tiers: Vec<(u32, IdList)>,
    /// The weights of interleaving; `None` for a kernel without weighted interleaving.
    pub weighted_interleave: Option<WeightedInterleave>,
    pub sysctls: Sysctls,
    /// The state of DAMON; `None` for a kernel without DAMON.
    pub damon: Option<Damon>,
}

impl Machine {
    /// Reads the machine below `root`.
    ///
    /// # Errors
    /// When an existing file cannot be read or parsed.
    pub fn read(root: &Root) -> Result<Self, RootError> {
        Ok(Self {
            kernel: root.text("/proc/sys/kernel/osrelease")?.map(|text| text.trim().to_string()),
            cpu: cpu(root)?,
            sockets: sockets(root)?,
            total_bytes: total(root)?,
            nodes: nodes(root)?,
            tiers: tiers(root)?,
            weighted_interleave: weighted_interleave(root)?,
            sysctls: sysctls(root)?,
            damon: damon(root)?,
        })
    }

    /// Returns the IDs of all nodes.
    pub fn node_list(&self) -> IdList {
        self.nodes.iter().map(|node| node.id).collect()
    }

    /// Returns the IDs of the nodes with memory.
    pub fn memory_nodes(&self) -> IdList {
        self.nodes.iter().filter(|node| node.total_bytes > 0).map(|node| node.id).collect()
    }

    /// Returns the nodes in order of their speed, the fastest first. If the kernel has several
    /// memory tiers, they give the order; otherwise nodes with CPUs come first. Nodes of equal
    /// speed are in order of their IDs.
    pub fn by_speed(&self) -> Vec<&Node> {
        let mut nodes: Vec<&Node> = self.nodes.iter().collect();
        nodes.sort_by_key(|node| (self.rank(node), node.id));
        nodes
    }

    /// Returns the nodes with memory, grouped by tier, the fastest tier first.
    pub fn memory_by_speed(&self) -> Vec<IdList> {
        let nodes = self.by_speed();
        let nodes: Vec<&Node> = nodes.into_iter().filter(|node| node.total_bytes > 0).collect();
        let tiers = nodes.chunk_by(|a, b| self.rank(a) == self.rank(b));
        tiers.map(|tier| tier.iter().map(|node| node.id).collect()).collect()
    }

    /// Returns the rank of a node's tier; 0 is the fastest. If the kernel has fewer than two tiers,
    /// or no tier lists the node, a node with CPUs has rank 0, and a node without CPUs rank 1.
    fn rank(&self, node: &Node) -> usize {
        let of_kernel = self.tiers.iter().position(|(_, nodes)| nodes.has(node.id));
        of_kernel.filter(|_| self.tiers.len() > 1).unwrap_or(usize::from(node.cpus.is_empty()))
    }

    /// Returns the nodes of the initiators (CPUs or devices) nearest to `node` by the firmware or,
    /// if it names none, the nodes with CPUs at the minimum distance from `node`.
    pub fn nearest(&self, node: &Node) -> IdList {
        if let Some(rated) = node.rated.as_ref().filter(|rated| !rated.initiators.is_empty()) {
            return rated.initiators.clone();
        }
        let distances = self.nodes.iter().zip(&node.distances);
        let with_cpus: Vec<(u32, u32)> = distances
            .filter(|(other, _)| !other.cpus.is_empty())
            .map(|(other, distance)| (other.id, *distance))
            .collect();
        let least = with_cpus.iter().map(|(_, distance)| *distance).min();
        let nearest = with_cpus.iter().filter(|(_, distance)| Some(*distance) == least);
        nearest.map(|(id, _)| *id).collect()
    }
}

fn total(root: &Root) -> Result<Option<u64>, RootError> {
    let total = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    root.value("/proc/meminfo", "a meminfo with MemTotal in kB", total)
}

/// Reads the CPU model from the line `model name` (x86) or, without it, from the line `Model`.
fn cpu(root: &Root) -> Result<Option<String>, RootError> {
    let text = root.text("/proc/cpuinfo")?.unwrap_or_default();
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_string())
    };
    Ok(value("model name").or_else(|| value("Model")).filter(|name| !name.is_empty()))
}

fn sockets(root: &Root) -> Result<Vec<(u32, IdList)>, RootError> {
    let mut sockets: Vec<(u32, Vec<u32>)> = vec![];
    for name in root.names(CPUS)? {
        let Some(cpu) = name.strip_prefix("cpu").and_then(|id| id.parse::<u32>().ok()) else {
            continue;
        };
        let path = format!("{CPUS}/{name}/topology/physical_package_id");
        // An offline CPU lacks the file. In a guest it may contain -1, which counts as socket 0.
        let socket =
            root.value(&path, "the number of a socket", |text| text.parse::<i64>().ok())?;
        let Some(socket) = socket.map(|socket| socket.max(0) as u32) else { continue };
        match sockets.iter_mut().find(|(id, _)| *id == socket) {
            Some((_, cpus)) => cpus.push(cpu),
            None => sockets.push((socket, vec![cpu])),
        }
    }
    sockets.sort_unstable();
    Ok(sockets.into_iter().map(|(id, cpus)| (id, cpus.into_iter().collect())).collect())
}

/// Reads the ID and nodes of each memory tier, in order of IDs. A smaller ID is a faster tier.
fn tiers(root: &Root) -> Result<Vec<(u32, IdList)>, RootError> {
    let mut tiers = vec![];
    for name in root.names(TIERS)? {
        let Some(id) = name.strip_prefix("memory_tier").and_then(|id| id.parse().ok()) else {
            continue;
        };
        // The kernel's documentation names the file `nodes`, but kernels name it `nodelist`.
        for file in ["nodelist", "nodes"] {
            let path = format!("{TIERS}/{name}/{file}");
            let nodes =
                root.value(&path, "a list of nodes", |text| IdList::of_kernel(text).ok())?;
            if let Some(nodes) = nodes {
                tiers.push((id, nodes));
                break;
            }
        }
    }
    tiers.sort_by_key(|(id, _)| *id);
    Ok(tiers)
}
