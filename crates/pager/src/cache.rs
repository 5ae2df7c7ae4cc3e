//! What is where, and what is to be done next: a state machine without a clock, a drive or a
//! kernel.
//!
//! Memory is brought in and given up in *extents*: 2^n neighbouring pages that lie in as many
//! neighbouring frames. An extent is in one state as a whole:
//!
//! ```text
//!            touched or foreseen                     touched
//!  (none) ----------------------> Filling --> Ready ----------> Mapping --> Mapped
//!    ^                                        ^   \                           |  room is needed
//!    |                                        |    \------ Writing <--.       v
//!    '--- its frames are needed --- Ready <---'--- unchanged ------- Unmapping
//! ```
//!
//! A *ready* extent is in DRAM and in no one's address space: it was foreseen, or was mapped and
//! may be touched again soon, which costs no more than a move of page table entries.
//!
//! Whoever carries out what is said here tells what came of it, in any order.

mod prefetch_queue;

mod budget;

mod discard;

mod extent;

mod compact;

mod fault_around;

mod evict;

mod fast_path;

pub mod index;

pub mod queue;

pub mod frame_pool;

pub mod loop_detector;

pub use fast_path::{MapAttempt, PageFault};

use crate::{
    advice::Advice,
    cache::{
        frame_pool::{Frame, FramePool, ORDER_MAX},
        index::{ExtentId, Index},
        loop_detector::LoopDetector,
        queue::{Links, Queue},
    },
    page::Page,
    prefetch::{Limits, Prefetcher, Tally, is_of_history},
    ranges::Ranges,
};
use budget::Lent;
use compact::{Owners, TOGETHER};
use extent::{Extent, State, Wanted};
use fault_around::{Learner, Now};
use prefetch_queue::Pending;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
};

/// Where so many times what is needed is free, but not together, no more is given up for it.
const SCATTERED: u32 = 4;

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A thread touched a page that is not mapped, and waits.
    Fault(PageFault),
    /// An extent has its content, or the drive has failed.
    Filled(ExtentId, Result<(), Failed>),
    /// An extent is mapped, and whoever waited for a page of it goes on.
    MovedIn(ExtentId),
    /// An extent is mapped no more, and what of it differs from what is stored.
    MovedOut(ExtentId, DirtyPages),
    /// The content of an extent is stored, or the drive has failed.
    Wrote(ExtentId, Result<(), Failed>),
    /// The content of pages is of no use any more: they are zeros when they are touched next.
    Discarded(Range<Page>),
    /// Discarded pages from this one on are zeros on the drive.
    Erased(Page),
    /// Something holds pages of an extent, which stays mapped.
    Pinned(ExtentId),
    /// What something held may be tried again.
    RetryPinned,
    /// The program has said something about pages.
    Advised(Range<Page>, Advice),
    /// The process is about to fork: no page is to be in its address space, and what has changed
    /// is to be stored, until it has.
    Freeze,
    /// It has.
    Thaw,
    /// So many frames may be used from now on.
    Budget(u32),
}

/// Which pages of an extent differ from what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyPages([u64; 1 << (ORDER_MAX - 6)]);

impl DirtyPages {
    /// None of them.
    pub const EMPTY: Self = Self([0; 1 << (ORDER_MAX - 6)]);

    /// So many pages, all of them.
    pub fn all(pages: usize) -> Self {
        let mut changed = Self::EMPTY;
        (0..pages).for_each(|page| changed.insert(page));
        changed
    }

    /// Adds a page, by its number in the extent.
    pub const fn insert(&mut self, page: usize) {
        self.0[page / 64] |= 1 << (page % 64);
    }

    /// Whether it has a page.
    pub const fn contains(&self, page: usize) -> bool {
        self.0[page / 64] >> (page % 64) & 1 == 1
    }

    /// Whether none differs.
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// How many differ.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Runs of pages that differ, of an extent with so many; of two that are less than `gap` apart
    /// one is made.
    pub fn ranges(&self, pages: usize, gap: usize) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = vec![];
        for page in (0..pages).filter(|page| self.contains(*page)) {
            match runs.last_mut() {
                Some(run) if page - run.end <= gap => run.end = page + 1,
                _ => runs.push(page..page + 1),
            }
        }
        runs
    }
}

/// A drive did not do as it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// Where an extent is in the address space, and where its frames are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its first page.
    pub page: Page,
    /// Its first frame.
    pub frame: Frame,
    /// It is 2^`order` pages long.
    pub order: u8,
}

