//! Residency: the pages that are in DRAM, with their frames and replacement queues.
//!
//! A mapped extent is in the *protected* or the *probationary* queue; a pinned extent is in no
//! queue. A ready extent is in the *inactive* or the *prefetched* queue. Inactive extents were
//! unmapped, or are the untouched rest of a probe (`fault_around.rs`). Prefetched extents were
//! never touched. Each queue begins with its oldest extent. Each NUMA node has its own queues, for
//! the extents in its frames.

use super::{
    Extent, ExtentState, Span,
    compact::FrameOwners,
    frame_pool::{Frame, FramePool},
    index::{ExtentId, Index},
    node::{Division, Node},
    queue::{ExtentQueue, Links},
};
use interleaf_prefetch::page::Page;
use std::ops::Range;

/// Maximum number of extents on each side of a range of pages that `Residency::mapped_around`
/// examines.
const MAPPED_AROUND_MAX: u32 = 64;

/// The free frames of a node, and the replacement queues of the extents in its other frames.
#[derive(Clone, Debug)]
struct NodeFrames {
    /// The free frames, whose indices are counted from the first frame of the node.
    pool: FramePool,
    /// Mapped extents that are neither probationary nor pinned.
    protected: ExtentQueue,
    protected_frames: u32,
    /// Mapped extents of a loop over more pages than the budget, except the protected extents of
    /// the loop. The extents in this queue are the first victims.
    probationary: ExtentQueue,
    /// Unmapped, clean and resident extents: a fault on such an extent is minor (second chance).
    inactive: ExtentQueue,
    inactive_frames: u32,
    /// Prefetched extents that are ready and were never touched.
    prefetched: ExtentQueue,
    /// Number of frames of the extents that are being unmapped or written back.
    evicting_frames: u32,
    /// Number of extents that are being filled or mapped.
    in_flight: u32,
}

impl NodeFrames {
    /// A node whose `frames` frames are all free.
    fn new(frames: u32) -> Self {
        Self {
            pool: FramePool::new(frames),
            protected: ExtentQueue::new(),
            protected_frames: 0,
            probationary: ExtentQueue::new(),
            inactive: ExtentQueue::new(),
            inactive_frames: 0,
            prefetched: ExtentQueue::new(),
            evicting_frames: 0,
            in_flight: 0,
        }
    }
}

/// The extents that are resident or being loaded, with their frames and queues.
#[derive(Clone, Debug)]
pub(super) struct Residency {
    division: Division,
    nodes: Vec<NodeFrames>,
    index: Index,
    extents: Vec<Extent>,
    /// The indices in `extents` that are free for new extents.
    free_ids: Vec<ExtentId>,
    owners: FrameOwners,
    links: Links,
    /// Number of pages loaded so far. This number is the clock of fault-around and prefetch.
    loaded_pages: u64,
}

impl Residency {
    /// The initial state: no page is resident, and all frames are free.
    pub(super) fn new(division: Division) -> Self {
        let nodes = division.nodes().map(|node| NodeFrames::new(division.max(node))).collect();
        Self {
            nodes,
            index: Index::default(),
            extents: vec![],
            free_ids: vec![],
            owners: FrameOwners::new(division.frames()),
            links: Links::default(),
            loaded_pages: 0,
            division,
        }
    }

    pub(super) fn extent(&self, id: ExtentId) -> &Extent {
        &self.extents[id as usize]
    }

    pub(super) fn extent_mut(&mut self, id: ExtentId) -> &mut Extent {
        &mut self.extents[id as usize]
    }

    fn node(&self, node: Node) -> &NodeFrames {
        &self.nodes[usize::from(node)]
    }

    /// The node of a frame, and the index that the frame has in the pool of this node.
    fn pool_frame(&self, frame: Frame) -> (usize, Frame) {
        let node = self.division.node_of(frame);
        (usize::from(node), frame - self.division.first(node))
    }

    pub(super) fn find(&self, page: Page) -> Option<ExtentId> {
        self.index.get(page)
    }

    pub(super) const fn count(&self) -> usize {
        self.extents.len() - self.free_ids.len()
    }

    /// True if no extent ever existed.
    pub(super) const fn is_unused(&self) -> bool {
        self.extents.is_empty()
    }

    /// The first extent that contains one of `pages`.
    pub(super) fn first_in(&self, pages: Range<Page>) -> Option<ExtentId> {
        self.index.first_extent(pages).map(|(_, id)| id)
    }

    /// All extents that contain at least one of `pages`.
    pub(super) fn all_in(&self, pages: &Range<Page>) -> Vec<ExtentId> {
        let mut found = vec![];
        let mut rest = pages.clone();
        while let Some(id) = self.first_in(rest.clone()) {
            found.push(id);
            rest.start = self.extent(id).span().pages().end;
        }
        found
    }

    /// The extents whose first frame is one of the `count` frames from `frame` on.
    pub(super) fn in_frames(&self, frame: Frame, count: u32) -> Vec<ExtentId> {
        self.owners.within(frame, count).collect()
    }

