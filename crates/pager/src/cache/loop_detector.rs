//! Detects loops over more pages than the budget holds.
//!
//! In a loop over twice the budget, LRU never hits, because LRU evicts each page just before its
//! next use. Hits become possible by protecting pages of the last pass, and evicting the pages that
//! the current pass has just used. The detector recognizes such a loop by its reads: most reads are
//! prefetches of recently evicted pages.
//!
//! A loop over less than the budget causes the same reads as long as pages of an earlier phase fill
//! the rest of the budget. The protected pages may then be pages of the earlier phase. Therefore
//! some protected pages are evicted and watched as *samples*. All protected pages are released once
//! the samples that stay untouched for about two passes exceed the touched samples by
//! `UNUSED_SAMPLES`.
//!
//! Pages with a short reuse distance must not be treated as part of a loop, even within a large
//! loop. For example, in a blocked matrix product the rows of a block are used again long before
//! all other pages, and LRU keeps these rows. Two events show that pages with a short reuse
//! distance are evicted too early: a fault on a page that was evicted a short time ago, and,
//! outside of a loop, a refault.

use super::reuse_distance::ReuseDistances;
use interleaf_prefetch::page::Page;
use std::{collections::VecDeque, ops::Range};

/// The detector remembers an eviction until the number of pages evicted after it exceeds this
/// multiple of the budget. A longer memory would find longer loops, but protection cannot keep more
/// than a quarter of the pages of such a loop resident.
const REMEMBERED_BUDGETS: u32 = 4;

/// A loop begins when prefetches of recently evicted pages exceed this share of recent reads.
const BEGIN_SHARE: f64 = 0.5;

/// A loop has ended when prefetches of recently evicted pages are at most this share of recent
/// reads. The pages of an ended loop must not stay protected.
const END_SHARE: f64 = 0.25;

/// An eviction of a page is *early* if a fault soon reads the page again: before the number of
/// pages that were evicted after it reaches the budget (in frames) divided by this number.
const EARLY_DIVISOR: u32 = 4;

/// A loop begins only while early evictions ([`EARLY_DIVISOR`]) are less than this share of recent
/// reads and refaults.
const EARLY_BEGIN_MAX: f64 = 0.15;

/// A loop ends when early evictions are at least this share of recent reads and refaults. The value
/// is larger than [`EARLY_BEGIN_MAX`], because early evictions are a weaker sign against a loop
/// that has begun.
const EARLY_END_MAX: f64 = 0.25;

/// A new page of a loop may displace a protected page with a longer reuse distance. It does so only
/// if the length of a pass, in evicted pages, is at least the budget divided by this number. In a
/// shorter pass, the displaced page would soon be read again.
const PASS_DIVISOR: u32 = 2;

/// A reuse distance that is longer than the estimated length of a pass replaces the estimate. A
/// shorter distance is averaged into the estimate, because a page may be read again before the pass
/// is complete. Its weight is the usual weight of a read divided by this number.
const SHORTER_WEIGHT_DIVISOR: f64 = 4.0;

/// Maximum number of samples (protected pages evicted as a test) that are watched at a time.
const SAMPLES_MAX: usize = 16;

/// All protected pages are released when the untouched samples exceed the touched samples by this
/// number, which shows that the loop does not use the protected pages.
const UNUSED_SAMPLES: u32 = 4;

/// A *sample* is protected pages that are evicted as a test. Its eviction must be cheap, because
/// the loop may have to read the pages again. A sample is due only when the probationary pages
/// evicted since the last eviction of protected pages have a large read cost: at least
/// `SAMPLE_COST_DIVISOR` times the read cost of the sample, or in a long loop
/// `LONG_SAMPLE_COST_DIVISOR` times.
const SAMPLE_COST_DIVISOR: u32 = 64;
const LONG_SAMPLE_COST_DIVISOR: u32 = 256;