impl Span {
    /// Its pages.
    pub const fn pages(&self) -> Range<Page> {
        self.page..self.page + (1 << self.order)
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fill frames with zeros.
    Zero(ExtentId, Span),
    /// Read frames from the drive.
    Read(ExtentId, Span),
    /// Move frames to the pages, and wake who waits for them.
    MoveIn(ExtentId, Span),
    /// Move pages to the frames, and say which of them have changed; with `is_dirty` it is known
    /// that some have.
    MoveOut {
        /// The extent.
        id: ExtentId,
        /// Where.
        span: Span,
        /// Whether it was mapped for a write, or was not stored before.
        is_dirty: bool,
    },
    /// Let go of pages that something holds: their content is of no use any more.
    Drop(ExtentId, Span),
    /// Write those frames to the drive that have changed.
    Write(ExtentId, Span, DirtyPages),
    /// Wake who waits for one of so many pages from this one on: it is there, or is to be touched
    /// again.
    Wake(Page, u64),
    /// Let whoever touches this page know that its content is lost.
    Poison(Page),
    /// Make so many pages from this one on zeros on the drive, and say so: then they are discarded.
    Erase(Page, u64),
}

/// How much there is, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Frames of the budget.
    pub frames: u32,
    /// The order of extents that are brought in because one of their pages was touched, as long as
    /// nothing is known of their region.
    pub order: u8,
    /// How far streams are followed.
    pub prefetch: Limits,
}

/// What was done, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Touches of pages that were not mapped.
    pub faults: u64,
    /// Of those, of pages that were ready.
    pub minor_faults: u64,
    /// Pages that were read.
    pub read: u64,
    /// Pages that were written.
    pub written: u64,
    /// Pages that were brought in before they were touched.
    pub prefetched: u64,
    /// Of those, the ones whose extents were touched.
    pub prefetch_hits: u64,
    /// Of those, the ones that were given up untouched.
    pub prefetch_wasted: u64,
    /// Pages whose frames were needed for others.
    pub evicted: u64,
    /// How long threads waited for pages, nanoseconds in all; whoever has a clock adds it.
    pub stalled_ns: u64,
    /// What of the foreseen the history foresaw; the rest were streams.
    pub history: Tally,
}

/// What of a budget is where.
#[derive(Clone, Debug)]
pub struct Cache {
    settings: Settings,
    pool: FramePool,
    /// Where regions end, by where they begin.
    regions: BTreeMap<Page, Page>,
    index: Index,
    extents: Vec<Extent>,
    links: Links,
    unused: Vec<ExtentId>,
    owners: Owners,
    /// Whether frames were needed that lie together, and there were none.
    is_scattered: bool,
    /// Mapped, the one that was mapped first is first.
    mapped: Queue,
    mapped_frames: u32,
    /// Mapped too, but in a loop over more than fits: what has just gone by.
    gone_by: Queue,
    cyclic: LoopDetector,
    /// Frames that were mapped in loops so far.
    of_loop: u64,
    /// Ready after they were mapped, in the order in which they became it, and as stored.
    resting: Queue,
    /// Ready, and never touched.
    foreseen: Queue,
    /// Pages that are not in any extent, touched while no frame was free.
    waiting: VecDeque<(Page, bool)>,
    /// Frames that will be free or at rest once what is under way is done.
    leaving: u32,
    resting_frames: u32,
    /// So many frames are kept free or at rest.
    reserve: u32,
    /// Frames of what was foreseen, filled or not.
    foreseen_frames: u32,
    /// The same of each stream that has some.
    ahead: BTreeMap<u32, u32>,
    /// Which pages have been stored; the others are zeros.
    stored: Vec<u64>,
    /// Pages whose content nobody has: who touches them gets a signal.
    lost: BTreeSet<Page>,
    /// Writes that failed since the last that did not.
    refused: usize,
    /// Pages that are to be zeros as soon as nothing is under way with them.
    discarded: Vec<Range<Page>>,
    /// Those of them that are zeros but for the drive.
    erasing: Vec<Range<Page>>,
    /// What the program said about pages.
    advised: Ranges<Advice>,
    /// Pages that are to stay.
    pinned_pages: Ranges<()>,
    pinned_frames: u32,
    /// Pages that were brought in so far.
    brought: u64,
    /// Extents that are being filled or mapped.
    coming: u32,
    is_frozen: bool,
    /// Whether what was to leave last is held by something.
    is_obstructed: bool,
    /// Whether something could not be stored since then.
    is_unwritable: bool,
    predictor: Prefetcher,
    /// What streams asked for and is not brought in yet.
    pending: VecDeque<Pending>,
    /// What is known of regions, by where they begin.
    learners: BTreeMap<Page, Learner>,
    lent: Lent,
    counts: Counts,
}

