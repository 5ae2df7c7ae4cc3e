//! Write-back: an unmapped extent with dirty pages is written to the store before it may become
//! inactive and lose its frames.

use super::{Action, Cache, DirtyPages, ExtentState, Failed, WaitingFault, index::ExtentId};

impl Cache {
    /// Takes an extent from Unmapping to Writing, or to Ready if the extent is clean or wholly
    /// discarded. If a thread waits for the extent, and the process does not fork, the extent
    /// also becomes ready, and is mapped again without write-back.
    pub(super) fn on_moved_out(
        &mut self,
        id: ExtentId,
        dirty: DirtyPages,
        actions: &mut Vec<Action>,
    ) {
        self.reclaim.on_unmapped();
        let extent = self.residency.extent_mut(id);
        extent.is_dirty = !dirty.is_empty();
        let (is_dirty, span) = (extent.is_dirty, extent.span());
        let is_due = extent.waiting_fault().is_none() || self.is_frozen;
        self.residency.end_eviction(id);
        if is_dirty && is_due && !self.durability.is_fully_discarded(span) {
            self.residency.extent_mut(id).state = ExtentState::Writing;
            self.residency.begin_eviction(id);
            actions.push(Action::Write(id, span, dirty));
        } else {
            self.make_ready(id, actions);
        }
    }

    /// Takes an extent from Writing to Ready. If the write failed, the only copy of the content is
    /// in DRAM. The extent is then mapped again, and written back at its next eviction.
    pub(super) fn on_wrote(
        &mut self,
        id: ExtentId,
        result: Result<(), Failed>,
        actions: &mut Vec<Action>,
    ) {
        let extent = self.residency.extent_mut(id);
        let span = extent.span();
        if result.is_ok() {
            extent.is_dirty = false;
            self.durability.on_write(span);
        } else {
            if extent.waiting_fault().is_none() {
                extent.add_waiter(WaitingFault { page: span.page, node: 0 });
            }
            self.durability.on_failed_write(self.is_frozen);
        }
        self.residency.end_eviction(id);
        self.make_ready(id, actions);
    }

    /// Takes an extent from Unmapping back to Mapped, because a device or a system call has pinned
    /// pages of the extent.
    pub(super) fn on_pinned(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        let span = self.residency.extent(id).span();
        if self.durability.is_fully_discarded(span) {
            // The program has discarded the content, so the pages need not move back to the frames.
            actions.push(Action::Drop(id, span));
            return;
        }
        self.residency.end_eviction(id);
        self.reclaim.on_pinned_victim();
        self.durability.set_unstored(self.is_frozen);
        let extent = self.residency.extent_mut(id);
        extent.state = ExtentState::Mapped;
        extent.clear_waiter();
        // Make the extent protected. As a probationary extent, it would be the next victim again
        // and again, and the thread that pins it may itself wait for a frame.
        extent.is_probationary = false;
        self.push_mapped(id);
        actions.push(Action::Wake(span.page, 1 << span.order));
    }
}
