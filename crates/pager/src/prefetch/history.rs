//! History: irregular patterns that repeat.
//!
//! A sweep over a graph or a gather through a list of indices has no stride, but a solver does it
//! again and again in the same order. So the order is written down: a *log* of what each thread
//! touched, and an *index* of where in it a page stands. A page that is touched again is looked up,
//! and where what follows it in the log is touched next too, the log is read ahead of the program
//! (temporal streaming: Wenisch et al., "Practical Off-chip Meta-data for Temporal Memory
//! Streaming", HPCA 2009).
//!
//! What was mapped all the while is not touched, as far as anybody sees. So places of the log are
//! skipped, and what was skipped is written down again with the rest: the newest round in the log
//! is always a whole one.
//!
//! ```text
//! log       ... 7 90 31 4 66 12 5 |                     round 1
//! touched                           7 90    4 66        31 is mapped
//! log       ... 7 90 31 4 66 12 5 | 7 90 31 4 66 12 5   round 2, and what comes next
//! ```
//!
//! Pages that are touched once, among others that come again, would be asked for in vain one round
//! later. Places of the log are *confirmed* once they were foreseen rightly, and those that are not
//! are believed only while such places hold.

use super::{FaultContext, Limits, Prefetch, TRUST_MAX, Vain};
use crate::page::Page;
use std::{collections::VecDeque, ops::Range};

/// Places of the log that one thread writes, and that are given up, together.
const BLOCK: u32 = 256;

/// The log has five places for every four pages: a round in which each page is touched alone, and
/// what is read ahead of it. It grows as it is written.
const PLACES: [u64; 2] = [5, 4];

/// The index has a slot for so many places at most, and twice as many at least: a page that is not
/// found costs no more than that its pattern is known a few touches later. With 4 bytes for a place
/// and a slot, 7.5 bytes a page are 0.19 % if all are touched alone, and a quarter of that with
/// extents of 4.
const PLACES_OF_INDEX: usize = 4;

/// Threads that are followed: the one that was silent longest makes room.
const THREADS_MAX: usize = 64;

/// Places in the log that are followed at once for a thread.
const REPLAYS_MAX: usize = 4;

/// The next touch is looked for so far ahead: what lies between is mapped, or comes no more.
const LOOK: usize = 32;

/// A place in the log is read ahead once it foresaw so many touches more than it did not.
const TRUSTED: u32 = 2;

/// Places that are not confirmed are believed from this part of them on that held lately.
const BELIEVED: f32 = 0.25;

/// Lately is this part of a step: some 32 of them.
const STEP: f32 = 1.0 / 32.0;

/// Nothing: of the log a place without a page, of the index a slot without a place.
const NONE: u32 = u32::MAX;

/// A place of the log that is not written yet.
const EMPTY: u32 = NONE - 1;

/// The place was foreseen rightly before.
const CONFIRMED: u32 = 1 << 31;

/// A place of the log.
type Place = u32;

/// What the threads of a process touched, and what of it comes again.
#[derive(Clone, Debug)]
pub struct History {
    limits: Limits,
    log: Log,
    threads: Vec<Thread>,
    now: u64,
    named: u32,
    vain: Vain,
    /// The part of places that were not confirmed which held lately.
    held: f32,
}

#[derive(Clone, Debug)]
struct Thread {
    thread: u32,
    touched: u64,
    /// Where it writes.
    writes: Option<Place>,
    replays: Vec<Replay>,
}

