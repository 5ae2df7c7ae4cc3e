use super::*;
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};
use std::collections::BTreeSet;

const LIMITS: Limits = Limits { initial: 4, max: 64 };

/// Numbers of pages of a trace: touched, prefetched before their touch, and prefetched but
/// never touched.
#[derive(Debug)]
struct StreamOutcome {
    touched: usize,
    hits: usize,
    wasted: usize,
}

fn run(trace: impl IntoIterator<Item = (u32, Page)>) -> StreamOutcome {
    let mut streams = Streams::new(LIMITS);
    let (mut prefetched, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut outcome = StreamOutcome { touched: 0, hits: 0, wasted: 0 };
    for (thread, page) in trace {
        outcome.touched += 1;
        outcome.hits += usize::from(prefetched.remove(&page));
        seen.insert(page);
        let fault = FaultContext::single(thread, page);
        for pages in streams.on_fault(&fault).into_iter().flat_map(|prefetch| prefetch.pages) {
            assert!(pages.start < pages.end);
            prefetched.extend(pages);
        }
    }
    outcome.wasted = prefetched.len();
    outcome
}

/// Asserts that few touches are not prefetch hits: at most 5 for each stream. Also asserts that
/// at most `LIMITS.max` pages are wasted for each stream: those after its end.
fn check_outcome(name: &str, streams: usize, trace: Vec<(u32, Page)>) {
    let outcome = run(trace);
    assert!(outcome.touched - outcome.hits <= 5 * streams, "{name}: {outcome:?}");
    assert!(outcome.wasted <= LIMITS.max as usize * streams, "{name}: {outcome:?}");
}

#[test]
fn loops_over_arrays_are_prefetched() {
    let array = 1 << 30;
    let alone = |pages: Vec<Page>| pages.into_iter().map(|page| (1, page)).collect::<Vec<_>>();
    check_outcome("a sweep", 1, alone((1000..3000).collect()));
    check_outcome("backwards", 1, alone((1000..3000).rev().collect()));
    check_outcome("a column", 1, alone((0..2000).map(|i| 7 + i * 100).collect()));
    check_outcome(
        "a descending column",
        1,
        alone((0..2000).map(|i| 1_000_000 - i * 100).collect()),
    );
    let triad = (0..1000).flat_map(|i| [i, array + i, 2 * array + i]);
    check_outcome("three arrays", 3, alone(triad.collect()));
    let threads = (0..1000).flat_map(|i| (0..4).map(move |t| (t, u64::from(t) * 5000 + i)));
    check_outcome("four threads", 4, threads.collect());
    let columns = (0..1000).flat_map(|i| [i * 50, array + i * 50]);
    check_outcome("columns of two arrays", 2, alone(columns.collect()));
}

#[test]
fn rows_of_a_tile_are_prefetched() {
    let rows = (0..200).flat_map(|row| (0..8).map(move |page| (1, row * 100 + page)));
    // The first row looks like a pass over an array, so pages that are prefetched behind its
    // end are wasted. The second row shows the stride.
    let outcome = run(rows);
    assert!(outcome.hits >= outcome.touched * 9 / 10, "{outcome:?}");
    assert!(outcome.wasted <= 2 * LIMITS.max as usize, "{outcome:?}");
}

/// The second stream begins within the prefetch depth of the first one, at a page that the
/// first one has not requested yet. Later both have requested the same pages.
#[test]
fn of_two_streams_that_predict_the_same_page_only_one_is_left() {
    let mut streams = Streams::new(LIMITS);
    let pages = (0..20).chain(100..104).chain(20..100).chain(104..120);
    let lengths = pages.map(|page| {
        streams.on_fault(&FaultContext::single(1, page));
        streams.table.len()
    });
    let lengths: Vec<_> = lengths.collect();
    assert_eq!((lengths[19], lengths[23], lengths.last()), (1, 2, Some(&1)));
}

#[test]
fn random_accesses_are_not_prefetched() {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let outcome = run((0..20_000).map(|_| (1, random.next_u64() >> 40)));
    assert!(outcome.wasted * 20 <= outcome.touched, "{outcome:?}");
}

proptest::proptest! {
    #[test]
    fn no_trace_panics(
        pages in proptest::collection::vec((0_u32..3, proptest::prelude::any::<u64>()), 0..300),
    ) {
        run(pages.into_iter().map(|(thread, page)| (thread, page.min(u64::MAX - 1))));
    }
}
