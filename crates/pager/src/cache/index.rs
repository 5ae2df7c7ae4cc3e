//! A map from each page to its extent.

use crate::cache::frame_pool::ORDER_MAX;
use interleaf_prefetch::page::Page;
use std::ops::Range;

/// The identifier of an extent. The identifier of a removed extent is reused for a new extent.
pub type ExtentId = u32;

/// Marks a page that belongs to no extent.
const NONE: ExtentId = ExtentId::MAX;

pub(crate) const PAGES_PER_HUGE_PAGE: usize = 1 << ORDER_MAX;

/// The extents of the pages of one aligned huge page (2^9 pages). In most cases, all of the pages
/// belong to one extent (`Whole`), or none belongs to an extent (`Whole` with `NONE`).
#[derive(Clone, Debug)]
enum HugePage {
    Whole(ExtentId),
    Parts(Box<[ExtentId; PAGES_PER_HUGE_PAGE]>),
}

/// A map from pages to extents.
#[derive(Clone, Debug, Default)]
pub struct Index {
    huge_pages: Vec<HugePage>,
}

impl Index {
    /// The extent that a page belongs to; `None` if it belongs to none.
    pub fn get(&self, page: Page) -> Option<ExtentId> {
        let id = match self.huge_pages.get((page >> ORDER_MAX) as usize)? {
            HugePage::Whole(id) => *id,
            HugePage::Parts(parts) => parts[page as usize % PAGES_PER_HUGE_PAGE],
        };
        (id != NONE).then_some(id)
    }

    /// The first page of `pages` that belongs to an extent, and this extent.
    pub fn first_extent(&self, pages: Range<Page>) -> Option<(Page, ExtentId)> {
        let mut page = pages.start;
        let end = pages.end.min((self.huge_pages.len() * PAGES_PER_HUGE_PAGE) as Page);
        while page < end {
            let block = &self.huge_pages[(page >> ORDER_MAX) as usize];
            if let HugePage::Whole(NONE) = block {
                page = ((page >> ORDER_MAX) + 1) << ORDER_MAX;
            } else if let Some(id) = self.get(page) {
                return Some((page, id));
            } else {
                page += 1;
            }
        }
        None
    }

    /// Records that the 2^`order` pages from `page` on belong to the extent `id`; `None`: to no
    /// extent.
    pub fn set(&mut self, page: Page, order: u8, id: Option<ExtentId>) {
        let block = (page >> ORDER_MAX) as usize;
        if block >= self.huge_pages.len() {
            self.huge_pages.resize(block + 1, HugePage::Whole(NONE));
        }
        let (block, id) = (&mut self.huge_pages[block], id.unwrap_or(NONE));
        if order == ORDER_MAX {
            *block = HugePage::Whole(id);
            return;
        }
        if let HugePage::Whole(whole) = *block {
            *block = HugePage::Parts(Box::new([whole; PAGES_PER_HUGE_PAGE]));
        }
        let HugePage::Parts(parts) = block else { return };
        parts[page as usize % PAGES_PER_HUGE_PAGE..][..1 << order].fill(id);
        if id == NONE && parts.iter().all(|id| *id == NONE) {
            *block = HugePage::Whole(NONE);
        }
    }

    /// The order of the largest aligned block of 2^order pages around `page` in which no page
    /// belongs to an extent; at most `max`.
    pub fn largest_free_order(&self, page: Page, max: u8) -> u8 {
        let is_free = |order: &u8| {
            let start = page >> order << order;
            (start..start + (1 << order)).all(|page| self.get(page).is_none())
        };
        (0..=max.min(ORDER_MAX)).rev().find(is_free).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_the_extent_that_was_set_last() {
        let mut index = Index::default();
        assert_eq!((index.get(5), index.largest_free_order(5, 9)), (None, 9));
        index.set(512, 9, Some(1));
        assert_eq!((index.get(511), index.get(512), index.get(1023)), (None, Some(1), Some(1)));
        index.set(512, 9, None);
        index.set(520, 2, Some(2));
        assert_eq!((index.get(519), index.get(523), index.get(524)), (None, Some(2), None));
        assert_eq!(
            (index.first_extent(0..521), index.first_extent(524..5000)),
            (Some((520, 2)), None)
        );
        assert_eq!(
            (
                index.largest_free_order(512, 9),
                index.largest_free_order(526, 9),
                index.largest_free_order(600, 9)
            ),
            (3, 2, 6)
        );
        index.set(520, 2, None);
        assert_eq!(index.largest_free_order(600, 9), 9);
    }
}
