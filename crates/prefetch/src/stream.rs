//! Streams: runs of neighbouring pages, the constant stride from one run to the next, and tiles of
//! such runs. [`crate`] has examples.

use super::{
    FaultContext, Limits, Prefetch,
    throttle::AccuracyThrottle,
    tile_run::TileRun,
    untouched_ranges::{UntouchedRange, UntouchedRanges, overlap},
};
use crate::{advice::Advice, page::Page};
use std::ops::Range;

/// Maximum number of streams at the same time: a few arrays for each of several threads. A new
/// stream replaces the stream that has not faulted for the longest time, except that
/// [`SURE_CONFIDENCE`] protects some streams.
const STREAMS_MAX: usize = 64;

/// Confidence that a stream needs for a prefetch, in correct predictions.
const CONFIDENCE_MIN: u32 = 2;

/// A stream without a fault of its own during this number of faults no longer expects the pages
/// that it has requested. Only faults that are passed to [`Streams::on_fault`] count; faults in
/// matrix blocks are not passed.
const EXPIRES_AFTER: u64 = 512;

/// Number of repetitions of the same gap after which a run with gaps is converted to several runs
/// with a constant stride.
const EQUAL_GAPS: u32 = 2;

/// Maximum number of candidate strides that a new stream takes from the nearest older runs of its
/// thread. One more candidate is the stride of an older stream, if the new stream may be the tile
/// of a matrix that follows the tile of the older stream.
const STRIDES_MAX: usize = 3;

/// Maximum number of requested, untouched ranges that [`Streams::next_expected`] returns. The
/// pager's queue skips requested pages that are resident. A resident page may be evicted before its
/// touch. The touch then faults, and the pager queues the stream's next ranges again, because their
/// pages may have been evicted too.
const NEXT_EXPECTED: usize = 4;

/// A confidence that no stream of random accesses reaches. A stream is protected if it has at least
/// this confidence and its last fault is among the last [`PROTECTED_FAULTS`] faults. A protected
/// stream is replaced only if all streams in the table are protected.
pub(super) const SURE_CONFIDENCE: u32 = 8;
const PROTECTED_FAULTS: u64 = 1 << 14;

/// Largest gap over which a confident run continues, pages. A gap occurs because pages that are
/// still mapped do not fault.
const GAP_MAX: u64 = 16;

/// The streams of all threads of a process.
#[derive(Clone, Debug)]
pub struct Streams {
    limits: Limits,
    table: Vec<Stream>,
    /// Number of faults of all threads that were passed to `on_fault`. It is the clock for
    /// `Stream::last_fault`.
    now: u64,
    last_id: u32,
    /// The confidence of the stream to which the last fault belongs; `None` if it does not suffice
    /// for a prefetch.
    confidence: Option<u32>,
    throttle: AccuracyThrottle,
}

/// The direction of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// The distance from one run to the next, and the length of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stride {
    /// Distance from the start of a run to the start of the next run, pages.
    distance: i64,
    /// The number of pages in a run.
    run_length: u64,
}

/// The distance from one tile (a rectangular block of a matrix, whose rows are runs) to the next,
/// and the number of runs in a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TileStride {
    /// Distance from the first run of a tile to the first run of the next tile, pages.
    distance: i64,
    /// The number of runs in a tile.
    runs: u64,
    /// The number of tiles so far that followed each other at this stride.
    seen: u32,
}

/// The position up to which a stream has requested pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    run: TileRun,
    /// The number of pages of `run` that were touched or requested, counted from the start of
    /// `run`.
    offset: u64,
}

/// The rule by which a fault belongs to a stream, the weakest rule first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MatchRule {
    /// A candidate stride leads from the current run to the page.
    Candidate,
    /// The run continues with the page.
    Run,
    /// A stride leads from the current run to the page, and the stream is confident.
    Stride,
    /// The stream has predicted the page.
    Predicted,
}

