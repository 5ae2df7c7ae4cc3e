#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod budget;

mod compact;

mod fast_path;

mod liveness;

mod node;

mod prefetch;

mod thrash;

use super::{index::ExtentId, node::Node, *};
use interleaf_prefetch::{advice::Advice, page::Page};
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};
use std::{collections::BTreeSet, ops::Range};

/// A cache with a simulated program, kernel and drive. The simulation knows the expected and the
/// actual content of each page.
struct Simulation {
    cache: Cache,
    random: Pcg64Mcg,
    /// For each page, the content that the program wrote last.
    expected: Vec<u32>,
    /// The content of each mapped page; `None` for a page that is not mapped.
    mapped: Vec<Option<u32>>,
    /// The content of each frame; `None` if the frame has no page.
    frames: Vec<Option<u32>>,
    drive: Vec<u32>,
    /// The content that each page had when it was last read or written back. A mapped page with
    /// other content is dirty.
    clean: Vec<u32>,
    /// Actions to carry out, in any order.
    todo: Vec<Action>,
    /// For each thread, the page that it waits for, and true if it waits to write.
    waits: Vec<Option<(Page, bool)>>,
    poisoned: Vec<bool>,
    /// Pages that are being discarded. No thread touches them until the discard is done.
    discarding: Option<Range<Page>>,
    writes: u32,
    /// One in this number of transfers fails; 0 for none.
    fails_one_in: u64,
    /// Maximum number of pages that the drive has room for.
    drive_pages: usize,
    /// True if threads sometimes write the former content (`clean`) to a page, which is then clean
    /// again.
    reverts: bool,
    /// The pages that take up room on the drive.
    on_drive: BTreeSet<Page>,
    /// One in this number of unmaps fails, as if the extent was pinned; 0 for none.
    pins_one_in: u64,
    /// The node that each thread runs on.
    nodes: Vec<Node>,
    /// Number of frames whose memory was moved to other frames.
    moved_memory: u32,
    /// Number of extents that were mapped.
    moved_in: u64,
    /// The state of the fast path; `None` if threads do not use it.
    fast_path: Option<fast_path::FastPath>,
}

/// Marks unknown content.
const UNKNOWN: u32 = u32::MAX;

/// Marks the content of a page on the drive after a torn write: a mixture of old and new content.
const TORN: u32 = u32::MAX - 1;

impl Simulation {
    fn new(settings: Settings, pages: usize, threads: usize, seed: u64) -> Self {
        let division = Division::single(settings.frames);
        Self::with_nodes(settings, division, pages, threads, seed)
    }

    /// Simulates a machine with the nodes of `division`. The threads run on these nodes in turn.
    fn with_nodes(
        settings: Settings,
        division: Division,
        pages: usize,
        threads: usize,
        seed: u64,
    ) -> Self {
        let nodes = division.nodes().cycle().take(threads).collect();
        let has_frame = |frame: u32| {
            let node = division.node_of(frame);
            frame - division.first(node) < division.max(node)
        };
        let frames = (0..division.frames()).map(|frame| has_frame(frame).then_some(0)).collect();
        let mut cache = Cache::with_nodes(settings, division);
        cache.add_region(0..pages as Page);
        Self {
            cache,
            random: Pcg64Mcg::seed_from_u64(seed),
            expected: vec![0; pages],
            mapped: vec![None; pages],
            frames,
            drive: vec![0; pages],
            clean: vec![0; pages],
            todo: vec![],
            waits: vec![None; threads],
            poisoned: vec![false; pages],
            discarding: None,
            writes: 0,
            fails_one_in: 0,
            drive_pages: usize::MAX,
            reverts: false,
            on_drive: BTreeSet::new(),
            pins_one_in: 0,
            nodes,
            moved_memory: 0,
            moved_in: 0,
            fast_path: None,
        }
    }

    fn below(&mut self, end: usize) -> usize {
        (self.random.next_u64() % end as u64) as usize
    }

    fn fails(&mut self) -> bool {
        self.fails_one_in > 0 && self.random.next_u64().is_multiple_of(self.fails_one_in)
    }

