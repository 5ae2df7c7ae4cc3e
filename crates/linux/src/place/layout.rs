//! A machine as the control loop sees it: domains cause memory traffic, and tiers serve it.
//!
//! Each node with memory is a tier, and the fastest tier comes first. Each socket that is near a
//! node with memory is a domain. A node is near a socket if one of the CPUs nearest to the node
//! belongs to the socket. The firmware's ratings or the node distances decide which CPUs are
//! nearest. An expander can be near several sockets.

use crate::{
    machine::{
        id_list::IdList,
        node::{self, Node},
        topology::Machine,
    },
    place::actuator::Goal,
};
use interleaf_model::{
    machine::{DomainLayout, Layout, Target, TierLayout},
    tier::TierKind,
    weights::Weights,
};

/// Assumed latency, ns, of DRAM and of an expander that the firmware does not rate. The layout
/// requires a value, but policies that depend on latency use the measured latency instead.
const UNRATED_NS: [f64; 2] = [100.0, 250.0];

/// The domains (sockets) and the tiers (nodes with memory) of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct HostLayout {
    /// The domains (sockets) and tiers. `layout.scopes`, which lists the steered processes, is
    /// empty; the caller adds the scopes.
    pub layout: Layout,
    /// The node of each tier, in the order of the tiers.
    pub nodes: Vec<u32>,
    /// The nodes with memory whose read bandwidth the firmware does not rate. If there is such a
    /// node, all tiers of `layout` have the same bandwidth, 1 GB/s.
    pub unrated: IdList,
}

/// Why a machine has no layout: all memory is on one node, or no socket is near memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    #[error("all memory is on node {0}: there is nothing to steer")]
    OneNode(String),
    #[error("no CPU is near the memory of nodes {0}")]
    NoCpus(String),
}

impl HostLayout {
    /// Finds the domains (sockets) and tiers (nodes with memory) of `machine`.
    ///
    /// # Errors
    /// When the machine has fewer than two tiers, or no domain.
    pub fn new(machine: &Machine) -> Result<Self, LayoutError> {
        let nodes: Vec<&Node> =
            machine.by_speed().into_iter().filter(|node| node.total_bytes > 0).collect();
        if nodes.len() < 2 {
            return Err(LayoutError::OneNode(machine.memory_nodes().to_string()));
        }
        let unrated: IdList =
            nodes.iter().filter(|node| rated_gbps(node).is_none()).map(|node| node.id).collect();
        let rated = |node: &Node| rated_gbps(node).filter(|_| unrated.is_empty()).unwrap_or(1.0);
        let tiers = nodes.iter().map(|node| tier(node, rated(node))).collect();
        let domains: Vec<DomainLayout> = machine
            .sockets
            .iter()
            .map(|(socket, cpus)| domain(machine, *socket, cpus, &nodes))
            .filter(|domain| !domain.tiers.is_empty())
            .collect();
        if domains.is_empty() {
            return Err(LayoutError::NoCpus(machine.memory_nodes().to_string()));
        }
        let layout = Layout { domains, tiers, scopes: vec![] };
        Ok(Self { layout, nodes: nodes.iter().map(|node| node.id).collect(), unrated })
    }

    /// Converts `target` to the goal of an actuator. The goal has a whole percentage for each node
    /// near the domain (socket) of the target's scope. Nodes of other domains get no pages, because
    /// a target covers only the traffic of one domain.
    pub fn goal(&self, target: &Target) -> Goal {
        let near = &self.layout.domains[self.layout.scopes[target.scope].domain].tiers;
        let shares: Vec<f64> = near.iter().map(|tier| target.shares[*tier]).collect();
        let points = Weights::percent(&shares);
        let weights = points.as_slice().iter().map(|points| u32::from(*points));
        let near: Vec<u32> = near.iter().map(|tier| self.nodes[*tier]).collect();
        Goal {
            demotions: near.windows(2).take(1).map(|pair| (pair[0], pair[1])).collect(),
            nodes: near.into_iter().zip(weights).collect(),
            order: target.order,
            rate_limit_bytes_per_s: target.rate_limit_gbps.map(|gbps| (gbps * 1e9) as u64),
        }
    }
}

/// Returns the read bandwidth of a node as rated by the firmware, GB/s; `None` without a rating.
fn rated_gbps(node: &Node) -> Option<f64> {
    Some(node.rated.as_ref()?.read_mibps? as f64 * node::GBPS_OF_MIBPS)
}

