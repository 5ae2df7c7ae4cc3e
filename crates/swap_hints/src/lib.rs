//! Swap hints for statically linked programs, which cannot load the pager's library.
//!
//! A control group limits the DRAM of these programs, and the kernel chooses the pages that go to a
//! swap file. The hints are calls of `process_madvise(2)`. With `MADV_WILLNEED`, the kernel reads
//! ahead the pages that a stream of the program will touch next. With `MADV_PAGEOUT`, it pages out
//! the pages that a stream has passed, before memory is short.
//!
//! Swap is slow even with hints, because the kernel still reads the pages of swap in small pieces:
//! sequential passes over 160 MiB with 64 MiB of DRAM took 4.1 s on swap alone, 2.9 s on swap with
//! hints, and 0.14 s with all pages in DRAM (docs/extend-stores.md). The hints are also imperfect:
//! the program's accesses are inferred only from the pages that became resident since the last
//! scan.

pub mod scan;

pub mod group;

use interleaf_prefetch::{FaultContext, Limits, advice::Advice, page::Page, stream::Streams};
use std::{collections::VecDeque, ops::Range};

/// A *sweep* is one pass of a program over consecutive pages. A range of newly resident pages
/// counts as part of a sweep if it has at least `SWEEP_MIN` pages. Hints do not page out shorter
/// ranges, because the program may need them again soon.
const SWEEP_MIN: u64 = 16;

/// Decides on the hints for one process from the resident pages that scans of this process find.
#[derive(Clone, Debug)]
pub struct HintPolicy {
    streams: Streams,
    /// The pages that were resident at the previous scan, in ascending order.
    resident: Vec<Range<Page>>,
    /// The pages that sequential sweeps have passed and that no hint has paged out yet. The oldest
    /// are first.
    behind: VecDeque<Range<Page>>,
}

/// The hints for one process after a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Pages that the kernel should read ahead.
    pub read_ahead: Vec<Range<Page>>,
    /// Pages that the kernel should page out.
    pub page_out: Vec<Range<Page>>,
}

impl HintPolicy {
    /// Creates the policy for a process that was not scanned yet. `limits` are the limits of the
    /// prefetch depth of the process's streams, pages.
    pub const fn new(limits: Limits) -> Self {
        Self { streams: Streams::new(limits), resident: vec![], behind: VecDeque::new() }
    }

    /// The number of pages that were resident at the last scan.
    pub fn resident(&self) -> u64 {
        count(&self.resident)
    }

    /// Returns the hints after a scan that found the pages `resident`, in ascending order. The
    /// hints page out pages that sequential sweeps have passed, the oldest first, until at most
    /// `most` resident pages are left.
    pub fn update(&mut self, resident: Vec<Range<Page>>, most: u64) -> Hints {
        let mut hints = Hints::default();
        for pages in without(&resident, &self.resident) {
            let (page, region) = (pages.start, 0..Page::MAX);
            let advice = Advice::Normal;
            let mapped_around = pages.clone();
            let (thread, offset) = (0, 0);
            let fault = FaultContext {
                thread,
                page,
                offset,
                pages: pages.clone(),
                mapped_around,
                region,
                advice,
            };
            let prefetches = self.streams.on_fault(&fault);
            hints.read_ahead.extend(prefetches.into_iter().flat_map(|prefetch| prefetch.pages));
            if pages.end - pages.start >= SWEEP_MIN {
                self.behind.push_back(pages);
            }
        }
        let mut left = count(&resident);
        while left > most {
            let Some(pages) = self.behind.pop_front() else { break };
            // Pages that the kernel has already paged out get no hint.
            let gone = without(&one(&pages), &resident);
            let pages = without(&one(&pages), &gone);
            left -= count(&pages);
            hints.page_out.extend(pages);
        }
        hints.read_ahead = without(&joined(std::mem::take(&mut hints.read_ahead)), &resident);
        self.resident = resident;
        hints
    }
}

/// Returns the number of pages in all `ranges` together.
pub(crate) fn count(ranges: &[Range<Page>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

fn one(range: &Range<Page>) -> [Range<Page>; 1] {
    [range.clone()]
}

/// Sorts `ranges`, and joins those that are adjacent or overlap.
fn joined(mut ranges: Vec<Range<Page>>) -> Vec<Range<Page>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<Page>> = vec![];
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Returns the pages of `all` that are not in `but`. The ranges of each of the two lists must be in
/// ascending order.
fn without(all: &[Range<Page>], but: &[Range<Page>]) -> Vec<Range<Page>> {
    let (mut left, mut but) = (vec![], but.iter().peekable());
    for range in all {
        let mut start = range.start;
        while start < range.end {
            while but.next_if(|gone| gone.end <= start).is_some() {}
            match but.peek() {
                Some(gone) if gone.start <= start => start = gone.end,
                Some(gone) if gone.start < range.end => {
                    left.push(start..gone.start);
                    start = gone.end;
                }
                _ => {
                    left.push(start..range.end);
                    break;
                }
            }
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand_pcg::{
        Pcg64Mcg,
        rand_core::{RngCore, SeedableRng},
    };
    use std::collections::BTreeSet;

    const LIMITS: Limits = Limits { initial: 64, max: 1024 };

    #[test]
    fn a_sweep_is_read_ahead_and_paged_out_behind() {
        let mut policy = HintPolicy::new(LIMITS);
        let (mut ahead, mut out) = (BTreeSet::new(), BTreeSet::new());
        for at in 0..50 {
            let first = 1000 + at.max(10) * 200 - 2000;
            let hints = policy.update(one(&(first..1000 + (at + 1) * 200)).into(), 2000);
            ahead.extend(hints.read_ahead.into_iter().flatten());
            out.extend(hints.page_out.into_iter().flatten());
        }
        let read_ahead = (2000..11_000).filter(|page| ahead.contains(page)).count();
        assert!(read_ahead > 8000, "{read_ahead} of 9000");
        assert!(ahead.iter().all(|page| *page < 11_000 + 2 * LIMITS.max), "{:?}", ahead.last());
        assert_eq!(out, (1000..9000).collect());
    }

    #[test]
    fn random_accesses_give_no_hints() {
        let mut policy = HintPolicy::new(LIMITS);
        let mut resident = BTreeSet::new();
        let mut random = Pcg64Mcg::seed_from_u64(1);
        for _ in 0..200 {
            resident.insert(random.next_u64() >> 30);
            let pages = resident.iter().map(|page| *page..page + 1).collect();
            assert_eq!(policy.update(pages, 10), Hints::default());
        }
    }

    fn ranges() -> impl Strategy<Value = Vec<Range<Page>>> {
        let range = (0_u64..100, 1_u64..20).prop_map(|(start, count)| start..start + count);
        proptest::collection::vec(range, 0..10).prop_map(joined)
    }

    proptest! {
        #[test]
        fn a_difference_is_in_one_list_and_not_in_the_other(all in ranges(), but in ranges()) {
            let set = |ranges: &[Range<Page>]| -> BTreeSet<Page> {
                ranges.iter().cloned().flatten().collect()
            };
            let left = without(&all, &but);
            prop_assert!(left.iter().all(|range| range.start < range.end));
            prop_assert_eq!(set(&left), &set(&all) - &set(&but));
        }
    }
}