    /// Decides at random whether a write fails, and returns true if it does. Also fails if the
    /// drive is full. A failed write may leave torn pages on the drive.
    fn fails_to_write(&mut self, span: Span, dirty: &DirtyPages) -> bool {
        let pages: Vec<_> =
            span.pages().enumerate().filter(|(at, _)| dirty.contains(*at)).collect();
        let more = pages.iter().filter(|(_, page)| !self.on_drive.contains(page)).count();
        if !self.fails() && self.on_drive.len() + more <= self.drive_pages {
            self.on_drive.extend(pages.into_iter().map(|(_, page)| page));
            return false;
        }
        // After a failed write, the content on the drive is unknown, and so is `clean`.
        span.pages().for_each(|page| self.clean[page as usize] = UNKNOWN);
        for (at, page) in pages {
            self.drive[page as usize] = match self.below(3) {
                0 => self.drive[page as usize],
                1 => TORN,
                _ => self.frames[span.frame as usize + at].unwrap(),
            };
        }
        true
    }

    /// The content that a thread writes to `page`. It is new content, or sometimes, if `reverts` is
    /// true, the content that the page had when it was clean.
    fn content(&mut self, page: Page) -> u32 {
        let before = self.clean[page as usize];
        if self.reverts && before < TORN && self.below(4) == 0 {
            return before;
        }
        self.writes += 1;
        self.writes
    }

    fn on(&mut self, event: Event) {
        self.commit_mapped();
        let mut actions = vec![];
        self.cache.on(event, &mut actions);
        for action in actions {
            match action {
                Action::MoveMemory { from, to, order } => self.move_memory(from, to, order),
                action => self.todo.push(action),
            }
        }
    }

    /// Lets a thread touch a page. If the page is not mapped, the thread waits.
    fn touch(&mut self, thread: usize, page: Page, is_write: bool) {
        let is_discarding = self.discarding.as_ref().is_some_and(|pages| pages.contains(&page));
        if self.poisoned[page as usize] || is_discarding {
            return;
        }
        let mapped = self.mapped[page as usize];
        match mapped {
            Some(content) => {
                assert_eq!(content, self.expected[page as usize], "page {page}");
                if is_write {
                    let content = self.content(page);
                    self.mapped[page as usize] = Some(content);
                    self.expected[page as usize] = content;
                }
            }
            None if self.try_map(thread, page) => self.touch(thread, page, is_write),
            None => {
                self.waits[thread] = Some((page, is_write));
                self.on(Event::Fault(PageFault {
                    thread: thread as u32,
                    page,
                    offset: 0,
                    node: self.nodes[thread],
                }));
            }
        }
    }

    fn wake(&mut self, pages: Range<Page>) {
        for thread in 0..self.waits.len() {
            if let Some((page, is_write)) = self.waits[thread].filter(|it| pages.contains(&it.0)) {
                self.waits[thread] = None;
                self.touch(thread, page, is_write);
            }
        }
    }

    /// Carries out one of the pending actions, chosen at random.
    fn act(&mut self) {
        let index = self.below(self.todo.len());
        let pairs = |span: Span| span.pages().zip(span.frame..);
        match self.todo.swap_remove(index) {
            Action::Zero(id, span) => {
                for (page, frame) in pairs(span) {
                    (self.frames[frame as usize], self.clean[page as usize]) = (Some(0), 0);
                }
                self.on(Event::Filled(id, Ok(())));
            }
            Action::Read(id, _) if self.fails() => self.on(Event::Filled(id, Err(Failed))),
            Action::Read(id, span) => {
                for (page, frame) in pairs(span) {
                    let content = self.drive[page as usize];
                    (self.frames[frame as usize], self.clean[page as usize]) =
                        (Some(content), content);
                }
                self.on(Event::Filled(id, Ok(())));
            }
            Action::MoveIn(id, span) => {
                if !self.has_moved(id) {
                    self.move_in(span);
                }
                self.wake(span.pages());
                self.on(Event::MovedIn(id));
            }
            Action::MoveOut(id, _)
                if self.pins_one_in > 0
                    && self.random.next_u64().is_multiple_of(self.pins_one_in) =>
            {
                self.on(Event::Pinned(id));
            }
            Action::Drop(id, span) => {
                for (page, frame) in pairs(span) {
                    assert!(self.mapped[page as usize].take().is_some());
                    self.frames[frame as usize] = Some(0);
                }
                self.on(Event::MovedOut(id, DirtyPages::all(1 << span.order)));
            }
            Action::MoveOut(id, span) => self.move_out(id, span),
            Action::Write(id, span, dirty) if self.fails_to_write(span, &dirty) => {
                self.on(Event::Wrote(id, Err(Failed)));
            }
            Action::Write(id, span, dirty) => {
                let written = pairs(span).enumerate().filter(|(at, _)| dirty.contains(*at));
                for (_, (page, frame)) in written {
                    let content = self.frames[frame as usize].unwrap();
                    (self.drive[page as usize], self.clean[page as usize]) = (content, content);
                }
                self.on(Event::Wrote(id, Ok(())));
            }
            Action::Wake(page, pages) => self.wake(page..page + pages),
            Action::Erase(page, pages) => self.erase(page..page + pages),
            Action::Poison(page) => self.poison(page),
            Action::MoveMemory { .. } => unreachable!("done at once"),
        }
    }

