//! The prefetch queue: pages that the prefetcher has requested and that are not loaded yet. The
//! queue also limits the frames that prefetched pages hold.
//!
//! Prefetched pages that were not touched yet may hold a limited number of frames, and each stream
//! has an equal share of these frames. A stream that holds its whole share waits until the program
//! has touched an eighth of the pages in this share. The streams take turns, and load one block of
//! pages in each turn. (The crate [`interleaf_prefetch`] decides how many pages are read ahead of a
//! stream, and how confident a prediction must be.)

use super::{
    Action, Cache, Extent, PageFault, budget::BUDGET_TICKS, frame_pool::ORDER_MAX, index::ExtentId,
    node::Node,
};
use interleaf_prefetch::{
    ADVISED_STREAM, FaultContext, Limits, Prefetch, Prefetcher, advice::Advice, is_history_stream,
    page::Page,
};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

/// Limit of the frames that hold prefetched, untouched pages: the budget divided by this number,
/// but at least [`PREFETCHED_MIN`] and at most [`PREFETCHED_MAX`].
const PREFETCHED_DIVISOR: u32 = 16;

/// Upper limit of the number of frames that hold prefetched, untouched pages: 128 MiB, which keep
/// several drives busy.
const PREFETCHED_MAX: u32 = 1 << 15;

/// Lower limit of the number of frames that hold prefetched, untouched pages: 16 MiB, which bridge
/// late completions of a drive. In a small budget, the limit is the budget divided by
/// `PREFETCHED_MIN_DIVISOR`.
const PREFETCHED_MIN: u32 = 1 << 12;
const PREFETCHED_MIN_DIVISOR: u32 = 8;

/// Limit of the frames that hold prefetched, untouched pages in a long loop: the budget divided by
/// this number, but at least [`LOOP_PREFETCHED_MIN`] frames (3 MiB, at which a drive gives most of
/// its bandwidth). In a small budget, the limit is the budget divided by
/// [`PREFETCHED_MIN_DIVISOR`]. The limit is low, because each frame without a page of the loop
/// costs a read in each pass.
const LOOP_PREFETCHED_DIVISOR: u32 = 128;
const LOOP_PREFETCHED_MIN: u32 = 3 << 8;

/// Maximum length of an extent in a long loop: the budget divided by this number. An extent is
/// evicted as a whole, so with longer extents the number of protected pages would change more with
/// each eviction.
const LOOP_EXTENT_DIVISOR: u32 = 512;

/// Lower limit of the maximum length of an extent in a long loop, pages.
const LOOP_EXTENT_MIN: u32 = 8;

/// A stream that holds its share of the frames for prefetched pages gets more frames only after the
/// program has touched some of its pages: as many as the share divided by this number.
const USED_DIVISOR: u32 = 8;

/// Maximum order of the extent that a fault on a queued page loads: 2^7 pages, 512 KiB. The order
/// is limited, because the thread waits for all of these pages. A drive gives most of its bandwidth
/// at this length.
const FAULT_ORDER_MAX: u8 = 7;

/// A stream that has requested only a part of a huge page waits until it requests the rest, so that
/// the huge page is loaded at once. The stream waits only while its prefetched, untouched pages
/// fill at least this number of huge pages.
const HUGE_PAGES_AHEAD: u64 = 2;

/// An untouched prefetched extent is stale if its age exceeds this number of ticks of the clock of
/// loaded pages, and its stream no longer expects its pages. At this age, the cache has loaded
/// about half as many pages as the budget has frames.
const STALE_AFTER: u16 = (BUDGET_TICKS / 2) as u16;

/// Pages of a stream that holds more than its share of the frames for prefetched pages may be
/// dropped for another stream. They are dropped only after the cache has loaded, since their load,
/// this many times the maximum number of these frames. Such a drop helps a loop that has prefetched
/// the beginning of its next pass, and needs the frames for the rest of the present pass.
const IDLE_LOADS: u32 = 16;

/// Maximum number of ranges of a queued prefetch that are searched for a faulting page. This limit
/// bounds the time of the search.
const SEARCHED_RANGES: usize = 64;

