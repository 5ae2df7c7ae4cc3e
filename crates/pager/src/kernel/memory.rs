//! Anonymous mappings: the frames of a budget, and the address range that the pager reserves for
//! regions.

#![expect(unsafe_code, reason = "memory is mapped")]

use interleaf_procfs::{
    page::{HUGE_BYTES, PAGE_BYTES},
    pagemap,
};
use libc::{c_int, c_long, c_ulong};
use rustix::{
    io,
    mm::{self, Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags},
};
use std::{fs::File, ops::Range, os::unix::fs::FileExt as _, ptr};

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// A mapping whose usable part is aligned to a huge page. The mapping is unmapped when the value is
/// dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    mapped: Range<usize>,
    start: usize,
    bytes: usize,
}

impl Memory {
    /// Maps memory for frames: `bytes`, rounded up to whole huge pages. No page is allocated yet.
    pub(crate) fn frames(bytes: usize) -> io::Result<Self> {
        Self::new(bytes, READ_WRITE, Advice::LinuxHugepage)
    }

    /// Maps memory for frames like [`Memory::frames`], but in pages of 4 KiB instead of huge pages.
    pub(crate) fn plain(bytes: usize) -> io::Result<Self> {
        Self::new(bytes, READ_WRITE, Advice::LinuxNoHugepage)
    }

    /// Reserves a range of addresses. The addresses are inaccessible until [`protect`] changes
    /// their protection.
    pub(crate) fn reserve(bytes: usize) -> io::Result<Self> {
        Self::new(bytes, ProtFlags::empty(), Advice::LinuxNoHugepage)
    }

