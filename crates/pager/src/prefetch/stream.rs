//! Streams: runs of neighbouring pages, jumps from one run to the next, and tiles of such runs.

use super::{
    FaultContext, Limits, Prefetch, Vain,
    outstanding::{AllAsked, Asked, overlap},
};
use crate::{advice::Advice, page::Page};
use std::ops::Range;

/// How many streams are followed at once: a few arrays for each of some threads. The one that was
/// silent for longest makes room.
const STREAMS_MAX: usize = 64;

/// A stream is followed ahead once it did what was foreseen so often.
const TRUSTED: u32 = 2;

/// A stream is forgotten that was silent for so many touches.
const FORGOTTEN: u64 = 512;

/// Holes in a run are jumps once so many more lie like the first.
const HOLES: u32 = 2;

/// So many runs that a new one may be the next of are remembered: those that are nearest.
const JUMPS_MAX: usize = 3;

/// So many pieces are asked for again of which one was there and has been given up.
const NEXT: usize = 4;

/// So much trust is not come by where touches only happen to lie so: who is silent for so many
/// touches keeps its place from those that are not trusted as much.
pub(super) const SURE: u32 = 8;
const KEPT: u64 = 1 << 14;

/// A trusted run goes on where this many pages of it are missing: they are mapped from before.
const GAP: u64 = 16;

/// Follows the streams of all threads of a process.
#[derive(Clone, Debug)]
pub struct Streams {
    limits: Limits,
    all: Vec<Stream>,
    now: u64,
    named: u32,
    /// How much the stream is trusted that the last touch was of, if that is enough.
    trust: Option<u32>,
    vain: Vain,
}

/// Which way runs go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// Where the next run begins, and how long runs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Jump {
    /// From the first page of a run to that of the next.
    by: i64,
    /// Pages of a run.
    length: u64,
}

/// Runs that lie like those of one tile, and where the next tile is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiles {
    /// From the first run of a tile to that of the next.
    by: i64,
    /// Runs of a tile.
    runs: u64,
    /// How often this was so.
    seen: u32,
}

/// A run, as a part of its tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// The page at which it begins, on the side that is touched first.
    start: Page,
    /// The page at which the first run of its tile begins.
    first: Page,
    /// Which run of the tile it is, from 1 on.
    number: u64,
}

/// Where a stream will be: so many pages into a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    run: Run,
    offset: u64,
}

#[derive(Clone, Debug)]
struct Stream {
    name: u32,
    thread: u32,
    /// When it was last touched.
    touched: u64,
    /// The run that it is in.
    run: Range<Page>,
    /// Which way that goes; `None` of one touch alone.
    way: Option<Way>,
    /// The part of the run without holes that it is in, how that lies to the one before, and how
    /// often it did so.
    part: Range<Page>,
    hole: Option<(Jump, u32)>,
    /// Where the tile begins that the run is in, and which run of it that is.
    first: Page,
    number: u64,
    /// What may be the next run: as this one lies to a run before it. The first is followed.
    jumps: Vec<Jump>,
    tiles: Option<Tiles>,
    /// The stream that it goes on with in another tile, as far as anybody knows.
    like: Option<u32>,
    /// How often it did what was foreseen, since it last did otherwise.
    trust: u32,
    /// How far it is followed, pages.
    depth: u64,
    /// What was asked for and has not been touched, in the order of its need.
    asked: AllAsked,
    /// Where asking goes on; `None` where nothing was asked for since it did otherwise.
    cursor: Option<Cursor>,
}

impl Streams {
    /// None yet.
    pub const fn new(limits: Limits) -> Self {
        let vain = Vain { pages: 0 };
        Self { limits, all: vec![], now: 0, named: 0, trust: None, vain }
    }

