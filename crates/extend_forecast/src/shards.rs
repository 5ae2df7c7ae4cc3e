//! SHARDS: the miss ratio curve of LRU from a sample of the blocks (Waldspurger, Park, Garthwaite
//! and Ahmad, FAST 2015).
//!
//! A block is in the sample if its hash is below a threshold, so either all accesses to a block are
//! sampled, or none. The LRU stack distances of the sampled accesses are divided by the sampling
//! rate R. The variant SHARDS-adj corrects the number of accesses: the expected number minus the
//! sampled number is added at the shortest distance. With several thousand blocks in the sample,
//! the paper reports a mean error of the miss ratio of about 0.01.
//!
//! The same sample simulates any other policy: a cache of R c blocks with the sampled accesses
//! stands for a cache of c blocks with all accesses (Waldspurger, Saemundsson, Ahmad and Park,
//! miniature simulations, USENIX ATC 2017).

use crate::{
    access::{Touch, hash},
    stack_distance::{self, Histogram},
};

/// Number of sampled blocks with which the mean error of the miss ratio is about 0.01 (FAST 2015,
/// figure 5: 8192 samples).
pub const SAMPLE_BLOCKS: usize = 8192;

/// The number of hash values, 2^64.
const HASHES: f64 = 18_446_744_073_709_551_616.0;

/// A sample of the blocks of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The accesses to the sampled blocks, in order.
    pub touches: Vec<Touch>,
    /// The sampling rate: the expected fraction of the blocks that is sampled; 1 if all blocks are
    /// in the sample.
    pub rate: f64,
    /// The number of accesses in the whole trace.
    pub accesses: usize,
}

impl Sample {
    /// Samples about `most` blocks of a trace. `distinct` is the number of different blocks in the
    /// trace.
    pub fn new(touches: &[Touch], distinct: usize, most: usize) -> Self {
        let accesses = touches.len();
        if distinct <= most.max(1) {
            return Self { touches: touches.to_vec(), rate: 1.0, accesses };
        }
        let share = most as f64 / distinct as f64;
        let threshold = (share * HASHES) as u64;
        let is_sampled = |touch: &&Touch| hash(u64::from(touch.block)) < threshold;
        let touches: Vec<Touch> = touches.iter().filter(is_sampled).copied().collect();
        Self { touches, rate: share, accesses }
    }

    /// Returns the histogram of stack distances, scaled from the sample to the whole trace.
    pub fn histogram(&self) -> Histogram {
        let blocks: Vec<u32> = self.touches.iter().map(|touch| touch.block).collect();
        let weight = 1.0 / self.rate;
        let mut histogram = Histogram::default();
        for distance in stack_distance::distances(&blocks) {
            let scaled = distance.map(|distance| (distance as f64 / self.rate).round() as usize);
            histogram.add(scaled, weight);
        }
        if self.rate < 1.0 {
            // SHARDS-adj: the number of accesses in the trace, minus the number that the sample
            // stands for, is added at the shortest distance. The difference may be negative.
            let missing = self.accesses as f64 - self.touches.len() as f64 * weight;
            histogram.add(Some(0), missing);
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn touches(blocks: &[u32]) -> Vec<Touch> {
        blocks.iter().map(|block| Touch { block: *block, offset: 0, is_write: false }).collect()
    }

    /// Returns the blocks of `accesses` random accesses, with a skewed distribution over `distinct`
    /// blocks.
    fn skewed(distinct: u32, accesses: usize, seed: u64) -> Vec<u32> {
        let unit = |at: usize| hash(seed ^ (at as u64) << 8) as f64 / HASHES;
        (0..accesses).map(|at| (unit(at).powi(3) * f64::from(distinct)) as u32).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn a_sample_of_a_fifth_gives_the_exact_curve(seed in 0_u64..1000) {
            let blocks = skewed(4000, 40_000, seed);
            let exact = stack_distance::histogram(&blocks);
            let sample = Sample::new(&touches(&blocks), 4000, 800);
            let sampled = sample.histogram();
            let errors: Vec<f64> = (0..40)
                .map(|step| 100 * step)
                .map(|cache| (exact.miss_ratio(cache) - sampled.miss_ratio(cache)).abs())
                .collect();
            let mean = errors.iter().sum::<f64>() / errors.len() as f64;
            prop_assert!(mean < 0.03, "{mean}");
        }

        #[test]
        fn a_small_trace_is_taken_whole(blocks in prop::collection::vec(0_u32..50, 1..200)) {
            let sample = Sample::new(&touches(&blocks), 50, 64);
            prop_assert_eq!(sample.rate, 1.0);
            prop_assert_eq!(sample.histogram(), stack_distance::histogram(&blocks));
        }
    }

    #[test]
    fn all_accesses_to_a_block_are_in_the_sample_or_none() {
        let blocks = skewed(4000, 20_000, 7);
        let sample = Sample::new(&touches(&blocks), 4000, 500);
        for chosen in sample.touches.iter().take(50) {
            let of =
                |touches: &[Touch]| touches.iter().filter(|it| it.block == chosen.block).count();
            assert_eq!(of(&sample.touches), of(&touches(&blocks)));
        }
    }
}
