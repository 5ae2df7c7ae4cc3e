//! Serving faults: at once if the page is resident, else as soon as a frame is free.

use super::{Action, Cache, ExtentState, WaitingFault, frame_pool::ORDER_MAX};
use crate::{advice::Advice, page::Page};

/// A fault in an untouched huge page fills the whole huge page with zeros while more than this part
/// of the frames is free.
const FREE_FOR_ZEROS_PART: u32 = 4;

impl Cache {
    /// Counts a fault, and serves it or lets it wait.
    pub(super) fn on_fault(&mut self, page: Page, is_write: bool, actions: &mut Vec<Action>) {
        self.counts.faults += 1;
        let (region, clock) = (self.regions.containing(page).start, self.load_clock());
        self.fault_around.size_mut(region).on_fault(page, clock);
        self.serve_fault(page, is_write, actions);
    }

    /// Serves a fault on a resident page, or lets it wait.
    fn serve_fault(&mut self, page: Page, is_write: bool, actions: &mut Vec<Action>) {
        if self.durability.is_poisoned(page) {
            // Poisoned after the thread had faulted, or in the parent of this process.
            actions.extend([Action::Poison(page), Action::Wake(page, 1)]);
            return;
        }
        let Some(id) = self.residency.find(page) else {
            self.waiting.push_back(WaitingFault { page, is_write });
            return;
        };
        let extent = self.residency.extent_mut(id);
        let (frames, span, stream) = (extent.frames(), extent.span(), extent.stream);
        match extent.state {
            ExtentState::Filling => extent.add_waiter(page, is_write),
            ExtentState::Unmapping | ExtentState::Writing => {
                extent.add_waiter(page, is_write);
                self.reclaim.on_refault(frames);
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
                    self.reclaim.on_refault(frames);
                }
                self.map(id, is_write, actions);
                if !is_probe {
                    self.map_neighbours(span, stream, actions);
                }
            }
            // The end of the move wakes all threads that wait for the extent.
            ExtentState::Mapping => extent.is_dirty |= is_write,
            ExtentState::Mapped => {
                extent.is_dirty |= is_write;
                actions.push(Action::Wake(page, 1));
            }
        }
    }

    /// Loads the pages of waiting faults, as far as frames are free.
    pub(super) fn serve_waiting(&mut self, actions: &mut Vec<Action>) {
        while let Some(fault) = self.waiting.pop_front() {
            let WaitingFault { page, is_write } = fault;
            if self.durability.is_discarding(&(page..page + 1)) {
                self.waiting.push_front(fault);
                return;
            } else if self.residency.find(page).is_some() || self.durability.is_poisoned(page) {
                // A fault on a neighbouring page has loaded it since.
                self.serve_fault(page, is_write, actions);
                continue;
            }
            let (order, is_probe) = self.order_for_fault(page);
            let Some(id) = self.load(page, order, 0, actions) else {
                if self.is_store_stuck() {
                    self.poison(page, actions);
                    continue;
                }
                self.waiting.push_front(fault);
                return;
            };
            let extent = self.residency.extent_mut(id);
            extent.is_probe = is_probe;
            extent.add_waiter(page, is_write);
        }
    }

    /// The order of the extent to load for a fault, and whether it is a probe.
    fn order_for_fault(&mut self, page: Page) -> (u8, bool) {
        if let Some(order) = self.prefetch.order_for_fault(page) {
            return (order, false);
        }
        if self.advice.of(page) == Advice::Random {
            return (0, false);
        }
        // Pages that were never stored are zeros, which cost no read.
        let start = page >> ORDER_MAX << ORDER_MAX;
        let are_frames_plenty =
            self.residency.pool.free_frames() > self.budget() / FREE_FOR_ZEROS_PART;
        if are_frames_plenty && !self.durability.has_stored(start..start + (1 << ORDER_MAX)) {
            return (ORDER_MAX, false);
        }
        let size = self.fault_around.size_mut(self.regions.containing(page).start);
        (size.order(), size.is_next_a_probe())
    }

    /// The order of the largest extent around a page that could be loaded, `max` at most.
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

    /// Gives up a page that can be neither read nor kept.
    pub(super) fn poison(&mut self, page: Page, actions: &mut Vec<Action>) {
        self.durability.poison(page);
        actions.push(Action::Poison(page));
    }

    /// True if no eviction can succeed, since the store takes no more writes.
    pub(super) const fn is_store_stuck(&self) -> bool {
        self.durability.is_store_stuck(self.residency.count())
    }
}