/// Pages that a stream has requested and that are not loaded yet.
#[derive(Clone, Debug)]
struct QueuedPrefetch {
    stream: u32,
    /// The requested pages, in the order of their use.
    ranges: VecDeque<Range<Page>>,
    /// The pages to load next: the rest of a fault-around, which surrounds a single page that the
    /// stream has requested.
    fault_around: Range<Page>,
    /// True if the pages in `fault_around` are loaded as a probe, of which only the touched page is
    /// mapped (`fault_around.rs`); `None` until the first extent of these pages is loaded.
    is_probe: Option<bool>,
    /// True if the stream goes from higher to lower page numbers.
    is_descending: bool,
    /// True if the stream holds its share of the frames for prefetched pages. The stream then waits
    /// until the program has touched some of these pages. Without the wait, each touch would free
    /// one frame, and start a transfer of a single page.
    is_at_share: bool,
    /// The node of the thread that caused the prefetch. The pages are loaded into frames of this
    /// node.
    node: Node,
}

impl QueuedPrefetch {
    /// An empty queue of a stream.
    const fn new(stream: u32, is_descending: bool, node: Node) -> Self {
        Self {
            stream,
            ranges: VecDeque::new(),
            fault_around: 0..0,
            is_probe: None,
            is_descending,
            is_at_share: false,
            node,
        }
    }

    /// A queue with one range of ascending pages.
    fn ascending(stream: u32, pages: Range<Page>, node: Node) -> Self {
        Self { ranges: [pages].into(), ..Self::new(stream, false, node) }
    }

    const fn is_of(&self, stream: u32, is_descending: bool) -> bool {
        self.stream == stream && self.is_descending == is_descending
    }

    /// Appends pages to the queue. Pages that continue the last range of the queue are joined with
    /// it.
    fn push(&mut self, range: Range<Page>) {
        match self.ranges.back_mut() {
            Some(last) if !self.is_descending && last.end == range.start => last.end = range.end,
            Some(last) if self.is_descending && last.start == range.end => {
                last.start = range.start;
            }
            _ => self.ranges.push_back(range),
        }
    }

    /// The order of the largest aligned block that contains `page` and lies within a queued range.
    /// `None` if no queued range contains the page. Also `None` if the page is far from the
    /// beginning of its range: such a fault does not belong to the stream.
    fn order_around(&self, page: Page) -> Option<u8> {
        let is_near = |range: &&Range<Page>| {
            let far = if self.is_descending { range.end - page } else { page - range.start };
            far <= 1 << FAULT_ORDER_MAX
        };
        let mut ranges = self.ranges.iter().take(SEARCHED_RANGES);
        let range = ranges.find(|range| range.contains(&page)).filter(is_near)?;
        let fits = |order: &u8| {
            let start = page >> order << order;
            range.start <= start && start + (1 << order) <= range.end
        };
        (0..=FAULT_ORDER_MAX).rev().find(fits)
    }
}

/// The prefetcher, the queues of its streams, and the number of frames that hold prefetched pages.
#[derive(Clone, Debug)]
pub(super) struct PrefetchQueue {
    prefetcher: Prefetcher,
    queued: VecDeque<QueuedPrefetch>,
    /// For each node, the number of frames that hold prefetched pages (loaded or being loaded) that
    /// were not touched yet.
    frames: Vec<u32>,
    /// For each stream, the number of frames that hold its prefetched, untouched pages; a stream
    /// without such frames has no entry.
    frames_by_stream: BTreeMap<u32, u32>,
}

impl PrefetchQueue {
    pub(super) fn new(limits: Limits, nodes: usize) -> Self {
        Self {
            prefetcher: Prefetcher::new(limits),
            queued: VecDeque::new(),
            frames: vec![0; nodes],
            frames_by_stream: BTreeMap::new(),
        }
    }

    /// Sets the number of pages of all regions. This number bounds the memory of the fault history.
    pub(super) fn set_footprint(&mut self, pages: u64) {
        self.prefetcher.set_footprint(pages);
    }

    /// Tells the prefetcher that prefetched pages of a stream were dropped untouched.
    pub(super) fn on_wasted(&mut self, stream: u32, pages: &Range<Page>) {
        self.prefetcher.on_wasted(stream, pages);
    }

    /// Number of frames on a node that hold prefetched, untouched pages.
    pub(super) fn frames(&self, node: Node) -> u32 {
        self.frames[usize::from(node)]
    }

    /// Number of streams that have prefetched, untouched pages.
    pub(super) fn active_streams(&self) -> u32 {
        self.frames_by_stream.len() as u32
    }

