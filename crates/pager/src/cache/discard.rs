//! Discards pages: the program does not need their content any more, and the next touch reads
//! zeros.

use super::{Action, Cache, Extent, ExtentState, index::ExtentId};
use interleaf_prefetch::page::Page;
use std::ops::Range;

impl Cache {
    /// Carries out the queued discards. A range stays queued while one of its pages is being
    /// transferred, moved or unmapped.
    pub(super) fn discard(&mut self, actions: &mut Vec<Action>) {
        for pages in self.durability.take_discards() {
            if self.discard_extents(&pages, actions) {
                self.durability.add_discard(pages);
                continue;
            }
            self.reset_to_zeros(&pages);
            actions.push(Action::Erase(pages.start, pages.end - pages.start));
            self.durability.begin_erase(pages);
        }
    }

    /// Drops the ready extents of `pages`, and unmaps the mapped extents. Returns true if some
    /// extents remain for now, because they are being unmapped or transferred.
    fn discard_extents(&mut self, pages: &Range<Page>, actions: &mut Vec<Action>) -> bool {
        let mut is_left = false;
        let mut rest = pages.clone();
        while let Some(id) = self.residency.first_in(rest.clone()) {
            let extent = *self.residency.extent(id);
            let span = extent.span();
            let is_whole = pages.start <= span.page && span.pages().end <= pages.end;
            match extent.state {
                ExtentState::Ready | ExtentState::Mapped if !is_whole => {
                    self.split(id);
                    continue;
                }
                ExtentState::Ready => {
                    self.remove_ready(id);
                    self.remove(id);
                }
                ExtentState::Mapped => {
                    self.unmap(id, actions);
                    is_left = true;
                }
                _ => is_left = true,
            }
            rest.start = span.pages().end;
        }
        is_left
    }

    /// Splits a ready or mapped extent into halves, because a discard covers only a part of the
    /// extent.
    fn split(&mut self, id: ExtentId) {
        let mut whole = *self.residency.extent(id);
        let is_ready = whole.state == ExtentState::Ready;
        let [first, second] = whole.span().halves();
        if is_ready {
            self.remove_ready(id)
        } else {
            self.remove_mapped(id)
        }
        whole.is_pinned = false;
        let other = self.residency.add(whole.with_span(second));
        self.residency.replace(id, whole.with_span(first));
        for id in [id, other] {
            if is_ready {
                // `remove_ready` has subtracted the frames of a prefetched extent from the counters
                // of prefetched frames. Add the frames of both halves again.
                let Extent { stream, .. } = whole;
                if stream != 0 {
                    let node = self.node_of(first.frame);
                    self.prefetch.add_frames(stream, node, 1 << first.order);
                }
                self.residency.push_ready(id);
            } else {
                self.push_mapped(id);
            }
        }
    }
}
