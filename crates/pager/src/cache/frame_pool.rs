//! The free frames of the budget: a buddy allocator (Knuth, The Art of Computer Programming vol. 1,
//! section 2.5). A block has 2^n frames and is aligned to its size, so that a block of 512 frames
//! can be a huge page.

use std::{cmp::Reverse, ops::Range};

/// The order of the largest block: a huge page, 2^9 frames of 4 KiB.
pub const ORDER_MAX: u8 = 9;

/// The index of a frame.
pub type Frame = u32;

/// The entry in `FramePool::order` of a frame that is not the first frame of a free block.
const NONE: u8 = u8::MAX;

/// The free frames of a budget.
#[derive(Clone, Debug)]
pub struct FramePool {
    /// The order of the free block that begins with each frame; [`NONE`] for other frames.
    order: Vec<u8>,
    /// The first frames of the free blocks of each order. A block that was merged with its buddy
    /// leaves a stale entry. An entry is valid only if `FramePool::order` of its frame equals the
    /// order of the list.
    blocks: [Vec<Frame>; ORDER_MAX as usize + 1],
    free: u32,
    /// Number of free frames in each aligned huge page of frames.
    free_in_huge_page: Vec<u16>,
}

impl FramePool {
    /// A pool of `frames` frames, all free.
    pub fn new(frames: u32) -> Self {
        let huge_pages = frames.div_ceil(1 << ORDER_MAX);
        let frames_of = |block: u32| (frames - (block << ORDER_MAX)).min(1 << ORDER_MAX) as u16;
        let mut pool = Self {
            order: vec![NONE; frames as usize],
            blocks: Default::default(),
            free: frames,
            free_in_huge_page: (0..huge_pages).map(frames_of).collect(),
        };
        let mut at = 0;
        while at < frames {
            let fits = |order: &u8| at.is_multiple_of(1 << order) && frames - at >= 1 << order;
            let order = (0..=ORDER_MAX).rev().find(fits).unwrap_or(0);
            pool.add_free_block(at, order);
            at += 1 << order;
        }
        for blocks in &mut pool.blocks {
            blocks.reverse();
        }
        pool
    }

    pub const fn free_frames(&self) -> u32 {
        self.free
    }

    /// Allocates 2^`order` contiguous frames, and returns the first of them; `None` if no free
    /// block is large enough.
    pub fn allocate(&mut self, order: u8) -> Option<Frame> {
        let (frame, found) =
            (order..=ORDER_MAX).find_map(|order| Some((self.pop_free_block(order)?, order)))?;
        Some(self.take(frame, order, found))
    }

    /// Allocates 2^`order` contiguous frames outside `avoided`: from a free block of fewer than
    /// 2^`order_max` frames that does not begin in `avoided`.
    pub fn allocate_outside(
        &mut self,
        avoided: &Range<Frame>,
        order: u8,
        order_max: u8,
    ) -> Option<Frame> {
        let (frame, found) = (order..order_max).find_map(|order| {
            let blocks = &mut self.blocks[usize::from(order)];
            let at = blocks.iter().rposition(|block| {
                self.order[*block as usize] == order && !avoided.contains(block)
            })?;
            Some((blocks.swap_remove(at), order))
        })?;
        self.order[frame as usize] = NONE;
        Some(self.take(frame, order, found))
    }

    /// Takes the first 2^`order` frames of a free block of 2^`found` frames, which was removed from
    /// its list. The other frames of the block stay free.
    fn take(&mut self, frame: Frame, order: u8, mut found: u8) -> Frame {
        while found > order {
            found -= 1;
            self.add_free_block(frame + (1 << found), found);
        }
        self.free -= 1 << order;
        self.free_in_huge_page[(frame >> ORDER_MAX) as usize] -= 1 << order;
        frame
    }

    /// The number of frames of the free block that begins with `frame`; `None` if no free block
    /// begins with it.
    pub fn free_block(&self, frame: Frame) -> Option<u32> {
        let order = *self.order.get(frame as usize)?;
        (order != NONE).then(|| 1 << order)
    }

    /// Returns at most `count` aligned huge pages that have both free and used frames: those with
    /// the most free frames. Each element has the first frame of a huge page, and the number of its
    /// free frames.
    pub fn emptiest(&self, count: usize) -> Vec<(Frame, u32)> {
        let whole = self.order.len() >> ORDER_MAX;
        let blocks = self.free_in_huge_page.iter().take(whole).enumerate();
        let some = blocks.filter(|(_, free)| (1..1 << ORDER_MAX).contains(*free));
        let mut found: Vec<(Frame, u32)> =
            some.map(|(block, free)| ((block as Frame) << ORDER_MAX, u32::from(*free))).collect();
        let order = |(frame, free): &(Frame, u32)| (Reverse(*free), *frame);
        if count < found.len() {
            found.select_nth_unstable_by_key(count, order);
            found.truncate(count);
        }
        found.sort_unstable_by_key(order);
        found
    }