#[derive(Clone, Debug)]
struct Stream {
    id: u32,
    thread: u32,
    /// The time of the stream's last fault, on the clock `Streams::now`.
    last_fault: u64,
    /// The pages of the current run that were touched so far.
    run: Range<Page>,
    /// The direction of the run; `None` while it has only a single fault.
    direction: Option<Direction>,
    /// The pages of the run since its last gap. A gap consists of pages that the program skipped,
    /// although they were not mapped.
    segment: Range<Page>,
    /// The stride from the previous segment to `segment`, and how often this stride has repeated;
    /// `None` before the first gap.
    gap: Option<(Stride, u32)>,
    /// `tile_start` is the start of the current tile. `run_number` is the number of the current run
    /// in this tile, counted from 1.
    tile_start: Page,
    run_number: u64,
    /// Candidates for the stride to the next run: the strides from older runs to this run. The
    /// first candidate is used for prefetches.
    strides: Vec<Stride>,
    tiles: Option<TileStride>,
    /// The ID of an older stream if this stream may be its next tile; otherwise `None`.
    resembles: Option<u32>,
    /// The number of correct predictions since the last wrong one.
    confidence: u32,
    /// Prefetch depth, pages.
    depth: u64,
    /// Pages that the stream has requested and that were not touched yet.
    untouched: UntouchedRanges,
    /// The point at which the next prefetch begins; `None` if the next prefetch begins after the
    /// touched pages of the current run.
    cursor: Option<Cursor>,
}

impl Streams {
    /// Makes a table without streams.
    pub const fn new(limits: Limits) -> Self {
        let throttle = AccuracyThrottle::new();
        Self { limits, table: vec![], now: 0, last_id: 0, confidence: None, throttle }
    }

    /// Learns from a fault, and returns pages to prefetch that were not requested before. Returns
    /// `None` if the stream of the fault has no such pages.
    pub fn on_fault(&mut self, fault: &FaultContext) -> Option<Prefetch> {
        self.now += 1;
        let index = self.match_stream(fault).unwrap_or_else(|| self.add_stream(fault));
        let (now, limits) = (self.now, self.limits);
        let confidence_min = self.throttle.confidence_min(CONFIDENCE_MIN);
        let stream = &mut self.table[index];
        stream.last_fault = now;
        self.confidence = Some(stream.confidence).filter(|it| *it >= confidence_min);
        self.confidence?;
        let pages = stream.prefetch(limits, &fault.region);
        (!pages.is_empty()).then_some(Prefetch { stream: stream.id, pages, map_early: vec![] })
    }

    /// True if the stream of the last fault has at least the confidence `confidence`, and enough
    /// confidence for a prefetch.
    pub fn has_explained(&self, confidence: u32) -> bool {
        self.confidence.is_some_and(|it| it >= confidence)
    }

    /// True if the stream with the number `id` has requested one of `pages`, and still expects a
    /// touch of that page.
    pub(super) fn expects(&self, id: u32, pages: &Range<Page>) -> bool {
        let stream = self.table.iter().find(|stream| stream.id == id);
        stream.is_some_and(|stream| {
            self.now - stream.last_fault < EXPIRES_AFTER && stream.untouched.overlaps(pages)
        })
    }

    /// Returns the next requested, untouched pages of the stream of the last fault; `None` if the
    /// confidence of this stream does not suffice for a prefetch.
    pub(super) fn next_expected(&self) -> Option<Prefetch> {
        self.confidence?;
        let stream = self.table.iter().find(|stream| stream.last_fault == self.now)?;
        let next = stream.untouched.iter().take(NEXT_EXPECTED).map(|range| range.pages.clone());
        Some(Prefetch { stream: stream.id, pages: next.collect(), map_early: vec![] })
    }

    /// Reacts to wasted pages of a stream: prefetched pages that were evicted untouched. Halves the
    /// depth of the stream. If one of the pages is in the current run, the stream restarts.
    pub fn on_wasted(&mut self, id: u32, pages: &Range<Page>) {
        let initial = self.limits.initial;
        self.throttle.on_wasted(pages.end - pages.start);
        if let Some(stream) = self.table.iter_mut().find(|stream| stream.id == id) {
            stream.depth = (stream.depth / 2).max(initial);
            stream.untouched.remove(pages);
            if overlap(&stream.run, pages) {
                stream.abandon_run();
            }
        }
    }

