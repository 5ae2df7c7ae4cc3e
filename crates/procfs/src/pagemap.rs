//! The pages of a process: `/proc/PID/pagemap` has an entry of 8 bytes for each page
//! (Documentation/admin-guide/mm/pagemap.rst). Its ioctl `PAGEMAP_SCAN` (since Linux 6.7) finds the
//! resident pages, and skips empty page tables.
//!
//! A mapping can have terabytes of addresses, of which only a few were ever touched. `move_pages`
//! takes 150 to 200 ns to locate the page of an address, even if the address has no page (Linux
//! 6.18 in a virtual machine). To read an entry of the pagemap takes 3 ns for an address without a
//! page, and 40 ns for an address with a page. The entry also shows, before a program tries to move
//! the page, whether the page is shared.

#![expect(unsafe_code, reason = "no crate wraps PAGEMAP_SCAN")]

use rustix::ioctl::{Opcode, opcode};
use std::{
    io,
    ops::Range,
    os::fd::{AsRawFd, BorrowedFd},
};

/// Size of an entry of `/proc/PID/pagemap`, bytes. An entry describes one base page.
pub const ENTRY_BYTES: u64 = 8;

/// The bit of a pagemap entry that says that the page is in memory.
const PRESENT: u64 = 1 << 63;

/// The bit of a pagemap entry that says that the page is in swap.
const SWAPPED: u64 = 1 << 62;

/// The bit of a pagemap entry that says that the page belongs to a file or to shared memory.
const FILE: u64 = 1 << 61;

/// The bit of a pagemap entry that says that no other process maps the page.
const EXCLUSIVE: u64 = 1 << 56;

/// An entry of `/proc/PID/pagemap`, as the kernel writes it. It describes one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub u64);

