//! The state machine of the pager on the faults of whole patterns, without memory and without a
//! drive, compared with the optimum: pages that are read and written a round, and how often a
//! thread waits.
//!
//! ```console
//! $ cargo bench -p interleaf-benches --bench replay [-- PATTERN ... PERCENT]
//! ```
//! PERCENT is the footprint, of the budget; 200 if it is not said.
//!
//! Whatever is asked of the drive is done at once: what is foreseen is never late, and what is left
//! is what the policies do. A wait is a touch of a page that had to be read; a page that was there
//! and not mapped costs a hundredth of that (`faults`).

use interleaf_pager::{
    cache::{Action, Cache, Counts, DirtyPages, Event, PageFault, Settings, Span},
    page::Page,
};
use interleaf_workload::{
    belady::{Touch, carried},
    kind::{Kind, Setting},
    memory::Memory,
    trace::trace,
};
use std::{
    collections::VecDeque,
    io::{self, Write},
};

const PAGE: usize = 4096;

/// 128 MiB.
const FRAMES: usize = 32768;

/// Rounds that are gone through before one is counted.
const ROUNDS: usize = 2;

/// Rounds that are counted, of which the mean is told.
const COUNTED: usize = 4;

const PATTERNS: [Kind; 7] =
    [Kind::Stream, Kind::Seq, Kind::Stride, Kind::Random, Kind::Fft3d, Kind::Gemm, Kind::GemmTiled];

/// A machine on which all is done at once.
struct World {
    cache: Cache,
    is_mapped: Vec<bool>,
    is_dirty: Vec<bool>,
    /// Whether the page was touched since it was read, and the number of pages that were not until
    /// they were read again.
    is_used: Vec<bool>,
    in_vain: u64,
    todo: VecDeque<Action>,
}

impl World {
    fn new(pages: usize, arrays: usize) -> Self {
        let mut cache = Cache::new(Settings::for_budget(FRAMES as u32));
        let array = pages.div_ceil(arrays) as Page;
        (0..arrays as Page).for_each(|at| cache.add_region(at * array..(at + 1) * array));
        let pages = (array as usize) * arrays;
        let (is_mapped, is_dirty) = (vec![false; pages], vec![false; pages]);
        let (is_used, todo) = (vec![true; pages], VecDeque::new());
        Self { cache, is_mapped, is_dirty, is_used, in_vain: 0, todo }
    }

    fn on(&mut self, event: Event) {
        let mut actions = vec![];
        self.cache.on(event, &mut actions);
        self.todo.extend(actions);
    }

    fn touch(&mut self, page: usize, offset: u16, is_write: bool) {
        if !self.is_mapped[page] {
            self.on(Event::Fault(PageFault { thread: 1, page: page as Page, offset, is_write }));
            let mut was_mapped = false;
            while let Some(action) = self.todo.pop_front() {
                self.act(action);
                // The thread goes on at once, whatever becomes of the page then.
                was_mapped |= self.is_mapped[page];
            }
            assert!(was_mapped, "page {page} was touched and is not there");
        }
        self.is_dirty[page] |= is_write;
        self.is_used[page] = true;
    }

    fn act(&mut self, action: Action) {
        let pages = |span: Span| span.page as usize..span.pages().end as usize;
        match action {
            Action::Read(id, span) => {
                for page in pages(span) {
                    self.in_vain += u64::from(!self.is_used[page]);
                    self.is_used[page] = false;
                }
                self.on(Event::Filled(id, Ok(())));
            }
            Action::Zero(id, _) => self.on(Event::Filled(id, Ok(()))),
            Action::MoveIn(id, span) => {
                self.is_mapped[pages(span)].fill(true);
                self.on(Event::MovedIn(id));
            }
            Action::MoveOut { id, span, .. } => {
                let mut changed = DirtyPages::EMPTY;
                for (at, page) in pages(span).enumerate() {
                    self.is_mapped[page] = false;
                    if self.is_dirty[page] {
                        changed.insert(at);
                    }
                }
                self.on(Event::MovedOut(id, changed));
            }
            Action::Write(id, span, _) => {
                self.is_dirty[pages(span)].fill(false);
                self.on(Event::Wrote(id, Ok(())));
            }
            Action::Wake(..) => {}
            Action::Drop(..) | Action::Poison(_) | Action::Erase(..) => {
                unreachable!("nothing is held, lost or discarded")
            }
        }
    }
}

fn replay(kind: Kind, percent: usize) -> io::Result<()> {
    let footprint = (FRAMES / 100 * percent * PAGE) as u64;
    let setting = Setting {
        footprint,
        threads: 1,
        memory: Memory::Heap,
        only: None,
        stride: 65536,
        is_writing: false,
        tile: 1024,
        degree: 16,
        seed: 1,
    };
    let Some(touches) = trace(kind, &setting, footprint, PAGE) else { return Ok(()) };
    let arrays = if matches!(kind, Kind::Stream | Kind::Gemm) { 3 } else { 1 };
    let pages = touches.iter().map(|touch| touch.block as usize + 1).max().unwrap_or(0);
    let mut world = World::new(pages, arrays);
    (0..pages).for_each(|page| world.touch(page, 0, true));
    let mut before = *world.cache.counts();
    for round in 0..ROUNDS + COUNTED {
        if round == ROUNDS {
            before = *world.cache.counts();
            world.in_vain = 0;
        }
        for Touch { block, offset, is_write } in &touches {
            world.touch(*block as usize, *offset as u16, *is_write);
        }
    }
    let after = *world.cache.counts();
    let least = carried(&touches, FRAMES);
    let mean = |of: fn(&Counts) -> u64| (of(&after) - of(&before)) / COUNTED as u64;
    writeln!(
        io::stdout(),
        "{:8} {:9} {:9} {:9} {:9} {:9} {:9} {:9}",
        kind.name(),
        mean(|counts| counts.faults - counts.minor_faults),
        mean(|counts| counts.minor_faults),
        mean(|counts| counts.read),
        least.read,
        mean(|counts| counts.written),
        least.written,
        world.in_vain / COUNTED as u64,
    )
}

fn main() -> io::Result<()> {
    let asked: Vec<Kind> = std::env::args().filter_map(|name| Kind::of(&name)).collect();
    writeln!(
        io::stdout(),
        "{:8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "",
        "waits",
        "unmapped",
        "read",
        "least",
        "written",
        "least",
        "in vain"
    )?;
    let all = if asked.is_empty() { &PATTERNS[..] } else { &asked };
    let percent = std::env::args().find_map(|percent| percent.parse().ok());
    all.iter().try_for_each(|kind| replay(*kind, percent.unwrap_or(200)))
}
