//! The regions of extended memory: ranges of pages that the program has allocated.

use interleaf_prefetch::page::Page;
use std::{collections::BTreeMap, ops::Range};

/// All regions of a process. Prefetch never crosses the end of a region.
#[derive(Clone, Debug, Default)]
pub(super) struct Regions {
    /// The end of each region, keyed by the first page of the region.
    ends: BTreeMap<Page, Page>,
    /// Number of pages in all regions.
    pages: u64,
}

impl Regions {
    /// Adds pages. Adjacent regions are joined into one region.
    pub(super) fn add(&mut self, pages: Range<Page>) {
        let mut pages = pages;
        if let Some((&start, &end)) = self.ends.range(..=pages.start).next_back()
            && end >= pages.start
        {
            pages = start..end.max(pages.end);
        }
        while let Some((&start, &end)) = self.ends.range(pages.start..=pages.end).next() {
            self.ends.remove(&start);
            self.pages -= end - start;
            pages.end = pages.end.max(end);
        }
        self.insert(pages);
    }

    fn insert(&mut self, pages: Range<Page>) {
        self.pages += pages.end - pages.start;
        self.ends.insert(pages.start, pages.end);
    }

    /// Removes pages. A region with a hole becomes two regions.
    pub(super) fn remove(&mut self, pages: &Range<Page>) {
        let over = self.ends.range(..pages.end).rev().take_while(|it| *it.1 > pages.start);
        let over: Vec<_> = over.map(|(start, end)| *start..*end).collect();
        for region in over {
            self.ends.remove(&region.start);
            self.pages -= region.end - region.start;
            if region.start < pages.start {
                self.insert(region.start..pages.start);
            }
            if pages.end < region.end {
                self.insert(pages.end..region.end);
            }
        }
    }

    /// The region that contains `page`; if no region does, a range of only this page.
    pub(super) fn containing(&self, page: Page) -> Range<Page> {
        let region = self.ends.range(..=page).next_back().filter(|it| *it.1 > page);
        region.map_or(page..page + 1, |(start, end)| *start..*end)
    }

    /// The range of pages around `page` that are in no region; `None` if `page` is in a region.
    pub(super) fn gap(&self, page: Page) -> Option<Range<Page>> {
        let start = self.ends.range(..=page).next_back().map_or(0, |(_, end)| *end);
        let end = || self.ends.range(page..).next().map_or(Page::MAX, |(start, _)| *start);
        (start <= page).then(|| start..end())
    }

    pub(super) fn begins_at(&self, page: Page) -> bool {
        self.ends.contains_key(&page)
    }

    pub(super) const fn pages(&self) -> u64 {
        self.pages
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range<Page>> {
        self.ends.iter().map(|(start, end)| *start..*end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_number_of_pages_is_that_of_all_regions(
            steps in proptest::collection::vec((0_u64..60, 1_u64..20, any::<bool>()), 0..50),
        ) {
            let (mut regions, mut model) = (Regions::default(), BTreeSet::new());
            for (start, count, is_added) in steps {
                let pages = start..start + count;
                if is_added {
                    model.extend(pages.clone());
                    regions.add(pages);
                } else {
                    model.retain(|page| !pages.contains(page));
                    regions.remove(&pages);
                }
                prop_assert_eq!(regions.pages(), model.len() as u64);
                prop_assert!(regions.iter().flatten().eq(model.iter().copied()));
            }
        }
    }

    #[test]
    fn regions_grow_and_get_holes() {
        let mut regions = Regions::default();
        [0..10, 20..30, 10..20, 40..50].into_iter().for_each(|pages| regions.add(pages));
        assert_eq!((regions.containing(15), regions.containing(45)), (0..30, 40..50));
        regions.remove(&(5..45));
        assert_eq!((regions.containing(4), regions.containing(47)), (0..5, 45..50));
        assert_eq!(regions.containing(20), 20..21, "in no region");
        assert_eq!((regions.gap(20), regions.gap(4), regions.gap(45)), (Some(5..45), None, None));
        assert_eq!(
            (regions.gap(50), Regions::default().gap(3)),
            (Some(50..Page::MAX), Some(0..Page::MAX))
        );
    }
}
