//! Latency without load: of memory, in both orders of the chase, and of each level of the caches.
//!
//! A figure is the median of slices of 2 ms: half of all slices may be disturbed before it moves.
//! What is given for an order is the median of several such figures, with how far they are apart.

use crate::{
    chase::{BLOCK_BYTES, Chase, ChaseError, Order, Shape, Slices},
    clock::Clock,
    levels::{Levels, Visited, levels},
    pages::huge_bytes,
    point::{Kind, Place, Point},
    region::{Pages, Region},
    spread::{Spread, spread},
};
use interleaf_linux::{place::mempolicy::Policy, root::Root};
use std::time::{Duration, Instant};

/// Between two sizes of the sweep: a fourth of the way to the double.
const SIZES_PER_OCTAVE: u32 = 4;

/// The smallest size of the sweep: a page, which every first cache holds.
const SMALLEST_BYTES: usize = 4 << 10;

/// How long each size of the sweep is measured after a lap for the caches: fifteen slices.
const SIZE_SPAN: Duration = Duration::from_millis(30);

/// How many times the last-level cache the memory has to be, so that it is memory that is measured:
/// the rule of STREAM ("each array must be at least 4 times the size of the sum of all the
/// last-level caches used in the run"). At most a quarter of the accesses hit the cache then.
pub const LAST_LEVEL_FACTOR: u64 = 4;

/// The least that the sweep goes to: four times the largest private cache in use.
const LARGEST_BYTES_MIN: u64 = 16 << 20;

/// The most: four times the largest cache that CPUs share today.
const LARGEST_BYTES_MAX: u64 = 4 << 30;

/// What is chased, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How much memory. Default: 200 MB, as MLC's.
    pub bytes: usize,
    /// Between lines, bytes. Default: 64, every line.
    pub stride: usize,
    /// Bytes of a block of the local order. Default: 256 KiB.
    pub block_bytes: usize,
    /// Which pages. Default: huge where there are some.
    pub pages: Pages,
    /// Where they are. Default: where the thread runs.
    pub policy: Policy,
    /// What orders are drawn from. Default: 1.
    pub seed: u64,
    /// Whether each lap has an order of its own. Default: no.
    pub new_laps: bool,
    /// How many figures. Default: 5.
    pub repeats: usize,
    /// How long each takes. Default: 300 ms, about a lap.
    pub span: Duration,
}

impl Default for Options {
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

impl Options {
    /// The chase of these options in local order.
    pub const fn local(&self) -> Shape {
        let &Self { bytes, stride, block_bytes, seed, new_laps, .. } = self;
        Shape { bytes, stride, order: Order::Local { block_bytes }, seed, new_laps }
    }

    /// The chase of these options in random order.
    pub const fn random(&self) -> Shape {
        Shape { order: Order::Random, ..self.local() }
    }

    /// The memory for it.
    ///
    /// # Errors
    /// When there is none.
    pub fn region(&self) -> Result<Region, ChaseError> {
        Ok(Region::new(self.bytes, self.pages, &self.policy)?)
    }
}

/// The latency in one order.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// Each repeat.
    pub repeats: Vec<Slices>,
    /// Their medians.
    pub ns: Spread,
}

/// Latency without load.
#[derive(Clone, Debug, PartialEq)]
pub struct Idle {
    /// Block by block: what memory needs.
    pub local: Latency,
    /// Jumping over all of it: with the translation of addresses.
    pub random: Latency,
    /// How much of the memory was in huge pages, bytes; `None` where the kernel does not say.
    pub huge_bytes: Option<usize>,
    /// How much was visited, bytes.
    pub bytes: usize,
    /// How long it took.
    pub took: Duration,
}

impl Idle {
    /// The point of the local order.
    pub fn point(&self, place: Place) -> Point {
        Point {
            kind: Kind::Idle,
            place,
            traffic: None,
            threads: 0,
            rate: None,
            latency_ns: Some(self.local.ns),
            took: self.took,
        }
    }
}