/// A place of the log that is followed.
#[derive(Clone, Debug)]
struct Replay {
    name: u32,
    touched: u64,
    trust: u32,
    depth: u64,
    /// What comes next, as the log has it.
    next: VecDeque<Next>,
    /// How much of that was asked for.
    waiting: usize,
    /// The place that was read last; `None` where it was written over.
    read: Option<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Next {
    page: u32,
    is_confirmed: bool,
    is_asked: bool,
}

impl History {
    /// None yet.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            log: Log::new(),
            threads: vec![],
            now: 0,
            named: 0,
            vain: Vain { pages: 0 },
            held: 1.0,
        }
    }

    /// All regions together have so many pages: no more than that is written down.
    pub fn set_footprint(&mut self, pages: u64) {
        self.log.set_most((pages / PLACES[1]).saturating_mul(PLACES[0]));
    }

    /// Bytes that it takes.
    pub const fn bytes(&self) -> usize {
        self.log.bytes()
    }

    /// Sees a touch that nothing else explains, and says what comes next and was not said before;
    /// `None` where nobody knows.
    pub fn on_fault(&mut self, fault: &FaultContext) -> Option<Prefetch> {
        let page = u32::try_from(fault.page).ok().filter(|page| *page < EMPTY & !CONFIRMED)?;
        self.now += 1;
        let at = self.thread(fault.thread);
        let Some((index, skipped)) = self.threads[at].find(&fault.pages) else {
            self.unforeseen(at, page);
            return None;
        };
        self.arrive(at, index, skipped);
        let needed = self.vain.needed(TRUSTED);
        let replay = &mut self.threads[at].replays[index];
        if replay.trust < needed {
            return None;
        }
        let length = (fault.pages.end - fault.pages.start).max(1);
        replay.depth = replay.depth.clamp(self.limits.initial, self.limits.max);
        let is_believed = self.held >= BELIEVED;
        let pages = replay.follow(&self.log, (replay.depth / length).max(1), is_believed);
        (!pages.is_empty()).then_some(Prefetch { stream: replay.name, pages, map_early: vec![] })
    }

    /// Whether it has foreseen a touch, as well as it foresees anything.
    pub fn has_predicted(&self, fault: &FaultContext) -> bool {
        let thread = self.threads.iter().find(|known| known.thread == fault.thread);
        let found = thread.and_then(|thread| Some((thread, thread.find(&fault.pages)?.0)));
        found
            .is_some_and(|(thread, index)| thread.replays[index].trust >= self.vain.needed(TRUSTED))
    }

    /// Whether pages of these are still expected.
    pub(super) fn asks(&self, name: u32, pages: &Range<Page>) -> bool {
        let mut all = self.threads.iter().flat_map(|thread| &thread.replays);
        let Some(replay) = all.find(|replay| replay.name == name) else { return false };
        let mut next = replay.next.iter();
        next.any(|next| next.is_asked && pages.contains(&next.page.into()))
    }

    /// What was asked for was given up without having been touched: it is struck out, and more has
    /// to be foreseen rightly before something is asked for.
    pub fn on_wasted(&mut self, name: u32, pages: &Range<Page>) {
        self.vain.wasted(pages.end - pages.start);
        for page in pages.clone() {
            if let Some(place) = u32::try_from(page).ok().and_then(|page| self.log.find(page)) {
                self.log.set(place, NONE);
            }
        }
        let mut all = self.threads.iter_mut().flat_map(|thread| &mut thread.replays);
        if let Some(replay) = all.find(|replay| replay.name == name) {
            replay.depth = (replay.depth / 2).max(self.limits.initial);
            replay.next.retain(|next| !next.is_asked || !pages.contains(&next.page.into()));
            replay.waiting = replay.next.iter().filter(|next| next.is_asked).count();
        }
    }

    /// The thread, by its place among those that are followed.
    fn thread(&mut self, thread: u32) -> usize {
        let known = self.threads.iter().position(|known| known.thread == thread);
        let new = Thread { thread, touched: 0, writes: None, replays: vec![] };
        let at = known.unwrap_or_else(|| {
            if self.threads.len() < THREADS_MAX {
                self.threads.push(new);
                return self.threads.len() - 1;
            }
            let silent = self.threads.iter().enumerate().min_by_key(|(_, it)| it.touched);
            let at = silent.map_or(0, |(at, _)| at);
            self.threads[at] = new;
            at
        });
        self.threads[at].touched = self.now;
        at
    }

    /// Comes to what was foreseen, behind so many that were skipped.
    fn arrive(&mut self, at: usize, index: usize, skipped: usize) {
        let replay = &mut self.threads[at].replays[index];
        replay.touched = self.now;
        replay.trust = (replay.trust + 1).min(2 * TRUST_MAX);
        replay.depth = replay.depth.saturating_mul(2).min(self.limits.max);
        let is_trusted = replay.trust >= TRUSTED;
        let passed: Vec<Next> = replay.next.drain(..=skipped).collect();
        replay.waiting -= passed.iter().filter(|next| next.is_asked).count();
        replay.refill(&self.log, 0);
        let mut written = vec![];
        for (place, next) in passed.iter().enumerate() {
            let is_touched = place == skipped;
            if !next.is_confirmed && is_trusted {
                let held = if is_touched { 1.0 } else { 0.0 };
                self.held += (held - self.held) * STEP;
            }
            if is_touched && next.is_asked {
                self.vain.used(1);
            }
            if is_touched || is_trusted {
                let is_confirmed = next.is_confirmed || is_touched;
                written.push(next.page | if is_confirmed { CONFIRMED } else { 0 });
            }
        }
        written.into_iter().for_each(|entry| self.write(at, entry));
    }

    /// A touch that no place in the log foresaw: it may be followed from where it was last.
    fn unforeseen(&mut self, at: usize, page: u32) {
        let found = self.log.find(page);
        let (now, first) = (self.now, self.limits.initial);
        let replays = &mut self.threads[at].replays;
        replays.iter_mut().for_each(|replay| replay.trust = replay.trust.saturating_sub(1));
        if let Some(place) = found {
            self.named = self.named.wrapping_add(1) & !super::OF_HISTORY;
            let mut new = Replay {
                name: self.named,
                touched: now,
                trust: 0,
                depth: first,
                next: VecDeque::new(),
                waiting: 0,
                read: Some(place),
            };
            new.refill(&self.log, 0);
            if replays.len() < REPLAYS_MAX {
                replays.push(new);
            } else if let Some(least) = replays.iter_mut().min_by_key(|it| (it.trust, it.touched)) {
                *least = new;
            }
        }
        self.write(at, page);
    }

    fn write(&mut self, at: usize, entry: u32) {
        let writes = self.threads[at].writes;
        let Some((place, given_up)) = self.log.push(writes, entry) else { return };
        self.threads[at].writes = Some(place);
        let Some(block) = given_up else { return };
        for thread in &mut self.threads {
            thread.writes.take_if(|it| *it != place && *it / BLOCK == block);
            for replay in &mut thread.replays {
                replay.read.take_if(|it| *it / BLOCK == block);
            }
        }
    }
}

