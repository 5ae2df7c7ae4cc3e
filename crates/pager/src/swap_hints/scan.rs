//! Scans the resident pages of another process, and gives the kernel hints about them.

#![expect(unsafe_code, reason = "calls that no crate wraps")]

use super::Hints;
use crate::page::Page;
use rustix::{
    ioctl::{Opcode, opcode},
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{
    fs::{self, File},
    io,
    ops::Range,
    os::fd::{AsRawFd, OwnedFd},
};

const PAGE_BYTES: u64 = 4096;

/// The most ranges that one scan returns.
const RANGES_MAX: usize = 1024;

/// The most ranges of one `process_madvise(2)`: `UIO_MAXIOV`.
const HINTS_MAX: usize = 1024;

/// `PAGE_IS_PRESENT` of `linux/fs.h`.
const PRESENT: u64 = 1 << 3;

/// `struct pm_scan_arg` of `linux/fs.h`: `PAGEMAP_SCAN`, which came with 6.7.
#[repr(C)]
#[derive(Default)]
struct Scan {
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

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Found {
    start: u64,
    end: u64,
    categories: u64,
}

const SCAN: Opcode = opcode::read_write::<Scan>(b'f', 16);

/// A process that is scanned.
#[derive(Debug)]
pub struct ScannedProcess {
    pid: u32,
    pagemap: File,
    process: OwnedFd,
}

impl ScannedProcess {
    /// Opens a process.
    ///
    /// # Errors
    /// When the process has ended, or belongs to another user.
    pub fn new(pid: u32) -> io::Result<Self> {
        let gone = || io::Error::from_raw_os_error(libc::ESRCH);
        let name = Pid::from_raw(pid as i32).ok_or_else(gone)?;
        let process = pidfd_open(name, PidfdFlags::empty())?;
        let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
        Ok(Self { pid, pagemap, process })
    }

    /// The resident pages of all private mappings of at least `least_bytes`, in order.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn resident(&self, least_bytes: u64) -> io::Result<Vec<Range<Page>>> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid))?;
        let mut resident = vec![];
        for range in maps.lines().filter_map(private) {
            if range.end - range.start >= least_bytes {
                self.scan(&range, &mut resident)?;
            }
        }
        Ok(resident)
    }

    fn scan(&self, range: &Range<u64>, resident: &mut Vec<Range<Page>>) -> io::Result<()> {
        let mut found = [Found::default(); RANGES_MAX];
        let mut start = range.start;
        while start < range.end {
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                start,
                end: range.end,
                vec: found.as_mut_ptr() as u64,
                vec_len: RANGES_MAX as u64,
                category_mask: PRESENT,
                return_mask: PRESENT,
                ..Scan::default()
            };
            // SAFETY: the structure has the layout that the number says, and the kernel writes no
            // more than `vec_len` ranges to `found`.
            let count = unsafe { libc::ioctl(self.pagemap.as_raw_fd(), SCAN as _, &raw mut scan) };
            if count < 0 {
                return Err(io::Error::last_os_error());
            }
            let ranges = &found[..usize::try_from(count).unwrap_or(0).min(RANGES_MAX)];
            for range in ranges {
                resident.push(range.start / PAGE_BYTES..range.end / PAGE_BYTES);
            }
            if scan.walk_end <= start {
                break;
            }
            start = scan.walk_end;
        }
        Ok(())
    }

    /// Gives hints to the kernel, which may ignore them.
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
                // SAFETY: advice of these kinds changes no content, and the addresses of the other
                // process are not dereferenced here.
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
                // The call returns the bytes before the first unmapped range.
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

/// The address range of a private anonymous mapping in a line of `/proc/PID/maps`.
fn private(line: &str) -> Option<Range<u64>> {
    let mut words = line.split_ascii_whitespace();
    let (addresses, mode, _, _, inode) =
        (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
    let is_other = words.next().is_some_and(|name| name.starts_with("[v"));
    let (start, end) = addresses.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let is_ours = mode.starts_with("rw") && mode.ends_with('p') && inode == "0" && !is_other;
    is_ours.then_some(number(start)?..number(end)?)
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
        let found: Vec<_> = lines.lines().filter_map(private).collect();
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
        // Huge pages are resident as a whole.
        assert!(seen >= pages / 2 - 2, "{seen} of {pages}");
        scanned.give(&Hints { read_ahead: resident, page_out: vec![] });
    }
}
