//! Ranges of pages that a stream has requested and that were not touched yet.
//!
//! A stream that requests pages one by one can have thousands of ranges. They are searched at each
//! fault, and before the pager loads each extent of a prefetch. An index therefore finds the ranges
//! that contain a page.

use super::tile_run::TileRun;
use crate::page::Page;
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

/// A range of pages that were not touched yet, and the run to which it belongs.
#[derive(Clone, Debug)]
pub(super) struct UntouchedRange {
    pub(super) pages: Range<Page>,
    pub(super) run: TileRun,
}

/// All untouched ranges of a stream, in the order in which the stream expects touches.
#[derive(Clone, Debug, Default)]
pub(super) struct UntouchedRanges {
    order: VecDeque<UntouchedRange>,
    /// A search index of `order`, sorted by address. The key is the start and the end of a range;
    /// the value counts how often this range is in `order`.
    counts: BTreeMap<(Page, Page), u32>,
    /// An upper bound of the number of pages in a range of `counts`. A search for the ranges that
    /// contain a page begins this number of pages before the page.
    longest: u64,
    pages: u64,
}

impl UntouchedRanges {
    pub(super) const fn new() -> Self {
        Self { order: VecDeque::new(), counts: BTreeMap::new(), longest: 0, pages: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The number of pages in all ranges. A page in several ranges counts several times.
    pub(super) const fn pages(&self) -> u64 {
        self.pages
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &UntouchedRange> {
        self.order.iter()
    }

    /// True if one of `pages` is in an untouched range.
    pub(super) fn overlaps(&self, pages: &Range<Page>) -> bool {
        if self.order.is_empty() {
            return false;
        }
        let first = pages.start.saturating_sub(self.longest);
        let mut near = self.counts.range((first, 0)..(pages.end, 0));
        near.any(|((_, end), _)| *end > pages.start)
    }

    /// Adds a range after all others: the stream expects touches of this range last.
    pub(super) fn push_back(&mut self, range: UntouchedRange) {
        self.add(&range.pages);
        self.order.push_back(range);
    }

    /// Adds a range before all others: the stream expects touches of this range first.
    pub(super) fn push_front(&mut self, range: UntouchedRange) {
        self.add(&range.pages);
        self.order.push_front(range);
    }

    /// Removes the first range in the order that overlaps `pages`, and all ranges before it.
    /// Returns the range that overlaps. If no range overlaps, changes nothing and returns `None`.
    pub(super) fn take_through(&mut self, pages: &Range<Page>) -> Option<UntouchedRange> {
        if !self.overlaps(pages) {
            return None;
        }
        while let Some(range) = self.order.pop_front() {
            self.subtract(&range.pages);
            if overlap(&range.pages, pages) {
                return Some(range);
            }
        }
        None
    }

    /// Removes all ranges that overlap `pages`.
    pub(super) fn remove(&mut self, pages: &Range<Page>) {
        if self.overlaps(pages) {
            let (removed, left) = self.order.drain(..).partition(|it| overlap(&it.pages, pages));
            self.order = left;
            let removed: VecDeque<UntouchedRange> = removed;
            removed.iter().for_each(|range| self.subtract(&range.pages));
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    fn add(&mut self, pages: &Range<Page>) {
        let length = pages.end - pages.start;
        (self.longest, self.pages) = (self.longest.max(length), self.pages + length);
        *self.counts.entry((pages.start, pages.end)).or_default() += 1;
    }

    fn subtract(&mut self, pages: &Range<Page>) {
        self.pages -= pages.end - pages.start;
        let key = (pages.start, pages.end);
        if let Some(count) = self.counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key);
            }
        }
        if self.counts.is_empty() {
            self.longest = 0;
        }
    }
}

/// True if two ranges have a page in common.
pub(super) fn overlap(a: &Range<Page>, b: &Range<Page>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_index_finds_the_same_ranges_as_a_search(
            steps in proptest::collection::vec((0_u8..5, 0_u64..200, 1_u64..20), 0..100),
        ) {
            let run = TileRun::default();
            let (mut untouched, mut model) = (UntouchedRanges::new(), Vec::<Range<Page>>::new());
            for (step, start, length) in steps {
                let pages = start..start + length;
                let at = model.iter().position(|it| overlap(it, &pages));
                prop_assert_eq!(untouched.overlaps(&pages), at.is_some());
                match step {
                    0 => {
                        let first = untouched.take_through(&pages).map(|range| range.pages);
                        prop_assert_eq!(first, at.map(|at| model[at].clone()));
                        model.drain(..at.map_or(0, |at| at + 1));
                    }
                    1 => {
                        untouched.remove(&pages);
                        model.retain(|it| !overlap(it, &pages));
                    }
                    2 => {
                        untouched.push_front(UntouchedRange { pages: pages.clone(), run });
                        model.insert(0, pages);
                    }
                    _ => {
                        untouched.push_back(UntouchedRange { pages: pages.clone(), run });
                        model.push(pages);
                    }
                }
                let count = model.iter().map(|it| it.end - it.start).sum::<u64>();
                prop_assert_eq!(untouched.pages(), count);
                let order: Vec<_> = untouched.iter().map(|range| range.pages.clone()).collect();
                prop_assert_eq!(&order, &model);
            }
        }
    }
}