impl Entry {
    /// True if the page is in memory.
    pub fn is_resident(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// True if the page is in swap.
    pub fn is_swapped(self) -> bool {
        self.0 & SWAPPED != 0
    }

    /// True if the page belongs to a file or to shared memory.
    pub fn is_of_file(self) -> bool {
        self.0 & FILE != 0
    }

    /// True if no other process maps the page.
    pub fn is_exclusive(self) -> bool {
        self.0 & EXCLUSIVE != 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentPage {
    pub address: u64,
    /// True if other processes map the page too. `move_pages` with `MPOL_MF_MOVE` does not move
    /// such a page.
    pub is_shared: bool,
}

/// Returns the offset, in bytes, at which `/proc/PID/pagemap` has the entry of the page at
/// `address`.
pub fn entry_offset(address: u64, page_bytes: u64) -> u64 {
    address / page_bytes * ENTRY_BYTES
}

/// Returns the entries in `bytes`, a part of `/proc/PID/pagemap`. An incomplete entry at the end is
/// left out.
pub fn entries(bytes: &[u8]) -> impl Iterator<Item = Entry> {
    let entries = bytes.chunks_exact(ENTRY_BYTES as usize);
    entries.filter_map(|entry| Some(Entry(u64::from_ne_bytes(entry.try_into().ok()?))))
}

/// Returns the resident pages among those whose pagemap entries are in `bytes`. The first entry is
/// for the page at the address `start`, and each entry is for a page of `page_bytes` bytes. Pages
/// of files and of shared memory are included only if `with_files` is true.
pub fn resident(
    bytes: &[u8],
    start: u64,
    page_bytes: u64,
    with_files: bool,
) -> impl Iterator<Item = ResidentPage> {
    entries(bytes).zip(0_u64..).filter_map(move |(entry, at)| {
        let is_wanted = entry.is_resident() && (with_files || !entry.is_of_file());
        let (address, is_shared) = (start + at * page_bytes, !entry.is_exclusive());
        is_wanted.then_some(ResidentPage { address, is_shared })
    })
}

/// `struct pm_scan_arg` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of `linux/fs.h`: neighbouring pages that have the same categories.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageRegion {
    /// The first address.
    pub start: u64,
    /// The address after the last page.
    pub end: u64,
    /// The categories of the pages, as bits such as `PAGE_IS_PRESENT`.
    pub categories: u64,
}

const PAGEMAP_SCAN: Opcode = opcode::read_write::<ScanArguments>(b'f', 16);

/// `PAGE_IS_PRESENT` of `linux/fs.h`.
const PAGE_IS_PRESENT: u64 = 1 << 3;

/// Finds the resident pages in the range `addresses` with `PAGEMAP_SCAN`. Calls `found` with the
/// address range of each group of neighbouring resident pages, in order. `pagemap` is an open
/// `/proc/PID/pagemap`. `buffer` receives the regions that one system call finds. A full buffer
/// requires another call, so a small buffer is slow; 1024 regions are enough. Allocates nothing.
///
/// # Errors
/// If the process has ended, or if the kernel is older than 6.7 (`ENOTTY`).
pub fn scan_resident(
    pagemap: BorrowedFd<'_>,
    addresses: &Range<u64>,
    buffer: &mut [PageRegion],
    mut found: impl FnMut(Range<u64>),
) -> io::Result<()> {
    let mut start = addresses.start;
    while start < addresses.end {
        let mut arguments = ScanArguments {
            size: size_of::<ScanArguments>() as u64,
            start,
            end: addresses.end,
            vec: buffer.as_mut_ptr() as u64,
            vec_len: buffer.len() as u64,
            category_mask: PAGE_IS_PRESENT,
            return_mask: PAGE_IS_PRESENT,
            ..ScanArguments::default()
        };
        // SAFETY: `arguments` is the structure that this ioctl takes. The kernel writes at most
        // `vec_len` regions to `vec`, and `buffer`, to which `vec` points, has this length.
        let count =
            unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut arguments) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for region in &buffer[..count.min(buffer.len())] {
            found(region.start..region.end);
        }
        if arguments.walk_end <= start {
            break;
        }
        start = arguments.walk_end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PAGE_BYTES;
    use std::{fs::File, os::fd::AsFd};

    #[test]
    fn entries_are_read() {
        let entries = [0, PRESENT | EXCLUSIVE, PRESENT, 1 << 62, PRESENT | FILE | EXCLUSIVE];
        let bytes: Vec<u8> = entries.into_iter().flat_map(u64::to_ne_bytes).collect();
        let found = |with_files| {
            let all = resident(&bytes, 0x1000, 0x1000, with_files);
            all.map(|page| (page.address, page.is_shared)).collect::<Vec<_>>()
        };
        assert_eq!(found(false), [(0x2000, false), (0x3000, true)]);
        assert_eq!(found(true), [(0x2000, false), (0x3000, true), (0x5000, false)]);
        assert_eq!(resident(&bytes[..7], 0, 1, true).count(), 0, "half an entry is none");
        assert_eq!(entry_offset(0x3fff, 0x1000), 24);
    }

    #[test]
    fn a_scan_finds_touched_pages() {
        let mut memory = vec![0_u8; 5000 * PAGE_BYTES];
        let first = (memory.as_ptr() as u64).next_multiple_of(PAGE_BYTES as u64);
        for page in (0..4998).step_by(2) {
            memory[(page + 1) * PAGE_BYTES] = 1;
        }
        let pagemap = File::open("/proc/self/pagemap").expect("a file");
        let addresses = first..first + 4998 * PAGE_BYTES as u64;
        let (mut pages, mut end) = (0, 0);
        let scanned =
            scan_resident(pagemap.as_fd(), &addresses, &mut [PageRegion::default(); 64], |run| {
                assert!(run.start >= end && run.end <= addresses.end, "{run:x?} after {end:x}");
                (pages, end) = (pages + (run.end - run.start) / PAGE_BYTES as u64, run.end);
            });
        match scanned {
            Ok(()) => assert!(pages >= 2498, "{pages}"),
            // Kernels before 6.7 do not have `PAGEMAP_SCAN`.
            Err(why) => assert_eq!(why.raw_os_error(), Some(libc::ENOTTY), "{why}"),
        }
    }
}
