//! What a program says about its memory is believed, as far as there is room.

use super::{Action, Cache, State, ahead::Pending};
use crate::{
    advice::Advice,
    predict::{ADVISED, Page},
};
use std::ops::Range;

impl Cache {
    /// What the program said about a page.
    pub(super) fn advised(&self, page: Page) -> Advice {
        self.advised.get(page).unwrap_or(Advice::Normal)
    }

    /// Takes in what a program says about pages.
    pub(super) fn advise(
        &mut self,
        pages: &Range<Page>,
        advice: Advice,
        actions: &mut Vec<Action>,
    ) {
        match advice {
            Advice::Normal => self.advised.set(pages, None),
            Advice::Random | Advice::Sequential => self.advised.set(pages, Some(advice)),
            Advice::WillNeed => self.pending.push_back(Pending::new(ADVISED, pages.clone())),
            Advice::Cold => self.cool(pages, actions),
            Advice::Pin | Advice::Unpin => {}
        }
    }

    /// Who is over its share because the program said so makes room for who waits.
    pub(super) fn is_over(&self, holder: u32, waits: u32, most: u32) -> bool {
        let has = self.ahead.get(&ADVISED).copied().unwrap_or(0);
        holder == ADVISED && waits != ADVISED && has > most / (self.ahead.len() as u32 + 1)
    }

    /// Gives up pages first that will not be touched soon; they stay ready for a while.
    fn cool(&mut self, pages: &Range<Page>, actions: &mut Vec<Action>) {
        let mut page = pages.start;
        while page < pages.end {
            let Some(id) = self.index.get(page) else {
                page += 1;
                continue;
            };
            let extent = self.extents[id as usize];
            page = extent.span().pages().end;
            if extent.state == State::Mapped {
                self.unmap(id, actions);
            }
        }
    }
}