    fn new(bytes: usize, protection: ProtFlags, huge: Advice) -> io::Result<Self> {
        let bytes = bytes.max(1).checked_next_multiple_of(HUGE_BYTES).ok_or(io::Errno::NOMEM)?;
        let length = bytes.checked_add(HUGE_BYTES).ok_or(io::Errno::NOMEM)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let none = ProtFlags::empty();
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no other mapping.
        let address = unsafe { mm::mmap_anonymous(ptr::null_mut(), length, none, flags) }?;
        let mapped = address as usize..address as usize + length;
        // Unlock the memory before it becomes accessible: the kernel would allocate all pages of a
        // locked mapping that is accessible.
        unlock(&mapped);
        // SAFETY: the mapping was just made, so no Rust object lies in it.
        let is_accessible =
            protection.is_empty() || unsafe { protect(&mapped, protection.bits()) }.is_ok();
        let start = mapped.start.next_multiple_of(HUGE_BYTES);
        for advice in [huge, Advice::LinuxDontFork] {
            // SAFETY: the mapping was just made, and neither advice changes its content. A failure
            // is ignored: a kernel without huge pages refuses advice about huge pages, and the
            // pager is then only slower. No kernel refuses `MADV_DONTFORK` of an anonymous mapping.
            let _ = unsafe { mm::madvise(address, length, advice) };
        }
        let memory = Self { mapped, start, bytes };
        if is_accessible { Ok(memory) } else { Err(io::Errno::NOMEM) }
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

    /// Fills the byte range `part` of the memory with zeros.
    ///
    /// # Safety
    /// The range `part` lies within the memory, and no other code uses these bytes.
    pub(crate) unsafe fn zero(&self, part: Range<usize>) {
        debug_assert!(part.end <= self.bytes);
        // SAFETY: the memory is mapped, and the caller guarantees that no other code uses the part.
        unsafe { ptr::write_bytes((self.start + part.start) as *mut u8, 0, part.len()) }
    }

    /// Writes bytes at the offset `at` of the memory.
    ///
    /// # Safety
    /// The bytes lie within the memory, and no other code uses that part.
    #[cfg(test)]
    pub(crate) unsafe fn put(&self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= self.bytes);
        // SAFETY: the memory is mapped, and the caller guarantees that no other code uses the
        // bytes.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), (self.start + at) as *mut u8, bytes.len());
        }
    }

    /// The bytes in the range `part` of the memory.
    ///
    /// # Safety
    /// The range `part` lies within the memory, is accessible, and is not written to as long as the
    /// slice is used.
    pub(crate) unsafe fn part(&self, part: Range<usize>) -> &[u8] {
        debug_assert!(part.end <= self.bytes);
        // SAFETY: the memory is mapped, and the caller guarantees that the part is accessible and
        // that no code writes to it.
        unsafe { std::slice::from_raw_parts((self.start + part.start) as *const u8, part.len()) }
    }

    /// The bytes in the range `part` of the memory, writable.
    ///
    /// # Safety
    /// The range `part` lies within the memory and is accessible, and no other code uses these
    /// bytes.
    pub(crate) unsafe fn part_mut(&mut self, part: Range<usize>) -> &mut [u8] {
        debug_assert!(part.end <= self.bytes);
        let start = (self.start + part.start) as *mut u8;
        // SAFETY: the memory is mapped, and the caller guarantees that the part is accessible and
        // that no other code uses it.
        unsafe { std::slice::from_raw_parts_mut(start, part.len()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: no other value uses the mapping. `munmap` fails only for invalid arguments.
        let _ = unsafe { mm::munmap(self.mapped.start as *mut _, self.mapped.len()) };
    }
}

/// Unlocks a new mapping. The kernel locks each new mapping after `mlockall(2)` with `MCL_FUTURE`.
/// A locked mapping does not work here: `UFFDIO_MOVE` moves pages only between two locked or two
/// unlocked mappings, and the kernel allocates all pages of a locked mapping, also beyond the
/// budget.
fn unlock(pages: &Range<usize>) {
    // SAFETY: `munlock(2)` changes no content, and cannot fail for a mapping that exists.
    let _ = unsafe { mm::munlock(pages.start as *mut _, pages.len()) };
}

/// Sets the protection of pages. `protection` has bits of `PROT_...`, which are passed to the
/// kernel unchanged.
///
/// # Safety
/// The pages are in the address range that the pager reserves for regions, or in memory that only
/// the caller uses, and no Rust object lies in them. No code of the pager makes an access to the
/// pages that `protection` forbids: it would raise SIGSEGV. The program makes such an access to its
/// regions only if it has chosen the protection itself.
pub(crate) unsafe fn protect(pages: &Range<usize>, protection: u32) -> io::Result<()> {
    let flags = MprotectFlags::from_bits_retain(protection);
    // SAFETY: the caller guarantees that no Rust object lies in these pages, and that no code of
    // the pager makes an access that the protection forbids.
    unsafe { mm::mprotect(pages.start as *mut _, pages.len(), flags) }
}

/// Gives advice about pages to the kernel (`madvise(2)`).
///
/// # Safety
/// The caller accepts the effect of the advice on the content of the pages.
pub(crate) unsafe fn advise(pages: &Range<usize>, advice: Advice) -> io::Result<()> {
    // SAFETY: the caller accepts the effect of the advice on the content of the pages.
    unsafe { mm::madvise(pages.start as *mut _, pages.len(), advice) }
}

/// True if there is a page at the address `page`, in DRAM or in swap. If this process may not read
/// its `/proc/self/pagemap`, only a page in DRAM counts.
pub(crate) fn has_page(page: usize) -> bool {
    let in_pagemap = || {
        let mut entry = [0; pagemap::ENTRY_BYTES as usize];
        let offset = pagemap::entry_offset(page as u64, PAGE_BYTES as u64);
        File::open("/proc/self/pagemap")?.read_exact_at(&mut entry, offset)?;
        let mut entries = pagemap::entries(&entry);
        std::io::Result::Ok(entries.any(|entry| entry.is_resident() || entry.is_swapped()))
    };
    // `mincore(2)` needs no descriptor, but does not see a page in swap.
    is_resident(page) || in_pagemap().unwrap_or(false)
}

/// True if the page at the address `page` is in DRAM; false if it is not, or if nothing is mapped
/// at the address.
pub(crate) fn is_resident(page: usize) -> bool {
    let mut status = 0;
    // SAFETY: for a length of one page, the call writes one byte to `status`.
    let outcome = unsafe { libc::mincore(page as *mut _, 1, &raw mut status) };
    outcome == 0 && status & 1 == 1
}

/// Allocates the pages of the huge page at `address`, filled with zeros (`MADV_POPULATE_WRITE`,
/// Linux 5.14).
pub(crate) fn populate(address: usize) -> io::Result<()> {
    // SAFETY: the call does not change the content of the memory.
    unsafe { mm::madvise(address as *mut _, HUGE_BYTES, Advice::LinuxPopulateWrite) }
}

/// Binds addresses to the node with the number `node`: from now on, the kernel allocates pages at
/// these addresses on this node.
///
/// # Errors
/// When this process may not use the node, or the kernel lacks NUMA.
pub(crate) fn bind(pages: &Range<usize>, node: u32) -> io::Result<()> {
    let mut mask = [0; NODE_MASK_WORDS];
    let word = mask.get_mut((node / c_ulong::BITS) as usize).ok_or(io::Errno::INVAL)?;
    *word |= 1 << (node % c_ulong::BITS);
    set_policy(pages, libc::MPOL_BIND, &mask)
}

/// Excludes `pages` from the kernel's NUMA balancing, which would migrate the pages of regions.
/// NUMA balancing skips memory that has its own memory policy, so these addresses get the policy
/// `MPOL_LOCAL`.
///
/// # Errors
/// When the kernel lacks NUMA.
pub(crate) fn keep_on_nodes(pages: &Range<usize>) -> io::Result<()> {
    set_policy(pages, MPOL_LOCAL, &[])
}

/// `MPOL_LOCAL` of `linux/mempolicy.h`: the kernel allocates a page on the node of the thread that
/// touches the page first.
const MPOL_LOCAL: c_int = 4;

/// `MPOL_MODE_FLAGS` of `linux/mempolicy.h`: the flags that `get_mempolicy(2)` adds to the mode.
const MODE_FLAGS: c_int = 7 << 13;

/// Number of words in a mask of 1024 nodes, the maximum number of nodes of Linux.
const NODE_MASK_WORDS: usize = 1024 / c_ulong::BITS as usize;

fn set_policy(pages: &Range<usize>, mode: c_int, mask: &[c_ulong]) -> io::Result<()> {
    // `mbind(2)` reads one bit less than `bits` says. Without a mask, the pointer must be null and
    // the number of bits 0.
    let (mask, bits) = match mask.is_empty() {
        true => (ptr::null(), 0),
        false => (mask.as_ptr(), mask.len() * c_ulong::BITS as usize + 1),
    };
    let (start, mode) = (pages.start, c_long::from(mode));
    // SAFETY: the call reads `bits` - 1 bits of the mask, and changes no content of memory.
    let outcome =
        unsafe { libc::syscall(libc::SYS_mbind, start, pages.len(), mode, mask, bits, 0_usize) };
    if outcome == 0 { Ok(()) } else { Err(errno()) }
}

/// True if the calling thread has a NUMA memory policy, set by itself or inherited from the thread
/// or process that has started it.
pub(crate) fn has_policy() -> bool {
    let mut mode: c_int = libc::MPOL_DEFAULT;
    let none = ptr::null::<c_ulong>();
    // SAFETY: because mask and address are null, the call writes only `mode`.
    let outcome = unsafe {
        libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, none, 0_usize, 0_usize, 0_usize)
    };
    outcome == 0 && mode & !MODE_FLAGS != libc::MPOL_DEFAULT
}