    /// Finds the stream to which a fault belongs, and advances it to the fault. Returns the index
    /// of the stream; `None` if the fault belongs to no stream of its thread. If several streams
    /// match by the strongest rule, takes the most confident of them. If these streams have
    /// predicted the page, takes the stream that faulted last.
    fn match_stream(&mut self, fault: &FaultContext) -> Option<usize> {
        let at = &fault.pages;
        let own = self.table.iter().enumerate().filter(|(_, it)| it.thread == fault.thread);
        let found = own.filter_map(|(index, stream)| {
            let rule = stream.match_with(fault)?;
            let confidence = if rule == MatchRule::Predicted { 0 } else { stream.confidence };
            Some((rule, confidence, stream.last_fault, index))
        });
        let (rule, _, _, index) = found.max()?;
        let stream = &mut self.table[index];
        match rule {
            MatchRule::Predicted => {
                self.throttle.on_hit(at.end - at.start);
                stream.on_hit(at);
                stream.find_gaps(fault);
                Some(self.remove_copies(index, fault))
            }
            MatchRule::Run => {
                stream.continue_run(fault);
                stream.find_gaps(fault);
                Some(index)
            }
            MatchRule::Candidate | MatchRule::Stride => {
                stream.begin_run(at);
                Some(self.merge_next_tile(index))
            }
        }
    }

    /// Adds a stream that begins with a fault. Candidates for its stride are the distances from the
    /// nearest runs of the thread: steps within one array are shorter than distances between arrays
    /// that are walked together. The new stream may also be the next tile of an older stream that
    /// has a stride. Returns the index of the new stream.
    fn add_stream(&mut self, fault: &FaultContext) -> usize {
        self.last_id = self.last_id.wrapping_add(1) & !super::KIND_BITS;
        let at = &fault.pages;
        let own = || self.table.iter().filter(|stream| stream.thread == fault.thread);
        let tiled = own()
            .filter(|stream| stream.confidence >= CONFIDENCE_MIN && !stream.strides.is_empty());
        let tiled = tiled.min_by_key(|stream| stream.distance_from_tile(at));
        let mut nearest: [Option<Stride>; STRIDES_MAX] = [None; STRIDES_MAX];
        for stream in own() {
            let distance = stream.distance_to(at);
            let is_farther = |stride: &Option<Stride>| {
                stride.is_none_or(|it| it.distance.unsigned_abs() > distance.unsigned_abs())
            };
            if let Some(slot) = nearest.iter().position(is_farther) {
                nearest[slot..].rotate_right(1);
                nearest[slot] = Some(Stride { distance, run_length: stream.run_length() });
            }
        }
        let known = tiled.and_then(|stream| stream.strides.first().copied());
        let strides = known.into_iter().chain(nearest.into_iter().flatten()).collect();
        // With sequential advice, a stream is confident from its first fault on.
        let is_advised = fault.advice == Advice::Sequential;
        let confidence_min = self.throttle.confidence_min(SURE_CONFIDENCE);
        let stream = Stream {
            id: self.last_id,
            thread: fault.thread,
            last_fault: self.now,
            run: at.clone(),
            direction: is_advised.then_some(Direction::Up),
            segment: at.clone(),
            gap: None,
            tile_start: at.start,
            run_number: 1,
            strides: if is_advised { vec![] } else { strides },
            tiles: None,
            resembles: tiled.filter(|_| !is_advised).map(|stream| stream.id),
            confidence: if is_advised { confidence_min } else { 0 },
            depth: self.limits.initial,
            untouched: UntouchedRanges::new(),
            cursor: None,
        };
        if self.table.len() < STREAMS_MAX {
            self.table.push(stream);
            return self.table.len() - 1;
        }
        let oldest = self.table.iter().enumerate().min_by_key(|(_, stream)| {
            let is_protected = stream.confidence >= SURE_CONFIDENCE
                && self.now - stream.last_fault < PROTECTED_FAULTS;
            // A single number is compared faster than a pair. No time reaches 2^63.
            u64::from(is_protected) << 63 | stream.last_fault
        });
        let index = oldest.map_or(0, |(index, _)| index);
        self.table[index] = stream;
        index
    }

