//! A map from ranges of pages to values: each page of a range has the value of the range.

use interleaf_prefetch::page::Page;
use std::{collections::BTreeMap, ops::Range};

/// A map from ranges of pages to values. A page outside of all ranges has no value.
#[derive(Clone, Debug)]
pub struct Ranges<T> {
    /// End and value of each range, keyed by the first page of the range.
    ranges: BTreeMap<Page, (Page, T)>,
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Ranges<T> {
    /// A map in which no page has a value.
    pub const fn new() -> Self {
        Self { ranges: BTreeMap::new() }
    }
}

impl<T: Copy> Ranges<T> {
    /// Returns the start, end and value of each range that contains at least one of `pages`, in
    /// descending order of the ranges.
    fn over(&self, pages: &Range<Page>) -> impl Iterator<Item = (Page, Page, T)> {
        let over = self.ranges.range(..pages.end).rev();
        let over = over.map(|(start, (end, value))| (*start, *end, *value));
        over.take_while(|(_, end, _)| *end > pages.start)
    }

    /// Returns the parts of the ranges that lie within `pages`, each with its value, in ascending
    /// order.
    fn within(&self, pages: &Range<Page>) -> Vec<(Range<Page>, T)> {
        let cut = |(start, end, value): (Page, Page, T)| {
            (start.max(pages.start)..end.min(pages.end), value)
        };
        let mut found: Vec<_> = self.over(pages).map(cut).collect();
        found.reverse();
        found
    }

    /// Returns the ranges and values of the pages `to` after `mremap(2)` has moved the mapping
    /// `from` to `to`. Each page keeps its value. If `to` is longer than `from`, the added pages
    /// have the value of the last page of `from`.
    pub fn moved(&self, from: &Range<Page>, to: &Range<Page>) -> Vec<(Range<Page>, T)> {
        let length = (from.end - from.start).min(to.end - to.start);
        let mut moved = self.within(&(from.start..from.start + length));
        for (pages, _) in &mut moved {
            *pages = pages.start - from.start + to.start..pages.end - from.start + to.start;
        }
        let added = to.start + length..to.end;
        if !added.is_empty()
            && let Some(value) = self.get(from.end - 1)
        {
            moved.push((added, value));
        }
        moved
    }

    /// Counts the pages of a range that have a value.
    pub fn count(&self, pages: &Range<Page>) -> u64 {
        self.over(pages).map(|(start, end, _)| end.min(pages.end) - start.max(pages.start)).sum()
    }

    /// The value of a page; `None` if no range contains the page.
    pub(crate) fn get(&self, page: Page) -> Option<T> {
        let (_, (end, value)) = self.ranges.range(..=page).next_back()?;
        (page < *end).then_some(*value)
    }

    /// Sets the value of `pages`. `None` removes their values.
    pub fn set(&mut self, pages: &Range<Page>, value: Option<T>) {
        let over: Vec<_> = self.over(pages).collect();
        for (start, end, other) in over {
            self.ranges.remove(&start);
            if start < pages.start {
                self.ranges.insert(start, (pages.start, other));
            }
            if pages.end < end {
                self.ranges.insert(pages.end, (end, other));
            }
        }
        if let Some(value) = value {
            self.ranges.insert(pages.start, (pages.end, value));
        }
    }

    /// All ranges with their values, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Range<Page>, T)> {
        self.ranges.iter().map(|(start, (end, value))| (*start..*end, *value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_last_value_set_is_found(
            steps in proptest::collection::vec((0_u64..64, 1_u64..64, 0_u8..3), 0..50),
        ) {
            let mut ranges = Ranges::default();
            let mut model = [None; 64];
            for (first, pages, value) in steps {
                let pages = first..(first + pages).min(64);
                let value = (value > 0).then_some(value);
                ranges.set(&pages, value);
                model[pages.start as usize..pages.end as usize].fill(value);
                let found: Vec<_> = (0..64).map(|page| ranges.get(page)).collect();
                prop_assert_eq!(&found[..], &model[..]);
                let count: u64 = ranges.iter().map(|(pages, _)| pages.end - pages.start).sum();
                prop_assert_eq!(count, model.iter().flatten().count() as u64);
                // `count` must be right also for a window that begins or ends within a range.
                let window = first / 2..pages.end;
                let part = &model[window.start as usize..window.end as usize];
                prop_assert_eq!(ranges.count(&window), part.iter().flatten().count() as u64);
                // After a move of the window to another address, with the same, a smaller and a
                // larger size, each page has its former value, and added pages have the value of
                // the last page.
                for length in [window.end - window.start, 3, 100] {
                    let to = 1000..1000 + length;
                    let mut moved = Ranges::new();
                    ranges.moved(&window, &to).into_iter().for_each(|(pages, value)| {
                        moved.set(&pages, Some(value));
                    });
                    let last = part.len() - 1;
                    for at in 0..length {
                        prop_assert_eq!(moved.get(1000 + at), part[last.min(at as usize)]);
                    }
                    prop_assert_eq!(moved.count(&(0..2000)), moved.count(&to));
                }
            }
        }
    }
}
