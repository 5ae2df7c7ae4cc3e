//! Which pages should go to which node: pure, and no more than the ratio lacks.
//!
//! A window is 2 MiB of addresses, or 64 units where units are large. In each window the pages that
//! are there are divided by the weights; a node that has more than its part gives away the
//! difference, and no other page moves. What rounding leaves over is carried into the next window,
//! so that the whole is right to one page for each node. Of 512 pages on node 0 with weights 60:40,
//! in the first window 205 go, in the next 204, in the next 205: 40 % of 512 are 204.8.
//!
//! Windows are small because a program that walks through memory should meet both nodes all the
//! time; they are no smaller because a page that is in the right window is where it should be, and
//! moving it would be for nothing.

use super::sequence::Sequence;
use crate::machine::id_list::IdList;
use std::collections::BTreeMap;

/// Bytes of a window, where units are not larger than a 64th of that.
const WINDOW_BYTES: u64 = 2 << 20;

/// The fewest units that make a window: with fewer a ratio means little.
const WINDOW_UNITS: u64 = 64;

/// The part of the pages that each node should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(BTreeMap<u32, u32>);

/// Why nodes with weights are no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// A node with two weights.
    #[error("node {0} has two weights")]
    Twice(u32),
    /// Nothing but zeros.
    #[error("no node has a weight above zero, so there is nowhere for pages to be")]
    Nowhere,
    /// They cannot be calculated with.
    #[error("the weights sum to {0}, which is not below 2^32")]
    TooLarge(u64),
    /// Nodes that are not there or have no memory.
    #[error("no node {missing} with memory: the machine has {has}")]
    Absent {
        /// The nodes.
        missing: IdList,
        /// Those that the machine has.
        has: IdList,
    },
}

impl Target {
    /// Nodes with their weights, in any order. A weight of zero, or no weight, keeps a node free of
    /// pages. Pages are divided as the weights among each other: 3:1 is 75:25.
    ///
    /// # Errors
    /// When a node comes twice, no weight is above zero, or their sum is not below 2^32.
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

    /// All nodes that were named, with their weights, by number.
    pub fn weights(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.iter().map(|(node, weight)| (*node, *weight))
    }

    /// The nodes that should have pages.
    pub fn nodes(&self) -> IdList {
        self.weights().filter(|(_, weight)| *weight > 0).map(|(node, _)| node).collect()
    }

    /// The part of all pages that a node should have, 0 to 1.
    pub fn share(&self, node: u32) -> f64 {
        let sum: f64 = self.0.values().map(|weight| f64::from(*weight)).sum();
        self.0.get(&node).map_or(0.0, |weight| f64::from(*weight) / sum)
    }

    /// Checks that all nodes are among those with memory, `has`.
    ///
    /// # Errors
    /// The nodes that are not.
    pub fn check(&self, has: &IdList) -> Result<(), TargetError> {
        let missing: IdList = self.0.keys().copied().filter(|node| !has.has(*node)).collect();
        let has = has.clone();
        if missing.is_empty() { Ok(()) } else { Err(TargetError::Absent { missing, has }) }
    }
}

/// What moves as one: a page, or a huge page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its first address, bytes.
    pub address: u64,
    /// How many pages of the machine it is, from 1.
    pub pages: u32,
    /// Where it is.
    pub place: Place,
}

/// Where a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: it has not been touched, or is swapped out.
    Absent,
    /// On this node.
    On(u32),
    /// On this node, and not to be moved: it has been tried.
    Stuck(u32),
}

/// What should move, in the order of addresses, small units before large ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What goes where.
    pub moves: Vec<Move>,
    /// Units, by their place in the list, that should go but are stuck.
    pub kept: Vec<usize>,
}

/// What goes where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The unit, by its place in the list.
    pub unit: usize,
    /// The node that it is on.
    pub from: u32,
    /// The node that it should be on.
    pub to: u32,
}