/// A *long loop* walks through arrays in order. It begins when more than `LONG_BEGIN_SHARE` of the
/// prefetched pages are in extents of at least `LONG_EXTENT` pages. It ends when at most
/// `LONG_END_SHARE` of the prefetched pages are. Other loops jump between addresses, and need more
/// prefetches at the same time.
const LONG_BEGIN_SHARE: f64 = 0.95;
const LONG_END_SHARE: f64 = 0.75;
const LONG_EXTENT: u32 = 8;

/// Shares of early evictions ([`EARLY_DIVISOR`]) in reads and refaults: a long loop begins only
/// below `EARLY_LONG_BEGIN_MAX`, and ends at `EARLY_LONG_END_MAX`. Early evictions show pages with
/// a short reuse distance. These pages need a large reserve of free and inactive frames
/// (`evict.rs`), and the reserve during a long loop is small.
const EARLY_LONG_BEGIN_MAX: f64 = 0.02;
const EARLY_LONG_END_MAX: f64 = 0.1;

/// Order of the groups of pages for which the detector stores the time of the last eviction: one
/// time for 2^`GROUP_ORDER` pages.
const GROUP_ORDER: u8 = 2;

/// A detector of loops. The shares in its fields are moving averages over the latest reads, which
/// cover about as many pages as a quarter of the budget.
#[derive(Clone, Debug)]
pub struct LoopDetector {
    /// The budget, frames.
    frames: u32,
    /// For each group of pages, the time of the last eviction of a page of the group, on the clock
    /// `now`; 0 if no page was ever evicted.
    evicted_at: Vec<u32>,
    reuse_distances: ReuseDistances,
    /// Number of pages evicted so far. This number is the clock of the detector.
    now: u32,
    /// Recent share of reads that belong to a loop: prefetches of recently evicted pages.
    loop_share: f64,
    is_loop: bool,
    /// Recent share of the prefetched pages that are read in extents of at least [`LONG_EXTENT`].
    long_share: f64,
    is_long: bool,
    /// Recent share of early evictions: pages that were read for a fault soon after their eviction,
    /// or refaulted, divided by all pages that were read or refaulted.
    early_share: f64,
    /// Estimated length of a pass, in evicted pages. The estimate follows the longest reuse
    /// distances of pages that the loop prefetches.
    pass_length: f64,
    /// Cost of reading again the probationary pages that were evicted since the last eviction of
    /// protected pages, in units of [`read_cost`].
    cost_since_sample: u32,
    /// The watched samples, each with the time of its eviction on the clock `now`.
    samples: VecDeque<(Range<Page>, u32)>,
    /// Number of samples that were not touched within about two passes, minus the number of touched
    /// samples; at least 0.
    unused_samples: u32,
    /// Number of pages that must still be evicted until all protected pages are released; 0 while
    /// no release is in progress.
    releasing: u32,
}

impl LoopDetector {
    /// Sets the budget to `frames` frames.
    pub const fn resize(&mut self, frames: u32) {
        self.frames = frames;
    }

    pub fn new(frames: u32) -> Self {
        Self {
            frames,
            evicted_at: vec![],
            reuse_distances: ReuseDistances::default(),
            now: 0,
            loop_share: 0.0,
            is_loop: false,
            long_share: 0.0,
            is_long: false,
            early_share: 0.0,
            pass_length: 0.0,
            cost_since_sample: 0,
            samples: VecDeque::new(),
            unused_samples: 0,
            releasing: 0,
        }
    }

    /// True in a loop, except while the protected pages are being released.
    pub const fn is_loop(&self) -> bool {
        self.is_loop && self.releasing == 0
    }

    /// True in a long loop, which walks through arrays in order.
    pub const fn is_long_loop(&self) -> bool {
        self.is_loop() && self.is_long
    }

    /// The recent share of early evictions among reads and refaults, 0 to 1.
    pub const fn early_eviction_share(&self) -> f64 {
        self.early_share
    }

    /// True while the protected pages are being evicted, because the loop does not use them.
    pub const fn is_releasing_protected(&self) -> bool {
        self.releasing > 0
    }

    /// True if `frames` protected pages must be evicted now, as a sample that shows whether the
    /// loop still uses protected pages.
    pub const fn is_time_to_sample(&self, frames: u32) -> bool {
        let divisor =
            if self.is_long_loop() { LONG_SAMPLE_COST_DIVISOR } else { SAMPLE_COST_DIVISOR };
        self.is_loop() && self.cost_since_sample / divisor >= read_cost(frames)
    }

