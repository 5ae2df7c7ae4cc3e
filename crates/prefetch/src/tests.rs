//! Tests the whole prefetcher with traces of page accesses: how many of their faults are on
//! prefetched pages, and how many prefetched pages are wasted.

use super::*;

use proptest::prelude::*;
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const LIMITS: Limits = Limits { initial: 4, max: 64 };

/// A simulated memory of `frames` frames, which evicts the page that was mapped first. Prefetched
/// pages that are untouched (`ready`) have frames of their own: an eighth of `frames`, but at least
/// 256.
struct TestMemory {
    prefetcher: Prefetcher,
    mapped: BTreeSet<Page>,
    order: VecDeque<Page>,
    ready: BTreeMap<Page, u32>,
    ready_order: VecDeque<(u64, Page)>,
    frames: usize,
    outcome: TraceOutcome,
}

/// Numbers of a trace's faults, prefetch hits, prefetched pages and wasted pages.
#[derive(Clone, Copy, Debug, Default)]
struct TraceOutcome {
    faults: u64,
    /// Faults on prefetched pages.
    hits: u64,
    prefetched: u64,
    wasted: u64,
}

impl TestMemory {
    fn new(frames: usize, footprint: u64) -> Self {
        let mut prefetcher = Prefetcher::new(LIMITS);
        prefetcher.set_footprint(footprint);
        Self {
            prefetcher,
            mapped: BTreeSet::new(),
            order: VecDeque::new(),
            ready: BTreeMap::new(),
            ready_order: VecDeque::new(),
            frames,
            outcome: TraceOutcome::default(),
        }
    }

    fn touch(&mut self, thread: u32, page: Page) {
        if self.mapped.contains(&page) {
            return;
        }
        self.outcome.faults += 1;
        self.outcome.hits += u64::from(self.ready.remove(&page).is_some());
        self.mapped.insert(page);
        self.order.push_back(page);
        if self.mapped.len() > self.frames
            && let Some(first) = self.order.pop_front()
        {
            self.mapped.remove(&first);
        }
        let fault = FaultContext::single(thread, page);
        let Some(prefetch) = self.prefetcher.on_fault(&fault) else { return };
        for page in prefetch.pages.into_iter().flatten() {
            if self.mapped.contains(&page) || self.ready.contains_key(&page) {
                continue;
            }
            self.drop_stale();
            if self.ready.len() >= self.ready_max() {
                break;
            }
            self.outcome.prefetched += 1;
            self.ready.insert(page, prefetch.stream);
            self.ready_order.push_back((self.outcome.faults, page));
        }
    }

    fn ready_max(&self) -> usize {
        (self.frames / 8).max(4 * LIMITS.max as usize)
    }

    /// While there are `ready_max` or more untouched prefetched pages, drops the oldest one if it
    /// is stale: prefetched at least `2 * ready_max` faults ago.
    fn drop_stale(&mut self) {
        let now = self.outcome.faults;
        while self.ready.len() >= self.ready_max()
            && let Some((when, first)) = self.ready_order.pop_front()
        {
            if now - when < 2 * self.ready_max() as u64 && self.ready.contains_key(&first) {
                self.ready_order.push_front((when, first));
                return;
            }
            if let Some(stream) = self.ready.remove(&first) {
                self.outcome.wasted += 1;
                self.prefetcher.on_wasted(stream, &(first..first + 1));
            }
        }
    }

    /// Runs a trace, and returns the outcome of this trace alone. Pages that an earlier trace
    /// prefetched count as prefetched at the start of this trace.
    fn run(&mut self, trace: impl IntoIterator<Item = Page>) -> TraceOutcome {
        self.outcome = TraceOutcome::default();
        self.ready_order.iter_mut().for_each(|(when, _)| *when = 0);
        trace.into_iter().for_each(|page| self.touch(1, page));
        self.outcome
    }
}

fn shuffled(pages: u64, random: &mut Pcg64Mcg) -> Vec<Page> {
    let mut order: Vec<Page> = (0..pages).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, (random.next_u64() % (at as u64 + 1)) as usize);
    }
    order
}

/// Asserts that at least the fraction `hits_min` of the faults is on prefetched pages. Also asserts
/// that the wasted pages are at most the fraction `wasted_max` of the prefetched pages, plus 64
/// pages.
fn check_outcome(name: &str, outcome: TraceOutcome, hits_min: f64, wasted_max: f64) {
    let TraceOutcome { faults, hits, prefetched, wasted } = outcome;
    assert!(hits as f64 >= hits_min * faults as f64, "{name}: {outcome:?}");
    assert!(wasted as f64 <= wasted_max * prefetched as f64 + 64.0, "{name}: {outcome:?}");
}

