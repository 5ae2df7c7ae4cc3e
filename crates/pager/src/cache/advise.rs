//! Regions, advice and pins: the calls of a program about its memory.

use super::{Action, Cache, Extent, ExtentState, Settings, node::Node};
use crate::ranges::Ranges;
use interleaf_prefetch::{advice::Advice, page::Page};
use std::ops::Range;

/// Maximum number of frames of pinned extents: the budget divided by this number. The other frames
/// are for pages that are not pinned.
const PINNED_DIVISOR: u32 = 2;

/// Maximum number of pages that the program may pin. While the budget is smaller than
/// `settings.frames`, [`ProgramAdvice::pin`] allows fewer pinned frames.
pub(crate) fn pinned_max(settings: Settings) -> u32 {
    settings.frames / PINNED_DIVISOR
}

/// The advice that stays in force until the program changes it, and the pages that the program
/// pins.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgramAdvice {
    /// Pages with [`Advice::Random`] or [`Advice::Sequential`].
    advised: Ranges<Advice>,
    /// Pages that the program pins.
    pinned: Ranges<()>,
    /// Number of frames of extents that are pinned and mapped.
    pinned_frames: u32,
}

impl ProgramAdvice {
    /// The advice about a page; `Advice::Normal` if the program has given none.
    pub(super) fn get(&self, page: Page) -> Advice {
        self.advised.get(page).unwrap_or(Advice::Normal)
    }

    /// Removes the advice and the pins of `pages`.
    fn clear(&mut self, pages: &Range<Page>) {
        self.advised.set(pages, None);
        self.pinned.set(pages, None);
    }

    /// Returns true if an extent must be pinned, and then counts its frames as pinned. An extent is
    /// pinned if the program pins one of its pages. As an exception, it is not pinned if the frames
    /// of all pinned extents would exceed `budget` divided by [`PINNED_DIVISOR`].
    pub(super) fn pin(&mut self, extent: &Extent, budget: u32) -> bool {
        let is_pinned = self.pinned_frames + extent.frames() <= budget / PINNED_DIVISOR
            && extent.span().pages().any(|page| self.pinned.get(page).is_some());
        self.pinned_frames += if is_pinned { extent.frames() } else { 0 };
        is_pinned
    }

    /// Subtracts the frames of an extent that is no longer pinned.
    pub(super) const fn unpin(&mut self, frames: u32) {
        self.pinned_frames -= frames;
    }

    /// The advice of a forked child. A child inherits no pins (mlock(2)).
    pub(super) fn for_child(&self) -> Self {
        Self { advised: self.advised.clone(), ..Self::default() }
    }
}

impl Cache {
    /// Adds pages that the program has allocated. Adjacent regions are joined into one region.
    pub fn add_region(&mut self, pages: Range<Page>) {
        self.regions.add(pages.clone());
        self.on_regions_changed(&pages);
    }

    /// Removes pages, which the caller has discarded, from their regions. Also removes the advice
    /// and the pins of these pages.
    pub fn remove_region(&mut self, pages: &Range<Page>) {
        self.regions.remove(pages);
        self.advice.clear(pages);
        self.on_regions_changed(pages);
    }

    /// Adapts the prefetcher and the fault-around after regions were added or removed in `pages`.
    fn on_regions_changed(&mut self, pages: &Range<Page>) {
        self.prefetch.set_footprint(self.regions.pages());
        self.fault_around.forget_removed(&self.regions, pages);
    }

    /// Reacts to advice that a thread on `node` gives about pages.
    pub(super) fn advise(
        &mut self,
        pages: &Range<Page>,
        advice: Advice,
        node: Node,
        actions: &mut Vec<Action>,
    ) {
        match advice {
            Advice::Normal => self.advice.advised.set(pages, None),
            Advice::Random | Advice::Sequential => self.advice.advised.set(pages, Some(advice)),
            Advice::WillNeed => self.prefetch.enqueue_advised(pages.clone(), node),
            Advice::Cold => self.evict_cold(pages, actions),
            Advice::Pin => {
                self.advice.pinned.set(pages, Some(()));
                self.requeue_mapped(pages, |extent| extent.state == ExtentState::Mapped);
            }
            Advice::Unpin => {
                self.advice.pinned.set(pages, None);
                self.requeue_mapped(pages, |extent| extent.is_pinned);
            }
        }
    }

    /// Applies a change of pins to the mapped extents of `pages` for which `is_due` returns true.
    /// Removes each of these extents from its queue, and then either pins the extent or queues it
    /// again. A pinned extent is in no queue.
    fn requeue_mapped(&mut self, pages: &Range<Page>, is_due: fn(&Extent) -> bool) {
        for id in self.residency.all_in(pages) {
            if is_due(self.residency.extent(id)) {
                self.remove_mapped(id);
                self.push_mapped(id);
            }
        }
    }

    fn evict_cold(&mut self, pages: &Range<Page>, actions: &mut Vec<Action>) {
        for id in self.residency.all_in(pages) {
            let Extent { state, is_pinned, .. } = *self.residency.extent(id);
            if state == ExtentState::Mapped && !is_pinned {
                self.unmap(id, actions);
            }
        }
    }
}