impl Thread {
    /// Which replay foresaw a touch, and behind how many others.
    fn find(&self, pages: &Range<Page>) -> Option<(usize, usize)> {
        let found = self.replays.iter().enumerate().filter_map(|(index, replay)| {
            let mut next = replay.next.iter().take(LOOK);
            Some((index, next.position(|next| pages.contains(&next.page.into()))?))
        });
        found.max_by_key(|(index, _)| {
            let replay = &self.replays[*index];
            (replay.trust, replay.touched)
        })
    }
}

impl Replay {
    /// Reads on until so many are known that come next.
    fn refill(&mut self, log: &Log, count: usize) {
        while self.next.len() < count.max(LOOK)
            && let Some(place) = self.read.and_then(|read| log.behind(read))
        {
            let entry = log.get(place);
            if entry != NONE {
                let (page, is_confirmed) = (entry & !CONFIRMED, entry & CONFIRMED != 0);
                self.next.push_back(Next { page, is_confirmed, is_asked: false });
            }
            self.read = Some(place);
        }
    }

    /// What to ask for now, to be so many touches ahead.
    fn follow(&mut self, log: &Log, depth: u64, is_believed: bool) -> Vec<Range<Page>> {
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        // As of streams: half of what one is ahead is used before more comes.
        if self.waiting * 2 > depth {
            return vec![];
        }
        self.refill(log, depth);
        let is_new = |next: &&mut Next| !next.is_asked && (next.is_confirmed || is_believed);
        let all = self.next.iter_mut().take(depth).filter(is_new);
        let asked = all.map(|next| {
            next.is_asked = true;
            u64::from(next.page)..u64::from(next.page) + 1
        });
        let pages: Vec<_> = asked.collect();
        self.waiting += pages.len();
        pages
    }
}

/// What was touched, in blocks that lie behind each other by thread; the oldest is written over.
#[derive(Clone, Debug)]
struct Log {
    blocks: Vec<Block>,
    /// Where a page is, by a part of its hash; the page there says whether it is the one.
    index: Vec<Place>,
    blocks_max: usize,
    /// The oldest block, once there are as many as may be.
    oldest: usize,
}

