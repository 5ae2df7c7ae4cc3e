//! The frames of a budget: anonymous memory in huge pages, which are there once they are needed.

#![expect(unsafe_code, reason = "memory is mapped")]

use crate::{
    kernel::{
        memory::{self, Memory},
        uffd::Userfault,
    },
    page::{HUGE_BYTES, PAGE_BYTES},
};
use rustix::{io, mm::Advice};
use std::{mem, ops::Range};

/// Frames, each with its page or the page away in a region.
#[derive(Debug)]
pub(crate) struct Frames {
    memory: Memory,
    /// Which huge pages were there once.
    made: Vec<bool>,
    /// Which of them may be huge no more, since a part of them was moved.
    parted: Vec<bool>,
    /// Frames of them whose pages are others' for now.
    away: Vec<bool>,
    zeros: Box<[u8; PAGE_BYTES]>,
    /// Whether no page moves: the kernel gives frames new ones.
    is_plain: bool,
}

impl Frames {
    pub(crate) fn new(frames: u32) -> io::Result<Self> {
        Self::over(Memory::frames(frames as usize * PAGE_BYTES)?, false)
    }

    /// Frames whose pages are not moved but copied, each there only as long as it holds something.
    pub(crate) fn plain(frames: u32) -> io::Result<Self> {
        Self::over(Memory::plain(frames as usize * PAGE_BYTES)?, true)
    }

    fn over(memory: Memory, is_plain: bool) -> io::Result<Self> {
        let made = vec![false; memory.bytes() / HUGE_BYTES];
        let parted = made.clone();
        let (away, zeros) = (vec![false; memory.bytes() / PAGE_BYTES], Box::new([0; PAGE_BYTES]));
        Ok(Self { memory, made, parted, away, zeros, is_plain })
    }

    pub(crate) const fn start(&self) -> usize {
        self.memory.start()
    }

    pub(crate) const fn addresses(&self) -> Range<usize> {
        self.memory.addresses()
    }

    /// Sees to it that a part has pages; bytes from the first frame.
    pub(crate) fn make(&mut self, part: &Range<usize>, faults: &Userfault) -> io::Result<()> {
        if self.is_plain {
            return Ok(());
        }
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
        for frame in part.start / PAGE_BYTES..part.end.div_ceil(PAGE_BYTES) {
            if mem::take(&mut self.away[frame]) {
                let address = self.memory.start() + frame * PAGE_BYTES;
                faults.copy_pages(address, self.zeros.as_ptr() as usize, PAGE_BYTES)?;
            }
        }
        if part.len() == HUGE_BYTES && mem::take(&mut self.parted[part.start / HUGE_BYTES]) {
            // It is used as a whole now, which is worth a copy. Where no huge page is to be had, it
            // stays as it is.
            memory::collapse(self.memory.start() + part.start);
        }
        Ok(())
    }

    /// A part moves, to a region or back; bytes from the first frame.
    pub(crate) fn moves(&mut self, part: &Range<usize>) {
        self.parted[part.start / HUGE_BYTES] |= part.len() < HUGE_BYTES;
    }

    /// Gives the memory of a part back, which nobody uses until it is made again; bytes from the
    /// first frame.
    pub(crate) fn release(&mut self, part: &Range<usize>) {
        for page in part.clone().step_by(PAGE_BYTES) {
            self.away[page / PAGE_BYTES] |= self.made[page / HUGE_BYTES];
        }
        let address = self.memory.start() + part.start;
        // SAFETY: no extent has these frames, so that nobody misses what is in them.
        let _ = unsafe { memory::advise(&(address..address + part.len()), Advice::LinuxDontNeed) };
    }

    /// Fills a part with zeros.
    ///
    /// # Safety
    /// The pages of the part are there, and nobody else uses it.
    pub(crate) unsafe fn zero(&self, part: Range<usize>) {
        // SAFETY: by the caller.
        unsafe { self.memory.zero(part) }
    }

    /// A part that nobody else uses, to fill.
    pub(crate) fn part_mut(&mut self, part: Range<usize>) -> &mut [u8] {
        // SAFETY: plain frames always have pages, and what is asked for here is an extent's, which
        // nobody else looks at while the frames are borrowed.
        unsafe { self.memory.part_mut(part) }
    }

    /// The bytes of a page that is there and that nobody writes to, so many bytes from the first
    /// frame.
    pub(crate) fn page(&self, at: usize) -> &[u8] {
        self.part(at..at + PAGE_BYTES)
    }

    /// The bytes of a part, as of `page`.
    pub(crate) fn part(&self, part: Range<usize>) -> &[u8] {
        // SAFETY: of frames, only what belongs to an extent that is mapped is not there, and nobody
        // asks for its content; while it is here, nobody writes to it.
        unsafe { self.memory.part(part) }
    }
}
