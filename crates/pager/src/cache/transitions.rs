//! Transitions of an extent between the states in the diagram of [`crate::cache`]. The transitions
//! of write-back, which follow an unmap, are in `write_back.rs`.

use super::{
    Action, Cache, Extent, ExtentState, Failed, Span, WaitingFault, index::ExtentId, node::Node,
};
use interleaf_prefetch::{is_history_stream, page::Page};
use std::ops::Range;

impl Cache {
    /// Takes an extent from absent to Filling: loads an extent that contains `page` into frames of
    /// a node. `stream` is the stream that prefetches the extent, or 0 if the load is for a fault.
    /// `None` if no frame of the node can be allocated now ([`Cache::allocate`]), or if the page is
    /// poisoned or being discarded.
    pub(super) fn load(
        &mut self,
        page: Page,
        order: u8,
        stream: u32,
        node: Node,
        actions: &mut Vec<Action>,
    ) -> Option<ExtentId> {
        if self.durability.is_unavailable(page) {
            return None;
        }
        let order_max = self.largest_loadable_order(page, order);
        let (frame, order) = self.allocate(node, order_max, actions)?;
        let span = Span { page: page >> order << order, frame, order };
        self.residency.count_loaded(1 << order);
        self.shares.count_demand(node, 1 << order);
        let unstored = self.durability.unstored_in(span.pages());
        let is_stored = unstored < 1 << order;
        let mut extent = Extent::new(span, ExtentState::Filling, stream);
        extent.is_read_ahead = is_stored && stream != 0;
        let id = self.residency.add(extent);
        self.residency.begin_flight(id);
        self.pages_with_content += unstored;
        self.counts.footprint = self.counts.footprint.max(self.pages_with_content);
        if is_stored {
            self.counts.read += 1 << order;
            self.reclaim.loop_detector.on_read(span.page, 1 << order, stream != 0);
        }
        self.thrash.on_load(span.pages(), is_stored && stream == 0);
        actions.push(if is_stored { Action::Read(id, span) } else { Action::Zero(id, span) });
        Some(id)
    }

    /// Takes an extent from Filling to Ready when its frames are filled, or to absent if the read
    /// failed.
    pub(super) fn on_filled(
        &mut self,
        id: ExtentId,
        result: Result<(), Failed>,
        actions: &mut Vec<Action>,
    ) {
        self.residency.end_flight(id);
        if result.is_err() {
            self.on_failed_read(id, actions);
            return;
        }
        let extent = *self.residency.extent(id);
        if let Some(WaitingFault { page, .. }) = extent.waiting_fault() {
            if extent.stream != 0 && extent.is_probe {
                self.forget_prefetched(&extent);
                self.count_prefetch_hit(id);
            }
            self.split_probe(id, page);
        }
        self.make_ready(id, actions);
    }

    /// Drops an extent whose read failed. Only the page that a thread waits for is read again. If
    /// this read of a single page fails too, the page is poisoned.
    fn on_failed_read(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        let extent = *self.residency.extent(id);
        let span = extent.span();
        if extent.stream != 0 {
            self.forget_prefetched(&extent);
        }
        self.remove(id);
        let Some(fault) = extent.waiting_fault() else { return };
        if span.order > 0 {
            // Wake the threads that wait for other pages of the extent. They fault again.
            actions.push(Action::Wake(span.page, 1 << span.order));
        }
        if span.order == 0 {
            self.poison(fault.page, actions);
        } else if let Some(id) = self.load(fault.page, 0, 0, fault.node, actions) {
            self.residency.extent_mut(id).add_waiter(fault);
        } else {
            self.waiting.push_front(fault);
        }
    }

    /// Takes an extent from Filling, Unmapping or Writing to Ready. If a thread waits for the
    /// extent, maps it at once.
    pub(super) fn make_ready(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        let extent = self.residency.extent_mut(id);
        extent.state = ExtentState::Ready;
        let has_waiter = extent.waiting_fault().is_some();
        extent.clear_waiter();
        // While the process forks, only dirty extents are mapped. A dirty extent that stayed ready
        // could be dropped without write-back, and its content would be lost.
        let may_map = !self.is_frozen || extent.is_dirty;
        let is_evicting = std::mem::take(&mut extent.is_evicting) && !extent.is_dirty;
        self.residency.push_ready(id);
        if has_waiter && may_map {
            self.map(id, actions);
        } else if is_evicting && !self.is_frozen {
            self.drop_inactive(id);
        }
    }

    /// Takes an extent from Ready to Mapping: requests the move of its pages from its frames to the
    /// region.
    pub(super) fn map(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        self.remove_ready(id);
        let extent = self.residency.extent(id);
        let node = self.node_of(extent.span().frame);
        let has_room = self.has_room_to_protect(node, extent.frames());
        let (page, frames) = (extent.span().page, extent.frames());
        let is_probationary = self.reclaim.on_map(extent, node, self.settings.frames, has_room)
            && !self.displace_protected(page, node, frames);
        let now = self.time();
        let extent = self.residency.extent_mut(id);
        extent.is_probationary = is_probationary;
        extent.since = now;
        extent.state = ExtentState::Mapping;
        extent.is_claimed = false;
        actions.push(Action::MoveIn(id, extent.span()));
        self.residency.begin_flight(id);
        self.count_prefetch_hit(id);
    }