    /// The extent that begins with this frame.
    pub(super) fn owner(&self, frame: Frame) -> Option<ExtentId> {
        self.owners.get(frame)
    }

    /// The order of the largest aligned block of 2^order pages around `page` in which no page
    /// belongs to an extent; at most `max`.
    pub(super) fn largest_absent_order(&self, page: Page, max: u8) -> u8 {
        self.index.largest_free_order(page, max)
    }

    /// Extends `pages` by the mapped extents that adjoin them, at most [`MAPPED_AROUND_MAX`]
    /// extents on each side.
    pub(super) fn mapped_around(&self, pages: &Range<Page>) -> Range<Page> {
        let mapped = |page: Page| {
            let extent = self.extent(self.find(page)?);
            matches!(extent.state, ExtentState::Mapped).then(|| extent.span().pages())
        };
        let Range { mut start, mut end } = pages.clone();
        for _ in 0..MAPPED_AROUND_MAX {
            let Some(before) = start.checked_sub(1).and_then(mapped) else { break };
            start = before.start;
        }
        for _ in 0..MAPPED_AROUND_MAX {
            let Some(behind) = mapped(end) else { break };
            end = behind.end;
        }
        start..end
    }

    pub(super) fn add(&mut self, extent: Extent) -> ExtentId {
        let span = extent.span();
        let id = self.free_ids.pop().unwrap_or_else(|| {
            self.extents.push(extent);
            self.extents.len() as ExtentId - 1
        });
        self.replace(id, extent);
        self.index.set(span.page, span.order, Some(id));
        id
    }

    /// Replaces the extent with the identifier `id` by `extent`, which has a part of the former
    /// extent's pages, or the same pages in other frames. In the first case, the caller adds the
    /// other pages as another extent.
    pub(super) fn replace(&mut self, id: ExtentId, extent: Extent) {
        self.owners.set(extent.span().frame, id);
        self.extents[id as usize] = extent;
    }

    /// Removes an extent that is in no queue, and frees its frames.
    pub(super) fn remove(&mut self, id: ExtentId) -> Span {
        let span = self.extent(id).span();
        self.owners.clear(span.frame);
        self.index.set(span.page, span.order, None);
        self.deallocate(span.frame, span.order);
        self.free_ids.push(id);
        span
    }

    /// Allocates 2^`order` contiguous frames of a node, and returns the first of these frames;
    /// `None` if no free block is large enough.
    pub(super) fn allocate(&mut self, node: Node, order: u8) -> Option<Frame> {
        let frame = self.nodes[usize::from(node)].pool.allocate(order)?;
        Some(self.division.first(node) + frame)
    }

    /// Frees frames that [`Residency::allocate`] allocated.
    pub(super) fn deallocate(&mut self, frame: Frame, order: u8) {
        let (node, frame) = self.pool_frame(frame);
        self.nodes[node].pool.deallocate(frame, order);
    }

    pub(super) fn free_frames(&self, node: Node) -> u32 {
        self.node(node).pool.free_frames()
    }

    /// Returns at most `count` aligned huge pages of a node that have both free and used frames:
    /// those with the most free frames. Each element has the first frame of a huge page, and the
    /// number of its free frames.
    pub(super) fn emptiest(&self, node: Node, count: usize) -> Vec<(Frame, u32)> {
        let first = self.division.first(node);
        let found = self.node(node).pool.emptiest(count);
        found.into_iter().map(|(frame, free)| (first + frame, free)).collect()
    }

    /// The number of frames of the free block that begins with `frame`; `None` if no free block
    /// begins with it.
    pub(super) fn free_block(&self, frame: Frame) -> Option<u32> {
        let (node, frame) = self.pool_frame(frame);
        self.nodes[node].pool.free_block(frame)
    }

    /// Allocates 2^`order` contiguous frames outside `avoided`, on the same node: from a free block
    /// of fewer than 2^`order_max` frames that does not begin in `avoided`.
    pub(super) fn allocate_outside(
        &mut self,
        avoided: &Range<Frame>,
        order: u8,
        order_max: u8,
    ) -> Option<Frame> {
        let (node, start) = self.pool_frame(avoided.start);
        let first = avoided.start - start;
        let avoided = start..avoided.end - first;
        let frame = self.nodes[node].pool.allocate_outside(&avoided, order, order_max)?;
        Some(first + frame)
    }

    /// Moves an extent to other frames of the same node, those from `frame` on, which the caller
    /// has allocated. Frees the former frames of the extent.
    pub(super) fn change_frames(&mut self, id: ExtentId, frame: Frame) {
        let extent = *self.extent(id);
        let span = extent.span();
        self.owners.clear(span.frame);
        self.deallocate(span.frame, span.order);
        self.replace(id, extent.with_span(Span { frame, ..span }));
    }