    /// Sees a touch, and says what comes next and was not said before; `None` where nobody knows.
    pub fn on_fault(&mut self, fault: &FaultContext) -> Option<Prefetch> {
        self.now += 1;
        let index = self.find(fault).unwrap_or_else(|| self.begin(fault));
        let (now, limits) = (self.now, self.limits);
        let stream = &mut self.all[index];
        stream.touched = now;
        self.trust = Some(stream.trust).filter(|trust| *trust >= self.vain.needed(TRUSTED));
        self.trust?;
        let pages = stream.follow(limits, &fault.region);
        (!pages.is_empty()).then_some(Prefetch { stream: stream.name, pages, map_early: vec![] })
    }

    /// Whether the last touch was what a stream does that is trusted so much.
    pub fn has_explained(&self, least: u32) -> bool {
        self.trust.is_some_and(|trust| trust >= least)
    }

    /// Whether a stream still expects some of these pages.
    pub(super) fn asks(&self, name: u32, pages: &Range<Page>) -> bool {
        let stream = self.all.iter().find(|stream| stream.name == name);
        let expects = |stream: &Stream| stream.asked.has(pages);
        stream.is_some_and(|stream| self.now - stream.touched < FORGOTTEN && expects(stream))
    }

    /// What the stream of the last touch has asked for and comes to next, if it is trusted.
    pub(super) fn expected(&self) -> Option<Prefetch> {
        self.trust?;
        let stream = self.all.iter().find(|stream| stream.touched == self.now)?;
        let next = stream.asked.iter().take(NEXT).map(|asked| asked.pages.clone());
        Some(Prefetch { stream: stream.name, pages: next.collect(), map_early: vec![] })
    }

    /// What was asked for a stream was given up without having been touched: it is followed less
    /// far.
    pub fn on_wasted(&mut self, name: u32, pages: &Range<Page>) {
        let first = self.limits.initial;
        self.vain.wasted(pages.end - pages.start);
        if let Some(stream) = self.all.iter_mut().find(|stream| stream.name == name) {
            stream.depth = (stream.depth / 2).max(first);
            stream.asked.remove(pages);
            if overlap(&stream.run, pages) {
                stream.doubt();
            }
        }
    }

    /// The stream that a touch belongs to: one that foresaw it, else a trusted one that jumps
    /// there, else one whose run it goes on with, else one that it may be the next run of. Of
    /// several, the one that is trusted most.
    fn find(&mut self, fault: &FaultContext) -> Option<usize> {
        let at = &fault.pages;
        let best = |fits: &dyn Fn(&Stream) -> bool| {
            let own = |stream: &Stream| stream.thread == fault.thread && fits(stream);
            let all = self.all.iter().enumerate().filter(|(_, stream)| own(stream));
            all.max_by_key(|(_, stream)| (stream.trust, stream.touched)).map(|(index, _)| index)
        };
        if let Some(index) = best(&|stream| stream.foresaw(at)) {
            self.vain.used(at.end - at.start);
            self.all[index].arrive(at);
            self.all[index].look_for_holes(fault);
            return Some(index);
        }
        let jumps = |stream: &Stream| stream.jumps_to(at).is_some();
        let trusted = best(&|stream| stream.trust >= TRUSTED && jumps(stream));
        if let Some(index) =
            trusted.is_none().then(|| best(&|stream| stream.goes_on(fault))).flatten()
        {
            self.all[index].go_on(fault);
            self.all[index].look_for_holes(fault);
            return Some(index);
        }
        let index = trusted.or_else(|| best(&jumps))?;
        self.all[index].jump_to(at);
        Some(self.take_over(index))
    }

