//! Plans the migration of pages to nodes, so that the nodes have pages in the ratio of their
//! weights after the fewest moves. The functions here are pure.
//!
//! A *unit* is a page or a huge page. A *window* is 2 MiB of addresses, or 64 units if 64 units are
//! larger than 2 MiB. The units of each size are planned separately.
//!
//! In each window the resident units are divided among the nodes in proportion to the weights. Only
//! the excess units of a node move. The remainder of rounding is carried into the next window, so
//! each node gets its share of all units of a size to within one unit. Example: each window has 512
//! pages, all on node 0, and the weights are 60:40. As 40 % of a window are 204.8 pages, 205 pages
//! move in the first window, 204 in the second and 205 in the third.
//!
//! Windows are small so that a program that reads memory in order uses all nodes all the time.
//! Smaller windows would move more pages without a benefit.

use super::sequence::Sequence;
use crate::machine::id_list::IdList;
use std::collections::BTreeMap;

/// Size of a window, bytes: the range of addresses within which the ratio is reached. If a unit (a
/// page or a huge page) is larger than a 64th of this size, a window has [`WINDOW_UNITS`] units.
const WINDOW_BYTES: u64 = 2 << 20;

/// Minimum number of units (pages or huge pages) in a window: fewer units approximate a ratio
/// badly.
const WINDOW_UNITS: u64 = 64;

/// The weight of each node. The weights give the share of the pages that each node should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(BTreeMap<u32, u32>);

/// The reason why nodes with weights are not a valid target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("node {0} has two weights")]
    Twice(u32),
    #[error("no node has a weight above zero, so there is nowhere for pages to be")]
    Nowhere,
    #[error("the weights sum to {0}, which is not below 2^32")]
    TooLarge(u64),
    /// Some nodes of the target are missing or have no memory.
    #[error("no node {missing} with memory: the machine has {has}")]
    Absent {
        missing: IdList,
        /// The nodes with memory of the machine.
        has: IdList,
    },
}

impl Target {
    /// Makes a target from nodes with weights, in any order. Pages are divided in proportion to the
    /// weights: 3:1 is 75:25. A node with a weight of zero, or without a weight, gets no pages.
    ///
    /// # Errors
    /// When a node is listed twice, no weight is above zero, or the sum of the weights is not below
    /// 2^32.
    pub fn new(weights: impl IntoIterator<Item = (u32, u32)>) -> Result<Self, TargetError> {
        let mut all = BTreeMap::new();
        for (node, weight) in weights {
            if all.insert(node, weight).is_some() {
                return Err(TargetError::Twice(node));
            }
        }
        match all.values().map(|weight| u64::from(*weight)).sum() {
            0 => Err(TargetError::Nowhere),
            1..=0xffff_ffff => Ok(Self(all)),
            sum => Err(TargetError::TooLarge(sum)),
        }
    }

    /// Returns the ID and the weight of each node of the target, in order of the IDs.
    pub fn weights(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.iter().map(|(node, weight)| (*node, *weight))
    }

    /// Returns the nodes that should have pages.
    pub fn nodes(&self) -> IdList {
        self.weights().filter(|(_, weight)| *weight > 0).map(|(node, _)| node).collect()
    }

    /// Returns the share of the pages that a node should have, 0 to 1.
    pub fn share(&self, node: u32) -> f64 {
        let sum: f64 = self.0.values().map(|weight| f64::from(*weight)).sum();
        self.0.get(&node).map_or(0.0, |weight| f64::from(*weight) / sum)
    }

    /// Checks that `has`, the list of the nodes with memory, has all nodes of the target.
    ///
    /// # Errors
    /// When `has` lacks nodes of the target, which the error lists.
    pub fn check(&self, has: &IdList) -> Result<(), TargetError> {
        let missing: IdList = self.0.keys().copied().filter(|node| !has.has(*node)).collect();
        let has = has.clone();
        if missing.is_empty() { Ok(()) } else { Err(TargetError::Absent { missing, has }) }
    }
}

/// A page or a huge page, which migrates as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The address of the first byte of the page or huge page.
    pub address: u64,
    /// The size of the page or huge page in base pages, at least 1.
    pub pages: u32,
    pub location: PageLocation,
}

/// The location of a unit (a page or a huge page), and whether the unit can migrate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageLocation {
    /// The page or huge page is not resident: it was never touched, or is swapped out.
    NotResident,
    OnNode(u32),
    /// The page or huge page is on this node and cannot migrate: an attempt failed, or other
    /// processes map it too.
    Unmovable(u32),
}

/// The planned moves of units (pages and huge pages), the smallest units first; units of the same
/// size in order of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub moves: Vec<Move>,
    /// The unmovable units (pages or huge pages) that should move, as indices into the list given
    /// to [`Planner::plan`].
    pub unmovable: Vec<usize>,
}

/// A planned move of a unit (a page or a huge page) to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The index of the page or huge page in the list of units given to [`Planner::plan`].
    pub unit: usize,
    /// The node that the page or huge page is on.
    pub from: u32,
    /// The target node.
    pub to: u32,
}

/// Plans moves for successive ranges of addresses, and carries rounding remainders over.
///
/// Once the moves of a plan have been made, a new planner plans no moves for the same ranges.
#[derive(Clone, Debug)]
pub struct Planner {
    page_bytes: u64,
    /// The target's nodes, followed by other nodes on which pages were found.
    nodes: Vec<u32>,
    /// The sequence of nodes in proportion to the weights, at its first position. `turns` gets a
    /// copy of it for each size of units.
    fresh: Sequence,
    /// For each size of units, in base pages, the sequence of nodes at its present position. Huge
    /// pages and base pages do not share a sequence, because base pages would then have to make up
    /// for the rounding remainder of huge pages, and a window may have too few base pages for that.
    turns: BTreeMap<u32, Sequence>,
}

