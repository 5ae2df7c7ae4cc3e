//! The page cache of a process: a state machine that manages DRAM as a cache over a store. The
//! state machine does no I/O, makes no system call and reads no clock.
//!
//! Pages are loaded and evicted in *extents*: 2^n neighbouring pages in 2^n neighbouring frames.
//! All pages of an extent are in the same state:
//!
//! ```text
//!             fault or prefetch                      fault
//!  (absent) -------------------> Filling --> Ready --------> Mapping --> Mapped
//!     ^                                      ^ ^ |                         |
//!     |  frames are needed                   | | |                         | victim
//!     '--------------------------------------|-|-'                         v
//!                                            | '------- clean -------- Unmapping
//!                              written back  |                             |
//!                                         Writing <-------- dirty ---------'
//! ```
//!
//! A *ready* extent is resident and not mapped. Either it was prefetched and not touched yet, or it
//! is *inactive*: unmapped, clean, and kept for a second chance. A fault on an inactive extent
//! moves page table entries, and reads nothing.
//!
//! The modules that have a state of their own:
//!
//! ```text
//! residency.rs       extents, frames, replacement queues
//! evict.rs           the choice of the victim, and the reserve of free frames
//! loop_detector.rs   detection of loops over more pages than the budget
//! reuse_distance.rs  number of pages evicted between an eviction of a page and its next read
//! compact.rs         evictions that make free frames contiguous
//! durability.rs      stored, lost and discarded pages
//! prefetch_queue.rs  prefetches not issued yet, throttled by the frames that each stream holds
//! fault_around.rs    the number of pages read with a page that faults
//! regions.rs         the allocations of the program
//! advise.rs          advice and pins of the program
//! thrash.rs          detection of thrashing, and the budget that would end it
//! budget.rs          frames released to other processes or nodes
//! node.rs            frames and shares of the budget of the NUMA nodes
//! ```
//!
//! Operations on the state of several modules are methods of [`Cache`]. `fault.rs` and
//! `fast_path.rs` serve faults. `transitions.rs` takes an extent from state to state.
//! `write_back.rs` writes back the dirty pages of an unmapped extent. `discard.rs` discards pages,
//! and `fork.rs` freezes a process that forks.
//!
//! The caller carries out the [`Action`]s, in any order, and answers by [`Event`]s.
//! [`Cache::react`] appends only the actions that a thread may wait for. [`Cache::progress`] plans
//! prefetches and chooses victims. The caller calls [`Cache::progress`] while the drive reads, so
//! that no thread waits for this work.

mod event;

mod extent;

pub mod index;

pub mod queue;

pub mod frame_pool;

mod residency;

mod regions;

mod durability;

mod fault;

mod fast_path;

mod transitions;

mod evict;

mod reuse_distance;

pub mod loop_detector;

mod compact;

mod thrash;

mod write_back;

mod discard;

mod prefetch_queue;

mod fault_around;

mod advise;

mod budget;

pub mod node;

mod fork;

pub(crate) use advise::pinned_max;
pub use event::{Action, DirtyPages, Event, Failed, PageFault, Span};
pub use fast_path::MapAttempt;

use advise::ProgramAdvice;
use budget::Released;
use durability::Durability;
use evict::Reclaim;
use extent::{Extent, ExtentState, WaitingFault};
use fault_around::FaultAround;
use interleaf_prefetch::{Limits, Tally};
use node::{Division, Shares};
use prefetch_queue::PrefetchQueue;
use regions::Regions;
use residency::Residency;
use std::collections::VecDeque;
use thrash::ThrashDetector;

/// Sizes and limits of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of frames in the budget.
    pub frames: u32,
    /// The initial order of fault-around of each region (an allocation of the program): a fault
    /// reads 2^order pages.
    pub order: u8,
    /// Initial and maximum prefetch depth: the number of pages that are read ahead of a stream.
    pub prefetch: Limits,
}

impl Settings {
    /// The settings of a pager with a budget of `frames`: an initial fault-around of 16 KiB, and
    /// prefetch up to 32 MiB ahead of a stream.
    pub const fn for_budget(frames: u32) -> Self {
        Self { frames, order: 2, prefetch: Limits { initial: 16, max: 8192 } }
    }
}

/// Counters, in pages unless another unit is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Faults: touches of pages that were not mapped.
    pub faults: u64,
    /// Faults on ready pages, which are resident and neither mapped nor being evicted. These faults
    /// need no read.
    pub minor_faults: u64,
    /// Pages read from the store.
    pub read: u64,
    /// Pages that successful writes have written to the store: dirty pages, and the clean pages in
    /// gaps that a write includes. The caller sets this counter, because the cache does not know
    /// the transfers.
    pub written: u64,
    /// Pages that prefetches have read from the store, without pages that a prefetch fills with
    /// zeros.
    pub prefetched: u64,
    /// Prefetched pages that were touched, or that were loaded in one extent with a touched page.
    pub prefetch_hits: u64,
    /// Prefetched pages that were evicted untouched.
    pub prefetch_wasted: u64,
    /// Inactive pages (unmapped, clean and still resident) whose frames were freed for other pages.
    pub evicted: u64,
    /// Peak number of pages with content: pages that are resident, or stored, or both.
    pub footprint: u64,
    /// Stall time, nanoseconds. The caller sets this counter, because the cache has no clock.
    pub stalled_ns: u64,
    /// Outcomes of the prefetches that the fault history predicts (`interleaf_prefetch::history`).
    /// The other counters of prefetches also contain the prefetches of streams, matrix blocks and
    /// advice.
    pub history: Tally,
}