impl Cache {
    /// Nothing is in memory, and nothing was ever stored.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            pool: FramePool::new(settings.frames),
            regions: BTreeMap::new(),
            index: Index::default(),
            extents: vec![],
            links: Links::default(),
            unused: vec![],
            owners: Owners::new(settings.frames),
            is_scattered: false,
            mapped: Queue::new(),
            mapped_frames: 0,
            gone_by: Queue::new(),
            cyclic: LoopDetector::new(settings.frames),
            of_loop: 0,
            resting: Queue::new(),
            foreseen: Queue::new(),
            waiting: VecDeque::new(),
            leaving: 0,
            resting_frames: 0,
            reserve: 0,
            foreseen_frames: 0,
            ahead: BTreeMap::new(),
            stored: vec![],
            lost: BTreeSet::new(),
            refused: 0,
            discarded: vec![],
            erasing: vec![],
            advised: Ranges::default(),
            pinned_pages: Ranges::default(),
            pinned_frames: 0,
            brought: 0,
            coming: 0,
            is_frozen: false,
            is_obstructed: false,
            is_unwritable: false,
            predictor: Prefetcher::new(settings.prefetch),
            pending: VecDeque::new(),
            learners: BTreeMap::new(),
            lent: Lent::default(),
            counts: Counts::default(),
        }
    }

    /// How much there is.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Pages of all regions.
    pub fn region_pages(&self) -> u64 {
        self.regions.iter().map(|(start, end)| end - start).sum()
    }

    /// What was done so far.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Takes in what has happened, and adds what is to be done now.
    pub fn on(&mut self, event: Event, actions: &mut Vec<Action>) {
        let mut touch = None;
        match event {
            Event::Fault(PageFault { thread, page, offset, is_write }) => {
                self.touch(page, is_write, actions);
                touch = Some((thread, page, offset));
            }
            Event::Filled(id, result) => {
                self.coming -= 1;
                match result {
                    Ok(()) => self.filled(id, actions),
                    Err(Failed) => self.unreadable(id, actions),
                }
            }
            Event::MovedIn(id) => {
                self.coming -= 1;
                self.extents[id as usize].state = State::Mapped;
                self.enter(id);
                if self.is_frozen && !self.is_unwritable {
                    self.unmap(id, actions);
                }
            }
            Event::MovedOut(id, changed) => self.moved_out(id, changed, actions),
            Event::Wrote(id, result) => self.wrote(id, result, actions),
            Event::Discarded(pages) => self.discarded.push(pages),
            Event::Erased(first) => self.erasing.retain(|pages| pages.start != first),
            Event::Pinned(id) => return self.held(id, actions),
            Event::RetryPinned => {}
            Event::Advised(pages, advice) => self.advise(&pages, advice, actions),
            Event::Budget(frames) => self.resize(frames),
            Event::Freeze => self.freeze(actions),
            Event::Thaw => self.thaw(actions),
        }
        self.settle(touch, actions);
    }

    /// Does what follows from what has happened, with these touches of threads.
    fn settle(
        &mut self,
        touches: impl IntoIterator<Item = (u32, Page, u16)>,
        actions: &mut Vec<Action>,
    ) {
        if !self.discarded.is_empty() {
            self.discard(actions);
        }
        if !self.is_frozen {
            self.make_room(actions);
            self.serve(actions);
            for (thread, page, offset) in touches {
                self.foresee(thread, page, offset, actions);
            }
            self.bring_pending(actions);
            self.make_room(actions);
            self.lend();
        }
    }

    fn touched(&mut self, page: Page, is_write: bool, actions: &mut Vec<Action>) {
        if self.lost.contains(&page) {
            // It was lost while the word of this was on its way, or in a parent.
            actions.extend([Action::Poison(page), Action::Wake(page, 1)]);
            return;
        }
        let Some(id) = self.index.get(page) else {
            self.waiting.push_back((page, is_write));
            return;
        };
        let extent = &mut self.extents[id as usize];
        let (frames, span, stream) = (extent.frames(), extent.span(), extent.stream);
        match extent.state {
            State::Filling => extent.want(page, is_write),
            State::Unmapping | State::Writing => {
                extent.want(page, is_write);
                self.rescued(frames);
            }
            State::Ready => {
                self.counts.minor_faults += 1;
                let is_probe = extent.is_probe;
                if is_probe {
                    self.dequeue(id);
                    self.used(id);
                    self.probe(id, Wanted { page, is_write });
                    self.enqueue(id);
                } else if stream == 0 {
                    self.rescued(frames);
                }
                self.map(id, is_write, actions);
                if !is_probe {
                    self.map_beside(span, stream, actions);
                }
            }
            // The move that is under way wakes all who wait.
            State::Mapping => extent.is_dirty |= is_write,
            State::Mapped => {
                extent.is_dirty |= is_write;
                actions.push(Action::Wake(page, 1));
            }
        }
    }

    /// When it is, for those who learn.
    fn now(&self) -> Now {
        Now { brought: self.brought, budget: self.budget() }
    }

    /// What is known of the region that a page is in.
    fn learner(&mut self, page: Page) -> &mut Learner {
        let first = self.region(page).start;
        let order = self.settings.order;
        self.learners.entry(first).or_insert_with(|| Learner::new(order))
    }

    /// Says how much memory there is to know about.
    fn measure(&mut self) {
        let pages = self.regions.iter().map(|(start, end)| end - start);
        self.predictor.set_footprint(pages.sum());
        let regions = &self.regions;
        self.learners.retain(|first, _| regions.contains_key(first));
    }

    /// The region that a page is in.
    fn region(&self, page: Page) -> Range<Page> {
        let region = self.regions.range(..=page).next_back().filter(|it| *it.1 > page);
        region.map_or(page..page + 1, |(start, end)| *start..*end)
    }

    /// The order of the largest extent around a page that holds no other, `most` at most.
    fn room(&self, page: Page, most: u8) -> u8 {
        let region = self.region(page);
        let fits = |order: &u8| {
            let start = page >> order << order;
            let end = start + (1 << order);
            let is_lost = self.lost.range(start..end).next().is_some();
            region.start <= start && end <= region.end && !is_lost && !self.goes(&(start..end))
        };
        let most = (0..=most).rev().find(fits).unwrap_or(0);
        self.index.room(page, most)
    }

    /// Whether a page cannot be brought in: it is being discarded, or lost.
    fn is_out_of_reach(&self, page: Page) -> bool {
        self.lost.contains(&page) || self.goes(&(page..page + 1))
    }

    /// Begins to fill an extent with `page` in it, for a stream or for who waits (0); `None` while
    /// no frame is free.
    fn bring(
        &mut self,
        page: Page,
        order: u8,
        stream: u32,
        actions: &mut Vec<Action>,
    ) -> Option<ExtentId> {
        if self.is_out_of_reach(page) {
            return None;
        }
        let most = self.room(page, order);
        let (frame, order) = self.frames(most)?;
        let span = Span { page: page >> order << order, frame, order };
        self.coming += 1;
        self.brought += 1 << order;
        let id = self.insert(Extent::new(span, State::Filling, stream));
        self.index.set(span.page, order, Some(id));
        let is_stored = self.has_stored(span.pages());
        if is_stored {
            self.counts.read += 1 << order;
            self.cyclic.read(span.page, 1 << order, stream != 0);
        }
        actions.push(if is_stored { Action::Read(id, span) } else { Action::Zero(id, span) });
        Some(id)
    }

    /// The first of 2^`most` frames, for which what rests is given up, or of fewer if there are
    /// many but not together; `None` where it is better to wait for what is being given up.
    fn frames(&mut self, most: u8) -> Option<(Frame, u8)> {
        self.reserve_more(1 << most);
        for order in (0..=most).rev() {
            while self.pool.free() < SCATTERED << order {
                if let Some(frame) = self.pool.take(order) {
                    return Some((frame, order));
                }
                if self.drop_rested().is_none() {
                    break;
                }
            }
            if let Some(frame) = self.pool.take(order) {
                return Some((frame, order));
            }
            let is_coming = self.leaving >= 1 << order && !self.is_obstructed;
            if self.pool.free() < SCATTERED << order && is_coming {
                return None;
            }
            self.is_scattered |= order >= TOGETHER;
        }
        None
    }

    /// An extent has its content, and is mapped by nobody.
    fn ready(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        let extent = &mut self.extents[id as usize];
        extent.state = State::Ready;
        let wanted = extent.wanted();
        extent.forget_wanted();
        // What could not be stored must not rest, where it would be given up.
        let is_mapped = !self.is_frozen || extent.is_dirty;
        let is_leaving = std::mem::take(&mut extent.is_leaving) && !extent.is_dirty;
        self.enqueue(id);
        if let Some(wanted) = wanted.filter(|_| is_mapped) {
            self.map(id, wanted.is_write, actions);
        } else if is_leaving && !self.is_frozen {
            self.drop_at_rest(id);
        }
    }

    /// Puts a ready extent into its queue.
    fn enqueue(&mut self, id: ExtentId) {
        let extent = &self.extents[id as usize];
        if extent.stream != 0 {
            self.foreseen.push(&mut self.links, id);
        } else {
            self.resting_frames += extent.frames();
            self.resting.push(&mut self.links, id);
        }
    }

    fn dequeue(&mut self, id: ExtentId) {
        let extent = &self.extents[id as usize];
        if extent.stream != 0 {
            let (stream, frames) = (extent.stream, extent.frames());
            self.foreseen_less(stream, frames);
            self.foreseen.remove(&mut self.links, id);
        } else {
            self.resting_frames -= extent.frames();
            self.resting.remove(&mut self.links, id);
        }
    }

    /// Maps a ready extent.
    fn map(&mut self, id: ExtentId, is_write: bool, actions: &mut Vec<Action>) {
        self.dequeue(id);
        let extent = &mut self.extents[id as usize];
        self.cyclic.touch(&extent.span().pages());
        let frames = u64::from(extent.frames());
        let is_of_loop = extent.stream != 0 && self.cyclic.is_loop();
        self.of_loop = self.of_loop.wrapping_add(frames * u64::from(is_of_loop));
        let round = self.of_loop / (evict::KEPT_ROUND * u64::from(self.settings.frames));
        // What goes by and is touched once more before its frames are others' still goes by.
        let goes_by = is_of_loop || extent.goes_by && self.cyclic.is_loop();
        extent.goes_by = goes_by && !evict::is_kept(extent.span().page, round);
        extent.state = State::Mapping;
        extent.is_taken = false;
        self.coming += 1;
        extent.is_dirty |= is_write;
        actions.push(Action::MoveIn(id, extent.span()));
        self.used(id);
    }

    /// What was foreseen is touched.
    fn used(&mut self, id: ExtentId) {
        let extent = &mut self.extents[id as usize];
        let (frames, stream) = (u64::from(extent.frames()), std::mem::take(&mut extent.stream));
        self.counts.prefetch_hits += if stream != 0 { frames } else { 0 };
        self.counts.history.hits += if is_of_history(stream) { frames } else { 0 };
    }

    fn insert(&mut self, extent: Extent) -> ExtentId {
        let id = self.unused.pop().unwrap_or_else(|| {
            self.extents.push(extent);
            self.extents.len() as ExtentId - 1
        });
        self.put(id, extent);
        id
    }

    fn put(&mut self, id: ExtentId, extent: Extent) {
        self.owners.set(extent.span().frame, id);
        self.extents[id as usize] = extent;
    }

    /// Brings in what is waited for, as far as there are frames.
    fn serve(&mut self, actions: &mut Vec<Action>) {
        while let Some((page, is_write)) = self.waiting.pop_front() {
            if self.goes(&(page..page + 1)) {
                self.waiting.push_front((page, is_write));
                return;
            } else if self.index.get(page).is_some() || self.lost.contains(&page) {
                // Another thread has waited for a page beside it.
                self.touched(page, is_write, actions);
                continue;
            }
            let (order, is_probe) = self.wanted_order(page);
            let Some(id) = self.bring(page, order, 0, actions) else {
                if self.is_stuck() {
                    self.lose(page, actions);
                    continue;
                }
                self.waiting.push_front((page, is_write));
                return;
            };
            let extent = &mut self.extents[id as usize];
            extent.is_probe = is_probe;
            extent.want(page, is_write);
        }
    }

    fn has_stored(&self, pages: Range<Page>) -> bool {
        let word = |at: u64| self.stored.get(at as usize).copied().unwrap_or(0);
        if pages.start.is_multiple_of(64) && pages.end.is_multiple_of(64) {
            return (pages.start / 64..pages.end / 64).any(|at| word(at) != 0);
        }
        pages.into_iter().any(|page| word(page / 64) >> (page % 64) & 1 == 1)
    }

    fn store(&mut self, page: Page) {
        let word = (page / 64) as usize;
        if word >= self.stored.len() {
            self.stored.resize(word + 1, 0);
        }
        self.stored[word] |= 1 << (page % 64);
    }
}

mod advise;
pub(crate) use advise::pinned_max;

#[cfg(test)]
mod tests;
