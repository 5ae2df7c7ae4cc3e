//! Pages whose content is of no use any more.

use super::{Action, Cache, Extent, Span, State, evict::halves};
use crate::{cache::index::ExtentId, page::Page};
use std::ops::Range;

impl Cache {
    /// Whether some of these pages are being discarded.
    pub(super) fn goes(&self, pages: &Range<Page>) -> bool {
        let mut all = self.discarded.iter().chain(&self.erasing);
        all.any(|going| going.start < pages.end && pages.start < going.end)
    }

    /// Whether all of an extent is to be discarded, so that nobody need store it.
    pub(super) fn is_discarded(&self, span: Span) -> bool {
        let has = |pages: &Range<Page>| pages.start <= span.page && span.pages().end <= pages.end;
        self.discarded.iter().any(has)
    }

    /// Discards what can be discarded now: what something is under way with has to wait for it.
    pub(super) fn discard(&mut self, actions: &mut Vec<Action>) {
        let mut waits = vec![];
        for pages in std::mem::take(&mut self.discarded) {
            if self.discard_pages(&pages, actions) {
                waits.push(pages);
                continue;
            }
            self.reset_to_zeros(&pages);
            actions.push(Action::Erase(pages.start, pages.end - pages.start));
            self.erasing.push(pages);
        }
        self.discarded = waits;
    }

    /// Discards extents of these pages, and says whether some are left.
    fn discard_pages(&mut self, pages: &Range<Page>, actions: &mut Vec<Action>) -> bool {
        let mut is_left = false;
        let mut rest = pages.clone();
        while let Some((_, id)) = self.index.first(rest.clone()) {
            let extent = self.extents[id as usize];
            let span = extent.span();
            let is_whole = pages.start <= span.page && span.pages().end <= pages.end;
            match extent.state {
                State::Ready | State::Mapped if !is_whole => {
                    self.split(id);
                    continue;
                }
                State::Ready => {
                    self.dequeue(id);
                    self.forget(id);
                }
                State::Mapped => {
                    self.unmap(id, actions);
                    is_left = true;
                }
                _ => is_left = true,
            }
            rest.start = span.pages().end;
        }
        is_left
    }

    /// Makes two halves of an extent that nothing is under way with.
    fn split(&mut self, id: ExtentId) {
        let mut whole = self.extents[id as usize];
        let [first, second] = halves(whole.span());
        if whole.state == State::Ready {
            self.dequeue(id)
        } else {
            self.leave(id)
        }
        whole.is_pinned = false;
        let other = self.insert(whole.with(second));
        self.put(id, whole.with(first));
        self.index.set(second.page, second.order, Some(other));
        for id in [id, other] {
            if whole.state == State::Ready {
                // Halves of what was foreseen were foreseen, as many frames as before.
                let Extent { stream, .. } = whole;
                if stream != 0 {
                    self.foreseen_more(stream, 1 << first.order);
                }
                self.enqueue(id);
            } else {
                self.enter(id);
            }
        }
    }
}
