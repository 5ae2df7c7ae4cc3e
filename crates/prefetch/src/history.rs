//! Predicts irregular accesses that repeat in the same order.
//!
//! A pass over a graph or a gather through a list of indices has no stride, but a solver repeats it
//! in the same order. Therefore the order of faults is recorded. A *log* has the pages on which
//! each thread faulted, and an *index* has the position of the last log entry of each page. When a
//! page faults again, the log is replayed from the last entry of that page. If the entries that
//! follow predict the next faults, the pages ahead of the program are prefetched (temporal
//! streaming: Wenisch et al., "Practical Off-chip Meta-data for Temporal Memory Streaming", HPCA
//! 2009).
//!
//! Pages that stayed mapped do not fault. A replay therefore skips the entries of these pages. The
//! skipped entries are recorded again, together with the entries that predicted a fault, so that
//! the newest round in the log is always complete.
//!
//! ```text
//! log       ... 7 90 31 4 66 12 5 |                     round 1
//! faults                            7 90    4 66        31 is mapped
//! log       ... 7 90 31 4 66 12 5 | 7 90 31 4 66 12 5   round 2, with the predicted entries
//! ```
//!
//! If a page is touched only once, among pages that repeat, its log entry would cause a wasted
//! prefetch one round later. Therefore an entry counts as *confirmed* only once it has predicted a
//! fault. The pages of unconfirmed entries are prefetched only while enough of these entries
//! predict correctly.

use super::{
    FaultContext, HISTORY_BIT, Limits, Prefetch,
    throttle::{AccuracyThrottle, CONFIDENCE_MAX},
};
use crate::page::Page;
use std::{collections::VecDeque, ops::Range};

/// Number of entries in a block of the fault log. All entries of a block are of the same thread. A
/// block is overwritten as a whole.
const BLOCK_ENTRIES: u32 = 256;

/// The fault log has at most five entries for every four pages of the footprint. A round in which
/// each page faults by itself takes four of these five entries. The fifth entry is a margin, so
/// that new entries do not overwrite those entries of the last round that are not replayed yet. The
/// log grows as entries are written.
const ENTRIES_PER_PAGES: [u64; 2] = [5, 4];

/// Maximum number of log entries for each slot of the index; the minimum is half of this number. A
/// slot holds the log position of one page. Two pages may share a slot: a fault on the page without
/// a position begins no replay, but a later fault does. An entry and a slot take 4 bytes each. If
/// each page faults by itself, the history takes at most 7.5 bytes (0.18 %) for each page. If each
/// fault maps an extent of 4 pages, it takes a quarter of this.
const ENTRIES_PER_SLOT: usize = 4;

/// Maximum number of threads whose faults are followed. A new thread replaces the thread that has
/// not faulted for the longest time.
const THREADS_MAX: usize = 64;

/// Maximum number of replays for each thread. A replay predicts faults of the thread from the fault
/// log. A further replay replaces the least confident one.
const REPLAYS_MAX: usize = 4;

/// Number of log entries that a replay expects next and compares with a fault. If an entry matches,
/// the pages of the entries before it did not fault: they are mapped, or the program does not use
/// them any more.
const LOOKAHEAD: usize = 32;

/// Minimum confidence of a replay for a prefetch: its correct predictions minus its wrong ones.
/// Wasted prefetches raise this minimum (`throttle.rs`).
const CONFIDENCE_MIN: u32 = 2;

/// The pages of unconfirmed log entries, which have predicted no fault yet, are prefetched only if
/// at least this share of the unconfirmed entries predicts correctly.
const UNCONFIRMED_SHARE_MIN: f32 = 0.25;

/// Weight of one entry in the share of unconfirmed entries that predict correctly. The share is a
/// decaying mean over about 32 entries.
const SHARE_WEIGHT: f32 = 1.0 / 32.0;