    /// Counts the read cost of probationary pages that are being unmapped.
    pub const fn on_unmap_probationary(&mut self, pages: u32) {
        self.cost_since_sample = self.cost_since_sample.saturating_add(read_cost(pages));
    }

    /// Notes that protected pages are being unmapped. In a loop, these pages become a sample.
    pub fn on_unmap_protected(&mut self, pages: Range<Page>) {
        self.cost_since_sample = 0;
        self.on_late_eviction(&pages);
        if self.is_loop() && self.samples.len() < SAMPLES_MAX {
            self.samples.push_back((pages, self.now));
        }
    }

    /// Notes that protected pages will be evicted long after their last use. Their next reuse
    /// distance, which counts from the eviction, is then ignored. Does nothing outside of a loop.
    pub(super) fn on_late_eviction(&mut self, pages: &Range<Page>) {
        if self.is_loop() {
            self.reuse_distances.on_late_eviction(pages);
        }
    }

    /// The range of the reuse distances of a page, in evicted pages. `None` if the page was not
    /// read again yet. Also `None` if a pass evicts few pages: a displaced protected page would
    /// soon be read again, so none may be displaced.
    pub(super) fn reuse_distance(&self, page: Page) -> Option<Range<u32>> {
        let is_of_use = self.pass_length as u32 >= self.frames / PASS_DIVISOR;
        self.reuse_distances.get(page).filter(|_| is_of_use)
    }

    /// Notes that the pages `mapped` were mapped. Samples that overlap these pages count as
    /// touched, and are not watched any more.
    pub fn on_map(&mut self, mapped: &Range<Page>) {
        let samples = self.samples.len();
        self.samples.retain(|(it, _)| it.end <= mapped.start || mapped.end <= it.start);
        let touched = (samples - self.samples.len()) as u32;
        self.unused_samples = self.unused_samples.saturating_sub(touched);
    }

    /// Stops watching samples that were not touched in about two passes. Begins to release all
    /// protected pages if too many samples were not touched ([`UNUSED_SAMPLES`]).
    fn judge_samples(&mut self) {
        let longest = self.pass_length as u32 * 2 + self.frames / 8;
        while let Some((_, since)) = self.samples.front()
            && self.now.wrapping_sub(*since) > longest
        {
            self.samples.pop_front();
            self.unused_samples += 1;
        }
        if self.unused_samples >= UNUSED_SAMPLES {
            self.samples.clear();
            (self.unused_samples, self.releasing) = (0, self.frames);
        }
    }

    /// Records that `pages` pages from `page` on were evicted, and that their frames are free now.
    pub fn on_evict(&mut self, page: Page, pages: u32) {
        // The clock wraps around after evictions of 16 TiB. After that, an old eviction may be
        // mistaken for a recent one.
        self.now = self.now.wrapping_add(pages).max(1);
        let groups = (page >> GROUP_ORDER) as usize
            ..=((page + u64::from(pages) - 1) >> GROUP_ORDER) as usize;
        if self.evicted_at.len() <= *groups.end() {
            self.evicted_at.resize(groups.end() + 1, 0);
        }
        self.evicted_at[groups].fill(self.now);
        self.releasing = self.releasing.saturating_sub(pages);
        self.judge_samples();
    }

    /// Counts a refault on `pages` resident pages as an early eviction. Does nothing in a loop,
    /// where the refaulted pages are those that were evicted as samples.
    pub fn on_refault(&mut self, pages: u32) {
        if !self.is_loop() {
            self.early_share += (1.0 - self.early_share) * self.weight(pages);
        }
    }

    /// The weight of a read of `pages` pages in the moving averages, which cover about a quarter of
    /// the budget.
    fn weight(&self, pages: u32) -> f64 {
        (f64::from(pages) * 4.0 / f64::from(self.frames)).min(1.0)
    }

