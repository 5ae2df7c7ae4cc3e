//! Scans the resident pages of another process, and gives the kernel hints about them.

#![expect(unsafe_code, reason = "calls that no crate wraps")]

use crate::Hints;
use interleaf_prefetch::page::Page;
use interleaf_procfs::{
    files::Files,
    maps::{self, Mapping},
    page,
    pagemap::{PageRegion, scan_resident},
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::{
    fs::File,
    io,
    ops::Range,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

const PAGE_BYTES: u64 = page::PAGE_BYTES as u64;

/// Maximum number of ranges that one call of the ioctl `PAGEMAP_SCAN` returns.
const RANGES_MAX: usize = 1024;

/// Maximum number of ranges in one call of `process_madvise(2)`: `UIO_MAXIOV` of the kernel.
const HINTS_MAX: usize = 1024;

/// A process that is scanned for resident pages.
#[derive(Debug)]
pub struct ScannedProcess {
    pid: u32,
    pagemap: File,
    process: OwnedFd,
}

impl ScannedProcess {
    /// Opens the process `pid`: a process descriptor (pidfd), and `/proc/PID/pagemap`.
    ///
    /// # Errors
    /// If the process has ended, or belongs to another user.
    pub fn new(pid: u32) -> io::Result<Self> {
        let gone = || io::Error::from_raw_os_error(libc::ESRCH);
        let name = Pid::from_raw(pid as i32).ok_or_else(gone)?;
        let process = pidfd_open(name, PidfdFlags::empty())?;
        let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
        Ok(Self { pid, pagemap, process })
    }

    /// Finds the resident pages of all writable private anonymous mappings that have at least
    /// `bytes_min` bytes. The ranges are in ascending order.
    ///
    /// # Errors
    /// If the process has ended, or if the kernel is older than 6.7 and has no `PAGEMAP_SCAN`.
    pub fn resident(&self, bytes_min: u64) -> io::Result<Vec<Range<Page>>> {
        let ended = || io::Error::from_raw_os_error(libc::ESRCH);
        let maps = Files::live().of_process(self.pid, "maps")?.ok_or_else(ended)?;
        let mut resident = vec![];
        let mut buffer = [PageRegion::default(); RANGES_MAX];
        for mapping in maps::mappings(&maps).filter(is_scanned) {
            let addresses = mapping.addresses;
            if addresses.end - addresses.start >= bytes_min {
                scan_resident(self.pagemap.as_fd(), &addresses, &mut buffer, |range| {
                    resident.push(range.start / PAGE_BYTES..range.end / PAGE_BYTES);
                })?;
            }
        }
        Ok(resident)
    }

    /// Gives `hints` to the kernel. The kernel may ignore them.
    pub fn give(&self, hints: &Hints) {
        self.advise(&hints.page_out, libc::MADV_PAGEOUT);
        self.advise(&hints.read_ahead, libc::MADV_WILLNEED);
    }

    fn advise(&self, pages: &[Range<Page>], advice: i32) {
        let piece = |pages: &Range<Page>| libc::iovec {
            iov_base: (pages.start * PAGE_BYTES) as *mut libc::c_void,
            iov_len: ((pages.end - pages.start) * PAGE_BYTES) as usize,
        };
        let mut pieces: Vec<_> = pages.iter().map(piece).collect();
        for pieces in pieces.chunks_mut(HINTS_MAX) {
            let mut at = 0;
            while at < pieces.len() {
                let rest = &pieces[at..];
                let (process, count) = (self.process.as_raw_fd(), rest.len());
                // SAFETY: `rest` has `count` elements and outlives the call. `MADV_PAGEOUT` and
                // `MADV_WILLNEED` change no content of memory, and this process does not
                // dereference the addresses of the other process.
                let done = unsafe {
                    libc::syscall(
                        libc::SYS_process_madvise,
                        process,
                        rest.as_ptr(),
                        count,
                        advice,
                        0,
                    )
                };
                // The call stops at the first range for which the advice fails, and returns the
                // number of bytes before this range. The next call begins with the range after it.
                let mut done = usize::try_from(done).unwrap_or(0);
                while at < pieces.len() && done >= pieces[at].iov_len {
                    done -= pieces[at].iov_len;
                    at += 1;
                }
                at += 1;
            }
        }
    }
}

/// True if `mapping` is writable private anonymous memory.
fn is_scanned(mapping: &Mapping<'_>) -> bool {
    mapping.is_private_anonymous() && mapping.rights.starts_with(b"rw")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn private_memory_is_found() {
        let lines = "\
555000-556000 r-xp 00000000 fd:00 123 /bin/program
556000-557000 rw-p 00001000 fd:00 123 /bin/program
600000-700000 rw-p 00000000 00:00 0 [heap]
700000-800000 rw-s 00000000 00:01 99 /memfd:shared
7f0000-7f8000 rw-p 00000000 00:00 0
7f8000-7f9000 r--p 00000000 00:00 0 [vvar]";
        let found: Vec<_> = maps::mappings(lines.as_bytes())
            .filter(is_scanned)
            .map(|mapping| mapping.addresses)
            .collect();
        assert_eq!(found, [0x600_000..0x700_000, 0x7f0_000..0x7f8_000]);
    }

    #[test]
    fn resident_pages_are_found() {
        let pages = 5000;
        let mut memory = vec![0_u8; pages * 4096];
        let first = memory.as_ptr() as u64 / PAGE_BYTES + 1;
        for page in (0..pages - 1).step_by(2) {
            memory[(page + 1) * 4096] = 1;
        }
        let scanned = ScannedProcess::new(std::process::id()).unwrap();
        let resident = scanned.resident(16 << 20).unwrap();
        let is_resident = |page: u64| resident.iter().any(|range| range.contains(&page));
        let seen = (0..pages as u64 - 2).filter(|page| is_resident(first + page)).count();
        // Every second page was written, so at least these pages must be resident. More pages may
        // be resident, because a huge page is always resident as a whole.
        assert!(seen >= pages / 2 - 2, "{seen} of {pages}");
        scanned.give(&Hints { read_ahead: resident, page_out: vec![] });
    }
}
