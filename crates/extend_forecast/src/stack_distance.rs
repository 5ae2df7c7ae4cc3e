//! LRU stack distances, which give the miss ratio of LRU at all cache sizes in one pass.
//!
//! The stack distance of an access is the number of different blocks that were accessed since the
//! last access to the same block (Mattson, Gecsei, Slutz and Traiger, IBM Systems Journal 1970).
//! LRU with c blocks hits exactly the accesses with a distance below c. Distances are counted with
//! a binary indexed tree over the times of the last accesses, in O(log n) for each access (Bennett
//! and Kruskal, IBM Journal of Research and Development 1975).

use std::collections::HashMap;

/// The number of accesses at each stack distance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// The number of accesses at each distance, by the distance in blocks. Each access counts with
    /// its weight, which is 1 unless the trace was sampled.
    pub by_distance: Vec<f64>,
    /// The number of first accesses to blocks, counted with their weights.
    pub first: f64,
}

impl Histogram {
    /// Adds an access with the weight `weight`. Its distance is `None` if it is the first access to
    /// its block.
    pub(crate) fn add(&mut self, distance: Option<usize>, weight: f64) {
        let Some(distance) = distance else {
            self.first += weight;
            return;
        };
        if self.by_distance.len() <= distance {
            self.by_distance.resize(distance + 1, 0.0);
        }
        self.by_distance[distance] += weight;
    }

    /// The fraction of the accesses that miss in an LRU cache of `blocks` blocks; 0 if there are no
    /// accesses. The fraction never rises with `blocks`.
    pub fn miss_ratio(&self, blocks: usize) -> f64 {
        let hits: f64 = self.by_distance.iter().take(blocks).sum();
        let all = self.by_distance.iter().sum::<f64>() + self.first;
        if all > 0.0 { 1.0 - (hits / all).min(1.0) } else { 0.0 }
    }
}

/// Returns the stack distance of each access, in order; `None` for the first access to a block.
/// `blocks` has the block of each access.
pub fn distances(blocks: &[u32]) -> impl Iterator<Item = Option<usize>> + '_ {
    let mut marks = Marks::new(blocks.len());
    let mut last: HashMap<u32, usize> = HashMap::new();
    blocks.iter().enumerate().map(move |(now, block)| {
        let before = last.insert(*block, now);
        let distance = before.map(|before| {
            // Each block has a mark at its last access. The block's mark moves from its previous
            // access (`before`) to this one (`now`).
            marks.add(before, -1);
            (marks.below(now) - marks.below(before)) as usize
        });
        marks.add(now, 1);
        distance
    })
}

/// Returns the histogram of the stack distances of all accesses. `blocks` has the block of each
/// access, in order.
pub fn histogram(blocks: &[u32]) -> Histogram {
    let mut histogram = Histogram::default();
    distances(blocks).for_each(|distance| histogram.add(distance, 1.0));
    histogram
}

/// A binary indexed tree that counts marks by the time of an access. Each block has one mark, at
/// the time of its last access.
struct Marks(Vec<i64>);

impl Marks {
    fn new(times: usize) -> Self {
        Self(vec![0; times + 1])
    }

    fn add(&mut self, time: usize, change: i64) {
        let mut at = time + 1;
        while at < self.0.len() {
            self.0[at] += change;
            at += at & at.wrapping_neg();
        }
    }

    /// Returns the number of marks at times before `time`.
    fn below(&self, time: usize) -> i64 {
        let (mut at, mut sum) = (time, 0);
        while at > 0 {
            sum += self.0[at];
            at &= at - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{access::Touch, replacement::Replacement};
    use proptest::prelude::*;

    #[test]
    fn distances_of_a_short_trace() {
        let found: Vec<Option<usize>> = distances(&[1, 2, 3, 1, 1, 3, 2]).collect();
        assert_eq!(found, [None, None, None, Some(2), Some(0), Some(1), Some(2)]);
    }

    proptest! {
        #[test]
        fn distances_agree_with_a_list_in_order_of_use(
            blocks in prop::collection::vec(0_u32..30, 0..300),
        ) {
            let mut stack: Vec<u32> = vec![];
            for (at, found) in distances(&blocks).enumerate() {
                let depth = stack.iter().rev().position(|block| *block == blocks[at]);
                prop_assert_eq!(found, depth);
                stack.retain(|block| *block != blocks[at]);
                stack.push(blocks[at]);
            }
        }

        #[test]
        fn the_histogram_of_two_passes_gives_the_misses_of_lru(
            blocks in prop::collection::vec(0_u32..30, 1..150),
            cache in 1_usize..32,
        ) {
            let touches: Vec<Touch> = blocks
                .iter()
                .map(|block| Touch { block: *block, offset: 0, is_write: false })
                .collect();
            let twice: Vec<u32> = [&blocks[..], &blocks].concat();
            let second = distances(&twice).skip(blocks.len());
            let misses = second.filter(|it| it.is_none_or(|it| it >= cache)).count();
            prop_assert_eq!(misses as u64, Replacement::Lru.carried(&touches, cache).read);
        }

        #[test]
        fn the_miss_ratio_never_rises_with_the_cache(
            blocks in prop::collection::vec(0_u32..50, 1..300),
        ) {
            let histogram = histogram(&blocks);
            let ratios: Vec<f64> = (0..60).map(|cache| histogram.miss_ratio(cache)).collect();
            prop_assert!(ratios.windows(2).all(|pair| pair[1] <= pair[0] + 1e-12));
            prop_assert_eq!(ratios[0], 1.0);
        }
    }
}
