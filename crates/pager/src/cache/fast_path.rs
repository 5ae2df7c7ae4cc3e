//! The fast path: a faulting thread maps a ready extent itself, without the pager's thread. The
//! cache processes such faults later, several at a time.

use super::{Action, Cache, ExtentState, PageFault, Span, WaitingFault, index::ExtentId};
use interleaf_prefetch::page::Page;

/// The answer to a thread that faults, on the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapAttempt {
    /// Move the frames to the pages, then report the fault by [`Cache::commit_mapped`] before any
    /// other event. The extent is claimed: no other thread gets this answer for the extent.
    Move {
        /// The extent.
        id: ExtentId,
        /// Its pages and frames.
        span: Span,
        /// True for a prefetched extent: its stream should prefetch further now.
        is_prefetched: bool,
    },
    /// Retry the access: the page has been mapped since the fault, or another thread is mapping it.
    AlreadyMapped,
    /// Send the fault to the pager's thread, and wait.
    Wait,
}

impl Cache {
    /// Claims the extent of a page for a thread that faulted on it. Allocates no memory.
    pub fn try_map(&mut self, page: Page) -> MapAttempt {
        let Some(id) = self.residency.find(page) else { return MapAttempt::Wait };
        let extent = self.residency.extent_mut(id);
        match extent.state {
            ExtentState::Mapped => MapAttempt::AlreadyMapped,
            ExtentState::Ready if extent.is_claimed => MapAttempt::AlreadyMapped,
            ExtentState::Ready
                if !self.is_frozen && !extent.is_probe && !self.durability.is_poisoned(page) =>
            {
                extent.is_claimed = true;
                MapAttempt::Move { id, span: extent.span(), is_prefetched: extent.stream != 0 }
            }
            _ => MapAttempt::Wait,
        }
    }

    /// Processes the faults that threads have served without the pager's thread since the last call
    /// of this method, in the order of the faults. Appends the moves of these faults to `actions`.
    /// The caller must answer these moves like any other move.
    pub fn commit_mapped(
        &mut self,
        faults: impl Iterator<Item = PageFault> + Clone,
        actions: &mut Vec<Action>,
    ) {
        // First map all extents, so that `progress` evicts none of them.
        for PageFault { page, is_write, node, .. } in faults.clone() {
            self.on_fault(WaitingFault { page, is_write, node }, actions);
        }
        self.unplanned.extend(faults);
        self.has_progress = true;
        self.progress(actions);
    }
}