/// Numbers of a node's units (pages or huge pages of one size) in a window of addresses.
#[derive(Clone, Copy, Debug, Default)]
struct NodeUnits {
    /// Units (pages or huge pages) on the node.
    has: u64,
    /// Movable units (pages or huge pages) on the node.
    movable: u64,
    /// Units (pages or huge pages) that the node should have after the moves.
    wanted: u64,
    /// Movable units (pages or huge pages) that will leave the node.
    leaving: u64,
    /// Unmovable units (pages or huge pages) that should leave the node.
    unmovable: u64,
    /// Error accumulator, as in Bresenham's algorithm. It spreads the units that leave the node
    /// evenly over the movable units (pages or huge pages).
    spread: u64,
}

impl Planner {
    /// Returns a planner for base pages of `page_bytes`.
    pub fn new(target: &Target, page_bytes: u64) -> Self {
        let nodes = target.weights().map(|(node, _)| node).collect();
        let weights: Vec<u64> = target.weights().map(|(_, weight)| u64::from(weight)).collect();
        let fresh = Sequence::new(&weights);
        Self { page_bytes: page_bytes.max(1), nodes, fresh, turns: BTreeMap::new() }
    }

    /// Plans moves for units (pages and huge pages), which must be in the order of their addresses.
    /// The units should fill whole windows: a window whose units are divided between two calls is
    /// planned as two windows.
    pub fn plan(&mut self, units: &[Unit]) -> Plan {
        let mut sizes: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let (mut size, mut of_size) = (0, vec![]);
        for (at, unit) in units.iter().enumerate() {
            // Neighbours mostly have the same size, so look up the map only when the size changes.
            if unit.pages != size {
                sizes.insert(size, of_size);
                size = unit.pages;
                of_size = sizes.remove(&size).unwrap_or_default();
            }
            if unit.location != PageLocation::NotResident {
                of_size.push(at);
            }
        }
        sizes.insert(size, of_size);
        let mut plan = Plan::default();
        for (size, all) in &sizes {
            let bytes = u64::from(*size).saturating_mul(self.page_bytes);
            let window_bytes = bytes.saturating_mul(WINDOW_UNITS).max(WINDOW_BYTES);
            let window = |at: &usize| units[*at].address / window_bytes;
            for units_of_window in all.chunk_by(|a, b| window(a) == window(b)) {
                self.window(units, *size, units_of_window, &mut plan);
            }
        }
        plan
    }

    /// Plans the moves of one window. `indices` select the units of the window from `units`. All of
    /// them are resident and have `size` base pages.
    fn window(&mut self, units: &[Unit], size: u32, indices: &[usize], plan: &mut Plan) {
        let mut parts = self.parts(units, indices);
        let turns = self.turns.entry(size).or_insert_with(|| self.fresh.clone());
        let mut wanted = vec![0; parts.len()];
        turns.count_turns(indices.len() as u64, &mut wanted);
        let mut lacking = vec![0; parts.len()];
        for ((part, wanted), lacking) in parts.iter_mut().zip(wanted).zip(&mut lacking) {
            part.wanted = wanted;
            *lacking = wanted.saturating_sub(part.has);
            let surplus = part.has.saturating_sub(wanted);
            part.leaving = surplus.min(part.movable);
            part.unmovable = surplus - part.leaving;
            part.spread = part.movable / 2;
        }
        if parts.iter().all(|part| part.leaving == 0 && part.unmovable == 0) {
            return;
        }
        // In total, the nodes with too few units lack as many units as the other nodes have in
        // excess. Only excess units move, so each move has a target.
        let mut to = Sequence::new(&lacking);
        for at in indices {
            match units[*at].location {
                PageLocation::OnNode(node) => {
                    let part = &mut parts[self.slot(node)];
                    part.spread += part.leaving;
                    if part.spread >= part.movable {
                        part.spread -= part.movable;
                        let to = self.nodes[to.next_member()];
                        plan.moves.push(Move { unit: *at, from: node, to });
                    }
                }
                PageLocation::Unmovable(node) => {
                    let part = &mut parts[self.slot(node)];
                    if part.unmovable > 0 {
                        part.unmovable -= 1;
                        plan.unmovable.push(*at);
                    }
                }
                PageLocation::NotResident => {}
            }
        }
    }

    /// Counts the units of a window on each node of `self.nodes`, and appends nodes that
    /// `self.nodes` lacks. `indices` select the units of the window from `units`.
    fn parts(&mut self, units: &[Unit], indices: &[usize]) -> Vec<NodeUnits> {
        let mut parts = vec![NodeUnits::default(); self.nodes.len()];
        for at in indices {
            let (node, movable) = match units[*at].location {
                PageLocation::OnNode(node) => (node, 1),
                PageLocation::Unmovable(node) => (node, 0),
                PageLocation::NotResident => continue,
            };
            let slot = self.slot(node);
            if slot == self.nodes.len() {
                self.nodes.push(node);
                parts.push(NodeUnits::default());
            }
            parts[slot].has += 1;
            parts[slot].movable += movable;
        }
        parts
    }

    /// Returns the index of a node in `self.nodes`, or the length of `self.nodes` if it lacks the
    /// node. A linear search suffices, because the list is short.
    fn slot(&self, node: u32) -> usize {
        self.nodes.iter().position(|known| *known == node).unwrap_or(self.nodes.len())
    }
}

#[cfg(test)]
mod tests;