#[derive(Clone, Debug)]
struct Block {
    /// Pages, with [`CONFIRMED`].
    entries: Box<[u32; BLOCK as usize]>,
    /// The block behind it.
    behind: u32,
}

impl Log {
    const fn new() -> Self {
        Self { blocks: vec![], index: vec![], blocks_max: 0, oldest: 0 }
    }

    /// It may be so many places long.
    fn set_most(&mut self, places: u64) {
        // A place is known by 31 bits.
        let blocks = (places / u64::from(BLOCK)).min(u64::from(CONFIRMED / BLOCK) - 1);
        self.blocks_max = blocks as usize;
    }

    const fn bytes(&self) -> usize {
        let blocks = self.blocks.len() * BLOCK as usize * 4;
        blocks + self.blocks.capacity() * size_of::<Block>() + self.index.capacity() * 4
    }

    fn get(&self, place: Place) -> u32 {
        self.blocks[(place / BLOCK) as usize].entries[(place % BLOCK) as usize]
    }

    fn set(&mut self, place: Place, entry: u32) {
        self.blocks[(place / BLOCK) as usize].entries[(place % BLOCK) as usize] = entry;
    }

    /// The place behind another one, if it is written.
    fn behind(&self, place: Place) -> Option<Place> {
        let mut next = place + 1;
        if next.is_multiple_of(BLOCK) {
            let block = self.blocks[(place / BLOCK) as usize].behind;
            next = (block != NONE).then(|| block * BLOCK)?;
        }
        (self.get(next) != EMPTY).then_some(next)
    }

    /// The last place of a page.
    fn find(&self, page: u32) -> Option<Place> {
        let place = *self.index.get(self.slot(page))?;
        let is_there = place != NONE && {
            let entry = self.get(place);
            entry < EMPTY && entry & !CONFIRMED == page
        };
        is_there.then_some(place)
    }

    fn slot(&self, page: u32) -> usize {
        // Fibonacci hashing (Knuth, The Art of Computer Programming vol. 3, section 6.4).
        let hash = u64::from(page).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (hash as usize) & (self.index.len().wrapping_sub(1))
    }

    /// Writes behind a place, or where nobody writes; says where, and which block was given up for
    /// it. `None` where there is no room at all.
    fn push(&mut self, behind: Option<Place>, entry: u32) -> Option<(Place, Option<u32>)> {
        let within = behind.map(|place| place + 1).filter(|place| !place.is_multiple_of(BLOCK));
        let (place, given_up) = match within {
            Some(place) => (place, None),
            None => {
                let (block, is_old) = self.block()?;
                if let Some(behind) = behind.map(|behind| behind / BLOCK).filter(|it| *it != block)
                {
                    self.blocks[behind as usize].behind = block;
                }
                (block * BLOCK, is_old.then_some(block))
            }
        };
        self.set(place, entry);
        let slot = self.slot(entry & !CONFIRMED);
        self.index[slot] = place;
        Some((place, given_up))
    }

    /// An empty block, and whether it is one that was written over.
    fn block(&mut self) -> Option<(u32, bool)> {
        let blocks = self.blocks.len();
        if blocks < self.blocks_max {
            let entries = Box::new([EMPTY; BLOCK as usize]);
            self.blocks.push(Block { entries, behind: NONE });
            let places = self.blocks.len() * BLOCK as usize;
            if self.index.len() * PLACES_OF_INDEX < places {
                self.index_again();
            }
            return Some((blocks as u32, false));
        }
        let at = self.oldest;
        let block = self.blocks.get_mut(at)?;
        block.behind = NONE;
        block.entries.fill(EMPTY);
        self.oldest = (at + 1) % blocks;
        Some((at as u32, true))
    }

    /// Makes the index twice as large; blocks that were added later are newer.
    fn index_again(&mut self) {
        self.index = vec![NONE; (self.index.len() * 2).max(BLOCK as usize / 2)];
        for place in 0..self.blocks.len() as u32 * BLOCK {
            let entry = self.get(place);
            if entry < EMPTY {
                let slot = self.slot(entry & !CONFIRMED);
                self.index[slot] = place;
            }
        }
    }
}
