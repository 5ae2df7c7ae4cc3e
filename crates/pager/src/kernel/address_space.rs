//! The address spaces in which the fault server maps and unmaps pages.

use crate::kernel::{
    frames::Frames,
    handle::FaultHandle,
    relocate::{Pinned, Relocator},
    uffd::{Fault, Messages},
};
use interleaf_procfs::page::HUGE_BYTES;
use std::{
    io,
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

/// An address space that the fault server maps pages into. In its methods, `page` is an address in
/// the range that the pager has reserved for regions, and `part` is a range of frames, in bytes
/// from the first frame.
pub(crate) trait AddressSpace: Send {
    /// Reads the pending faults.
    ///
    /// # Errors
    /// When faults cannot be read any more.
    fn faults(&mut self) -> io::Result<Vec<Fault>>;

    /// A descriptor that becomes readable when faults are pending.
    fn fd(&self) -> BorrowedFd<'_>;

    /// True if the threads that fault belong to this process.
    fn has_threads_here(&self) -> bool;

    /// Maps the frames in `part` at the pages from `page` on, and wakes the threads that wait for
    /// these pages.
    fn map_in(&mut self, frames: &mut Frames, part: &Range<usize>, page: usize);

    /// Unmaps the pages from `page` on, and returns their content to the frames in `part`. Returns
    /// true if some pages were missing. The frames of missing pages are zeros then.
    ///
    /// # Errors
    /// [`Pinned`] if a page is pinned. All pages then stay mapped.
    fn unmap_out(
        &mut self,
        frames: &mut Frames,
        part: &Range<usize>,
        page: usize,
    ) -> Result<bool, Pinned>;

    /// Moves the memory of the free frames in the part `from` to the frames in the part `to`, which
    /// has the same length. The frames in `to` have no memory, because they belong to a mapped
    /// extent.
    fn move_memory(&mut self, frames: &mut Frames, from: &Range<usize>, to: &Range<usize>);

    /// Drops the pages from `page` on, which are pinned, and whose content is not needed any more.
    /// Fills the frames in `part` with zeros.
    fn drop_pinned(&mut self, frames: &mut Frames, part: &Range<usize>, page: usize);

    /// Wakes the threads that wait for `pages`. These threads repeat their accesses.
    fn wake(&mut self, pages: &Range<usize>);

    /// Poisons `pages`: each access to them raises SIGBUS, also in threads that already wait for
    /// them.
    fn poison(&mut self, pages: &Range<usize>);

    /// Clears the page table entries of `pages`, where no page is mapped. Also clears the entries
    /// of poisoned pages.
    fn clear(&mut self, pages: &Range<usize>);
}

/// Private anonymous memory of this process. Pages move between this memory and the frames.
#[derive(Debug)]
pub(crate) struct PrivateSpace {
    handle: Arc<FaultHandle>,
    relocator: Relocator,
    messages: Messages,
}

impl PrivateSpace {
    pub(crate) fn new(handle: Arc<FaultHandle>) -> io::Result<Self> {
        Ok(Self { handle, relocator: Relocator::new()?, messages: Messages::default() })
    }
}

impl AddressSpace for PrivateSpace {
    fn faults(&mut self) -> io::Result<Vec<Fault>> {
        Ok(self.handle.userfault.faults(&mut self.messages)?.collect())
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.handle.userfault.as_fd()
    }

    fn has_threads_here(&self) -> bool {
        true
    }

    fn map_in(&mut self, frames: &mut Frames, part: &Range<usize>, page: usize) {
        if part.len() == HUGE_BYTES {
            // Free the page table that the fault has allocated, because `UFFDIO_MOVE` moves a huge
            // page only to an address without a page table. `MADV_DONTNEED` frees an empty page
            // table since Linux 6.14.
            self.relocator.clear(&(page..page + HUGE_BYTES));
        }
        frames.note_move(part);
        self.relocator.map_in(
            &self.handle.userfault,
            page,
            frames.start() + part.start,
            part.len(),
        );
    }

    fn unmap_out(
        &mut self,
        frames: &mut Frames,
        part: &Range<usize>,
        page: usize,
    ) -> Result<bool, Pinned> {
        self.relocator.unmap_out(
            &self.handle.userfault,
            frames.start() + part.start,
            page,
            part.len(),
        )
    }

    fn move_memory(&mut self, frames: &mut Frames, from: &Range<usize>, to: &Range<usize>) {
        frames.note_moved_memory(from, to);
        let (from, to, bytes) = (frames.start() + from.start, frames.start() + to.start, to.len());
        self.relocator.map_in(&self.handle.userfault, to, from, bytes);
    }

    fn drop_pinned(&mut self, frames: &mut Frames, part: &Range<usize>, page: usize) {
        let frame = frames.start() + part.start;
        self.relocator.drop_pinned(&self.handle.userfault, frame, page, part.len());
    }

    fn wake(&mut self, pages: &Range<usize>) {
        let _ = self.handle.userfault.wake(pages);
    }

    fn poison(&mut self, pages: &Range<usize>) {
        let _ = self.handle.userfault.poison(pages);
    }

    fn clear(&mut self, pages: &Range<usize>) {
        self.relocator.clear(pages);
    }
}
