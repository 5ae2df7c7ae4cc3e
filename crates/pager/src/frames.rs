//! The frames of a budget: anonymous memory in huge pages, which are there once they are needed.

#![expect(unsafe_code, reason = "memory is mapped")]

use crate::{
    memory::{HUGE_BYTES, Memory},
    pager::PAGE,
    uffd::Userfault,
};
use rustix::io;
use std::ops::Range;

/// Frames, each with its page or the page away in a region.
#[derive(Debug)]
pub(crate) struct Frames {
    memory: Memory,
    /// Which huge pages were there once.
    made: Vec<bool>,
}

impl Frames {
    pub(crate) fn new(frames: u32) -> io::Result<Self> {
        let memory = Memory::frames(frames as usize * PAGE)?;
        let made = vec![false; memory.bytes() / HUGE_BYTES];
        Ok(Self { memory, made })
    }

    pub(crate) const fn start(&self) -> usize {
        self.memory.start()
    }

    pub(crate) const fn addresses(&self) -> Range<usize> {
        self.memory.addresses()
    }

    /// Sees to it that a part has pages; bytes from the first frame.
    pub(crate) fn make(&mut self, part: &Range<usize>, faults: &Userfault) -> io::Result<()> {
        for huge in part.start / HUGE_BYTES..part.end.div_ceil(HUGE_BYTES) {
            if self.made[huge] {
                continue;
            }
            let start = huge * HUGE_BYTES;
            // SAFETY: no frame of it was used yet.
            unsafe { self.memory.zero(start..start + HUGE_BYTES) };
            let address = self.memory.start() + start;
            // Pages come back to their frames by a move, which needs that.
            faults.register(&(address..address + HUGE_BYTES))?;
            self.made[huge] = true;
        }
        Ok(())
    }

    /// Fills a part with zeros.
    ///
    /// # Safety
    /// The pages of the part are there, and nobody else uses it.
    pub(crate) unsafe fn zero(&self, part: Range<usize>) {
        // SAFETY: by the caller.
        unsafe { self.memory.zero(part) }
    }

    /// The bytes of a page that is there and that nobody writes to, so many bytes from the first
    /// frame.
    pub(crate) fn page(&self, at: usize) -> &[u8] {
        // SAFETY: of frames, only what belongs to an extent that is mapped is not there, and nobody
        // asks for its content; while it is here, nobody writes to it.
        unsafe { self.memory.part(at..at + PAGE) }
    }
}
