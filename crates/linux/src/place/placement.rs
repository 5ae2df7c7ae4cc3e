//! Placements of pages by weights: the number of pages on each node in a round of interleaving, the
//! memory policy, and the settings that the policy needs.
//!
//! Weights are given for the tiers of a machine or for its nodes. A tier gets pages in proportion
//! to its weight, divided evenly among its nodes. Example: `3:1` on two sockets, each with DRAM and
//! an expander, gives the four nodes 3, 3, 1 and 1 pages in a round. With one expander for both
//! sockets, `3:1` gives the three nodes 3, 3 and 2 pages.

use crate::{
    machine::{
        id_list::{IdList, IdListError},
        topology::Machine,
        weights,
    },
    place::mempolicy::Policy,
};
use interleaf_model::weights::{WEIGHT_MAX, Weights, gcd};

/// A placement: nodes with weights, and the mechanism that places pages on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The ID of each node with its number of pages in a round of interleaving, at least 1.
    pub nodes: Vec<(u32, u32)>,
    pub means: Means,
}

/// The mechanism that places pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// The kernel's weighted interleaving, since Linux 6.9.
    Weighted,
    /// The kernel's interleaving without weights, which suffices for equal weights.
    Interleave,
    /// Interleaving without weights at the first touch, followed by migration until the nodes have
    /// pages in the ratio of the weights. This is for kernels before Linux 6.9.
    Moved,
}

/// A setting of the kernel that a placement needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    pub path: String,
    /// The value of the setting that the placement needs.
    pub text: String,
}

/// The reason why pages cannot be placed on a machine by given weights.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The machine has only one node with memory, so weights have no effect.
    #[error("all memory is on node {node}: {weights} has nothing to interleave")]
    OneNode {
        /// The only node with memory.
        node: String,
        weights: String,
    },
    /// The number of weights is neither that of the machine's tiers nor that of its nodes.
    #[error("{weights} has {given} weights, and the machine has {has}")]
    Count {
        weights: String,
        /// The number of weights that the user gave.
        given: usize,
        /// A text with the tiers and nodes of the machine.
        has: String,
        /// The fastest memory nodes, one for each weight; all memory nodes if there are fewer nodes
        /// than weights.
        fitting: String,
    },
    /// The number of weights differs from the number of named nodes.
    #[error("{weights} has {given} weights, and --nodes {named} names {nodes}")]
    Named {
        weights: String,
        /// The number of weights that the user gave.
        given: usize,
        /// The list of nodes as the user wrote it.
        named: String,
        /// The number of nodes in this list.
        nodes: usize,
    },
    /// The user's list of nodes is malformed or names a node that does not exist.
    #[error("--nodes: {0}")]
    Nodes(#[from] IdListError),
    /// A node that the user named has no memory.
    #[error("node {node} has no memory: nodes {nodes} have some")]
    NoMemory {
        node: u32,
        /// The nodes with memory.
        nodes: String,
    },
    /// The placement has a node that this process may not use.
    #[error("node {node} is not among those that this process may use: {allowed}")]
    Forbidden {
        node: u32,
        /// The nodes that this process may use.
        allowed: String,
    },
    /// A round of interleaving has more pages on a node than the kernel accepts.
    #[error("{weights} makes {weight} pages in a round on node {node}, and {WEIGHT_MAX} is most")]
    TooMany {
        weights: String,
        node: u32,
        /// The number of the node's pages in a round.
        weight: u32,
    },
}

impl PlacementError {
    /// Returns advice to the user.
    pub fn hint(&self) -> String {
        match self {
            Self::OneNode { .. } => "`interleaf doctor` says how an expander becomes a node; \
                 `interleaf predict` and `simulate` need none"
                .into(),
            Self::Count { fitting, .. } => format!(
                "give a weight for each tier or for each node, or name as many nodes as there are \
                 weights, such as --nodes {fitting}"
            ),
            Self::Named { .. } => "give a weight for each node, in their order".into(),
            Self::Nodes(_) | Self::NoMemory { .. } => {
                "`interleaf show` lists the nodes; write them as numactl takes them: 0-3, !2, +1, \
                 all"
                .into()
            }
            Self::Forbidden { .. } => "choose others with --nodes, or widen the cpuset of this \
                 process (cpuset.mems)"
                .into(),
            Self::TooMany { .. } => "give smaller weights, or one for each node".into(),
        }
    }
}

impl Placement {
    /// Computes the placement on `machine` by `weights`. If `named` is a list of nodes, the weights
    /// belong to these nodes, in the order of the list. Otherwise the weights belong to the
    /// machine's tiers, or to its memory nodes, the fastest first. `allowed` are the nodes that the
    /// process may use; `None` for all nodes.
    ///
    /// # Errors
    /// When the weights cannot be placed on the machine.
    pub fn new(
        machine: &Machine,
        weights: &Weights,
        named: Option<&str>,
        allowed: Option<&IdList>,
    ) -> Result<Self, PlacementError> {
        let nodes = match named {
            Some(named) => for_named(machine, weights, named)?,
            None => for_machine(machine, weights)?,
        };
        let max = u32::from(WEIGHT_MAX);
        let nodes = within(nodes, max);
        let allows = |node: u32| allowed.is_none_or(|allowed| allowed.has(node));
        if let Some((node, _)) = nodes.iter().find(|(node, _)| !allows(*node)) {
            let allowed = allowed.map(IdList::to_string).unwrap_or_default();
            return Err(PlacementError::Forbidden { node: *node, allowed });
        }
        if let Some((node, weight)) = nodes.iter().find(|(_, weight)| *weight > max) {
            let (node, weight, weights) = (*node, *weight, weights.to_string());
            return Err(PlacementError::TooMany { weights, node, weight });
        }
        let equal = nodes.iter().all(|(_, weight)| *weight == nodes[0].1);
        let means = match machine.weighted_interleave {
            // Equal weights need only plain interleaving, for which no setting is changed.
            _ if equal => Means::Interleave,
            Some(_) => Means::Weighted,
            None => Means::Moved,
        };
        Ok(Self { nodes, means })
    }

