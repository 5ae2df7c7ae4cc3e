//! A simulated machine that carries out the actions of a page cache for a workload.
//!
//! [`replay`] counts the traffic of the workload. The drive completes each transfer immediately, so
//! no transfer is late, and the traffic depends only on the cache's replacement and prefetch.
//! [`replay_with_drive`] measures the time of each round with a drive that has a latency and a
//! bandwidth. This time depends also on when the cache requests each page.

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

/// Times of an NVMe drive that reads 2.8 GB/s, us. `LATENCY` is the time from the end of a transfer
/// on the drive until the program sees its result. A transfer keeps the drive busy for `TRANSFER`,
/// and in addition for `PAGE_TRANSFER` for each of its pages.
const LATENCY: f64 = 30.0;
const TRANSFER: f64 = 12.0;
const PAGE_TRANSFER: f64 = 1.45;

/// Time of the program for each touch, without waits, us. At this rate it uses 6.8 GB/s.
const TOUCH: f64 = 0.6;

/// Replays `rounds` rounds of the accesses of a workload on `footprint` bytes of memory, with a
/// budget of `frames` frames and a drive. Returns the time of each round, us. `None` if the
/// workload has no trace.
pub fn replay_with_drive(
    kind: Kind,
    frames: usize,
    footprint: u64,
    rounds: usize,
) -> Option<Vec<f64>> {
    let touches = touches(kind, footprint)?;
    let mut machine = ReplayMachine::for_workload(kind, frames, &touches);
    machine.drive = Some(Drive::default());
    machine.fill(&touches);
    let round = |_| {
        let before = machine.now();
        machine.pass(&touches);
        machine.now() - before
    };
    Some((0..rounds).map(round).collect())
}

/// The touches of one round of a workload with one thread.
fn touches(kind: Kind, footprint: u64) -> Option<Vec<Touch>> {
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
    trace(kind, &setting, footprint, PAGE)
}

/// Replays the accesses of a workload on `footprint` bytes of memory, with a budget of `frames`
/// frames. `None` if the workload has no trace.
pub fn replay(kind: Kind, frames: usize, footprint: u64) -> Option<Replay> {
    let touches = touches(kind, footprint)?;
    let mut machine = ReplayMachine::for_workload(kind, frames, &touches);
    machine.fill(&touches);
    let filled = *machine.cache.counts();
    let (mut before, mut read_in_first_round) = (filled, 0);
    for round in 0..ROUNDS + COUNTED {
        if round == ROUNDS {
            before = *machine.cache.counts();
            machine.wasted_reads = 0;
        }
        machine.pass(&touches);
        if round == 0 {
            read_in_first_round = machine.cache.counts().read - filled.read;
        }
    }
    let (after, wasted_reads) = (*machine.cache.counts(), machine.wasted_reads);
    let least = carried(&touches, frames);
    Some(Replay { before, after, read_in_first_round, wasted_reads, least })
}

/// The number of pages of a workload with the touches `touches`.
fn pages_of(touches: &[Touch]) -> usize {
    touches.iter().map(|touch| touch.block as usize + 1).max().unwrap_or(0)
}

/// A drive that carries out one transfer after the other.
#[derive(Debug, Default)]
struct Drive {
    /// The time now, us.
    now: f64,
    /// The time at which the drive has done all transfers, us.
    free_at: f64,
    /// The transfers whose end the program has not seen yet, oldest first. Each has the time at
    /// which the program sees its end, and the event that reports this end to the cache.
    in_flight: VecDeque<(f64, Event)>,
}

impl Drive {
    fn begin(&mut self, pages: usize, event: Event) {
        self.free_at = self.free_at.max(self.now) + TRANSFER + PAGE_TRANSFER * pages as f64;
        self.in_flight.push_back((self.free_at + LATENCY, event));
    }

    /// Takes the oldest transfer if it is done by now. If `waits` is true, waits until it is done.
    fn next_done(&mut self, waits: bool) -> Option<Event> {
        let (at, event) = self.in_flight.pop_front_if(|(at, _)| waits || *at <= self.now)?;
        self.now = self.now.max(at);
        Some(event)
    }
}

/// A simulated machine with one thread.
struct ReplayMachine {
    cache: Cache,
    is_mapped: Vec<bool>,
    is_dirty: Vec<bool>,
    /// True for each page that was touched since it was read.
    is_used: Vec<bool>,
    /// Number of reads of pages that were not touched since their previous read.
    wasted_reads: u64,
    todo: VecDeque<Action>,
    /// `None` if each transfer is done immediately.
    drive: Option<Drive>,
}