    fn move_in(&mut self, span: Span) {
        self.moved_in += 1;
        for (page, frame) in span.pages().zip(span.frame..) {
            let content = self.frames[frame as usize].take();
            assert!(content.is_some() && self.mapped[page as usize].is_none());
            assert!(!self.poisoned[page as usize], "poisoned pages are not mapped");
            self.mapped[page as usize] = content;
        }
    }

    fn move_out(&mut self, id: ExtentId, span: Span) {
        let mut dirty = DirtyPages::EMPTY;
        for (at, (page, frame)) in span.pages().zip(span.frame..).enumerate() {
            let content = self.mapped[page as usize].take();
            assert!(content.is_some() && self.frames[frame as usize].is_none());
            if content != Some(self.clean[page as usize]) {
                dirty.insert(at);
            }
            self.frames[frame as usize] = content;
        }
        self.on(Event::MovedOut(id, dirty));
    }

    fn erase(&mut self, pages: Range<Page>) {
        let range = pages.start as usize..pages.end as usize;
        assert!(self.mapped[range.clone()].iter().all(Option::is_none));
        self.drive[range.clone()].fill(0);
        self.poisoned[range].fill(false);
        // The fault server carries out poison actions at once, so none is pending when it erases
        // pages. In this simulation one may be pending, and must be removed here.
        let is_poison = |it: &Action| matches!(it, Action::Poison(page) if pages.contains(page));
        self.todo.retain(|action| !is_poison(action));
        self.on_drive.retain(|on_drive| !pages.contains(on_drive));
        self.discarding = None;
        self.on(Event::Erased(pages.start));
    }

    fn poison(&mut self, page: Page) {
        assert!(self.mapped[page as usize].is_none());
        self.poisoned[page as usize] = true;
        for wait in &mut self.waits {
            *wait = wait.filter(|(waits_for, _)| *waits_for != page);
        }
    }

    /// Discards some pages, chosen at random. Does nothing if a thread waits for one of them.
    fn discard(&mut self) {
        let start = self.below(self.expected.len());
        let end = (start + 1 + self.below(40)).min(self.expected.len());
        let pages = start as Page..end as Page;
        let has_waiter = self.waits.iter().flatten().any(|(page, _)| pages.contains(page));
        if has_waiter || self.discarding.is_some() {
            return;
        }
        self.expected[start..end].fill(0);
        self.discarding = Some(pages.clone());
        self.on(Event::Discarded(pages));
    }

    /// Does `steps` steps. In each step, either a random thread touches the page that `next`
    /// returns, or a random pending action is carried out.
    fn run(&mut self, steps: usize, mut next: impl FnMut(&mut Self, usize) -> (Page, bool)) {
        for _ in 0..steps {
            let thread = self.below(self.waits.len());
            if self.waits[thread].is_none() && !self.random.next_u64().is_multiple_of(4) {
                let (page, is_write) = next(self, thread);
                self.touch(thread, page, is_write);
            } else if !self.todo.is_empty() {
                self.act();
            } else {
                let waits = self.waits.iter().any(Option::is_some);
                assert!(!waits || self.pins_one_in > 0, "a thread waits, and no action is pending");
            }
        }
        self.settle();
    }

    fn settle(&mut self) {
        for _ in 0..1_000_000 {
            if !self.todo.is_empty() {
                self.act();
            } else if self.pins_one_in > 0 && self.waits.iter().any(Option::is_some) {
                // Threads wait, but no action is pending: evictions have failed because of pinned
                // extents. Retry them.
                self.on(Event::RetryPinned);
            } else {
                break;
            }
        }
        assert!(self.todo.is_empty() && self.waits.iter().all(Option::is_none), "no thread waits");
    }
}

const SETTINGS: Settings =
    Settings { frames: 64, order: 2, prefetch: Limits { initial: 4, max: 16 } };

