//! What a program does with its memory other than touching it.

use super::{Action, Cache, Extent, Settings, State, prefetch_queue::Pending};
use crate::{advice::Advice, cache::index::ExtentId, page::Page, prefetch::ADVISED};
use std::ops::Range;

/// One part in so many of all may be pinned.
const PINNED_PART: u32 = 2;

/// So many pages may be pinned.
pub(crate) fn pinned_max(settings: Settings) -> u32 {
    settings.frames / PINNED_PART
}

impl Cache {
    /// Adds pages of regions; those that follow each other are one region.
    pub fn add_region(&mut self, pages: Range<Page>) {
        let mut pages = pages;
        if let Some((&start, &end)) = self.regions.range(..=pages.start).next_back()
            && end >= pages.start
        {
            pages = start..end.max(pages.end);
        }
        while let Some((&start, &end)) = self.regions.range(pages.start..=pages.end).next() {
            self.regions.remove(&start);
            pages.end = pages.end.max(end);
        }
        self.regions.insert(pages.start, pages.end);
        self.measure();
    }

    /// Removes pages from their regions: they were discarded.
    pub fn remove_region(&mut self, pages: &Range<Page>) {
        let over = self.regions.range(..pages.end).rev().take_while(|it| *it.1 > pages.start);
        let over: Vec<_> = over.map(|(start, end)| *start..*end).collect();
        for region in over {
            self.regions.remove(&region.start);
            if region.start < pages.start {
                self.regions.insert(region.start, pages.start);
            }
            if pages.end < region.end {
                self.regions.insert(pages.end, region.end);
            }
        }
        self.advised.set(pages, None);
        self.pinned_pages.set(pages, None);
        self.measure();
    }

    /// What the program said about a page.
    pub fn advised(&self, page: Page) -> Advice {
        self.advised.get(page).unwrap_or(Advice::Normal)
    }

    /// Takes in what a program says about pages.
    pub(super) fn advise(
        &mut self,
        pages: &Range<Page>,
        advice: Advice,
        actions: &mut Vec<Action>,
    ) {
        match advice {
            Advice::Normal => self.advised.set(pages, None),
            Advice::Random | Advice::Sequential => self.advised.set(pages, Some(advice)),
            Advice::WillNeed => self.need(pages),
            Advice::Cold => self.cool(pages, actions),
            Advice::Pin => {
                self.pinned_pages.set(pages, Some(()));
                for id in self.within(pages) {
                    if self.extents[id as usize].state == State::Mapped {
                        self.leave(id);
                        self.enter(id);
                    }
                }
            }
            Advice::Unpin => {
                self.pinned_pages.set(pages, None);
                for id in self.within(pages) {
                    if self.extents[id as usize].is_pinned {
                        self.leave(id);
                        self.enter(id);
                    }
                }
            }
        }
    }

    /// Whether an extent may not be given up, as far as there may be such extents.
    pub(super) fn is_to_pin(&self, extent: &Extent) -> bool {
        self.pinned_frames + extent.frames()
            <= pinned_max(Settings { frames: self.budget(), ..self.settings })
            && extent.span().pages().any(|page| self.pinned_pages.get(page).is_some())
    }

    /// What does not move stays, last in its queue; what is discarded need not move.
    pub(super) fn held(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        let span = self.extents[id as usize].span();
        if self.is_discarded(span) {
            actions.push(Action::Drop(id, span));
            return;
        }
        self.leaving -= 1 << span.order;
        self.is_obstructed = true;
        self.is_unwritable = self.is_frozen;
        let extent = &mut self.extents[id as usize];
        extent.state = State::Mapped;
        // Nobody knows what will have been written to it by then.
        extent.is_dirty = true;
        extent.forget_wanted();
        // What goes by is given up before all that is kept: it would be tried for ever, and nothing
        // else, while who holds it waits for room.
        extent.goes_by = false;
        self.enter(id);
        actions.push(Action::Wake(span.page, 1 << span.order));
    }

    /// The extents of pages.
    pub(super) fn within(&self, pages: &Range<Page>) -> Vec<ExtentId> {
        let mut found = vec![];
        let mut rest = pages.clone();
        while let Some((_, id)) = self.index.first(rest.clone()) {
            found.push(id);
            rest.start = self.extents[id as usize].span().pages().end;
        }
        found
    }

    /// It is brought in as what is foreseen.
    fn need(&mut self, pages: &Range<Page>) {
        self.pending.push_back(Pending::of(ADVISED, pages.clone()));
    }

    /// Who is over its share because the program said so makes room for who waits.
    pub(super) fn is_over(&self, holder: u32, waits: u32, most: u32) -> bool {
        let has = self.ahead.get(&ADVISED).copied().unwrap_or(0);
        holder == ADVISED && waits != ADVISED && has > most / (self.ahead.len() as u32 + 1)
    }

    fn cool(&mut self, pages: &Range<Page>, actions: &mut Vec<Action>) {
        for id in self.within(pages) {
            let Extent { state, is_pinned, .. } = self.extents[id as usize];
            if state == State::Mapped && !is_pinned {
                self.unmap(id, actions);
            }
        }
    }

    /// The process is about to fork: everything leaves its address space, and what has changed is
    /// stored.
    pub(super) fn freeze(&mut self, actions: &mut Vec<Action>) {
        self.is_frozen = true;
        for id in self.within(&(0..Page::MAX)) {
            if self.extents[id as usize].state == State::Mapped {
                self.unmap(id, actions);
            }
        }
    }

    /// Whether nothing is under way, so that all there is is stored.
    pub fn is_quiescent(&self) -> bool {
        self.is_frozen
            && self.leaving == 0
            && self.discarded.is_empty()
            && self.erasing.is_empty()
            && self.coming == 0
    }

    /// Goes on after a fork.
    pub(super) fn thaw(&mut self, actions: &mut Vec<Action>) {
        self.is_frozen = false;
        self.is_unwritable = false;
        for (start, end) in &self.regions {
            actions.push(Action::Wake(*start, end - start));
        }
    }

    /// The pages of a child that is forked now: all of them are stored, and none is in memory.
    /// `None` when some could not be stored.
    pub fn for_child(&self) -> Option<Self> {
        (!self.is_unwritable).then(|| Self {
            regions: self.regions.clone(),
            stored: self.stored.clone(),
            lost: self.lost.clone(),
            advised: self.advised.clone(),
            ..Self::new(self.settings)
        })
    }

    /// Pages are zeros for a child, which has nothing of them yet.
    pub fn reset_to_zeros(&mut self, pages: &Range<Page>) {
        let words = pages.start / 64..pages.end.div_ceil(64).min(self.stored.len() as u64);
        for word in words {
            let bits = (0..64).filter(|bit| pages.contains(&(word * 64 + bit)));
            let mask = bits.fold(0_u64, |mask, bit| mask | 1 << bit);
            self.stored[word as usize] &= !mask;
        }
        self.lost.retain(|page| !pages.contains(page));
    }
}
