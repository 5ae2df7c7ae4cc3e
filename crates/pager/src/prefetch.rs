//! What will be touched next, from what was.
//!
//! A program shows the pager little: that a thread touched a page that was not mapped. Most loops
//! over arrays are still plain to see in it. A [`stream::Streams`] finds *runs* of neighbouring
//! pages, and how far apart one run is from the next:
//!
//! ```text
//! a sweep          one run that does not end       0 1 2 3 4 5 6 ...
//! a column         runs of one page, jumps of 100  0 100 200 300 ...
//! rows of a tile   runs of 3, jumps of 100         0 1 2 100 101 102 200 201 202 ...
//! tiles            so many rows, then another jump  0 1 2 100 101 102  50 51 52 150 151 152 ...
//! backwards        the same, from behind           9 8 7 6 ...
//! ```
//!
//! Matrices of a matrix that are no whole number of pages long are found by [`rows::Matrices`], in bytes.
//! What neither explains, and comes again in the same order, is told from a [`history::History`].
//!
//! What is brought in and not used costs the drive and drives out what is used. So nothing is asked
//! for before it was foreseen twice, little at first, and less where it was in vain.

pub mod history;

pub mod matrix;

pub mod stream;

mod outstanding;

use crate::{
    advice::Advice,
    page::{PAGE_BYTES, Page},
};
use history::History;
use matrix::Matrices;
use std::ops::Range;
use stream::Streams;

/// There are fewer of them than this: 4 PiB.
const PAGES_MAX: Page = 1 << 40;

/// A touch of pages that were not mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultContext {
    /// The thread.
    pub thread: u32,
    /// The page that was touched.
    pub page: Page,
    /// Where in it, bytes.
    pub offset: u16,
    /// The pages that are mapped for it: that page, and what comes with it.
    pub pages: Range<Page>,
    /// All pages around these that are mapped, so that touches of them do not show.
    pub mapped_around: Range<Page>,
    /// The region that they are in: nothing is foreseen beyond it.
    pub region: Range<Page>,
    /// What the program said about them.
    pub advice: Advice,
}

impl FaultContext {
    /// The byte that was touched, by its number over all regions; `None` beyond all memory.
    fn byte(&self) -> Option<i64> {
        (self.page < PAGES_MAX)
            .then(|| (self.page * PAGE_BYTES as u64 + u64::from(self.offset)) as i64)
    }
}

/// How far what is foreseen may be ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The first step, pages.
    pub initial: u64,
    /// The most, pages.
    pub max: u64,
}

/// Pages that will be touched, in the order of their need, and what foresaw them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// The stream or the place in history, to be told what became of them.
    pub stream: u32,
    /// The pages; one alone stands for all that a touch of it would bring in.
    pub pages: Vec<Range<Page>>,
    /// Others that are touched so soon that each need not show: they are mapped if they are ready.
    pub map_early: Vec<Range<Page>>,
}

/// What came of what was foreseen, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Brought in before they were touched.
    pub prefetched: u64,
    /// Of those, touched.
    pub hits: u64,
    /// Of those, given up untouched.
    pub wasted: u64,
}

/// What was asked for in vain, and has to be made good.
///
/// Where little comes of what is foreseen, more has to be foreseen rightly before something is
/// asked for: so what is random costs little, however much of it looks like something.
#[derive(Clone, Copy, Debug, Default)]
struct Vain {
    /// Pages, times [`FORGIVEN_FOR`].
    pages: u64,
}

/// For so many pages that were asked for in vain, one touch more has to be foreseen rightly ...
const VAIN_PAGES: u64 = 8;

/// ... which are forgiven for so many each that were not in vain.
const FORGIVEN_FOR: u64 = 16;

/// No more is remembered than what so much trust makes good.
const TRUST_MAX: u32 = 64;

impl Vain {
    /// The trust that is needed where `least` would do.
    fn needed(self, least: u32) -> u32 {
        least + u32::try_from(self.pages / FORGIVEN_FOR / VAIN_PAGES).unwrap_or(TRUST_MAX)
    }

    fn wasted(&mut self, pages: u64) {
        let most = u64::from(TRUST_MAX) * VAIN_PAGES * FORGIVEN_FOR;
        self.pages = self.pages.saturating_add(pages.saturating_mul(FORGIVEN_FOR)).min(most);
    }

    fn used(&mut self, pages: u64) {
        self.pages = self.pages.saturating_sub(pages);
    }
}

/// What foresaw pages has this bit in its name if it was the history.
const OF_HISTORY: u32 = 1 << 31;

/// The same if it was a block of rows.
const OF_ROWS: u32 = 1 << 30;

/// Names of streams have neither.
const OF_OTHERS: u32 = OF_HISTORY | OF_ROWS;

/// The name of the program itself, which says what it will need.
pub const ADVISED: u32 = OF_HISTORY;

/// Foresees by rows and by streams, and by history what neither explains.
#[derive(Clone, Debug)]
pub struct Prefetcher {
    rows: Matrices,
    streams: Streams,
    history: History,
}

impl Prefetcher {
    /// Nothing was touched yet.
    pub fn new(limits: Limits) -> Self {
        let (streams, history) = (Streams::new(limits), History::new(limits));
        Self { rows: Matrices::new(limits), streams, history }
    }

    /// All regions together have so many pages: the history takes a small part of that.
    pub fn set_footprint(&mut self, pages: u64) {
        self.history.set_footprint(pages);
    }

    /// Sees a touch, and says what comes next and was not said before; `None` where nobody knows.
    pub fn on_fault(&mut self, fault: &FaultContext) -> Option<Prefetch> {
        if fault.advice == Advice::Random {
            return None;
        }
        if let Some(ahead) = self.rows.on_fault(fault) {
            return Some(ahead);
        }
        // In a small region something always lies as if it were a stream of a few pages.
        let least = if self.history.has_predicted(fault) { stream::SURE } else { 0 };
        let ahead = self.streams.on_fault(fault);
        if self.streams.has_explained(least) {
            return ahead;
        }
        if let Some(ahead) = self.rows.learn(fault) {
            return Some(ahead);
        }
        let ahead = self.history.on_fault(fault)?;
        Some(Prefetch { stream: ahead.stream | OF_HISTORY, ..ahead })
    }

    /// Whether who foresaw by that name still expects some of these pages.
    pub fn asks(&self, name: u32, pages: &Range<Page>) -> bool {
        if name == ADVISED {
            true
        } else if is_of_history(name) {
            self.history.asks(name & !OF_HISTORY, pages)
        } else if name & OF_ROWS != 0 {
            self.rows.asks(name, pages)
        } else {
            self.streams.asks(name, pages)
        }
    }

    /// What the stream of the last touch has asked for and comes to next; `None` where no stream is
    /// trusted with that.
    pub fn expected(&self) -> Option<Prefetch> {
        self.streams.expected()
    }

    /// Pages that were foreseen by that name were given up without having been touched.
    pub fn on_wasted(&mut self, name: u32, pages: &Range<Page>) {
        if name == ADVISED {
            // The program is not to be doubted.
        } else if is_of_history(name) {
            self.history.on_wasted(name & !OF_HISTORY, pages);
        } else if name & OF_ROWS != 0 {
            self.rows.on_wasted(name, pages);
        } else {
            self.streams.on_wasted(name, pages);
        }
    }
}

/// Whether it was the history that foresaw by that name.
pub const fn is_of_history(name: u32) -> bool {
    name & OF_HISTORY != 0 && name != ADVISED
}

#[cfg(test)]
mod tests;
