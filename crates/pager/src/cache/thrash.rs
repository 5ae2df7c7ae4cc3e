//! Thrash detection. A program thrashes if its threads wait for the drive for most of the time, for
//! pages that were evicted and that no stream predicts. Only a larger budget helps, so the pager
//! tells the user the budget that would end the thrashing.
//!
//! The recommended budget follows from the number of pages that the threads use. This number is
//! estimated from two counts: the loads since thrashing began, and the distinct pages among these
//! loads. Resident pages that were not loaded since thrashing began are added: their use is so
//! frequent that they stay resident.
//!
//! The number of distinct pages is estimated from a sample, the pages with the smallest hashes.
//! Among `n` uniform hashes in 0..1, the k-th smallest is k / n in the mean (Bar-Yossef et al.,
//! "Counting Distinct Elements in a Data Stream", RANDOM 2002). SHARDS samples pages in the same
//! way (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015). With 1024 hashes
//! the standard error is 3 %.

use super::Cache;
use interleaf_prefetch::page::Page;
use std::{collections::BTreeSet, ops::Range};

/// Maximum number of hashes in the sample.
const SAMPLE_MAX: usize = 1024;

/// Minimum stall share of a thrashing period: the stall time of all threads together, divided by
/// the elapsed time.
const STALL_SHARE_MIN: f64 = 0.5;

/// Minimum share of pages read for faults among all pages loaded in a thrashing period.
const DEMAND_SHARE_MIN: f64 = 0.5;

/// Minimum number of consecutive thrashing periods, of a second each, before the user is told the
/// budget that would end the thrashing.
const PERIODS: u32 = 5;

/// The number of used pages is estimated only if there are at least this many loads per distinct
/// page. With fewer loads, nearly all loaded pages are different, and the number of used pages
/// could be arbitrarily large.
const LOADS_MIN: f64 = 1.3;

/// Number of consecutive thrashing periods after which a budget is recommended even without an
/// estimate of the used pages. The recommended budget then holds the whole footprint.
const PERIODS_MAX: u32 = 9;

/// Minimum number of pages loaded in a thrashing period: a program that waits for few pages does
/// not thrash.
const LOADED_MIN: u64 = 256;

/// The recommended budget has room for the used pages and for the reserve of free frames
/// (`evict.rs`). The reserve is the budget divided by this number.
const RESERVE_DIVISOR: u64 = 16;

/// A detector of thrashing.
#[derive(Clone, Debug, Default)]
pub(super) struct ThrashDetector {
    /// Number of pages loaded in this period, and the number of these pages that were read for a
    /// fault (`demanded`).
    loaded: u64,
    demanded: u64,
    /// Number of thrashing periods in a row, and the number of pages loaded in these periods.
    periods: u32,
    loaded_thrashing: u64,
    /// The smallest hashes of the pages that were loaded in the thrashing periods.
    sample: BTreeSet<u32>,
    is_reported: bool,
}

impl ThrashDetector {
    /// Counts the loaded pages `pages`, which are read or filled with zeros. `is_demanded` is true
    /// if a thread waits for a read of these pages.
    pub(super) fn on_load(&mut self, pages: Range<Page>, is_demanded: bool) {
        let count = pages.end - pages.start;
        self.loaded += count;
        self.demanded += if is_demanded { count } else { 0 };
        if self.is_reported {
            return;
        }
        for page in pages {
            let hash = hash(page);
            if self.sample.len() < SAMPLE_MAX {
                self.sample.insert(hash);
            } else if self.sample.last().is_some_and(|last| hash < *last)
                && self.sample.insert(hash)
            {
                self.sample.pop_last();
            }
        }
    }