    /// Updates the moving averages (`loop_share`, `long_share`, `early_share`) and the reuse
    /// distances after a read of `pages` pages from `page` on. `is_prefetch` is true if the read
    /// was for a stream, and false if it was for a fault.
    pub fn on_read(&mut self, page: Page, pages: u32, is_prefetch: bool) {
        let group = (page >> GROUP_ORDER) as usize;
        let evicted_at = self.evicted_at.get(group).copied().unwrap_or(0);
        let age = self.now.wrapping_sub(evicted_at);
        let is_again = evicted_at > 0 && age <= self.frames.saturating_mul(REMEMBERED_BUDGETS);
        // Ignore reuse distances below a quarter of the budget: they come from a burst of accesses,
        // not from a pass of a loop.
        if evicted_at > 0 && age >= self.frames / EARLY_DIVISOR {
            self.reuse_distances.on_read(&(page..page + u64::from(pages)), age);
        }
        let weight = self.weight(pages);
        if is_prefetch {
            let is_long = f64::from(u8::from(pages >= LONG_EXTENT));
            self.long_share += (is_long - self.long_share) * weight;
        }
        let of_loop = if is_again && is_prefetch { 1.0 } else { 0.0 };
        self.loop_share += (of_loop - self.loop_share) * weight;
        let is_early = is_again && !is_prefetch && age <= self.frames / EARLY_DIVISOR;
        self.early_share += (f64::from(u8::from(is_early)) - self.early_share) * weight;
        if is_again && is_prefetch {
            let longer = f64::from(age) - self.pass_length;
            self.pass_length +=
                longer * if longer > 0.0 { 1.0 } else { weight / SHORTER_WEIGHT_DIVISOR };
        }
        let (share, early_max) =
            if self.is_loop { (END_SHARE, EARLY_END_MAX) } else { (BEGIN_SHARE, EARLY_BEGIN_MAX) };
        self.is_loop = self.loop_share > share && self.early_share < early_max;
        let (share, early_max) = match self.is_long {
            true => (LONG_END_SHARE, EARLY_LONG_END_MAX),
            false => (LONG_BEGIN_SHARE, EARLY_LONG_BEGIN_MAX),
        };
        self.is_long = self.is_loop && self.long_share > share && self.early_share < early_max;
        if !self.is_loop {
            self.samples.clear();
        }
    }
}

