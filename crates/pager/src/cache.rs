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

use crate::{
    advice::Advice,
    cyclic::Cyclic,
    index::{ExtentId, Index},
    pool::{Frame, ORDER_MAX, Pool},
    predict::{
        Page, Touch,
        streams::{Limits, Streams},
    },
    queue::{Links, Queue},
    ranges::Ranges,
};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

/// So many frames are kept free or at rest: one part in so many of all, and no more than it takes
/// while a drive is busy with the next.
const RESERVE_PART: u32 = 16;
const RESERVE_MAX: u32 = 4096;

/// One part in so many of all may hold what was foreseen and not yet touched.
const FORESEEN_PART: u32 = 8;

/// Of a loop, one part in so many of all holds what has just gone by, and the rest what is kept.
const GONE_BY_PART: u32 = 32;

/// One extent in so many of a loop is kept all the same, so that what is kept of a phase that has
/// ended is not kept for ever (bimodal insertion: Qureshi et al., "Adaptive Insertion Policies for
/// High Performance Caching", ISCA 2007).
const KEPT_ONE_IN: u32 = 16;

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A thread touched a page that is not mapped, and waits.
    Touched {
        /// The thread.
        thread: u32,
        /// The page.
        page: Page,
        /// Whether it writes.
        is_write: bool,
    },
    /// An extent has its content, or the drive has failed.
    Filled(ExtentId, Result<(), Failed>),
    /// An extent is mapped, and whoever waited for a page of it goes on.
    MovedIn(ExtentId),
    /// An extent is mapped no more, and whether its content differs from what is stored.
    MovedOut(ExtentId, Content),
    /// The content of an extent is stored, or the drive has failed.
    Wrote(ExtentId, Result<(), Failed>),
    /// The content of pages is of no use any more: they are zeros when they are touched next.
    Discarded(Range<Page>),
    /// Discarded pages from this one on are zeros on the drive.
    Erased(Page),
    /// Something holds pages of an extent, which stays mapped.
    Held(ExtentId),
    /// What something held may be tried again.
    Again,
    /// The program has said something about pages.
    Advised(Range<Page>, Advice),
    /// The process is about to fork: no page is to be in its address space, and what has changed
    /// is to be stored, until it has.
    Freeze,
    /// It has.
    Thaw,
}

/// Whether what is in memory differs from what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// It is the same.
    Same,
    /// It differs, or may.
    Changed,
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
    /// Move pages to the frames, and say whether their content has changed; with `is_changed` it
    /// is known that it has.
    MoveOut {
        /// The extent.
        id: ExtentId,
        /// Where.
        span: Span,
        /// Whether it was mapped for a write, or was not stored before.
        is_changed: bool,
    },
    /// Let go of pages that something holds: their content is of no use any more.
    Drop(ExtentId, Span),
    /// Write frames to the drive.
    Write(ExtentId, Span),
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
    /// The order of extents that are brought in because one of their pages was touched.
    pub order: u8,
    /// How far streams are followed.
    pub ahead: Limits,
}

/// What was done, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Touches of pages that were not mapped.
    pub touches: u64,
    /// Of those, of pages that were ready.
    pub ready: u64,
    /// Pages that were read.
    pub read: u64,
    /// Pages that were written.
    pub written: u64,
    /// Pages that were brought in before they were touched.
    pub foreseen: u64,
    /// Of those, the ones whose extents were touched.
    pub used: u64,
    /// Of those, the ones that were given up untouched.
    pub wasted: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Filling,
    Ready,
    Mapping,
    Mapped,
    Unmapping,
    Writing,
}

/// A page that a thread waits for.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    page: Page,
    is_write: bool,
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    span: Span,
    state: State,
    /// What a thread waits for.
    wanted: Option<Wanted>,
    /// Whether what is in memory may differ from what is stored.
    is_changed: bool,
    /// The stream that foresaw it, until it is touched.
    stream: Option<u32>,
    /// Whether it goes by in a loop.
    goes_by: bool,
    /// Whether it is mapped and stays so.
    is_pinned: bool,
}

