//! Replaces the calls that close or overwrite file descriptors by number.
//!
//! The program does not know the pager's descriptors, and must not close or replace them: if a file
//! of the program got the number of the store's descriptor, the pager would write pages into that
//! file. The calls of this module act as if the pager's descriptors were not open, except that a
//! call that would replace such a descriptor fails with `EBUSY`. Raw system calls are not replaced.
//!
//! All threads share one table of descriptors ([`unshare`]).

use crate::{errno, state};
use interleaf_store::descriptor::{is_protected, next_protected, unprotect};
use libc::{c_int, c_long, c_uint};

/// The flag `CLOSE_RANGE_UNSHARE` of [`close_range`].
const UNSHARE: c_int = libc::CLOSE_RANGE_UNSHARE as c_int;

/// Makes a system call of up to three arguments. On failure, returns -1 and sets `errno`.
fn call(number: c_long, first: c_long, second: c_long, third: c_long) -> c_int {
    // SAFETY: the system calls of this module access no memory of the program. Except `unshare`,
    // they act on descriptors that the caller may close or replace.
    unsafe { libc::syscall(number, first, second, third) as c_int }
}

/// Replaces `close(2)`: only the pager's own code can close the pager's descriptors. To the
/// program, they are not open (`EBADF`).
#[unsafe(no_mangle)]
pub extern "C" fn close(fd: c_int) -> c_int {
    if is_protected(fd) {
        if !state::is_inside() {
            return errno::failed(libc::EBADF);
        }
        unprotect(fd);
    }
    call(libc::SYS_close, fd.into(), 0, 0)
}

/// Replaces `close_range(2)`: skips the pager's descriptors. While a pager runs,
/// `CLOSE_RANGE_UNSHARE` has no effect, as in [`unshare`].
#[unsafe(no_mangle)]
pub extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let flags = if state::pager().is_some() { flags & !UNSHARE } else { flags };
    let close = |first: c_uint, last: c_uint| {
        call(libc::SYS_close_range, first.into(), last.into(), flags.into())
    };
    // Let the kernel handle calls with flags, and refuse invalid ranges. A call with
    // `CLOSE_RANGE_CLOEXEC` closes no descriptor now, and the pager's descriptors have `FD_CLOEXEC`
    // anyway. `CLOSE_RANGE_UNSHARE` was cleared above if a pager runs. The kernel refuses other
    // flags.
    if flags != 0 || first > last {
        return close(first, last);
    }
    let mut from = first;
    while let Some(own) = next_protected(from).filter(|own| *own <= last) {
        if own > from && close(from, own - 1) != 0 {
            return -1;
        }
        from = own + 1;
    }
    if from > last { 0 } else { close(from, last) }
}

/// Replaces `closefrom(3)`: closes all descriptors from `first` on, except the pager's.
#[unsafe(no_mangle)]
pub extern "C" fn closefrom(first: c_int) {
    close_range(first.max(0) as c_uint, c_uint::MAX, 0);
}

/// Replaces `dup2(2)`: the pager's descriptors are neither duplicated nor replaced.
#[unsafe(no_mangle)]
pub extern "C" fn dup2(old: c_int, new: c_int) -> c_int {
    if old == new && !is_protected(old) {
        // The system call checks that the descriptor is open, and changes nothing.
        let flags = call(libc::SYS_fcntl, old.into(), libc::F_GETFD.into(), 0);
        return if flags < 0 { -1 } else { new };
    }
    dup3(old, new, 0)
}

/// Replaces `dup3(2)`: does not duplicate a descriptor of the pager (`EBADF`), and does not replace
/// one (`EBUSY`).
#[unsafe(no_mangle)]
pub extern "C" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    if is_protected(old) {
        return errno::failed(libc::EBADF);
    }
    if is_protected(new) {
        return errno::failed(libc::EBUSY);
    }
    call(libc::SYS_dup3, old.into(), new.into(), flags.into())
}

/// Replaces `unshare(2)`: while a pager runs, `CLONE_FILES` has no effect, so that all threads
/// share one table of descriptors. A fork needs this: before the fork, the pager's thread opens the
/// store of the child in its own table, and the child gets a copy of the table of the forking
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn unshare(flags: c_int) -> c_int {
    let kept = if state::pager().is_some() { flags & !libc::CLONE_FILES } else { flags };
    call(libc::SYS_unshare, kept.into(), 0, 0)
}