#[test]
fn an_order_that_repeats_is_prefetched() {
    let random = &mut Pcg64Mcg::seed_from_u64(1);
    let order = shuffled(8192, random);
    for frames in [512, 4096, 7000] {
        let mut memory = TestMemory::new(frames, 8192);
        let first = memory.run(order.clone());
        assert!(first.wasted * 20 <= first.faults, "{first:?}");
        for round in 2..6 {
            check_outcome(
                &format!("{frames}, round {round}"),
                memory.run(order.clone()),
                0.97,
                0.01,
            );
        }
    }
}

#[test]
fn pages_that_are_touched_once_among_others_do_no_harm() {
    let random = &mut Pcg64Mcg::seed_from_u64(2);
    let order = shuffled(8192, random);
    let mut memory = TestMemory::new(2048, 16384);
    for round in 0..6 {
        let noisy: Vec<_> = order
            .iter()
            .flat_map(|page| {
                let other = 8192 + random.next_u64() % 8192;
                let is_noisy = random.next_u64().is_multiple_of(10);
                [Some(*page), is_noisy.then_some(other)].into_iter().flatten()
            })
            .collect();
        let outcome = memory.run(noisy);
        // The second round (`round` is 1) wastes more prefetches, because no page has repeated
        // before it.
        if round > 0 {
            let wasted = if round == 1 { 0.1 } else { 0.01 };
            check_outcome(&format!("round {round}"), outcome, 0.85, wasted);
        }
    }
}

#[test]
fn a_gradually_changing_order_is_relearned() {
    let random = &mut Pcg64Mcg::seed_from_u64(3);
    let mut order = shuffled(8192, random);
    let mut memory = TestMemory::new(2048, 8192);
    memory.run(order.clone());
    for round in 1..40 {
        check_outcome(&format!("round {round}"), memory.run(order.clone()), 0.85, 0.06);
        for _ in 0..80 {
            let (a, b) = (random.next_u64() % 8192, random.next_u64() % 8192);
            order.swap(a as usize, b as usize);
        }
    }
}

#[test]
fn another_order_is_learned_and_the_old_one_costs_nothing() {
    let random = &mut Pcg64Mcg::seed_from_u64(4);
    let mut memory = TestMemory::new(2048, 8192);
    let old = shuffled(8192, random);
    (0..4).for_each(|_| _ = memory.run(old.clone()));
    let new = shuffled(8192, random);
    let outcome = memory.run(new.clone());
    assert!(outcome.wasted * 20 <= outcome.faults, "{outcome:?}");
    check_outcome("again", memory.run(new.clone()), 0.95, 0.01);
}

#[test]
fn threads_have_orders_of_their_own() {
    let random = &mut Pcg64Mcg::seed_from_u64(5);
    let orders: Vec<_> = (0..4).map(|_| shuffled(4096, random)).collect();
    let mut memory = TestMemory::new(2048, 4 * 4096);
    for round in 0..3 {
        memory.outcome = TraceOutcome::default();
        let mut at = [0; 4];
        while at.iter().any(|at| *at < 4096) {
            let thread = (random.next_u64() % 4) as usize;
            if let Some(page) = orders[thread].get(at[thread]) {
                at[thread] += 1;
                // Each round has other thread IDs, as if the program had started new threads.
                memory.touch(round * 4 + thread as u32, 4096 * thread as u64 + page);
            }
        }
        if round > 0 {
            check_outcome(&format!("round {round}"), memory.outcome, 0.95, 0.01);
        }
    }
}

/// A program walks the edges of a graph in order, which is a stream, and accesses the vertices that
/// the edges name, in no order. Asserts that from the second round on, the pages of edges and of
/// vertices are prefetched.
#[test]
fn a_gather_beside_a_sweep_is_prefetched() {
    let random = &mut Pcg64Mcg::seed_from_u64(6);
    let order = shuffled(4096, random);
    let mut memory = TestMemory::new(1024, 3 * 4096);
    for round in 0..3 {
        let edge = |at: usize| at.is_multiple_of(8).then_some(8192 + at as u64 / 8);
        let both = order.iter().enumerate().flat_map(|(at, page)| [Some(*page), edge(at)]);
        let outcome = memory.run(both.flatten());
        if round > 0 {
            check_outcome(&format!("round {round}"), outcome, 0.95, 0.02);
        }
    }
}

/// A trace over tiles of `rows` rows of `width` pages, in a matrix whose rows are `pitch` pages
/// apart. `down` is the number of rows of tiles, which are walked one after the other.
fn tiles(pitch: u64, width: u64, rows: u64, down: u64) -> impl Iterator<Item = Page> {
    let tiles = (0..down).flat_map(move |y| (0..pitch / width).map(move |x| (y, x)));
    tiles.flat_map(move |(y, x)| {
        let first = y * rows * pitch + x * width;
        (0..rows).flat_map(move |row| (0..width).map(move |page| first + row * pitch + page))
    })
}