/// Returns the next page that a thread touches, and true if the thread writes to it. One page in
/// eight is random. The other pages form a stream, whose position advances by 3 pages with each
/// write.
fn mixed(simulation: &mut Simulation, thread: usize) -> (Page, bool) {
    let pages = simulation.expected.len();
    let is_write = simulation.random.next_u64().is_multiple_of(2);
    let page = match simulation.random.next_u64() % 8 {
        0 => simulation.below(pages),
        _ => (simulation.writes as usize * 3 + thread * 40) % pages,
    };
    (page as Page, is_write)
}

#[test]
fn every_page_holds_its_last_content() {
    for seed in 0..20 {
        let mut simulation = Simulation::new(SETTINGS, 300, 3, seed);
        simulation.run(30_000, mixed);
        assert!(simulation.cache.counts().read > 0 && !simulation.on_drive.is_empty());
    }
}

#[test]
fn discarded_pages_are_zeros() {
    for seed in 0..20 {
        let mut simulation = Simulation::new(SETTINGS, 300, 3, seed);
        simulation.run(30_000, |simulation, thread| {
            if simulation.random.next_u64().is_multiple_of(20) {
                simulation.discard();
            }
            mixed(simulation, thread)
        });
    }
}

#[test]
fn pinned_extents_stay_mapped_until_they_are_discarded() {
    for seed in 0..20 {
        let mut simulation = Simulation::new(SETTINGS, 300, 3, seed);
        simulation.pins_one_in = 5;
        simulation.run(30_000, |simulation, thread| {
            match simulation.random.next_u64() % 40 {
                0 => simulation.discard(),
                1 => simulation.on(Event::RetryPinned),
                _ => {}
            }
            mixed(simulation, thread)
        });
    }
}

#[test]
fn advice_changes_no_content() {
    let advice = [
        Advice::Normal,
        Advice::Random,
        Advice::Sequential,
        Advice::WillNeed,
        Advice::Cold,
        Advice::Pin,
        Advice::Unpin,
    ];
    for seed in 0..20 {
        let mut simulation = Simulation::new(SETTINGS, 300, 3, seed);
        simulation.run(30_000, |simulation, thread| {
            if simulation.random.next_u64() % 20 == 0 {
                let start = simulation.below(300);
                let end = (start + 1 + simulation.below(40)).min(300);
                let advice = advice[simulation.below(advice.len())];
                simulation.on(Event::Advised(start as Page..end as Page, advice, 0));
            }
            mixed(simulation, thread)
        });
    }
}

#[test]
fn announced_pages_are_loaded_and_cold_ones_evicted() {
    let mut simulation = Simulation::new(Settings { frames: 256, ..SETTINGS }, 1024, 1, 1);
    let mut at = 0;
    simulation.run(20_000, |_, _| {
        at += 1;
        ((at - 1) % 1024, true)
    });
    let absent =
        (0..1024).find(|page| simulation.cache.residency.find(*page).is_none()).unwrap() & !7;
    simulation.on(Event::Advised(absent..absent + 8, Advice::WillNeed, 0));
    simulation.settle();
    assert!((absent..absent + 8).all(|page| simulation.cache.residency.find(page).is_some()));
    let mapped = simulation.mapped.iter().position(Option::is_some).unwrap();
    simulation.on(Event::Advised(mapped as Page..mapped as Page + 1, Advice::Cold, 0));
    simulation.settle();
    assert!(simulation.mapped[mapped].is_none());
}

#[test]
fn pages_pinned_by_advice_stay() {
    let mut simulation = Simulation::new(SETTINGS, 300, 1, 1);
    simulation.on(Event::Advised(8..16, Advice::Pin, 0));
    (8..16).for_each(|page| simulation.run(20, |_, _| (page, true)));
    simulation.run(30_000, mixed);
    assert!(simulation.mapped[8..16].iter().all(Option::is_some));
    simulation.on(Event::Advised(8..16, Advice::Unpin, 0));
    simulation.run(30_000, |_, _| (0, false));
    simulation.run(30_000, |simulation, _| ((100 + simulation.below(200)) as Page, true));
    assert!(simulation.mapped[8..16].iter().all(Option::is_none));
}

