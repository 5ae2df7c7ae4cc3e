//! The state of one extent. The struct is kept small, because a cache may have as many extents as
//! frames.

use super::Span;
use crate::cache::{frame_pool::Frame, node::Node};
use interleaf_prefetch::page::Page;

/// The states of an extent. A diagram in [`crate::cache`] shows the transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExtentState {
    Filling,
    Ready,
    Mapping,
    Mapped,
    Unmapping,
    Writing,
}

/// A fault for which a thread waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingFault {
    pub(super) page: Page,
    /// The node that the thread runs on.
    pub(super) node: Node,
}

/// The value of `Extent::waiting_page` if no thread waits for the extent.
const NO_WAITER: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// The first page of the extent. Page numbers have 32 bits, enough for 16 TiB.
    page: u32,
    frame: Frame,
    /// The stream that prefetched the extent; 0 for none, and after the first touch of the extent.
    pub(super) stream: u32,
    /// The page that the newest waiting thread waits for, as an index in the extent; [`NO_WAITER`]
    /// if no thread waits.
    waiting_page: u16,
    /// The time, in ticks of the clock of loaded pages ([`Cache::time`](super::Cache::time)), at
    /// which the extent was mapped last. Before the first mapping, the time of the prefetch.
    pub(super) since: u16,
    order: u8,
    pub(super) state: ExtentState,
    /// The node that the newest waiting thread runs on.
    waiting_node: Node,
    /// True if the extent had dirty pages when it was last unmapped, and has not been written back
    /// since. Whether a mapped extent is dirty is known only when it is unmapped.
    pub(super) is_dirty: bool,
    /// True if the extent belongs in the probationary queue while it is mapped: a loop uses the
    /// extent, and the extent is not protected from eviction (`evict.rs`). All other mapped extents
    /// belong in the protected queue.
    pub(super) is_probationary: bool,
    /// True if the extent is mapped, and exempt from eviction.
    pub(super) is_pinned: bool,
    /// True if compaction needs the frames of the extent. The extent is then dropped as soon as it
    /// is unmapped and clean, unless a thread waits for it.
    pub(super) is_evicting: bool,
    /// True if the extent is a probe of the fault-around size (`fault_around.rs`): only its
    /// faulting page is mapped, so that the pager sees touches of the other pages as faults.
    pub(super) is_probe: bool,
    /// True if the extent was prefetched by a read of the store, and not touched yet. False if a
    /// prefetch filled the extent with zeros: `Counts::prefetched` counts only reads.
    pub(super) is_read_ahead: bool,
    /// True while a faulting thread maps the extent by itself, without the pager's thread
    /// (`fast_path.rs`).
    pub(super) is_claimed: bool,
}

impl Extent {
    pub(super) const fn new(span: Span, state: ExtentState, stream: u32) -> Self {
        Self {
            page: span.page as u32,
            frame: span.frame,
            stream,
            waiting_page: NO_WAITER,
            since: 0,
            order: span.order,
            state,
            waiting_node: 0,
            is_dirty: false,
            is_probationary: false,
            is_pinned: false,
            is_evicting: false,
            is_probe: false,
            is_read_ahead: false,
            is_claimed: false,
        }
    }

    /// This extent's state with the pages and frames of `span`.
    pub(super) const fn with_span(self, span: Span) -> Self {
        Self { page: span.page as u32, frame: span.frame, order: span.order, ..self }
    }

    pub(super) const fn span(&self) -> Span {
        Span { page: self.page as Page, frame: self.frame, order: self.order }
    }

    pub(super) const fn frames(&self) -> u32 {
        1 << self.order
    }

    /// Number of frames of the extent if it was read ahead and not touched yet; 0 otherwise.
    pub(super) const fn frames_read_ahead(&self) -> u64 {
        if self.is_read_ahead { self.frames() as u64 } else { 0 }
    }

    /// True if the extent is being loaded for a fault, rather than for a prefetch.
    pub(super) fn is_filling_for_fault(&self) -> bool {
        self.state == ExtentState::Filling && self.stream == 0
    }

    /// Notes that a thread waits for a page of the extent.
    pub(super) const fn add_waiter(&mut self, fault: WaitingFault) {
        let WaitingFault { page, node } = fault;
        let waiting_page = (page - self.page as Page) as u16;
        // Only one page of a probe is mapped. If threads wait for two pages of a probe, the extent
        // is therefore mapped as a whole, and is no probe any more.
        self.is_probe &= self.waiting_page == NO_WAITER || self.waiting_page == waiting_page;
        self.waiting_page = waiting_page;
        self.waiting_node = node;
    }

    pub(super) fn waiting_fault(&self) -> Option<WaitingFault> {
        let page = Page::from(self.page) + Page::from(self.waiting_page);
        let node = self.waiting_node;
        (self.waiting_page != NO_WAITER).then_some(WaitingFault { page, node })
    }

    pub(super) const fn clear_waiter(&mut self) {
        self.waiting_page = NO_WAITER;
    }
}
