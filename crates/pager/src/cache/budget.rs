//! A budget that changes at run time: frames released to other processes or nodes, and taken back.

use super::{
    Cache,
    frame_pool::{Frame, ORDER_MAX},
    node::Node,
};

/// Maximum number of frames of a node that evictions free at a time in order to release them to
/// other processes or nodes ([`Cache::release_backlog`]). The number is limited, because the drive
/// has to write back the dirty pages.
const BACKLOG_MAX: u32 = 4096;

/// Resolution of the clock of loaded pages ([`Cache::time`]): the clock advances by about this many
/// ticks while the cache loads as many pages as the budget has frames. If the budget has fewer
/// frames than this number, each loaded page is a tick.
pub(super) const BUDGET_TICKS: u32 = 1024;

/// The frames of each node that are released to other processes or nodes.
#[derive(Clone, Debug)]
pub(super) struct Released {
    nodes: Vec<ReleasedOfNode>,
}

/// Frames of a node that are released to other processes or nodes.
#[derive(Clone, Debug, Default)]
struct ReleasedOfNode {
    /// Released blocks, which are taken from the pool of free frames: first frame and order of each
    /// block.
    blocks: Vec<(Frame, u8)>,
    /// Number of frames in all of `blocks`.
    frames: u32,
    /// Target of `frames`: the number of frames of the node beyond the node's share of the budget.
    target: u32,
    /// Number of blocks, from the beginning of `blocks`, that [`Cache::newly_released`] has already
    /// returned.
    reported: usize,
}

impl Released {
    pub(super) fn new(nodes: usize) -> Self {
        Self { nodes: vec![ReleasedOfNode::default(); nodes] }
    }

    /// Number of frames of a node that are released to other processes or nodes.
    fn frames(&self, node: Node) -> u32 {
        self.nodes[usize::from(node)].frames
    }

    /// True if the number of released frames of a node equals its target.
    pub(super) fn is_settled(&self, node: Node) -> bool {
        let node = &self.nodes[usize::from(node)];
        node.frames == node.target
    }
}

impl Cache {
    /// Sets the budget to `frames` frames, or to `Settings::frames` if that is less. If the budget
    /// shrinks, evictions follow; [`Cache::used_frames`] shows their progress.
    pub fn resize(&mut self, frames: u32) {
        self.shares.resize(frames.min(self.settings.frames));
        self.apply_shares();
        self.reclaim.loop_detector.resize(self.budget());
        if self.residency.is_unused() {
            self.release_frames();
        }
    }

    /// Sets the release target of each node: the frames above its share.
    pub(super) fn apply_shares(&mut self) {
        for node in self.nodes() {
            let target = self.division().max(node) - self.shares.share(node);
            self.released.nodes[usize::from(node)].target = target;
        }
    }

    /// Number of frames of a node that this process may use now: all except the released frames.
    pub(super) fn used_frames_of(&self, node: Node) -> u32 {
        self.division().max(node) - self.released.frames(node)
    }

    /// Number of frames that this process occupies now: its budget, or more while it releases
    /// frames.
    pub fn used_frames(&self) -> u32 {
        let used: u32 = self.nodes().map(|node| self.used_frames_of(node)).sum();
        // While a part of the budget moves from one node to another, the first node may have
        // released frames that the second node has not taken back yet. These frames still belong to
        // this process.
        used.max(self.budget())
    }

    /// Number of frames that hold pages.
    pub fn resident_frames(&self) -> u32 {
        self.nodes().map(|node| self.resident_frames_of(node)).sum()
    }

    /// The current budget, frames.
    pub fn budget(&self) -> u32 {
        self.shares.budget()
    }

    /// Number of loaded pages in one tick of the clock of loaded pages.
    pub(super) fn pages_per_tick(&self) -> u32 {
        (self.budget() / BUDGET_TICKS).max(1)
    }

    /// The time of the clock of loaded pages, ticks. The time wraps around.
    pub(super) fn time(&self) -> u16 {
        (self.residency.loaded_pages() / u64::from(self.pages_per_tick())) as u16
    }

    /// Number of pages loaded since the time `since` on the clock of loaded pages. The number is
    /// too small if the clock has wrapped around since then, which takes loads of about 64 times
    /// the budget.
    pub(super) fn pages_loaded_since(&self, since: u16) -> u32 {
        u32::from(self.time().wrapping_sub(since)).saturating_mul(self.pages_per_tick())
    }

    /// The current share of a node, frames.
    pub(super) fn budget_of(&self, node: Node) -> u32 {
        self.shares.share(node)
    }

    /// Number of frames that a node must still release, at most [`BACKLOG_MAX`]. Eviction frees
    /// these frames in addition to the node's reserve.
    pub(super) fn release_backlog(&self, node: Node) -> u32 {
        let released = &self.released.nodes[usize::from(node)];
        released.target.saturating_sub(released.frames).min(BACKLOG_MAX)
    }

    /// Returns the blocks released since the last call of this method: the first frame and the
    /// order of each block.
    pub fn newly_released(&mut self) -> Vec<(Frame, u8)> {
        let mut new = vec![];
        for ReleasedOfNode { blocks, reported, .. } in &mut self.released.nodes {
            new.extend_from_slice(&blocks[*reported..]);
            *reported = blocks.len();
        }
        new
    }

    /// Releases free frames, and the frames of inactive extents, up to the target of each node.
    /// Then takes frames back for nodes that have released more than their target.
    pub(super) fn release_frames(&mut self) {
        for node in self.nodes() {
            self.release_frames_of(node);
        }
        for node in self.nodes() {
            self.take_back(node);
        }
    }

    fn release_frames_of(&mut self, node: Node) {
        let index = usize::from(node);
        // Faults that wait for a frame of this node have priority over the release.
        while self.released.nodes[index].frames < self.released.nodes[index].target
            && !self.waiting.iter().any(|fault| fault.node == node)
        {
            let ReleasedOfNode { frames, target, .. } = &self.released.nodes[index];
            let max = (target - frames).ilog2().min(ORDER_MAX.into()) as u8;
            let residency = &mut self.residency;
            let block =
                (0..=max).rev().find_map(|order| Some((residency.allocate(node, order)?, order)));
            if let Some((frame, order)) = block {
                self.released.nodes[index].blocks.push((frame, order));
                self.released.nodes[index].frames += 1 << order;
            } else if self.drop_oldest_inactive(node).is_none() {
                return;
            }
        }
    }

    /// Takes back frames that a node has released above its target, as far as the budget of the
    /// process allows. Before more frames can be taken back, other nodes may have to release
    /// theirs.
    fn take_back(&mut self, node: Node) {
        let used: u32 = self.nodes().map(|node| self.used_frames_of(node)).sum();
        let free = self.budget().saturating_sub(used);
        let released = &mut self.released.nodes[usize::from(node)];
        let mut left = released.frames.saturating_sub(released.target).min(free);
        while left > 0 {
            let Some((frame, order)) = released.blocks.pop() else { return };
            released.reported = released.reported.min(released.blocks.len());
            if 1 << order <= left {
                left -= 1 << order;
                released.frames -= 1 << order;
                self.residency.deallocate(frame, order);
                continue;
            }
            // The block is split into halves. The half that is not taken back stays released, and
            // `newly_released` will report this half a second time. The second report is harmless:
            // the memory of the frames is given back to the kernel once more.
            let order = order - 1;
            released.blocks.extend([(frame + (1 << order), order), (frame, order)]);
        }
    }
}
