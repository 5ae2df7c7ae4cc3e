//! Reuse distances. The reuse distance of a page is the number of pages evicted between an eviction
//! of the page and its next read.
//!
//! In a loop, a protected page saves one read at each reuse. Protecting pages with a short reuse
//! distance therefore saves more reads in the same time than protecting other pages. For example, a
//! blocked matrix product reads one matrix once for each row of blocks, and another matrix only
//! once.

use interleaf_prefetch::page::Page;
use std::ops::Range;

/// Order of the blocks of pages that share one mean reuse distance: 2^`BLOCK_ORDER` pages.
const BLOCK_ORDER: u8 = 6;

/// The weight of a new reuse distance in the mean distance of a block, and of its deviation in the
/// mean deviation. This is the weight of a read of the whole block; a shorter read has less weight.
/// The weight is small, because a single distance says little: a loop that reverses its direction
/// at the end of an array, or crosses an array in another direction, has short and long distances
/// in turn.
const WEIGHT: f64 = 0.1;

/// The reuse distances of each block of 2^[`BLOCK_ORDER`] pages.
#[derive(Clone, Debug, Default)]
pub(super) struct ReuseDistances {
    blocks: Vec<BlockReuse>,
}

#[derive(Clone, Copy, Debug, Default)]
struct BlockReuse {
    /// The mean reuse distance of the block's pages, in evicted pages; 0 for unknown.
    mean: u32,
    /// The mean absolute deviation of the distances from the mean.
    deviation: u32,
    /// True if a page of the block was evicted long after its last use. The reuse distance of the
    /// next read is then too short, and is ignored.
    is_late_eviction: bool,
}

impl ReuseDistances {
    fn blocks_mut(&mut self, pages: &Range<Page>) -> &mut [BlockReuse] {
        let first = (pages.start >> BLOCK_ORDER) as usize;
        let end = ((pages.end - 1) >> BLOCK_ORDER) as usize + 1;
        if self.blocks.len() < end {
            self.blocks.resize(end, BlockReuse::default());
        }
        &mut self.blocks[first..end]
    }

    /// Notes a read of pages. Between the last eviction of these pages and this read, `distance`
    /// pages were evicted.
    pub(super) fn on_read(&mut self, pages: &Range<Page>, distance: u32) {
        let part = (pages.end - pages.start) as f64 / f64::from(1 << BLOCK_ORDER);
        let weight = WEIGHT * part.min(1.0);
        for block in self.blocks_mut(pages) {
            if std::mem::take(&mut block.is_late_eviction) {
                continue;
            }
            let mean = f64::from(if block.mean == 0 { distance } else { block.mean });
            let deviation = f64::from(block.deviation);
            let difference = f64::from(distance) - mean;
            block.mean = (mean + difference * weight).max(1.0) as u32;
            block.deviation = (deviation + (difference.abs() - deviation) * weight) as u32;
        }
    }

    /// Notes that pages are evicted long after their last use. Their next reuse distance is
    /// ignored: it is counted from the eviction, and is therefore too short.
    pub(super) fn on_late_eviction(&mut self, pages: &Range<Page>) {
        self.blocks_mut(pages).iter_mut().for_each(|block| block.is_late_eviction = true);
    }

    /// The range of the reuse distances of the block that contains `page`, in evicted pages: from
    /// half of the mean deviation below the mean to half of it above the mean. `None` before an
    /// evicted page of the block has been read again.
    pub(super) fn get(&self, page: Page) -> Option<Range<u32>> {
        let BlockReuse { mean, deviation, .. } =
            *self.blocks.get((page >> BLOCK_ORDER) as usize)?;
        (mean > 0).then(|| mean.saturating_sub(deviation / 2)..mean.saturating_add(deviation / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distances_of_a_block_are_those_of_recent_reads() {
        let mut distances = ReuseDistances::default();
        assert_eq!(distances.get(5), None);
        distances.on_read(&(0..64), 1000);
        assert_eq!((distances.get(5), distances.get(64)), (Some(1000..1000), None));
        (0..70).for_each(|_| distances.on_read(&(0..64), 200));
        let recent = distances.get(63).unwrap_or_default();
        assert!(190 < recent.start && recent.end < 220, "{recent:?}");
        distances.on_read(&(60..130), 40);
        assert_eq!(distances.get(129), Some(40..40));
    }

    #[test]
    fn distances_that_vary_have_a_wide_range() {
        let mut distances = ReuseDistances::default();
        (0..100).for_each(|at| distances.on_read(&(0..64), 1000 + at % 2 * 1000));
        let range = distances.get(0).unwrap_or_default();
        assert!(range.start < 1350 && range.end > 1650, "{range:?}");
    }

    #[test]
    fn the_distance_after_a_late_eviction_does_not_count() {
        let mut distances = ReuseDistances::default();
        distances.on_read(&(0..64), 1000);
        distances.on_late_eviction(&(10..12));
        distances.on_read(&(0..64), 1);
        assert_eq!(distances.get(0), Some(1000..1000));
        distances.on_read(&(0..64), 1);
        assert!(distances.get(0).unwrap_or_default().start < 1000);
    }
}