/// The value for "no block" in `LogBlock::next`, "no entry" in the index, and "removed entry" in
/// the log.
const NONE: u32 = u32::MAX;

/// The value of a log entry that was not written yet.
const EMPTY: u32 = NONE - 1;

/// The bit that is set in a log entry that has predicted a fault.
const CONFIRMED: u32 = 1 << 31;

/// The position of an entry in the log: the index of the entry's block, times [`BLOCK_ENTRIES`],
/// plus the index of the entry in the block.
type LogPosition = u32;

/// The log of the faults of a process, and the replays of the log, which predict the next faults.
/// Each block of the log has faults of one thread.
#[derive(Clone, Debug)]
pub struct History {
    limits: Limits,
    log: Log,
    threads: Vec<ThreadHistory>,
    /// Number of faults of all threads that were passed to `on_fault`. It is the clock for
    /// `last_fault` and `last_hit`.
    now: u64,
    last_id: u32,
    throttle: AccuracyThrottle,
    /// The recent share of unconfirmed entries that predicted correctly, 0 to 1.
    unconfirmed_share: f32,
}

/// The prediction of a fault by a replay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prediction {
    /// The index of the replay among those of the fault's thread.
    replay: usize,
    /// Number of expected entries of the replay before the predicted one.
    skipped: usize,
    /// True if the replay is confident enough for a prefetch.
    pub(super) is_confident: bool,
}

#[derive(Clone, Debug)]
struct ThreadHistory {
    thread: u32,
    /// The time of the thread's last fault, on the clock `History::now`.
    last_fault: u64,
    /// The position of the thread's last entry; `None` if the thread has no entry, or if the block
    /// of the entry was overwritten.
    last_entry: Option<LogPosition>,
    replays: Vec<Replay>,
}

/// A replay of the log. It begins at the log entry of a page that has faulted again. The entries
/// after this entry are compared with the faults of a thread, and predict the thread's next faults.
#[derive(Clone, Debug)]
struct Replay {
    id: u32,
    /// The time of the last correct prediction, on the clock `History::now`.
    last_hit: u64,
    /// Correct predictions minus wrong predictions, but at least 0.
    confidence: u32,
    /// The prefetch depth, pages. The replay prefetches the pages of the next expected entries. The
    /// number of these entries is the depth divided by the number of pages that a fault maps.
    depth: u64,
    /// The pages that the replay expects next, in order. They are read from the log: from the entry
    /// after the last match up to the position `read`.
    expected: VecDeque<ExpectedPage>,
    /// Number of pages in `expected` that were prefetched.
    prefetched: usize,
    /// The position of the last entry that was read from the log; `None` after the block of this
    /// entry was overwritten.
    read: Option<LogPosition>,
}

#[derive(Clone, Copy, Debug)]
struct ExpectedPage {
    page: u32,
    is_confirmed: bool,
    is_prefetched: bool,
}