#[test]
fn nested_loops_are_prefetched() {
    let far = 1 << 24;
    let check = |name: &str, frames: usize, part: f64, trace: Vec<Page>| {
        let outcome = TestMemory::new(frames, 0).run(trace);
        check_outcome(name, outcome, part, 0.08);
    };
    check("tiles", 1024, 0.9, tiles(128, 8, 32, 8).collect());
    check("narrow tiles", 1024, 0.85, tiles(32, 1, 64, 8).collect());
    check("tiles of a small pitch", 1024, 0.9, tiles(8, 2, 256, 8).collect());
    let three = tiles(128, 8, 32, 8).zip(tiles(64, 4, 64, 8)).zip(tiles(32, 8, 32, 32));
    let three = three.flat_map(|((a, b), c)| [a, far + b, 2 * far + c]);
    check("tiles of three matrices", 1024, 0.9, three.collect());
    let backwards = tiles(128, 8, 32, 8).map(|page| far - page);
    check("descending tiles", 1024, 0.9, backwards.collect());
    let pencils = |plane: u64, planes: u64| {
        (0..plane).flat_map(move |at| (0..planes).map(move |z| z * plane + at))
    };
    check("pencils across planes", 512, 0.9, pencils(100, 64).collect());
    check("pencils of powers of two", 512, 0.9, pencils(128, 64).collect());
    let in_planes = (0..64).flat_map(|z| pencils(16, 16).map(move |at| z * 256 + at));
    check("pencils in each plane", 1024, 0.9, in_planes.collect());
    let butterflies = (4..12).rev().flat_map(|stage| {
        let half = 1_u64 << stage;
        let pairs = (0..4096_u64).filter(move |at| at & half == 0);
        pairs.flat_map(move |at| [at, at + half])
    });
    check("butterflies", 512, 0.9, butterflies.collect());
    let there_and_back = (0..6)
        .flat_map(|lap| (0..2048_u64).map(move |at| if lap % 2 == 0 { at } else { 2047 - at }));
    check("there and back", 512, 0.95, there_and_back.collect());
    let reversed = (0..6).flat_map(|_| (0..4096_u16).map(|at| u64::from((at << 4).reverse_bits())));
    let outcome = TestMemory::new(512, 4096).run(reversed.collect::<Vec<_>>());
    check_outcome("reversed bits", outcome, 0.8, 0.01);
}

#[test]
fn random_accesses_are_not_prefetched() {
    for (pages, frames) in [(2048, 1024), (16384, 8192), (1 << 20, 1024)] {
        let random = &mut Pcg64Mcg::seed_from_u64(7);
        let mut memory = TestMemory::new(frames, pages);
        let outcome = memory.run((0..100_000).map(|_| random.next_u64() % pages));
        assert!(outcome.wasted * 20 <= outcome.faults, "{pages}: {outcome:?}");
    }
}

#[test]
fn advice_is_believed() {
    let fault =
        |page, advice| FaultContext { region: 0..99, advice, ..FaultContext::single(1, page) };
    let mut prefetcher = Prefetcher::new(LIMITS);
    let prefetch = prefetcher.on_fault(&fault(7, Advice::Sequential));
    let prefetch: Vec<Page> =
        prefetch.into_iter().flat_map(|prefetch| prefetch.pages).flatten().collect();
    assert_eq!(prefetch, [8, 9, 10, 11], "at once");
    for page in 0..50 {
        assert_eq!(prefetcher.on_fault(&fault(page, Advice::Random)), None);
    }
    assert!(prefetcher.expects(ADVISED_STREAM, &(0..1)));
}

#[test]
fn the_history_is_small() {
    let pages = 1 << 18;
    let random = &mut Pcg64Mcg::seed_from_u64(8);
    let mut history = History::new(LIMITS);
    history.set_footprint(pages);
    for _ in 0..2 {
        for page in shuffled(pages, random) {
            let fault = FaultContext::single(1, page);
            history.on_fault(&fault, history.find_prediction(&fault));
        }
    }
    let part = history.bytes() as f64 / (pages * 4096) as f64;
    assert!(part < 0.002, "{part}");
}

proptest! {
    #[test]
    fn no_trace_panics(
        seed in any::<u64>(),
        footprint in 0_u64..3000,
        touches in proptest::collection::vec((0_u32..80, 0_u64..200, 0_u8..16), 0..3000),
    ) {
        let random = &mut Pcg64Mcg::seed_from_u64(seed);
        let mut memory = TestMemory::new(32, footprint);
        for (thread, page, kind) in touches {
            match kind {
                0 => memory.touch(thread, u64::MAX - 1 - page),
                1 => memory.prefetcher.on_wasted(thread | HISTORY_BIT, &(page..page + 5)),
                2 => memory.prefetcher.set_footprint(random.next_u64() % 3000),
                3 => memory.touch(thread, (1 << 31) - 100 + page),
                _ => memory.touch(thread % 3, page),
            }
        }
    }
}
