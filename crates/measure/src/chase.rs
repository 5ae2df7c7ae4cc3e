//! Measures latency by a pointer chase: the address of each load is the result of the load before,
//! so loads do not overlap and the time of a load is the latency of memory.
//!
//! All lines form one cycle, in an order from a seeded random generator; a lap is one pass through
//! the cycle. The *random* order jumps over all of the memory, so its latency includes TLB misses.
//! The *local* order visits all lines of a block of 256 KiB, in random order, before the next
//! block. The translations of the block stay in the TLB, so only the latency of memory remains.
//!
//! Some prefetchers fetch the other line of an aligned pair of lines (128 bytes), or the next line.
//! Such a prefetcher would turn half of the loads of a block into cache hits. The two lines of a
//! pair are therefore visited in different halves of a lap, and each half covers the whole memory.
//! A prefetched line then comes half a lap too early, and is evicted from the caches before the
//! chase reaches the line.
//!
//! The path of the chase is verified: after each slice (a timed part of the chase, [`SLICE`]), the
//! chase must be at the line that follows from the number of loads.

use crate::{
    clock::{Clock, ticks},
    context_switches::context_switches,
    region::{Region, RegionError},
    ring::{Cursor, Ring, UNROLL},
};
use interleaf_model::statistics::{self, quantile};
use rand::{SeedableRng, seq::SliceRandom};
use rand_pcg::Pcg64Mcg;
use std::time::Duration;

/// Bytes of a block of the local order: 64 pages of 4 KiB. Their translations fit into the
/// first-level data TLB of most server processors (some have only 40 to 48 entries). A huge page
/// needs a single entry.
pub const BLOCK_BYTES: usize = 256 << 10;

/// Lines that are less than this number of bytes apart are visited in separate passes, because a
/// spatial prefetcher fetches the other line of an aligned pair of 128 bytes. The lines are
/// separated completely only for strides that divide 128: with a stride of 96 bytes, all lines are
/// visited in a single pass.
const NEIGHBOURS_BYTES: usize = 128;

/// Length of a slice, the part of a chase that is timed as a whole. A slice takes much longer than
/// the two readings of the clock, but is so short that in most slices no other thread runs on the
/// CPU.
pub const SLICE: Duration = Duration::from_millis(2);

/// If a measurement has at least this number of undisturbed slices, its result leaves out the
/// disturbed slices; otherwise all slices count. A slice is undisturbed if no other thread ran on
/// the CPU during the slice.
const ALONE_MIN: usize = 3;

/// A measurement that has run for the requested time span goes on until it has `ALONE_MIN`
/// undisturbed slices, or this number of slices in all.
const TRIES_MAX: usize = 24;

/// Number of loads between two calls of the callback of [`Chase::warm_while`]: about 10 ms of loads
/// from memory.
const WARM_LOADS: u64 = 1 << 16;

/// The order in which lines are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Visits the blocks in random order, and the lines of each block in random order before the
    /// next block. Lines that are less than 128 bytes apart are visited in separate passes over all
    /// blocks.
    Local {
        /// Bytes of a block.
        block_bytes: usize,
    },
    /// Visits all lines in random order. Lines that are less than 128 bytes apart are visited in
    /// separate passes over the memory.
    Random,
}

