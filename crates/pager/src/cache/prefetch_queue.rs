//! Bringing in what streams foresee.

use super::{Action, Cache, Learner, Span, State};
use crate::{
    advice::Advice,
    cache::{frame_pool::ORDER_MAX, index::ExtentId},
    page::Page,
    prefetch::{FaultContext, Prefetch, is_of_history},
};
use std::{collections::VecDeque, ops::Range};

/// One part in so many of all frames may hold what was foreseen and not yet touched ...
const FORESEEN_PART: u32 = 16;

/// ... and no more frames than it takes to keep several drives busy: 128 MiB ...
const FORESEEN_MAX: u32 = 1 << 15;

/// ... and no fewer than bridge the moments in which one answers late, 16 MiB, as long as those are
/// no more than one part in so many.
const FORESEEN_MIN: u32 = 1 << 12;
const FORESEEN_MOST_PART: u32 = 8;

/// Of its share, a stream uses one part in so many before more is brought in.
const USED_PART: u32 = 8;

/// Who waits for a page of a stream waits for 2^7 pages of it at most: 512 KiB, of which a drive
/// gives most of its bandwidth.
const WAITED_ORDER: u8 = 7;

/// Huge pages are given to new memory while more than one part in so many of all frames is free.
const FRESH_PART: u32 = 4;

/// A stream is never less than so many huge pages ahead for the sake of whole ones.
const HUGES_AHEAD: u64 = 2;

/// As long as a budget is brought in is so many ticks, and what was foreseen and not touched for so
/// many more is given up before what was touched.
const BUDGET_TICKS: u32 = 1024;
const FORGOTTEN_AFTER: u16 = 512;

/// So many extents are looked at to find what is mapped before or behind a page, and so many pieces
/// that a stream asked for to find whether it is one of them.
const LOOKED_AT: u32 = 64;

/// What a stream asked for and is not brought in yet.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    stream: u32,
    /// In the order of their need.
    ranges: VecDeque<Range<Page>>,
    /// What is brought in around a page, as long as some of it is missing.
    around: Range<Page>,
    /// Whether that is a probe, once it is decided.
    probe: Option<bool>,
    /// Whether it goes from higher pages to lower ones.
    is_down: bool,
    /// Whether it has its share: some of that is to be used before more comes, or each page that is
    /// touched would be a transfer of its own.
    has_share: bool,
}

impl Pending {
    /// Nothing yet.
    const fn new(stream: u32, is_down: bool) -> Self {
        Self {
            stream,
            ranges: VecDeque::new(),
            around: 0..0,
            probe: None,
            is_down,
            has_share: false,
        }
    }

    /// Pages from the first on.
    pub(super) fn of(stream: u32, pages: Range<Page>) -> Self {
        Self { ranges: [pages].into(), ..Self::new(stream, false) }
    }