    /// Frees frames that [`FramePool::allocate`] allocated.
    pub fn deallocate(&mut self, mut frame: Frame, mut order: u8) {
        self.free += 1 << order;
        self.free_in_huge_page[(frame >> ORDER_MAX) as usize] += 1 << order;
        while order < ORDER_MAX {
            let buddy = frame ^ (1 << order);
            if self.order.get(buddy as usize) != Some(&order) {
                break;
            }
            self.order[buddy as usize] = NONE;
            frame = frame.min(buddy);
            order += 1;
        }
        self.add_free_block(frame, order);
    }

    fn add_free_block(&mut self, frame: Frame, order: u8) {
        self.order[frame as usize] = order;
        let blocks = &mut self.blocks[usize::from(order)];
        // Remove the stale entries if the list has more than two entries for each possible block of
        // this order. Most entries are stale then.
        if blocks.len() > (self.order.len() >> order) * 2 + 16 {
            blocks.sort_unstable();
            blocks.dedup();
            blocks.retain(|block| self.order[*block as usize] == order);
        }
        blocks.push(frame);
    }

    fn pop_free_block(&mut self, order: u8) -> Option<Frame> {
        loop {
            let frame = self.blocks[usize::from(order)].pop()?;
            let valid = &mut self.order[frame as usize];
            if *valid == order {
                *valid = NONE;
                return Some(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_block_outside_of_others_is_the_smallest_that_fits() {
        let mut pool = FramePool::new(1024);
        let frames: Vec<Frame> = (0..1024).filter_map(|_| pool.allocate(0)).collect();
        assert_eq!(frames.len(), 1024);
        for frame in [3, 8, 9, 100, 512, 513, 514, 515] {
            pool.deallocate(frame, 0);
        }
        assert_eq!(pool.allocate_outside(&(0..16), 0, 5), Some(100));
        assert_eq!(pool.allocate_outside(&(0..16), 0, 2), None, "only larger blocks are free");
        assert_eq!(pool.allocate_outside(&(0..16), 1, 5), Some(512));
        assert_eq!((pool.free_block(514), pool.free_block(512)), (Some(2), None));
        assert_eq!(pool.allocate_outside(&(512..1024), 2, 5), None);
        assert_eq!(pool.allocate_outside(&(512..1024), 1, 5), Some(8));
        assert_eq!((pool.free_frames(), pool.emptiest(9)), (3, vec![(512, 2), (0, 1)]));
    }

    #[test]
    fn blocks_are_aligned_and_merge_again() {
        let mut pool = FramePool::new(1024 + 5);
        let small = pool.allocate(0).unwrap();
        let huge = pool.allocate(9).unwrap();
        assert!(huge.is_multiple_of(512));
        assert_eq!(pool.free_frames(), 1029 - 513);
        pool.deallocate(small, 0);
        pool.deallocate(huge, 9);
        assert_eq!(
            (pool.allocate(9).is_some(), pool.allocate(9).is_some(), pool.allocate(9)),
            (true, true, None)
        );
    }

    proptest! {
        #[test]
        fn no_frame_is_allocated_twice(
            frames in 1_u32..3000,
            steps in proptest::collection::vec((0_u8..=9, any::<u8>()), 0..400),
        ) {
            let mut pool = FramePool::new(frames);
            let mut used = vec![false; frames as usize];
            let mut taken: Vec<(Frame, u8)> = vec![];
            for (order, which) in steps {
                if which % 3 == 0 && !taken.is_empty() {
                    let (frame, order) = taken.swap_remove(usize::from(which) % taken.len());
                    used[frame as usize..][..1 << order].fill(false);
                    pool.deallocate(frame, order);
                } else if let Some(frame) = pool.allocate(order) {
                    prop_assert!(frame.is_multiple_of(1 << order));
                    let block = &mut used[frame as usize..][..1 << order];
                    prop_assert!(block.iter().all(|used| !used));
                    block.fill(true);
                    taken.push((frame, order));
                }
                let free = used.iter().filter(|used| !**used).count();
                prop_assert_eq!(pool.free_frames() as usize, free);
            }
            for (frame, order) in taken.drain(..) {
                pool.deallocate(frame, order);
            }
            for _ in 0..frames / 512 {
                prop_assert!(pool.allocate(9).is_some(), "all blocks have merged");
            }
        }
    }
}
