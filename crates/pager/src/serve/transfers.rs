//! Transfers between frames and the store. One transfer joins pages that are neighbours in the
//! store, even if their frames are not neighbours.

use crate::cache::{DirtyPages, Span, index::ExtentId};
use interleaf_prefetch::page::Page;
use interleaf_procfs::page::PAGE_BYTES;
use interleaf_store::{Piece, Store, Transfer};
use std::{collections::BTreeMap, ops::Range};

/// Maximum size of a transfer that joins neighbouring pages, bytes. A drive gives most of its
/// bandwidth at this size.
const JOINED_MAX: usize = 1 << 20;

/// Maximum number of pieces of a transfer. Each piece is a range of frames that the transfer reads
/// into or writes from.
const PIECES: usize = 128;

/// Maximum number of clean pages between two dirty pages that one write includes. A separate write
/// for the second dirty page would cost at least as much as writing the clean pages.
const GAP: usize = 8;

/// An extent whose read or write-back has ended, successfully or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub(crate) id: ExtentId,
    pub(crate) span: Span,
    pub(crate) is_write: bool,
    /// True if all transfers of the extent succeeded.
    pub(crate) is_done: bool,
}

/// Consecutive pages of an extent that are read or written together.
#[derive(Clone, Debug)]
struct PageRun {
    first: Page,
    id: ExtentId,
    /// The frames of the pages, as a range of bytes from the pager's first frame.
    bytes: Range<usize>,
}

/// An extent that is being read or written back. `runs` is the number of its page runs that are
/// queued or in flight. `is_done` becomes false when the transfer of a run fails.
#[derive(Clone, Copy, Debug)]
struct Pending {
    span: Span,
    is_write: bool,
    runs: u32,
    is_done: bool,
}

/// A transfer in flight: the extents whose pages it transfers, and the number of bytes that it
/// writes (0 for a read).
#[derive(Debug, Default)]
struct InFlight {
    ids: Vec<ExtentId>,
    write_bytes: usize,
}

/// The transfers that wait to be started, and the transfers in flight.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    reads: Vec<PageRun>,
    writes: Vec<PageRun>,
    extents: BTreeMap<ExtentId, Pending>,
    in_flight: BTreeMap<u64, InFlight>,
    last: u64,
    /// Number of bytes that successful writes have written.
    written_bytes: u64,
}

impl Transfers {
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

    /// True if no transfer is queued or in flight.
    pub(crate) fn are_done(&self) -> bool {
        self.extents.is_empty()
    }

    /// Number of pages that successful writes have written so far: dirty pages, and clean pages in
    /// gaps between them.
    pub(crate) const fn written_pages(&self) -> u64 {
        self.written_bytes / PAGE_BYTES as u64
    }

    /// Starts all queued transfers. `frames` is the address of the first frame. Returns the tokens
    /// of the transfers that could not be started.
    ///
    /// # Safety
    /// Until the transfers are done, no code writes to their frames, and no code uses frames that a
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
                let ids = joined.iter().map(|run| run.id).collect();
                let bytes = joined.iter().map(|run| run.bytes.len()).sum();
                let write_bytes = if is_write { bytes } else { 0 };
                self.in_flight.insert(token, InFlight { ids, write_bytes });
                let transfer = Transfer { token, is_write, offset, pieces: &pieces };
                // SAFETY: the caller guarantees that, until the transfer is done, no code writes to
                // its frames, and no code uses frames that it reads into.
                if unsafe { store.begin(transfer) }.is_err() {
                    failed.push(token);
                }
            }
        }
        failed
    }

    /// Ends the transfer `token`. Returns those extents of this transfer that have no other
    /// transfer queued or in flight.
    pub(crate) fn finish(&mut self, token: u64, is_done: bool) -> Vec<Finished> {
        let InFlight { ids, write_bytes } = self.in_flight.remove(&token).unwrap_or_default();
        self.written_bytes += if is_done { write_bytes as u64 } else { 0 };
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

/// True if, in the store, the run `behind` begins where the run `before` ends.
fn follows(before: &PageRun, behind: &PageRun) -> bool {
    before.first + (before.bytes.len() / PAGE_BYTES) as u64 == behind.first
}

/// Splits `runs`, which are neighbours in the store, into groups. Each group fits into one
/// transfer.
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

#[cfg(test)]
mod tests {
    use super::*;
    use interleaf_store::TransferError;
    use std::{io, os::fd::BorrowedFd};

    /// A store that accepts every transfer, and has no content.
    struct NoStore;

    impl Store for NoStore {
        #[expect(unsafe_code, reason = "the trait has an unsafe method")]
        unsafe fn begin(&mut self, _: Transfer<'_>) -> io::Result<()> {
            Ok(())
        }

        fn erase(&mut self, _: u64, _: u64) {}

        fn submit(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn has_done(&mut self) -> bool {
            false
        }

        fn done(&mut self) -> Vec<(u64, Result<(), TransferError>)> {
            vec![]
        }

        fn ready(&self) -> BorrowedFd<'_> {
            unreachable!("no transfer is awaited")
        }
    }

    #[test]
    fn written_pages_are_those_of_successful_writes_with_their_gaps() {
        let mut transfers = Transfers::default();
        let mut dirty = DirtyPages::EMPTY;
        [0, 2, 15].into_iter().for_each(|page| dirty.insert(page));
        let span = |page: Page| Span { page, frame: page as u32, order: 4 };
        for (id, page) in [(1, 0), (2, 64)] {
            transfers.write(id, span(page), &dirty);
        }
        transfers.read(3, span(128));
        #[expect(unsafe_code, reason = "the store touches no memory")]
        // SAFETY: `NoStore` touches no memory.
        let failed = unsafe { transfers.start(0, &mut NoStore) };
        assert_eq!((failed.len(), transfers.written_pages()), (0, 0));
        // Token 1 is the read. Tokens 2 to 5 are the writes: for each of the two extents, one of
        // pages 0 to 2 and one of page 15.
        let finished: Vec<_> =
            (1..=5).flat_map(|token| transfers.finish(token, token != 5)).collect();
        assert!(transfers.are_done());
        assert_eq!(finished.iter().map(|it| it.is_done).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(transfers.written_pages(), 3 + 1 + 3, "page 15 of the second extent failed");
    }
}
