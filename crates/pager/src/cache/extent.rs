//! What is known of an extent. There may be as many as frames, so that it has to be small.

use super::Span;
use crate::{cache::frame_pool::Frame, page::Page};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Filling,
    Ready,
    Mapping,
    Mapped,
    Unmapping,
    Writing,
}

/// A page that a thread waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) page: Page,
    pub(super) is_write: bool,
}

/// Nobody waits for a page.
const NOBODY: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// The first page: 2^32 of them are 16 TiB.
    page: u32,
    frame: Frame,
    /// The stream that foresaw it, until it is touched; 0 for none.
    pub(super) stream: u32,
    /// The page that a thread waits for, from the first on.
    wanted: u16,
    /// When it was foreseen.
    pub(super) since: u16,
    order: u8,
    pub(super) state: State,
    /// Whether who waits wants to write.
    wants_to_write: bool,
    /// Whether what is in memory may differ from what is stored.
    pub(super) is_dirty: bool,
    /// Whether it goes by in a loop.
    pub(super) goes_by: bool,
    /// Whether it is mapped and stays so.
    pub(super) is_pinned: bool,
    /// Whether its frames are needed, if nobody waits for it.
    pub(super) is_leaving: bool,
    /// Whether only the page that is waited for is to be mapped, to see whether others are touched.
    pub(super) is_probe: bool,
    /// Whether a thread maps it by itself.
    pub(super) is_taken: bool,
}

impl Extent {
    pub(super) const fn new(span: Span, state: State, stream: u32) -> Self {
        Self {
            page: span.page as u32,
            frame: span.frame,
            stream,
            wanted: NOBODY,
            since: 0,
            order: span.order,
            state,
            wants_to_write: false,
            is_dirty: false,
            goes_by: false,
            is_pinned: false,
            is_leaving: false,
            is_probe: false,
            is_taken: false,
        }
    }

    /// The same with another span.
    pub(super) const fn with(self, span: Span) -> Self {
        Self { page: span.page as u32, frame: span.frame, order: span.order, ..self }
    }

    pub(super) const fn span(&self) -> Span {
        Span { page: self.page as Page, frame: self.frame, order: self.order }
    }

    pub(super) const fn frames(&self) -> u32 {
        1 << self.order
    }

    /// A thread waits for a page of it.
    pub(super) const fn want(&mut self, page: Page, is_write: bool) {
        let wanted = (page - self.page as Page) as u16;
        // Who waits for another page is to be served by the same move.
        self.is_probe &= self.wanted == NOBODY || self.wanted == wanted;
        self.wanted = wanted;
        self.wants_to_write |= is_write;
    }

    pub(super) fn wanted(&self) -> Option<Wanted> {
        let page = Page::from(self.page) + Page::from(self.wanted);
        (self.wanted != NOBODY).then_some(Wanted { page, is_write: self.wants_to_write })
    }

    pub(super) const fn forget_wanted(&mut self) {
        (self.wanted, self.wants_to_write) = (NOBODY, false);
    }
}
