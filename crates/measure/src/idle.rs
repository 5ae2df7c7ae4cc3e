//! Measures idle latency: of memory, in the local and the random order of the chase, and of each
//! level of the caches.
//!
//! The result of a repetition is the median of slices of 2 ms, which is correct if fewer than half
//! of the slices are disturbed. The result of an order of the chase is the median of several
//! repetitions, with their spread.

use crate::{
    chase::{BLOCK_BYTES, Chase, ChaseError, ChaseShape, Order, Slices},
    clock::Clock,
    levels::{Levels, Visited, levels},
    region::{Pages, Region},
    spread::{Spread, spread},
};
use interleaf_linux::place::mempolicy::Policy;
use std::time::Duration;

/// The number of memory sizes that `sweep` measures for each doubling of the size.
const SIZES_PER_OCTAVE: u32 = 4;

/// The smallest memory size that `sweep` measures, bytes: a page, which fits into every first-level
/// cache.
const SMALLEST_BYTES: usize = 4 << 10;

/// The time for which `sweep` measures each memory size: fifteen slices. Before these slices, the
/// chase makes one lap to warm the caches.
const SIZE_SPAN: Duration = Duration::from_millis(30);

/// Minimum size of measured memory, as a multiple of the size of the last-level cache. This is the
/// rule of STREAM ("each array must be at least 4 times the size of the sum of all the last-level
/// caches used in the run"). With this size, at most a quarter of the accesses hit the cache.
pub const LAST_LEVEL_FACTOR: u64 = 4;

/// Lower limit of `largest_size`, bytes: four times 4 MiB. No private cache of a current server
/// processor is larger than 4 MiB.
const LARGEST_BYTES_MIN: u64 = 16 << 20;

/// Upper limit of `largest_size`, bytes: four times 1 GiB. No shared cache of a current server
/// processor is larger than 1 GiB.
const LARGEST_BYTES_MAX: u64 = 4 << 30;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChaseOptions {
    /// The size of the memory that the chase visits, bytes. Default: 200 MB, as in MLC.
    pub bytes: usize,
    /// The distance from one line to the next, bytes. Default: 64, every line.
    pub stride: usize,
    /// Bytes of a block of the local order; a block has at least two lines. Default: 256 KiB.
    pub block_bytes: usize,
    /// The kind of pages of the memory. Default: transparent huge pages.
    pub pages: Pages,
    /// The memory policy. Default: memory of the node on which the thread runs.
    pub policy: Policy,
    /// The seed of the random orders. Default: 1.
    pub seed: u64,
    /// True if each lap has a new random order. Default: false.
    pub new_laps: bool,
    /// The number of repetitions. Default: 5.
    pub repeats: usize,
    /// The length of a repetition. Default: 300 ms, about a lap.
    pub span: Duration,
}

impl Default for ChaseOptions {
    fn default() -> Self {
        Self {
            bytes: 200_000_000,
            stride: 64,
            block_bytes: BLOCK_BYTES,
            pages: Pages::Huge,
            policy: Policy::Default,
            seed: 1,
            new_laps: false,
            repeats: 5,
            span: Duration::from_millis(300),
        }
    }
}

impl ChaseOptions {
    /// Returns the shape of a chase with these options, in local order.
    pub const fn local(&self) -> ChaseShape {
        let &Self { bytes, stride, seed, new_laps, .. } = self;
        let lines = 2 * stride;
        let block_bytes = if self.block_bytes < lines { lines } else { self.block_bytes };
        ChaseShape { bytes, stride, order: Order::Local { block_bytes }, seed, new_laps }
    }

    /// Returns the shape of a chase with these options, in random order.
    pub const fn random(&self) -> ChaseShape {
        ChaseShape { order: Order::Random, ..self.local() }
    }

    /// Maps the memory of the chase.
    ///
    /// # Errors
    /// When the memory cannot be mapped.
    pub fn region(&self) -> Result<Region, ChaseError> {
        Ok(Region::new(self.bytes, self.pages, &self.policy)?)
    }
}

