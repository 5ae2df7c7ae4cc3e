//! What pages held when they were as stored, to find those that have changed.
//!
//! The kernel tells of writes only where pages are write-protected, and those cannot be moved; so
//! the content is compared, by 64 bits of XXH3. Two contents of a page have the same with a chance
//! of 2^-64: a million changed pages a second meet that once in half a million years.

use crate::{
    cache::{DirtyPages, Span},
    kernel::frames::Frames,
    page::PAGE_BYTES,
};
use std::collections::HashMap;
use twox_hash::XxHash3_64;

/// Up to this order what was touched by a write is taken for changed as a whole.
const COARSE_ORDER: u8 = 2;

/// The digest of no page: a page that has it counts as changed.
const UNKNOWN: u64 = 0;

/// Digests of frames.
#[derive(Debug)]
pub(crate) struct Digests {
    all: Vec<u64>,
    /// Of what has changed, by its first frame: the store holds that once it is written.
    fresh: HashMap<u32, Vec<u64>>,
    of_zeros: u64,
}

impl Digests {
    /// Of so many frames, all of them zeros.
    pub(crate) fn new(frames: usize) -> Self {
        let of_zeros = XxHash3_64::oneshot(&[0; PAGE_BYTES]);
        Self { all: vec![of_zeros; frames], fresh: HashMap::new(), of_zeros }
    }

    /// The frames of a span are zeros, as they are in the store.
    pub(crate) fn zero(&mut self, span: Span) {
        self.all[frames(span)].fill(self.of_zeros);
    }

    /// The frames of a span hold what the store holds.
    pub(crate) fn learn(&mut self, memory: &Frames, span: Span) {
        for frame in frames(span) {
            self.all[frame] = digest(memory, frame);
        }
    }

    /// The store holds what the frames of a span held when they were last compared.
    pub(crate) fn wrote(&mut self, span: Span) {
        match self.fresh.remove(&span.frame) {
            Some(fresh) if fresh.len() == frames(span).len() => {
                self.all[frames(span)].copy_from_slice(&fresh);
            }
            _ => self.forget(span),
        }
    }

    /// Nobody knows what the store holds of a span.
    pub(crate) fn forget(&mut self, span: Span) {
        self.fresh.remove(&span.frame);
        self.all[frames(span)].fill(UNKNOWN);
    }

    /// Which pages of a span do not hold what the store holds; with `is_changed` some are known not
    /// to.
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
