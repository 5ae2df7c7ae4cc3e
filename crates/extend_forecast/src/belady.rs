//! Optimal replacement: the fewest blocks that a cache can read from a drive for a trace of
//! accesses.
//!
//! A cache reads the fewest blocks if it evicts the block whose next use is furthest away (Belady,
//! IBM Systems Journal 1966). This choice needs knowledge of the future. The reads of optimal
//! replacement are a lower bound for every prefetcher and replacement policy, but its writes are
//! not. A dirty block is written back when it is evicted.

use crate::access::{BlockTraffic, Touch};
use std::collections::{BTreeMap, HashMap};

/// A block in the cache. `next` is the index of the access that uses the block next; the indices of
/// the second pass continue those of the first. `is_dirty` is true if the block was written since
/// it was read.
#[derive(Clone, Copy, Debug)]
struct Resident {
    next: usize,
    is_dirty: bool,
}

/// Returns the traffic of one pass through a trace that repeats for ever, with optimal replacement
/// in a cache of `blocks` blocks (at least 1). A first pass fills the cache and is not counted.
pub fn carried(trace: &[Touch], blocks: usize) -> BlockTraffic {
    let mut cache =
        Cache { most: blocks.max(1), resident: HashMap::new(), by_next: BTreeMap::new() };
    let length = trace.len();
    let nexts = nexts(trace);
    let mut carried = BlockTraffic::default();
    for (at, touch) in trace.iter().enumerate() {
        cache.touch(*touch, nexts[at], &mut BlockTraffic::default());
    }
    for (at, touch) in trace.iter().enumerate() {
        cache.touch(*touch, nexts[at] + length, &mut carried);
    }
    carried
}

/// Returns, for each access of a trace that repeats, the index of the next access to the same
/// block. If that access is in the next pass, the index is at least the length of the trace.
fn nexts(trace: &[Touch]) -> Vec<usize> {
    let mut nexts = vec![0; trace.len()];
    let mut seen = HashMap::new();
    // Visit the accesses of two passes in reverse order, because the next access to a block may be
    // in the second pass.
    for at in (0..2 * trace.len()).rev() {
        let next = seen.insert(trace[at % trace.len()].block, at);
        if at < trace.len() {
            nexts[at] = next.unwrap_or(at + trace.len());
        }
    }
    nexts
}

struct Cache {
    most: usize,
    resident: HashMap<u32, Resident>,
    /// The resident blocks, keyed by the index of their next access. The keys differ, because each
    /// access is to one block.
    by_next: BTreeMap<usize, u32>,
}

impl Cache {
    fn touch(&mut self, touch: Touch, next: usize, carried: &mut BlockTraffic) {
        let Touch { block, is_write, .. } = touch;
        let before = self.resident.remove(&block);
        match before {
            Some(resident) => {
                self.by_next.remove(&resident.next);
            }
            None => {
                carried.read += 1;
                if self.resident.len() >= self.most {
                    self.evict(carried);
                }
            }
        }
        let is_dirty = is_write || before.is_some_and(|resident| resident.is_dirty);
        self.resident.insert(block, Resident { next, is_dirty });
        self.by_next.insert(next, block);
    }

    fn evict(&mut self, carried: &mut BlockTraffic) {
        let Some((_, block)) = self.by_next.pop_last() else { return };
        if self.resident.remove(&block).is_some_and(|resident| resident.is_dirty) {
            carried.written += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn reads(blocks: &[u32]) -> Vec<Touch> {
        blocks.iter().map(|block| Touch { block: *block, offset: 0, is_write: false }).collect()
    }

    #[test]
    fn a_sweep_over_twice_the_cache_reads_half_of_it() {
        let trace = reads(&(0..1000).collect::<Vec<_>>());
        let BlockTraffic { read, written } = carried(&trace, 500);
        // In a long run, optimal replacement with c cached blocks reads n (n - c) / (n - 1) blocks
        // in a pass over n blocks: 500.5 blocks for n = 1000 and c = 500.
        assert!((500..=501).contains(&read) && written == 0, "{read} and {written}");
        assert_eq!(carried(&trace, 1000).read, 0);
    }

    #[test]
    fn a_modified_block_is_written_once() {
        let trace: Vec<Touch> =
            (0..10).map(|block| Touch { block, offset: 0, is_write: true }).collect();
        let BlockTraffic { read, written } = carried(&trace, 5);
        assert_eq!(read, written);
        assert_eq!(carried(&trace, 10), BlockTraffic::default());
    }

    /// Returns the least number of blocks that a cache of `most` blocks can read for a trace, by an
    /// exhaustive search over all choices of victims. `resident` has the blocks in the cache at the
    /// start.
    fn least(trace: &[u32], resident: &HashSet<u32>, most: usize) -> u64 {
        let Some((block, rest)) = trace.split_first() else { return 0 };
        let mut with = resident.clone();
        if !with.insert(*block) {
            return least(rest, resident, most);
        }
        if resident.len() < most {
            return 1 + least(rest, &with, most);
        }
        let without = |gone: &u32| {
            let mut with = with.clone();
            with.remove(gone);
            least(rest, &with, most)
        };
        1 + resident.iter().map(without).min().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn nothing_reads_less(trace in prop::collection::vec(0_u32..5, 1..7), most in 1_usize..4) {
            let twice: Vec<u32> = trace.iter().chain(&trace).copied().collect();
            let whole = least(&twice, &HashSet::new(), most);
            let mut first = BlockTraffic::default();
            let touches = reads(&trace);
            let nexts = nexts(&touches);
            let mut cache =
                Cache { most, resident: HashMap::new(), by_next: BTreeMap::new() };
            for (at, touch) in touches.iter().enumerate() {
                cache.touch(*touch, nexts[at], &mut first);
            }
            // `carried` minimizes the reads of a trace that continues after its second pass. Its
            // two passes may therefore read more than the optimum of a trace that ends there, but
            // never less.
            prop_assert!(first.read + carried(&touches, most).read >= whole);
        }
    }
}
