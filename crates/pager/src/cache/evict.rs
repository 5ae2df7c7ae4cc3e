//! Eviction: the choice of the victim among mapped extents, and the reserve of free frames.
//!
//! The pager cannot see touches of mapped pages. Therefore the order of replacement is first in,
//! first out with a second chance. The victim is the oldest mapped extent. The pager unmaps it, and
//! writes it back if dirty. The extent stays resident as *inactive* until its frames are needed. A
//! fault on an inactive extent is a *refault*, which shows that the extent belongs to the working
//! set.
//!
//! In a loop over more pages than the budget (see [`super::loop_detector`]), this order evicts each
//! page before its next use. In such a loop, a part of the pages is *protected*. The other pages
//! are *probationary*: each pass evicts a probationary page soon after it has mapped the page
//! (segmented LRU).

use super::{
    Action, Cache, Extent, ExtentState, Span,
    compact::CONTIGUOUS_ORDER_MIN,
    frame_pool::{Frame, ORDER_MAX},
    index::ExtentId,
    loop_detector::LoopDetector,
    node::Node,
};
use interleaf_prefetch::{is_history_stream, page::Page};
use std::ops::Range;

/// The *reserve* of a node is the number of its frames to keep free or inactive (with an unmapped,
/// clean page). Pages that are read or filled with zeros get these frames while evicted pages are
/// still being written back. The maximum of the reserve is the node's share of the budget divided
/// by `RESERVE_DIVISOR`, at most `RESERVE_MAX` frames (64 MiB), and at least twice the initial
/// fault-around (`Settings::order`).
const RESERVE_DIVISOR: u32 = 16;
const RESERVE_MAX: u32 = 1 << 14;

/// Early evictions (of pages that are needed again soon after, `loop_detector.rs`) raise the
/// maximum of the reserve. The increase is the node's share of the budget, times the fraction of
/// reads and refaults that early evictions have caused, divided by `EARLY_SHARE_DIVISOR`. The
/// increase is at most the node's share divided by `INACTIVE_DIVISOR`. With a larger reserve, more
/// pages are inactive. The pager sees touches of inactive pages as refaults, and keeps the touched
/// pages resident. A matrix product needs such a reserve: for each row of one matrix, it reads all
/// of another matrix again.
const EARLY_SHARE_DIVISOR: f64 = 2.0;
const INACTIVE_DIVISOR: u32 = 4;

/// Number of frames by which the reserve grows for each allocated frame. The reserve shrinks by one
/// for each refaulted frame. While the working set fits into the budget, refaults keep the reserve
/// small, so that no page of the working set is evicted.
const RESERVE_GROWTH: u32 = 2;

/// An allocation stops dropping inactive extents when the number of free frames reaches this
/// multiple of the needed frames. If the needed frames are still not contiguous, the free frames
/// are fragmented, and the allocation is smaller.
const FRAGMENTED_FACTOR: u32 = 4;

/// Value in place of [`RESERVE_DIVISOR`] in a long loop, which walks through arrays in order
/// (`loop_detector.rs`). The reserve is then small, because each frame that holds no protected page
/// costs a read in each pass.
const LONG_RESERVE_DIVISOR: u32 = 256;

/// In a loop over more pages than the budget, each node keeps a number of frames (the probationary
/// share) for probationary extents, which a pass evicts soon after their use. The share is the
/// node's share of the budget divided by `PROBATIONARY_DIVISOR`, or in a long loop by
/// `LONG_PROBATIONARY_DIVISOR`. It is larger if the streams need more: one extent of maximum length
/// for each active stream, plus one more extent. The newest pages of the streams are in these
/// extents, and may still be in use.
const PROBATIONARY_DIVISOR: u32 = 32;
const LONG_PROBATIONARY_DIVISOR: u32 = 256;