/// The latency that a chase in one order measures.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// The summary of the slices of each repetition.
    pub repeats: Vec<Slices>,
    /// The median of the medians of all repetitions, and the spread of these medians.
    pub ns: Spread,
}

/// Measures the latency of `chase` in its current order. `proceed` is called after each slice and
/// each repetition with the fraction of the completed repetitions, 0 to 1; the measurement stops if
/// `proceed` returns false.
///
/// # Errors
/// When the chase ends at a wrong line, or `proceed` stops the measurement.
pub fn latency(
    chase: &mut Chase,
    clock: Clock,
    options: &ChaseOptions,
    proceed: &mut dyn FnMut(f64) -> bool,
) -> Result<Latency, ChaseError> {
    chase.warm_while(&mut || proceed(0.0))?;
    let mut repeats = vec![];
    let count = options.repeats.max(1);
    while repeats.len() < count {
        let mut done = repeats.len() as f64 / count as f64;
        repeats.push(chase.slices(clock, options.span, &mut || proceed(done))?);
        done = repeats.len() as f64 / count as f64;
        if !proceed(done) {
            return Err(ChaseError::Stopped);
        }
    }
    let medians: Vec<f64> = repeats.iter().map(|slices| slices.median_ns).collect();
    let none = Spread { median: 0.0, relative: 0.0, count: 0 };
    Ok(Latency { repeats, ns: spread(&medians).unwrap_or(none) })
}

/// The latencies of a sweep over memory sizes, and the cache levels that they show.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeSweep {
    /// Each memory size with its latency.
    pub visited: Vec<Visited>,
    /// The cache levels that the latencies show.
    pub levels: Levels,
}

/// Measures the latency for memory sizes from a page (or two strides, if they are longer) to
/// `largest` bytes, in the local order of the chase ([`Order::Local`]). `proceed` is called after
/// each size, and during the measurement of a size, with the fraction of the completed sizes, 0 to
/// 1; the sweep stops if `proceed` returns false.
///
/// # Errors
/// When the memory cannot be mapped, a chase ends at a wrong line, or the sweep is stopped.
pub fn sweep(
    clock: Clock,
    options: &ChaseOptions,
    largest: usize,
    proceed: &mut dyn FnMut(f64) -> bool,
) -> Result<SizeSweep, ChaseError> {
    let options = ChaseOptions { bytes: largest, ..options.clone() };
    let sizes = sizes(largest, options.stride);
    let shape = |bytes: usize| ChaseShape { bytes, ..options.local() };
    let mut chase = Chase::new(options.region()?, shape(SMALLEST_BYTES.max(2 * options.stride)))?;
    let mut visited = vec![];
    let mut done = 0.0;
    for &bytes in &sizes {
        chase.reshape(shape(bytes))?;
        // A lap of the largest size takes seconds, so `proceed` is also called during the lap.
        chase.warm_while(&mut || proceed(done))?;
        let slices = chase.slices(clock, SIZE_SPAN, &mut || proceed(done))?;
        // The 5th percentile stands for the fastest slices. During these slices, other threads
        // evicted the fewest lines from the cache.
        visited.push(Visited { bytes: bytes as f64, latency_ns: slices.p5_ns });
        // The completed fraction is in proportion to the size, because a larger size takes longer
        // to link and to visit.
        done = (bytes as f64 / largest as f64).min(1.0);
        if !proceed(done) {
            return Err(ChaseError::Stopped);
        }
    }
    let levels = levels(&visited);
    Ok(SizeSweep { visited, levels })
}

/// Returns the memory sizes of a sweep up to `largest` bytes. Neighbouring sizes have a constant
/// ratio, and each size is rounded down to whole strides.
fn sizes(largest: usize, stride: usize) -> Vec<usize> {
    let mut sizes = vec![];
    let smallest = SMALLEST_BYTES.max(2 * stride);
    for step in 0.. {
        let ratio = 2_f64.powf(f64::from(step) / f64::from(SIZES_PER_OCTAVE));
        let bytes = (smallest as f64 * ratio) as usize / stride * stride;
        if bytes > largest {
            break;
        }
        sizes.push(bytes);
    }
    sizes
}