impl History {
    /// Makes an empty history.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            log: Log::new(),
            threads: vec![],
            now: 0,
            last_id: 0,
            throttle: AccuracyThrottle::new(),
            unconfirmed_share: 1.0,
        }
    }

    /// Sets the number of pages of all regions of the process, which limits the length of the log.
    pub fn set_footprint(&mut self, pages: u64) {
        let [entries, per_pages] = ENTRIES_PER_PAGES;
        self.log.set_entries_max((pages / per_pages).saturating_mul(entries));
    }

    /// The memory that the log and its index take, bytes.
    pub const fn bytes(&self) -> usize {
        self.log.bytes()
    }

    /// Records a fault that no stream explains, and returns pages to prefetch that were not
    /// requested before. Returns `None` if no confident replay predicts further pages. `prediction`
    /// is the result of [`History::find_prediction`] for this fault.
    pub(super) fn on_fault(
        &mut self,
        fault: &FaultContext,
        prediction: Option<Prediction>,
    ) -> Option<Prefetch> {
        let page = u32::try_from(fault.page).ok().filter(|page| *page < EMPTY & !CONFIRMED)?;
        self.now += 1;
        let thread = self.thread_index(fault.thread);
        let Some(Prediction { replay: index, skipped, .. }) = prediction else {
            self.on_unpredicted(thread, page);
            return None;
        };
        self.on_predicted(thread, index, skipped);
        let confidence_min = self.throttle.confidence_min(CONFIDENCE_MIN);
        let replay = &mut self.threads[thread].replays[index];
        if replay.confidence < confidence_min {
            return None;
        }
        let length = (fault.pages.end - fault.pages.start).max(1);
        replay.depth = replay.depth.clamp(self.limits.initial, self.limits.max);
        let with_unconfirmed = self.unconfirmed_share >= UNCONFIRMED_SHARE_MIN;
        let pages = replay.prefetch(&self.log, (replay.depth / length).max(1), with_unconfirmed);
        (!pages.is_empty()).then_some(Prefetch { stream: replay.id, pages, map_early: vec![] })
    }

    /// Finds the most confident replay of the fault's thread that predicts `fault`; `None` if no
    /// replay does.
    pub(super) fn find_prediction(&self, fault: &FaultContext) -> Option<Prediction> {
        let thread = self.threads.iter().find(|known| known.thread == fault.thread)?;
        let (replay, skipped) = thread.find_prediction(&fault.pages)?;
        let confidence_min = self.throttle.confidence_min(CONFIDENCE_MIN);
        let is_confident = thread.replays[replay].confidence >= confidence_min;
        Some(Prediction { replay, skipped, is_confident })
    }

    /// True if the replay with the number `id` has prefetched one of `pages`, and still expects a
    /// touch of that page.
    pub(super) fn expects(&self, id: u32, pages: &Range<Page>) -> bool {
        let mut all = self.threads.iter().flat_map(|thread| &thread.replays);
        let Some(replay) = all.find(|replay| replay.id == id) else { return false };
        let mut expected = replay.expected.iter();
        expected.any(|it| it.is_prefetched && pages.contains(&it.page.into()))
    }

    /// Reacts to wasted pages of a replay: prefetched pages that were evicted untouched. Removes
    /// the log entries of these pages, and halves the depth of the replay.
    pub fn on_wasted(&mut self, id: u32, pages: &Range<Page>) {
        self.throttle.on_wasted(pages.end - pages.start);
        for page in pages.clone() {
            let entry = u32::try_from(page).ok().and_then(|page| self.log.find(page));
            if let Some(position) = entry {
                self.log.set(position, NONE);
            }
        }
        let mut all = self.threads.iter_mut().flat_map(|thread| &mut thread.replays);
        if let Some(replay) = all.find(|replay| replay.id == id) {
            replay.depth = (replay.depth / 2).max(self.limits.initial);
            replay.expected.retain(|it| !it.is_prefetched || !pages.contains(&it.page.into()));
            replay.prefetched = replay.expected.iter().filter(|it| it.is_prefetched).count();
        }
    }

    /// Returns the index of `thread` in `self.threads`. A thread that is not in the list is added.
    /// If the list is full, it replaces the thread whose last fault is longest ago.
    fn thread_index(&mut self, thread: u32) -> usize {
        let known = self.threads.iter().position(|known| known.thread == thread);
        let new = ThreadHistory { thread, last_fault: 0, last_entry: None, replays: vec![] };
        let index = known.unwrap_or_else(|| {
            if self.threads.len() < THREADS_MAX {
                self.threads.push(new);
                return self.threads.len() - 1;
            }
            let oldest = self.threads.iter().enumerate().min_by_key(|(_, it)| it.last_fault);
            let index = oldest.map_or(0, |(index, _)| index);
            self.threads[index] = new;
            index
        });
        self.threads[index].last_fault = self.now;
        index
    }

    /// Records a fault that a replay has predicted. `thread` is the index of the thread, and
    /// `index` is that of the replay. `skipped` is the number of expected entries before the
    /// predicted one. The predicted entry is recorded again; the skipped entries are, too, if the
    /// replay is confident.
    fn on_predicted(&mut self, thread: usize, index: usize, skipped: usize) {
        let replay = &mut self.threads[thread].replays[index];
        replay.last_hit = self.now;
        replay.confidence = (replay.confidence + 1).min(2 * CONFIDENCE_MAX);
        replay.depth = replay.depth.saturating_mul(2).min(self.limits.max);
        let is_confident = replay.confidence >= CONFIDENCE_MIN;
        let passed: Vec<ExpectedPage> = replay.expected.drain(..=skipped).collect();
        replay.prefetched -= passed.iter().filter(|it| it.is_prefetched).count();
        replay.read_ahead(&self.log, 0);
        let mut entries = vec![];
        for (at, expected) in passed.iter().enumerate() {
            let is_touched = at == skipped;
            if !expected.is_confirmed && is_confident {
                let correct = if is_touched { 1.0 } else { 0.0 };
                self.unconfirmed_share += (correct - self.unconfirmed_share) * SHARE_WEIGHT;
            }
            if is_touched && expected.is_prefetched {
                self.throttle.on_hit(1);
            }
            if is_touched || is_confident {
                let is_confirmed = expected.is_confirmed || is_touched;
                entries.push(expected.page | if is_confirmed { CONFIRMED } else { 0 });
            }
        }
        entries.into_iter().for_each(|entry| self.record(thread, entry));
    }

    /// Records a fault on `page` that no replay predicted, and lowers the confidence of all replays
    /// of the thread. If the log has an entry of `page`, a new replay begins at this entry.
    fn on_unpredicted(&mut self, thread: usize, page: u32) {
        let found = self.log.find(page);
        let (now, initial) = (self.now, self.limits.initial);
        let replays = &mut self.threads[thread].replays;
        replays.iter_mut().for_each(|it| it.confidence = it.confidence.saturating_sub(1));
        if let Some(position) = found {
            self.last_id = self.last_id.wrapping_add(1) & !HISTORY_BIT;
            let mut new = Replay {
                id: self.last_id,
                last_hit: now,
                confidence: 0,
                depth: initial,
                expected: VecDeque::new(),
                prefetched: 0,
                read: Some(position),
            };
            new.read_ahead(&self.log, 0);
            if replays.len() < REPLAYS_MAX {
                replays.push(new);
            } else if let Some(least) =
                replays.iter_mut().min_by_key(|it| (it.confidence, it.last_hit))
            {
                *least = new;
            }
        }
        self.record(thread, page);
    }

    /// Appends an entry to the log of a thread. The entry may need a new block, which may overwrite
    /// the oldest block. All positions in the overwritten block then become `None`.
    fn record(&mut self, thread: usize, entry: u32) {
        let last_entry = self.threads[thread].last_entry;
        let Some((position, overwritten)) = self.log.push(last_entry, entry) else { return };
        self.threads[thread].last_entry = Some(position);
        let Some(block) = overwritten else { return };
        for thread in &mut self.threads {
            thread.last_entry.take_if(|it| *it != position && *it / BLOCK_ENTRIES == block);
            for replay in &mut thread.replays {
                replay.read.take_if(|it| *it / BLOCK_ENTRIES == block);
            }
        }
    }
}