    /// Ends a period in which the stall time of all threads was `stall_share` of the elapsed time.
    /// Returns the estimated number of pages that the threads use, without the pages that stayed
    /// resident; `u32::MAX` if no estimate is possible even after [`PERIODS_MAX`] periods. The
    /// caller must then call [`Self::end_count`]. `None` if the program does not thrash, if no
    /// estimate is possible yet, or if the user has already got the hint.
    fn end_period(&mut self, stall_share: f64) -> Option<u64> {
        let share = self.demanded as f64 / self.loaded.max(1) as f64;
        let is_thrashing = stall_share >= STALL_SHARE_MIN
            && share >= DEMAND_SHARE_MIN
            && self.loaded >= LOADED_MIN;
        let loaded = self.loaded;
        (self.loaded, self.demanded) = (0, 0);
        if !is_thrashing {
            (self.periods, self.loaded_thrashing) = (0, 0);
            self.sample.clear();
            return None;
        }
        self.periods += 1;
        self.loaded_thrashing += loaded;
        if self.periods < PERIODS || self.is_reported {
            return None;
        }
        let used = used_pages(self.distinct_pages(), self.loaded_thrashing);
        if used.is_none() && self.periods < PERIODS_MAX {
            return None;
        }
        Some(used.unwrap_or(u32::MAX.into()))
    }

    /// Ends the count of loads that began with the thrashing. Begins a new count, unless
    /// `is_reported` says that the budget was recommended to the user.
    fn end_count(&mut self, is_reported: bool) {
        self.is_reported = is_reported;
        (self.periods, self.loaded_thrashing) = (0, 0);
        self.sample.clear();
    }

    /// Estimates from the sample how many of `pages` were not loaded since thrashing began.
    fn unloaded(&self, pages: impl Iterator<Item = Page>) -> u64 {
        let hash_max = match self.sample.last() {
            Some(last) if self.sample.len() == SAMPLE_MAX => *last,
            _ => u32::MAX,
        };
        let is_unloaded = |hash: &u32| *hash <= hash_max && !self.sample.contains(hash);
        let sampled = pages.map(hash).filter(is_unloaded).count();
        (sampled as f64 / fraction(hash_max)) as u64
    }

    /// Estimates from the sample how many distinct pages were loaded since thrashing began.
    fn distinct_pages(&self) -> u64 {
        match self.sample.last() {
            Some(last) if self.sample.len() == SAMPLE_MAX => {
                ((SAMPLE_MAX - 1) as f64 / fraction(*last)) as u64
            }
            _ => self.sample.len() as u64,
        }
    }
}

/// The fraction of all hashes that are at most `hash_max`.
fn fraction(hash_max: u32) -> f64 {
    (f64::from(hash_max) + 1.0) / (f64::from(u32::MAX) + 1.0)
}

/// The estimated number n of pages that the threads use. The estimate assumes that `loads` random
/// draws among n pages hit `distinct` different pages. It is the solution for n of the equation
/// `distinct` = n (1 - exp(-`loads` / n)). `None` if nearly all draws were different, because n may
/// then be arbitrarily large.
fn used_pages(distinct: u64, loads: u64) -> Option<u64> {
    let (distinct, loads) = (distinct as f64, loads as f64);
    if distinct == 0.0 || loads < LOADS_MIN * distinct {
        return None;
    }
    // Bisection for x, the mean number of draws of a page: (1 - exp(-x)) / x is 1 at x = 0, and
    // decreases with x.
    let (mut low, mut high) = (0.0, loads / distinct + 1.0);
    for _ in 0..40 {
        let middle: f64 = f64::midpoint(low, high);
        let is_less = -(-middle).exp_m1() / middle > distinct / loads;
        if is_less { low = middle } else { high = middle }
    }
    Some((loads / low) as u64)
}

/// Hashes a page number by the finalizer of `splitmix64` (Steele, Lea and Flood, OOPSLA 2014).
const fn hash(page: Page) -> u32 {
    let mut word = page.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word >> 32) as u32
}