    fn frames_of(&self, stream: u32) -> u32 {
        self.frames_by_stream.get(&stream).copied().unwrap_or(0)
    }

    pub(super) fn add_frames(&mut self, stream: u32, node: Node, frames: u32) {
        self.frames[usize::from(node)] += frames;
        *self.frames_by_stream.entry(stream).or_default() += frames;
    }

    fn remove_frames(&mut self, stream: u32, node: Node, frames: u32) {
        self.frames[usize::from(node)] -= frames;
        if let Some(has) = self.frames_by_stream.get_mut(&stream) {
            *has -= frames;
            if *has == 0 {
                self.frames_by_stream.remove(&stream);
            }
        }
    }

    /// Queues pages that the program announced by `MADV_WILLNEED`.
    pub(super) fn enqueue_advised(&mut self, pages: Range<Page>, node: Node) {
        self.queued.push_back(QueuedPrefetch::ascending(ADVISED_STREAM, pages, node));
    }

    /// Queues the pages of `prefetch`, which follows from a fault on `page`. These pages will be
    /// loaded into frames of `node`.
    fn enqueue(&mut self, prefetch: &Prefetch, page: Page, node: Node) {
        let stream = prefetch.stream;
        let ranges = prefetch.pages.iter().cloned();
        let is_descending = prefetch.pages.first().is_some_and(|range| range.end <= page);
        let prefetcher = &self.prefetcher;
        let same = self.queued.iter_mut().find(|it| it.is_of(stream, is_descending));
        if let Some(queued) = same {
            queued.node = node;
            // Drop queued pages that the stream has passed.
            while let Some(range) = queued.ranges.front()
                && !prefetcher.expects(queued.stream, range)
            {
                queued.ranges.pop_front();
            }
            ranges.for_each(|range| queued.push(range));
        } else {
            let mut queued = QueuedPrefetch::new(stream, is_descending, node);
            ranges.for_each(|range| queued.push(range));
            // Drop the queues of streams that have ended: the prefetcher expects none of their
            // pages.
            self.queued
                .retain(|it| it.ranges.iter().any(|range| prefetcher.expects(it.stream, range)));
            self.queued.push_back(queued);
        }
    }

    /// Queues again the pages that the stream of the last fault expects next. Called after a fault
    /// on a page that the stream had requested, and that the queue had skipped because the page was
    /// resident. This page was then evicted before its touch, and other skipped pages may have been
    /// evicted too.
    fn enqueue_skipped(&mut self, page: Page, node: Node) {
        let Some(Prefetch { stream, pages, .. }) = self.prefetcher.next_expected() else { return };
        let Some(first) = pages.first() else { return };
        let is_descending = first.end <= page;
        let same = self.queued.iter().position(|it| it.is_of(stream, is_descending));
        let index = same.unwrap_or_else(|| {
            self.queued.push_back(QueuedPrefetch::new(stream, is_descending, node));
            self.queued.len() - 1
        });
        let ranges = &mut self.queued[index].ranges;
        let mut skipped = vec![];
        for Range { start, end } in pages {
            let overlaps = |it: &&Range<Page>| it.start < end && start < it.end;
            let queued = ranges.iter().take(SEARCHED_RANGES).find(overlaps);
            skipped.push(match queued {
                Some(queued) if is_descending => start.max(queued.end)..end,
                Some(queued) => start..end.min(queued.start),
                None => start..end,
            });
            if queued.is_some() {
                // This queued range has the pages that the stream touches after the skipped pages.
                break;
            }
        }
        for pages in skipped.into_iter().rev().filter(|it| !it.is_empty()) {
            ranges.push_front(pages);
        }
    }

    /// The order of the extent to load for a fault on a queued page. `None` if `page` is not
    /// queued, or if its stream no longer expects it.
    pub(super) fn order_for_fault(&self, page: Page) -> Option<u8> {
        self.queued.iter().find_map(|queued| {
            let order = queued.order_around(page)?;
            self.prefetcher.expects(queued.stream, &(page..page + 1)).then_some(order)
        })
    }
}

/// The next block of pages to load for a queued prefetch.
struct NextBlock {
    page: Page,
    order: u8,
    /// True if the block belongs to the fault-around of a queued page. `Cache::next_block` replaces
    /// a queued range that is not longer than a fault-around by a whole fault-around. False if the
    /// block is a part of a longer queued range.
    is_fault_around: bool,
}

