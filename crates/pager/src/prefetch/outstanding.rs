//! What a stream has asked for and has not been touched: thousands of pieces where they are single
//! pages, of which each touch and each frame that becomes free wants to know whether one is among
//! them.

use super::stream::Run;
use crate::page::Page;
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

/// What was asked for, and the run that it is of.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) pages: Range<Page>,
    pub(super) run: Run,
}

/// All of it, in the order of its need.
#[derive(Clone, Debug, Default)]
pub(super) struct AllAsked {
    order: VecDeque<Asked>,
    /// How many pieces begin and end so.
    pieces: BTreeMap<(Page, Page), u32>,
    /// None is longer than this.
    longest: u64,
    pages: u64,
}

impl AllAsked {
    /// Nothing.
    pub(super) const fn new() -> Self {
        Self { order: VecDeque::new(), pieces: BTreeMap::new(), longest: 0, pages: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// How many pages there are.
    pub(super) const fn pages(&self) -> u64 {
        self.pages
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Asked> {
        self.order.iter()
    }

    /// Whether some of these pages are among them.
    pub(super) fn has(&self, pages: &Range<Page>) -> bool {
        let first = pages.start.saturating_sub(self.longest);
        let mut near = self.pieces.range((first, 0)..(pages.end, 0));
        near.any(|((_, end), _)| *end > pages.start)
    }

    /// Adds what is needed last.
    pub(super) fn push(&mut self, asked: Asked) {
        self.count(&asked.pages);
        self.order.push_back(asked);
    }

    /// Takes the first that has some of these pages, and all before it.
    pub(super) fn take(&mut self, pages: &Range<Page>) -> Option<Asked> {
        if !self.has(pages) {
            return None;
        }
        while let Some(asked) = self.order.pop_front() {
            self.discount(&asked.pages);
            if overlap(&asked.pages, pages) {
                return Some(asked);
            }
        }
        None
    }

    /// Puts back what is needed first.
    pub(super) fn put(&mut self, asked: Asked) {
        self.count(&asked.pages);
        self.order.push_front(asked);
    }

    /// Forgets all that have some of these pages.
    pub(super) fn remove(&mut self, pages: &Range<Page>) {
        if self.has(pages) {
            let (gone, left) = self.order.drain(..).partition(|it| overlap(&it.pages, pages));
            self.order = left;
            let gone: VecDeque<Asked> = gone;
            gone.iter().for_each(|asked| self.discount(&asked.pages));
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    fn count(&mut self, pages: &Range<Page>) {
        let length = pages.end - pages.start;
        (self.longest, self.pages) = (self.longest.max(length), self.pages + length);
        *self.pieces.entry((pages.start, pages.end)).or_default() += 1;
    }

    fn discount(&mut self, pages: &Range<Page>) {
        self.pages -= pages.end - pages.start;
        let key = (pages.start, pages.end);
        if let Some(count) = self.pieces.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.pieces.remove(&key);
            }
        }
        if self.pieces.is_empty() {
            self.longest = 0;
        }
    }
}

/// Whether two have pages in common.
pub(super) fn overlap(a: &Range<Page>, b: &Range<Page>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_asked_for_is_found_as_if_all_were_looked_at(
            steps in proptest::collection::vec((0_u8..5, 0_u64..200, 1_u64..20), 0..100),
        ) {
            let run = Run::default();
            let (mut all, mut model) = (AllAsked::new(), Vec::<Range<Page>>::new());
            for (step, start, length) in steps {
                let pages = start..start + length;
                let at = model.iter().position(|it| overlap(it, &pages));
                prop_assert_eq!(all.has(&pages), at.is_some());
                match step {
                    0 => {
                        let first = all.take(&pages).map(|asked| asked.pages);
                        prop_assert_eq!(first, at.map(|at| model[at].clone()));
                        model.drain(..at.map_or(0, |at| at + 1));
                    }
                    1 => {
                        all.remove(&pages);
                        model.retain(|it| !overlap(it, &pages));
                    }
                    2 => {
                        all.put(Asked { pages: pages.clone(), run });
                        model.insert(0, pages);
                    }
                    _ => {
                        all.push(Asked { pages: pages.clone(), run });
                        model.push(pages);
                    }
                }
                prop_assert_eq!(all.pages(), model.iter().map(|it| it.end - it.start).sum::<u64>());
                let order: Vec<_> = all.iter().map(|asked| asked.pages.clone()).collect();
                prop_assert_eq!(&order, &model);
            }
        }
    }
}
