//! The NUMA nodes that hold a pager's frames: their numbers, their CPUs, and their shares of the
//! budget.

use crate::cache::node::{Division, NODES_MAX, Node};
use interleaf_procfs::{files::Files, page::PAGE_BYTES, stat::Stat};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Time for which the node that a thread runs on is cached. Without the cache, each fault would
/// read a file of `/proc`, which takes microseconds.
const STALE_AFTER: Duration = Duration::from_millis(10);

/// Maximum number of threads whose node is cached.
const THREADS_MAX: usize = 4096;

/// A node that holds a part of the budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeBudget {
    /// The number that Linux gives to the node.
    pub node: u32,
    /// The CPUs whose threads use the node. These are the CPUs of the node, and the CPUs of nodes
    /// without a budget that are nearer to this node than to the other nodes with a budget.
    pub cpus: Vec<u32>,
    /// Memory of the node that is available for the budget, bytes.
    pub available_bytes: u64,
    /// The node's fixed share of the budget, bytes; `None` if the shares of the nodes follow their
    /// loads and refaults (`cache/node.rs`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dram_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// The number that Linux gives to each node; empty if all memory counts as one node.
    numbers: Vec<u32>,
    /// For each CPU number, the node whose frames the threads on this CPU use, as an index into
    /// `numbers`.
    of_cpu: Vec<Node>,
    /// Maximum number of frames of each node: its fixed share of the budget, or all of its
    /// available memory if the shares follow the demand of the nodes.
    frames: Vec<u32>,
    is_fixed: bool,
}

impl Nodes {
    /// All memory counts as one node: the kernel chooses the NUMA node of each page.
    pub fn single() -> Self {
        Self::default()
    }

    /// The nodes of `budgets`. Budgets after the first [`NODES_MAX`] are ignored. All memory counts
    /// as one node if `budgets` has fewer than two entries and none has a fixed share.
    pub fn new(budgets: &[NodeBudget]) -> Self {
        let budgets = &budgets[..budgets.len().min(NODES_MAX)];
        let is_fixed = budgets.iter().any(|budget| budget.dram_bytes.is_some());
        if budgets.len() < 2 && !is_fixed {
            return Self::single();
        }
        let cpus = budgets.iter().flat_map(|budget| budget.cpus.iter().copied());
        let mut of_cpu = vec![0; cpus.max().map_or(0, |cpu| cpu as usize + 1)];
        for (node, budget) in (0..).zip(budgets) {
            budget.cpus.iter().for_each(|cpu| of_cpu[*cpu as usize] = node);
        }
        let frames = |budget: &NodeBudget| {
            let bytes = match is_fixed {
                true => budget.dram_bytes.unwrap_or(0),
                false => budget.available_bytes,
            };
            let frames = bytes / PAGE_BYTES as u64;
            u32::try_from(frames).unwrap_or(u32::MAX)
        };
        Self {
            numbers: budgets.iter().map(|budget| budget.node).collect(),
            of_cpu,
            frames: budgets.iter().map(frames).collect(),
            is_fixed,
        }
    }

    /// The numbers of the nodes; empty if all memory counts as one node.
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// The division of a budget of `frames` frames among the nodes.
    pub fn division(&self, frames: u32) -> Division {
        match (self.numbers.is_empty(), self.is_fixed) {
            (true, _) => Division::single(frames),
            (false, true) => Division::fixed(&self.frames),
            (false, false) => Division::by_use(frames, &self.frames),
        }
    }

    /// The node whose frames the threads on the CPU with the number `cpu` use.
    pub fn of_cpu(&self, cpu: usize) -> Node {
        self.of_cpu.get(cpu).copied().unwrap_or(0)
    }
}

/// A cache of the nodes that the threads of this process run on.
#[derive(Debug, Default)]
pub(crate) struct ThreadNodes {
    /// The node of each thread, and the time at which the node was read.
    known: HashMap<u32, (Node, Instant)>,
}

impl ThreadNodes {
    /// The node that `thread` runs on. The thread has just faulted, and sleeps until the pager
    /// serves the fault.
    pub(crate) fn node_of(&mut self, nodes: &Nodes, thread: u32, now: Instant) -> Node {
        if nodes.numbers.len() < 2 {
            return 0;
        }
        if let Some((node, read_at)) = self.known.get(&thread)
            && now.saturating_duration_since(*read_at) < STALE_AFTER
        {
            return *node;
        }
        if self.known.len() >= THREADS_MAX {
            self.known.clear();
        }
        let line = Files::live().of_thread(thread, "stat").ok().flatten().unwrap_or_default();
        let cpu = Stat::parse(&line).and_then(|stat| stat.cpu());
        let node = cpu.map_or(0, |cpu| nodes.of_cpu(cpu));
        self.known.insert(thread, (node, now));
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(node: u32, cpus: &[u32], dram_bytes: Option<u64>) -> NodeBudget {
        NodeBudget { node, cpus: cpus.to_vec(), available_bytes: 1 << 20, dram_bytes }
    }

    #[test]
    fn cpus_belong_to_the_nodes_that_name_them() {
        let nodes = Nodes::new(&[budget(0, &[0, 2], None), budget(4, &[1, 5], None)]);
        assert_eq!([0, 1, 2, 5].map(|cpu| nodes.of_cpu(cpu)), [0, 1, 0, 1]);
        assert_eq!(nodes.of_cpu(99), 0, "a CPU that was plugged in later");
        assert_eq!(nodes.numbers(), [0, 4]);
        assert_eq!(nodes.division(100), Division::by_use(100, &[256, 256]));
    }

    #[test]
    fn fixed_shares_are_whole_frames() {
        let nodes = [budget(0, &[0], Some(8192)), budget(1, &[1], Some(4097))];
        assert_eq!(Nodes::new(&nodes).division(3), Division::fixed(&[2, 1]));
        assert_eq!(Nodes::new(&nodes[..1]).numbers(), [0], "its memory is bound");
    }

    #[test]
    fn one_node_is_not_placed() {
        assert_eq!(Nodes::new(&[budget(0, &[0], None)]), Nodes::single());
        assert_eq!(Nodes::single().division(7), Division::single(7));
    }
}