/// The cost of a read of `pages` pages, in units of the fixed cost of a read. Each 24 pages add one
/// unit: the measured fixed cost is 70 us and the measured bandwidth 1.4 GB/s, at which the
/// transfer of 24 pages takes 70 us.
const fn read_cost(pages: u32) -> u32 {
    1 + pages / 24
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_begins_with_its_second_pass_and_ends_with_other_pages() {
        let mut detector = LoopDetector::new(1000);
        let pass = |detector: &mut LoopDetector, first: Page, is_prefetch: bool| {
            for page in (first..first + 2000).step_by(4) {
                detector.on_read(page, 4, is_prefetch);
                detector.on_evict(page, 4);
            }
            detector.is_loop()
        };
        assert!(!pass(&mut detector, 0, true));
        assert!(pass(&mut detector, 0, true));
        assert!(!pass(&mut detector, 10_000, true), "other pages");
        assert!(!pass(&mut detector, 10_000, false), "not prefetched");
    }

    #[test]
    fn a_long_loop_is_one_of_long_prefetches() {
        let mut detector = LoopDetector::new(1000);
        let pass = |detector: &mut LoopDetector, length: u32| {
            for page in (0..2000).step_by(length as usize) {
                detector.on_read(page, length, true);
                detector.on_evict(page, length);
            }
            detector.is_long_loop()
        };
        assert!(!pass(&mut detector, 4) && !pass(&mut detector, 4));
        assert!(detector.is_loop(), "of short extents");
        assert!(pass(&mut detector, 16));
        assert!(!pass(&mut detector, 4));
    }

    /// Simulates 100 passes of a loop over 300 probationary pages. Evicts protected pages as
    /// samples whenever a sample is due. At the end of each pass, touches the sampled pages for
    /// which `is_missed` returns true. Returns true if the detector has released all protected
    /// pages.
    fn releases_protected(is_missed: impl Fn(u64) -> bool) -> bool {
        let mut detector = LoopDetector::new(1000);
        let (mut sampled, mut is_releasing) = (10_000, false);
        for _ in 0..100 {
            for page in (0..300).step_by(4) {
                detector.on_read(page, 4, true);
                detector.on_unmap_probationary(4);
                detector.on_evict(page, 4);
                is_releasing |= detector.is_releasing_protected();
                if detector.is_time_to_sample(4) {
                    detector.on_unmap_protected(sampled..sampled + 4);
                    sampled += 4;
                }
            }
            let missed = (10_000..sampled).filter(|page| is_missed(*page));
            missed.for_each(|page| detector.on_map(&(page..page + 1)));
        }
        is_releasing
    }

    #[test]
    fn protected_pages_that_are_not_missed_are_released() {
        assert!(releases_protected(|_| false), "an earlier phase has left them");
        assert!(!releases_protected(|_| true), "they are of the loop");
        assert!(!releases_protected(|page| page % 8 < 4), "half of them are");
    }

    /// Each pass evicts eight samples of 8 pages, and the next pass maps all eight as one extent of
    /// 64 pages. Each of the eight counts as touched, so the protected pages are never released.
    #[test]
    fn samples_that_are_mapped_together_were_all_missed() {
        let mut detector = LoopDetector::new(1000);
        for _ in 0..20 {
            for page in (0..300).step_by(4) {
                detector.on_read(page, 4, true);
                detector.on_unmap_probationary(4);
                detector.on_evict(page, 4);
            }
            detector.on_map(&(10_000..10_064));
            (10_000..10_064)
                .step_by(8)
                .for_each(|page| detector.on_unmap_protected(page..page + 8));
            assert!(!detector.is_releasing_protected());
        }
        assert!(detector.is_loop());
    }

    #[test]
    fn refaults_are_no_loop() {
        let mut detector = LoopDetector::new(1000);
        let pass = |detector: &mut LoopDetector, refaults: u32| {
            for page in (0..2000).step_by(4) {
                detector.on_read(page, 4, true);
                detector.on_evict(page, 4);
                detector.on_refault(refaults);
            }
            detector.is_loop()
        };
        assert!(!pass(&mut detector, 2));
        assert!(!pass(&mut detector, 2), "a third of all touches are refaults");
        assert!(pass(&mut detector, 0));
        assert!(pass(&mut detector, 2), "these are samples");
    }

    #[test]
    fn faults_soon_after_an_eviction_are_early_evictions() {
        let mut detector = LoopDetector::new(1000);
        let pass = |detector: &mut LoopDetector, pages: Page, is_prefetch: bool| {
            for page in (0..pages).step_by(4) {
                detector.on_read(page, 4, is_prefetch);
                detector.on_evict(page, 4);
            }
            detector.early_eviction_share()
        };
        for _ in 0..10 {
            pass(&mut detector, 200, true);
        }
        assert!(pass(&mut detector, 200, true) < 0.1, "prefetched");
        for _ in 0..10 {
            pass(&mut detector, 200, false);
        }
        assert!(pass(&mut detector, 200, false) > 0.9);
        for _ in 0..10 {
            pass(&mut detector, 2000, false);
        }
        assert!(pass(&mut detector, 2000, false) < 0.1, "evicted long ago");
    }

    #[test]
    fn a_loop_is_detected_again_after_its_release() {
        let mut detector = LoopDetector::new(1000);
        let pass = |detector: &mut LoopDetector| {
            for page in (0..300).step_by(4) {
                detector.on_read(page, 4, true);
                detector.on_evict(page, 4);
            }
        };
        (0..10).for_each(|_| pass(&mut detector));
        (0..4).for_each(|at| detector.on_unmap_protected(10_000 + at..10_001 + at));
        (0..3).for_each(|_| pass(&mut detector));
        assert!(detector.is_releasing_protected() && !detector.is_loop());
        (0..4).for_each(|_| pass(&mut detector));
        assert!(!detector.is_releasing_protected() && detector.is_loop());
    }
}
