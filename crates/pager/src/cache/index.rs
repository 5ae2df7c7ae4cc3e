//! Which extent a page belongs to.

use crate::{cache::frame_pool::ORDER_MAX, page::Page};
use std::ops::Range;

/// Names an extent while it is there.
pub type ExtentId = u32;

/// No extent.
const NONE: ExtentId = ExtentId::MAX;

const BLOCK_PAGES: usize = 1 << ORDER_MAX;

/// The extents of the pages of a block, which is as large as a huge page: most blocks have one
/// extent or none.
#[derive(Clone, Debug)]
enum Block {
    Whole(ExtentId),
    Parts(Box<[ExtentId; BLOCK_PAGES]>),
}

/// The extent of each page.
#[derive(Clone, Debug, Default)]
pub struct Index {
    blocks: Vec<Block>,
}

impl Index {
    /// The extent of a page.
    pub fn get(&self, page: Page) -> Option<ExtentId> {
        let id = match self.blocks.get((page >> ORDER_MAX) as usize)? {
            Block::Whole(id) => *id,
            Block::Parts(parts) => parts[page as usize % BLOCK_PAGES],
        };
        (id != NONE).then_some(id)
    }

    /// The first of these pages that belongs to an extent, and its extent.
    pub fn first(&self, pages: Range<Page>) -> Option<(Page, ExtentId)> {
        let mut page = pages.start;
        let end = pages.end.min((self.blocks.len() * BLOCK_PAGES) as Page);
        while page < end {
            let block = &self.blocks[(page >> ORDER_MAX) as usize];
            if let Block::Whole(NONE) = block {
                page = ((page >> ORDER_MAX) + 1) << ORDER_MAX;
            } else if let Some(id) = self.get(page) {
                return Some((page, id));
            } else {
                page += 1;
            }
        }
        None
    }

    /// Says that 2^`order` pages from `page` on belong to an extent, or to none.
    pub fn set(&mut self, page: Page, order: u8, id: Option<ExtentId>) {
        let block = (page >> ORDER_MAX) as usize;
        if block >= self.blocks.len() {
            self.blocks.resize(block + 1, Block::Whole(NONE));
        }
        let (block, id) = (&mut self.blocks[block], id.unwrap_or(NONE));
        if order == ORDER_MAX {
            *block = Block::Whole(id);
            return;
        }
        if let Block::Whole(whole) = *block {
            *block = Block::Parts(Box::new([whole; BLOCK_PAGES]));
        }
        let Block::Parts(parts) = block else { return };
        parts[page as usize % BLOCK_PAGES..][..1 << order].fill(id);
        if id == NONE && parts.iter().all(|id| *id == NONE) {
            *block = Block::Whole(NONE);
        }
    }

    /// The order of the largest aligned extent around `page` that holds no other, `most` at most.
    pub fn room(&self, page: Page, most: u8) -> u8 {
        let is_free = |order: &u8| {
            let start = page >> order << order;
            (start..start + (1 << order)).all(|page| self.get(page).is_none())
        };
        (0..=most.min(ORDER_MAX)).rev().find(is_free).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_the_extent_that_was_set_last() {
        let mut index = Index::default();
        assert_eq!((index.get(5), index.room(5, 9)), (None, 9));
        index.set(512, 9, Some(1));
        assert_eq!((index.get(511), index.get(512), index.get(1023)), (None, Some(1), Some(1)));
        index.set(512, 9, None);
        index.set(520, 2, Some(2));
        assert_eq!((index.get(519), index.get(523), index.get(524)), (None, Some(2), None));
        assert_eq!((index.first(0..521), index.first(524..5000)), (Some((520, 2)), None));
        assert_eq!((index.room(512, 9), index.room(526, 9), index.room(600, 9)), (3, 2, 6));
        index.set(520, 2, None);
        assert_eq!(index.room(600, 9), 9);
    }
}