    /// A stream that nothing is known of but which runs were near before it, of all those that the
    /// thread is in: arrays that are walked together are farther apart than steps of one of them.
    /// And it may be the next tile of what jumps.
    fn begin(&mut self, fault: &FaultContext) -> usize {
        self.named = self.named.wrapping_add(1) & !super::OF_OTHERS;
        let at = &fault.pages;
        let own = || self.all.iter().filter(|stream| stream.thread == fault.thread);
        let like = own().filter(|stream| stream.trust >= TRUSTED && !stream.jumps.is_empty());
        let like = like.min_by_key(|stream| stream.far(at));
        let mut near: [Option<Jump>; JUMPS_MAX] = [None; JUMPS_MAX];
        for stream in own() {
            let by = stream.by(at);
            let is_farther = |jump: &Option<Jump>| {
                jump.is_none_or(|it| it.by.unsigned_abs() > by.unsigned_abs())
            };
            if let Some(place) = near.iter().position(is_farther) {
                near[place..].rotate_right(1);
                near[place] = Some(Jump { by, length: stream.length() });
            }
        }
        let known = like.and_then(|like| like.jumps.first().copied());
        let jumps = known.into_iter().chain(near.into_iter().flatten()).collect();
        // What the program says is in order is followed at once.
        let is_told = fault.advice == Advice::Sequential;
        let stream = Stream {
            name: self.named,
            thread: fault.thread,
            touched: self.now,
            run: at.clone(),
            way: is_told.then_some(Way::Up),
            part: at.clone(),
            hole: None,
            first: at.start,
            number: 1,
            jumps: if is_told { vec![] } else { jumps },
            tiles: None,
            like: like.filter(|_| !is_told).map(|like| like.name),
            trust: if is_told { self.vain.needed(SURE) } else { 0 },
            depth: self.limits.initial,
            asked: AllAsked::new(),
            cursor: None,
        };
        if self.all.len() < STREAMS_MAX {
            self.all.push(stream);
            return self.all.len() - 1;
        }
        let silent = self.all.iter().enumerate().min_by_key(|(_, stream)| {
            let is_kept = stream.trust >= SURE && self.now - stream.touched < KEPT;
            (is_kept, stream.touched)
        });
        let index = silent.map_or(0, |(index, _)| index);
        self.all[index] = stream;
        index
    }

    /// What jumps as another stream did is the same one, in its next tile.
    fn take_over(&mut self, index: usize) -> usize {
        let Some(like) = self.all[index].like.take() else { return index };
        let name = self.all[index].name;
        let Some(old) = self.all.iter().position(|stream| stream.name == like) else {
            return index;
        };
        let old = self.all.swap_remove(old);
        let index = self.all.iter().position(|stream| stream.name == name).unwrap_or(0);
        self.all[index].is_next_tile_of(&old);
        index
    }
}

impl Stream {
    fn length(&self) -> u64 {
        self.run.end - self.run.start
    }

    /// The page at which its run began.
    fn start(&self) -> Page {
        if self.way == Some(Way::Down) { self.run.end } else { self.run.start }
    }

    fn here(&self) -> Run {
        Run { start: self.start(), first: self.first, number: self.number }
    }

    /// From the beginning of its run to a run that begins with `at`.
    fn by(&self, at: &Range<Page>) -> i64 {
        let start = if self.way == Some(Way::Down) { at.end } else { at.start };
        start.wrapping_sub(self.start()) as i64
    }

    /// How far away something is from its run, or from where its tile begins.
    fn far(&self, at: &Range<Page>) -> u64 {
        self.by(at).unsigned_abs().min(at.start.abs_diff(self.first))
    }

    fn foresaw(&self, at: &Range<Page>) -> bool {
        self.asked.has(at)
    }

    /// Comes to what was foreseen: all that was to come before it is not waited for any more.
    fn arrive(&mut self, at: &Range<Page>) {
        let Some(Asked { pages: of, run }) = self.asked.take(at) else { return };
        let is_down = self.way == Some(Way::Down);
        let rest = if is_down { of.start..at.start } else { at.end..of.end };
        if !rest.is_empty() {
            self.asked.put(Asked { pages: rest, run });
        }
        if run.start == self.start() {
            self.run = self.run.start.min(at.start)..self.run.end.max(at.end);
        } else {
            (self.first, self.number) = (run.first, run.number);
            self.run = if is_down {
                at.start..run.start.max(at.end)
            } else {
                run.start.min(at.start)..at.end
            };
        }
        self.trust = self.trust.saturating_add(1);
        self.depth = self.depth.saturating_mul(2);
    }

