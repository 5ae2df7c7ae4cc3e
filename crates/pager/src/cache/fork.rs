//! Forks: before a process forks, all of its pages are unmapped, and dirty pages are written back.
//! Afterwards parent and child load their pages from a common store.

use super::{Action, Cache, Counts, ExtentState};
use interleaf_prefetch::page::Page;
use std::ops::Range;

impl Cache {
    /// Begins a fork: unmaps all mapped extents. The write-back of their dirty pages follows.
    pub(super) fn freeze(&mut self, actions: &mut Vec<Action>) {
        self.is_frozen = true;
        for id in self.residency.all_in(&(0..Page::MAX)) {
            if self.residency.extent(id).state == ExtentState::Mapped {
                self.unmap(id, actions);
            }
        }
    }

    /// True if the cache is frozen, and no read, write, move or discard is in progress. The store
    /// then holds all content, except that of failed writes and of pinned pages.
    pub fn is_quiescent(&self) -> bool {
        self.is_frozen
            && !self.residency.is_evicting()
            && self.durability.is_discard_idle()
            && !self.residency.is_in_flight()
    }

    /// Resumes the cache of the parent after a fork. Wakes all threads that wait for pages; these
    /// threads fault again.
    pub(super) fn thaw(&mut self, actions: &mut Vec<Action>) {
        self.is_frozen = false;
        self.durability.set_unstored(false);
        for Range { start, end } in self.regions.iter() {
            actions.push(Action::Wake(start, end - start));
        }
    }

    /// The initial cache of a child that is forked now. All content is in the store, and no page is
    /// resident. `None` if a write-back before the fork has failed, or a page is pinned.
    pub fn for_child(&self) -> Option<Self> {
        (!self.durability.has_unstored()).then(|| {
            let empty = Self::with_nodes(self.settings, self.division().clone());
            let durability = self.durability.for_child();
            let footprint = durability.stored_in(0..Page::MAX);
            Self {
                regions: self.regions.clone(),
                durability,
                advice: self.advice.for_child(),
                pages_with_content: footprint,
                counts: Counts { footprint, ..Counts::default() },
                ..empty
            }
        })
    }

    /// Makes `pages` read as zeros. None of these pages may be resident.
    pub fn reset_to_zeros(&mut self, pages: &Range<Page>) {
        self.pages_with_content -= self.durability.stored_in(pages.clone());
        self.durability.reset_to_zeros(pages);
    }
}
