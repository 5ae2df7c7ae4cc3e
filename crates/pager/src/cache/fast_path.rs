//! The fast path: a faulting thread maps a ready extent itself, without the pager's thread. The
//! cache processes the faults of the fast path later, several at a time.

use super::{Action, Cache, ExtentState, PageFault, Span, WaitingFault, index::ExtentId};
use interleaf_prefetch::page::Page;

/// The answer of the cache to a faulting thread that tries the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapAttempt {
    /// The thread may move the extent's pages (`UFFDIO_MOVE`) from the addresses of its frames to
    /// the region. The caller must then report the fault by [`Cache::commit_mapped`] before any
    /// other event. The extent is claimed: no other thread gets this answer for the same extent.
    Move {
        id: ExtentId,
        /// The pages and frames of the extent.
        span: Span,
        /// True if a stream prefetched the extent. The stream should then prefetch further pages.
        is_prefetched: bool,
    },
    /// The thread must retry the access: the page has been mapped since the fault, or another
    /// thread is mapping the page.
    AlreadyMapped,
    /// The thread must send the fault to the pager's thread, and wait.
    Wait,
}

impl Cache {
    /// Claims the extent of a page for a thread that faulted on the page. Allocates no memory,
    /// because a signal handler may call this method.
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

    /// Processes the faults that threads have served themselves since the last call, oldest first.
    /// Appends an [`Action::MoveIn`] for each fault to `actions`. The caller must answer this
    /// action like any other.
    pub fn commit_mapped(
        &mut self,
        faults: impl Iterator<Item = PageFault> + Clone,
        actions: &mut Vec<Action>,
    ) {
        // Map the extents of all faults before the call of `progress`, so that `progress` evicts
        // none of these extents.
        for PageFault { page, node, .. } in faults.clone() {
            self.on_fault(WaitingFault { page, node }, actions);
        }
        self.unplanned.extend(faults);
        self.has_progress = true;
        self.progress(actions);
    }
}