impl Cache {
    /// Queues the pages that the prefetcher predicts from `fault`.
    pub(super) fn plan_prefetch(&mut self, fault: PageFault, actions: &mut Vec<Action>) {
        let PageFault { thread, page, offset, node, .. } = fault;
        let extent = self.residency.find(page).map(|id| *self.residency.extent(id));
        let pages = extent.map_or(page..page + 1, |extent| extent.span().pages());
        let is_unexpected = extent.is_none_or(|extent| extent.is_filling_for_fault());
        let (region, advice) = (self.regions.containing(page), self.advice.get(page));
        let mapped_around = self.residency.mapped_around(&pages);
        let fault = FaultContext { thread, page, offset, pages, mapped_around, region, advice };
        let Some(prefetch) = self.prefetch.prefetcher.on_fault(&fault) else {
            // Do not ask for skipped pages after a fault on a page with `MADV_RANDOM`: the
            // prefetcher ignores such a fault, so `next_expected` would return pages that follow
            // from an earlier fault.
            if is_unexpected && advice != Advice::Random {
                self.prefetch.enqueue_skipped(page, node);
            }
            return;
        };
        for pages in &prefetch.map_early {
            self.map_early(prefetch.stream, pages, actions);
        }
        if !prefetch.pages.is_empty() {
            self.prefetch.enqueue(&prefetch, page, node);
        }
    }

    /// Loads queued pages, one block of each stream in turn, until the queue is empty, no frame is
    /// free, or prefetched pages hold their maximum number of frames. Also stops when every stream
    /// waits: for touches of its pages, because it holds its share of these frames, or for the rest
    /// of a huge page.
    pub(super) fn issue_prefetches(&mut self, actions: &mut Vec<Action>) {
        for node in self.nodes() {
            self.issue_prefetches_of(node, actions);
        }
    }

    fn issue_prefetches_of(&mut self, node: Node, actions: &mut Vec<Action>) {
        let max = self.prefetched_frames_max(node);
        let mut waiting = 0;
        while waiting < self.prefetch.queued.len() {
            let Some(mut queued) = self.prefetch.queued.pop_front() else { return };
            if queued.node != node {
                self.prefetch.queued.push_back(queued);
                waiting += 1;
                continue;
            }
            let stream = queued.stream;
            let has = self.prefetch.frames_of(stream);
            let share = max / (self.prefetch.active_streams() + u32::from(has == 0));
            // If the stream holds its share, skip the search for its next block, which takes time.
            let enough = if queued.is_at_share { share - share / USED_DIVISOR } else { share };
            queued.is_at_share = has > 0 && has >= enough;
            if queued.is_at_share {
                self.prefetch.queued.push_back(queued);
                waiting += 1;
                continue;
            }
            let Some(block) = self.next_block(&mut queued) else { continue };
            let NextBlock { page, order, is_fault_around } = block;
            queued.is_at_share = has > 0 && has + (1 << order) > share;
            let has_to_wait = queued.is_at_share || self.is_partial_huge_page(&queued, has);
            self.prefetch.queued.push_back(queued);
            if has_to_wait {
                waiting += 1;
                continue;
            }
            if self.prefetch.frames(node) + (1 << order) > max
                && !self.drop_for_stream(stream, node, max)
            {
                return;
            }
            let Some(id) = self.load(page, order, stream, node, actions) else { return };
            if is_fault_around {
                self.note_fault_around(id);
            }
            self.count_prefetch(id);
            waiting = 0;
        }
    }

    /// Maximum number of frames of a node that may hold prefetched, untouched pages.
    pub(super) fn prefetched_frames_max(&self, node: Node) -> u32 {
        let frames = self.budget_of(node);
        let (divisor, min) = match self.reclaim.loop_detector.is_long_loop() {
            true => (LOOP_PREFETCHED_DIVISOR, LOOP_PREFETCHED_MIN),
            false => (PREFETCHED_DIVISOR, PREFETCHED_MIN),
        };
        let min = min.min(frames / PREFETCHED_MIN_DIVISOR);
        (frames / divisor).clamp(min, PREFETCHED_MAX)
    }

    /// The largest order of prefetched extents, which have 2^order pages.
    pub(super) fn prefetch_order_max(&self) -> u8 {
        match self.reclaim.loop_detector.is_long_loop() {
            true => {
                let pages = (self.budget() / LOOP_EXTENT_DIVISOR).max(LOOP_EXTENT_MIN);
                pages.ilog2().min(ORDER_MAX.into()) as u8
            }
            false => ORDER_MAX,
        }
    }