    /// Takes an extent from Mapping to Mapped. While the process forks, unmaps the extent again at
    /// once, unless the fork must be refused anyway (`Durability::has_unstored`).
    pub(super) fn on_moved_in(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        self.residency.end_flight(id);
        self.residency.extent_mut(id).state = ExtentState::Mapped;
        self.push_mapped(id);
        if self.is_frozen && !self.durability.has_unstored() {
            self.unmap(id, actions);
        }
    }

    /// Takes an extent from Mapped to Unmapping: requests the move of its pages from the region
    /// back to its frames.
    pub(super) fn unmap(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        self.remove_mapped(id);
        let extent = self.residency.extent_mut(id);
        extent.state = ExtentState::Unmapping;
        let span = extent.span();
        self.residency.begin_eviction(id);
        actions.push(Action::MoveOut(id, span));
    }

    /// Takes an extent from Filling or Ready to absent: frees its frames. The extent must be in no
    /// queue.
    pub(super) fn remove(&mut self, id: ExtentId) {
        let span = self.residency.remove(id);
        self.pages_with_content -= self.durability.unstored_in(span.pages());
        self.reclaim.loop_detector.on_evict(span.page, 1 << span.order);
    }

    /// Takes a ready extent out of its queue. Frames of a prefetched extent no longer count as
    /// frames that hold prefetched, untouched pages.
    pub(super) fn remove_ready(&mut self, id: ExtentId) {
        let extent = *self.residency.extent(id);
        if extent.stream != 0 {
            self.forget_prefetched(&extent);
        }
        self.residency.remove_ready(id);
    }

    /// Pins a mapped extent if the program pins one of its pages and the limit of pins allows it.
    /// Otherwise puts the extent into a queue.
    pub(super) fn push_mapped(&mut self, id: ExtentId) {
        let is_pinned = self.advice.pin(self.residency.extent(id), self.budget());
        if is_pinned {
            self.residency.extent_mut(id).is_pinned = true;
        } else {
            self.residency.push_mapped(id);
        }
    }

    /// Takes a mapped extent out of its queue, or unpins it.
    pub(super) fn remove_mapped(&mut self, id: ExtentId) {
        let extent = self.residency.extent_mut(id);
        if std::mem::take(&mut extent.is_pinned) {
            self.advice.unpin(extent.frames());
        } else {
            self.residency.remove_mapped(id);
        }
    }

    /// Counts the first touch of a prefetched extent. Afterwards, the extent belongs to no stream.
    pub(super) fn count_prefetch_hit(&mut self, id: ExtentId) {
        let extent = self.residency.extent_mut(id);
        let (frames, stream) = (extent.frames_read_ahead(), std::mem::take(&mut extent.stream));
        extent.is_read_ahead = false;
        self.counts.prefetch_hits += frames;
        self.counts.history.hits += if is_history_stream(stream) { frames } else { 0 };
    }

    /// Maps the ready extents beside `span` that the same stream has prefetched, at most as many
    /// pages as the longest prefetched extent has. While free frames are fragmented, prefetched
    /// extents are small, and each of them would otherwise cause a fault of its own.
    pub(super) fn map_neighbours(&mut self, span: Span, stream: u32, actions: &mut Vec<Action>) {
        if stream == 0 {
            return;
        }
        let mut left = 1_u64 << self.prefetch_order_max();
        let [mut start, mut end] = [span.page, span.pages().end];
        loop {
            let beside = [Some(end), start.checked_sub(1)].into_iter().flatten();
            let mut ids = beside.filter_map(|page| self.residency.find(page));
            let is_same = |id: &ExtentId| {
                let extent = self.residency.extent(*id);
                extent.stream == stream
                    && extent.state == ExtentState::Ready
                    && u64::from(extent.frames()) <= left
            };
            let Some(id) = ids.find(is_same) else { return };
            let Range { start: first, end: last } = self.residency.extent(id).span().pages();
            (start, end) = (start.min(first), end.max(last));
            left -= last - first;
            self.map(id, actions);
        }
    }

    /// Maps ready extents of `pages` before the program touches them: extents that the stream
    /// `stream` prefetched, and inactive extents.
    pub(super) fn map_early(
        &mut self,
        stream: u32,
        pages: &Range<Page>,
        actions: &mut Vec<Action>,
    ) {
        for page in pages.clone() {
            let Some(id) = self.residency.find(page) else { continue };
            let extent = self.residency.extent(id);
            let is_ready = extent.state == ExtentState::Ready && !extent.is_probe;
            if is_ready && (extent.stream == 0 || extent.stream == stream) {
                if extent.stream == 0 {
                    self.count_refault(id);
                }
                self.map(id, actions);
            }
        }
    }
}