impl ReplayMachine {
    /// A machine with a budget of `frames` frames, and with the arrays of a workload.
    fn for_workload(kind: Kind, frames: usize, touches: &[Touch]) -> Self {
        let arrays =
            if matches!(kind, Kind::Stream | Kind::Gemm | Kind::GemmTiled) { 3 } else { 1 };
        let mut cache = Cache::new(Settings::for_budget(frames as u32));
        let array = pages_of(touches).div_ceil(arrays) as Page;
        (0..arrays as Page).for_each(|at| cache.add_region(at * array..(at + 1) * array));
        let pages = array as usize * arrays;
        Self {
            cache,
            is_mapped: vec![false; pages],
            is_dirty: vec![false; pages],
            is_used: vec![true; pages],
            wasted_reads: 0,
            todo: VecDeque::new(),
            drive: None,
        }
    }

    /// The time now, us; 0 without a drive.
    fn now(&self) -> f64 {
        self.drive.as_ref().map_or(0.0, |drive| drive.now)
    }

    /// Writes once to each page of a workload.
    fn fill(&mut self, touches: &[Touch]) {
        (0..pages_of(touches)).for_each(|page| self.touch(page, 0, true));
    }

    /// Replays one round of a workload.
    fn pass(&mut self, touches: &[Touch]) {
        for Touch { block, offset, is_write } in touches {
            self.touch(*block as usize, *offset as u16, *is_write);
        }
    }

    fn on(&mut self, event: Event) {
        let mut actions = vec![];
        self.cache.on(event, &mut actions);
        self.todo.extend(actions);
    }

    /// Carries out all actions. Returns true if `page` was mapped at any time: a thread that waits
    /// for the page resumes then, even if a later action unmaps the page again.
    fn act_all(&mut self, page: usize) -> bool {
        let mut was_mapped = self.is_mapped[page];
        while let Some(action) = self.todo.pop_front() {
            self.act(action);
            was_mapped |= self.is_mapped[page];
        }
        was_mapped
    }

    /// Reports to the cache the transfers that are done by now. If `waits` is true, first waits
    /// until the oldest transfer is done. Returns false if no transfer was reported.
    fn finish_transfers(&mut self, mut waits: bool) -> bool {
        let mut any = false;
        while let Some(event) = self.drive.as_mut().and_then(|drive| drive.next_done(waits)) {
            self.on(event);
            (any, waits) = (true, false);
        }
        any
    }

    /// Lets the thread touch a page. If the page is not mapped, the thread waits until it is.
    fn touch(&mut self, page: usize, offset: u16, is_write: bool) {
        if let Some(drive) = &mut self.drive {
            drive.now += TOUCH;
        }
        self.finish_transfers(false);
        self.act_all(page);
        if !self.is_mapped[page] {
            let fault = PageFault { thread: 1, page: page as Page, offset, node: 0 };
            self.on(Event::Fault(fault));
            while !self.act_all(page) {
                if !self.finish_transfers(true) {
                    assert!(self.drive.is_some(), "page {page} was touched and is not mapped");
                    // The page was being evicted at the fault, and the thread touches it again.
                    self.on(Event::Fault(fault));
                }
            }
        }
        self.is_dirty[page] |= is_write;
        self.is_used[page] = true;
    }

    /// Begins a transfer of `pages` pages, whose end `event` reports to the cache.
    fn transfer(&mut self, pages: usize, event: Event) {
        match &mut self.drive {
            Some(drive) => drive.begin(pages, event),
            None => self.on(event),
        }
    }

    fn act(&mut self, action: Action) {
        let pages = |span: Span| span.page as usize..span.pages().end as usize;
        match action {
            Action::Read(id, span) => {
                for page in pages(span) {
                    self.wasted_reads += u64::from(!self.is_used[page]);
                    self.is_used[page] = false;
                }
                self.transfer(pages(span).len(), Event::Filled(id, Ok(())));
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
                self.transfer(pages(span).len(), Event::Wrote(id, Ok(())));
            }
            Action::Wake(..) | Action::MoveMemory { .. } => {}
            Action::Drop(..) | Action::Poison(_) | Action::Erase(..) => {
                unreachable!("no page is pinned, poisoned or discarded")
            }
        }
    }
}