    fn count_prefetch(&mut self, id: ExtentId) {
        let now = self.time();
        let extent = self.residency.extent_mut(id);
        extent.since = now;
        let extent = *extent;
        let (stream, frames) = (extent.stream, extent.frames_read_ahead());
        self.prefetch.add_frames(stream, self.node_of(extent.span().frame), extent.frames());
        self.counts.prefetched += frames;
        self.counts.history.prefetched += if is_history_stream(stream) { frames } else { 0 };
    }

    /// Subtracts the frames of a prefetched extent from the counters of frames that hold
    /// prefetched, untouched pages.
    pub(super) fn forget_prefetched(&mut self, extent: &Extent) {
        let node = self.node_of(extent.span().frame);
        self.prefetch.remove_frames(extent.stream, node, extent.frames());
    }

    /// Notes that an extent is being loaded as fault-around of a page of the last queued prefetch.
    /// Makes the extent a probe if a probe is due. Removes the extent's pages from this prefetch,
    /// so that they are not loaded again if they are evicted untouched.
    fn note_fault_around(&mut self, id: ExtentId) {
        let Range { start, end } = self.residency.extent(id).span().pages();
        let region = self.regions.containing(start).start;
        let is_next_a_probe = self.fault_around.size_mut(region).is_next_a_probe();
        if let Some(queued) = self.prefetch.queued.back_mut() {
            queued.fault_around.start = end;
            let is_probe = *queued.is_probe.get_or_insert(is_next_a_probe);
            self.residency.extent_mut(id).is_probe = is_probe;
        }
    }

    /// Returns the next block of pages to load for `queued`; `None` if no queued page is left.
    /// Skips resident pages, and pages that the stream has passed.
    fn next_block(&self, queued: &mut QueuedPrefetch) -> Option<NextBlock> {
        // First load the rest of a fault-around that an earlier call has begun. While free frames
        // are fragmented, a fault-around is loaded as several extents.
        if let Some(page) = self.skip_resident(&mut queued.fault_around, false) {
            let order = aligned_order(page, &queued.fault_around, false, ORDER_MAX);
            return Some(NextBlock { page, order, is_fault_around: true });
        }
        let is_descending = queued.is_descending;
        loop {
            let range = queued.ranges.front_mut()?;
            let page = self.skip_resident(range, is_descending);
            let expects = |_: &Page| self.prefetch.prefetcher.expects(queued.stream, range);
            let Some(page) = page.filter(expects) else {
                queued.ranges.pop_front();
                continue;
            };
            // A range that is not longer than the fault-around is replaced by the fault-around of
            // the page in this range that the stream uses first.
            if range.end - range.start > 1 << self.fault_around.order_at(&self.regions, page) {
                let order = aligned_order(page, range, is_descending, self.prefetch_order_max());
                let start = page >> order << order;
                let block = start..start + (1 << order);
                if !self.prefetch.prefetcher.expects(queued.stream, &block) {
                    // The stream has passed the beginning of the range, and expects only the rest.
                    skip(range, &block, is_descending);
                    continue;
                }
                return Some(NextBlock { page, order, is_fault_around: false });
            }
            queued.fault_around = self.fault_around.pages_around(&self.regions, &(page..page + 1));
            queued.is_probe = None;
            return self.next_block(queued);
        }
    }

    /// Returns the page of the range that the stream touches first, among the pages that can be
    /// loaded. A page can be loaded if it is in a region, and is neither resident, poisoned nor
    /// being discarded. Removes the pages before it, in the direction of the stream, from the
    /// range.
    fn skip_resident(&self, range: &mut Range<Page>, is_descending: bool) -> Option<Page> {
        while !range.is_empty() {
            let page = if is_descending { range.end - 1 } else { range.start };
            let here = match self.residency.find(page) {
                Some(id) => self.residency.extent(id).span().pages(),
                None if self.durability.is_unavailable(page) => page..page + 1,
                // Pages may have been removed from their region after they were queued.
                None => match self.regions.gap(page) {
                    Some(gap) => gap,
                    None => return Some(page),
                },
            };
            skip(range, &here, is_descending);
        }
        None
    }