#[test]
fn before_a_fork_all_pages_are_stored_and_unmapped() {
    for seed in 0..20 {
        let mut simulation = Simulation::new(SETTINGS, 300, 3, seed);
        for _ in 0..20 {
            for _ in 0..500 {
                let thread = simulation.below(3);
                if simulation.waits[thread].is_none() {
                    let (page, is_write) = mixed(&mut simulation, thread);
                    simulation.touch(thread, page, is_write);
                } else if !simulation.todo.is_empty() {
                    simulation.act();
                }
            }
            simulation.on(Event::Freeze);
            while !simulation.todo.is_empty() {
                simulation.act();
            }
            assert!(simulation.cache.is_quiescent());
            assert!(simulation.mapped.iter().all(Option::is_none));
            assert_eq!(simulation.drive, simulation.expected);
            let mut child =
                Simulation { cache: simulation.cache.for_child().unwrap(), ..simulation };
            let parent = Simulation {
                cache: child.cache.clone(),
                ..Simulation::new(SETTINGS, 300, 3, seed)
            };
            (child.frames, child.waits) = (parent.frames, parent.waits);
            child.run(3_000, mixed);
            // In the next round, the child forks.
            simulation = child;
        }
    }
}

#[test]
fn threads_that_wait_during_a_fork_resume_after_it() {
    for seed in 0..20 {
        let mut simulation = Simulation::new(SETTINGS, 300, 3, seed);
        for _ in 0..20 {
            simulation.run(1000, mixed);
            (0..3).for_each(|thread| {
                if simulation.waits[thread].is_none() {
                    let (page, is_write) = mixed(&mut simulation, thread);
                    simulation.touch(thread, page, is_write);
                }
            });
            simulation.on(Event::Freeze);
            while !simulation.todo.is_empty() {
                simulation.act();
            }
            assert!(
                simulation.cache.is_quiescent() && simulation.mapped.iter().all(Option::is_none)
            );
            simulation.on(Event::Thaw);
            simulation.settle();
        }
    }
}

#[test]
fn every_page_holds_its_last_content_if_the_drive_fails() {
    for seed in 0..20 {
        let mut simulation = Simulation::new(SETTINGS, 300, 3, seed);
        simulation.fails_one_in = 10;
        simulation.run(30_000, mixed);
        assert!(simulation.poisoned.iter().any(|is| *is));
    }
}

/// Runs simulations with random settings for 10^6 steps in total, or for as many steps as the
/// variable `INTERLEAF_STEPS` says. Each touched page must have the content that was written last.
/// At the end of each simulation, the counter of pages with content must be right.
#[test]
fn no_step_of_a_million_is_wrong() {
    let steps = std::env::var("INTERLEAF_STEPS").ok().and_then(|steps| steps.parse().ok());
    let mut left: usize = steps.unwrap_or(1_000_000);
    let mut random = Pcg64Mcg::seed_from_u64(left as u64);
    let mut of = |all: &[usize]| all[(random.next_u64() % all.len() as u64) as usize];
    let (mut full, mut poisoned, mut seed) = (0, 0, 0);
    while left > 0 {
        seed += 1;
        let settings = Settings {
            frames: of(&[64, 100, 300, 1200]) as u32,
            order: of(&[0, 2, 4]) as u8,
            prefetch: Limits { initial: 4, max: of(&[16, 64]) as u64 },
        };
        let pages = of(&[200, 300, 1000, 3000]);
        let mut simulation = Simulation::new(settings, pages, of(&[1, 2, 3, 5]), seed);
        simulation.fails_one_in = of(&[0, 4, 50]) as u64;
        simulation.reverts = true;
        simulation.pins_one_in = of(&[0, 0, 20]) as u64;
        simulation.drive_pages = of(&[usize::MAX, usize::MAX, pages / 4, 0]);
        let discards = of(&[0, 20, 200]);
        let steps = left.min(of(&[1000, 10_000, 50_000]));
        simulation.run(steps, |simulation, thread| {
            if discards > 0 && simulation.below(discards) == 0 {
                simulation.discard();
            }
            mixed(simulation, thread)
        });
        let Cache { residency, durability, pages_with_content, .. } = &simulation.cache;
        let has_content = |page: &Page| {
            residency.find(*page).is_some() || durability.stored_in(*page..*page + 1) == 1
        };
        assert_eq!((0..pages as Page).filter(has_content).count() as u64, *pages_with_content);
        let has_poisoned = simulation.poisoned.contains(&true);
        full += usize::from(has_poisoned && simulation.drive_pages < pages);
        poisoned += usize::from(has_poisoned && simulation.drive_pages > pages);
        left -= steps;
    }
    assert!(full > 0 && poisoned > 0, "{full} of {seed} were full, {poisoned} had poisoned pages");
}

