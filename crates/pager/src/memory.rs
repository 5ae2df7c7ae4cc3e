//! Anonymous memory: the frames of a budget, and the addresses of a region.

#![expect(unsafe_code, reason = "memory is mapped")]

use crate::pager::PAGE;
use rustix::{
    io,
    mm::{self, Advice, MapFlags, ProtFlags},
};
use std::{ops::Range, ptr};

/// Bytes of a huge page.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// A mapping of its own, aligned to a huge page; gone with the value.
#[derive(Debug)]
pub(crate) struct Memory {
    mapped: Range<usize>,
    start: usize,
    bytes: usize,
}

impl Memory {
    /// Maps `bytes`, rounded up to whole huge pages; no page is there yet.
    pub(crate) fn new(bytes: usize, huge: bool) -> io::Result<Self> {
        let bytes = bytes.max(1).checked_next_multiple_of(HUGE_BYTES).ok_or(io::Errno::NOMEM)?;
        let length = bytes.checked_add(HUGE_BYTES).ok_or(io::Errno::NOMEM)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no other.
        let address = unsafe { mm::mmap_anonymous(ptr::null_mut(), length, protection, flags) }?;
        let mapped = address as usize..address as usize + length;
        let start = mapped.start.next_multiple_of(HUGE_BYTES);
        let advice = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        for advice in [advice, Advice::LinuxDontFork] {
            // SAFETY: the mapping was just made, and advice of these kinds changes no content.
            // Without huge pages it is slower; a child that had the frames could not be served.
            let _ = unsafe { mm::madvise(address, length, advice) };
        }
        Ok(Self { mapped, start, bytes })
    }

    pub(crate) const fn start(&self) -> usize {
        self.start
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) const fn addresses(&self) -> Range<usize> {
        self.start..self.start + self.bytes
    }

    /// Fills a part with zeros.
    ///
    /// # Safety
    /// The part lies within, and nobody else uses it.
    pub(crate) unsafe fn zero(&self, part: Range<usize>) {
        debug_assert!(part.end <= self.bytes);
        // SAFETY: it is mapped, and by the caller nobody else uses it.
        unsafe { ptr::write_bytes((self.start + part.start) as *mut u8, 0, part.len()) }
    }

    /// The bytes of a page that is there and that nobody writes to, so many bytes from the start.
    pub(crate) fn page(&self, at: usize) -> &[u8] {
        assert!(at.is_multiple_of(PAGE) && at < self.bytes);
        // SAFETY: it is mapped. Of frames, only what belongs to an extent that is mapped elsewhere
        // is not there, and the digest of that is asked by nobody.
        unsafe { std::slice::from_raw_parts((self.start + at) as *const u8, PAGE) }
    }

    /// Lets the kernel forget what it has for a part, where no page is.
    pub(crate) fn forget(&self, part: Range<usize>) {
        let (address, length) = (part.start as *mut _, part.len());
        // SAFETY: the part lies within, and by the caller no page is there that could be lost.
        let _ = unsafe { mm::madvise(address, length, Advice::LinuxDontNeed) };
    }

    /// Writes some bytes.
    ///
    /// # Safety
    /// They lie within, and nobody else uses that part.
    pub(crate) unsafe fn put(&self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= self.bytes);
        // SAFETY: it is mapped, and by the caller nobody else uses it.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), (self.start + at) as *mut u8, bytes.len());
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is the value's own. It can fail only of arguments that are wrong.
        let _ = unsafe { mm::munmap(self.mapped.start as *mut _, self.mapped.len()) };
    }
}
