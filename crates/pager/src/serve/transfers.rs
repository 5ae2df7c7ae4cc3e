//! Transfers between frames and the store: neighbours in the store are one transfer, wherever their
//! frames are.

use crate::{
    cache::{DirtyPages, Span, index::ExtentId},
    page::{PAGE_BYTES, Page},
    store::{Piece, Store, Transfer},
};
use std::{collections::BTreeMap, ops::Range};

/// Neighbours are joined up to so many bytes: a drive gives most of its bandwidth of such.
const JOINED_MAX: usize = 1 << 20;

/// Pieces of memory of a transfer.
const PIECES: usize = 128;

/// Pages that have not changed are written too where fewer lie between two that have: a transfer
/// more costs as much.
const GAP: usize = 8;

/// What is under way with an extent has come to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) id: ExtentId,
    pub(crate) span: Span,
    pub(crate) is_write: bool,
    /// Whether all of it was transferred.
    pub(crate) is_done: bool,
}

/// Pages of an extent that are read or written together.
#[derive(Clone, Debug)]
struct Run {
    first: Page,
    id: ExtentId,
    /// Where the memory is, bytes from the first frame.
    bytes: Range<usize>,
}

/// An extent, some pages of which are under way.
#[derive(Clone, Copy, Debug)]
struct Under {
    span: Span,
    is_write: bool,
    runs: u32,
    is_done: bool,
}

/// What is to be transferred, and what is being transferred.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    reads: Vec<Run>,
    writes: Vec<Run>,
    extents: BTreeMap<ExtentId, Under>,
    under_way: BTreeMap<u64, Vec<ExtentId>>,
    last: u64,
}

impl Transfers {
    /// Reads the frames of an extent.
    pub(crate) fn read(&mut self, id: ExtentId, span: Span) {
        self.extents.insert(id, Under { span, is_write: false, runs: 1, is_done: true });
        let start = span.frame as usize * PAGE_BYTES;
        self.reads.push(Run {
            first: span.page,
            id,
            bytes: start..start + (PAGE_BYTES << span.order),
        });
    }

    /// Writes those frames of an extent that have changed.
    pub(crate) fn write(&mut self, id: ExtentId, span: Span, changed: &DirtyPages) {
        let runs = changed.ranges(1 << span.order, GAP);
        self.extents
            .insert(id, Under { span, is_write: true, runs: runs.len() as u32, is_done: true });
        self.writes.extend(runs.into_iter().map(|run| {
            let at = |page: usize| (span.frame as usize + page) * PAGE_BYTES;
            Run { first: span.page + run.start as u64, id, bytes: at(run.start)..at(run.end) }
        }));
    }

    /// Whether nothing waits to be begun.
    pub(crate) fn are_begun(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty()
    }

    /// Whether nothing is under way.
    pub(crate) fn are_done(&self) -> bool {
        self.extents.is_empty()
    }

    /// Begins all that is to be transferred, with the frames from that address on, and says which
    /// transfers could not be begun.
    ///
    /// # Safety
    /// Until the transfers are done nobody writes to the frames, and nobody else uses those that
    /// are read into.
    #[expect(unsafe_code, reason = "frames are handed to the store")]
    pub(crate) unsafe fn begin(&mut self, frames: usize, store: &mut dyn Store) -> Vec<u64> {
        let mut failed = vec![];
        for (runs, is_write) in [(&mut self.reads, false), (&mut self.writes, true)] {
            let mut runs = std::mem::take(runs);
            runs.sort_unstable_by_key(|run| run.first);
            for joined in runs.chunk_by(follows).flat_map(short) {
                let piece =
                    |run: &Run| Piece { address: frames + run.bytes.start, bytes: run.bytes.len() };
                let pieces: Vec<Piece> = joined.iter().map(piece).collect();
                self.last += 1;
                let (token, offset) = (self.last, joined[0].first * PAGE_BYTES as u64);
                self.under_way.insert(token, joined.iter().map(|run| run.id).collect());
                let transfer = Transfer { token, is_write, offset, pieces: &pieces };
                // SAFETY: by the caller.
                if unsafe { store.begin(transfer) }.is_err() {
                    failed.push(token);
                }
            }
        }
        failed
    }

    /// A transfer has come to its end: the extents that are through with it.
    pub(crate) fn done(&mut self, token: u64, is_done: bool) -> Vec<Part> {
        let ids = self.under_way.remove(&token).unwrap_or_default();
        let mut parts = vec![];
        for id in ids {
            let Some(under) = self.extents.get_mut(&id) else { continue };
            under.runs -= 1;
            under.is_done &= is_done;
            if under.runs == 0 {
                let Under { span, is_write, is_done, .. } = *under;
                self.extents.remove(&id);
                parts.push(Part { id, span, is_write, is_done });
            }
        }
        parts
    }
}

/// Whether one run goes on where the other ends.
fn follows(before: &Run, behind: &Run) -> bool {
    before.first + (before.bytes.len() / PAGE_BYTES) as u64 == behind.first
}

/// Neighbours in groups that are not too long.
fn short(runs: &[Run]) -> impl Iterator<Item = &[Run]> {
    let mut rest = runs;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |run: &&Run| {
            bytes += run.bytes.len();
            bytes <= JOINED_MAX
        };
        let count = rest.iter().take(PIECES).take_while(fits).count().max(1).min(rest.len());
        let (first, behind) = rest.split_at(count);
        rest = behind;
        (!first.is_empty()).then_some(first)
    })
}