/// What of a budget is where.
#[derive(Clone, Debug)]
pub struct Cache {
    settings: Settings,
    pool: Pool,
    /// Where regions end, by where they begin.
    regions: BTreeMap<Page, Page>,
    index: Index,
    extents: Vec<Extent>,
    links: Links,
    unused: Vec<ExtentId>,
    /// Mapped, the one that was mapped first is first.
    mapped: Queue,
    mapped_frames: u32,
    /// Mapped too, but in a loop over more than fits: what has just gone by.
    gone_by: Queue,
    cyclic: Cyclic,
    /// Extents of loops so far.
    of_loop: u32,
    /// Ready after they were mapped, in the order in which they became it, and as stored.
    resting: Queue,
    /// Ready, and never touched.
    foreseen: Queue,
    /// Pages that are not in any extent, touched while no frame was free.
    waiting: VecDeque<(Page, bool)>,
    /// Frames that will be free or at rest once what is under way is done.
    leaving: u32,
    resting_frames: u32,
    /// Frames of what was foreseen, filled or not.
    foreseen_frames: u32,
    /// Which pages have been stored; the others are zeros.
    stored: Vec<u64>,
    /// Pages that are to be zeros as soon as nothing is under way with them.
    discarded: Vec<Range<Page>>,
    /// Those of them that are zeros but for the drive.
    erasing: Vec<Range<Page>>,
    /// What the program said about pages.
    advised: Ranges<Advice>,
    /// Pages that are to stay.
    pinned_pages: Ranges<()>,
    pinned_frames: u32,
    /// Extents that are being filled or mapped.
    coming: u32,
    is_frozen: bool,
    /// Whether something could not be stored since then.
    is_unwritable: bool,
    streams: Streams,
    counts: Counts,
}