    /// Returns the IDs of the placement's nodes.
    pub fn node_list(&self) -> IdList {
        self.nodes.iter().map(|(node, _)| *node).collect()
    }

    /// Returns the memory policy that places new pages.
    pub fn policy(&self) -> Policy {
        match self.means {
            Means::Weighted => Policy::WeightedInterleave(self.node_list()),
            Means::Interleave | Means::Moved => Policy::Interleave(self.node_list()),
        }
    }

    /// Returns the settings to change before the program starts, in the order of the changes.
    pub fn settings(&self, machine: &Machine) -> Vec<SettingChange> {
        if self.means != Means::Weighted {
            return vec![];
        }
        // Disable automatic weights by a separate change before the weights are written, although
        // writing a weight disables them too. Changes are undone in reverse order, so automatic
        // weights are enabled again after the weights are restored.
        let auto = machine.weighted_interleave.as_ref().and_then(|weighted| weighted.auto);
        let auto = auto.map(|_| SettingChange { path: weights::auto_path(), text: "false".into() });
        let weight = |(node, weight): &(u32, u32)| SettingChange {
            path: weights::node_path(*node),
            text: weight.to_string(),
        };
        auto.into_iter().chain(self.nodes.iter().map(weight)).collect()
    }

    /// Returns the numactl command with the option that sets the memory policy of this placement.
    /// (numactl has weighted interleaving since 2.0.19.)
    pub fn numactl(&self) -> String {
        match self.means {
            Means::Weighted => format!("numactl --weighted-interleave={}", self.node_list()),
            Means::Interleave | Means::Moved => {
                format!("numactl --interleave={}", self.node_list())
            }
        }
    }

    /// Returns the share of the pages on each node, in the order of `self.nodes`.
    pub fn shares(&self) -> Vec<f64> {
        let sum: u32 = self.nodes.iter().map(|(_, weight)| weight).sum();
        self.nodes.iter().map(|(_, weight)| f64::from(*weight) / f64::from(sum)).collect()
    }
}

/// Returns the ID and the weight of each node in the user's list `named`, in the order of the list.
fn for_named(
    machine: &Machine,
    weights: &Weights,
    named: &str,
) -> Result<Vec<(u32, u32)>, PlacementError> {
    let nodes = IdList::of_user(named, &machine.node_list())?;
    let with_memory = machine.memory_nodes();
    if let Some(node) = nodes.iter().find(|node| !with_memory.has(**node)) {
        return Err(PlacementError::NoMemory { node: *node, nodes: with_memory.to_string() });
    }
    let given = weights.as_slice().len();
    if given != nodes.len() {
        return Err(PlacementError::Named {
            weights: weights.to_string(),
            given,
            named: named.into(),
            nodes: nodes.len(),
        });
    }
    Ok(nodes.into_iter().zip(weights.as_slice().iter().map(|weight| u32::from(*weight))).collect())
}

/// Returns the number of pages of each node in a round of interleaving. `weights` has a weight for
/// each node, the fastest first, or for each tier.
fn for_machine(machine: &Machine, weights: &Weights) -> Result<Vec<(u32, u32)>, PlacementError> {
    let tiers = machine.memory_by_speed();
    let nodes = machine.memory_nodes();
    let given = weights.as_slice().len();
    let each = weights.as_slice().iter().map(|weight| u32::from(*weight));
    if given == nodes.len() {
        return Ok(tiers.iter().flat_map(IdList::iter).zip(each).collect());
    }
    if given == tiers.len() {
        let round = tiers.iter().map(|tier| tier.len() as u32).fold(1, lcm);
        let of_tier = |(tier, weight): (&IdList, u32)| {
            let part = weight * (round / tier.len() as u32);
            tier.iter().map(move |node| (node, part)).collect::<Vec<_>>()
        };
        return Ok(tiers.iter().zip(each).flat_map(of_tier).collect());
    }
    if nodes.len() < 2 {
        let (node, weights) = (nodes.to_string(), weights.to_string());
        return Err(PlacementError::OneNode { node, weights });
    }
    let names: Vec<String> = tiers.iter().map(IdList::to_string).collect();
    let has = if tiers.len() == nodes.len() {
        format!("{} memory nodes: {}", nodes.len(), names.join(" "))
    } else {
        let (tiers, names) = (tiers.len(), names.join(" | "));
        let s = if tiers == 1 { "" } else { "s" };
        format!("{tiers} tier{s} ({names}) of {} memory nodes", nodes.len())
    };
    let fitting = tiers.iter().flat_map(IdList::iter).take(given).collect::<IdList>().to_string();
    Err(PlacementError::Count { weights: weights.to_string(), given, has, fitting })
}

/// Removes nodes with a weight of 0. If a weight exceeds `max`, divides all weights by their
/// greatest common divisor.
fn within(nodes: Vec<(u32, u32)>, max: u32) -> Vec<(u32, u32)> {
    let nodes: Vec<(u32, u32)> = nodes.into_iter().filter(|(_, weight)| *weight > 0).collect();
    let common = match nodes.iter().all(|(_, weight)| *weight <= max) {
        true => 1,
        false => nodes.iter().map(|(_, weight)| *weight).fold(0, gcd).max(1),
    };
    nodes.into_iter().map(|(node, weight)| (node, weight / common)).collect()
}

fn lcm(a: u32, b: u32) -> u32 {
    a / gcd(a, b).max(1) * b
}
