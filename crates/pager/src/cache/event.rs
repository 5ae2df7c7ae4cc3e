//! The interface of the cache: the events that it reacts to, and the actions that it requests.

use crate::cache::{
    frame_pool::{Frame, ORDER_MAX},
    index::ExtentId,
    node::Node,
};
use interleaf_prefetch::{advice::Advice, page::Page};
use std::ops::Range;

/// A touch of a page that is not mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault {
    /// ID of the thread that touched the page.
    pub thread: u32,
    pub page: Page,
    /// Offset of the touched byte in the page, bytes.
    pub offset: u16,
    /// The node that the thread runs on.
    pub node: Node,
}

/// An event, by which the caller reports to the cache what has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A thread touched a page that is not mapped, and waits.
    Fault(PageFault),
    /// The frames of an extent are filled, or the read failed.
    Filled(ExtentId, Result<(), Failed>),
    /// An extent is mapped, and the threads that waited for its pages run again.
    MovedIn(ExtentId),
    /// An extent is unmapped. The set has the dirty pages of the extent.
    MovedOut(ExtentId, DirtyPages),
    /// An extent was written back, or the write failed.
    Wrote(ExtentId, Result<(), Failed>),
    /// The program discards these pages: they read as zeros at the next touch.
    Discarded(Range<Page>),
    /// The store has erased the discarded range of pages that begins with this page.
    Erased(Page),
    /// A device or a system call pins pages of an extent, so the extent cannot be unmapped.
    Pinned(ExtentId),
    /// Some time has passed since a page was found pinned. The cache tries again to evict extents.
    RetryPinned,
    /// A thread that runs on this node gives advice about pages.
    Advised(Range<Page>, Advice, Node),
    /// The process is about to fork. The cache unmaps all pages, writes back the dirty pages, and
    /// loads no page until [`Event::Thaw`].
    Freeze,
    /// The fork has succeeded or failed. The cache loads pages again.
    Thaw,
    /// The budget changes to this number of frames.
    Budget(u32),
}

/// The set of the dirty pages of an extent, by their index in the extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyPages([u64; 1 << (ORDER_MAX - 6)]);

impl DirtyPages {
    pub const EMPTY: Self = Self([0; 1 << (ORDER_MAX - 6)]);

    /// The set of the first `pages` pages of an extent.
    pub fn all(pages: usize) -> Self {
        let mut dirty = Self::EMPTY;
        (0..pages).for_each(|page| dirty.insert(page));
        dirty
    }

    /// Adds the page with this index in the extent.
    pub const fn insert(&mut self, page: usize) {
        self.0[page / 64] |= 1 << (page % 64);
    }

    /// True if the page with this index in the extent is dirty.
    pub const fn contains(&self, page: usize) -> bool {
        self.0[page / 64] >> (page % 64) & 1 == 1
    }

    /// True if no page is dirty.
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// Returns the ranges of dirty pages among the first `pages` pages of the extent. Two ranges
    /// with at most `gap` clean pages between them become one range.
    pub fn ranges(&self, pages: usize, gap: usize) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = vec![];
        for page in (0..pages).filter(|page| self.contains(*page)) {
            match ranges.last_mut() {
                Some(range) if page - range.end <= gap => range.end = page + 1,
                _ => ranges.push(page..page + 1),
            }
        }
        ranges
    }
}

/// The error of a read or a write of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// The pages of an extent, and its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub page: Page,
    pub frame: Frame,
    /// The extent is 2^`order` pages long.
    pub order: u8,
}

impl Span {
    pub const fn pages(&self) -> Range<Page> {
        self.page..self.page + (1 << self.order)
    }

    /// The two halves of an extent of two pages or more.
    pub(super) const fn halves(self) -> [Self; 2] {
        let Self { page, frame, order } = self;
        let order = order - 1;
        [
            Self { page, frame, order },
            Self { page: page + (1 << order), frame: frame + (1 << order), order },
        ]
    }
}

/// An action that the cache requests. The caller answers most actions by an [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fill the frames of an extent with zeros.
    Zero(ExtentId, Span),
    /// Read the pages of an extent from the store into its frames.
    Read(ExtentId, Span),
    /// Map an extent: move its pages from the frames to the region, and wake the threads that wait
    /// for these pages.
    MoveIn(ExtentId, Span),
    /// Unmap an extent: move its pages from the region to the frames, and report the dirty pages.
    MoveOut(ExtentId, Span),
    /// Unmap an extent with pinned pages and drop its content, which the program has discarded.
    Drop(ExtentId, Span),
    /// Move the memory of the 2^`order` frames from `from` on to the frames from `to` on, before
    /// any later action. The frames at `to` have no memory: they belonged to a mapped extent, whose
    /// memory is in the region. In the state of the cache, this extent already has the frames at
    /// `from`, and the frames at `to` are free. The caller answers with no event.
    MoveMemory { from: Frame, to: Frame, order: u8 },
    /// Write the dirty pages of an extent from its frames back to the store.
    Write(ExtentId, Span, DirtyPages),
    /// Wake the threads that wait for pages, given as the first page and the number of pages. A
    /// woken thread repeats its access: the page is mapped now, or the thread faults again.
    Wake(Page, u64),
    /// Poison a page, so that each touch raises SIGBUS: the content of the page is lost.
    Poison(Page),
    /// Erase pages in the store, given as the first page and the number of pages, so that these
    /// pages read as zeros. The answer is [`Event::Erased`].
    Erase(Page, u64),
}
