//! NUMA nodes: the division of the frames among the nodes, and the share that each node has of the
//! budget.
//!
//! Each node has its own frames, whose memory is bound to the node. A fault loads its page into a
//! frame of the node that the faulting thread runs on. A prefetch uses the node of the thread that
//! caused the prefetch. A resident page keeps its frame even if only threads of another node use
//! the page. The page moves to the other node only when it is evicted and loaded again.
//!
//! Each node evicts independently, with its own replacement queues and its own reserve of free
//! frames. The shares of a budget are fixed, or follow the *demand* of each node. The demand is the
//! number of pages that are loaded for the node, plus its refaults. A node that needs frames first
//! gets frames that another node does not use. After that, a node with more demand takes frames
//! from a node with less demand.
//!
//! On a machine with one node, this node has all frames and the whole budget.

use super::{
    Cache,
    frame_pool::{Frame, ORDER_MAX},
};
use std::ops::Range;

/// The index of a NUMA node in the list of the nodes that have frames of the budget.
pub type Node = u8;

/// Maximum number of nodes of a budget.
pub const NODES_MAX: usize = 16;

/// Number of steps in an *even share*, which is the budget divided by the number of nodes. The
/// share of a node changes by one step at a time. A step is rounded down to a power of two, and is
/// at most a huge page.
const STEPS: u32 = 16;

/// The demand of all nodes is halved when the number of pages loaded or refaulted since the last
/// halving exceeds the budget divided by this number. After loads and refaults of half the budget,
/// the demand has been halved four times. Earlier loads then count 1/16, so that the shares follow
/// the new demand.
const DEMAND_DIVISOR: u32 = 8;

/// Minimum share of a node with demand: its even share divided by this number. Below this minimum,
/// only spare frames ([`Cache::spare`]) move to other nodes.
const SHARE_MIN_DIVISOR: u32 = 8;

/// The division of a budget among nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// Maximum number of frames that each node may use.
    max: Vec<u32>,
    /// True if the shares follow the demand.
    is_by_use: bool,
}

impl Division {
    /// A division with one node, which has all `frames`.
    pub fn single(frames: u32) -> Self {
        Self { max: vec![frames], is_by_use: false }
    }

    /// A division whose shares follow the demand of the nodes. Each node may use as many frames as
    /// the whole budget has, but not more than its `available` frames of memory.
    pub fn by_use(frames: u32, available: &[u32]) -> Self {
        let available = &available[..available.len().min(NODES_MAX)];
        // The frame numbers of all nodes must fit in a `u32`. Round down to whole huge pages,
        // because `stride` rounds up to whole huge pages.
        let numbers = u32::MAX / (available.len() as u32).max(1);
        let numbers = numbers >> ORDER_MAX << ORDER_MAX;
        let max = available.iter().map(|available| frames.min(*available).min(numbers));
        Self { max: max.collect(), is_by_use: available.len() > 1 }
    }

    /// A division with fixed shares: `frames` has the number of frames of each node.
    pub fn fixed(frames: &[u32]) -> Self {
        Self { max: frames.iter().copied().take(NODES_MAX).collect(), is_by_use: false }
    }

    pub fn nodes(&self) -> Range<Node> {
        0..self.max.len() as Node
    }

    pub const fn len(&self) -> usize {
        self.max.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.max.is_empty()
    }

    /// Maximum number of frames that a node may use.
    pub fn max(&self, node: Node) -> u32 {
        self.max[usize::from(node)]
    }

    /// The distance from the first frame number of a node to the first frame number of the next
    /// node. With several nodes, this distance is a multiple of a huge page, so that no huge page
    /// belongs to two nodes.
    fn stride(&self) -> u32 {
        let max = self.max.iter().copied().max().unwrap_or(0);
        if self.max.len() > 1 { max.next_multiple_of(1 << ORDER_MAX) } else { max }
    }