/// Measures from the calling thread, which should stay on its CPU ([`crate::pin`]). `progress`
/// hears how much is done, 0 to 1.
///
/// # Errors
/// When there is no such memory, or a chase went astray.
pub fn idle(
    root: &Root,
    clock: Clock,
    options: &Options,
    progress: &mut dyn FnMut(f64),
) -> Result<Idle, ChaseError> {
    let began = Instant::now();
    let mut chase = Chase::new(options.region()?, options.local())?;
    let region = chase.region();
    // Where the list of mappings cannot be read, nothing is known; the figure is no worse for it.
    let huge = huge_bytes(root, region.start() as usize, region.bytes()).ok().flatten();
    let local = latency(&mut chase, clock, options, &mut |done| progress(done / 2.0))?;
    chase.reshape(options.random())?;
    let random = latency(&mut chase, clock, options, &mut |done| progress(0.5 + done / 2.0))?;
    let huge_bytes = huge.map(|huge| huge.min(options.bytes));
    Ok(Idle { local, random, huge_bytes, bytes: options.bytes, took: began.elapsed() })
}

/// The latency of a chase as it stands.
///
/// # Errors
/// When it goes astray.
pub fn latency(
    chase: &mut Chase,
    clock: Clock,
    options: &Options,
    progress: &mut dyn FnMut(f64),
) -> Result<Latency, ChaseError> {
    chase.warm()?;
    let mut repeats = vec![];
    let count = options.repeats.max(1);
    while repeats.len() < count {
        repeats.push(chase.slices(clock, options.span)?);
        progress(repeats.len() as f64 / count as f64);
    }
    let medians: Vec<f64> = repeats.iter().map(|slices| slices.median_ns).collect();
    let none = Spread { median: 0.0, relative: 0.0, count: 0 };
    Ok(Latency { repeats, ns: spread(&medians).unwrap_or(none) })
}

/// The sweep over sizes, and what it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Each size with its latency.
    pub visited: Vec<Visited>,
    /// The levels among them.
    pub levels: Levels,
}

/// Measures the latency of sizes from a page to `largest` bytes, in local order.
///
/// # Errors
/// As of [`idle`].
pub fn sweep(
    clock: Clock,
    options: &Options,
    largest: usize,
    progress: &mut dyn FnMut(f64),
) -> Result<Sweep, ChaseError> {
    let options = Options { bytes: largest, ..options.clone() };
    let sizes = sizes(largest, options.stride);
    let shape = |bytes: usize| Shape { bytes, ..options.local() };
    let mut chase = Chase::new(options.region()?, shape(SMALLEST_BYTES.max(2 * options.stride)))?;
    let mut visited = vec![];
    for &bytes in &sizes {
        chase.reshape(shape(bytes))?;
        chase.warm()?;
        let slices = chase.slices(clock, SIZE_SPAN)?;
        // The fastest slices: here it counts what a cache holds while others leave it alone.
        visited.push(Visited { bytes: bytes as f64, latency_ns: slices.p5_ns });
        // A larger size takes longer to lay out and to go around.
        progress((bytes as f64 / largest as f64).min(1.0));
    }
    let levels = levels(&visited);
    Ok(Sweep { visited, levels })
}

/// Sizes in even ratios, in whole lines.
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

/// How far the sweep should go where the last-level cache is said to be `claimed` bytes.
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
        let options = Options { bytes: 4 << 20, repeats: 3, span: QUICK, ..Options::default() };
        let mut heard = vec![];
        let clock = Clock::here();
        let idle = idle(&Root::live(), clock, &options, &mut |done| heard.push(done)).unwrap();
        assert_eq!((idle.local.ns.count, idle.random.ns.count), (3, 3));
        assert!(idle.local.ns.median > 0.0 && idle.random.ns.median > 0.0, "{idle:?}");
        assert!(heard.is_sorted() && heard.last() == Some(&1.0), "{heard:?}");
        assert!(idle.huge_bytes.is_none_or(|huge| huge <= 4 << 20));
        let point = idle.point(Place { cpu_node: 0, memory: vec![(0, 1)] });
        assert_eq!((point.kind, point.latency_ns), (Kind::Idle, Some(idle.local.ns)));
    }

    #[test]
    fn the_nearest_cache_is_faster_than_what_is_farthest() {
        let options = Options { pages: Pages::Small, ..Options::default() };
        let clock = Clock::here();
        let sweep = sweep(clock, &options, 8 << 20, &mut |_| ()).unwrap();
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