/// The lines that a chase visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChaseShape {
    /// The size of the memory that the chase visits, bytes.
    pub bytes: usize,
    /// Distance from one line to the next, bytes.
    pub stride: usize,
    pub order: Order,
    pub seed: u64,
    /// True if each lap has a new random order. Otherwise a prefetcher that records a sequence of
    /// addresses could replay it in the next lap.
    pub new_laps: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ChaseError {
    #[error("a stride of {0} bytes is not a multiple of 8 from 8 to 1048576")]
    Stride(usize),
    /// The block is smaller than two strides.
    #[error("blocks of {block} bytes do not hold two lines that are {stride} bytes apart")]
    Block {
        /// Bytes of a block.
        block: usize,
        /// The distance between lines, bytes.
        stride: usize,
    },
    /// The memory has fewer than 2 lines, or too many lines for 32-bit indices.
    #[error("{bytes} bytes are not 2 to 4294967295 lines that are {stride} bytes apart")]
    Bytes {
        /// The memory that was requested, bytes.
        bytes: usize,
        /// The distance between lines, bytes.
        stride: usize,
    },
    /// The region is smaller than the memory that the chase shall visit.
    #[error("{bytes} bytes are to be visited, and there are {has}")]
    Region {
        /// The memory that was requested, bytes.
        bytes: usize,
        /// The memory of the region, bytes.
        has: usize,
    },
    #[error(transparent)]
    Memory(#[from] RegionError),
    /// The caller has stopped the measurement.
    #[error("the measurement was stopped")]
    Stopped,
    /// The chase ended at a wrong line: a defect of the machine or of this program.
    #[error("after {loads} loads the chase is at line {is}, and should be at {should}")]
    Lost {
        /// The number of loads after which the position was compared.
        loads: u64,
        /// The line that the chase has reached.
        is: u32,
        /// The line that the chase should have reached.
        should: u32,
    },
}

impl ChaseError {
    pub fn hint(&self) -> String {
        let hint = match self {
            Self::Stride(_) => "64B is a line, and 128B keeps away from spatial prefetchers",
            Self::Block { .. } => "256KiB are a good block",
            Self::Bytes { .. } => "200MB is usual; the least is four times the last cache",
            Self::Region { .. } => "map as much as is visited",
            Self::Memory(why) => return why.hint(),
            Self::Stopped => "start it again",
            Self::Lost { .. } => "run a test of the memory; if it passes, report this as a bug",
        };
        hint.into()
    }
}

impl ChaseShape {
    pub const fn lines(&self) -> usize {
        self.bytes / self.stride
    }

    fn check(&self) -> Result<(), ChaseError> {
        let &Self { bytes, stride, .. } = self;
        if stride == 0 || !stride.is_multiple_of(8) || stride > 1 << 20 {
            return Err(ChaseError::Stride(stride));
        }
        if !(2..=u32::MAX as usize).contains(&self.lines()) {
            return Err(ChaseError::Bytes { bytes, stride });
        }
        match self.order {
            Order::Local { block_bytes } if block_bytes / stride < 2 => {
                Err(ChaseError::Block { block: block_bytes, stride })
            }
            _ => Ok(()),
        }
    }

    /// Returns the lines in the order in which lap `lap` visits them. Every line occurs once, so
    /// that the lines form a single cycle.
    fn visits(&self, lap: u64) -> Vec<u32> {
        let lap = if self.new_laps { lap } else { 0 };
        let mut random = Pcg64Mcg::seed_from_u64(self.seed ^ lap.rotate_left(32));
        let lines = self.lines();
        let block = match self.order {
            Order::Local { block_bytes } => block_bytes / self.stride,
            Order::Random => lines,
        };
        let passes = (NEIGHBOURS_BYTES / self.stride).max(1);
        let mut visits = Vec::with_capacity(lines);
        for pass in 0..passes {
            let mut blocks: Vec<usize> = (0..lines.div_ceil(block)).collect();
            blocks.shuffle(&mut random);
            for begin in blocks.into_iter().map(|number| number * block) {
                let before = visits.len();
                let of_block = (begin..lines.min(begin + block)).filter(|at| at % passes == pass);
                visits.extend(of_block.map(|line| line as u32));
                visits[before..].shuffle(&mut random);
            }
        }
        visits
    }
}

/// Memory whose lines are linked into a cycle, and the current position of the chase on the cycle.
#[derive(Debug)]
pub struct Chase {
    ring: Ring,
    shape: ChaseShape,
    /// The line that the chase visits at each step of a lap.
    visits: Vec<u32>,
    step: usize,
    /// The number of loads since the cycle was linked.
    gone: u64,
    lap: u64,
}

impl Chase {
    /// Links the cycle of `shape` in `region`.
    ///
    /// # Errors
    ///
    /// When the shape is invalid, or its memory is larger than the region.
    pub fn new(region: Region, shape: ChaseShape) -> Result<Self, ChaseError> {
        let mut chase =
            Self { ring: Ring::new(region), shape, visits: vec![], step: 0, gone: 0, lap: 0 };
        chase.reshape(shape)?;
        Ok(chase)
    }

    /// Links the cycle of `shape` in the same memory, in place of the current cycle.
    ///
    /// # Errors
    /// Under the conditions of [`Self::new`].
    pub fn reshape(&mut self, shape: ChaseShape) -> Result<(), ChaseError> {
        shape.check()?;
        let has = self.ring.region().bytes();
        if shape.bytes > has {
            return Err(ChaseError::Region { bytes: shape.bytes, has });
        }
        self.shape = shape;
        self.lap = 0;
        self.link();
        Ok(())
    }

    fn link(&mut self) {
        self.visits = self.shape.visits(self.lap);
        self.ring.link(&self.visits, self.shape.stride);
        (self.step, self.gone) = (0, 0);
    }

    pub const fn shape(&self) -> &ChaseShape {
        &self.shape
    }

    pub const fn region(&self) -> &Region {
        self.ring.region()
    }

    /// Returns the ring of linked lines and the current position on it; `None` only if no ring was
    /// ever linked.
    pub(crate) fn cursor(&self) -> Option<(&Ring, Cursor<'_>)> {
        Some((&self.ring, self.ring.at(self.visits[self.step])?))
    }

    /// Advances the expected position by `loads` steps, and compares the line at this position with
    /// `is`, the line that the chase has reached.
    ///
    /// # Errors
    /// When the chase is at another line than expected.
    pub(crate) fn advance(&mut self, loads: u64, is: u32) -> Result<(), ChaseError> {
        let lines = self.visits.len() as u64;
        self.step = ((self.step as u64 + loads) % lines) as usize;
        self.gone += loads;
        let should = self.visits[self.step];
        if is == should { Ok(()) } else { Err(ChaseError::Lost { loads, is, should }) }
    }

    /// Links the lines in the order of the next lap if `new_laps` is true, the current lap has
    /// begun, and `loads` more loads would pass the end of the current lap.
    pub(crate) fn begin_lap_if_due(&mut self, loads: u64) {
        if self.shape.new_laps && self.gone > 0 && self.gone + loads > self.visits.len() as u64 {
            self.lap += 1;
            self.link();
        }
    }

    /// Makes at least `loads` loads. Returns the number of loads made, and the ticks of the
    /// time-stamp counter that they took. The ticks may be 0 if the loads take less time than a
    /// step of the counter (an emulated counter steps once a microsecond). The ticks are
    /// meaningless if the thread moved to a CPU whose counter is behind while the loads ran.
    ///
    /// # Errors
    /// When the chase ends at a wrong line.
    pub fn run(&mut self, loads: u64) -> Result<(u64, u64), ChaseError> {
        let rounds = loads.div_ceil(UNROLL).max(1);
        let loads = rounds * UNROLL;
        self.begin_lap_if_due(loads);
        let Some((ring, from)) = self.cursor() else { return Ok((0, 0)) };
        let began = ticks();
        let to = ring.walk(from, rounds);
        let took = ticks().saturating_sub(began);
        let is = ring.slot(to);
        self.advance(loads, is)?;
        Ok((loads, took))
    }

    /// Visits all lines at least once without measuring, so that the caches reach their steady
    /// state.
    ///
    /// # Errors
    /// Under the conditions of [`Self::run`].
    pub fn warm(&mut self) -> Result<(), ChaseError> {
        self.warm_while(&mut || true)
    }

    /// Does the same as [`Self::warm`], but calls `proceed` after each [`WARM_LOADS`] loads, and
    /// stops if `proceed` returns false.
    ///
    /// # Errors
    /// Under the conditions of [`Self::run`], and with [`ChaseError::Stopped`] when `proceed`
    /// returns false.
    pub fn warm_while(&mut self, proceed: &mut dyn FnMut() -> bool) -> Result<(), ChaseError> {
        let mut left = self.visits.len() as u64;
        while left > 0 {
            let (loads, _) = self.run(left.min(WARM_LOADS))?;
            left = left.saturating_sub(loads.max(1));
            if !proceed() {
                return Err(ChaseError::Stopped);
            }
        }
        Ok(())
    }

    /// Measures slices of [`SLICE`] for `span`, and then more, until three slices are undisturbed
    /// by other threads or 24 slices are measured. `proceed` is called after each slice; the
    /// measurement stops if `proceed` returns false.
    ///
    /// # Errors
    /// Under the conditions of [`Self::run`], and with [`ChaseError::Stopped`] when `proceed`
    /// returns false.
    pub fn slices(
        &mut self,
        clock: Clock,
        span: Duration,
        proceed: &mut dyn FnMut() -> bool,
    ) -> Result<Slices, ChaseError> {
        let mut all = vec![];
        self.slice(clock, span, proceed, &mut all)?;
        Ok(Slices::of(&all))
    }

    /// Adds slices of [`SLICE`] to `all` for `span`. Then adds more, until [`ALONE_MIN`] of the
    /// added slices are undisturbed by other threads, or [`TRIES_MAX`] slices are added. Stops if
    /// `proceed` returns false.
    pub(crate) fn slice(
        &mut self,
        clock: Clock,
        span: Duration,
        proceed: &mut dyn FnMut() -> bool,
        all: &mut Vec<Slice>,
    ) -> Result<(), ChaseError> {
        let per_load = |(loads, took): (u64, u64)| clock.ns(took) / loads as f64;
        let mut latency_ns = per_load(self.run(UNROLL)?);
        let (end, first) = (ticks() + clock.ticks(span), all.len());
        let enough = |all: &[Slice]| {
            let all = &all[first..];
            let alone = all.iter().filter(|slice| slice.alone).count();
            alone >= ALONE_MIN || all.len() >= TRIES_MAX
        };
        while ticks() < end || !enough(all) {
            let loads = SLICE.as_nanos() as f64 / latency_ns.max(0.1);
            let before = context_switches();
            latency_ns = per_load(self.run(loads as u64)?);
            all.push(Slice { latency_ns, alone: context_switches() == before });
            if !proceed() {
                return Err(ChaseError::Stopped);
            }
        }
        Ok(())
    }
}

/// The latency that a slice measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slice {
    latency_ns: f64,
    /// True if no other thread ran on the CPU during the slice.
    alone: bool,
}