/// Upper limit of a probationary share that the active streams increase: the node's share of the
/// budget divided by `PROBATIONARY_MAX_DIVISOR`, or in a long loop by
/// `LONG_PROBATIONARY_MAX_DIVISOR`.
const PROBATIONARY_MAX_DIVISOR: u32 = 8;
const LONG_PROBATIONARY_MAX_DIVISOR: u32 = 32;

/// In a long loop, a new extent becomes protected only if this many times its size would still fit:
/// the protected extents and this number of frames together must not exceed the maximum
/// ([`Cache::protected_max`]).
const PROTECT_SLACK: u32 = 2;

/// In loops that are not long loops, a new extent displaces a protected extent if the new extent's
/// reuse distances are shorter by this factor: the upper end of their range is at most the lower
/// end of the protected extent's range, divided by this number.
const DISPLACE_DIVISOR: u32 = 2;

/// Maximum number of protected extents that are examined to make room for one new protected extent.
/// This limit bounds the time of the search.
const DISPLACE_EXAMINED: u32 = 32;

/// In a loop, one in this number of huge pages becomes protected. Without this *bimodal insertion*,
/// the pages of an earlier phase would stay protected for ever (Qureshi et al., "Adaptive Insertion
/// Policies for High Performance Caching", ISCA 2007).
const BIMODAL_ONE_IN: u64 = 16;

/// In a long loop, one in this number of huge pages becomes protected. These are fewer than in
/// other loops, for two reasons. First, the node evicts its oldest protected pages in return
/// (`inserted_frames`), and the loop may have to read these pages again. Second, samples
/// (`loop_detector.rs`) also find protected pages that the loop does not use.
const LONG_BIMODAL_ONE_IN: u64 = 64;

/// Length of a round of bimodal insertion, as a multiple of the frames of the cache: a round ends
/// when loops have mapped this many times as many frames as the cache has. Bimodal insertion
/// selects other huge pages in each round.
const BIMODAL_ROUND: u64 = 4;

/// True if bimodal insertion protects `page` in this round. The result is the same for all pages of
/// a huge page, because the gaps between single protected pages would be too short for long
/// transfers.
const fn is_bimodal_sample(page: Page, round: u64, one_in: u64) -> bool {
    hash(page >> ORDER_MAX, round).is_multiple_of(one_in)
}

