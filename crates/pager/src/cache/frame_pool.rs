//! The frames of the budget: which of them are free, and which lie together.
//!
//! A buddy allocator (Knuth, The Art of Computer Programming vol. 1, section 2.5): pieces are
//! powers of two of frames, aligned to their size, so that a piece of 512 can be a huge page.

/// The largest piece is a huge page: 2^9 frames of 4 KiB.
pub const ORDER_MAX: u8 = 9;

/// A frame, by its number.
pub type Frame = u32;

/// Not the first of a free piece.
const NONE: u8 = u8::MAX;

/// The frames of a budget.
#[derive(Clone, Debug)]
pub struct FramePool {
    /// Of each frame that a free piece begins with, the order of the piece.
    order: Vec<u8>,
    /// Free pieces by order. An entry counts as long as `order` says the same: a piece that was
    /// joined with its neighbour leaves its entry behind.
    pieces: [Vec<Frame>; ORDER_MAX as usize + 1],
    free: u32,
    /// Free frames of each block of the largest pieces.
    free_of: Vec<u16>,
}

impl FramePool {
    /// All of `frames`, free.
    pub fn new(frames: u32) -> Self {
        let blocks = frames.div_ceil(1 << ORDER_MAX);
        let in_block = |block: u32| (frames - (block << ORDER_MAX)).min(1 << ORDER_MAX) as u16;
        let mut pool = Self {
            order: vec![NONE; frames as usize],
            pieces: Default::default(),
            free: frames,
            free_of: (0..blocks).map(in_block).collect(),
        };
        let mut at = 0;
        while at < frames {
            let fits = |order: &u8| at.is_multiple_of(1 << order) && frames - at >= 1 << order;
            let order = (0..=ORDER_MAX).rev().find(fits).unwrap_or(0);
            pool.put(at, order);
            at += 1 << order;
        }
        for pieces in &mut pool.pieces {
            pieces.reverse();
        }
        pool
    }

    /// How many frames are free.
    pub const fn free(&self) -> u32 {
        self.free
    }

    /// The first of 2^`order` free frames, which are free no more; `None` where no so many lie
    /// together.
    pub fn take(&mut self, order: u8) -> Option<Frame> {
        let (frame, mut of) = (order..=ORDER_MAX).find_map(|of| Some((self.pop(of)?, of)))?;
        while of > order {
            of -= 1;
            self.put(frame + (1 << of), of);
        }
        self.free -= 1 << order;
        self.free_of[(frame >> ORDER_MAX) as usize] -= 1 << order;
        Some(frame)
    }

    /// The block of the largest piece that has most free frames but not only such: its first frame,
    /// and how many are free.
    pub fn emptiest(&self) -> Option<(Frame, u32)> {
        let whole = self.order.len() >> ORDER_MAX;
        let blocks = self.free_of.iter().take(whole).enumerate();
        let some = blocks.filter(|(_, free)| **free < 1 << ORDER_MAX);
        let (block, free) = some.max_by_key(|(_, free)| **free)?;
        Some(((block as Frame) << ORDER_MAX, u32::from(*free)))
    }

    /// Gives back what [`FramePool::take`] gave.
    pub fn give(&mut self, mut frame: Frame, mut order: u8) {
        self.free += 1 << order;
        self.free_of[(frame >> ORDER_MAX) as usize] += 1 << order;
        while order < ORDER_MAX {
            let buddy = frame ^ (1 << order);
            if self.order.get(buddy as usize) != Some(&order) {
                break;
            }
            self.order[buddy as usize] = NONE;
            frame = frame.min(buddy);
            order += 1;
        }
        self.put(frame, order);
    }

    fn put(&mut self, frame: Frame, order: u8) {
        self.order[frame as usize] = order;
        let pieces = &mut self.pieces[usize::from(order)];
        // There are no more free pieces than frames of them: the rest has been joined.
        if pieces.len() > (self.order.len() >> order) * 2 + 16 {
            pieces.sort_unstable();
            pieces.dedup();
            pieces.retain(|piece| self.order[*piece as usize] == order);
        }
        pieces.push(frame);
    }

    fn pop(&mut self, order: u8) -> Option<Frame> {
        loop {
            let frame = self.pieces[usize::from(order)].pop()?;
            let of = &mut self.order[frame as usize];
            if *of == order {
                *of = NONE;
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
    fn pieces_are_aligned_and_join_again() {
        let mut pool = FramePool::new(1024 + 5);
        let small = pool.take(0).unwrap();
        let huge = pool.take(9).unwrap();
        assert!(huge.is_multiple_of(512));
        assert_eq!(pool.free(), 1029 - 513);
        pool.give(small, 0);
        pool.give(huge, 9);
        assert_eq!(
            (pool.take(9).is_some(), pool.take(9).is_some(), pool.take(9)),
            (true, true, None)
        );
    }

    proptest! {
        #[test]
        fn no_frame_is_given_twice(
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
                    pool.give(frame, order);
                } else if let Some(frame) = pool.take(order) {
                    prop_assert!(frame.is_multiple_of(1 << order));
                    let piece = &mut used[frame as usize..][..1 << order];
                    prop_assert!(piece.iter().all(|used| !used));
                    piece.fill(true);
                    taken.push((frame, order));
                }
                let free = used.iter().filter(|used| !**used).count();
                prop_assert_eq!(pool.free() as usize, free);
            }
            for (frame, order) in taken.drain(..) {
                pool.give(frame, order);
            }
            for _ in 0..frames / 512 {
                prop_assert!(pool.take(9).is_some(), "all is joined again");
            }
        }
    }
}
