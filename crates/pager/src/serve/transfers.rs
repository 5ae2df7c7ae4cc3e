//! Transfers between frames and the store. Pages that are neighbours in the store are joined into
//! one transfer, even if their frames are not neighbours.

use crate::cache::{DirtyPages, Span, index::ExtentId};
use interleaf_prefetch::page::Page;
use interleaf_procfs::page::PAGE_BYTES;
use interleaf_store::{Piece, Store, Transfer};
use std::{collections::BTreeMap, ops::Range};

/// Maximum number of bytes of a transfer that joins neighbouring pages: a drive gives most of its
/// bandwidth at this size.
const JOINED_MAX: usize = 1 << 20;

/// Maximum number of pieces of a transfer. A piece is a range of frames that the transfer reads
/// into or writes from.
const PIECES: usize = 128;

/// Maximum number of clean pages between two dirty pages that one transfer writes together with the
/// dirty pages. A second transfer would cost at least as much as writing the clean pages.
const GAP: usize = 8;

/// An extent that was completely read or written back, or whose transfer failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub(crate) id: ExtentId,
    pub(crate) span: Span,
    pub(crate) is_write: bool,
    /// True if all transfers of the extent succeeded.
    pub(crate) is_done: bool,
}

/// Neighbouring pages of an extent that are read or written together.
#[derive(Clone, Debug)]
struct PageRun {
    first: Page,
    id: ExtentId,
    /// The frames of the pages, as a range of bytes from the pager's first frame.
    bytes: Range<usize>,
}

/// An extent of which `runs` page runs are queued or in flight. `is_done` becomes false when the
/// transfer of a run fails.
#[derive(Clone, Copy, Debug)]
struct Pending {
    span: Span,
    is_write: bool,
    runs: u32,
    is_done: bool,
}

/// Transfers that wait to be started, and transfers in flight.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    reads: Vec<PageRun>,
    writes: Vec<PageRun>,
    extents: BTreeMap<ExtentId, Pending>,
    in_flight: BTreeMap<u64, Vec<ExtentId>>,
    last: u64,
}

impl Transfers {
    /// Queues a read of an extent.
    pub(crate) fn read(&mut self, id: ExtentId, span: Span) {
        self.extents.insert(id, Pending { span, is_write: false, runs: 1, is_done: true });
        let start = span.frame as usize * PAGE_BYTES;
        self.reads.push(PageRun {
            first: span.page,
            id,
            bytes: start..start + (PAGE_BYTES << span.order),
        });
    }

    /// Queues the write-back of the dirty pages of an extent.
    pub(crate) fn write(&mut self, id: ExtentId, span: Span, dirty: &DirtyPages) {
        let runs = dirty.ranges(1 << span.order, GAP);
        self.extents
            .insert(id, Pending { span, is_write: true, runs: runs.len() as u32, is_done: true });
        self.writes.extend(runs.into_iter().map(|run| {
            let at = |page: usize| (span.frame as usize + page) * PAGE_BYTES;
            PageRun { first: span.page + run.start as u64, id, bytes: at(run.start)..at(run.end) }
        }));
    }

    /// True if no transfer waits to be started.
    pub(crate) fn are_started(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty()
    }

    /// True if no transfer waits or is in flight.
    pub(crate) fn are_done(&self) -> bool {
        self.extents.is_empty()
    }

    /// Starts all queued transfers. `frames` is the address of the first frame. Returns the tokens
    /// of the transfers that could not be started.
    ///
    /// # Safety
    /// Until the transfers are done, no code writes to the frames, and no code uses frames that a
    /// transfer reads into.
    #[expect(unsafe_code, reason = "frames are handed to the store")]
    pub(crate) unsafe fn start(&mut self, frames: usize, store: &mut dyn Store) -> Vec<u64> {
        let mut failed = vec![];
        for (runs, is_write) in [(&mut self.reads, false), (&mut self.writes, true)] {
            let mut runs = std::mem::take(runs);
            runs.sort_unstable_by_key(|run| run.first);
            for joined in runs.chunk_by(follows).flat_map(split_runs) {
                let piece = |run: &PageRun| Piece {
                    address: frames + run.bytes.start,
                    bytes: run.bytes.len(),
                };
                let pieces: Vec<Piece> = joined.iter().map(piece).collect();
                self.last += 1;
                let (token, offset) = (self.last, joined[0].first * PAGE_BYTES as u64);
                self.in_flight.insert(token, joined.iter().map(|run| run.id).collect());
                let transfer = Transfer { token, is_write, offset, pieces: &pieces };
                // SAFETY: the caller upholds the contract of this function.
                if unsafe { store.begin(transfer) }.is_err() {
                    failed.push(token);
                }
            }
        }
        failed
    }

    /// Ends a transfer. Returns those extents of this transfer whose transfers have now all ended.
    pub(crate) fn finish(&mut self, token: u64, is_done: bool) -> Vec<Finished> {
        let ids = self.in_flight.remove(&token).unwrap_or_default();
        let mut parts = vec![];
        for id in ids {
            let Some(under) = self.extents.get_mut(&id) else { continue };
            under.runs -= 1;
            under.is_done &= is_done;
            if under.runs == 0 {
                let Pending { span, is_write, is_done, .. } = *under;
                self.extents.remove(&id);
                parts.push(Finished { id, span, is_write, is_done });
            }
        }
        parts
    }
}

/// True if the run `before` ends in the store where the run `behind` begins.
fn follows(before: &PageRun, behind: &PageRun) -> bool {
    before.first + (before.bytes.len() / PAGE_BYTES) as u64 == behind.first
}

/// Splits runs that are neighbours in the store into groups, each of which fits into one transfer.
fn split_runs(runs: &[PageRun]) -> impl Iterator<Item = &[PageRun]> {
    let mut rest = runs;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |run: &&PageRun| {
            bytes += run.bytes.len();
            bytes <= JOINED_MAX
        };
        let count = rest.iter().take(PIECES).take_while(fits).count().max(1).min(rest.len());
        let (first, behind) = rest.split_at(count);
        rest = behind;
        (!first.is_empty()).then_some(first)
    })
}
