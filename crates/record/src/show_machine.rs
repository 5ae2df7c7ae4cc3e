//! A machine, as `interleaf.show/1`, and its capabilities, as `interleaf.doctor/1`.
//!
//! `interleaf show` writes the NUMA nodes as the kernel and the firmware describe them.
//! `interleaf doctor` writes which mechanisms of the kernel Interleaf can use.

use super::check::Check;
use interleaf_linux::machine::{
    node::{GBPS_OF_MIBPS, Node},
    topology::Machine,
};
use interleaf_observe::capability::{Capability, Status};
use serde::{Deserialize, Serialize};

pub const DOCTOR_SCHEMA: &str = "interleaf.doctor/1";

/// Description of this machine or of a captured machine: processor, kernel settings and nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineDocument {
    pub schema: String,
    pub kernel: Option<String>,
    pub cpu: Option<String>,
    pub sockets: Vec<SocketDocument>,
    /// Nodes with memory or CPUs, fastest first.
    pub nodes: Vec<MachineNode>,
    /// True if the kernel computes the weights (`auto`); null when the kernel has no automatic
    /// weights.
    pub automatic_weights: Option<bool>,
    pub numa_balancing: Option<u64>,
    pub demotion: Option<bool>,
    pub transparent_huge_pages: Option<String>,
}

impl Check for MachineDocument {}

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
    /// Read bandwidth that the firmware rates (HMAT or CDAT), GB/s; null without a rating. It is
    /// not measured.
    pub read_gbps: Option<f64>,
    /// Write bandwidth that the firmware rates, GB/s; null without a rating.
    pub write_gbps: Option<f64>,
    pub read_latency_ns: Option<u64>,
    /// Nodes whose CPUs are nearest to this node, as a list (`0-1`).
    pub near: String,
    /// Number of the node's memory tier in the kernel. A smaller number is a faster tier.
    pub memory_tier: Option<u32>,
    /// Weight of the node in weighted interleaving, 1 to 255; null when the kernel has no weighted
    /// interleaving.
    pub weight: Option<u8>,
    /// SLIT distances from this node to each node in `nodes` of the document, by rising node
    /// number. The distance from a node to itself is 10.
    pub distances: Vec<u32>,
    /// Reserved huge pages of the node: a part of the capacity that placement cannot use.
    pub huge_pages: Vec<HugePagesDocument>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HugePagesDocument {
    pub page_bytes: u64,
    pub reserved: u64,
    pub free: u64,
}

/// True if a node has memory or CPUs. Some firmware describes nodes that have neither, such as
/// those for GPU partitions that are not configured.
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
            numa_balancing: machine.sysctls.numa_balancing,
            demotion: machine.sysctls.demotion,
            transparent_huge_pages: machine.sysctls.huge_pages.clone(),
        }
    }
}

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

/// The capabilities of a machine, and the obstacle for each missing one (`interleaf.doctor/1`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DoctorDocument {
    pub schema: String,
    pub kernel: Option<String>,
    pub capabilities: Vec<CapabilityDocument>,
}

impl Check for DoctorDocument {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapabilityDocument {
    pub name: String,
    pub status: CapabilityStatus,
    /// Depending on `status`: what provides a present capability, why a capability is missing or
    /// unknown, or which page mover is the rival.
    pub what: String,
    /// Hint how to get the capability, or how to stop the rival; null when it is present.
    pub remedy: Option<String>,
}

/// The status of a capability on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CapabilityStatus {
    /// The machine has the capability.
    Present,
    /// The machine lacks the capability.
    Missing,
    /// The machine's files do not show whether it has the capability.
    Unknown,
    /// Another page mover is active, which works against Interleaf.
    Rival,
}

display_word!(CapabilityStatus);

impl DoctorDocument {
    pub fn new(machine: &Machine, capabilities: &[Capability]) -> Self {
        let capability = |capability: &Capability| {
            let (status, what, hint) = match &capability.status {
                Status::Present(how) => (CapabilityStatus::Present, how, None),
                Status::Missing { why, remedy } => (CapabilityStatus::Missing, why, Some(remedy)),
                Status::Unknown { why, remedy } => (CapabilityStatus::Unknown, why, Some(remedy)),
                Status::Rival { what, remedy } => (CapabilityStatus::Rival, what, Some(remedy)),
            };
            CapabilityDocument {
                name: capability.name.into(),
                status,
                what: what.clone(),
                remedy: hint.cloned(),
            }
        };
        Self {
            schema: DOCTOR_SCHEMA.into(),
            kernel: machine.kernel.clone(),
            capabilities: capabilities.iter().map(capability).collect(),
        }
    }
}