/// Plans stretch after stretch of addresses, and carries over what rounding leaves.
///
/// Planning the same stretches again from the start, with the pages where the first plan wanted
/// them, gives no moves.
#[derive(Clone, Debug)]
pub struct Planner {
    page_bytes: u64,
    /// The target's nodes, and behind them all others that pages were found on.
    nodes: Vec<u32>,
    /// Whose turn it would be, if nothing were anywhere yet.
    fresh: Sequence,
    /// Where the turns are for units of each size: what a large unit rounds away cannot be made up
    /// for by the few small ones in the next window.
    turns: BTreeMap<u32, Sequence>,
}

/// What is known of a node in a window. All are counts of units.
#[derive(Clone, Copy, Debug, Default)]
struct NodeUnits {
    /// That are on it.
    has: u64,
    /// That are on it and can move.
    movable: u64,
    /// That should be on it.
    wanted: u64,
    /// That should leave and can.
    leaving: u64,
    /// That should leave and cannot.
    kept: u64,
    /// Where it stands in spreading the leaving ones over the movable ones.
    spread: u64,
}

impl Planner {
    /// A planner for pages of `page_bytes`.
    pub fn new(target: &Target, page_bytes: u64) -> Self {
        let nodes = target.weights().map(|(node, _)| node).collect();
        let weights: Vec<u64> = target.weights().map(|(_, weight)| u64::from(weight)).collect();
        let fresh = Sequence::new(&weights);
        Self { page_bytes: page_bytes.max(1), nodes, fresh, turns: BTreeMap::new() }
    }

    /// What should move of units in the order of their addresses. They should be whole windows, or
    /// the windows that they cut are two.
    pub fn plan(&mut self, units: &[Unit]) -> Plan {
        let mut sizes: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let (mut size, mut of_size) = (0, vec![]);
        for (at, unit) in units.iter().enumerate() {
            // Neighbours are most often alike: the map is asked only where they are not.
            if unit.pages != size {
                sizes.insert(size, of_size);
                size = unit.pages;
                of_size = sizes.remove(&size).unwrap_or_default();
            }
            if unit.place != Place::Absent {
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

    /// Plans a window: the units at `of_window`, all of them resident and of `size` pages.
    fn window(&mut self, units: &[Unit], size: u32, of_window: &[usize], plan: &mut Plan) {
        let mut parts = self.parts(units, of_window);
        let turns = self.turns.entry(size).or_insert_with(|| self.fresh.clone());
        let mut wanted = vec![0; parts.len()];
        turns.count_turns(of_window.len() as u64, &mut wanted);
        let mut lacking = vec![0; parts.len()];
        for ((part, wanted), lacking) in parts.iter_mut().zip(wanted).zip(&mut lacking) {
            part.wanted = wanted;
            *lacking = wanted.saturating_sub(part.has);
            let surplus = part.has.saturating_sub(wanted);
            part.leaving = surplus.min(part.movable);
            part.kept = surplus - part.leaving;
            part.spread = part.movable / 2;
        }
        if parts.iter().all(|part| part.leaving == 0 && part.kept == 0) {
            return;
        }
        // As many are lacking as leave or are kept, so there is someone whose turn it is.
        let mut to = Sequence::new(&lacking);
        for at in of_window {
            match units[*at].place {
                Place::On(node) => {
                    let part = &mut parts[self.slot(node)];
                    part.spread += part.leaving;
                    if part.spread >= part.movable {
                        part.spread -= part.movable;
                        let to = self.nodes[to.turn()];
                        plan.moves.push(Move { unit: *at, from: node, to });
                    }
                }
                Place::Stuck(node) => {
                    let part = &mut parts[self.slot(node)];
                    if part.kept > 0 {
                        part.kept -= 1;
                        plan.kept.push(*at);
                    }
                }
                Place::Absent => {}
            }
        }
    }

    /// What each node has in a window.
    fn parts(&mut self, units: &[Unit], of_window: &[usize]) -> Vec<NodeUnits> {
        let mut parts = vec![NodeUnits::default(); self.nodes.len()];
        for at in of_window {
            let (node, movable) = match units[*at].place {
                Place::On(node) => (node, 1),
                Place::Stuck(node) => (node, 0),
                Place::Absent => continue,
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

    /// Where a node stands; the end when it is not known yet. There are few.
    fn slot(&self, node: u32) -> usize {
        self.nodes.iter().position(|known| *known == node).unwrap_or(self.nodes.len())
    }
}

#[cfg(test)]
mod tests;