#[test]
fn a_working_set_that_fits_is_never_read() {
    let mut simulation = Simulation::new(Settings { frames: 512, ..SETTINGS }, 300, 2, 1);
    simulation.run(30_000, mixed);
    assert_eq!((simulation.cache.counts().read, simulation.on_drive.len()), (0, 0));
}

/// A loop over twice the budget must keep about half of its pages resident, which is optimal
/// (Belady). After the loop, these pages must not slow down the next phase.
#[test]
fn a_loop_keeps_a_share_resident_until_it_ends() {
    let settings = Settings { frames: 2048, ..SETTINGS };
    let mut simulation = Simulation::new(settings, 8192, 1, 1);
    let rounds = |simulation: &mut Simulation, first: Page, pages: Page, steps: usize| {
        let mut at = 0;
        let before = simulation.cache.counts().read;
        let mut touched = 0;
        simulation.run(steps, |_, _| {
            (at, touched) = (at + 1, touched + 1);
            (first + (at - 1) % pages, true)
        });
        (simulation.cache.counts().read - before) as f64 / touched as f64
    };
    rounds(&mut simulation, 0, 4096, 40_000);
    let read = rounds(&mut simulation, 0, 4096, 80_000);
    assert!(read < 0.68, "{read} of all touches are reads");
    rounds(&mut simulation, 4096, 1024, 200_000);
    let read = rounds(&mut simulation, 4096, 1024, 40_000);
    assert!(read < 0.01, "{read} of all touches are reads");
}

/// A loop walks through three arrays at the same time, which together have twice as many pages as
/// the budget. Less than three quarters of all touched pages may be read from the drive.
#[test]
fn a_loop_over_several_arrays_keeps_a_share_resident() {
    let settings =
        Settings { frames: 32768, order: 2, prefetch: Limits { initial: 16, max: 2048 } };
    let array = 2 * Page::from(settings.frames) / 3;
    let mut simulation = Simulation::new(settings, 3 * array as usize, 1, 1);
    simulation.cache = Cache::new(settings);
    (0..3).for_each(|at| simulation.cache.add_region(at * array..(at + 1) * array));
    let mut read = 0;
    for page in 0..3 * array {
        simulation.touch(0, page, true);
        simulation.settle();
    }
    for _ in 0..3 {
        let before = simulation.cache.counts().read;
        for page in 0..array {
            for at in 0..3 {
                simulation.touch(0, at * array + page, at == 0);
                simulation.settle();
            }
        }
        read = simulation.cache.counts().read - before;
    }
    let part = read as f64 / (3 * array) as f64;
    assert!(part < 0.75, "{part} of all touches are reads");
}

/// Makes three passes over twice the budget, and then 30 passes over `count` pages that are
/// `stride` pages apart. Returns the number of minor faults and the number of read pages in the
/// last 10 passes.
fn rounds(frames: u32, count: Page, stride: Page) -> (u64, u64) {
    let sweep = 2 * Page::from(frames);
    let settings = Settings { frames, order: 2, prefetch: Limits { initial: 16, max: 256 } };
    let mut simulation = Simulation::new(settings, sweep as usize, 1, 1);
    let touch = |simulation: &mut Simulation, page: Page, is_write: bool| {
        simulation.touch(0, page, is_write);
        simulation.settle();
    };
    for _ in 0..3 {
        (0..sweep).for_each(|page| touch(&mut simulation, page, true));
    }
    for _ in 0..20 {
        (0..count).for_each(|at| touch(&mut simulation, at * stride, false));
    }
    let before = *simulation.cache.counts();
    for _ in 0..10 {
        (0..count).for_each(|at| touch(&mut simulation, at * stride, false));
    }
    let after = *simulation.cache.counts();
    (after.minor_faults - before.minor_faults, after.read - before.read)
}

#[test]
fn a_loop_that_fits_ends_up_mapped_after_any_other_phase() {
    for (frames, count, stride) in [(1024, 250, 8), (1024, 40, 50), (8192, 2000, 8)] {
        let (minor_faults, read) = rounds(frames, count, stride);
        let all = count * 10;
        assert!(minor_faults < all / 50, "{minor_faults} of {all} touches, every {stride}th page");
        assert!(read < all / 50, "{read} for {all} touches, every {stride}th page");
    }
}
