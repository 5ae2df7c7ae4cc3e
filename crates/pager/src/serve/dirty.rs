//! Finds the dirty pages of unmapped extents by hashes of their content.
//!
//! The kernel could report writes, but only to write-protected pages. A page that moves into a
//! region is writable until the pager can write-protect it, and writes in this interval would not
//! be reported. Therefore the pager compares the content of pages, by 64-bit hashes (XXH3). Two
//! different contents of a page have the same hash with a probability of 2^-64. With a million
//! dirty pages a second, a dirty page is mistaken for clean once in half a million years.

use crate::{
    cache::{DirtyPages, Span, index::PAGES_PER_HUGE_PAGE},
    kernel::frames::Frames,
};
use interleaf_prefetch::page::Page;
use interleaf_procfs::page::PAGE_BYTES;
use std::{collections::HashMap, ops::Range};
use twox_hash::XxHash3_64;

/// The value in place of a hash if the content of a page in the store is unknown. Such a page
/// counts as dirty.
const UNKNOWN: u64 = 0;

/// For each page, the hash of its content in the store. The hash is kept while the page is absent.
/// Therefore a page is hashed once at each eviction, and not again when it is read back.
#[derive(Debug)]
pub(crate) struct DirtyTracker {
    /// For each huge page, the hashes of its pages; `None` if all are unknown.
    stored: Vec<Option<Box<Hashes>>>,
    /// Hashes of the pages of dirty extents whose write-back has not ended, keyed by the first page
    /// of the extent. After the write-back, the hashes move to `stored`.
    unsaved: HashMap<Page, Vec<u64>>,
    hash_of_zeros: u64,
}

/// Hashes of the pages of a huge page.
type Hashes = [u64; PAGES_PER_HUGE_PAGE];

impl DirtyTracker {
    /// A tracker for a store whose content is unknown.
    pub(crate) fn new() -> Self {
        let hash_of_zeros = XxHash3_64::oneshot(&[0; PAGE_BYTES]);
        Self { stored: vec![], unsaved: HashMap::new(), hash_of_zeros }
    }

    /// Records that the pages of a span are zeros, both in the frames and in the store.
    pub(crate) fn record_zeros(&mut self, span: Span) {
        let zeros = self.hash_of_zeros;
        self.stored_mut(span).fill(zeros);
    }

    /// Records that the pages of a span were just read from the store into their frames. Hashes
    /// only the pages whose stored hash is unknown.
    pub(crate) fn record_read(&mut self, memory: &Frames, span: Span) {
        for (stored, frame) in self.stored_mut(span).iter_mut().zip(frames(span)) {
            if *stored == UNKNOWN {
                *stored = hash(memory, frame);
            }
        }
    }

    /// Records that the pages of a span were written back. The frames still have the content that
    /// [`DirtyTracker::find`] has hashed.
    pub(crate) fn record_written(&mut self, span: Span) {
        match self.unsaved.remove(&span.page) {
            Some(unsaved) if unsaved.len() == frames(span).len() => {
                self.stored_mut(span).copy_from_slice(&unsaved);
            }
            _ => self.forget(span.pages()),
        }
    }

    /// Records that the content of `pages` in the store is unknown.
    pub(crate) fn forget(&mut self, pages: Range<Page>) {
        self.unsaved.remove(&pages.start);
        let end = pages.end.min((self.stored.len() * PAGES_PER_HUGE_PAGE) as Page);
        let mut page = pages.start;
        while page < end {
            let (huge, first) = position(page);
            let count = (PAGES_PER_HUGE_PAGE - first).min((end - page) as usize);
            if count == PAGES_PER_HUGE_PAGE {
                self.stored[huge] = None;
            } else if let Some(hashes) = &mut self.stored[huge] {
                hashes[first..first + count].fill(UNKNOWN);
            }
            page += count as Page;
        }
    }