    /// True if the load of `queued` can wait for the rest of a huge page. This is the case if the
    /// only queued range is the beginning of a huge page, and if the stream's untouched pages hold
    /// at least [`HUGE_PAGES_AHEAD`] huge pages of frames (`has`). The stream will request the rest
    /// of the huge page before the program has touched all of these pages.
    fn is_partial_huge_page(&self, queued: &QueuedPrefetch, has: u32) -> bool {
        const HUGE: u64 = 1 << ORDER_MAX;
        if queued.ranges.len() != 1 {
            return false;
        }
        let Some(range) = queued.ranges.front() else { return false };
        let region = self.regions.containing(range.start);
        let (is_begun, is_end) = match queued.is_descending {
            true => (range.end.is_multiple_of(HUGE), range.start == region.start),
            false => (range.start.is_multiple_of(HUGE), range.end == region.end),
        };
        let is_part = range.end - range.start < HUGE && is_begun && !is_end;
        is_part && u64::from(has) >= HUGE_PAGES_AHEAD * HUGE
    }

    /// Drops the oldest prefetched extent of a node to give its frames to `stream`, if the extent
    /// may be dropped. It may be dropped if its own stream no longer expects its pages, or if its
    /// stream holds more than its share of the frames ([`Cache::is_over_share`]). Returns true if
    /// the extent was dropped.
    fn drop_for_stream(&mut self, stream: u32, node: Node, max: u32) -> bool {
        let Some(id) = self.residency.oldest_prefetched(node) else { return false };
        let may_drop =
            self.is_over_share(id, stream, max) || self.unexpected_prefetch(node).is_some();
        if may_drop {
            self.drop_prefetched(id);
        }
        may_drop
    }

    /// True if the prefetched extent `id` may be dropped for the stream `waiting`: its own stream
    /// holds more than its share of `max` frames, and the program does not use the extent at
    /// present. Pages that the program has announced by `MADV_WILLNEED` count as unused. Other
    /// extents count as unused if the cache has loaded more than [`IDLE_LOADS`] times `max` pages
    /// since their load.
    fn is_over_share(&self, id: ExtentId, waiting: u32, max: u32) -> bool {
        let extent = self.residency.extent(id);
        let is_idle = extent.stream == ADVISED_STREAM
            || self.pages_loaded_since(extent.since) > max.saturating_mul(IDLE_LOADS);
        is_idle
            && ![ADVISED_STREAM, extent.stream].contains(&waiting)
            && self.prefetch.frames_of(extent.stream) > max / (self.prefetch.active_streams() + 1)
    }

    /// The oldest prefetched extent of a node, if the extent's stream no longer expects touches of
    /// its pages.
    fn unexpected_prefetch(&self, node: Node) -> Option<ExtentId> {
        let id = self.residency.oldest_prefetched(node)?;
        let extent = *self.residency.extent(id);
        let pages = self.fault_around.pages_around(&self.regions, &extent.span().pages());
        (!self.prefetch.prefetcher.expects(extent.stream, &pages)).then_some(id)
    }

    /// The oldest prefetched extent of a node, if it was prefetched more than [`STALE_AFTER`] ticks
    /// ago and its stream no longer expects its pages. A younger extent is never stale, because a
    /// slow thread may still touch it.
    pub(super) fn stale_prefetch(&self, node: Node) -> Option<ExtentId> {
        let since = self.residency.extent(self.residency.oldest_prefetched(node)?).since;
        let is_stale = self.time().wrapping_sub(since) > STALE_AFTER;
        is_stale.then(|| self.unexpected_prefetch(node)).flatten()
    }
}

/// Removes `passed` from the beginning of a range, in the direction of its stream.
fn skip(range: &mut Range<Page>, passed: &Range<Page>, is_descending: bool) {
    match is_descending {
        true => range.end = passed.start.max(range.start),
        false => range.start = passed.end.min(range.end),
    }
}