    /// Removes the other streams that have predicted a fault of the stream at `index`: they follow
    /// the same pages, and would prefetch in turn with it. Returns the new index of the stream.
    fn remove_copies(&mut self, index: usize, fault: &FaultContext) -> usize {
        let id = self.table[index].id;
        self.table.retain(|stream| {
            stream.id == id
                || stream.thread != fault.thread
                || !stream.untouched.overlaps(&fault.pages)
        });
        self.index_of(id)
    }

    fn index_of(&self, id: u32) -> usize {
        self.table.iter().position(|stream| stream.id == id).unwrap_or(0)
    }

    /// If the stream at `index` may be the next tile of an older stream, removes the older stream.
    /// If both have the same stride, the stream at `index` continues the tiles of the older one.
    /// Returns the new index of the stream, because the removal may have moved it.
    fn merge_next_tile(&mut self, index: usize) -> usize {
        let Some(tiled) = self.table[index].resembles.take() else { return index };
        let id = self.table[index].id;
        let Some(old) = self.table.iter().position(|stream| stream.id == tiled) else {
            return index;
        };
        let old = self.table.swap_remove(old);
        let index = self.index_of(id);
        self.table[index].continue_tiles_of(&old);
        index
    }
}

impl Stream {
    fn run_length(&self) -> u64 {
        self.run.end - self.run.start
    }

    fn is_descending(&self) -> bool {
        self.direction == Some(Direction::Down)
    }

    /// The start of the run: its first page. If the run descends, this is the page after its
    /// highest page.
    fn run_start(&self) -> Page {
        if self.is_descending() { self.run.end } else { self.run.start }
    }

    fn tile_run(&self) -> TileRun {
        TileRun { start: self.run_start(), tile_start: self.tile_start, number: self.run_number }
    }

    /// Returns the strongest rule by which a fault belongs to the stream; `None` if no rule does.
    fn match_with(&self, fault: &FaultContext) -> Option<MatchRule> {
        let at = &fault.pages;
        if self.untouched.overlaps(at) {
            return Some(MatchRule::Predicted);
        }
        let has_stride = self.stride_to(at).is_some();
        if has_stride && self.confidence >= CONFIDENCE_MIN {
            Some(MatchRule::Stride)
        } else if self.continues_with(fault) {
            Some(MatchRule::Run)
        } else {
            has_stride.then_some(MatchRule::Candidate)
        }
    }

    /// The distance from the start of this run to the start of a run that begins with the pages
    /// `at`.
    fn distance_to(&self, at: &Range<Page>) -> i64 {
        let start = if self.is_descending() { at.end } else { at.start };
        start.wrapping_sub(self.run_start()) as i64
    }

    /// The distance from `at` to the start of the run or to the start of its tile, whichever is
    /// nearer, pages.
    fn distance_from_tile(&self, at: &Range<Page>) -> u64 {
        self.distance_to(at).unsigned_abs().min(at.start.abs_diff(self.tile_start))
    }

    /// Records a touch of pages that the stream has requested. Requested pages that the stream
    /// expected before `at` are no longer expected.
    fn on_hit(&mut self, at: &Range<Page>) {
        let Some(UntouchedRange { pages, run }) = self.untouched.take_through(at) else {
            return;
        };
        let is_descending = self.is_descending();
        let rest = if is_descending { pages.start..at.start } else { at.end..pages.end };
        if !rest.is_empty() {
            self.untouched.push_front(UntouchedRange { pages: rest, run });
        }
        if run.start == self.run_start() {
            self.run = self.run.start.min(at.start)..self.run.end.max(at.end);
        } else {
            (self.tile_start, self.run_number) = (run.tile_start, run.number);
            self.run = if is_descending {
                at.start..run.start.max(at.end)
            } else {
                run.start.min(at.start)..at.end
            };
        }
        self.confidence = self.confidence.saturating_add(1);
        self.depth = self.depth.saturating_mul(2);
    }