    /// The first frame of a node.
    pub fn first(&self, node: Node) -> Frame {
        self.stride() * u32::from(node)
    }

    pub fn node_of(&self, frame: Frame) -> Node {
        if self.max.len() > 1 { (frame / self.stride()) as Node } else { 0 }
    }

    /// The length of the range of frame numbers of all nodes. Not all numbers have a frame, because
    /// each node has as many numbers as the largest node, rounded up to a huge page.
    pub fn frames(&self) -> u32 {
        self.stride() * self.max.len() as u32
    }
}

/// The shares of the budget that the nodes have, and the demand of each node.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    division: Division,
    /// The share of each node, frames. The sum of all shares is the budget.
    shares: Vec<u32>,
    /// Recent loads and refaults of each node, frames.
    demand: Vec<u64>,
    /// Number of frames loaded or refaulted since the demand was halved last.
    loads: u64,
}

impl Shares {
    pub(super) fn new(division: Division, budget: u32) -> Self {
        let nodes = division.len();
        let mut shares =
            Self { division, shares: vec![0; nodes], demand: vec![0; nodes], loads: 0 };
        shares.divide(budget);
        shares
    }

    pub(super) fn budget(&self) -> u32 {
        self.shares.iter().sum()
    }

    /// The share of a node, frames.
    pub(super) fn share(&self, node: Node) -> u32 {
        self.shares[usize::from(node)]
    }

    /// Divides a changed budget among the nodes. If the shares follow the demand, each node gets a
    /// part in proportion to its present share, and otherwise in proportion to its fixed share.
    pub(super) fn resize(&mut self, budget: u32) {
        if budget != self.budget() {
            self.divide(budget);
        }
    }

    fn divide(&mut self, budget: u32) {
        let of = |at: usize| match (self.division.is_by_use, self.budget()) {
            (true, 0) => 1,
            (true, _) => u64::from(self.shares[at]),
            (false, _) => u64::from(self.division.max[at]),
        };
        let weights: Vec<u64> = (0..self.shares.len()).map(of).collect();
        let all: u64 = weights.iter().sum();
        let mut left = budget;
        for ((share, weight), max) in self.shares.iter_mut().zip(weights).zip(&self.division.max) {
            let part = (u64::from(budget) * weight).checked_div(all).unwrap_or(0) as u32;
            *share = part.min(*max);
            left -= *share;
        }
        // Distribute the frames that are left: remainders of the division, and frames that exceed
        // the memory of a node.
        for (share, max) in self.shares.iter_mut().zip(&self.division.max) {
            let more = left.min(max - *share);
            *share += more;
            left -= more;
        }
    }

    /// Adds `frames` frames, which were loaded or refaulted, to the demand of a node.
    pub(super) fn count_demand(&mut self, node: Node, frames: u32) {
        if !self.division.is_by_use {
            return;
        }
        self.demand[usize::from(node)] += u64::from(frames);
        self.loads += u64::from(frames);
        if self.loads > u64::from(self.budget() / DEMAND_DIVISOR) {
            self.loads = 0;
            self.demand.iter_mut().for_each(|demand| *demand /= 2);
        }
    }

    /// The number of frames by which the share of a node changes in one step.
    fn step(&self) -> u32 {
        let even = self.budget() / self.shares.len() as u32;
        (1 << (even / STEPS).max(1).ilog2()).min(1 << ORDER_MAX)
    }

    /// The part of the budget that is in proportion to the demand of a node, but at least
    /// [`Shares::min`]; 0 for a node without demand.
    fn desired(&self, node: Node) -> u32 {
        let all: u64 = self.demand.iter().sum();
        let demand = self.demand[usize::from(node)];
        let desired = u128::from(demand) * u128::from(self.budget());
        let desired = desired.checked_div(all.into()).unwrap_or(0) as u32;
        if demand > 0 { desired.max(self.min()) } else { 0 }
    }