impl ThreadHistory {
    /// Finds the replays of the thread that predict a fault on one of `pages`. Returns the index of
    /// the most confident of them, and the number of its expected entries before the predicted one.
    /// Returns `None` if no replay predicts such a fault.
    fn find_prediction(&self, pages: &Range<Page>) -> Option<(usize, usize)> {
        let found = self.replays.iter().enumerate().filter_map(|(index, replay)| {
            let mut expected = replay.expected.iter().take(LOOKAHEAD);
            Some((index, expected.position(|it| pages.contains(&it.page.into()))?))
        });
        found.max_by_key(|(index, _)| {
            let replay = &self.replays[*index];
            (replay.confidence, replay.last_hit)
        })
    }
}

impl Replay {
    /// Reads the log entries after the position `read` into `expected`. Ends when `expected` has
    /// `count` entries, but at least [`LOOKAHEAD`], or when the log ends.
    fn read_ahead(&mut self, log: &Log, count: usize) {
        while self.expected.len() < count.max(LOOKAHEAD)
            && let Some(position) = self.read.and_then(|read| log.next(read))
        {
            let entry = log.get(position);
            if entry != NONE {
                let (page, is_confirmed) = (entry & !CONFIRMED, entry & CONFIRMED != 0);
                self.expected.push_back(ExpectedPage { page, is_confirmed, is_prefetched: false });
            }
            self.read = Some(position);
        }
    }

