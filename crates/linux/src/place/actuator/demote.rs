//! Demotes cold pages while the fastest node near a socket is nearly full.
//!
//! Interleaving migrates only hot pages. Cold pages stay on the node of their first touch and fill
//! the fastest node, until new pages, including hot pages, are allocated on other nodes. DAMON's
//! watermarks apply to the whole machine, so this module checks each node's free memory.

use super::{
    Goal,
    context::{Destination, Quota, RESET_MS, Scheme},
};
use crate::{
    machine::node::{self, NODES},
    root::{Root, RootError},
};

/// Demotion begins when less than this fraction of the node's memory is free, or less than
/// [`BEGIN_BYTES`]. The prototype of the policy `dmi` begins at 1 % and ends at 2 %
/// (docs/model.md). Small nodes need the limit in bytes: the kernel treats a node of 512 MiB as
/// full when 5 % of its memory is still free.
const BEGIN: f64 = 0.02;
const BEGIN_BYTES: u64 = 64 << 20;

/// Demotion ends when the free memory reaches `END` times the amount at which demotion begins.
const END: u64 = 2;

/// A page is cold after this number of aggregation intervals, 1 s each, without an access. The
/// prototype of the policy `dmi` uses 15 s (docs/model.md).
pub(super) const COLD_AGE: u32 = 5;

/// The minimum quota of a demotion in a window, bytes, before [`Context::limit_rate`] reduces it.
///
/// [`Context::limit_rate`]: super::context::Context::limit_rate
const LEAST_BYTES: u64 = 1 << 20;

/// The state of each demotion in [`Goal::demotions`], in the same order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Guards(Vec<Guard>);

/// The state of the demotion from one node. The demotion has hysteresis: the free memory at which
/// it ends is larger than the free memory at which it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Guard {
    /// Bytes that the demotion still has to free; `None` while demotion is off.
    wanted_bytes: Option<u64>,
}

impl Guards {
    /// True while the cold pages of any node are demoted.
    pub(super) fn demotes(&self) -> bool {
        self.0.iter().any(|guard| guard.wanted_bytes.is_some())
    }

    /// Reads the free memory of the source node of each demotion of `goal`. Adds a message to
    /// `notes` when the demotion from a node begins or ends.
    pub(super) fn update(
        &mut self,
        root: &Root,
        goal: &Goal,
        notes: &mut Vec<String>,
    ) -> Result<(), RootError> {
        self.0.resize_with(goal.demotions.len(), Guard::default);
        for (guard, (from, to)) in self.0.iter_mut().zip(&goal.demotions) {
            let text = root.peek(&format!("{NODES}/node{from}/meminfo"))?.unwrap_or_default();
            let bytes = |key| node::size(&text, key);
            let before = guard.wanted_bytes.is_some();
            if let (Some(free), Some(total)) = (bytes("MemFree"), bytes("MemTotal")) {
                guard.step(free, total);
            }
            match (before, guard.wanted_bytes.is_some()) {
                (false, true) => {
                    notes.push(format!(
                        "node {from} is nearly full, and cold pages go to node {to}"
                    ));
                }
                (true, false) => {
                    notes.push(format!("node {from} has room again: cold pages stay there"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns each demotion's source node and scheme. The scheme of a demotion that is off matches
    /// no region of memory.
    pub(super) fn schemes(&self, goal: &Goal) -> Vec<(u32, Scheme)> {
        let scheme = |(at, (from, to)): (usize, &(u32, u32))| {
            let wanted_bytes = self.0.get(at).and_then(|guard| guard.wanted_bytes);
            let bytes = wanted_bytes.unwrap_or(LEAST_BYTES).max(LEAST_BYTES);
            let scheme = Scheme {
                action: "migrate_cold",
                to: Destination::Node(*to),
                accesses: wanted_bytes.map(|_| (0, 0)),
                age_min: COLD_AGE,
                quota: Some(Quota { bytes, reset_ms: RESET_MS }),
                goal: None,
                filters: vec![],
            };
            (*from, scheme)
        };
        goal.demotions.iter().enumerate().map(scheme).collect()
    }
}

impl Guard {
    /// Begins or ends the demotion from a node that has `free_bytes` of free memory. Updates the
    /// number of bytes that the demotion has to free.
    fn step(&mut self, free_bytes: u64, total_bytes: u64) {
        let begin = ((total_bytes as f64 * BEGIN) as u64).max(BEGIN_BYTES);
        let end = begin * END;
        let limit = if self.wanted_bytes.is_some() { end } else { begin };
        self.wanted_bytes = (free_bytes < limit).then(|| end - free_bytes);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use interleaf_model::machine::Order;
    use std::fs;

    /// Nodes 0 and 1 are the DRAM of two sockets, nodes 2 and 3 their expanders. Only node 1 is
    /// nearly full, so its cold pages go to node 3, and node 0 demotes nothing.
    #[test]
    fn each_socket_has_its_own() {
        let folder = tempfile::tempdir().unwrap();
        for (node, free_kib) in [(0, 9 << 20), (1, 1 << 10)] {
            let node = folder.path().join(format!("{NODES}/node{node}").trim_start_matches('/'));
            fs::create_dir_all(&node).unwrap();
            let text = format!("Node 1 MemTotal: 10485760 kB\nNode 1 MemFree: {free_kib} kB\n");
            fs::write(node.join("meminfo"), text).unwrap();
        }
        let root = Root::captured(folder.path());
        let goal = Goal {
            nodes: vec![(0, 30), (1, 30), (2, 20), (3, 20)],
            order: Order::Interleave,
            demotions: vec![(0, 2), (1, 3)],
            rate_limit_bytes_per_s: None,
        };
        let (mut guards, mut notes) = (Guards::default(), vec![]);
        guards.update(&root, &goal, &mut notes).unwrap();
        assert_eq!(notes, ["node 1 is nearly full, and cold pages go to node 3"]);
        let [(0, idle), (1, at_work)] = &guards.schemes(&goal)[..] else { panic!() };
        assert_eq!((idle.to.clone(), idle.accesses), (Destination::Node(2), None));
        assert_eq!((at_work.to.clone(), at_work.accesses), (Destination::Node(3), Some((0, 0))));
    }

    #[test]
    fn demotion_begins_below_its_threshold_and_ends_above_twice_of_it() {
        let mut guard = Guard::default();
        // On a node of 10 GiB, demotion begins below 204.8 MiB of free memory, and ends at 409.6
        // MiB. On a node of 1 GiB, it begins below 64 MiB. Each of `steps` is the free memory of
        // the large node and the memory that the demotion is then expected to free, MiB.
        let steps = [(300, None), (200, Some(209)), (400, Some(9)), (410, None), (300, None)];
        for (free, wanted) in steps {
            guard.step(free << 20, 10 << 30);
            assert_eq!(guard.wanted_bytes.map(|bytes| bytes >> 20), wanted, "{free}");
        }
        guard.step(65 << 20, 1 << 30);
        assert_eq!(guard.wanted_bytes, None);
        guard.step(60 << 20, 1 << 30);
        assert_eq!(guard.wanted_bytes, Some(68 << 20));
    }
}