    /// Minimum share of a node with demand, frames.
    fn min(&self) -> u32 {
        self.budget() / self.shares.len() as u32 / SHARE_MIN_DIVISOR
    }

    /// Moves one step of frames from the share of another node to the share of `node`. Returns true
    /// if frames were moved. Takes them from the first of these three nodes that exists: the node
    /// with the most spare frames (`spare`), if these are at least a step; the node whose share
    /// most exceeds its desired share, if the demand of `node` calls for a larger share; the node
    /// with the largest share, if `node` is below the minimum share.
    fn take_for(&mut self, node: Node, spare: &[u32]) -> bool {
        let step = self.step();
        if self.share(node) + step > self.division.max(node) {
            return false;
        }
        let others = || self.division.nodes().filter(|it| *it != node && self.share(*it) >= step);
        let surplus = |other: &Node| self.share(*other).saturating_sub(self.desired(*other));
        let by_spare = others().filter(|other| spare[usize::from(*other)] >= step);
        let by_spare = by_spare.max_by_key(|other| spare[usize::from(*other)]);
        let by_demand = others().filter(|other| surplus(other) >= step);
        let by_demand = by_demand.max_by_key(surplus);
        let by_demand = by_demand.filter(|_| self.share(node) + step <= self.desired(node));
        // The minimum share must not depend on demand: a node without frames cannot load pages, and
        // therefore has no demand.
        let by_need = others().max_by_key(|other| self.share(*other));
        let by_need = by_need.filter(|_| self.share(node) < self.min());
        let Some(from) = by_spare.or(by_demand).or(by_need) else { return false };
        self.shares[usize::from(from)] -= step;
        self.shares[usize::from(node)] += step;
        true
    }
}

impl Cache {
    pub(super) fn nodes(&self) -> Range<Node> {
        self.shares.division.nodes()
    }

    /// The division of the frames among nodes.
    pub const fn division(&self) -> &Division {
        &self.shares.division
    }

    pub(super) fn node_of(&self, frame: Frame) -> Node {
        self.shares.division.node_of(frame)
    }

    /// Moves parts of the budget to nodes that lack frames and are about to evict. Does nothing if
    /// the shares are fixed.
    pub(super) fn move_shares(&mut self) {
        if !self.shares.division.is_by_use {
            return;
        }
        for node in self.nodes() {
            // The share of a node changes again only after the node has released, or taken back,
            // the frames of the last change.
            while self.is_short(node) && self.released.is_settled(node) {
                let spare: Vec<u32> = self.nodes().map(|node| self.spare(node)).collect();
                if !self.shares.take_for(node, &spare) {
                    break;
                }
                self.apply_shares();
                self.release_frames();
            }
        }
    }

    /// Number of free frames of a node that are neither in its reserve nor still to be released to
    /// other processes or nodes.
    fn spare(&self, node: Node) -> u32 {
        let needed = self.reclaim.reserve(node) + self.release_backlog(node);
        self.residency.free_frames(node).saturating_sub(needed)
    }

    /// True if a node is about to evict because it lacks frames.
    fn is_short(&self, node: Node) -> bool {
        self.residency.reclaimable_frames(node) < self.reclaim.reserve(node)
    }

    /// Returns the node into whose frames a faulting page is loaded if no page on `node`, the node
    /// of the faulting thread, can be evicted. `None` if a page on `node` can be evicted, or if no
    /// other node has a share of the budget.
    pub(super) fn fallback_node(&self, node: Node) -> Option<Node> {
        if self.residency.has_victims(node) {
            return None;
        }
        let others = self.nodes().filter(|other| *other != node && self.budget_of(*other) > 0);
        others.max_by_key(|other| self.residency.reclaimable_frames(*other))
    }

    /// Number of frames of a node that hold pages.
    pub fn resident_frames_of(&self, node: Node) -> u32 {
        self.used_frames_of(node).saturating_sub(self.residency.free_frames(node))
    }
}