/// The page cache of a process.
#[derive(Clone, Debug)]
pub struct Cache {
    settings: Settings,
    counts: Counts,
    regions: Regions,
    residency: Residency,
    reclaim: Reclaim,
    durability: Durability,
    prefetch: PrefetchQueue,
    fault_around: FaultAround,
    advice: ProgramAdvice,
    shares: Shares,
    released: Released,
    thrash: ThrashDetector,
    /// Number of pages that are resident, or stored, or both.
    pages_with_content: u64,
    /// Faults on absent pages. The thread of each fault waits until a frame is free for its page.
    waiting: VecDeque<WaitingFault>,
    /// Faults whose prefetches [`Cache::progress`] has not planned yet.
    unplanned: Vec<PageFault>,
    /// True if the cache has handled events since the last call of [`Cache::progress`].
    has_progress: bool,
    /// True while the process forks: from [`Event::Freeze`] to [`Event::Thaw`].
    is_frozen: bool,
}

impl Cache {
    /// An empty cache over an empty store.
    pub fn new(settings: Settings) -> Self {
        Self::with_nodes(settings, Division::single(settings.frames))
    }

    /// An empty cache over an empty store, with frames on several nodes.
    pub fn with_nodes(settings: Settings, division: Division) -> Self {
        let nodes = division.len();
        let mut cache = Self {
            settings,
            counts: Counts::default(),
            regions: Regions::default(),
            residency: Residency::new(division.clone()),
            reclaim: Reclaim::new(settings.frames, nodes),
            durability: Durability::default(),
            prefetch: PrefetchQueue::new(settings.prefetch, nodes),
            fault_around: FaultAround::new(settings.order),
            advice: ProgramAdvice::default(),
            shares: Shares::new(division, settings.frames),
            released: Released::new(nodes),
            thrash: ThrashDetector::default(),
            pages_with_content: 0,
            waiting: VecDeque::new(),
            unplanned: vec![],
            has_progress: false,
            is_frozen: false,
        };
        cache.resize(settings.frames);
        cache
    }

    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Number of pages in all regions, the allocations of the program.
    pub fn region_pages(&self) -> u64 {
        self.regions.pages()
    }

    /// Number of pages that are resident, or stored, or both.
    pub const fn pages_with_content(&self) -> u64 {
        self.pages_with_content
    }

    /// Counters since the start.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Reacts to an event: appends all actions that follow from the event.
    pub fn on(&mut self, event: Event, actions: &mut Vec<Action>) {
        self.react(event, actions);
        self.progress(actions);
    }

    /// Reacts to an event: appends only the actions that a thread may wait for. [`Cache::progress`]
    /// appends the other actions.
    pub fn react(&mut self, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Fault(fault) => {
                let PageFault { page, node, .. } = fault;
                self.on_fault(WaitingFault { page, node }, actions);
                self.unplanned.push(fault);
            }
            Event::Filled(id, result) => self.on_filled(id, result, actions),
            Event::MovedIn(id) => self.on_moved_in(id, actions),
            Event::MovedOut(id, dirty) => self.on_moved_out(id, dirty, actions),
            Event::Wrote(id, result) => self.on_wrote(id, result, actions),
            Event::Discarded(pages) => self.durability.add_discard(pages),
            Event::Erased(first) => self.durability.end_erase(first),
            Event::Pinned(id) => return self.on_pinned(id, actions),
            Event::RetryPinned => {}
            Event::Advised(pages, advice, node) => self.advise(&pages, advice, node, actions),
            Event::Budget(frames) => self.resize(frames),
            Event::Freeze => self.freeze(actions),
            Event::Thaw => self.thaw(actions),
        }
        self.has_progress = true;
        if !self.is_frozen && !self.durability.has_discards() {
            self.serve_waiting(false, actions);
        }
    }

    /// Appends the actions that [`Cache::react`] does not append: discards, prefetches that follow
    /// from faults, evictions, and loads for faults that waited for frames. While the process
    /// forks, appends only discards. If no event has arrived since the last call, appends nothing
    /// and returns false.
    pub fn progress(&mut self, actions: &mut Vec<Action>) -> bool {
        if !std::mem::take(&mut self.has_progress) {
            return false;
        }
        if self.durability.has_discards() {
            self.discard(actions);
        }
        if self.is_frozen {
            self.unplanned.clear();
            return true;
        }
        if !self.waiting.is_empty() {
            self.reclaim_frames(actions);
            self.serve_waiting(true, actions);
        }
        let mut faults = std::mem::take(&mut self.unplanned);
        for fault in faults.drain(..) {
            self.plan_prefetch(fault, actions);
        }
        // Keep the allocation of the vector for the next call.
        self.unplanned = faults;
        self.issue_prefetches(actions);
        self.reclaim_for_waiting(actions);
        self.release_frames();
        true
    }

    /// Evicts extents until each node has its reserve of free or inactive frames, and serves the
    /// faults that wait for frames. Some evictions free frames at once, without a later event: the
    /// drop of a prefetched extent, and the move of a part of the budget to another NUMA node.
    /// Therefore repeats eviction and service until no eviction frees frames at once, or until no
    /// further waiting fault is served.
    fn reclaim_for_waiting(&mut self, actions: &mut Vec<Action>) {
        loop {
            let waiting = self.waiting.len();
            let nodes = self.nodes().take_while(|_| waiting > 0);
            let free: Vec<u32> = nodes.map(|node| self.residency.free_frames(node)).collect();
            self.reclaim_frames(actions);
            let mut nodes = self.nodes().zip(free);
            if !nodes.any(|(node, before)| self.residency.free_frames(node) > before) {
                return;
            }
            self.serve_waiting(true, actions);
            if self.waiting.len() == waiting {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