    /// The frames and queues of an extent's node, the links of all queues, and the extent.
    fn queues(&mut self, id: ExtentId) -> (&mut NodeFrames, &mut Links, &Extent) {
        let extent = &self.extents[id as usize];
        let node = self.division.node_of(extent.span().frame);
        (&mut self.nodes[usize::from(node)], &mut self.links, extent)
    }

    /// Puts a ready extent at the end of the inactive or the prefetched queue.
    pub(super) fn push_ready(&mut self, id: ExtentId) {
        let (node, links, extent) = self.queues(id);
        if extent.stream != 0 {
            node.prefetched.push(links, id);
        } else {
            node.inactive_frames += extent.frames();
            node.inactive.push(links, id);
        }
    }

    /// Takes a ready extent out of its queue.
    pub(super) fn remove_ready(&mut self, id: ExtentId) {
        let (node, links, extent) = self.queues(id);
        if extent.stream != 0 {
            node.prefetched.remove(links, id);
        } else {
            node.inactive_frames -= extent.frames();
            node.inactive.remove(links, id);
        }
    }

    /// Puts a mapped extent at the end of the protected or the probationary queue.
    pub(super) fn push_mapped(&mut self, id: ExtentId) {
        let (node, links, extent) = self.queues(id);
        if extent.is_probationary {
            node.probationary.push(links, id);
        } else {
            node.protected_frames += extent.frames();
            node.protected.push(links, id);
        }
    }

    /// Takes a mapped extent out of its queue.
    pub(super) fn remove_mapped(&mut self, id: ExtentId) {
        let (node, links, extent) = self.queues(id);
        if extent.is_probationary {
            node.probationary.remove(links, id);
        } else {
            node.protected_frames -= extent.frames();
            node.protected.remove(links, id);
        }
    }

    pub(super) fn oldest_protected(&self, node: Node) -> Option<ExtentId> {
        self.node(node).protected.first()
    }

    pub(super) fn newest_protected(&self, node: Node) -> Option<ExtentId> {
        self.node(node).protected.last()
    }

    pub(super) fn oldest_probationary(&self, node: Node) -> Option<ExtentId> {
        self.node(node).probationary.first()
    }

    pub(super) fn oldest_inactive(&self, node: Node) -> Option<ExtentId> {
        self.node(node).inactive.first()
    }

    pub(super) fn oldest_prefetched(&self, node: Node) -> Option<ExtentId> {
        self.node(node).prefetched.first()
    }

    pub(super) fn protected_frames(&self, node: Node) -> u32 {
        self.node(node).protected_frames
    }

    /// Number of frames that are free, inactive, or being evicted. To free them, no further extent
    /// has to be unmapped.
    pub(super) fn reclaimable_frames(&self, node: Node) -> u32 {
        let NodeFrames { pool, inactive_frames, evicting_frames, .. } = self.node(node);
        pool.free_frames() + *inactive_frames + *evicting_frames
    }

    pub(super) fn evicting_frames(&self, node: Node) -> u32 {
        self.node(node).evicting_frames
    }

    /// True if an extent is being unmapped or written back.
    pub(super) fn is_evicting(&self) -> bool {
        self.nodes.iter().any(|node| node.evicting_frames > 0)
    }

    /// True if an extent on a node can be evicted now, or may become evictable at the end of an
    /// eviction, load or move that is in progress on this node.
    pub(super) fn has_victims(&self, node: Node) -> bool {
        let node = self.node(node);
        let queues = [&node.protected, &node.probationary, &node.inactive, &node.prefetched];
        queues.iter().any(|queue| queue.first().is_some())
            || node.evicting_frames > 0
            || node.in_flight > 0
    }

    /// Counts the frames of an extent whose unmap or write-back begins.
    pub(super) fn begin_eviction(&mut self, id: ExtentId) {
        let (node, _, extent) = self.queues(id);
        node.evicting_frames += extent.frames();
    }

    /// Subtracts the frames of an extent whose unmap or write-back has ended.
    pub(super) fn end_eviction(&mut self, id: ExtentId) {
        let (node, _, extent) = self.queues(id);
        node.evicting_frames -= extent.frames();
    }

    /// True if an extent is being filled or mapped.
    pub(super) fn is_in_flight(&self) -> bool {
        self.nodes.iter().any(|node| node.in_flight > 0)
    }

    /// Adds 1 to `in_flight` for an extent that begins to be filled or mapped.
    pub(super) fn begin_flight(&mut self, id: ExtentId) {
        let (node, ..) = self.queues(id);
        node.in_flight += 1;
    }

    /// Subtracts 1 from `in_flight` for an extent whose fill has succeeded or failed, or that is
    /// mapped now.
    pub(super) fn end_flight(&mut self, id: ExtentId) {
        let (node, ..) = self.queues(id);
        node.in_flight -= 1;
    }

    pub(super) const fn loaded_pages(&self) -> u64 {
        self.loaded_pages
    }

    pub(super) const fn count_loaded(&mut self, pages: u64) {
        self.loaded_pages += pages;
    }
}