    /// Returns the pages to prefetch now: those of the next `depth` expected entries that are not
    /// prefetched yet. Pages of unconfirmed entries (entries that have predicted no fault) are
    /// included only if `with_unconfirmed` is true.
    fn prefetch(&mut self, log: &Log, depth: u64, with_unconfirmed: bool) -> Vec<Range<Page>> {
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        // Wait while more than half is untouched, so that pages are requested in large pieces.
        if self.prefetched * 2 > depth {
            return vec![];
        }
        self.read_ahead(log, depth);
        let is_new =
            |it: &&mut ExpectedPage| !it.is_prefetched && (it.is_confirmed || with_unconfirmed);
        let new = self.expected.iter_mut().take(depth).filter(is_new);
        let new = new.map(|it| {
            it.is_prefetched = true;
            u64::from(it.page)..u64::from(it.page) + 1
        });
        let pages: Vec<_> = new.collect();
        self.prefetched += pages.len();
        pages
    }
}

/// The log: a linked list of blocks for each thread. Once the log has its full length, each new
/// block overwrites the oldest block.
#[derive(Clone, Debug)]
struct Log {
    blocks: Vec<LogBlock>,
    /// The position of the last log entry of each page. The slot of a page is given by the low bits
    /// of the page's hash. Pages may share a slot: the log entry at the position tells to which
    /// page the slot belongs now.
    index: Vec<LogPosition>,
    blocks_max: usize,
    /// The index of the block that is overwritten next, once the log has `blocks_max` blocks.
    oldest: usize,
}

#[derive(Clone, Debug)]
struct LogBlock {
    /// The page number of each entry. The bit [`CONFIRMED`] is set in entries that have predicted a
    /// fault.
    entries: Box<[u32; BLOCK_ENTRIES as usize]>,
    /// Index of the next block of the same thread, or [`NONE`].
    next: u32,
}

impl Log {
    const fn new() -> Self {
        Self { blocks: vec![], index: vec![], blocks_max: 0, oldest: 0 }
    }

    fn set_entries_max(&mut self, entries: u64) {
        // Positions stay below 2^31, so none of them equals `NONE`.
        let blocks_max = u64::from(CONFIRMED / BLOCK_ENTRIES) - 1;
        self.blocks_max = (entries / u64::from(BLOCK_ENTRIES)).min(blocks_max) as usize;
    }

    const fn bytes(&self) -> usize {
        let blocks = self.blocks.len() * BLOCK_ENTRIES as usize * 4;
        blocks + self.blocks.capacity() * size_of::<LogBlock>() + self.index.capacity() * 4
    }

    fn get(&self, position: LogPosition) -> u32 {
        let block = &self.blocks[(position / BLOCK_ENTRIES) as usize];
        block.entries[(position % BLOCK_ENTRIES) as usize]
    }

    fn set(&mut self, position: LogPosition, entry: u32) {
        let block = &mut self.blocks[(position / BLOCK_ENTRIES) as usize];
        block.entries[(position % BLOCK_ENTRIES) as usize] = entry;
    }