    /// The hashes of the stored content of the pages of a span.
    fn stored_mut(&mut self, span: Span) -> &mut [u64] {
        let (huge, first) = position(span.page);
        if self.stored.len() <= huge {
            self.stored.resize(huge + 1, None);
        }
        let hashes =
            self.stored[huge].get_or_insert_with(|| Box::new([UNKNOWN; PAGES_PER_HUGE_PAGE]));
        &mut hashes[first..first + (1 << span.order)]
    }

    /// Finds the dirty pages of a span that was unmapped. If there are dirty pages, keeps the
    /// hashes of all pages of the span until the write-back.
    pub(crate) fn find(&mut self, memory: &Frames, span: Span) -> DirtyPages {
        let unsaved: Vec<u64> = frames(span).map(|frame| hash(memory, frame)).collect();
        let mut dirty = DirtyPages::EMPTY;
        let before = self.stored_mut(span);
        for (page, (before, now)) in before.iter().zip(&unsaved).enumerate() {
            if *before == UNKNOWN || before != now {
                dirty.insert(page);
            }
        }
        if dirty.is_empty() {
            self.unsaved.remove(&span.page);
        } else {
            self.unsaved.insert(span.page, unsaved);
        }
        dirty
    }
}

/// The index of the huge page that contains a page, and the index of the page in this huge page.
const fn position(page: Page) -> (usize, usize) {
    (page as usize / PAGES_PER_HUGE_PAGE, page as usize % PAGES_PER_HUGE_PAGE)
}

fn frames(span: Span) -> Range<usize> {
    span.frame as usize..span.frame as usize + (1 << span.order)
}

fn hash(memory: &Frames, frame: usize) -> u64 {
    XxHash3_64::oneshot(memory.page(frame * PAGE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { page: 510, frame: 0, order: 1 };

    /// Returns two plain frames in which each byte has the value `byte`.
    fn frames_of(byte: u8) -> Frames {
        let mut memory = Frames::plain(2).expect("memory");
        memory.part_mut(0..2 * PAGE_BYTES).fill(byte);
        memory
    }

    fn dirty(tracker: &mut DirtyTracker, memory: &Frames) -> Vec<usize> {
        let dirty = tracker.find(memory, SPAN);
        (0..2).filter(|page| dirty.contains(*page)).collect()
    }

    #[test]
    fn pages_are_dirty_whose_content_differs_from_the_store() {
        let (mut tracker, mut memory) = (DirtyTracker::new(), frames_of(1));
        assert_eq!(dirty(&mut tracker, &memory), [0, 1], "the store's content is unknown");
        tracker.record_read(&memory, SPAN);
        assert!(dirty(&mut tracker, &memory).is_empty());
        memory.part_mut(PAGE_BYTES..2 * PAGE_BYTES)[7] = 2;
        assert_eq!(dirty(&mut tracker, &memory), [1]);
        tracker.record_written(SPAN);
        assert!(dirty(&mut tracker, &memory).is_empty());
        tracker.record_zeros(SPAN);
        assert_eq!(dirty(&mut tracker, &memory), [0, 1]);
        assert!(dirty(&mut tracker, &frames_of(0)).is_empty());
    }

    #[test]
    fn a_page_that_is_read_back_is_not_hashed_again() {
        let (mut tracker, memory) = (DirtyTracker::new(), frames_of(1));
        dirty(&mut tracker, &memory);
        tracker.record_written(SPAN);
        tracker.record_read(&frames_of(2), SPAN);
        assert!(dirty(&mut tracker, &memory).is_empty());
    }

    #[test]
    fn forgotten_pages_are_hashed_when_they_are_read() {
        for pages in [510..512, 0..1024, 511..513] {
            let (mut tracker, memory) = (DirtyTracker::new(), frames_of(1));
            tracker.record_read(&memory, SPAN);
            tracker.forget(pages.clone());
            let first = usize::from(pages.start == 511);
            assert_eq!(dirty(&mut tracker, &memory)[0], first, "{pages:?}");
            tracker.record_read(&memory, SPAN);
            assert!(dirty(&mut tracker, &memory).is_empty(), "{pages:?}");
        }
    }
}