/// Returns the largest memory size of a sweep, bytes. `claimed` is the size of the last-level cache
/// that the kernel reports, bytes; `None` if the kernel reports no cache.
pub fn largest_size(claimed: Option<u64>) -> usize {
    let past = claimed.unwrap_or(0).saturating_mul(LAST_LEVEL_FACTOR);
    past.clamp(LARGEST_BYTES_MIN, LARGEST_BYTES_MAX) as usize
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const QUICK: Duration = Duration::from_millis(5);

    #[test]
    fn both_orders_are_measured() {
        let options =
            ChaseOptions { bytes: 4 << 20, repeats: 3, span: QUICK, ..ChaseOptions::default() };
        let mut chase = Chase::new(options.region().unwrap(), options.local()).unwrap();
        let measured = |chase: &mut Chase| {
            let mut reports = vec![];
            let mut report = |done| {
                reports.push(done);
                true
            };
            let found = latency(chase, Clock::here(), &options, &mut report).unwrap();
            assert_eq!((found.ns.count, found.repeats.len()), (3, 3));
            assert!(found.ns.median > 0.0, "{found:?}");
            assert!(reports.is_sorted() && reports.last() == Some(&1.0), "{reports:?}");
        };
        measured(&mut chase);
        chase.reshape(options.random()).unwrap();
        measured(&mut chase);
        let stopped = latency(&mut chase, Clock::here(), &options, &mut |done| done < 0.5);
        assert!(matches!(stopped, Err(ChaseError::Stopped)), "{stopped:?}");
    }

    #[test]
    fn each_stride_up_to_the_longest_has_a_chase() {
        for stride in [128 << 10, 192 << 10, 1 << 20] {
            let options = ChaseOptions { bytes: 8 << 20, stride, ..ChaseOptions::default() };
            let mut chase = Chase::new(options.region().unwrap(), options.local()).unwrap();
            chase.warm().unwrap();
            assert_eq!(chase.shape().lines(), (8 << 20) / stride);
        }
    }

    /// A stop must take effect during the lap that warms the caches, and during the measured
    /// slices.
    #[test]
    fn a_sweep_stops_before_a_size_is_measured() {
        let options = ChaseOptions { pages: Pages::Small, ..ChaseOptions::default() };
        let mut reports = vec![];
        let stopped = sweep(Clock::here(), &options, 4096, &mut |done| {
            reports.push(done);
            false
        });
        assert!(matches!(stopped, Err(ChaseError::Stopped)), "{stopped:?}");
        assert_eq!(reports, [0.0], "no size is complete");
    }

    #[test]
    fn the_first_level_cache_is_faster_than_the_last_level() {
        let options = ChaseOptions { pages: Pages::Small, ..ChaseOptions::default() };
        let clock = Clock::here();
        let sweep = sweep(clock, &options, 8 << 20, &mut |_| true).unwrap();
        assert_eq!(sweep.visited.len(), 45);
        let (first, last) = (sweep.visited[0], sweep.visited[44]);
        assert!(last.latency_ns > 2.0 * first.latency_ns, "{sweep:?}");
        assert!(!sweep.levels.caches.is_empty(), "{sweep:?}");
    }

    #[test]
    fn sizes_are_in_even_ratios_and_whole_lines() {
        let sizes = sizes(128 << 20, 64);
        assert_eq!((sizes[0], sizes[4], sizes[60], sizes.len()), (4096, 8192, 128 << 20, 61));
        assert!(sizes.iter().all(|bytes| bytes % 64 == 0));
        assert_eq!(super::sizes(1 << 20, 8192)[..2], [16384, 16384]);
    }

    #[test]
    fn the_sweep_ends_past_the_last_cache() {
        assert_eq!(largest_size(Some(32 << 20)), 128 << 20);
        assert_eq!(largest_size(Some(504 << 20)), 2016 << 20);
        assert_eq!((largest_size(None), largest_size(Some(u64::MAX))), (16 << 20, 4 << 30));
    }
}
