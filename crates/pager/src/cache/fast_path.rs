//! Extents that a thread maps by itself where it touches them, because all there is to do is to
//! move them. What follows from the touch is decided later, of several at once.

use super::{Action, Cache, Span, State};
use crate::{cache::index::ExtentId, page::Page};

/// A touch of a page that is not mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault {
    /// The thread.
    pub thread: u32,
    /// The page.
    pub page: Page,
    /// Where in it, bytes.
    pub offset: u16,
    /// Whether it writes.
    pub is_write: bool,
}

/// What a thread may do itself about a page that it has touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapAttempt {
    /// Move the frames to the pages, and then say so by [`Cache::took`] before anything else is
    /// said: nobody else is told to.
    Move {
        /// The extent.
        id: ExtentId,
        /// Where.
        span: Span,
        /// Whether it is one that was foreseen, so that more is to be foreseen now.
        is_prefetched: bool,
    },
    /// PageFault it again: it is mapped meanwhile.
    AlreadyMapped,
    /// Ask, and wait.
    Wait,
}

impl Cache {
    /// Says what a thread may do that has touched a page. Nothing is allocated.
    pub fn try_map(&mut self, page: Page) -> MapAttempt {
        let Some(id) = self.index.get(page) else { return MapAttempt::Wait };
        let extent = &mut self.extents[id as usize];
        match extent.state {
            State::Mapped => MapAttempt::AlreadyMapped,
            State::Ready if extent.is_taken => MapAttempt::AlreadyMapped,
            State::Ready if !self.is_frozen && !extent.is_probe && !self.lost.contains(&page) => {
                extent.is_taken = true;
                MapAttempt::Move { id, span: extent.span(), is_prefetched: extent.stream != 0 }
            }
            _ => MapAttempt::Wait,
        }
    }

    /// Takes in what threads have taken since then, all of it, in that order. The moves are among
    /// the actions, to be said to be done.
    pub fn commit_mapped(
        &mut self,
        touches: impl Iterator<Item = PageFault> + Clone,
        actions: &mut Vec<Action>,
    ) {
        // None of them may be chosen to leave any more when that is thought about.
        for PageFault { page, is_write, .. } in touches.clone() {
            self.touch(page, is_write, actions);
        }
        self.settle(touches.map(|touch| (touch.thread, touch.page, touch.offset)), actions);
    }

    /// A thread has touched a page.
    pub(super) fn touch(&mut self, page: Page, is_write: bool, actions: &mut Vec<Action>) {
        self.counts.faults += 1;
        let now = self.now();
        self.learner(page).touch(page, now);
        self.touched(page, is_write, actions);
    }
}
