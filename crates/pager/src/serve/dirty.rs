//! Finds dirty pages by hashes of their content.
//!
//! The kernel reports writes only to write-protected pages, and write-protected pages cannot be
//! moved. So the pager compares the content of pages, by 64-bit hashes (XXH3). Two different
//! contents of a page have the same hash with a probability of 2^-64. With a million dirty pages a
//! second, this happens once in half a million years.

use crate::{
    cache::{DirtyPages, Span},
    kernel::frames::Frames,
    page::PAGE_BYTES,
};
use std::collections::HashMap;
use twox_hash::XxHash3_64;

/// Up to this order an extent that was mapped by a write counts as dirty as a whole.
const COARSE_ORDER: u8 = 2;

/// The hash of an unknown content: the page counts as dirty.
const UNKNOWN: u64 = 0;

/// For each frame, the hash of the content that the store holds of its page.
#[derive(Debug)]
pub(crate) struct DirtyTracker {
    stored: Vec<u64>,
    /// Hashes of the pages of dirty extents, keyed by the first frame. They become the hashes of
    /// the stored content when the extent is written back.
    unsaved: HashMap<u32, Vec<u64>>,
    hash_of_zeros: u64,
}

impl DirtyTracker {
    /// Hashes for frames that are all zeros.
    pub(crate) fn new(frames: usize) -> Self {
        let hash_of_zeros = XxHash3_64::oneshot(&[0; PAGE_BYTES]);
        Self { stored: vec![hash_of_zeros; frames], unsaved: HashMap::new(), hash_of_zeros }
    }

    /// Records that the frames of a span are zeros, and so are their pages in the store.
    pub(crate) fn record_zeros(&mut self, span: Span) {
        self.stored[frames(span)].fill(self.hash_of_zeros);
    }

    /// Records the content of the frames of a span that were just read from the store.
    pub(crate) fn record_read(&mut self, memory: &Frames, span: Span) {
        for frame in frames(span) {
            self.stored[frame] = hash(memory, frame);
        }
    }

    /// Records that the frames of a span were written back with the content that `find` hashed
    /// last.
    pub(crate) fn record_written(&mut self, span: Span) {
        match self.unsaved.remove(&span.frame) {
            Some(unsaved) if unsaved.len() == frames(span).len() => {
                self.stored[frames(span)].copy_from_slice(&unsaved);
            }
            _ => self.forget(span),
        }
    }

    /// Records that the store's content of a span is unknown.
    pub(crate) fn forget(&mut self, span: Span) {
        self.unsaved.remove(&span.frame);
        self.stored[frames(span)].fill(UNKNOWN);
    }

    /// The dirty pages of a span. If `is_dirty` is true, the program is known to have written to
    /// the span.
    pub(crate) fn find(&mut self, memory: &Frames, span: Span, is_dirty: bool) -> DirtyPages {
        let unsaved: Vec<u64> = frames(span).map(|frame| hash(memory, frame)).collect();
        let is_known = is_dirty && span.order <= COARSE_ORDER;
        let mut dirty = DirtyPages::EMPTY;
        let before = &self.stored[frames(span)];
        for (page, (before, now)) in before.iter().zip(&unsaved).enumerate() {
            if is_known || *before == UNKNOWN || before != now {
                dirty.insert(page);
            }
        }
        if dirty.is_empty() {
            self.unsaved.remove(&span.frame);
        } else {
            self.unsaved.insert(span.frame, unsaved);
        }
        dirty
    }
}

fn frames(span: Span) -> std::ops::Range<usize> {
    span.frame as usize..span.frame as usize + (1 << span.order)
}

fn hash(memory: &Frames, frame: usize) -> u64 {
    XxHash3_64::oneshot(memory.page(frame * PAGE_BYTES))
}