impl Cache {
    /// Ends a period of a second in which the stall time of all threads was `stall_share` of the
    /// elapsed time. Returns the budget in frames that would end the thrashing, at most once in the
    /// life of the cache. `None` if the program does not thrash, if that budget is not known yet,
    /// or if it is not larger than the present budget.
    pub fn end_period(&mut self, stall_share: f64) -> Option<u64> {
        let loaded = self.thrash.end_period(stall_share)?;
        let extents = self.residency.all_in(&(0..Page::MAX)).into_iter();
        let resident = extents.flat_map(|id| self.residency.extent(id).span().pages());
        let used = loaded + self.thrash.unloaded(resident);
        // No program needs a budget for more pages than its footprint. The footprint leaves out
        // pages of regions that were never touched.
        let used = used.min(self.counts.footprint);
        let enough = used + used / (RESERVE_DIVISOR - 1);
        let is_more = enough > u64::from(self.budget());
        self.thrash.end_count(is_more);
        is_more.then_some(enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::{
        Pcg64Mcg,
        rand_core::{RngCore, SeedableRng},
    };

    /// Simulates 20 periods of random accesses to `pages` pages. Returns each estimate of the
    /// number of used pages that the detector has made.
    fn reported(pages: u64, is_demanded: bool, stall_share: f64) -> Vec<u64> {
        let (mut detector, mut random) = (ThrashDetector::default(), Pcg64Mcg::seed_from_u64(1));
        let period = |_| {
            for _ in 0..20_000 {
                let page = random.next_u64() % pages * 7;
                detector.on_load(page..page + 1, is_demanded);
            }
            let used = detector.end_period(stall_share)?;
            detector.end_count(true);
            Some(used)
        };
        (0..20).filter_map(period).collect()
    }

    #[test]
    fn the_used_pages_are_reported_once() {
        for pages in [100_u64, 1000, 10_000] {
            let enough = reported(pages, true, 0.9);
            let expected = pages as f64;
            let [found] = enough[..] else { panic!("{enough:?}") };
            assert!((found as f64 / expected - 1.0).abs() < 0.1, "{found} for {pages} pages");
        }
    }

    /// Random accesses to 150 000 pages read about half of the pages before the detector reports a
    /// budget. The reported budget must have room for the other half, too.
    #[test]
    fn the_budget_is_right_before_all_pages_were_read() {
        let (pages, loads) = (150_000_u64, 100_000);
        let [found] = reported(pages, true, 0.9)[..] else { panic!("one report") };
        let expected = pages as f64;
        assert!((found as f64 / expected - 1.0).abs() < 0.2, "{found} after {loads} loads");
        assert_eq!(used_pages(99, 100), None, "nearly all were different");
        // Two draws per page hit 1 - exp(-2) of all pages.
        assert_eq!(used_pages(86_466, 200_000).map(|pages| pages / 100), Some(999));
        let [unknown] = reported(100_000_000, true, 0.9)[..] else { panic!("one report") };
        assert!(unknown > 100_000_000, "the cache limits it to the footprint");
    }

    #[test]
    fn streams_and_short_waits_are_no_thrashing() {
        assert!(reported(10_000, false, 0.9).is_empty(), "the drive is the limit of a stream");
        assert!(reported(10_000, true, 0.3).is_empty());
    }

    #[test]
    fn a_pause_begins_a_new_count() {
        let mut detector = ThrashDetector::default();
        let mut period = |first: Page, stall_share: f64| {
            detector.on_load(first..first + 300, true);
            detector.end_period(stall_share)
        };
        (0..4).for_each(|_| assert_eq!(period(0, 1.0), None));
        assert_eq!(period(1000, 0.1), None);
        (0..4).for_each(|_| assert_eq!(period(2000, 1.0), None));
        assert_eq!(period(2000, 1.0).map(|used| used / 10), Some(30));
    }

    /// The caller does not report an estimate that is below the present budget, which may have
    /// grown. The detector must then estimate again, until an estimate is reported.
    #[test]
    fn an_estimate_that_is_not_reported_is_made_again() {
        let mut detector = ThrashDetector::default();
        let mut estimates = |is_reported: bool| {
            let periods = (0..12).filter_map(|_| {
                detector.on_load(0..300, true);
                detector.end_period(1.0).inspect(|_| detector.end_count(is_reported))
            });
            periods.count()
        };
        assert_eq!((estimates(false), estimates(true), estimates(true)), (2, 1, 0));
    }

    #[test]
    fn resident_pages_that_were_not_loaded_are_estimated() {
        for pages in [100_u64, 100_000] {
            let mut detector = ThrashDetector::default();
            detector.on_load(0..pages, true);
            // A fifth of the resident pages were not loaded. The estimate must be within 20 %.
            let unloaded = detector.unloaded(pages / 5..pages + pages / 5);
            let error = unloaded as f64 / (pages / 5) as f64 - 1.0;
            assert!(error.abs() < 0.2, "{unloaded} of {pages}");
        }
    }
}