/// The order of the largest aligned block that can be the first loaded block of a range. `page` is
/// the first page of the range, or the last page for a descending stream.
fn aligned_order(page: Page, range: &Range<Page>, is_descending: bool, max: u8) -> u8 {
    let fits = |order: &u8| {
        let start = page >> order << order;
        let end = start + (1 << order);
        let is_next = if is_descending { end == page + 1 } else { start == page };
        is_next && range.start <= start && end <= range.end
    };
    (0..=max).rev().find(fits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::cache::{Event, PageFault, Settings};
    use interleaf_prefetch::Limits;

    const FAR: Page = 1 << 20;

    /// Returns a cache with 4096 frames after faults of one thread on `pages`, and the pages that
    /// the thread's stream expects next. The memory has the given advice and was never touched
    /// before, so each fault fills a huge page with zeros.
    fn swept(advice: Advice, pages: impl Iterator<Item = Page>) -> (Cache, Prefetch) {
        let prefetch = Limits { initial: 16, max: 256 };
        let mut cache = Cache::new(Settings { frames: 4096, order: 0, prefetch });
        cache.add_region(0..FAR);
        cache.on(Event::Advised(0..FAR, advice, 0), &mut vec![]);
        for page in pages {
            let touched = Event::Fault(PageFault { node: 0, thread: 1, page, offset: 0 });
            cache.on(touched, &mut vec![]);
        }
        let expected = cache.prefetch.prefetcher.next_expected().unwrap();
        (cache, expected)
    }

    #[test]
    fn skipped_pages_that_were_evicted_are_queued_again() {
        let (mut cache, Prefetch { stream, pages, .. }) = swept(Advice::Sequential, 0..1);
        let Range { start, end } = pages[0].clone();
        cache.prefetch.queued = [QueuedPrefetch::ascending(stream, start + 5..end, 0)].into();
        cache.prefetch.enqueue_skipped(start - 1, 0);
        let ranges = &cache.prefetch.queued[0].ranges;
        assert_eq!(
            ranges.iter().take(2).collect::<Vec<_>>(),
            [&(start..start + 5), &(start + 5..end)]
        );
        // A second call must not queue the skipped pages again.
        cache.prefetch.enqueue_skipped(start - 1, 0);
        assert_eq!(cache.prefetch.queued[0].ranges.front(), Some(&(start..start + 5)));
    }

    /// The stream has gone back to the beginning of an array, and has already queued pages there.
    #[test]
    fn skipped_pages_are_queued_before_the_pages_of_the_next_pass() {
        let (mut cache, Prefetch { stream, pages, .. }) = swept(Advice::Sequential, 5000..5001);
        cache.prefetch.queued = [QueuedPrefetch::ascending(stream, 0..100, 0)].into();
        cache.prefetch.enqueue_skipped(5000, 0);
        assert_eq!(cache.prefetch.queued[0].ranges, [pages[0].clone(), 0..100]);
    }

    /// The stream expects only the end of the queued range, whose pages are resident already.
    #[test]
    fn queued_pages_that_the_stream_has_passed_are_not_loaded() {
        let (cache, Prefetch { stream, pages, .. }) = swept(Advice::Sequential, 5000..5001);
        let Range { start, end } = pages[0].clone();
        let mut queued = QueuedPrefetch::ascending(stream, start - 4096..end, 0);
        assert!(cache.next_block(&mut queued).is_none());
    }

    /// Pages that left their region are not loaded, because the program may have mapped other
    /// memory at their addresses.
    #[test]
    fn queued_pages_that_are_in_no_region_any_more_are_not_loaded() {
        let (mut cache, _) = swept(Advice::Sequential, 0..1);
        cache.remove_region(&(2004..2012));
        for (is_descending, queued, next) in [
            (false, 2004..2016, Some(2012)),
            (true, 2000..2012, Some(2003)),
            (false, 2004..2012, None),
        ] {
            let mut range = queued.clone();
            assert_eq!(cache.skip_resident(&mut range, is_descending), next, "{queued:?}");
        }
    }

    #[test]
    fn skipped_pages_of_descending_or_idle_streams_are_queued_again() {
        let (mut cache, Prefetch { stream, pages, .. }) =
            swept(Advice::Normal, (1..=6).map(|at| FAR - (at << ORDER_MAX)));
        let Range { start, end } = pages[0].clone();
        let mut queued = QueuedPrefetch::new(stream, true, 0);
        queued.push(start..end - 5);
        cache.prefetch.queued = [queued].into();
        cache.prefetch.enqueue_skipped(end, 0);
        assert_eq!(cache.prefetch.queued[0].ranges.front(), Some(&(end - 5..end)));
        cache.prefetch.queued.clear();
        cache.prefetch.enqueue_skipped(end, 0);
        assert_eq!(cache.prefetch.queued[0].ranges, pages);
        assert!(cache.prefetch.queued[0].is_descending);
    }
}