    /// Whether its run goes on with `at`.
    fn goes_on(&self, FaultContext { pages: at, mapped_around: there, .. }: &FaultContext) -> bool {
        // Pages that only happen to lie near each other are no run.
        let length = self.jumps.first().map_or(u64::MAX, |jump| jump.length);
        let gap =
            if self.trust < TRUSTED { 0 } else { GAP.min(length.saturating_sub(self.length())) };
        // Or with what is there between them.
        let up = at.start >= self.run.end && there.start.min(at.start) <= self.run.end + gap;
        let down = at.end <= self.run.start && there.end.max(at.end) + gap >= self.run.start;
        match self.way {
            Some(Way::Up) => up,
            Some(Way::Down) => down,
            None => up || down,
        }
    }

    fn go_on(&mut self, FaultContext { pages: at, mapped_around: there, .. }: &FaultContext) {
        let is_up = at.start >= self.run.end;
        if self.way.is_none() && !is_up && self.first == self.run.start {
            self.first = self.run.end;
        }
        self.way = Some(if is_up { Way::Up } else { Way::Down });
        self.run = self.run.start.min(at.start)..self.run.end.max(at.end);
        // Longer than the runs before: it is a sweep, as far as anybody knows.
        let length = self.length();
        self.jumps.retain(|jump| length <= jump.length);
        if self.jumps.is_empty() {
            (self.tiles, self.like) = (None, None);
        }
        let is_there =
            |asked: &Asked| there.start <= asked.pages.start && asked.pages.end <= there.end;
        if self.asked.iter().all(is_there) {
            // What was passed without a touch was foreseen rightly, but asking goes on from here.
            self.cursor = self.cursor.filter(|_| self.asked.is_empty());
            self.asked.clear();
            self.trust = self.trust.saturating_add(1);
        } else {
            // It goes elsewhere than was foreseen.
            (self.trust, self.cursor) = (1, None);
            self.asked.clear();
        }
    }

    /// Which of its jumps leads to `at`.
    fn jumps_to(&self, at: &Range<Page>) -> Option<usize> {
        let (by, length) = (self.by(at), self.length());
        self.jumps.iter().position(|jump| jump.by == by && jump.length == length)
    }

    fn jump_to(&mut self, at: &Range<Page>) {
        let index = self.jumps_to(at).unwrap_or(0);
        self.jumps = vec![self.jumps[index]];
        // Of several runs, one lies somehow to a new one.
        self.trust = self.trust.saturating_add(u32::from(index == 0));
        self.run = at.clone();
        self.number += 1;
        self.asked.clear();
        self.cursor = None;
    }

    /// A run with holes that lie like each other is no run, but several: asking for all of it would
    /// be in vain, even if it is long until anybody notices.
    fn look_for_holes(
        &mut self,
        FaultContext { pages: at, mapped_around: there, .. }: &FaultContext,
    ) {
        let is_down = self.way == Some(Way::Down);
        let length = self.part.end - self.part.start;
        let (by, is_next) = if is_down {
            let next = at.end..=there.end.max(at.end);
            (at.end.wrapping_sub(self.part.end), next.contains(&self.part.start))
        } else {
            let next = there.start.min(at.start)..=at.start;
            (at.start.wrapping_sub(self.part.start), next.contains(&self.part.end))
        };
        if is_next {
            self.part = self.part.start.min(at.start)..self.part.end.max(at.end);
            return;
        }
        self.part = at.clone();
        let jump = Jump { by: by as i64, length };
        let seen = match self.hole {
            _ if !self.jumps.is_empty() => return,
            Some((hole, seen)) if hole == jump => seen + 1,
            _ => 0,
        };
        self.hole = Some((jump, seen));
        if seen < HOLES {
            return;
        }
        (self.run, self.jumps, self.hole) = (at.clone(), vec![jump], None);
        (self.first, self.number) = (if is_down { at.end } else { at.start }, 1);
        (self.tiles, self.like, self.cursor) = (None, None, None);
        self.trust = TRUSTED;
        self.asked.clear();
    }