/// A summary of the latencies of slices.
///
/// If another thread ran on the CPU during a slice, the slice has measured that thread as well.
/// Such disturbed slices are left out if at least three other slices remain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slices {
    /// The median of the latencies of the slices.
    pub median_ns: f64,
    /// The 5th percentile of the latencies: the latency of memory without disturbances.
    pub p5_ns: f64,
    pub mean_ns: f64,
    /// The number of slices from which the median, the 5th percentile and the mean are computed.
    pub count: usize,
    /// The number of slices in which another thread ran, whether they were left out or not.
    pub disturbed: usize,
}

impl Slices {
    /// Summarizes the slices in `all`, which must have at least one slice.
    pub(crate) fn of(all: &[Slice]) -> Self {
        let of =
            |slices: &[&Slice]| -> Vec<f64> { slices.iter().map(|it| it.latency_ns).collect() };
        let (alone, others): (Vec<_>, Vec<_>) = all.iter().partition(|slice| slice.alone);
        let enough = alone.len() >= ALONE_MIN;
        let ns = if enough { of(&alone) } else { of(&all.iter().collect::<Vec<_>>()) };
        let ns = statistics::sorted(ns);
        let mean_ns = statistics::mean(&ns);
        let (median_ns, p5_ns) = (quantile(&ns, 0.5), quantile(&ns, 0.05));
        Self { median_ns, p5_ns, mean_ns, count: ns.len(), disturbed: others.len() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::{region::Pages, team};
    use interleaf_linux::place::mempolicy::Policy;
    use proptest::prelude::*;
    use rustix::thread::sched_getcpu;

    const SHAPE: ChaseShape = ChaseShape {
        bytes: 64 << 10,
        stride: 64,
        order: Order::Local { block_bytes: 4096 },
        seed: 7,
        new_laps: false,
    };

    fn chase(shape: ChaseShape) -> Result<Chase, ChaseError> {
        Chase::new(Region::new(1 << 20, Pages::Small, &Policy::Default)?, shape)
    }

    #[test]
    fn lines_of_a_block_are_consecutive_and_neighbours_half_a_lap_apart() {
        let visits = SHAPE.visits(0);
        for of_block in visits.chunks(32) {
            assert!(of_block.iter().all(|line| line / 64 == of_block[0] / 64), "{of_block:?}");
            assert!(of_block.iter().all(|line| line % 2 == of_block[0] % 2), "{of_block:?}");
            assert!(!of_block.is_sorted(), "at random within: {of_block:?}");
        }
        let blocks: Vec<u32> = visits.chunks(32).map(|of_block| of_block[0] / 64).collect();
        assert!(!blocks[..16].is_sorted() && blocks[..16] != blocks[16..], "{blocks:?}");
        // With a stride of 128 bytes or more, a lap must visit all lines of a block together.
        let apart = ChaseShape { stride: 128, ..SHAPE }.visits(0);
        assert!(apart.chunks(32).all(|of| of.iter().all(|line| line / 32 == of[0] / 32)));
    }

    #[test]
    fn the_order_depends_on_the_seed_and_on_the_lap_if_requested() {
        let other = ChaseShape { seed: 8, ..SHAPE };
        assert_eq!(SHAPE.visits(0), SHAPE.visits(3));
        assert_ne!(SHAPE.visits(0), other.visits(0));
        let new = ChaseShape { new_laps: true, ..SHAPE };
        assert_eq!(SHAPE.visits(0), new.visits(0));
        assert_ne!(new.visits(0), new.visits(1));
        let mut chase = chase(new).unwrap();
        let before = chase.visits.clone();
        chase.warm().unwrap();
        chase.run(1024).unwrap();
        assert!(chase.visits != before);
    }

    #[test]
    fn a_chase_at_a_wrong_line_is_detected() {
        // The thread stays on one CPU, because the time-stamp counters of several CPUs may differ.
        team::pin(sched_getcpu() as u32).unwrap();
        let mut chase = chase(SHAPE).unwrap();
        for loads in [1, 128, 129, 5000] {
            let (went, _) = chase.run(loads).unwrap();
            assert!(went >= loads, "{went} of {loads} loads");
        }
        // These 2^20 loads take longer than the step of any time-stamp counter.
        let (went, took) = chase.run(1 << 20).unwrap();
        assert!(took > 0, "{went} loads took no tick");
        let is = chase.visits[chase.step];
        let why = chase.advance(1, is).unwrap_err();
        assert!(matches!(why, ChaseError::Lost { loads: 1, .. }), "{why}");
    }

    #[test]
    fn slices_suffice_and_percentiles_are_ordered() {
        let clock = Clock::here();
        let mut chase = chase(SHAPE).unwrap();
        let slices = chase.slices(clock, Duration::from_millis(20), &mut || true).unwrap();
        assert!(slices.count >= ALONE_MIN && slices.p5_ns > 0.0, "{slices:?}");
        assert!(slices.p5_ns <= slices.median_ns && slices.p5_ns <= slices.mean_ns, "{slices:?}");
        let mut left = 3;
        let mut proceed = || {
            left -= 1;
            left > 0
        };
        let stopped = chase.slices(clock, Duration::from_secs(3600), &mut proceed);
        assert!(matches!(stopped, Err(ChaseError::Stopped)) && left == 0, "{stopped:?}");
    }

    #[test]
    fn disturbed_slices_are_ignored_unless_too_few_others_remain() {
        let slice = |latency_ns: f64, alone| Slice { latency_ns, alone };
        let quiet = [slice(100.0, true), slice(102.0, true), slice(101.0, true)];
        let loud = [slice(900.0, false), slice(700.0, false)];
        let all = Slices::of(&[&quiet[..], &loud[..]].concat());
        assert_eq!((all.median_ns, all.mean_ns, all.count, all.disturbed), (101.0, 101.0, 3, 2));
        let all = Slices::of(&[&quiet[..1], &loud[..]].concat());
        assert_eq!((all.median_ns, all.count, all.disturbed), (700.0, 3, 2));
    }

    #[test]
    fn invalid_shapes_are_refused() {
        let message = |shape: ChaseShape| {
            let why = chase(shape).unwrap_err();
            assert!(!why.hint().is_empty());
            why.to_string()
        };
        let too_much = ChaseShape { bytes: 3 << 20, ..SHAPE };
        assert_eq!(message(too_much), "3145728 bytes are to be visited, and there are 2097152");
        for stride in [0, 12, 2 << 20] {
            assert!(message(ChaseShape { stride, ..SHAPE }).contains("stride of"), "{stride}");
        }
        assert!(message(ChaseShape { bytes: 100, ..SHAPE }).contains("100 bytes are not 2 to"));
        let narrow = Order::Local { block_bytes: 64 };
        assert!(message(ChaseShape { order: narrow, ..SHAPE }).contains("do not hold two lines"));
    }

    proptest! {
        #[test]
        fn every_line_is_visited_once(
            lines in 2..2000_usize, words in 1..40_usize, block in 2..500_usize, random: bool,
        ) {
            let stride = 8 * words;
            let block_bytes = block * stride;
            let order = if random { Order::Random } else { Order::Local { block_bytes } };
            let bytes = lines * stride;
            let shape = ChaseShape { bytes, stride, order, seed: 1, new_laps: false };
            let mut visits = shape.visits(0);
            visits.sort_unstable();
            prop_assert!(visits.iter().copied().eq(0..lines as u32));
        }
    }
}
