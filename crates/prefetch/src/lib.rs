//! The prefetcher: predicts from past faults which pages a program will touch.
//!
//! A pager does not see all touches of pages, but only faults: touches of pages that are not
//! mapped. Even so, it can recognise most loops over arrays. [`stream::Streams`] finds runs of
//! neighbouring pages, and the distance from one run to the next:
//!
//! ```text
//! an array         one run that does not end        0 1 2 3 4 5 6 ...
//! a column         runs of one page, 100 apart      0 100 200 300 ...
//! rows of a tile   runs of 3 pages, 100 apart       0 1 2 100 101 102 200 201 202 ...
//! tiles            a few rows, then the next tile   0 1 2 100 101 102  50 51 52 150 151 152 ...
//! backwards        the same, descending             9 8 7 6 ...
//! ```
//!
//! [`matrix::Matrices`] works with byte addresses, and finds the rows of a matrix whose length is
//! not a whole number of pages. [`history::History`] predicts irregular accesses that repeat in the
//! same order.
//!
//! A wasted prefetch costs time of the drive, and frames. Therefore a stream prefetches only after
//! two correct predictions, or by advice of the program, and its first prefetches are short. After
//! wasted prefetches, streams need more confidence (`throttle.rs`).

#![forbid(unsafe_code)]

pub mod page;

pub mod advice;

pub mod stream;

pub mod matrix;

pub mod history;

mod untouched_ranges;

mod tile_run;

mod throttle;

use advice::Advice;
use history::History;
use interleaf_procfs::page::PAGE_BYTES;
use matrix::Matrices;
use page::Page;
use std::ops::Range;
use stream::Streams;

/// Faults on page numbers from this limit on are not used for matrix blocks. No real memory has as
/// many pages: 2^40 pages are 4 PiB.
const PAGES_MAX: Page = 1 << 40;

/// A page fault, with the state of the pages around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultContext {
    /// The thread that touched `page`.
    pub thread: u32,
    /// The page that was touched. It was not mapped.
    pub page: Page,
    /// Offset of the touched byte in the page.
    pub offset: u16,
    /// The pages that the pager maps at this fault: `page` and its fault-around.
    pub pages: Range<Page>,
    /// `pages`, together with the mapped pages directly before and behind them. Later touches of
    /// these pages do not fault.
    pub mapped_around: Range<Page>,
    /// The region (allocation of the program) that contains `page`. Only pages of this region are
    /// prefetched.
    pub region: Range<Page>,
    /// The advice that the program has given about `page`.
    pub advice: Advice,
}

impl FaultContext {
    /// A fault that maps only `page`, in a region that contains all page numbers.
    #[cfg(test)]
    fn single(thread: u32, page: Page) -> Self {
        Self {
            thread,
            page,
            offset: 0,
            pages: page..page + 1,
            mapped_around: page..page + 1,
            region: 0..u64::MAX,
            advice: Advice::Normal,
        }
    }

    /// The address of the touched byte, counted in bytes from the start of page 0. `None` if the
    /// page number is [`PAGES_MAX`] or higher.
    fn byte(&self) -> Option<i64> {
        (self.page < PAGES_MAX)
            .then(|| (self.page * PAGE_BYTES as u64 + u64::from(self.offset)) as i64)
    }
}

/// Limits of the prefetch depth: the number of pages that a stream prefetches ahead of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The prefetch depth of a new stream, pages. Each fault on a predicted page doubles the depth.
    pub initial: u64,
    /// The largest prefetch depth, pages.
    pub max: u64,
}

/// Pages to prefetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// The number of the stream, matrix block or replay of the history that requests the pages. The
    /// caller passes it to [`Prefetcher::on_wasted`] if the pages are evicted untouched.
    pub stream: u32,
    /// The pages to read, in the order in which the program will use them. A range of one page
    /// stands for the page with its fault-around.
    pub pages: Vec<Range<Page>>,
    /// Pages to map now if they are resident, so that they do not fault when they are touched.
    pub map_early: Vec<Range<Page>>,
}

/// Counts of prefetched pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All prefetched pages.
    pub prefetched: u64,
    /// Prefetched pages that were touched.
    pub hits: u64,
    /// Prefetched pages that were evicted untouched.
    pub wasted: u64,
}

/// The bit of [`Prefetch::stream`] that is set for a replay of the history ([`history`]).
const HISTORY_BIT: u32 = 1 << 31;