/// Hashes two numbers by Fibonacci hashing (Knuth, The Art of Computer Programming vol. 3, section
/// 6.4).
const fn hash(low: u64, high: u64) -> u64 {
    (low ^ high << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// The state of eviction: of the whole cache, and of each node.
#[derive(Clone, Debug)]
pub(super) struct Reclaim {
    pub(super) loop_detector: LoopDetector,
    /// Number of frames mapped in loops so far. This number is the clock of the rounds of bimodal
    /// insertion ([`BIMODAL_ROUND`]).
    loop_frames: u64,
    /// True if a device or a system call pinned the last victim, so that the victim stays mapped.
    is_victim_pinned: bool,
    nodes: Vec<ReclaimOfNode>,
}

/// The state of eviction of one node.
#[derive(Clone, Copy, Debug, Default)]
struct ReclaimOfNode {
    /// Time of the last failed attempt to make free frames of the node contiguous (`compact.rs`),
    /// as the number of pages that the cache had loaded by then.
    gathered_at: u64,
    /// Number of frames that bimodal insertion has protected, minus the frames of the oldest
    /// protected extents that were evicted in return.
    inserted_frames: u32,
    /// Number of frames to keep free or inactive.
    reserve: u32,
    /// True if an allocation of at least 2^[`CONTIGUOUS_ORDER_MIN`] contiguous frames has failed.
    /// The next reclaim of frames then begins with compaction.
    is_fragmented: bool,
}

impl Reclaim {
    pub(super) fn new(frames: u32, nodes: usize) -> Self {
        Self {
            loop_detector: LoopDetector::new(frames),
            loop_frames: 0,
            is_victim_pinned: false,
            nodes: vec![ReclaimOfNode::default(); nodes],
        }
    }

    fn node_mut(&mut self, node: Node) -> &mut ReclaimOfNode {
        &mut self.nodes[usize::from(node)]
    }

    /// Number of frames that a node keeps free or inactive.
    pub(super) fn reserve(&self, node: Node) -> u32 {
        self.nodes[usize::from(node)].reserve
    }

    /// Returns the time of the last failed attempt to make free frames of `node` contiguous, as the
    /// number of pages that the cache had loaded by then.
    pub(super) fn gathered_at_mut(&mut self, node: Node) -> &mut u64 {
        &mut self.node_mut(node).gathered_at
    }

    /// Notes that an extent is mapped. `node` is the node of its frames, and `frames` is the number
    /// of frames of the cache. Returns true if the extent belongs in the probationary queue.
    /// `has_room` is the result of [`Cache::has_room_to_protect`] for the extent.
    pub(super) fn on_map(
        &mut self,
        extent: &Extent,
        node: Node,
        frames: u32,
        has_room: bool,
    ) -> bool {
        let span = extent.span();
        self.loop_detector.on_map(&span.pages());
        let is_loop = self.loop_detector.is_loop();
        let is_of_loop = extent.stream != 0 && is_loop;
        let loop_frames = u64::from(extent.frames()) * u64::from(is_of_loop);
        self.loop_frames = self.loop_frames.wrapping_add(loop_frames);
        let round = self.loop_frames / (BIMODAL_ROUND * u64::from(frames));
        // A probationary extent stays probationary after a refault.
        let is_probationary = is_of_loop || extent.is_probationary && is_loop;
        if !is_probationary || has_room {
            return false;
        }
        let is_long = self.loop_detector.is_long_loop();
        let one_in = if is_long { LONG_BIMODAL_ONE_IN } else { BIMODAL_ONE_IN };
        let is_inserted = is_bimodal_sample(span.page, round, one_in);
        self.node_mut(node).inserted_frames += extent.frames() * u32::from(is_inserted);
        !is_inserted
    }

    /// Counts a refault: a touch of an extent of `frames` frames that is inactive or being evicted.
    pub(super) fn on_refault(&mut self, node: Node, frames: u32) {
        let node = self.node_mut(node);
        node.reserve = node.reserve.saturating_sub(frames);
        self.loop_detector.on_refault(frames);
    }

    /// Notes that an extent was unmapped. The last victim then no longer counts as pinned.
    pub(super) const fn on_unmapped(&mut self) {
        self.is_victim_pinned = false;
    }

    /// Notes that the last victim cannot be unmapped, because a device or a system call pins it.
    pub(super) const fn on_pinned_victim(&mut self) {
        self.is_victim_pinned = true;
    }
}

impl Cache {
    /// Moves shares of the budget between nodes. Then evicts extents of each node until its reserve
    /// is full, so that frames are free or inactive before a fault needs them.
    pub(super) fn reclaim_frames(&mut self, actions: &mut Vec<Action>) {
        self.move_shares();
        for node in self.nodes() {
            self.reclaim_frames_of(node, actions);
        }
    }

    fn reclaim_frames_of(&mut self, node: Node, actions: &mut Vec<Action>) {
        if std::mem::take(&mut self.reclaim.node_mut(node).is_fragmented) {
            self.compact(node, actions);
        }
        if self.is_store_stuck() && self.waiting.is_empty() {
            // Do not evict, because write-back would fail, and no thread waits for a frame.
            return;
        }
        let (max, backlog) = (self.reserve_max(node), self.release_backlog(node));
        let of_node = self.reclaim.node_mut(node);
        of_node.reserve = of_node.reserve.min(max);
        let (reserve, max) = (of_node.reserve + backlog, max + backlog);
        while self.residency.reclaimable_frames(node) < reserve {
            if let Some(id) = self.stale_prefetch(node) {
                self.drop_prefetched(id);
            } else if let Some(pages) = self.protected_sample(node, max) {
                self.evict_all(self.residency.all_in(&pages), actions);
            } else if let Some(id) = self.victim(node, max) {
                self.evict_block(id, actions);
            } else if let Some(id) = self.residency.oldest_prefetched(node) {
                self.drop_prefetched(id);
            } else {
                return;
            }
        }
    }

    /// Maximum of the reserve of a node, without the frames that the node must still release
    /// ([`Cache::release_backlog`]).
    fn reserve_max(&self, node: Node) -> u32 {
        let is_long = self.reclaim.loop_detector.is_long_loop();
        let divisor = if is_long { LONG_RESERVE_DIVISOR } else { RESERVE_DIVISOR };
        let frames = self.budget_of(node);
        let reserve = (frames / divisor).min(RESERVE_MAX);
        let early = self.reclaim.loop_detector.early_eviction_share();
        let inactive = (f64::from(frames) * early / EARLY_SHARE_DIVISOR) as u32;
        (reserve + inactive.min(frames / INACTIVE_DIVISOR)).max(2 << self.settings.order)
    }

    /// Grows the reserve of a node for frames that are being allocated.
    fn grow_reserve(&mut self, node: Node, frames: u32) {
        let max = self.reserve_max(node);
        let of_node = self.reclaim.node_mut(node);
        of_node.reserve = (of_node.reserve + frames * RESERVE_GROWTH).min(max);
    }

    /// Allocates at most 2^`order_max` contiguous frames of a node. Returns the first frame and the
    /// order of the allocated block. Drops inactive extents until 2^`order_max` contiguous frames
    /// are free. If enough frames are free but fragmented, makes them contiguous
    /// ([`Cache::gather`]) or allocates fewer frames. Also allocates fewer frames if no more can be
    /// freed now. `None` if evictions in progress will free enough frames, or if not even one frame
    /// can be freed now.
    pub(super) fn allocate(
        &mut self,
        node: Node,
        order_max: u8,
        actions: &mut Vec<Action>,
    ) -> Option<(Frame, u8)> {
        self.grow_reserve(node, 1 << order_max);
        for order in (0..=order_max).rev() {
            while self.residency.free_frames(node) < FRAGMENTED_FACTOR << order {
                if let Some(frame) = self.residency.allocate(node, order) {
                    return Some((frame, order));
                }
                if self.drop_oldest_inactive(node).is_none() {
                    break;
                }
            }
            if let Some(frame) = self.residency.allocate(node, order) {
                return Some((frame, order));
            }
            let are_evicting = self.residency.evicting_frames(node) >= 1 << order;
            if self.residency.free_frames(node) < FRAGMENTED_FACTOR << order
                && are_evicting
                && !self.reclaim.is_victim_pinned
            {
                return None;
            }
            if self.gather(node, order, actions)
                && let Some(frame) = self.residency.allocate(node, order)
            {
                return Some((frame, order));
            }
            self.reclaim.node_mut(node).is_fragmented |= order >= CONTIGUOUS_ORDER_MIN;
        }
        None
    }

    /// Maximum number of frames that the protected extents of a node may hold in a loop. The other
    /// frames are for the reserve, for prefetched pages, and for probationary extents.
    fn protected_max(&self, node: Node, reserve: u32) -> u32 {
        let frames = self.budget_of(node);
        let of_streams = (self.prefetch.active_streams() + 1) << self.prefetch_order_max();
        let (divisor, max_divisor, prefetched) = match self.reclaim.loop_detector.is_long_loop() {
            // Subtract the maximum number of frames with prefetched pages, not the present number.
            // The present number varies, and each of its peaks would evict protected pages, which
            // are read again later.
            true => {
                let prefetched = self.prefetched_frames_max(node);
                (LONG_PROBATIONARY_DIVISOR, LONG_PROBATIONARY_MAX_DIVISOR, prefetched)
            }
            false => (PROBATIONARY_DIVISOR, PROBATIONARY_MAX_DIVISOR, self.prefetch.frames(node)),
        };
        let probationary = (frames / divisor).max(of_streams.min(frames / max_divisor));
        frames.saturating_sub(reserve + prefetched + probationary)
    }

    /// True in a long loop, if the protected extents of a node have room for another extent of
    /// `frames` frames ([`PROTECT_SLACK`]). Always false in other loops.
    pub(super) fn has_room_to_protect(&self, node: Node, frames: u32) -> bool {
        if !self.reclaim.loop_detector.is_long_loop() {
            return false;
        }
        let reserve = self.reserve_max(node) + self.release_backlog(node);
        let max = self.protected_max(node, reserve);
        self.residency.protected_frames(node) + PROTECT_SLACK * frames <= max
            && !self.reclaim.loop_detector.is_releasing_protected()
    }

    /// True if the protected extents of a node hold at most [`Cache::protected_max`] frames, and
    /// the loop detector is not releasing them. Probationary extents are then evicted before
    /// protected extents.
    fn is_protected_within_share(&self, node: Node, reserve: u32) -> bool {
        self.residency.protected_frames(node) <= self.protected_max(node, reserve)
            && !self.reclaim.loop_detector.is_releasing_protected()
    }

    /// Returns the protected pages to evict as a sample, to test whether the loop still uses
    /// protected pages (`loop_detector.rs`); `None` if no sample is due. A sample has as many pages
    /// as the longest extent: the gaps that smaller samples leave would fit no long transfer.
    fn protected_sample(&self, node: Node, reserve: u32) -> Option<Range<Page>> {
        let oldest = self.residency.oldest_protected(node);
        let oldest = oldest.filter(|_| self.is_protected_within_share(node, reserve))?;
        let order = self.prefetch_order_max();
        let is_time = self.residency.oldest_probationary(node).is_some()
            && self.reclaim.loop_detector.is_time_to_sample(1 << order);
        let start = self.residency.extent(oldest).span().page >> order << order;
        is_time.then_some(start..start + (1 << order))
    }

    /// Chooses the victim among the mapped extents of a node.
    ///
    /// While the protected extents do not exceed their maximum ([`Cache::protected_max`]) and are
    /// not being released, the victim is the oldest probationary extent. Otherwise it is the oldest
    /// protected extent, or in a long loop the newest, whose next use is the farthest away. If the
    /// node has no extent of the preferred kind, the victim is of the other kind.
    ///
    /// Even a long loop evicts the oldest protected extent in two cases: in return for pages that
    /// bimodal insertion has protected (`inserted_frames`), and if the last victim was pinned. A
    /// pinned victim was mapped again, and is now the newest extent.
    fn victim(&mut self, node: Node, reserve: u32) -> Option<ExtentId> {
        let probationary = self.residency.oldest_probationary(node);
        let is_long = self.reclaim.loop_detector.is_long_loop();
        if !is_long {
            self.reclaim.node_mut(node).inserted_frames = 0;
        }
        let first = probationary.filter(|_| self.is_protected_within_share(node, reserve));
        let oldest = self.residency.oldest_protected(node);
        let is_victim_pinned = self.reclaim.is_victim_pinned;
        let inserted_frames = self.reclaim.node_mut(node).inserted_frames;
        let protected = match is_long && inserted_frames == 0 && !is_victim_pinned {
            true => self.residency.newest_protected(node),
            false => oldest,
        };
        let victim = first.or(protected).or(probationary)?;
        if Some(victim) == oldest && first.is_none() {
            let frames = self.residency.extent(victim).frames();
            self.reclaim.node_mut(node).inserted_frames = inserted_frames.saturating_sub(frames);
        }
        Some(victim)
    }

    /// Evicts a mapped extent, and all other mapped extents in the aligned block of frames around
    /// it. The block has the length of the largest fault-around: a fault needs a whole free block,
    /// and evictions of single extents would rarely free all frames of a block.
    fn evict_block(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        let Span { frame, order, .. } = self.residency.extent(id).span();
        let block_order = self.fault_around.order_max();
        self.evict(id, actions);
        if order < block_order {
            let first = frame >> block_order << block_order;
            self.evict_all(self.residency.in_frames(first, 1 << block_order), actions);
        }
    }

    /// Evicts the extents of `ids` that are mapped and not pinned.
    fn evict_all(&mut self, ids: Vec<ExtentId>, actions: &mut Vec<Action>) {
        for id in ids {
            let extent = self.residency.extent(id);
            if extent.state == ExtentState::Mapped && !extent.is_pinned {
                self.evict(id, actions);
            }
        }
    }

    fn evict(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        let extent = self.residency.extent(id);
        let detector = &mut self.reclaim.loop_detector;
        match extent.is_probationary {
            true => detector.on_unmap_probationary(extent.frames()),
            false => detector.on_unmap_protected(extent.span().pages()),
        }
        self.unmap(id, actions);
    }

    /// Makes room among the protected extents of a node for a new extent of a loop, with `frames`
    /// pages from `page` on. Protected extents whose reuse distances are much longer than those of
    /// `page` ([`DISPLACE_DIVISOR`]) become probationary. Returns false if too few of the oldest
    /// protected extents have such long distances, or if no distance of `page` is known. Always
    /// returns false in a long loop, where each reuse distance is the length of a pass.
    pub(super) fn displace_protected(&mut self, page: Page, node: Node, frames: u32) -> bool {
        let detector = &self.reclaim.loop_detector;
        let distance = detector.reuse_distance(page).filter(|_| !detector.is_long_loop());
        let Some(distance) = distance else { return false };
        let mut displaced = 0;
        for _ in 0..DISPLACE_EXAMINED {
            let Some(id) = self.residency.oldest_protected(node) else { return false };
            let is_longer = distance.end <= self.least_reuse_distance(id) / DISPLACE_DIVISOR;
            let extent = *self.residency.extent(id);
            self.residency.remove_mapped(id);
            if is_longer {
                self.reclaim.loop_detector.on_late_eviction(&extent.span().pages());
                displaced += extent.frames();
                self.residency.extent_mut(id).is_probationary = true;
            }
            self.residency.push_mapped(id);
            if displaced >= frames {
                return true;
            }
        }
        false
    }

    /// The lower end of the range of reuse distances of a mapped extent, in evicted pages. If no
    /// distance is known, the number of pages loaded since the extent was mapped takes its place:
    /// the extent was not read again in this time, and about as many pages were evicted as were
    /// loaded.
    fn least_reuse_distance(&self, id: ExtentId) -> u32 {
        let extent = self.residency.extent(id);
        let known = self.reclaim.loop_detector.reuse_distance(extent.span().page);
        known.map_or_else(|| self.pages_loaded_since(extent.since), |distance| distance.start)
    }

    /// Drops the oldest inactive extent of a node; `None` if there is none.
    pub(super) fn drop_oldest_inactive(&mut self, node: Node) -> Option<()> {
        let id = self.residency.oldest_inactive(node)?;
        self.drop_inactive(id);
        Some(())
    }

    /// Drops an inactive extent, which is clean, and frees its frames.
    pub(super) fn drop_inactive(&mut self, id: ExtentId) {
        self.remove_ready(id);
        self.counts.evicted += u64::from(self.residency.extent(id).frames());
        self.remove(id);
    }

    /// Drops a prefetched extent that was never touched.
    pub(super) fn drop_prefetched(&mut self, id: ExtentId) {
        let extent = *self.residency.extent(id);
        self.remove_ready(id);
        self.remove(id);
        let frames = extent.frames_read_ahead();
        self.counts.prefetch_wasted += frames;
        self.counts.history.wasted += if is_history_stream(extent.stream) { frames } else { 0 };
        self.prefetch.on_wasted(extent.stream, &extent.span().pages());
    }
}