    /// It went by pages of its run that were brought in for it: it is no run.
    fn doubt(&mut self) {
        self.run = if self.way == Some(Way::Down) {
            self.run.start..self.run.start + 1
        } else {
            self.run.end - 1..self.run.end
        };
        (self.trust, self.way, self.cursor, self.tiles) = (0, None, None, None);
        self.jumps.clear();
        self.asked.clear();
    }

    /// It goes on with another stream, whose tile has ended.
    fn is_next_tile_of(&mut self, old: &Self) {
        if self.jumps != old.jumps[..self.jumps.len().min(old.jumps.len())] {
            return;
        }
        self.trust = self.trust.max(TRUSTED).max(old.trust / 2);
        self.depth = old.depth / 2;
        let by = self.first.wrapping_sub(old.first) as i64;
        let runs = old.number;
        let new = Tiles { by, runs, seen: 1 };
        self.tiles = Some(match old.tiles.filter(|tiles| tiles.runs == runs) {
            Some(tiles) if tiles.by == by => Tiles { seen: tiles.seen.saturating_add(1), ..new },
            // A row of tiles has ended, and the next is like it.
            Some(tiles) if tiles.seen > 1 => tiles,
            _ => new,
        });
    }

    /// What to ask for now.
    fn follow(&mut self, limits: Limits, within: &Range<Page>) -> Vec<Range<Page>> {
        self.depth = self.depth.clamp(limits.initial, limits.max);
        let waiting = self.asked.pages();
        // Asked for in large pieces: half of what one is ahead is used before more comes.
        if waiting * 2 > self.depth {
            return vec![];
        }
        let here = Cursor { run: self.here(), offset: self.length() };
        let mut cursor = self.cursor.unwrap_or(here);
        let mut left = self.depth - waiting;
        let mut new = vec![];
        while left > 0 {
            let jump = self.jumps.first();
            let length = jump.map_or(u64::MAX, |jump| jump.length);
            if cursor.offset >= length {
                let by = jump.map_or(0, |jump| jump.by);
                let Some(run) = cursor.run.next(by, self.tiles) else { break };
                cursor = Cursor { run, offset: 0 };
            }
            let take = left.min(length - cursor.offset);
            let Some(pages) = cursor.range(self.way, take) else { break };
            let pages = pages.start.max(within.start)..pages.end.min(within.end);
            if pages.is_empty() {
                break;
            }
            cursor.offset += take;
            left -= take;
            new.push(pages.clone());
            self.asked.push(Asked { pages, run: cursor.run });
        }
        self.cursor = Some(cursor);
        new
    }
}

impl Run {
    /// The next run; `None` where numbers end.
    fn next(self, by: i64, tiles: Option<Tiles>) -> Option<Self> {
        if let Some(tiles) = tiles.filter(|tiles| tiles.runs == self.number) {
            let first = self.first.checked_add_signed(tiles.by)?;
            return Some(Self { start: first, first, number: 1 });
        }
        let start = self.start.checked_add_signed(by)?;
        Some(Self { start, number: self.number + 1, ..self })
    }
}