fn tier(node: &Node, rated_gbps: f64) -> TierLayout {
    let is_expander = node.cpus.is_empty();
    let latency = node.rated.as_ref().and_then(|rated| rated.read_ns);
    TierLayout {
        name: format!("node{}", node.id),
        kind: if is_expander { TierKind::Cxl } else { TierKind::Dram },
        capacity_bytes: node.total_bytes,
        rated_gbps,
        rated_latency_ns: latency.map_or(UNRATED_NS[usize::from(is_expander)], |ns| ns as f64),
    }
}

/// Returns the domain of the socket `socket`, which has the CPUs `cpus`. The tiers of the domain
/// are the nodes near the socket, as indices into `nodes`.
fn domain(machine: &Machine, socket: u32, cpus: &IdList, nodes: &[&Node]) -> DomainLayout {
    let is_of_socket = |id: u32| {
        let node = machine.nodes.iter().find(|node| node.id == id);
        node.is_some_and(|node| node.cpus.iter().any(|cpu| cpus.has(cpu)))
    };
    let is_near = |node: &Node| machine.nearest(node).iter().any(is_of_socket);
    let near = nodes.iter().enumerate().filter(|(_, node)| is_near(node));
    DomainLayout {
        name: format!("socket{socket}"),
        cores: cpus.len() as u32,
        tiers: near.map(|(at, _)| at).collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::root::Root;
    use interleaf_model::machine::{Order, ScopeKind, ScopeLayout};
    use std::path::Path;

    fn layout(name: &str) -> Result<HostLayout, LayoutError> {
        let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines");
        HostLayout::new(&Machine::read(&Root::captured(machines.join(name))).unwrap())
    }

    /// Returns the domains (sockets) and their tiers as a text such as `socket0: node0 node2; ...`.
    fn text(host: &HostLayout) -> String {
        let tier = |at: &usize| host.layout.tiers[*at].name.clone();
        let domains = host.layout.domains.iter().map(|domain| {
            let tiers: Vec<String> = domain.tiers.iter().map(tier).collect();
            format!("{}: {}", domain.name, tiers.join(" "))
        });
        domains.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn sockets_have_the_nodes_near_them() {
        let table = [
            ("linux-6.17-four-nodes", "socket0: node0 node2; socket1: node1 node3"),
            ("linux-6.12-three-tiers", "socket0: node0 node1 node2"),
            ("linux-6.1-two-nodes-hmat", "socket0: node0 node1"),
            ("xeon6-two-sockets-cxl", "socket0: node0 node2; socket1: node1 node3"),
            ("epyc-cxl", "socket0: node0 node1"),
        ];
        for (name, expected) in table {
            assert_eq!(text(&layout(name).unwrap()), expected, "{name}");
        }
    }

    #[test]
    fn a_goal_is_of_the_nodes_near_a_domain() {
        let mut host = layout("xeon6-two-sockets-cxl").unwrap();
        for (domain, shares, expected) in [
            (0, [0.65, 0.0, 0.35, 0.0], [(0, 65), (2, 35)]),
            (1, [0.0, 1.0, 0.0, 0.0], [(1, 100), (3, 0)]),
        ] {
            let (name, kind) = (String::new(), ScopeKind::Machine);
            host.layout.scopes = vec![ScopeLayout { name, kind, domain, steered: true }];
            let (shares, order) = (shares.to_vec(), Order::Interleave);
            let rate_limit_gbps = Some(2.0);
            let goal = host.goal(&Target { scope: 0, shares, order, rate_limit_gbps });
            assert_eq!(goal.nodes, expected);
            assert_eq!(goal.demotions, [(expected[0].0, expected[1].0)], "its own expander");
            assert_eq!(goal.rate_limit_bytes_per_s, Some(2_000_000_000));
        }
    }

    #[test]
    fn ratings_are_the_firmwares_or_all_alike() {
        let rated = layout("linux-newest-two-nodes-hmat").unwrap();
        let tiers = &rated.layout.tiers;
        assert_eq!(
            (tiers[0].rated_gbps, tiers[1].rated_gbps),
            (536.870_912_000_000_1, 214.748_364_800_000_02)
        );
        assert_eq!((tiers[0].rated_latency_ns, tiers[1].rated_latency_ns), (100.0, 250.0));
        assert_eq!((tiers[0].kind, tiers[1].kind), (TierKind::Dram, TierKind::Cxl));
        assert!(rated.unrated.is_empty());
        let unrated = layout("hmat-latency-only").unwrap();
        assert_eq!(unrated.unrated.to_string(), "0-1");
        assert!(unrated.layout.tiers.iter().all(|tier| tier.rated_gbps == 1.0));
    }

    #[test]
    fn one_node_is_nothing_to_steer() {
        for name in ["linux-6.12-one-node", "kernel-without-numa"] {
            assert_eq!(layout(name), Err(LayoutError::OneNode("0".into())), "{name}");
        }
    }
}