    /// Whether it is of a stream that goes so.
    const fn is_of(&self, stream: u32, is_down: bool) -> bool {
        self.stream == stream && self.is_down == is_down
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
    pub(super) fn foresee(
        &mut self,
        thread: u32,
        page: Page,
        offset: u16,
        actions: &mut Vec<Action>,
    ) {
        let extent = self.index.get(page).map(|id| self.extents[id as usize]);
        let pages = extent.map_or(page..page + 1, |extent| extent.span().pages());
        let is_unforeseen =
            extent.is_none_or(|extent| extent.state == State::Filling && extent.stream == 0);
        let (region, advice) = (self.region(page), self.advised(page));
        let mapped_around = self.mapped_around(&pages);
        let fault = FaultContext { thread, page, offset, pages, mapped_around, region, advice };
        let Some(ahead) = self.predictor.on_fault(&fault) else {
            // Of what is touched at random no stream has seen the touch.
            if is_unforeseen && advice != Advice::Random {
                self.ask_again(page);
            }
            return;
        };
        for pages in &ahead.map_early {
            self.map_soon(ahead.stream, pages, actions);
        }
        if ahead.pages.is_empty() {
            return;
        }
        let ranges = ahead.pages.iter().cloned();
        let is_down = ahead.pages.first().is_some_and(|range| range.end <= page);
        let predictor = &self.predictor;
        let same = self.pending.iter_mut().find(|it| it.is_of(ahead.stream, is_down));
        if let Some(pending) = same {
            // What the stream has passed by is not to pile up.
            while let Some(range) = pending.ranges.front()
                && !predictor.asks(pending.stream, range)
            {
                pending.ranges.pop_front();
            }
            ranges.for_each(|range| pending.push(range));
        } else {
            let mut pending = Pending::new(ahead.stream, is_down);
            ranges.for_each(|range| pending.push(range));
            // Nor is that of streams that are forgotten.
            self.pending
                .retain(|it| it.ranges.iter().any(|range| predictor.asks(it.stream, range)));
            self.pending.push_back(pending);
        }
    }

    /// A page is brought in that may have been there when it was asked for, and was given up since:
    /// what comes next may be missing too, as far as it was passed over.
    fn ask_again(&mut self, page: Page) {
        let Some(Prefetch { stream, pages, .. }) = self.predictor.expected() else { return };
        let Some(first) = pages.first() else { return };
        let is_down = first.end <= page;
        let same = self.pending.iter().position(|it| it.is_of(stream, is_down));
        let index = same.unwrap_or_else(|| {
            self.pending.push_back(Pending::new(stream, is_down));
            self.pending.len() - 1
        });
        let ranges = &mut self.pending[index].ranges;
        let next = ranges.front().cloned();
        for Range { start, end } in pages.into_iter().rev() {
            let passed = match &next {
                Some(next) if is_down => start.max(next.end)..end,
                Some(next) => start..end.min(next.start),
                None => start..end,
            };
            if !passed.is_empty() {
                ranges.push_front(passed);
            }
        }
    }

    /// Pages with all around them that are mapped, as far as it is looked.
    fn mapped_around(&self, pages: &Range<Page>) -> Range<Page> {
        let mapped = |page: Page| {
            let extent = &self.extents[self.index.get(page)? as usize];
            matches!(extent.state, State::Mapped).then(|| extent.span().pages())
        };
        let Range { mut start, mut end } = pages.clone();
        for _ in 0..LOOKED_AT {
            let Some(before) = start.checked_sub(1).and_then(mapped) else { break };
            start = before.start;
        }
        for _ in 0..LOOKED_AT {
            let Some(behind) = mapped(end) else { break };
            end = behind.end;
        }
        start..end
    }

    /// Brings in what is foreseen as far as there is room for it, of each stream a piece in turn,
    /// and of none more than its share.
    pub(super) fn bring_pending(&mut self, actions: &mut Vec<Action>) {
        let frames = self.budget();
        let least = FORESEEN_MIN.min(frames / FORESEEN_MOST_PART);
        let most = (frames / FORESEEN_PART).clamp(least, FORESEEN_MAX);
        let mut waiting = 0;
        while waiting < self.pending.len() {
            let Some(mut pending) = self.pending.pop_front() else { return };
            let stream = pending.stream;
            let has = self.ahead.get(&stream).copied().unwrap_or(0);
            let share = most / (self.ahead.len() as u32 + u32::from(has == 0));
            // Who has its share is not even asked what it wants: that takes its time.
            let enough = if pending.has_share { share - share / USED_PART } else { share };
            pending.has_share = has > 0 && has >= enough;
            if pending.has_share {
                self.pending.push_back(pending);
                waiting += 1;
                continue;
            }
            let Some((page, order, is_short)) = self.next_pending(&mut pending) else { continue };
            pending.has_share = has > 0 && has + (1 << order) > share;
            let is_later = pending.has_share || self.has_more(&pending, has);
            self.pending.push_back(pending);
            if is_later {
                waiting += 1;
                continue;
            }
            if self.foreseen_frames + (1 << order) > most && !self.drop_forgotten(stream, most) {
                return;
            }
            let Some(id) = self.bring(page, order, stream, actions) else { return };
            let frames = self.extents[id as usize].frames();
            if is_short {
                // What was brought in once and is given up is not brought in again.
                let end = self.extents[id as usize].span().pages().end;
                let is_to_probe = self.learner(page).is_to_probe();
                if let Some(pending) = self.pending.back_mut() {
                    pending.around.start = end;
                    let is_probe = *pending.probe.get_or_insert(is_to_probe);
                    self.extents[id as usize].is_probe = is_probe;
                }
            }
            self.extents[id as usize].since = self.time();
            self.foreseen_more(stream, frames);
            self.counts.prefetched += u64::from(frames);
            self.counts.history.prefetched +=
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

    /// Maps what of these pages is ready, for the same stream or at rest.
    fn map_soon(&mut self, stream: u32, pages: &Range<Page>, actions: &mut Vec<Action>) {
        for page in pages.clone() {
            let Some(id) = self.index.get(page) else { continue };
            let extent = &self.extents[id as usize];
            let is_ready = extent.state == State::Ready && !extent.is_probe;
            if is_ready && (extent.stream == 0 || extent.stream == stream) {
                if extent.stream == 0 {
                    self.rescued(extent.frames());
                }
                self.map(id, false, actions);
            }
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

    /// Where the next piece of a stream is, how large it may be, and whether that is for what is
    /// around it; what is in memory is passed over. `None` where the stream wants no more.
    fn next_pending(&self, pending: &mut Pending) -> Option<(Page, u8, bool)> {
        // Where frames do not lie together it is several extents.
        if let Some(page) = self.missing(&mut pending.around, false) {
            return Some((page, fitting(page, &pending.around, false, ORDER_MAX), true));
        }
        loop {
            let range = pending.ranges.front_mut()?;
            let page = self.missing(range, pending.is_down);
            match page.filter(|_| self.predictor.asks(pending.stream, range)) {
                Some(page) => {
                    let order = self.learned(page);
                    // What is short stands for what a touch of it would bring.
                    if range.end - range.start > 1 << order {
                        return Some((
                            page,
                            fitting(page, range, pending.is_down, ORDER_MAX),
                            false,
                        ));
                    }
                    pending.around = self.around(&(page..page + 1));
                    pending.probe = None;
                    return self.next_pending(pending);
                }
                None => {
                    pending.ranges.pop_front();
                }
            }
        }
    }

    /// What a touch of one of these pages would bring in.
    pub(super) fn around(&self, pages: &Range<Page>) -> Range<Page> {
        let (order, within) = (self.learned(pages.start), self.region(pages.start));
        let start = pages.start >> order << order;
        start.max(within.start)..(start + (1 << order)).max(pages.end).min(within.end)
    }

    /// The first page of a range that can be brought in, or the last; what is passed over is of the
    /// range no more.
    fn missing(&self, range: &mut Range<Page>, is_down: bool) -> Option<Page> {
        while !range.is_empty() {
            let page = if is_down { range.end - 1 } else { range.start };
            let here = match self.index.get(page) {
                Some(id) => self.extents[id as usize].span().pages(),
                None if self.is_out_of_reach(page) => page..page + 1,
                None => return Some(page),
            };
            match is_down {
                true => range.end = here.start.max(range.start),
                false => range.start = here.end.min(range.end),
            }
        }
        None
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
            // Whoever is far into what a stream asked for is not that stream.
            let is_near = |range: &&Range<Page>| {
                let far = if pending.is_down { range.end - page } else { page - range.start };
                far <= 1 << WAITED_ORDER
            };
            let mut next = pending.ranges.iter().take(LOOKED_AT as usize);
            let range = next.find(|range| range.contains(&page)).filter(is_near)?;
            self.predictor.asks(pending.stream, &(page..page + 1)).then_some(())?;
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
        (learner.order(), learner.is_to_probe())
    }

    /// The order that was learned for a page's region.
    fn learned(&self, page: Page) -> u8 {
        let learner = self.learners.get(&self.region(page).start);
        learner.map_or(self.settings.order, Learner::order)
    }

    /// Gives up what was foreseen longest ago if nobody asks for it any more, or others may take
    /// its place; a stream waits.
    fn drop_forgotten(&mut self, waits: u32, most: u32) -> bool {
        let Some(id) = self.foreseen.first() else { return false };
        let stream = self.extents[id as usize].stream;
        let is_forgotten = self.is_over(stream, waits, most) || self.forgotten().is_some();
        if is_forgotten {
            self.drop_foreseen(id);
        }
        is_forgotten
    }

    /// What was foreseen longest ago, if nobody asks for it any more.
    fn forgotten(&self) -> Option<ExtentId> {
        let id = self.foreseen.first()?;
        let extent = self.extents[id as usize];
        let pages = self.around(&extent.span().pages());
        (!self.predictor.asks(extent.stream, &pages)).then_some(id)
    }

    /// The same if it was long ago: who comes late may still touch it.
    pub(super) fn long_forgotten(&self) -> Option<ExtentId> {
        let since = self.extents[self.foreseen.first()? as usize].since;
        let is_long = self.time().wrapping_sub(since) > FORGOTTEN_AFTER;
        is_long.then(|| self.forgotten()).flatten()
    }

    /// How much was brought in, in parts of the budget.
    fn time(&self) -> u16 {
        (self.brought / u64::from(self.budget() / BUDGET_TICKS).max(1)) as u16
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::{
        cache::{Event, PageFault, Settings},
        prefetch::Limits,
    };

    const FAR: Page = 1 << 20;

    /// A cache whose thread has gone through new memory, of which each touch brings in a huge page,
    /// and what the stream of them expects.
    fn swept(advice: Advice, pages: impl Iterator<Item = Page>) -> (Cache, Prefetch) {
        let prefetch = Limits { initial: 16, max: 256 };
        let mut cache = Cache::new(Settings { frames: 4096, order: 0, prefetch });
        cache.add_region(0..FAR);
        cache.on(Event::Advised(0..FAR, advice), &mut vec![]);
        for page in pages {
            let touched = Event::Fault(PageFault { thread: 1, page, offset: 0, is_write: false });
            cache.on(touched, &mut vec![]);
        }
        let expected = cache.predictor.expected().unwrap();
        (cache, expected)
    }

    #[test]
    fn what_was_passed_over_is_asked_for_again() {
        let (mut cache, Prefetch { stream, pages, .. }) = swept(Advice::Sequential, 0..1);
        let Range { start, end } = pages[0].clone();
        cache.pending = [Pending::of(stream, start + 5..end)].into();
        cache.ask_again(start - 1);
        let ranges = &cache.pending[0].ranges;
        assert_eq!(
            ranges.iter().take(2).collect::<Vec<_>>(),
            [&(start..start + 5), &(start + 5..end)]
        );
        // What the stream has asked for since is not asked for twice.
        cache.ask_again(start - 1);
        assert_eq!(cache.pending[0].ranges.front(), Some(&(start..start + 5)));
    }

    #[test]
    fn nor_are_streams_forgotten_that_go_down_or_wait_for_nothing() {
        let (mut cache, Prefetch { stream, pages, .. }) =
            swept(Advice::Normal, (1..=6).map(|at| FAR - (at << ORDER_MAX)));
        let Range { start, end } = pages[0].clone();
        let mut pending = Pending::new(stream, true);
        pending.push(start..end - 5);
        cache.pending = [pending].into();
        cache.ask_again(end);
        assert_eq!(cache.pending[0].ranges.front(), Some(&(end - 5..end)));
        cache.pending.clear();
        cache.ask_again(end);
        assert_eq!(cache.pending[0].ranges, pages);
        assert!(cache.pending[0].is_down);
    }
}
