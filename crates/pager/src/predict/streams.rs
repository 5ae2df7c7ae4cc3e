//! Streams: runs of neighbouring pages, and jumps from one run to the next.

use super::{Page, Touch};
use std::ops::Range;

/// How many streams are followed at once: a few arrays for each of some threads. The one that was
/// silent for longest makes room.
const STREAMS_MAX: usize = 64;

/// A stream is followed ahead once it did what was foreseen so often.
const TRUSTED: u32 = 2;

/// A stream is forgotten that was silent for so many touches.
const FORGOTTEN: u64 = 4096;

/// A run goes on where this many pages of it are missing: they are mapped from before.
const GAP: u64 = 16;

/// How far streams may be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The first step ahead of a stream, pages.
    pub first: u64,
    /// The most that a stream is ahead, pages.
    pub most: u64,
}

/// Pages that will be touched, in the order of their need, and what foresaw them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The stream, to be told what became of them.
    pub stream: u32,
    /// The pages.
    pub pages: Vec<Range<Page>>,
}

/// Follows the streams of all threads of a process.
#[derive(Clone, Debug)]
pub struct Streams {
    limits: Limits,
    all: Vec<Stream>,
    now: u64,
    named: u32,
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

/// Where a stream will be: so many pages into a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    /// The page at which the run begins, on the side that is touched first.
    start: Page,
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
    /// What may be the next run: as this one lies to a run before it.
    jump: Option<Jump>,
    /// How often it did what was foreseen, since it last did otherwise.
    trust: u32,
    /// How far it is followed, pages.
    depth: u64,
    /// What was asked for and has not been touched, in the order of its need.
    asked: Vec<Range<Page>>,
    /// Where asking goes on; `None` where nothing was asked for since it did otherwise.
    cursor: Option<Cursor>,
}

impl Streams {
    /// None yet.
    pub const fn new(limits: Limits) -> Self {
        Self { limits, all: vec![], now: 0, named: 0 }
    }

    /// Sees a touch, and says what comes next and was not said before; `None` where nobody knows.
    pub fn touch(&mut self, touch: &Touch) -> Option<Ahead> {
        self.now += 1;
        let index = self.find(touch).unwrap_or_else(|| self.begin(touch));
        let (now, limits) = (self.now, self.limits);
        let stream = &mut self.all[index];
        stream.touched = now;
        if stream.trust < TRUSTED {
            return None;
        }
        let pages = stream.follow(limits, &touch.within);
        (!pages.is_empty()).then_some(Ahead { stream: stream.name, pages })
    }

    /// What was asked for a stream was given up without having been touched: it is followed less
    /// far.
    pub fn wasted(&mut self, name: u32, pages: &Range<Page>) {
        let first = self.limits.first;
        if let Some(stream) = self.all.iter_mut().find(|stream| stream.name == name) {
            stream.depth = (stream.depth / 2).max(first);
            stream.asked.retain(|asked| !overlap(asked, pages));
        }
    }

    /// Whether a stream still expects some of these pages.
    pub fn asks(&self, name: u32, pages: &Range<Page>) -> bool {
        let stream = self.all.iter().find(|stream| stream.name == name);
        let expects = |stream: &Stream| stream.asked.iter().any(|asked| overlap(asked, pages));
        stream.is_some_and(|stream| self.now - stream.touched < FORGOTTEN && expects(stream))
    }

    /// The stream that a touch belongs to: one that foresaw it, else one whose run it goes on with,
    /// else one that it may be the next run of. Of several, the one that is trusted most.
    fn find(&mut self, touch: &Touch) -> Option<usize> {
        let at = &touch.pages;
        let best = |fits: &dyn Fn(&Stream) -> bool| {
            let own = |stream: &Stream| stream.thread == touch.thread && fits(stream);
            let all = self.all.iter().enumerate().filter(|(_, stream)| own(stream));
            all.max_by_key(|(_, stream)| (stream.trust, stream.touched)).map(|(index, _)| index)
        };
        if let Some(index) = best(&|stream| stream.foresaw(at)) {
            self.all[index].arrive(at);
            return Some(index);
        }
        if let Some(index) = best(&|stream| stream.goes_on(at)) {
            self.all[index].go_on(at);
            return Some(index);
        }
        let index = best(&|stream| stream.jumps_to(at))?;
        self.all[index].jump_to(at);
        Some(index)
    }

