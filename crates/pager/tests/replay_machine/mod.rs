//! A simulated machine that completes each action of a page cache immediately. No transfer is late,
//! so the traffic depends only on the cache's replacement and prefetch. [`replay`] counts the
//! traffic that a workload causes.

use interleaf_extend_forecast::{
    access::{BlockTraffic, Touch},
    belady::carried,
};
use interleaf_pager::cache::{Action, Cache, Counts, DirtyPages, Event, PageFault, Settings, Span};
use interleaf_prefetch::page::Page;
use interleaf_workload::{
    graph::Shape,
    kind::{Kind, Setting},
    memory::Memory,
    trace::trace,
};
use std::collections::VecDeque;

/// Size of a page, bytes.
pub const PAGE: usize = 4096;

/// Number of rounds of the workload that warm up the cache, before the measured rounds.
const ROUNDS: usize = 2;

/// Number of measured rounds of the workload.
pub const COUNTED: usize = 4;

/// The counters of the cache before and after the measured rounds, and the traffic with optimal
/// replacement to compare them with.
pub struct Replay {
    before: Counts,
    after: Counts,
    /// Number of pages read in the first round, which is a warm-up round.
    pub read_in_first_round: u64,
    /// Number of wasted reads in all measured rounds: reads of a page that was not touched since
    /// its previous read.
    pub wasted_reads: u64,
    /// The traffic of one round with optimal replacement (Belady).
    pub least: BlockTraffic,
}

impl Replay {
    /// The increase of the counter that `of` selects, during all measured rounds.
    pub fn count(&self, of: fn(&Counts) -> u64) -> u64 {
        of(&self.after) - of(&self.before)
    }
}

/// Replays the accesses of a workload on `footprint` bytes of memory, with a budget of `frames`
/// frames. `None` if the workload has no trace.
pub fn replay(kind: Kind, frames: usize, footprint: u64) -> Option<Replay> {
    let setting = Setting {
        footprint,
        threads: 1,
        memory: Memory::Heap,
        only: None,
        stride: 65_536,
        is_writing: false,
        tile: 512,
        degree: 16,
        seed: 1,
        graph: Shape::default(),
    };
    let touches = trace(kind, &setting, footprint, PAGE)?;
    let arrays = if matches!(kind, Kind::Stream | Kind::Gemm | Kind::GemmTiled) { 3 } else { 1 };
    let pages = touches.iter().map(|touch| touch.block as usize + 1).max().unwrap_or(0);
    let mut machine = ReplayMachine::new(frames as u32, pages, arrays);
    (0..pages).for_each(|page| machine.touch(page, 0, true));
    let filled = *machine.cache.counts();
    let (mut before, mut read_in_first_round) = (filled, 0);
    for round in 0..ROUNDS + COUNTED {
        if round == ROUNDS {
            before = *machine.cache.counts();
            machine.wasted_reads = 0;
        }
        for Touch { block, offset, is_write } in &touches {
            machine.touch(*block as usize, *offset as u16, *is_write);
        }
        if round == 0 {
            read_in_first_round = machine.cache.counts().read - filled.read;
        }
    }
    let (after, wasted_reads) = (*machine.cache.counts(), machine.wasted_reads);
    let least = carried(&touches, frames);
    Some(Replay { before, after, read_in_first_round, wasted_reads, least })
}

/// A simulated machine with one thread, which completes each action of the cache immediately.
struct ReplayMachine {
    cache: Cache,
    is_mapped: Vec<bool>,
    is_dirty: Vec<bool>,
    /// True for each page that was touched since it was read.
    is_used: Vec<bool>,
    /// Number of reads of pages that were not touched since their previous read.
    wasted_reads: u64,
    todo: VecDeque<Action>,
}

impl ReplayMachine {
    /// A machine with a budget of `frames` frames, and with `arrays` arrays of equal length, which
    /// together have `pages` pages.
    fn new(frames: u32, pages: usize, arrays: usize) -> Self {
        let mut cache = Cache::new(Settings::for_budget(frames));
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

    /// Lets the thread touch a page. If the page is not mapped, the thread waits until it is.
    fn touch(&mut self, page: usize, offset: u16, is_write: bool) {
        if !self.is_mapped[page] {
            let fault = PageFault { thread: 1, page: page as Page, offset, node: 0 };
            self.on(Event::Fault(fault));
            let mut was_mapped = false;
            while let Some(action) = self.todo.pop_front() {
                self.act(action);
                // The thread resumes as soon as the page is mapped, even if a later action unmaps
                // it again.
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
            Action::MoveOut(id, span) => {
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
            Action::Wake(..) | Action::MoveMemory { .. } => {}
            Action::Drop(..) | Action::Poison(_) | Action::Erase(..) => {
                unreachable!("no page is pinned, poisoned or discarded")
            }
        }
    }
}
