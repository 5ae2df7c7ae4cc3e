#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod budget;

mod fast_path;

use super::*;
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};

/// A program, a kernel and a drive: what each page should hold, and what it holds.
struct World {
    cache: Cache,
    random: Pcg64Mcg,
    /// What the program has written last, by page.
    expected: Vec<u32>,
    /// What is mapped, by page.
    mapped: Vec<Option<u32>>,
    /// What is in frames.
    frames: Vec<Option<u32>>,
    drive: Vec<u32>,
    /// What a page had when it was stored or read: for whether it has changed.
    known: Vec<u32>,
    /// What is to be done, in any order.
    todo: Vec<Action>,
    /// Threads: the page that each waits for, and whether to write.
    waits: Vec<Option<(Page, bool)>>,
    poisoned: Vec<bool>,
    /// Pages that are being discarded, which nobody touches meanwhile.
    discarding: Option<Range<Page>>,
    writes: u32,
    /// One in so many transfers fails; 0 for none.
    fails_one_in: u64,
    /// The drive takes so many pages.
    room: usize,
    /// Whether threads also write what was there before.
    reverts: bool,
    /// Which pages the drive has taken.
    taken: BTreeSet<Page>,
    /// One in so many extents is held when it should be moved out; 0 for none.
    holds_one_in: u64,
    /// What threads have mapped by themselves, if they do.
    alone: Option<fast_path::Alone>,
}

/// Nobody knows what the drive has.
const UNKNOWN: u32 = u32::MAX;

/// A part of one content, and a part of another.
const TORN: u32 = u32::MAX - 1;

impl World {
    fn new(settings: Settings, pages: usize, threads: usize, seed: u64) -> Self {
        let mut cache = Cache::new(settings);
        cache.add_region(0..pages as Page);
        Self {
            cache,
            random: Pcg64Mcg::seed_from_u64(seed),
            expected: vec![0; pages],
            mapped: vec![None; pages],
            frames: vec![Some(0); settings.frames as usize],
            drive: vec![0; pages],
            known: vec![0; pages],
            todo: vec![],
            waits: vec![None; threads],
            poisoned: vec![false; pages],
            discarding: None,
            writes: 0,
            fails_one_in: 0,
            room: usize::MAX,
            reverts: false,
            taken: BTreeSet::new(),
            holds_one_in: 0,
            alone: None,
        }
    }

    fn below(&mut self, end: usize) -> usize {
        (self.random.next_u64() % end as u64) as usize
    }

    fn fails(&mut self) -> bool {
        self.fails_one_in > 0 && self.random.next_u64().is_multiple_of(self.fails_one_in)
    }

    /// Whether a write of pages fails, and what it leaves behind.
    fn refuses(&mut self, span: Span, changed: &DirtyPages) -> bool {
        let pages: Vec<_> =
            span.pages().enumerate().filter(|(at, _)| changed.contains(*at)).collect();
        let more = pages.iter().filter(|(_, page)| !self.taken.contains(page)).count();
        if !self.fails() && self.taken.len() + more <= self.room {
            self.taken.extend(pages.into_iter().map(|(_, page)| page));
            return false;
        }
        // Who has the digests forgets them.
        span.pages().for_each(|page| self.known[page as usize] = UNKNOWN);
        for (at, page) in pages {
            self.drive[page as usize] = match self.below(3) {
                0 => self.drive[page as usize],
                1 => TORN,
                _ => self.frames[span.frame as usize + at].unwrap(),
            };
        }
        true
    }

    /// What a thread writes: something new, or what was there before.
    fn content(&mut self, page: Page) -> u32 {
        let before = self.known[page as usize];
        if self.reverts && before < TORN && self.below(4) == 0 {
            return before;
        }
        self.writes += 1;
        self.writes
    }

    fn on(&mut self, event: Event) {
        self.note();
        let mut actions = vec![];
        self.cache.on(event, &mut actions);
        self.todo.extend(actions);
    }

