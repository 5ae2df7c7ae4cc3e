//! Durability: the pages that the store holds, the lost pages, and the pages being discarded.

use super::Span;
use interleaf_prefetch::page::Page;
use std::{collections::BTreeSet, ops::Range};

/// The store counts as failed for writes when the consecutive failed writes exceed the number of
/// extents by more than this number. A store that fails many but not all writes does not reach this
/// limit, because a successful write resets the count.
const FAILED_WRITES_MIN: usize = 256;

/// The state of the content of each page: held by the store, lost, or being discarded.
#[derive(Clone, Debug, Default)]
pub(super) struct Durability {
    /// A bit for each page whose content the store holds. An absent page without the bit reads as
    /// zeros.
    stored: Vec<u64>,
    /// Pages whose content is lost: a touch raises SIGBUS.
    poisoned: BTreeSet<Page>,
    /// Number of failed writes since the last successful write.
    failed_writes: usize,
    /// Discarded ranges of pages that wait until no transfer or move of their pages is in progress.
    discards: Vec<Range<Page>>,
    /// Discarded ranges of pages that the store is erasing.
    erasing: Vec<Range<Page>>,
    /// True if, while the process was frozen for a fork, a dirty page could not be written back, or
    /// a page was pinned. The fork is then refused.
    has_unstored: bool,
}

impl Durability {
    /// Number of pages of `pages` whose content the store holds.
    pub(super) fn stored_in(&self, pages: Range<Page>) -> u64 {
        let words = pages.start / 64..pages.end.div_ceil(64).min(self.stored.len() as u64);
        let stored = |at: u64| self.stored[at as usize] & mask(at, &pages);
        words.map(|at| u64::from(stored(at).count_ones())).sum()
    }

    /// Number of pages of `pages` whose content the store does not hold.
    pub(super) fn unstored_in(&self, pages: Range<Page>) -> u64 {
        pages.end - pages.start - self.stored_in(pages)
    }

    fn mark_stored(&mut self, page: Page) {
        let word = (page / 64) as usize;
        if word >= self.stored.len() {
            self.stored.resize(word + 1, 0);
        }
        self.stored[word] |= 1 << (page % 64);
    }

    /// Records that an extent was written back.
    pub(super) fn on_write(&mut self, span: Span) {
        self.failed_writes = 0;
        span.pages().for_each(|page| self.mark_stored(page));
    }

    /// Counts a failed write. If the process is frozen for a fork, the fork will be refused.
    pub(super) const fn on_failed_write(&mut self, is_frozen: bool) {
        self.failed_writes += 1;
        self.has_unstored = is_frozen;
    }

    /// True if the store counts as failed for writes ([`FAILED_WRITES_MIN`]). `extents` is the
    /// number of extents in the cache.
    pub(super) const fn is_store_stuck(&self, extents: usize) -> bool {
        self.failed_writes > extents + FAILED_WRITES_MIN
    }

    /// True if the fork in progress must be refused, because a dirty page could not be written back
    /// or a page was pinned.
    pub(super) const fn has_unstored(&self) -> bool {
        self.has_unstored
    }

    /// Sets whether the fork in progress must be refused.
    pub(super) const fn set_unstored(&mut self, has_unstored: bool) {
        self.has_unstored = has_unstored;
    }

    /// Records that the content of a page is lost.
    pub(super) fn poison(&mut self, page: Page) {
        self.poisoned.insert(page);
    }

    pub(super) fn is_poisoned(&self, page: Page) -> bool {
        self.poisoned.contains(&page)
    }

    pub(super) fn has_poisoned(&self, pages: Range<Page>) -> bool {
        self.poisoned.range(pages).next().is_some()
    }

    /// Queues a discard: the content of `pages` is not needed any more.
    pub(super) fn add_discard(&mut self, pages: Range<Page>) {
        self.discards.push(pages);
    }

    pub(super) const fn has_discards(&self) -> bool {
        !self.discards.is_empty()
    }

    /// Takes all queued discards, as ranges of pages.
    pub(super) fn take_discards(&mut self) -> Vec<Range<Page>> {
        std::mem::take(&mut self.discards)
    }

    /// Records that the store begins to erase a discarded range.
    pub(super) fn begin_erase(&mut self, pages: Range<Page>) {
        self.erasing.push(pages);
    }

    /// Records that the store has erased the discarded range whose first page is `first`.
    pub(super) fn end_erase(&mut self, first: Page) {
        self.erasing.retain(|pages| pages.start != first);
    }

    /// True if no discard is queued, and the store is erasing no pages.
    pub(super) const fn is_discard_idle(&self) -> bool {
        self.discards.is_empty() && self.erasing.is_empty()
    }

    /// True if some of `pages` are being discarded.
    pub(super) fn is_discarding(&self, pages: &Range<Page>) -> bool {
        let mut all = self.discards.iter().chain(&self.erasing);
        all.any(|other| other.start < pages.end && pages.start < other.end)
    }

    /// True if one queued discard covers the whole extent. The extent then needs no write-back.
    pub(super) fn is_fully_discarded(&self, span: Span) -> bool {
        let covers =
            |pages: &Range<Page>| pages.start <= span.page && span.pages().end <= pages.end;
        self.discards.iter().any(covers)
    }

    /// True if a page cannot be loaded, because the page is poisoned or being discarded.
    pub(super) fn is_unavailable(&self, page: Page) -> bool {
        self.is_poisoned(page) || self.is_discarding(&(page..page + 1))
    }

    /// Makes pages read as zeros from now on: the pages are neither stored nor poisoned.
    pub(super) fn reset_to_zeros(&mut self, pages: &Range<Page>) {
        let words = pages.start / 64..pages.end.div_ceil(64).min(self.stored.len() as u64);
        for at in words {
            self.stored[at as usize] &= !mask(at, pages);
        }
        self.poisoned.retain(|page| !pages.contains(page));
    }

    /// The durability of a forked child: the child has the stored and the poisoned pages of its
    /// parent.
    pub(super) fn for_child(&self) -> Self {
        Self { stored: self.stored.clone(), poisoned: self.poisoned.clone(), ..Self::default() }
    }
}

/// The bits of `pages` in the 64-bit word with index `at` of a bitmap with one bit per page. At
/// least one of the pages must be in this word.
fn mask(at: u64, pages: &Range<Page>) -> u64 {
    let first = pages.start.saturating_sub(64 * at);
    let end = (pages.end - 64 * at).min(64);
    u64::MAX.checked_shr((64 - (end - first)) as u32).unwrap_or(0) << first
}
