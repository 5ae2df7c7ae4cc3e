//! Bringing in what streams foresee.

use super::{Action, Cache, Learner, Span, State};
use crate::{
    advice::Advice,
    index::ExtentId,
    pool::ORDER_MAX,
    predict::{Page, Touch, is_of_history},
};
use std::{collections::VecDeque, ops::Range};

/// One part in so many of all frames may hold what was foreseen and not yet touched ...
const FORESEEN_PART: u32 = 8;

/// ... and no more frames than it takes to keep several drives busy: 128 MiB.
const FORESEEN_MAX: u32 = 1 << 15;

/// Who waits for a page of a stream waits for 2^7 pages of it at most: 512 KiB, of which a drive
/// gives most of its bandwidth.
const WAITED_ORDER: u8 = 7;

/// Huge pages are given to new memory while more than one part in so many of all frames is free.
const FRESH_PART: u32 = 4;

/// A stream is never less than so many huge pages ahead for the sake of whole ones.
const HUGES_AHEAD: u64 = 2;

/// What a stream asked for and is not brought in yet.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    stream: u32,
    /// In the order of their need.
    ranges: VecDeque<Range<Page>>,
    /// Whether it goes from higher pages to lower ones.
    is_down: bool,
}

impl Pending {
    /// Pages from the first on.
    pub(super) fn new(stream: u32, pages: Range<Page>) -> Self {
        Self { stream, ranges: [pages].into(), is_down: false }
    }

    /// Adds pages behind all others.
    fn push(&mut self, range: Range<Page>) {
        match self.ranges.back_mut() {
            Some(last) if !self.is_down && last.end == range.start => last.end = range.end,
            Some(last) if self.is_down && last.start == range.end => last.start = range.start,
            _ => self.ranges.push_back(range),
        }
    }
}

impl Cache {
    /// Asks the streams what comes next.
    pub(super) fn foresee(&mut self, thread: u32, page: Page) {
        let pages = match self.index.get(page) {
            Some(id) => self.extents[id as usize].span().pages(),
            None => page..page + 1,
        };
        let (within, advice) = (self.region(page), self.advised(page));
        let touch = Touch { thread, page, pages, within, advice };
        let Some(ahead) = self.predictor.touch(&touch) else { return };
        let ranges = ahead.pages.iter().cloned();
        let is_down = ahead.pages.first().is_some_and(|range| range.end <= page);
        let same =
            |pending: &&mut Pending| pending.stream == ahead.stream && pending.is_down == is_down;
        if let Some(pending) = self.pending.iter_mut().find(same) {
            ranges.for_each(|range| pending.push(range));
        } else {
            let mut pending = Pending { stream: ahead.stream, ranges: VecDeque::new(), is_down };
            ranges.for_each(|range| pending.push(range));
            self.pending.push_back(pending);
        }
    }

    /// Brings in what is foreseen as far as there is room for it, of each stream a piece in turn,
    /// and of none more than its share.
    pub(super) fn bring_pending(&mut self, actions: &mut Vec<Action>) {
        let most = (self.budget() / FORESEEN_PART).min(FORESEEN_MAX);
        let mut waiting = 0;
        while waiting < self.pending.len() {
            let Some(mut pending) = self.pending.pop_front() else { return };
            let Some((page, order)) = self.next_pending(&mut pending) else { continue };
            let stream = pending.stream;
            let has = self.ahead.get(&stream).copied().unwrap_or(0);
            let share = most / (self.ahead.len() as u32 + u32::from(has == 0));
            self.pending.push_back(pending);
            let is_later = self.pending.back().is_some_and(|pending| self.has_more(pending, has));
            if is_later || has > 0 && has + (1 << order) > share {
                waiting += 1;
                continue;
            }
            if self.foreseen_frames + (1 << order) > most && !self.drop_forgotten(stream, most) {
                return;
            }
            let Some(id) = self.bring(page, order, stream, actions) else { return };
            let frames = self.extents[id as usize].frames();
            self.foreseen_more(stream, frames);
            self.counts.foreseen += u64::from(frames);
            self.counts.history.foreseen +=
                if is_of_history(stream) { u64::from(frames) } else { 0 };
            waiting = 0;
        }
    }

    /// Maps what lies beside an extent of a stream and is ready for the same stream: where frames
    /// do not lie together, extents are small, and each would be a touch of its own.
    pub(super) fn map_beside(&mut self, span: Span, stream: u32, actions: &mut Vec<Action>) {
        if stream == 0 {
            return;
        }
        let mut left = 1_u64 << ORDER_MAX;
        let [mut start, mut end] = [span.page, span.pages().end];
        loop {
            let beside = [Some(end), start.checked_sub(1)].into_iter().flatten();
            let mut ids = beside.filter_map(|page| self.index.get(page));
            let is_same = |id: &ExtentId| {
                let extent = &self.extents[*id as usize];
                extent.stream == stream
                    && extent.state == State::Ready
                    && u64::from(extent.frames()) <= left
            };
            let Some(id) = ids.find(is_same) else { return };
            let Range { start: first, end: last } = self.extents[id as usize].span().pages();
            (start, end) = (start.min(first), end.max(last));
            left -= last - first;
            self.map(id, false, actions);
        }
    }

