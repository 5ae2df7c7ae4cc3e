//! History: irregular accesses that repeat in the same order.
//!
//! A pass over a graph or a gather through a list of indices has no stride, but a solver repeats
//! the same order. Therefore the order of faults is recorded. A *log* has the pages that each
//! thread faulted on, and an *index* has the position of the last log entry of each page. When a
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
//! prefetch one round later. Therefore an entry is *confirmed* once it has predicted a fault.
//! Unconfirmed entries are prefetched only while enough of them predict correctly.

use super::{
    FaultContext, HISTORY_BIT, Limits, Prefetch,
    throttle::{AccuracyThrottle, CONFIDENCE_MAX},
};
use crate::page::Page;
use std::{collections::VecDeque, ops::Range};

/// Number of entries of a block of the log. All entries of a block are of the same thread, and a
/// block is overwritten as a whole.
const BLOCK_ENTRIES: u32 = 256;

/// The log has at most five entries for every four pages of the footprint. A round in which each
/// page causes a fault of its own takes four of these five entries. The fifth entry is a margin, so
/// that new entries do not overwrite entries of the last round that are still to be replayed. The
/// log grows as entries are written.
const ENTRIES_PER_PAGES: [u64; 2] = [5, 4];

/// Maximum number of log entries per slot of the index; the minimum is half of this number. A slot
/// holds one position. If the slot of a page holds the position of another page, no replay begins
/// at a fault on this page, but at a later fault. An entry and a slot have 4 bytes each. If each
/// page causes a fault of its own, the history has at most 7.5 bytes (0.18 %) for each page. If
/// each fault maps an extent of 4 pages, the history has a quarter of these bytes.
const ENTRIES_PER_SLOT: usize = 4;

/// Maximum number of threads that are followed. A new thread replaces the thread that has not
/// faulted for the longest time.
const THREADS_MAX: usize = 64;

/// Maximum number of replays of a thread. A new replay replaces the least confident replay.
const REPLAYS_MAX: usize = 4;

/// Number of expected entries of a replay that are compared with a fault. The pages of the entries
/// before the matching entry are mapped, or the program does not use them any more.
const LOOKAHEAD: usize = 32;

/// Minimum confidence of a replay whose pages are prefetched: correct predictions, minus wrong
/// predictions. Wasted prefetches raise this minimum (`throttle.rs`).
const CONFIDENCE_MIN: u32 = 2;

/// The pages of unconfirmed entries (entries that have predicted no fault yet) are prefetched while
/// at least this share of the unconfirmed entries predicts correctly.
const UNCONFIRMED_SHARE_MIN: f32 = 0.25;

/// The weight of one entry in the share of unconfirmed entries that predict correctly. The share is
/// a decaying mean over about 32 entries.
const SHARE_WEIGHT: f32 = 1.0 / 32.0;

/// Means "no block" in `LogBlock::next`, "no entry" in the index, and "removed entry" in the log.
const NONE: u32 = u32::MAX;

/// The value of a log entry that was not written yet.
const EMPTY: u32 = NONE - 1;

/// This bit is set in a log entry that has predicted a fault.
const CONFIRMED: u32 = 1 << 31;

/// The position of an entry in the log: the index of the entry's block, times [`BLOCK_ENTRIES`],
/// plus the index of the entry in the block.
type LogPosition = u32;

/// The log of the faults of a process, and the replays of the log that predict the next faults.
/// Each block of the log has the faults of one thread.
#[derive(Clone, Debug)]
pub struct History {
    limits: Limits,
    log: Log,
    threads: Vec<ThreadHistory>,
    /// The number of faults of all threads that were passed to `on_fault`. This number is the time
    /// in `last_fault` and `last_hit`.
    now: u64,
    last_id: u32,
    throttle: AccuracyThrottle,
    /// Recent share of unconfirmed entries that predicted correctly.
    unconfirmed_share: f32,
}

#[derive(Clone, Debug)]
struct ThreadHistory {
    thread: u32,
    /// The time of the thread's last fault, on the clock `History::now`.
    last_fault: u64,
    /// Position of the last entry that was recorded for the thread; `None` if the thread has no
    /// entry, or if the block of the entry was overwritten.
    last_entry: Option<LogPosition>,
    replays: Vec<Replay>,
}

/// A replay of the log. It begins at the log entry of a page that has faulted again. The entries
/// after the start are compared with the faults of a thread, and predict the next faults of the
/// thread.
#[derive(Clone, Debug)]
struct Replay {
    id: u32,
    /// The time of the last correct prediction, on the clock `History::now`.
    last_hit: u64,
    /// Correct predictions, minus wrong predictions; at least 0.
    confidence: u32,
    /// Prefetch depth, pages. Divided by the number of pages that a fault maps, the depth gives the
    /// number of expected entries whose pages are prefetched.
    depth: u64,
    /// The pages that the replay expects, in order: the pages of the log entries up to the position
    /// `read`.
    expected: VecDeque<ExpectedPage>,
    /// Number of pages in `expected` that were prefetched.
    prefetched: usize,
    /// Position of the last entry that was read from the log; `None` after the block of this entry
    /// was overwritten.
    read: Option<LogPosition>,
}

#[derive(Clone, Copy, Debug)]
struct ExpectedPage {
    page: u32,
    is_confirmed: bool,
    is_prefetched: bool,
}

impl History {
    /// An empty history.
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