    /// True if the run continues with the pages of a fault: directly, or after mapped pages, which
    /// do not fault. A confident run may also skip a small gap.
    fn continues_with(&self, fault: &FaultContext) -> bool {
        let FaultContext { pages: at, mapped_around: mapped, .. } = fault;
        // A run without confidence does not continue over a gap: its pages may be near each other
        // by chance.
        let length = self.strides.first().map_or(u64::MAX, |stride| stride.run_length);
        let gap = if self.confidence < CONFIDENCE_MIN {
            0
        } else {
            GAP_MAX.min(length.saturating_sub(self.run_length()))
        };
        let up = at.start >= self.run.end && mapped.start.min(at.start) <= self.run.end + gap;
        let down = at.end <= self.run.start && mapped.end.max(at.end) + gap >= self.run.start;
        match self.direction {
            Some(Direction::Up) => up,
            Some(Direction::Down) => down,
            None => up || down,
        }
    }

    fn continue_run(&mut self, fault: &FaultContext) {
        let FaultContext { pages: at, mapped_around: mapped, .. } = fault;
        let is_up = at.start >= self.run.end;
        if self.direction.is_none() && !is_up && self.tile_start == self.run.start {
            self.tile_start = self.run.end;
        }
        self.direction = Some(if is_up { Direction::Up } else { Direction::Down });
        self.run = self.run.start.min(at.start)..self.run.end.max(at.end);
        // A run that is longer than the runs before it is a pass over an array. Strides between
        // shorter runs do not apply to it.
        let length = self.run_length();
        self.strides.retain(|stride| length <= stride.run_length);
        if self.strides.is_empty() {
            (self.tiles, self.resembles) = (None, None);
        }
        let is_mapped = |range: &UntouchedRange| {
            mapped.start <= range.pages.start && range.pages.end <= mapped.end
        };
        if self.untouched.iter().all(is_mapped) {
            // A correct prediction: either all requested pages are touched, or the untouched ones
            // are mapped already. In the first case the next prefetch begins at the cursor, in the
            // second case after the run.
            self.cursor = self.cursor.filter(|_| self.untouched.is_empty());
            self.untouched.clear();
            self.confidence = self.confidence.saturating_add(1);
        } else {
            // A wrong prediction: the stream begins again with a confidence of 1.
            (self.confidence, self.cursor) = (1, None);
            self.untouched.clear();
        }
    }

    /// Returns the index in `strides` of the candidate that leads from the current run to `at`;
    /// `None` if no candidate does.
    fn stride_to(&self, at: &Range<Page>) -> Option<usize> {
        let stride = Stride { distance: self.distance_to(at), run_length: self.run_length() };
        self.strides.iter().position(|it| *it == stride)
    }

    /// Begins a new run at `at`, one stride after the current run.
    fn begin_run(&mut self, at: &Range<Page>) {
        let index = self.stride_to(at).unwrap_or(0);
        self.strides = vec![self.strides[index]];
        // Prefetches follow only the first candidate stride, so only a run at this stride confirms
        // a prediction. A run at another candidate may be chance.
        self.confidence = self.confidence.saturating_add(u32::from(index == 0));
        self.run = at.clone();
        self.run_number += 1;
        self.untouched.clear();
        self.cursor = None;
    }

    /// Detects a run with gaps that repeat, and converts it to short runs with a constant stride.
    /// Without this conversion, the pages in the gaps would be prefetched too. The stream would
    /// notice the waste only later, when these pages are evicted untouched.
    fn find_gaps(&mut self, fault: &FaultContext) {
        let FaultContext { pages: at, mapped_around: mapped, .. } = fault;
        let is_descending = self.is_descending();
        let run_length = self.segment.end - self.segment.start;
        let (distance, is_next) = if is_descending {
            let next = at.end..=mapped.end.max(at.end);
            (at.end.wrapping_sub(self.segment.end), next.contains(&self.segment.start))
        } else {
            let next = mapped.start.min(at.start)..=at.start;
            (at.start.wrapping_sub(self.segment.start), next.contains(&self.segment.end))
        };
        if is_next {
            self.segment = self.segment.start.min(at.start)..self.segment.end.max(at.end);
            return;
        }
        self.segment = at.clone();
        let stride = Stride { distance: distance as i64, run_length };
        let seen = match self.gap {
            _ if !self.strides.is_empty() => return,
            Some((gap, seen)) if gap == stride => seen + 1,
            _ => 0,
        };
        self.gap = Some((stride, seen));
        if seen < EQUAL_GAPS {
            return;
        }
        (self.run, self.strides, self.gap) = (at.clone(), vec![stride], None);
        (self.tile_start, self.run_number) = (if is_descending { at.end } else { at.start }, 1);
        (self.tiles, self.resembles, self.cursor) = (None, None, None);
        self.confidence = CONFIDENCE_MIN;
        self.untouched.clear();
    }

