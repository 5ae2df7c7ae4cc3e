//! Protects the file descriptors of the pager, which runs in the process of a program.
//!
//! Programs use descriptors by number: a shell opens files as 3 to 9, and a daemon closes all
//! numbers. If a program replaced the descriptor of the store by that of its own file, the pager
//! would write pages into this file. The pager's descriptors therefore have high numbers
//! ([`protected`]), and the preloaded library refuses calls that close or replace them
//! ([`is_protected`]).

use rustix::{
    io::fcntl_dupfd_cloexec,
    process::{Resource, getrlimit},
};
use std::{
    fs::File,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Number above all protected descriptors. Higher numbers would enlarge the kernel's table of
/// descriptors, which has an entry for each number up to the highest.
const END: usize = 4096;

/// Maximum number of descriptor numbers that are used for protected descriptors. These are the
/// highest numbers below `RLIMIT_NOFILE` or [`END`], whichever is lower, and at most half of the
/// numbers below that limit.
const NUMBERS: u64 = 256;

/// A bit for each descriptor number below [`END`]: 1 if the descriptor is protected.
static PROTECTED: [AtomicU64; END / 64] = [const { AtomicU64::new(0) }; END / 64];

/// Moves a descriptor to a high number, and protects it. Without a free high number, the descriptor
/// keeps its number.
pub fn protected(fd: OwnedFd) -> OwnedFd {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(END as u64);
    let first = limit - NUMBERS.min(limit / 2);
    let fd = fcntl_dupfd_cloexec(&fd, first as RawFd).unwrap_or(fd);
    if let Some((word, bit)) = place(fd.as_raw_fd()) {
        word.fetch_or(bit, Relaxed);
    }
    fd
}

/// Moves the descriptor of a file to a high number, and protects it, as [`protected`] does.
pub fn protected_file(file: File) -> File {
    protected(file.into()).into()
}

/// True if `fd` is a protected descriptor.
pub fn is_protected(fd: RawFd) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
}

/// Ends the protection of a descriptor that the pager closes.
pub fn unprotect(fd: RawFd) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_and(!bit, Relaxed);
    }
}

/// Closes a descriptor of the pager by its number, and ends its protection.
///
/// # Safety
/// No value that owns the descriptor may use the descriptor afterwards, or be dropped.
pub unsafe fn close(fd: RawFd) {
    unprotect(fd);
    // SAFETY: the caller guarantees that no value uses or drops the descriptor any more.
    unsafe { rustix::io::close(fd) };
}

/// Returns the lowest protected descriptor number that is at least `fd`.
pub fn next_protected(fd: u32) -> Option<u32> {
    (fd..END as u32).find(|fd| is_protected(*fd as RawFd))
}

/// Returns the word of [`PROTECTED`] that has the bit of the descriptor `fd`, and the mask of the
/// bit.
fn place(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((PROTECTED.get(fd / 64)?, 1 << (fd % 64)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_protected_descriptor_has_a_high_number() {
        let low = File::open("/dev/null").unwrap();
        let number = low.as_raw_fd();
        let high = protected_file(low);
        let fd = high.as_raw_fd();
        assert!(fd > 100 && number < 100, "{number} and {fd}");
        assert!(is_protected(fd) && !is_protected(number));
        assert_eq!(next_protected(fd as u32), Some(fd as u32));
        unprotect(fd);
        assert!(!is_protected(fd) && !is_protected(-1) && !is_protected(RawFd::MAX));
    }
}