    /// A thread touches a page, and waits where it is not mapped.
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
            None if self.take(thread, page, is_write) => self.touch(thread, page, is_write),
            None => {
                self.waits[thread] = Some((page, is_write));
                self.on(Event::Fault(PageFault {
                    thread: thread as u32,
                    page,
                    offset: 0,
                    is_write,
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

    /// Does one of the things that are to be done.
    fn act(&mut self) {
        let index = self.below(self.todo.len());
        let pairs = |span: Span| span.pages().zip(span.frame..);
        match self.todo.swap_remove(index) {
            Action::Zero(id, span) => {
                for (page, frame) in pairs(span) {
                    (self.frames[frame as usize], self.known[page as usize]) = (Some(0), 0);
                }
                self.on(Event::Filled(id, Ok(())));
            }
            Action::Read(id, _) if self.fails() => self.on(Event::Filled(id, Err(Failed))),
            Action::Read(id, span) => {
                for (page, frame) in pairs(span) {
                    let content = self.drive[page as usize];
                    (self.frames[frame as usize], self.known[page as usize]) =
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
            Action::MoveOut { id, .. }
                if self.holds_one_in > 0
                    && self.random.next_u64().is_multiple_of(self.holds_one_in) =>
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
            Action::MoveOut { id, span, .. } => self.move_out(id, span),
            Action::Write(id, span, changed) if self.refuses(span, &changed) => {
                self.on(Event::Wrote(id, Err(Failed)));
            }
            Action::Write(id, span, changed) => {
                let written = pairs(span).enumerate().filter(|(at, _)| changed.contains(*at));
                for (_, (page, frame)) in written {
                    let content = self.frames[frame as usize].unwrap();
                    (self.drive[page as usize], self.known[page as usize]) = (content, content);
                }
                self.on(Event::Wrote(id, Ok(())));
            }
            Action::Wake(page, pages) => self.wake(page..page + pages),
            Action::Erase(page, pages) => self.erase(page..page + pages),
            Action::Poison(page) => self.poison(page),
        }
    }

    fn move_in(&mut self, span: Span) {
        for (page, frame) in span.pages().zip(span.frame..) {
            let content = self.frames[frame as usize].take();
            assert!(content.is_some() && self.mapped[page as usize].is_none());
            assert!(!self.poisoned[page as usize], "pages do not move to where a mark is");
            self.mapped[page as usize] = content;
        }
    }

    fn move_out(&mut self, id: ExtentId, span: Span) {
        let mut changed = DirtyPages::EMPTY;
        for (at, (page, frame)) in span.pages().zip(span.frame..).enumerate() {
            let content = self.mapped[page as usize].take();
            assert!(content.is_some() && self.frames[frame as usize].is_none());
            if content != Some(self.known[page as usize]) {
                changed.insert(at);
            }
            self.frames[frame as usize] = content;
        }
        self.on(Event::MovedOut(id, changed));
    }

    fn erase(&mut self, pages: Range<Page>) {
        let range = pages.start as usize..pages.end as usize;
        assert!(self.mapped[range.clone()].iter().all(Option::is_none));
        self.drive[range.clone()].fill(0);
        self.poisoned[range].fill(false);
        // What was said before is done before: only the drive takes its time.
        let is_poison = |it: &Action| matches!(it, Action::Poison(page) if pages.contains(page));
        self.todo.retain(|action| !is_poison(action));
        self.taken.retain(|taken| !pages.contains(taken));
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

    /// Discards some pages that nobody waits for.
    fn discard(&mut self) {
        let start = self.below(self.expected.len());
        let end = (start + 1 + self.below(40)).min(self.expected.len());
        let pages = start as Page..end as Page;
        let is_waited_for = self.waits.iter().flatten().any(|(page, _)| pages.contains(page));
        if is_waited_for || self.discarding.is_some() {
            return;
        }
        self.expected[start..end].fill(0);
        self.discarding = Some(pages.clone());
        self.on(Event::Discarded(pages));
    }

    /// Lets threads touch pages that `next` names, in any order of what comes of it.
    fn run(&mut self, steps: usize, mut next: impl FnMut(&mut Self, usize) -> (Page, bool)) {
        for _ in 0..steps {
            let thread = self.below(self.waits.len());
            if self.waits[thread].is_none() && !self.random.next_u64().is_multiple_of(4) {
                let (page, is_write) = next(self, thread);
                self.touch(thread, page, is_write);
            } else if !self.todo.is_empty() {
                self.act();
            }
        }
        self.settle();
    }

    fn settle(&mut self) {
        for _ in 0..1_000_000 {
            if !self.todo.is_empty() {
                self.act();
            } else if self.holds_one_in > 0 && self.waits.iter().any(Option::is_some) {
                // Whoever held something lets go.
                self.on(Event::RetryPinned);
            } else {
                break;
            }
        }
        assert!(self.todo.is_empty() && self.waits.iter().all(Option::is_none), "nobody waits");
    }
}

const SETTINGS: Settings =
    Settings { frames: 64, order: 2, prefetch: Limits { initial: 4, max: 16 } };

/// Random touches with sweeps among them.
fn mixed(world: &mut World, thread: usize) -> (Page, bool) {
    let pages = world.expected.len();
    let is_write = world.random.next_u64().is_multiple_of(2);
    let page = match world.random.next_u64() % 8 {
        0 => world.below(pages),
        _ => (world.writes as usize * 3 + thread * 40) % pages,
    };
    (page as Page, is_write)
}

#[test]
fn no_page_ever_holds_what_it_should_not() {
    for seed in 0..20 {
        let mut world = World::new(SETTINGS, 300, 3, seed);
        world.run(30_000, mixed);
        assert!(world.cache.counts().read > 0 && world.cache.counts().written > 0);
    }
}

#[test]
fn what_is_discarded_is_zero() {
    for seed in 0..20 {
        let mut world = World::new(SETTINGS, 300, 3, seed);
        world.run(30_000, |world, thread| {
            if world.random.next_u64().is_multiple_of(20) {
                world.discard();
            }
            mixed(world, thread)
        });
    }
}

#[test]
fn what_is_held_is_there_until_it_is_discarded() {
    for seed in 0..20 {
        let mut world = World::new(SETTINGS, 300, 3, seed);
        world.holds_one_in = 5;
        world.run(30_000, |world, thread| {
            match world.random.next_u64() % 40 {
                0 => world.discard(),
                1 => world.on(Event::RetryPinned),
                _ => {}
            }
            mixed(world, thread)
        });
    }
}

#[test]
fn what_a_program_says_changes_no_content() {
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
        let mut world = World::new(SETTINGS, 300, 3, seed);
        world.run(30_000, |world, thread| {
            if world.random.next_u64() % 20 == 0 {
                let start = world.below(300);
                let end = (start + 1 + world.below(40)).min(300);
                let advice = advice[world.below(advice.len())];
                world.on(Event::Advised(start as Page..end as Page, advice));
            }
            mixed(world, thread)
        });
    }
}

#[test]
fn what_will_be_needed_is_there_and_what_is_cold_goes() {
    let mut world = World::new(Settings { frames: 256, ..SETTINGS }, 1024, 1, 1);
    let mut at = 0;
    world.run(20_000, |_, _| {
        at += 1;
        ((at - 1) % 1024, true)
    });
    let gone = (0..1024).find(|page| world.cache.index.get(*page).is_none()).unwrap() & !7;
    world.on(Event::Advised(gone..gone + 8, Advice::WillNeed));
    world.settle();
    assert!((gone..gone + 8).all(|page| world.cache.index.get(page).is_some()));
    let mapped = world.mapped.iter().position(Option::is_some).unwrap();
    world.on(Event::Advised(mapped as Page..mapped as Page + 1, Advice::Cold));
    world.settle();
    assert!(world.mapped[mapped].is_none());
}

#[test]
fn what_is_pinned_stays() {
    let mut world = World::new(SETTINGS, 300, 1, 1);
    world.on(Event::Advised(8..16, Advice::Pin));
    (8..16).for_each(|page| world.run(20, |_, _| (page, true)));
    world.run(30_000, mixed);
    assert!(world.mapped[8..16].iter().all(Option::is_some));
    world.on(Event::Advised(8..16, Advice::Unpin));
    world.run(30_000, |_, _| (0, false));
    world.run(30_000, |world, _| ((100 + world.below(200)) as Page, true));
    assert!(world.mapped[8..16].iter().all(Option::is_none));
}

#[test]
fn before_a_fork_all_is_stored_and_nothing_mapped() {
    for seed in 0..20 {
        let mut world = World::new(SETTINGS, 300, 3, seed);
        for _ in 0..20 {
            for _ in 0..500 {
                let thread = world.below(3);
                if world.waits[thread].is_none() {
                    let (page, is_write) = mixed(&mut world, thread);
                    world.touch(thread, page, is_write);
                } else if !world.todo.is_empty() {
                    world.act();
                }
            }
            world.on(Event::Freeze);
            while !world.todo.is_empty() {
                world.act();
            }
            assert!(world.cache.is_quiescent());
            assert!(world.mapped.iter().all(Option::is_none));
            assert_eq!(world.drive, world.expected);
            let mut child = World { cache: world.cache.for_child().unwrap(), ..world };
            let parent = World { cache: child.cache.clone(), ..World::new(SETTINGS, 300, 3, seed) };
            (child.frames, child.waits) = (parent.frames, parent.waits);
            child.run(3_000, mixed);
            // What the child does is no concern of its parent's, but for this: it sees the same.
            world = child;
        }
    }
}

#[test]
fn after_a_fork_that_waits_goes_on() {
    for seed in 0..20 {
        let mut world = World::new(SETTINGS, 300, 3, seed);
        for _ in 0..20 {
            world.run(1000, mixed);
            (0..3).for_each(|thread| {
                if world.waits[thread].is_none() {
                    let (page, is_write) = mixed(&mut world, thread);
                    world.touch(thread, page, is_write);
                }
            });
            world.on(Event::Freeze);
            while !world.todo.is_empty() {
                world.act();
            }
            assert!(world.cache.is_quiescent() && world.mapped.iter().all(Option::is_none));
            world.on(Event::Thaw);
            world.settle();
        }
    }
}

#[test]
fn regions_grow_and_get_holes() {
    let mut cache = Cache::new(SETTINGS);
    [0..10, 20..30, 10..20, 40..50].into_iter().for_each(|pages| cache.add_region(pages));
    assert_eq!((cache.region(15), cache.region(45)), (0..30, 40..50));
    cache.remove_region(&(5..45));
    assert_eq!((cache.region(4), cache.region(47)), (0..5, 45..50));
    assert_eq!(cache.region(20), 20..21, "of none");
}

#[test]
fn nor_with_a_drive_that_fails() {
    for seed in 0..20 {
        let mut world = World::new(SETTINGS, 300, 3, seed);
        world.fails_one_in = 10;
        world.run(30_000, mixed);
        assert!(world.poisoned.iter().any(|is| *is));
    }
}

/// 10^6 steps, or as many as are asked for.
#[test]
fn no_step_of_a_million_is_wrong() {
    let steps = std::env::var("INTERLEAF_STEPS").ok().and_then(|steps| steps.parse().ok());
    let mut left: usize = steps.unwrap_or(1_000_000);
    let mut random = Pcg64Mcg::seed_from_u64(left as u64);
    let mut of = |all: &[usize]| all[(random.next_u64() % all.len() as u64) as usize];
    let (mut full, mut lost, mut seed) = (0, 0, 0);
    while left > 0 {
        seed += 1;
        let settings = Settings {
            frames: of(&[64, 100, 300, 1200]) as u32,
            order: of(&[0, 2, 4]) as u8,
            prefetch: Limits { initial: 4, max: of(&[16, 64]) as u64 },
        };
        let pages = of(&[200, 300, 1000, 3000]);
        let mut world = World::new(settings, pages, of(&[1, 2, 3, 5]), seed);
        world.fails_one_in = of(&[0, 4, 50]) as u64;
        world.reverts = true;
        world.holds_one_in = of(&[0, 0, 20]) as u64;
        world.room = of(&[usize::MAX, usize::MAX, pages / 4, 0]);
        let discards = of(&[0, 20, 200]);
        let steps = left.min(of(&[1000, 10_000, 50_000]));
        world.run(steps, |world, thread| {
            if discards > 0 && world.below(discards) == 0 {
                world.discard();
            }
            mixed(world, thread)
        });
        let has_lost = world.poisoned.contains(&true);
        full += usize::from(has_lost && world.room < pages);
        lost += usize::from(has_lost && world.room > pages);
        left -= steps;
    }
    assert!(full > 0 && lost > 0, "{full} of {seed} were full, {lost} lost something");
}

#[test]
fn what_fits_is_read_never() {
    let mut world = World::new(Settings { frames: 512, ..SETTINGS }, 300, 2, 1);
    world.run(30_000, mixed);
    assert_eq!((world.cache.counts().read, world.cache.counts().written), (0, 0));
}

#[test]
fn a_sweep_is_there_before_it_is_touched() {
    let mut world = World::new(Settings { frames: 256, ..SETTINGS }, 1024, 1, 1);
    let mut at = 0;
    world.run(60_000, |_, _| {
        at += 1;
        ((at - 1) % 1024, true)
    });
    let Counts { read, prefetched: foreseen, prefetch_wasted: wasted, .. } = *world.cache.counts();
    assert!(foreseen * 5 > read * 4, "{foreseen} of {read}");
    assert!(wasted * 20 < foreseen, "{wasted} of {foreseen}");
}

/// Of a loop over twice the budget, about half is kept, which is the most that can be (Belady), and
/// another phase is not held up by what was kept.
#[test]
fn a_loop_keeps_what_it_can_and_is_forgotten() {
    let settings = Settings { frames: 2048, ..SETTINGS };
    let mut world = World::new(settings, 8192, 1, 1);
    let rounds = |world: &mut World, first: Page, pages: Page, steps: usize| {
        let mut at = 0;
        let before = world.cache.counts().read;
        let mut touched = 0;
        world.run(steps, |_, _| {
            (at, touched) = (at + 1, touched + 1);
            (first + (at - 1) % pages, true)
        });
        (world.cache.counts().read - before) as f64 / touched as f64
    };
    rounds(&mut world, 0, 4096, 40_000);
    let read = rounds(&mut world, 0, 4096, 80_000);
    assert!(read < 0.68, "{read} of what is touched is read");
    rounds(&mut world, 4096, 1024, 200_000);
    let read = rounds(&mut world, 4096, 1024, 40_000);
    assert!(read < 0.01, "{read} of what fits is read");
}

/// Of arrays that are walked together each is in a huge page of its own, which must not be given up
/// for those of the others.
#[test]
fn a_loop_over_several_arrays_keeps_what_it_can() {
    let settings =
        Settings { frames: 32768, order: 2, prefetch: Limits { initial: 16, max: 2048 } };
    let array = 2 * Page::from(settings.frames) / 3;
    let mut world = World::new(settings, 3 * array as usize, 1, 1);
    world.cache = Cache::new(settings);
    (0..3).for_each(|at| world.cache.add_region(at * array..(at + 1) * array));
    let mut read = 0;
    for page in 0..3 * array {
        world.touch(0, page, true);
        world.settle();
    }
    for _ in 0..3 {
        let before = world.cache.counts().read;
        for page in 0..array {
            for at in 0..3 {
                world.touch(0, at * array + page, at == 0);
                world.settle();
            }
        }
        read = world.cache.counts().read - before;
    }
    let part = read as f64 / (3 * array) as f64;
    assert!(part < 0.75, "{part} of what is touched is read");
}

/// What a stream asked for that went elsewhere then is given up before what was touched.
#[test]
fn what_is_long_forgotten_makes_room() {
    let settings = Settings { frames: 2048, order: 2, prefetch: Limits { initial: 16, max: 256 } };
    let mut world = World::new(settings, 1 << 16, 1, 1);
    let frames = Page::from(settings.frames);
    let mut touch = |page: Page| {
        world.touch(0, page, true);
        world.settle();
        world.cache.foreseen_frames
    };
    (0..2 * frames).for_each(|page| _ = touch(page));
    let swept: Vec<u32> = (0..frames).map(&mut touch).collect();
    assert!(swept.last().is_some_and(|foreseen| *foreseen > 0), "it was followed");
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut left = u32::MAX;
    for _ in 0..frames {
        left = touch(4 * frames + u64::from(random.next_u32()) % (1 << 15));
    }
    assert_eq!(left, 0, "it is forgotten");
}

/// A program goes round through a part of what fits, after it has filled much more: how often pages
/// that are there were touched, and how many were read, once it has done so for a while.
fn rounds(frames: u32, count: Page, stride: Page) -> (u64, u64) {
    let sweep = 2 * Page::from(frames);
    let settings = Settings { frames, order: 2, prefetch: Limits { initial: 16, max: 256 } };
    let mut world = World::new(settings, sweep as usize, 1, 1);
    let touch = |world: &mut World, page: Page, is_write: bool| {
        world.touch(0, page, is_write);
        world.settle();
    };
    for _ in 0..3 {
        (0..sweep).for_each(|page| touch(&mut world, page, true));
    }
    for _ in 0..20 {
        (0..count).for_each(|at| touch(&mut world, at * stride, false));
    }
    let before = *world.cache.counts();
    for _ in 0..10 {
        (0..count).for_each(|at| touch(&mut world, at * stride, false));
    }
    let after = *world.cache.counts();
    (after.minor_faults - before.minor_faults, after.read - before.read)
}

#[test]
fn a_loop_over_what_fits_comes_to_rest_whatever_was_there_before() {
    for (frames, count, stride) in [(1024, 250, 8), (1024, 40, 50), (8192, 2000, 8)] {
        let (ready, read) = rounds(frames, count, stride);
        let all = count * 10;
        assert!(ready < all / 50, "{ready} of {all} touches, every {stride}th page");
        assert!(read < all / 50, "{read} for {all} touches, every {stride}th page");
    }
}