    /// Restarts the stream at the last page of the run, because prefetched pages of the run were
    /// wasted.
    fn abandon_run(&mut self) {
        self.run = if self.is_descending() {
            self.run.start..self.run.start + 1
        } else {
            self.run.end - 1..self.run.end
        };
        (self.confidence, self.direction, self.cursor, self.tiles) = (0, None, None, None);
        self.strides.clear();
        self.untouched.clear();
    }

    /// Continues the tiles of the stream `old`, whose last tile has ended. Does nothing if the
    /// stride of this stream is not the first stride of `old`.
    fn continue_tiles_of(&mut self, old: &Self) {
        if self.strides != old.strides[..self.strides.len().min(old.strides.len())] {
            return;
        }
        self.confidence = self.confidence.max(CONFIDENCE_MIN).max(old.confidence / 2);
        self.depth = old.depth / 2;
        let distance = self.tile_start.wrapping_sub(old.tile_start) as i64;
        let runs = old.run_number;
        let new = TileStride { distance, runs, seen: 1 };
        self.tiles = Some(match old.tiles.filter(|tiles| tiles.runs == runs) {
            Some(tiles) if tiles.distance == distance => {
                TileStride { seen: tiles.seen.saturating_add(1), ..new }
            }
            // This tile does not begin at the known distance from the tile before, because the
            // previous row of tiles has ended. The known distance is kept: it applies within the
            // next row of tiles too.
            Some(tiles) if tiles.seen > 1 => tiles,
            _ => new,
        });
    }

    /// Returns the pages to prefetch now. Returns no pages while more than half of the prefetch
    /// depth is requested and untouched, so that pages are requested in large pieces.
    fn prefetch(&mut self, limits: Limits, region: &Range<Page>) -> Vec<Range<Page>> {
        self.depth = self.depth.clamp(limits.initial, limits.max);
        let untouched = self.untouched.pages();
        if untouched * 2 > self.depth {
            return vec![];
        }
        let here = Cursor { run: self.tile_run(), offset: self.run_length() };
        let mut cursor = self.cursor.unwrap_or(here);
        let mut left = self.depth - untouched;
        let mut new = vec![];
        while left > 0 {
            let stride = self.strides.first();
            let length = stride.map_or(u64::MAX, |stride| stride.run_length);
            if cursor.offset >= length {
                let distance = stride.map_or(0, |stride| stride.distance);
                let Some(run) = cursor.run.next(distance, self.tiles) else { break };
                cursor = Cursor { run, offset: 0 };
            }
            let count = left.min(length - cursor.offset);
            let Some(pages) = cursor.next_pages(self.direction, count) else { break };
            let pages = pages.start.max(region.start)..pages.end.min(region.end);
            if pages.is_empty() {
                break;
            }
            cursor.offset += count;
            left -= count;
            new.push(pages.clone());
            self.untouched.push_back(UntouchedRange { pages, run: cursor.run });
        }
        self.cursor = Some(cursor);
        new
    }
}

impl TileRun {
    /// Returns the run that follows this one: the next run of the tile, or the first run of the
    /// next tile. Returns `None` if the page number would overflow.
    fn next(self, distance: i64, tiles: Option<TileStride>) -> Option<Self> {
        if let Some(tiles) = tiles.filter(|tiles| tiles.runs == self.number) {
            let start = self.tile_start.checked_add_signed(tiles.distance)?;
            return Some(Self { start, tile_start: start, number: 1 });
        }
        let start = self.start.checked_add_signed(distance)?;
        Some(Self { start, number: self.number + 1, ..self })
    }
}

impl Cursor {
    /// Returns the next `count` pages of the run from the cursor on; `None` if they would be
    /// outside the range of page numbers.
    fn next_pages(self, direction: Option<Direction>, count: u64) -> Option<Range<Page>> {
        match direction {
            Some(Direction::Down) => {
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
mod tests;