impl Cursor {
    /// The next pages; `None` where numbers end.
    fn range(self, way: Option<Way>, count: u64) -> Option<Range<Page>> {
        match way {
            Some(Way::Down) => {
                let end = self.run.start.checked_sub(self.offset)?;
                (end > 0).then(|| end.saturating_sub(count)..end)
            }
            _ => {
                let start = self.run.start.checked_add(self.offset)?;
                Some(start..start.checked_add(count)?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::{
        Pcg64Mcg,
        rand_core::{RngCore, SeedableRng},
    };
    use std::collections::BTreeSet;

    const LIMITS: Limits = Limits { initial: 4, max: 64 };

    /// What came of a trace: how many touches there were, how many of them were asked for before,
    /// and how many pages were asked for in vain.
    #[derive(Debug)]
    struct Outcome {
        touched: usize,
        foreseen: usize,
        wasted: usize,
    }

    fn run(trace: impl IntoIterator<Item = (u32, Page)>) -> Outcome {
        let mut streams = Streams::new(LIMITS);
        let (mut asked, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut outcome = Outcome { touched: 0, foreseen: 0, wasted: 0 };
        for (thread, page) in trace {
            outcome.touched += 1;
            outcome.foreseen += usize::from(asked.remove(&page));
            seen.insert(page);
            let touch = FaultContext {
                thread,
                page,
                offset: 0,
                pages: page..page + 1,
                mapped_around: page..page + 1,
                region: 0..u64::MAX,
                advice: Advice::Normal,
            };
            for pages in streams.on_fault(&touch).into_iter().flat_map(|ahead| ahead.pages) {
                assert!(pages.start < pages.end);
                asked.extend(pages);
            }
        }
        outcome.wasted = asked.len();
        outcome
    }

    /// All but the first touches of each of so many streams are foreseen, and what is asked for in
    /// vain is what lies ahead of them when they end.
    fn holds(name: &str, streams: usize, trace: Vec<(u32, Page)>) {
        let outcome = run(trace);
        assert!(outcome.touched - outcome.foreseen <= 5 * streams, "{name}: {outcome:?}");
        assert!(outcome.wasted <= LIMITS.max as usize * streams, "{name}: {outcome:?}");
    }

    #[test]
    fn what_loops_over_arrays_do_is_foreseen() {
        let array = 1 << 30;
        let alone = |pages: Vec<Page>| pages.into_iter().map(|page| (1, page)).collect::<Vec<_>>();
        holds("a sweep", 1, alone((1000..3000).collect()));
        holds("backwards", 1, alone((1000..3000).rev().collect()));
        holds("a column", 1, alone((0..2000).map(|i| 7 + i * 100).collect()));
        holds("a column from behind", 1, alone((0..2000).map(|i| 1_000_000 - i * 100).collect()));
        let triad = (0..1000).flat_map(|i| [i, array + i, 2 * array + i]);
        holds("three arrays", 3, alone(triad.collect()));
        let threads = (0..1000).flat_map(|i| (0..4).map(move |t| (t, u64::from(t) * 5000 + i)));
        holds("four threads", 4, threads.collect());
        let columns = (0..1000).flat_map(|i| [i * 50, array + i * 50]);
        holds("columns of two arrays", 2, alone(columns.collect()));
    }

    #[test]
    fn rows_of_a_tile_are_foreseen() {
        let rows = (0..200).flat_map(|row| (0..8).map(move |page| (1, row * 100 + page)));
        // The first row looks like a sweep, the second is the first that lies so to another.
        let outcome = run(rows);
        assert!(outcome.foreseen >= outcome.touched * 9 / 10, "{outcome:?}");
        assert!(outcome.wasted <= 2 * LIMITS.max as usize, "{outcome:?}");
    }

    #[test]
    fn what_is_random_is_not_asked_for() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let outcome = run((0..20_000).map(|_| (1, random.next_u64() >> 40)));
        assert!(outcome.wasted * 20 <= outcome.touched, "{outcome:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_trace_is_too_much(
            pages in proptest::collection::vec((0_u32..3, proptest::prelude::any::<u64>()), 0..300),
        ) {
            run(pages.into_iter().map(|(thread, page)| (thread, page.min(u64::MAX - 1))));
        }
    }
}
