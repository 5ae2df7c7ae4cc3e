//! Replaces calls that let the kernel read memory of the program after the call has returned. The
//! kernel holds references to the pages of this memory, but does not pin the pages. The pager could
//! therefore evict such a page and use its frame for another page, and the kernel would send the
//! content of the other page.

use crate::{errno, state::pager_over};
use libc::{c_int, c_uint, c_void, iovec, size_t, socklen_t, ssize_t};
use std::slice;

/// Replaces `vmsplice(2)`: extended memory is copied into the pipe, as by `writev(2)`.
///
/// # Safety
/// The caller must meet the conditions of `vmsplice(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmsplice(
    fd: c_int,
    pieces: *const iovec,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: the caller meets the conditions of `vmsplice(2)`.
    let list = if count == 0 { &[] } else { unsafe { slice::from_raw_parts(pieces, count) } };
    let over = |piece: &iovec| pager_over(piece.iov_base as usize, piece.iov_len);
    let is_extended = list.iter().any(|piece| over(piece).is_some());
    // SAFETY: the call only reads the flags of a descriptor.
    let access = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if !is_extended || access < 0 || access & libc::O_ACCMODE == libc::O_RDONLY {
        // SAFETY: the caller meets the conditions of `vmsplice(2)`.
        return unsafe { libc::syscall(libc::SYS_vmsplice, fd, pieces, count, flags) as ssize_t };
    }
    copy(fd, list, flags & libc::SPLICE_F_NONBLOCK == 0)
}

/// Writes as many bytes from `pieces` into the pipe `fd` as the pipe has room for. If the pipe is
/// full, waits for room if `waits` is true, and fails with `EAGAIN` otherwise. Like `vmsplice`,
/// does not wait for room for all bytes, because the same thread may read the pipe afterwards.
fn copy(fd: c_int, pieces: &[iovec], waits: bool) -> ssize_t {
    let count = pieces.len().min(libc::UIO_MAXIOV as usize) as c_int;
    loop {
        let mut ready = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
        // SAFETY: the call writes to `ready` only.
        match unsafe { libc::poll(&raw mut ready, 1, if waits { -1 } else { 0 }) } {
            0 => return errno::failed(libc::EAGAIN) as ssize_t,
            1.. => {}
            _ => return -1,
        }
        // SAFETY: the caller of `vmsplice` passes memory that may be read.
        let written = unsafe { libc::pwritev2(fd, pieces.as_ptr(), count, -1, libc::RWF_NOWAIT) };
        match errno::get() {
            libc::EAGAIN if written < 0 && waits => {}
            // Named pipes do not support `RWF_NOWAIT`. A pipe that has room takes `PIPE_BUF` bytes
            // at once.
            libc::EOPNOTSUPP if written < 0 => return write_first(fd, pieces),
            _ => return written,
        }
    }
}

/// Writes the first bytes, at most `PIPE_BUF`, of the first piece that is not empty.
fn write_first(fd: c_int, pieces: &[iovec]) -> ssize_t {
    let Some(piece) = pieces.iter().find(|piece| piece.iov_len > 0) else { return 0 };
    // SAFETY: the caller of `vmsplice` passes memory that may be read.
    unsafe { libc::write(fd, piece.iov_base, piece.iov_len.min(libc::PIPE_BUF)) }
}

/// Replaces `setsockopt(2)`: the option `SO_ZEROCOPY` is refused, as by an old kernel. A program
/// then sends without this option, and the kernel copies the data.
///
/// # Safety
/// The caller must meet the conditions of `setsockopt(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    bytes: socklen_t,
) -> c_int {
    if level == libc::SOL_SOCKET && name == libc::SO_ZEROCOPY {
        return errno::failed(libc::EOPNOTSUPP);
    }
    // SAFETY: the caller meets the conditions of `setsockopt(2)`.
    unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, value, bytes) as c_int }
}