    pub(super) fn foreseen_more(&mut self, stream: u32, frames: u32) {
        self.foreseen_frames += frames;
        *self.ahead.entry(stream).or_default() += frames;
    }

    pub(super) fn foreseen_less(&mut self, stream: u32, frames: u32) {
        self.foreseen_frames -= frames;
        if let Some(has) = self.ahead.get_mut(&stream) {
            *has -= frames;
            if *has == 0 {
                self.ahead.remove(&stream);
            }
        }
    }

    /// Where the next piece of a stream is, and how large it may be; what is in memory is passed
    /// over. `None` where the stream wants no more.
    fn next_pending(&self, pending: &mut Pending) -> Option<(Page, u8)> {
        loop {
            let range = pending.ranges.front_mut()?;
            let page = if pending.is_down { range.end - 1 } else { range.start };
            if let Some(id) = self.index.get(page) {
                let of = self.extents[id as usize].span().pages();
                match pending.is_down {
                    true => range.end = of.start.max(range.start),
                    false => range.start = of.end.min(range.end),
                }
            } else if self.is_out_of_reach(page) {
                match pending.is_down {
                    true => range.end -= 1,
                    false => range.start += 1,
                }
            } else if self.predictor.asks(pending.stream, range) {
                // One page alone stands for what a touch of it would bring.
                let is_alone = is_of_history(pending.stream) && range.end - range.start == 1;
                let order = if is_alone {
                    self.learned(page)
                } else {
                    fitting(page, range, pending.is_down, ORDER_MAX)
                };
                return Some((page, order));
            } else {
                range.end = range.start;
            }
            if range.is_empty() {
                pending.ranges.pop_front();
            }
        }
    }

    /// Whether what is left of a stream is the beginning of a huge page, the rest of which it will
    /// ask for before it needs it, with so many frames ahead.
    fn has_more(&self, pending: &Pending, has: u32) -> bool {
        const HUGE: u64 = 1 << ORDER_MAX;
        if pending.ranges.len() != 1 {
            return false;
        }
        let Some(range) = pending.ranges.front() else { return false };
        let region = self.region(range.start);
        let (is_begun, is_end) = match pending.is_down {
            true => (range.end.is_multiple_of(HUGE), range.start == region.start),
            false => (range.start.is_multiple_of(HUGE), range.end == region.end),
        };
        let is_part = range.end - range.start < HUGE && is_begun && !is_end;
        is_part && u64::from(has) >= HUGES_AHEAD * HUGE
    }

    /// The order of what is brought in because somebody waits for a page, and whether it is a
    /// probe.
    pub(super) fn wanted_order(&mut self, page: Page) -> (u8, bool) {
        let of_stream = |pending: &Pending| {
            let range = pending.ranges.iter().find(|range| range.contains(&page))?;
            let fits = |order: &u8| {
                let start = page >> order << order;
                range.start <= start && start + (1 << order) <= range.end
            };
            (0..=WAITED_ORDER).rev().find(fits)
        };
        if let Some(order) = self.pending.iter().find_map(of_stream) {
            return (order, false);
        }
        if self.advised(page) == Advice::Random {
            return (0, false);
        }
        // What was never stored costs no more than zeros, as long as there is room for them.
        let start = page >> ORDER_MAX << ORDER_MAX;
        let is_plenty = self.pool.free() > self.budget() / FRESH_PART;
        if is_plenty && !self.has_stored(start..start + (1 << ORDER_MAX)) {
            return (ORDER_MAX, false);
        }
        let learner = self.learner(page);
        (learner.order(), learner.miss(page))
    }

    /// The order that was learned for a page's region.
    fn learned(&self, page: Page) -> u8 {
        let learner = self.learners.get(&self.region(page).start);
        learner.map_or(self.settings.order, Learner::order)
    }

    /// Gives up what was foreseen longest ago if nobody asks for it any more; a stream waits.
    fn drop_forgotten(&mut self, waits: u32, most: u32) -> bool {
        let Some(id) = self.foreseen.first() else { return false };
        let extent = self.extents[id as usize];
        let is_forgotten = self.is_over(extent.stream, waits, most)
            || !self.predictor.asks(extent.stream, &extent.span().pages());
        if is_forgotten {
            self.drop_foreseen(id);
        }
        is_forgotten
    }
}

/// The order of the largest aligned piece at the end of a range from which it is read.
fn fitting(page: Page, range: &Range<Page>, is_down: bool, most: u8) -> u8 {
    let fits = |order: &u8| {
        let start = page >> order << order;
        let end = start + (1 << order);
        let is_next = if is_down { end == page + 1 } else { start == page };
        is_next && range.start <= start && end <= range.end
    };
    (0..=most).rev().find(fits).unwrap_or(0)
}
