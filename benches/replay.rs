//! Replays the page accesses of whole patterns through the page cache, without memory and without a
//! drive: pages read and written per round compared with optimal replacement, and major faults.
//!
//! ```console
//! $ cargo bench -p interleaf-benches --bench replay [-- PATTERN ... PERCENT]
//! ```
//!
//! PERCENT is the footprint, as a percentage of the budget; 200 by default.
//!
//! Each transfer completes at once, so that no prefetch is late: the result depends on the policies
//! alone. In the output a wait is a major fault; a minor fault, on a page that is resident but not
//! mapped, costs a hundredth of a major fault (bench `faults`).

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

/// Rounds before the measurement.
const ROUNDS: usize = 2;

/// Measured rounds; the output is their mean.
const COUNTED: usize = 4;

const PATTERNS: [Kind; 7] =
    [Kind::Stream, Kind::Seq, Kind::Stride, Kind::Random, Kind::Fft3d, Kind::Gemm, Kind::GemmTiled];

/// A machine that executes each action at once.
struct ReplayMachine {
    cache: Cache,
    is_mapped: Vec<bool>,
    is_dirty: Vec<bool>,
    /// Pages touched since they were read.
    is_used: Vec<bool>,
    /// Reads of pages that were not touched since their last read.
    wasted_reads: u64,
    todo: VecDeque<Action>,
}

impl ReplayMachine {
    fn new(pages: usize, arrays: usize) -> Self {
        let mut cache = Cache::new(Settings::for_budget(FRAMES as u32));
        let array = pages.div_ceil(arrays) as Page;
        (0..arrays as Page).for_each(|at| cache.add_region(at * array..(at + 1) * array));
        let pages = (array as usize) * arrays;
        let (is_mapped, is_dirty) = (vec![false; pages], vec![false; pages]);
        let (is_used, todo) = (vec![true; pages], VecDeque::new());
        Self { cache, is_mapped, is_dirty, is_used, wasted_reads: 0, todo }
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
                // The thread resumes as soon as the page is mapped.
                was_mapped |= self.is_mapped[page];
            }
            assert!(was_mapped, "page {page} was touched and is not mapped");
        }
        self.is_dirty[page] |= is_write;
        self.is_used[page] = true;
    }

    fn act(&mut self, action: Action) {
        let pages = |span: Span| span.page as usize..span.pages().end as usize;
        match action {
            Action::Read(id, span) => {
                for page in pages(span) {
                    self.wasted_reads += u64::from(!self.is_used[page]);
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
                let mut dirty = DirtyPages::EMPTY;
                for (at, page) in pages(span).enumerate() {
                    self.is_mapped[page] = false;
                    if self.is_dirty[page] {
                        dirty.insert(at);
                    }
                }
                self.on(Event::MovedOut(id, dirty));
            }
            Action::Write(id, span, _) => {
                self.is_dirty[pages(span)].fill(false);
                self.on(Event::Wrote(id, Ok(())));
            }
            Action::Wake(..) => {}
            Action::Drop(..) | Action::Poison(_) | Action::Erase(..) => {
                unreachable!("no page is pinned, poisoned or discarded")
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
    let mut machine = ReplayMachine::new(pages, arrays);
    (0..pages).for_each(|page| machine.touch(page, 0, true));
    let mut before = *machine.cache.counts();
    for round in 0..ROUNDS + COUNTED {
        if round == ROUNDS {
            before = *machine.cache.counts();
            machine.wasted_reads = 0;
        }
        for Touch { block, offset, is_write } in &touches {
            machine.touch(*block as usize, *offset as u16, *is_write);
        }
    }
    let after = *machine.cache.counts();
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
        machine.wasted_reads / COUNTED as u64,
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