fn errno() -> io::Errno {
    io::Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(io::Errno::INVAL)
}

/// `MADV_COLLAPSE` of `asm-generic/mman-common.h`, since Linux 6.1: collapse single pages into a
/// huge page.
const COLLAPSE: libc::c_int = 25;

/// Collapses 512 single pages from `address` on, which is aligned to a huge page, into one huge
/// page. A failure is ignored, for example if the kernel has no free huge page.
pub(crate) fn collapse(address: usize) {
    // SAFETY: a collapse does not change the content of the memory.
    let _ = unsafe { libc::madvise(address as *mut _, HUGE_BYTES, COLLAPSE) };
}

/// `PIDFD_SELF_THREAD_GROUP` of `linux/pidfd.h`: this process (Linux 6.14).
const THIS_PROCESS: c_int = -10_001;

/// Gives pages back to the kernel, by one call of `process_madvise(2)`. Since Linux 6.16, the call
/// interrupts the other CPUs that run this process once, and not for each page.
///
/// # Safety
/// The content of the pages is not needed any more.
pub(crate) unsafe fn release_pages(pages: &[Range<usize>]) {
    let to_vec =
        |page: &Range<usize>| libc::iovec { iov_base: page.start as *mut _, iov_len: page.len() };
    let vecs: Vec<_> = pages.iter().map(to_vec).collect();
    let (start, count, advice) = (vecs.as_ptr(), vecs.len(), libc::MADV_DONTNEED);
    // SAFETY: the caller does not need the content of the pages any more.
    let released = unsafe {
        libc::syscall(libc::SYS_process_madvise, THIS_PROCESS, start, count, advice, 0_usize)
    };
    if usize::try_from(released) == Ok(pages.iter().map(Range::len).sum()) {
        return;
    }
    // This kernel has no `process_madvise(2)`, or does not allow this call on the calling process.
    for page in pages {
        // SAFETY: the caller does not need the content of the pages any more. The error is ignored:
        // no kernel refuses this advice for memory that is neither locked nor special.
        let _ = unsafe { advise(page, Advice::LinuxDontNeed) };
    }
}