/// The bit of [`Prefetch::stream`] that is set for a matrix block ([`matrix`]).
const MATRIX_BIT: u32 = 1 << 30;

/// The bits of [`Prefetch::stream`] that tell its kinds apart. Both are clear for a stream of
/// [`stream`].
const KIND_BITS: u32 = HISTORY_BIT | MATRIX_BIT;

/// The stream number for pages that the program announces by advice (`Advice::WillNeed`).
pub const ADVISED_STREAM: u32 = HISTORY_BIT;

/// True if `stream` is the number of a replay of the history.
pub const fn is_history_stream(stream: u32) -> bool {
    stream & HISTORY_BIT != 0 && stream != ADVISED_STREAM
}

/// The prefetcher of a process. Matrix blocks predict pages first. If a fault is in no block, the
/// streams predict pages. If no stream explains the fault, the history of earlier faults predicts
/// pages.
#[derive(Clone, Debug)]
pub struct Prefetcher {
    matrices: Matrices,
    streams: Streams,
    history: History,
}

impl Prefetcher {
    /// Makes a prefetcher that has seen no fault.
    pub fn new(limits: Limits) -> Self {
        let (streams, history) = (Streams::new(limits), History::new(limits));
        Self { matrices: Matrices::new(limits), streams, history }
    }

    /// Sets the number of pages of all regions, which bounds the memory of the fault history.
    pub fn set_footprint(&mut self, pages: u64) {
        self.history.set_footprint(pages);
    }

    /// Learns from a fault, and returns pages to prefetch that were not requested before. The list
    /// of pages may be empty for a fault in a matrix block. Returns `None` if no stream, block or
    /// replay of the history predicts further pages.
    pub fn on_fault(&mut self, fault: &FaultContext) -> Option<Prefetch> {
        if fault.advice == Advice::Random {
            return None;
        }
        if let Some(prefetch) = self.matrices.on_fault(fault) {
            return Some(prefetch);
        }
        // In a small region, some random accesses hit neighbouring pages by chance, and look like a
        // stream. If the history has predicted the fault, a stream therefore counts only if its
        // confidence is at least `SURE_CONFIDENCE`.
        let prediction = self.history.find_prediction(fault);
        let is_predicted = prediction.is_some_and(|it| it.is_confident);
        let confidence = if is_predicted { stream::SURE_CONFIDENCE } else { 0 };
        let prefetch = self.streams.on_fault(fault);
        if self.streams.has_explained(confidence) {
            return prefetch;
        }
        if let Some(prefetch) = self.matrices.learn(fault) {
            return Some(prefetch);
        }
        let prefetch = self.history.on_fault(fault, prediction)?;
        Some(Prefetch { stream: prefetch.stream | HISTORY_BIT, ..prefetch })
    }

    /// True if `stream`, a number in `Prefetch::stream`, has requested one of `pages`, and still
    /// expects a touch of that page. Always true for [`ADVISED_STREAM`].
    pub fn expects(&self, stream: u32, pages: &Range<Page>) -> bool {
        if stream == ADVISED_STREAM {
            true
        } else if is_history_stream(stream) {
            self.history.expects(stream & !HISTORY_BIT, pages)
        } else if stream & MATRIX_BIT != 0 {
            self.matrices.expects(stream, pages)
        } else {
            self.streams.expects(stream, pages)
        }
    }

    /// Returns the next untouched pages that the stream of the last fault has requested; `None` if
    /// no stream explains that fault with enough confidence. Faults in matrix blocks, and on pages
    /// with [`Advice::Random`], do not count as the last fault, because they are not passed to the
    /// streams.
    pub fn next_expected(&self) -> Option<Prefetch> {
        self.streams.next_expected()
    }

    /// Reports wasted pages to the stream `stream`, which requested them: `pages` were prefetched,
    /// and evicted before any touch.
    pub fn on_wasted(&mut self, stream: u32, pages: &Range<Page>) {
        if stream == ADVISED_STREAM {
            // The program announced `pages` by `MADV_WILLNEED`. Such prefetches are not throttled.
        } else if is_history_stream(stream) {
            self.history.on_wasted(stream & !HISTORY_BIT, pages);
        } else if stream & MATRIX_BIT != 0 {
            self.matrices.on_wasted(stream, pages);
        } else {
            self.streams.on_wasted(stream, pages);
        }
    }
}

#[cfg(test)]
mod tests;
