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
    /// has the same length. The frames in `to` have no memory, because they belonged to a mapped
    /// extent, whose memory is in a region.
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
        if frames.should_copy(part) {
            let frame = frames.start() + part.start;
            if self.handle.userfault.copy_pages(page, frame, part.len()).is_ok() {
                frames.note_copied(part);
                return;
            }
        }
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
        frames.empty(part);
        self.relocator.unmap_out(
            &self.handle.userfault,
            frames.start() + part.start,
            page,
            part.len(),
        )
    }

    fn move_memory(&mut self, frames: &mut Frames, from: &Range<usize>, to: &Range<usize>) {
        frames.empty(to);
        frames.note_moved_memory(from, to);
        let (from, to, bytes) = (frames.start() + from.start, frames.start() + to.start, to.len());
        self.relocator.map_in(&self.handle.userfault, to, from, bytes);
    }

    fn drop_pinned(&mut self, frames: &mut Frames, part: &Range<usize>, page: usize) {
        frames.empty(part);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::{
        cache::node::Division,
        kernel::{
            memory::{Memory, has_page},
            uffd::FaultMode,
        },
    };
    use interleaf_procfs::page::PAGE_BYTES;

    /// Maps the frames of a split huge page one after the other, which copies their content, and
    /// unmaps them again.
    #[test]
    fn single_pages_are_copied_in_and_moved_out() {
        let mut frames = Frames::new(&Division::single(512), &[]).unwrap();
        let regions = Memory::frames(HUGE_BYTES).unwrap();
        let addresses = [regions.addresses()];
        let handle = match FaultHandle::new(addresses, &frames, FaultMode::Thread) {
            Ok(handle) => Arc::new(handle),
            Err(why) => panic!("not tested: {why}"),
        };
        let mut space = PrivateSpace::new(Arc::clone(&handle)).unwrap();
        let part = |page: usize| page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
        let (frame, address) = (frames.start(), regions.start());
        frames.make(&(0..HUGE_BYTES), &handle.userfault).unwrap();
        assert!(!frames.should_copy(&part(0)), "a part of a huge page");
        frames.note_move(&part(0));
        assert!(frames.should_copy(&part(0)));
        assert!(!frames.should_copy(&(0..2 * PAGE_BYTES)));
        for round in 0..3 {
            for page in 0..100 {
                if round == 0 {
                    *frames.part_mut(part(page)).first_mut().unwrap() = page as u8;
                }
                space.map_in(&mut frames, &part(page), address + part(page).start);
                assert!(has_page(address + part(page).start));
            }
            let left = (0..100).filter(|page| has_page(frame + part(*page).start)).count();
            assert!(left < 100, "the frames of a full list were given back");
            // Only the frames of the pages mapped last still hold a page; the others were given
            // back.
            for page in (0..100).rev() {
                let at = address + part(page).start;
                assert_eq!(space.unmap_out(&mut frames, &part(page), at), Ok(false));
                assert!(!has_page(at));
                assert_eq!(frames.page(part(page).start)[0], page as u8, "round {round}");
            }
        }
    }
}
