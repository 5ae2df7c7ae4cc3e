//! Finds dirty pages by hashes of their content.
//!
//! The kernel reports writes only to write-protected pages, and those cannot be moved. So the
//! content is compared, by 64 bits of XXH3. Two contents of a page have the same hash with a
//! probability of 2^-64: at a million dirty pages a second that happens once in half a million
//! years.

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

/// Hashes of what the store holds of each frame.
#[derive(Debug)]
pub(crate) struct Digests {
    all: Vec<u64>,
    /// Hashes of dirty extents by their first frame: the store holds this content once it is
    /// written back.
    fresh: HashMap<u32, Vec<u64>>,
    of_zeros: u64,
}

impl Digests {
    /// Hashes for frames that are all zeros.
    pub(crate) fn new(frames: usize) -> Self {
        let of_zeros = XxHash3_64::oneshot(&[0; PAGE_BYTES]);
        Self { all: vec![of_zeros; frames], fresh: HashMap::new(), of_zeros }
    }

    /// The frames of a span are zeros, and so are their pages in the store.
    pub(crate) fn zero(&mut self, span: Span) {
        self.all[frames(span)].fill(self.of_zeros);
    }

    /// The frames of a span were just read from the store.
    pub(crate) fn learn(&mut self, memory: &Frames, span: Span) {
        for frame in frames(span) {
            self.all[frame] = digest(memory, frame);
        }
    }

    /// The frames of a span were written back with the content that was compared last.
    pub(crate) fn wrote(&mut self, span: Span) {
        match self.fresh.remove(&span.frame) {
            Some(fresh) if fresh.len() == frames(span).len() => {
                self.all[frames(span)].copy_from_slice(&fresh);
            }
            _ => self.forget(span),
        }
    }

    /// The store's content of a span is unknown.
    pub(crate) fn forget(&mut self, span: Span) {
        self.fresh.remove(&span.frame);
        self.all[frames(span)].fill(UNKNOWN);
    }

    /// The dirty pages of a span. With `is_changed`, the program is known to have written to the
    /// span.
    pub(crate) fn changed(&mut self, memory: &Frames, span: Span, is_changed: bool) -> DirtyPages {
        let fresh: Vec<u64> = frames(span).map(|frame| digest(memory, frame)).collect();
        let is_known = is_changed && span.order <= COARSE_ORDER;
        let mut changed = DirtyPages::EMPTY;
        let before = &self.all[frames(span)];
        for (page, (before, now)) in before.iter().zip(&fresh).enumerate() {
            if is_known || *before == UNKNOWN || before != now {
                changed.insert(page);
            }
        }
        if changed.is_empty() {
            self.fresh.remove(&span.frame);
        } else {
            self.fresh.insert(span.frame, fresh);
        }
        changed
    }
}

fn frames(span: Span) -> std::ops::Range<usize> {
    span.frame as usize..span.frame as usize + (1 << span.order)
}

fn digest(memory: &Frames, frame: usize) -> u64 {
    XxHash3_64::oneshot(memory.page(frame * PAGE_BYTES))
}