    /// Returns the position after `position` in the log of the same thread; `None` if no entry was
    /// written at the next position yet.
    fn next(&self, position: LogPosition) -> Option<LogPosition> {
        let mut next = position + 1;
        if next.is_multiple_of(BLOCK_ENTRIES) {
            let block = self.blocks[(position / BLOCK_ENTRIES) as usize].next;
            next = (block != NONE).then(|| block * BLOCK_ENTRIES)?;
        }
        (self.get(next) != EMPTY).then_some(next)
    }

    /// Returns the position of the last log entry of `page`; `None` if the index does not have it.
    fn find(&self, page: u32) -> Option<LogPosition> {
        let position = *self.index.get(self.slot(page))?;
        let is_of_page = position != NONE && {
            let entry = self.get(position);
            entry < EMPTY && entry & !CONFIRMED == page
        };
        is_of_page.then_some(position)
    }

    fn slot(&self, page: u32) -> usize {
        // Fibonacci hashing (Knuth, The Art of Computer Programming vol. 3, section 6.4).
        let hash = u64::from(page).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (hash as usize) & (self.index.len().wrapping_sub(1))
    }

    /// Appends an entry to the log of a thread: after the thread's last entry, which is at the
    /// position `last`, or into a new block if `last` is `None` or its block is full. Returns the
    /// position of the new entry, and the index of the block that was overwritten for it, if any.
    /// Returns `None` if the footprint is too small for a block.
    fn push(
        &mut self,
        last: Option<LogPosition>,
        entry: u32,
    ) -> Option<(LogPosition, Option<u32>)> {
        let within = last.map(|last| last + 1).filter(|next| !next.is_multiple_of(BLOCK_ENTRIES));
        let (position, overwritten) = match within {
            Some(position) => (position, None),
            None => {
                let (block, is_old) = self.empty_block()?;
                let last = last.map(|last| last / BLOCK_ENTRIES).filter(|it| *it != block);
                if let Some(last) = last {
                    self.blocks[last as usize].next = block;
                }
                (block * BLOCK_ENTRIES, is_old.then_some(block))
            }
        };
        self.set(position, entry);
        let slot = self.slot(entry & !CONFIRMED);
        self.index[slot] = position;
        Some((position, overwritten))
    }

    /// Returns the index of an empty block, and true if this was the oldest block, whose entries
    /// were erased. Returns `None` if the footprint is too small for a block.
    fn empty_block(&mut self) -> Option<(u32, bool)> {
        let blocks = self.blocks.len();
        if blocks < self.blocks_max {
            let entries = Box::new([EMPTY; BLOCK_ENTRIES as usize]);
            self.blocks.push(LogBlock { entries, next: NONE });
            let entries = self.blocks.len() * BLOCK_ENTRIES as usize;
            if self.index.len() * ENTRIES_PER_SLOT < entries {
                self.grow_index();
            }
            return Some((blocks as u32, false));
        }
        let oldest = self.oldest;
        let block = self.blocks.get_mut(oldest)?;
        block.next = NONE;
        block.entries.fill(EMPTY);
        self.oldest = (oldest + 1) % blocks;
        Some((oldest as u32, true))
    }

    /// Doubles the size of the index, and fills it from the log in the order of the positions. If a
    /// page has several entries, the index gets the highest position. That is usually the newest
    /// entry, because new blocks are added at the end of the log.
    fn grow_index(&mut self) {
        self.index = vec![NONE; (self.index.len() * 2).max(BLOCK_ENTRIES as usize / 2)];
        for position in 0..self.blocks.len() as u32 * BLOCK_ENTRIES {
            let entry = self.get(position);
            if entry < EMPTY {
                let slot = self.slot(entry & !CONFIRMED);
                self.index[slot] = position;
            }
        }
    }
}
