//! Faults. A fault on a mapped or ready page is served at once. A fault on a page that is being
//! read or evicted is served when the read or the eviction has ended. A fault on an absent page
//! waits for a frame, and then for the read.

use super::{
    Action, Cache, ExtentState, WaitingFault, frame_pool::ORDER_MAX, index::ExtentId, node::Node,
};
use interleaf_prefetch::{advice::Advice, page::Page};

/// Number of free frames of a node above which a fault may fill a whole huge page with zeros: the
/// node's share of the budget divided by this number. The store must hold no page of the huge page.
const FREE_FOR_ZEROS_DIVISOR: u32 = 4;

impl Cache {
    /// Counts a fault, reports it to the fault-around of its region, and serves it.
    pub(super) fn on_fault(&mut self, fault: WaitingFault, actions: &mut Vec<Action>) {
        self.counts.faults += 1;
        let page = fault.page;
        let (region, clock) = (self.regions.containing(page).start, self.load_clock());
        self.fault_around.on_fault(region, page, clock);
        self.serve_fault(fault, actions);
    }

    /// Serves a fault: at once if the page is mapped or ready, or after the read, move or
    /// write-back of the page has ended. Queues a fault on an absent page until a frame is free.
    /// For a poisoned page, lets the thread access the page again, which raises SIGBUS.
    fn serve_fault(&mut self, fault: WaitingFault, actions: &mut Vec<Action>) {
        let page = fault.page;
        if self.durability.is_poisoned(page) {
            // The page was poisoned after the thread had faulted, or in the parent of this process.
            actions.extend([Action::Poison(page), Action::Wake(page, 1)]);
            return;
        }
        let Some(id) = self.residency.find(page) else {
            self.waiting.push_back(fault);
            return;
        };
        let extent = self.residency.extent_mut(id);
        let (span, stream) = (extent.span(), extent.stream);
        match extent.state {
            ExtentState::Filling => extent.add_waiter(fault),
            ExtentState::Unmapping | ExtentState::Writing => {
                extent.add_waiter(fault);
                self.count_refault(id);
            }
            ExtentState::Ready => {
                self.counts.minor_faults += 1;
                let is_probe = extent.is_probe;
                if is_probe {
                    self.remove_ready(id);
                    self.count_prefetch_hit(id);
                    self.split_probe(id, page);
                    self.residency.push_ready(id);
                } else if stream == 0 {
                    self.count_refault(id);
                }
                self.map(id, actions);
                if !is_probe {
                    self.map_neighbours(span, stream, actions);
                }
            }
            // The waiting thread need not be recorded: when the extent is mapped, all threads that
            // wait for its pages are woken.
            ExtentState::Mapping => {}
            ExtentState::Mapped => actions.push(Action::Wake(page, 1)),
        }
    }

    /// Counts a refault: a touch of an extent that is inactive or being evicted.
    pub(super) fn count_refault(&mut self, id: ExtentId) {
        let extent = self.residency.extent(id);
        let (frames, node) = (extent.frames(), self.node_of(extent.span().frame));
        self.reclaim.on_refault(node, frames);
        self.shares.count_demand(node, frames);
    }

    /// Loads the pages of waiting faults, as long as the node of each fault has a free frame. If
    /// `may_fall_back` is true, also loads pages into frames of another node, and poisons pages for
    /// which no frame will become free.
    pub(super) fn serve_waiting(&mut self, may_fall_back: bool, actions: &mut Vec<Action>) {
        // Faults that wait for a frame of one node do not delay faults on other nodes.
        for node in self.nodes() {
            self.serve_waiting_of(node, may_fall_back, actions);
        }
    }

    fn serve_waiting_of(&mut self, node: Node, may_fall_back: bool, actions: &mut Vec<Action>) {
        while let Some(at) = self.waiting.iter().position(|fault| fault.node == node)
            && let Some(fault) = self.waiting.remove(at)
        {
            let WaitingFault { page, .. } = fault;
            if self.durability.is_discarding(&(page..page + 1)) {
                self.waiting.insert(at, fault);
                return;
            } else if self.residency.find(page).is_some() || self.durability.is_poisoned(page) {
                // The page was loaded or poisoned since this fault was queued.
                self.serve_fault(fault, actions);
                continue;
            }
            let (order, is_probe) = self.order_for_fault(page, node);
            let mut loaded = self.load(page, order, 0, node, actions);
            // Load the page on another node if the node of the thread has no page to evict.
            if loaded.is_none()
                && may_fall_back
                && let Some(other) = self.fallback_node(node)
            {
                loaded = self.load(page, order, 0, other, actions);
            }
            let Some(id) = loaded else {
                if may_fall_back && self.is_store_stuck() {
                    self.poison(page, actions);
                    continue;
                }
                self.waiting.insert(at, fault);
                return;
            };
            let extent = self.residency.extent_mut(id);
            extent.is_probe = is_probe;
            extent.add_waiter(fault);
        }
    }

    /// The order of the extent to load for a fault, and true if the extent is a probe. Only the
    /// faulting page of a probe is mapped. Faults on its other pages then show whether fault-around
    /// pays off (`fault_around.rs`).
    fn order_for_fault(&mut self, page: Page, node: Node) -> (u8, bool) {
        if let Some(order) = self.prefetch.order_for_fault(page) {
            return (order, false);
        }
        if self.advice.get(page) == Advice::Random {
            return (0, false);
        }
        // Pages that the store does not hold are zeros. To fill a whole huge page with zeros costs
        // no read, and saves the faults on its other pages. Fill the huge page only if enough
        // frames are free.
        let start = page >> ORDER_MAX << ORDER_MAX;
        let are_frames_plenty =
            self.residency.free_frames(node) > self.budget_of(node) / FREE_FOR_ZEROS_DIVISOR;
        if are_frames_plenty && self.durability.stored_in(start..start + (1 << ORDER_MAX)) == 0 {
            return (ORDER_MAX, false);
        }
        let size = self.fault_around.size_mut(self.regions.containing(page).start);
        (size.order(), size.is_next_a_probe())
    }

    /// The order of the largest aligned block of 2^order pages around a page in which every page
    /// can be loaded; at most `max`.
    pub(super) fn largest_loadable_order(&self, page: Page, max: u8) -> u8 {
        let region = self.regions.containing(page);
        let fits = |order: &u8| {
            let start = page >> order << order;
            let end = start + (1 << order);
            region.start <= start
                && end <= region.end
                && !self.durability.has_poisoned(start..end)
                && !self.durability.is_discarding(&(start..end))
        };
        let max = (0..=max).rev().find(fits).unwrap_or(0);
        self.residency.largest_absent_order(page, max)
    }

    pub(super) fn poison(&mut self, page: Page, actions: &mut Vec<Action>) {
        self.durability.poison(page);
        actions.push(Action::Poison(page));
    }

    /// True if the store counts as failed for writes: the consecutive failed writes exceed the
    /// number of extents by more than `FAILED_WRITES_MIN`. Evictions are then not expected to free
    /// frames.
    pub(super) const fn is_store_stuck(&self) -> bool {
        self.durability.is_store_stuck(self.residency.count())
    }
}
