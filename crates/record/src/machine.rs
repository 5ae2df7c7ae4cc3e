//! `interleaf.show/1` of a machine, and `interleaf.doctor/1`.

use interleaf_linux::machine::{
    node::{GBPS_OF_MIBPS, Node},
    topology::Machine,
};
use interleaf_observe::capability::{Capability, Status};
use serde::{Deserialize, Serialize};

pub const DOCTOR_SCHEMA: &str = "interleaf.doctor/1";

/// A machine that was read, live or captured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineDocument {
    pub schema: String,
    pub kernel: Option<String>,
    pub cpu: Option<String>,
    pub sockets: Vec<SocketDocument>,
    /// The nodes with memory or CPUs, the fastest first.
    pub nodes: Vec<MachineNode>,
    /// Whether the kernel computes the weights itself; absent where it cannot.
    pub automatic_weights: Option<bool>,
    pub numa_balancing: Option<u64>,
    pub demotion: Option<bool>,
    pub transparent_huge_pages: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SocketDocument {
    pub socket: u32,
    pub cpus: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineNode {
    pub node: u32,
    pub cpus: String,
    pub capacity_bytes: u64,
    pub free_bytes: u64,
    /// Rated by the firmware, not measured; absent where it does not.
    pub read_gbps: Option<f64>,
    pub write_gbps: Option<f64>,
    pub read_latency_ns: Option<u64>,
    /// Nodes whose CPUs are nearest.
    pub near: String,
    /// The kernel's memory tier: a smaller number is faster.
    pub memory_tier: Option<u32>,
    /// Its weight in weighted interleaving; absent where the kernel has none.
    pub weight: Option<u8>,
    /// To each node that is listed, in the order of their numbers; 10 is itself.
    pub distances: Vec<u32>,
    /// Huge pages that are reserved: part of the capacity that no placement of pages can use.
    pub huge_pages: Vec<HugePagesDocument>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HugePagesDocument {
    pub page_bytes: u64,
    pub reserved: u64,
    pub free: u64,
}

/// Whether a node has memory or CPUs. Some firmware numbers more, as those for slices of GPUs that
/// are not there.
fn is_listed(node: &Node) -> bool {
    node.total_bytes > 0 || !node.cpus.is_empty()
}

impl MachineDocument {
    pub fn new(machine: &Machine) -> Self {
        let sockets = machine.sockets.iter();
        let weighted = machine.weighted_interleave.as_ref();
        Self {
            schema: super::show::SCHEMA.into(),
            kernel: machine.kernel.clone(),
            cpu: machine.cpu.clone(),
            sockets: sockets
                .map(|(socket, cpus)| SocketDocument { socket: *socket, cpus: cpus.to_string() })
                .collect(),
            nodes: machine
                .by_speed()
                .into_iter()
                .filter(|node| is_listed(node))
                .map(|node| MachineNode::new(machine, node))
                .collect(),
            automatic_weights: weighted.and_then(|weighted| weighted.auto),
            numa_balancing: machine.switches.numa_balancing,
            demotion: machine.switches.demotion,
            transparent_huge_pages: machine.switches.huge_pages.clone(),
        }
    }
}

/// GB/s of MiB/s.
fn gbps(mibps: Option<u64>) -> Option<f64> {
    mibps.map(|mibps| super::rounded(mibps as f64 * GBPS_OF_MIBPS))
}

impl MachineNode {
    fn new(machine: &Machine, node: &Node) -> Self {
        let rated = node.rated.as_ref();
        let weights = machine.weighted_interleave.iter().flat_map(|weighted| &weighted.weights);
        let tier = machine.tiers.iter().find(|(_, nodes)| nodes.has(node.id));
        let distances = node.distances.iter().zip(&machine.nodes);
        let reserved = node.huge_pages.iter().filter(|pages| pages.total > 0);
        Self {
            node: node.id,
            cpus: node.cpus.to_string(),
            capacity_bytes: node.total_bytes,
            free_bytes: node.free_bytes,
            read_gbps: gbps(rated.and_then(|rated| rated.read_mibps)),
            write_gbps: gbps(rated.and_then(|rated| rated.write_mibps)),
            read_latency_ns: rated.and_then(|rated| rated.read_ns),
            near: machine.nearest(node).to_string(),
            memory_tier: tier.map(|(id, _)| *id),
            weight: weights.filter(|(id, _)| *id == node.id).map(|(_, weight)| *weight).next(),
            distances: distances
                .filter(|(_, to)| is_listed(to))
                .map(|(distance, _)| *distance)
                .collect(),
            huge_pages: reserved
                .map(|pages| HugePagesDocument {
                    page_bytes: pages.page_bytes,
                    reserved: pages.total,
                    free: pages.free,
                })
                .collect(),
        }
    }
}

/// What a machine can do, and what stands in the way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DoctorDocument {
    pub schema: String,
    pub kernel: Option<String>,
    pub capabilities: Vec<CapabilityDocument>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapabilityDocument {
    pub name: String,
    /// present, missing, unknown or rival.
    pub status: String,
    /// How it is there, why it is not or not known, or who is in the way.
    pub what: String,
    /// What to do; absent of what is present.
    pub remedy: Option<String>,
}

impl DoctorDocument {
    pub fn new(machine: &Machine, capabilities: &[Capability]) -> Self {
        let capability = |capability: &Capability| {
            let (status, what, remedy) = match &capability.status {
                Status::Present(how) => ("present", how, None),
                Status::Missing { why, remedy } => ("missing", why, Some(remedy)),
                Status::Unknown { why, remedy } => ("unknown", why, Some(remedy)),
                Status::Rival { what, remedy } => ("rival", what, Some(remedy)),
            };
            CapabilityDocument {
                name: capability.name.into(),
                status: status.into(),
                what: what.clone(),
                remedy: remedy.cloned(),
            }
        };
        Self {
            schema: DOCTOR_SCHEMA.into(),
            kernel: machine.kernel.clone(),
            capabilities: capabilities.iter().map(capability).collect(),
        }
    }
}