    /// A stream that nothing is known of but which run was near before it, of all those that the
    /// thread is in: arrays that are walked together are farther apart than steps of one of them.
    fn begin(&mut self, touch: &Touch) -> usize {
        self.named = self.named.wrapping_add(1).max(1);
        let own = self.all.iter().filter(|stream| stream.thread == touch.thread);
        let near = own.min_by_key(|stream| stream.by(&touch.pages).unsigned_abs());
        let jump = near.map(|stream| Jump { by: stream.by(&touch.pages), length: stream.length() });
        let stream = Stream {
            name: self.named,
            thread: touch.thread,
            touched: self.now,
            run: touch.pages.clone(),
            way: None,
            jump,
            trust: 0,
            depth: self.limits.first,
            asked: vec![],
            cursor: None,
        };
        if self.all.len() < STREAMS_MAX {
            self.all.push(stream);
            return self.all.len() - 1;
        }
        let silent = self.all.iter().enumerate().min_by_key(|(_, stream)| stream.touched);
        let index = silent.map_or(0, |(index, _)| index);
        self.all[index] = stream;
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

    /// From the beginning of its run to a run that begins with `at`.
    fn by(&self, at: &Range<Page>) -> i64 {
        let start = if self.way == Some(Way::Down) { at.end } else { at.start };
        start.wrapping_sub(self.start()) as i64
    }

    fn foresaw(&self, at: &Range<Page>) -> bool {
        self.asked.iter().any(|asked| overlap(asked, at))
    }

    /// Comes to what was foreseen: all that was to come before it is not waited for any more.
    fn arrive(&mut self, at: &Range<Page>) {
        let index = self.asked.iter().position(|asked| overlap(asked, at)).unwrap_or(0);
        let of = self.asked[index].clone();
        self.asked.drain(..index);
        let rest = if self.way == Some(Way::Down) { of.start..at.start } else { at.end..of.end };
        if rest.is_empty() {
            self.asked.remove(0);
        } else {
            self.asked[0] = rest;
        }
        let is_same_run = self.goes_on(at);
        match self.jump.filter(|_| !is_same_run) {
            Some(_) => self.run = at.clone(),
            None => self.run = self.run.start.min(at.start)..self.run.end.max(at.end),
        }
        self.trust = self.trust.saturating_add(1);
        self.depth = self.depth.saturating_mul(2);
    }

    /// Whether its run goes on with `at`.
    fn goes_on(&self, at: &Range<Page>) -> bool {
        let up = at.start >= self.run.end && at.start - self.run.end <= GAP;
        let down = at.end <= self.run.start && self.run.start - at.end <= GAP;
        match self.way {
            Some(Way::Up) => up,
            Some(Way::Down) => down,
            None => up || down,
        }
    }

    fn go_on(&mut self, at: &Range<Page>) {
        self.way = Some(if at.start >= self.run.end { Way::Up } else { Way::Down });
        self.run = self.run.start.min(at.start)..self.run.end.max(at.end);
        // Longer than the runs before: it is a sweep, as far as anybody knows.
        if self.jump.is_some_and(|jump| self.length() > jump.length) {
            self.jump = None;
        }
        if self.asked.is_empty() {
            self.trust = self.trust.saturating_add(1);
        } else {
            // It goes elsewhere than was foreseen.
            (self.trust, self.cursor) = (1, None);
            self.asked.clear();
        }
    }

    fn jumps_to(&self, at: &Range<Page>) -> bool {
        self.jump.is_some_and(|jump| jump.by == self.by(at) && self.length() == jump.length)
    }

    fn jump_to(&mut self, at: &Range<Page>) {
        self.run = at.clone();
        self.trust = self.trust.saturating_add(1);
        self.asked.clear();
        self.cursor = None;
    }

    /// What to ask for now.
    fn follow(&mut self, limits: Limits, within: &Range<Page>) -> Vec<Range<Page>> {
        self.depth = self.depth.clamp(limits.first, limits.most);
        let waiting: u64 = self.asked.iter().map(|asked| asked.end - asked.start).sum();
        // Asked for in large pieces: half of what one is ahead is used before more comes.
        if waiting * 2 > self.depth {
            return vec![];
        }
        let here = Cursor { start: self.start(), offset: self.length() };
        let mut cursor = self.cursor.unwrap_or(here);
        let mut left = self.depth - waiting;
        let mut pages: Vec<Range<Page>> = vec![];
        while left > 0 {
            let length = self.jump.map_or(u64::MAX, |jump| jump.length);
            if cursor.offset >= length {
                let by = self.jump.map_or(0, |jump| jump.by);
                let Some(start) = cursor.start.checked_add_signed(by) else { break };
                cursor = Cursor { start, offset: 0 };
            }
            let take = left.min(length - cursor.offset);
            let Some(range) = cursor.range(self.way, take) else { break };
            let range = range.start.max(within.start)..range.end.min(within.end);
            if range.is_empty() {
                break;
            }
            cursor.offset += take;
            left -= take;
            pages.push(range);
        }
        self.cursor = Some(cursor);
        self.asked.extend(pages.iter().cloned());
        pages
    }
}

impl Cursor {
    /// The next pages; `None` where numbers end.
    fn range(self, way: Option<Way>, count: u64) -> Option<Range<Page>> {
        match way {
            Some(Way::Down) => {
                let end = self.start.checked_sub(self.offset)?;
                (end > 0).then(|| end.saturating_sub(count)..end)
            }
            _ => {
                let start = self.start.checked_add(self.offset)?;
                Some(start..start.checked_add(count)?)
            }
        }
    }
}

fn overlap(a: &Range<Page>, b: &Range<Page>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::{
        Pcg64Mcg,
        rand_core::{RngCore, SeedableRng},
    };
    use std::collections::BTreeSet;

    const LIMITS: Limits = Limits { first: 4, most: 64 };

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
            let touch = Touch { thread, pages: page..page + 1, within: 0..u64::MAX };
            for pages in streams.touch(&touch).into_iter().flat_map(|ahead| ahead.pages) {
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
        assert!(outcome.wasted <= LIMITS.most as usize * streams, "{name}: {outcome:?}");
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
        assert!(outcome.wasted <= 2 * LIMITS.most as usize, "{outcome:?}");
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
