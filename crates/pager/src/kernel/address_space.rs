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

/// An address space that the fault server maps pages into. A `page` is an address in the range that
/// the pager has reserved for regions. A `part` of the frames is a range of bytes from the first
/// frame.
pub(crate) trait AddressSpace: Send {
    /// Reads the pending faults.
    ///
    /// # Errors
    /// When faults cannot be read any more.
    fn faults(&mut self) -> io::Result<Vec<Fault>>;

    /// A descriptor that is readable when faults are pending.
    fn fd(&self) -> BorrowedFd<'_>;

    /// True if the faulting threads belong to this process.
    fn has_threads_here(&self) -> bool;

    /// Maps the frames in `part` at the pages from `page` on, and wakes the threads that wait for
    /// these pages.
    fn map_in(&mut self, frames: &mut Frames, part: &Range<usize>, page: usize);

    /// Unmaps the pages from `page` on, and returns their content to the frames in `part`. Returns
    /// true if some pages were missing; the frames of missing pages are then zeros. If a page is
    /// pinned, all pages stay mapped, and the result is [`Pinned`].
    fn unmap_out(
        &mut self,
        frames: &mut Frames,
        part: &Range<usize>,
        page: usize,
    ) -> Result<bool, Pinned>;

    /// Moves the memory of the free frames in the part `from` to the frames in the part `to`, which
    /// belong to a mapped extent and have no memory. Both parts have the same length.
    fn move_memory(&mut self, frames: &mut Frames, from: &Range<usize>, to: &Range<usize>);

    /// Drops the pinned pages from `page` on, whose content is not needed any more. The frames in
    /// `part` are zeros afterwards.
    fn drop_pinned(&mut self, frames: &mut Frames, part: &Range<usize>, page: usize);

    /// Wakes the threads that wait for pages; these threads repeat the access.
    fn wake(&mut self, pages: &Range<usize>);

    /// Poisons pages: each access to the pages raises SIGBUS, also in threads that already wait for
    /// the pages.
    fn poison(&mut self, pages: &Range<usize>);

    /// Clears the page table entries at addresses where no page is mapped, including the entries of
    /// poisoned pages.
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
            // Free the page table that the fault has allocated, because a huge page moves only to
            // an address without a page table. `MADV_DONTNEED` frees an empty page table since
            // Linux 6.14.
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