/// Replaces the mapping at `pages` by inaccessible memory, so that the pager can allocate regions
/// at these addresses again.
///
/// # Safety
/// The addresses are in the range that the pager reserves for regions, and no code uses the mapping
/// any more.
pub(crate) unsafe fn reserve_again(pages: &Range<usize>) -> io::Result<()> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    let start = pages.start as *mut _;
    // SAFETY: the caller guarantees that the addresses are in the range that the pager reserves for
    // regions, and that no code uses the mapping any more.
    unsafe { mm::mmap_anonymous(start, pages.len(), ProtFlags::empty(), flags) }?;
    unlock(pages);
    for advice in [Advice::LinuxNoHugepage, Advice::LinuxDontFork] {
        // SAFETY: the mapping was just made, and neither advice changes its content.
        let _ = unsafe { mm::madvise(start, pages.len(), advice) };
    }
    Ok(())
}

/// Moves `pages`, which may be read-only, to the addresses from `to` on, without a copy
/// (`mremap(2)`). Makes the pages writable at `to`. The mapping at `pages` remains, without pages.
///
/// # Safety
/// The pages belong to a region. The memory at `to` is used only by this function.
pub(crate) unsafe fn lift_out(pages: &Range<usize>, to: usize) -> io::Result<()> {
    let flags = MremapFlags::MAYMOVE | MremapFlags::DONTUNMAP;
    let (start, length) = (pages.start as *mut _, pages.len());
    // SAFETY: the caller guarantees that the pages belong to a region, and that only this function
    // uses the memory at `to`.
    unsafe { mm::mremap_fixed(start, length, length, flags, to as *mut _) }?;
    // SAFETY: only this function uses the memory at `to`, and no Rust object lies there.
    unsafe { protect(&(to..to + length), READ_WRITE.bits()) }
}

/// Undoes [`lift_out`]: moves the pages from the addresses from `from` on back to `pages`, where
/// they replace the empty mapping. Gives them the protection `protection`. The registration with
/// the userfaultfd does not move with the pages: the caller must register `pages` again.
///
/// # Safety
/// The pages belong to a region, and `lift_out` was the last to use the memory at `from`.
pub(crate) unsafe fn put_back(
    pages: &Range<usize>,
    from: usize,
    protection: u32,
) -> io::Result<()> {
    let length = pages.len();
    // The protection is set before the move, so that no thread can write to the pages meanwhile.
    // SAFETY: only the caller uses the memory at `from`, and no Rust object lies there.
    unsafe { protect(&(from..from + length), protection) }?;
    let flags = MremapFlags::MAYMOVE | MremapFlags::DONTUNMAP;
    let (from, to) = (from as *mut _, pages.start as *mut _);
    // SAFETY: the mapping at `pages` belongs to a region and has no pages.
    unsafe { mm::mremap_fixed(from, length, length, flags, to) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn memory_is_bound_to_a_node_and_kept_there() {
        let memory = Memory::frames(HUGE_BYTES).unwrap();
        // A kernel without NUMA does not have `mbind(2)`.
        let is_done = |outcome: io::Result<()>| matches!(outcome, Ok(()) | Err(io::Errno::NOSYS));
        assert!(is_done(keep_on_nodes(&memory.addresses())));
        assert!(is_done(bind(&memory.addresses(), 0)));
        assert!(bind(&memory.addresses(), 1023).is_err(), "no machine has that node");
        assert!(bind(&memory.addresses(), u32::MAX).is_err());
    }
}
