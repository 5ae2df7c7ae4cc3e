//! Whose pages come and go, and how.

use crate::{
    kernel::{
        frames::Frames,
        relocate::{Held, Mover},
        uffd::{Fault, Messages},
    },
    page::HUGE_BYTES,
    pager::Kernel,
};
use std::{
    io,
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

/// Memory whose pages are brought in and given up. Pages are named by their addresses in the
/// reservation of the pager, and parts of frames by bytes from the first of them.
pub(crate) trait Space: Send {
    /// Who has touched what was not there.
    ///
    /// # Errors
    /// When nobody can be served any more.
    fn faults(&mut self) -> io::Result<Vec<Fault>>;

    /// What is readable when somebody has.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Whether those who touch pages are threads of this process.
    fn has_threads_here(&self) -> bool;

    /// Brings frames to the pages from an address on, and wakes who waits for them.
    fn bring(&mut self, frames: &mut Frames, part: &Range<usize>, page: usize);

    /// Takes pages back to their frames, and says whether some were missing, which are zeros then.
    fn fetch(
        &mut self,
        frames: &mut Frames,
        part: &Range<usize>,
        page: usize,
    ) -> Result<bool, Held>;

    /// Lets go of pages that something holds, whose content is of no use any more.
    fn drop_held(&mut self, frames: &mut Frames, part: &Range<usize>, page: usize);

    /// Wakes who waits for pages, which are there or are to be touched again.
    fn wake(&mut self, pages: &Range<usize>);

    /// Lets whoever touches pages, or waits for them, get a SIGBUS.
    fn poison(&mut self, pages: &Range<usize>);

    /// Lets the kernel forget what it has for addresses where no page is.
    fn clear(&mut self, pages: &Range<usize>);
}

/// Anonymous memory of this process, whose pages are the frames themselves.
#[derive(Debug)]
pub(crate) struct Own {
    kernel: Arc<Kernel>,
    mover: Mover,
    messages: Messages,
}

impl Own {
    pub(crate) fn new(kernel: Arc<Kernel>) -> io::Result<Self> {
        Ok(Self { kernel, mover: Mover::new()?, messages: Messages::default() })
    }
}

impl Space for Own {
    fn faults(&mut self) -> io::Result<Vec<Fault>> {
        Ok(self.kernel.faults.faults(&mut self.messages)?.collect())
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.kernel.faults.as_fd()
    }

    fn has_threads_here(&self) -> bool {
        true
    }

    fn bring(&mut self, frames: &mut Frames, part: &Range<usize>, page: usize) {
        if part.len() == HUGE_BYTES {
            // The touch itself has made the kernel have a table of single pages, and a huge page
            // moves only to where none is. Since 6.14 an empty one goes with the pages that are
            // not there.
            self.mover.clear(&(page..page + HUGE_BYTES));
        }
        frames.moves(part);
        self.mover.bring(&self.kernel.faults, page, frames.start() + part.start, part.len());
    }

    fn fetch(
        &mut self,
        frames: &mut Frames,
        part: &Range<usize>,
        page: usize,
    ) -> Result<bool, Held> {
        self.mover.fetch(&self.kernel.faults, frames.start() + part.start, page, part.len())
    }

    fn drop_held(&mut self, frames: &mut Frames, part: &Range<usize>, page: usize) {
        let frame = frames.start() + part.start;
        self.mover.drop_held(&self.kernel.faults, frame, page, part.len());
    }

    fn wake(&mut self, pages: &Range<usize>) {
        let _ = self.kernel.faults.wake(pages);
    }

    fn poison(&mut self, pages: &Range<usize>) {
        let _ = self.kernel.faults.poison(pages);
    }

    fn clear(&mut self, pages: &Range<usize>) {
        self.mover.clear(pages);
    }
}