impl Cache {
    /// Nothing is in memory, and nothing was ever stored.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            pool: Pool::new(settings.frames),
            regions: BTreeMap::new(),
            index: Index::default(),
            extents: vec![],
            links: Links::default(),
            unused: vec![],
            mapped: Queue::new(),
            mapped_frames: 0,
            gone_by: Queue::new(),
            cyclic: Cyclic::new(settings.frames),
            of_loop: 0,
            resting: Queue::new(),
            foreseen: Queue::new(),
            waiting: VecDeque::new(),
            leaving: 0,
            resting_frames: 0,
            foreseen_frames: 0,
            stored: vec![],
            discarded: vec![],
            erasing: vec![],
            advised: Ranges::default(),
            pinned_pages: Ranges::default(),
            pinned_frames: 0,
            coming: 0,
            is_frozen: false,
            is_unwritable: false,
            streams: Streams::new(settings.ahead),
            counts: Counts::default(),
        }
    }

    /// How much there is.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What was done so far.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Takes in what has happened, and adds what is to be done now.
    pub fn on(&mut self, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Touched { thread, page, is_write } => {
                self.counts.touches += 1;
                self.touched(page, is_write, actions);
                self.foresee(thread, page, actions);
            }
            Event::Filled(id, result) => {
                self.coming -= 1;
                match result {
                    Ok(()) => self.ready(id, actions),
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
            Event::MovedOut(id, content) => self.moved_out(id, content, actions),
            Event::Wrote(id, result) => self.wrote(id, result, actions),
            Event::Discarded(pages) => self.discarded.push(pages),
            Event::Erased(first) => self.erasing.retain(|pages| pages.start != first),
            Event::Held(id) => return self.held(id, actions),
            Event::Again => {}
            Event::Advised(pages, advice) => self.advise(&pages, advice, actions),
            Event::Freeze => self.freeze(actions),
            Event::Thaw => self.thaw(actions),
        }
        if !self.discarded.is_empty() {
            self.discard(actions);
        }
        if !self.is_frozen {
            self.make_room(actions);
            self.serve(actions);
        }
    }

    fn touched(&mut self, page: Page, is_write: bool, actions: &mut Vec<Action>) {
        let Some(id) = self.index.get(page) else {
            self.waiting.push_back((page, is_write));
            return;
        };
        let extent = &mut self.extents[id as usize];
        match extent.state {
            State::Filling | State::Unmapping | State::Writing => {
                let was_write = extent.wanted.is_some_and(|wanted| wanted.is_write);
                extent.wanted = Some(Wanted { page, is_write: is_write || was_write });
            }
            State::Ready => {
                self.counts.ready += 1;
                self.map(id, is_write, actions);
            }
            // The move that is under way wakes all who wait.
            State::Mapping => extent.is_changed |= is_write,
            State::Mapped => {
                extent.is_changed |= is_write;
                actions.push(Action::Wake(page, 1));
            }
        }
    }

    /// Brings in what the streams say comes next.
    fn foresee(&mut self, thread: u32, page: Page, actions: &mut Vec<Action>) {
        let pages = match self.index.get(page) {
            Some(id) => self.extents[id as usize].span.pages(),
            None => self.around(page, self.settings.order),
        };
        let Some(ahead) = self.streams.touch(&Touch { thread, pages }) else { return };
        let region = self.region(page);
        for range in ahead.pages {
            let mut page = range.start.max(region.start);
            let end = range.end.min(region.end);
            while page < end {
                if let Some(id) = self.index.get(page) {
                    page = self.extents[id as usize].span.pages().end;
                    continue;
                }
                let fits =
                    |order: &u8| page.is_multiple_of(1 << order) && page + (1 << order) <= end;
                let order = (0..=ORDER_MAX).rev().find(fits).unwrap_or(0);
                let order = order.min(self.room(page, order));
                if self.foreseen_frames + (1 << order) > self.settings.frames / FORESEEN_PART {
                    return;
                }
                let Some(id) = self.bring(page, order, true, actions) else { return };
                let extent = &mut self.extents[id as usize];
                extent.stream = Some(ahead.stream);
                page = extent.span.pages().end;
                self.foreseen_frames += 1 << extent.span.order;
                self.counts.foreseen += 1 << extent.span.order;
            }
        }
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
            region.start <= start && end <= region.end && !self.goes(&(start..end))
        };
        let most = (0..=most).rev().find(fits).unwrap_or(0);
        self.index.room(page, most)
    }

    /// Whether some of these pages are being discarded.
    fn goes(&self, pages: &Range<Page>) -> bool {
        let mut all = self.discarded.iter().chain(&self.erasing);
        all.any(|going| going.start < pages.end && pages.start < going.end)
    }

    /// The extent that would be brought in for a page.
    fn around(&self, page: Page, order: u8) -> Range<Page> {
        let order = self.room(page, order);
        let start = page >> order << order;
        start..start + (1 << order)
    }

    /// Begins to fill an extent with `page` in it; `None` while no frame is free.
    fn bring(
        &mut self,
        page: Page,
        order: u8,
        is_foreseen: bool,
        actions: &mut Vec<Action>,
    ) -> Option<ExtentId> {
        let most = self.room(page, order);
        let (frame, order) = (0..=most).rev().find_map(|order| {
            while self.pool.free() < 1 << order {
                self.drop_rested()?;
            }
            Some((self.pool.take(order)?, order))
        })?;
        let span = Span { page: page >> order << order, frame, order };
        let extent = Extent {
            span,
            state: State::Filling,
            wanted: None,
            is_changed: false,
            stream: None,
            goes_by: false,
            is_pinned: false,
        };
        self.coming += 1;
        let id = self.insert(extent);
        self.index.set(span.page, order, Some(id));
        let is_stored = span.pages().any(|page| self.is_stored(page));
        if is_stored {
            self.counts.read += 1 << order;
            self.cyclic.read(span.page, 1 << order, is_foreseen);
        }
        actions.push(if is_stored { Action::Read(id, span) } else { Action::Zero(id, span) });
        Some(id)
    }

    /// An extent has its content, and is mapped by nobody.
    fn ready(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        let extent = &mut self.extents[id as usize];
        extent.state = State::Ready;
        // What could not be stored must not rest, where it would be given up.
        let is_mapped = !self.is_frozen || extent.is_changed;
        if let Some(wanted) = extent.wanted.take().filter(|_| is_mapped) {
            self.enqueue(id);
            self.map(id, wanted.is_write, actions);
        } else {
            self.enqueue(id);
        }
    }

    /// Puts a ready extent into its queue.
    fn enqueue(&mut self, id: ExtentId) {
        let extent = &self.extents[id as usize];
        let frames = 1 << extent.span.order;
        if extent.stream.is_some() {
            self.foreseen.push(&mut self.links, id);
        } else {
            self.resting_frames += frames;
            self.resting.push(&mut self.links, id);
        }
    }

    fn dequeue(&mut self, id: ExtentId) {
        let extent = &self.extents[id as usize];
        let frames = 1 << extent.span.order;
        if extent.stream.is_some() {
            self.foreseen_frames -= frames;
            self.foreseen.remove(&mut self.links, id);
        } else {
            self.resting_frames -= frames;
            self.resting.remove(&mut self.links, id);
        }
    }

    /// Maps a ready extent.
    fn map(&mut self, id: ExtentId, is_write: bool, actions: &mut Vec<Action>) {
        self.dequeue(id);
        let extent = &mut self.extents[id as usize];
        let is_of_loop = extent.stream.is_some() && self.cyclic.is_loop();
        self.of_loop = self.of_loop.wrapping_add(u32::from(is_of_loop));
        extent.goes_by = is_of_loop && !self.of_loop.is_multiple_of(KEPT_ONE_IN);
        if extent.stream.take().is_some() {
            self.counts.used += 1 << extent.span.order;
        }
        extent.state = State::Mapping;
        self.coming += 1;
        extent.is_changed |= is_write;
        actions.push(Action::MoveIn(id, extent.span));
    }

    fn moved_out(&mut self, id: ExtentId, content: Content, actions: &mut Vec<Action>) {
        let extent = &mut self.extents[id as usize];
        extent.is_changed |= content == Content::Changed;
        self.leaving -= 1 << extent.span.order;
        let span = extent.span;
        let is_due = extent.wanted.is_none() || self.is_frozen;
        if extent.is_changed && is_due && !self.is_discarded(span) {
            let extent = &mut self.extents[id as usize];
            extent.state = State::Writing;
            self.leaving += 1 << extent.span.order;
            self.counts.written += 1 << extent.span.order;
            actions.push(Action::Write(id, extent.span));
        } else {
            self.ready(id, actions);
        }
    }

    fn wrote(&mut self, id: ExtentId, result: Result<(), Failed>, actions: &mut Vec<Action>) {
        let span = self.extents[id as usize].span;
        self.leaving -= 1 << span.order;
        if result.is_ok() {
            self.extents[id as usize].is_changed = false;
            span.pages().for_each(|page| self.store(page));
            self.ready(id, actions);
        } else {
            // It stays where it is safe, and is written again when it is its turn.
            self.is_unwritable = self.is_frozen;
            self.extents[id as usize]
                .wanted
                .get_or_insert(Wanted { page: span.page, is_write: true });
            self.ready(id, actions);
        }
    }

    /// What could not be read: of several pages only the one that is waited for is tried again.
    fn unreadable(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        let Extent { span, wanted, stream, .. } = self.extents[id as usize];
        if stream.is_some() {
            self.foreseen_frames -= 1 << span.order;
        }
        self.forget(id);
        let Some(Wanted { page, is_write }) = wanted else { return };
        if span.order > 0 {
            // Others may wait for other pages of it.
            actions.push(Action::Wake(span.page, 1 << span.order));
        }
        if span.order == 0 {
            actions.push(Action::Poison(page));
        } else if let Some(id) = self.bring(page, 0, false, actions) {
            self.extents[id as usize].wanted = Some(Wanted { page, is_write });
        } else {
            self.waiting.push_front((page, is_write));
        }
    }

    /// Discards what can be discarded now: what something is under way with has to wait for it.
    fn discard(&mut self, actions: &mut Vec<Action>) {
        let mut waits = vec![];
        for pages in std::mem::take(&mut self.discarded) {
            if self.discard_pages(&pages, actions) {
                waits.push(pages);
                continue;
            }
            self.wipe(&pages);
            actions.push(Action::Erase(pages.start, pages.end - pages.start));
            self.erasing.push(pages);
        }
        self.discarded = waits;
    }

    /// Discards extents of these pages, and says whether some are left.
    fn discard_pages(&mut self, pages: &Range<Page>, actions: &mut Vec<Action>) -> bool {
        let mut is_left = false;
        let mut rest = pages.clone();
        while let Some((_, id)) = self.index.first(rest.clone()) {
            let Extent { span, state, .. } = self.extents[id as usize];
            let is_whole = pages.start <= span.page && span.pages().end <= pages.end;
            match state {
                State::Ready | State::Mapped if !is_whole => {
                    self.split(id);
                    continue;
                }
                State::Ready => {
                    self.dequeue(id);
                    self.forget(id);
                }
                State::Mapped => {
                    self.unmap(id, actions);
                    is_left = true;
                }
                _ => is_left = true,
            }
            rest.start = span.pages().end;
        }
        is_left
    }

    /// Makes two halves of an extent that nothing is under way with.
    fn split(&mut self, id: ExtentId) {
        let whole = self.extents[id as usize];
        let order = whole.span.order - 1;
        let half = |which: u32| Span {
            page: whole.span.page + (u64::from(which) << order),
            frame: whole.span.frame + (which << order),
            order,
        };
        if whole.state == State::Ready {
            self.dequeue(id)
        } else {
            self.leave(id)
        }
        let other = self.insert(Extent { span: half(1), is_pinned: false, ..whole });
        self.extents[id as usize].span = half(0);
        self.index.set(half(1).page, order, Some(other));
        for id in [id, other] {
            if whole.state == State::Ready {
                // Halves of what was foreseen were foreseen, as many frames as before.
                self.foreseen_frames += if whole.stream.is_some() { 1 << order } else { 0 };
                self.enqueue(id);
            } else {
                self.enter(id);
            }
        }
    }

    /// Puts a mapped extent into its queue.
    fn enter(&mut self, id: ExtentId) {
        let extent = &self.extents[id as usize];
        if self.is_to_pin(extent) {
            self.pinned_frames += 1 << extent.span.order;
            self.extents[id as usize].is_pinned = true;
        } else if extent.goes_by {
            self.gone_by.push(&mut self.links, id);
        } else {
            self.mapped_frames += 1 << extent.span.order;
            self.mapped.push(&mut self.links, id);
        }
    }

    /// Takes a mapped extent out of its queue.
    fn leave(&mut self, id: ExtentId) {
        let extent = &mut self.extents[id as usize];
        if extent.is_pinned {
            extent.is_pinned = false;
            self.pinned_frames -= 1 << extent.span.order;
        } else if extent.goes_by {
            self.gone_by.remove(&mut self.links, id);
        } else {
            self.mapped_frames -= 1 << extent.span.order;
            self.mapped.remove(&mut self.links, id);
        }
    }

    /// Begins to unmap a mapped extent.
    fn unmap(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        self.leave(id);
        let extent = &mut self.extents[id as usize];
        extent.state = State::Unmapping;
        self.leaving += 1 << extent.span.order;
        let (span, is_changed) = (extent.span, extent.is_changed);
        actions.push(Action::MoveOut { id, span, is_changed });
    }

    fn insert(&mut self, extent: Extent) -> ExtentId {
        if let Some(id) = self.unused.pop() {
            self.extents[id as usize] = extent;
            return id;
        }
        self.extents.push(extent);
        self.extents.len() as ExtentId - 1
    }

    /// Whether all of an extent is to be discarded, so that nobody need store it.
    fn is_discarded(&self, span: Span) -> bool {
        let has = |pages: &Range<Page>| pages.start <= span.page && span.pages().end <= pages.end;
        self.discarded.iter().any(has)
    }

    /// Gives up the frames of what has rested longest; `None` where nothing rests.
    fn drop_rested(&mut self) -> Option<()> {
        let id = self.resting.first()?;
        self.dequeue(id);
        self.forget(id);
        Some(())
    }

    fn forget(&mut self, id: ExtentId) {
        let span = self.extents[id as usize].span;
        self.cyclic.give_up(span.page, 1 << span.order);
        self.index.set(span.page, span.order, None);
        self.pool.give(span.frame, span.order);
        self.unused.push(id);
    }

    /// Sees to it that there are frames before they are needed.
    fn make_room(&mut self, actions: &mut Vec<Action>) {
        let reserve = (self.settings.frames / RESERVE_PART).min(RESERVE_MAX);
        let reserve = reserve.max(2 << self.settings.order);
        while self.pool.free() + self.resting_frames + self.leaving < reserve {
            if let Some(id) = self.missed_least(reserve) {
                self.unmap(id, actions);
            } else if let Some(id) = self.foreseen.first() {
                let Extent { span, stream, .. } = self.extents[id as usize];
                self.dequeue(id);
                self.forget(id);
                self.counts.wasted += 1 << span.order;
                self.streams.wasted(stream.unwrap_or(0), &span.pages());
            } else {
                return;
            }
        }
    }

    /// The mapped extent that is missed least.
    fn missed_least(&self, reserve: u32) -> Option<ExtentId> {
        let frames = self.settings.frames;
        let kept = frames.saturating_sub(reserve + self.foreseen_frames + frames / GONE_BY_PART);
        let gone_by = self.gone_by.first().filter(|_| self.mapped_frames <= kept);
        gone_by.or(self.mapped.first()).or(self.gone_by.first())
    }

    /// Brings in what is waited for, as far as there are frames.
    fn serve(&mut self, actions: &mut Vec<Action>) {
        while let Some((page, is_write)) = self.waiting.pop_front() {
            if self.goes(&(page..page + 1)) {
                self.waiting.push_front((page, is_write));
                return;
            } else if self.index.get(page).is_some() {
                // Another thread has waited for a page beside it.
                self.touched(page, is_write, actions);
            } else if let Some(id) = self.bring(page, self.settings.order, false, actions) {
                self.extents[id as usize].wanted = Some(Wanted { page, is_write });
            } else {
                self.waiting.push_front((page, is_write));
                return;
            }
        }
    }

    fn is_stored(&self, page: Page) -> bool {
        let word = self.stored.get((page / 64) as usize).copied().unwrap_or(0);
        word >> (page % 64) & 1 == 1
    }

    fn store(&mut self, page: Page) {
        let word = (page / 64) as usize;
        if word >= self.stored.len() {
            self.stored.resize(word + 1, 0);
        }
        self.stored[word] |= 1 << (page % 64);
    }
}

mod program;
pub(crate) use program::pinned_max;

#[cfg(test)]
mod tests;