    /// Sets the number of pages of all regions of the process. This number limits the length of the
    /// log.
    pub fn set_footprint(&mut self, pages: u64) {
        let [entries, per_pages] = ENTRIES_PER_PAGES;
        self.log.set_entries_max((pages / per_pages).saturating_mul(entries));
    }

    /// Memory that the log and its index take, bytes.
    pub const fn bytes(&self) -> usize {
        self.log.bytes()
    }

    /// Records a fault that no stream explains, and returns pages to prefetch that this history has
    /// not returned before. `None` if no confident replay predicts further pages.
    pub fn on_fault(&mut self, fault: &FaultContext) -> Option<Prefetch> {
        let page = u32::try_from(fault.page).ok().filter(|page| *page < EMPTY & !CONFIRMED)?;
        self.now += 1;
        let thread = self.thread_index(fault.thread);
        let Some((index, skipped)) = self.threads[thread].find_prediction(&fault.pages) else {
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

    /// True if a confident replay of the thread has predicted `fault`.
    pub fn has_predicted(&self, fault: &FaultContext) -> bool {
        let thread = self.threads.iter().find(|known| known.thread == fault.thread);
        let found =
            thread.and_then(|thread| Some((thread, thread.find_prediction(&fault.pages)?.0)));
        let confidence_min = self.throttle.confidence_min(CONFIDENCE_MIN);
        found.is_some_and(|(thread, index)| thread.replays[index].confidence >= confidence_min)
    }

    /// True if the replay with the number `id` has prefetched one of `pages`, and still expects a
    /// touch of that page.
    pub(super) fn expects(&self, id: u32, pages: &Range<Page>) -> bool {
        let mut all = self.threads.iter().flat_map(|thread| &thread.replays);
        let Some(replay) = all.find(|replay| replay.id == id) else { return false };
        let mut expected = replay.expected.iter();
        expected.any(|it| it.is_prefetched && pages.contains(&it.page.into()))
    }

    /// Reacts to wasted pages of a replay: removes the log entries of these pages, and halves the
    /// depth of the replay.
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

    /// Returns the index of `thread` in `self.threads`. A thread without an entry gets one; if the
    /// list is full, the thread whose last fault is longest ago loses its entry.
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

    /// Records a fault of the thread with the index `thread`. The replay with the index `index`
    /// predicted the fault: `skipped` other expected entries come before the predicted entry. The
    /// predicted entry is recorded again, and so are the skipped entries if the replay is
    /// confident.
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

    /// Records a fault that no replay predicted, and lowers the confidence of all replays of the
    /// thread. If the log has an entry of `page`, a new replay begins at this entry.
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

    /// Appends an entry to the log of a thread. If the entry needs a new block, and the new block
    /// overwrites the oldest block, all positions that refer to the overwritten block become
    /// `None`.
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
    /// the most confident of these replays, and the number of expected entries before the predicted
    /// entry. `None` if no replay predicts such a fault.
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
    /// Reads the log entries that follow the position `read`, until `expected` has `count` entries
    /// and at least [`LOOKAHEAD`] entries, or the log ends.
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

    /// The pages to prefetch now: the pages of the next `depth` expected entries that are not
    /// prefetched yet. Pages of unconfirmed entries (entries that have predicted no fault) are
    /// included only if `with_unconfirmed` is true.
    fn prefetch(&mut self, log: &Log, depth: u64, with_unconfirmed: bool) -> Vec<Range<Page>> {
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        // Prefetch in large pieces, as streams do: wait until at most half of `depth` is prefetched
        // and not touched yet.
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

/// The log: for each thread a linked list of blocks of entries. When the log has its full length, a
/// new block overwrites the oldest block.
#[derive(Clone, Debug)]
struct Log {
    blocks: Vec<LogBlock>,
    /// The position of the last log entry of each page. The index of a slot is the low bits of the
    /// hash of the page. Pages may share a slot: the log entry at the position tells which page has
    /// the slot.
    index: Vec<LogPosition>,
    blocks_max: usize,
    /// Index of the block that is overwritten next, once the log has `blocks_max` blocks.
    oldest: usize,
}

#[derive(Clone, Debug)]
struct LogBlock {
    /// Page numbers. The bit [`CONFIRMED`] is set in entries that have predicted a fault.
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

    /// The position after `position` in the log of the same thread; `None` if no entry was written
    /// there.
    fn next(&self, position: LogPosition) -> Option<LogPosition> {
        let mut next = position + 1;
        if next.is_multiple_of(BLOCK_ENTRIES) {
            let block = self.blocks[(position / BLOCK_ENTRIES) as usize].next;
            next = (block != NONE).then(|| block * BLOCK_ENTRIES)?;
        }
        (self.get(next) != EMPTY).then_some(next)
    }

    /// The position of the last log entry of `page`; `None` if the index has no position of this
    /// page.
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

    /// Writes an entry after the position `last`, which is the last entry of a thread, or into a
    /// new block. Returns the position of the entry, and the index of the block that was
    /// overwritten for the entry, if any. `None` if the log may have no block at all.
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

    /// Returns the index of an empty block, and true if it is the oldest block, whose entries were
    /// erased. `None` if the log may hold no block at all.
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

    /// Doubles the size of the index, and fills the index from the log in the order of the
    /// positions. If a page has several entries, the index keeps the highest position. This entry
    /// is usually the newest, because new blocks are added at the end of the log.
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
