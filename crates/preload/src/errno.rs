//! `errno` and error results of C library functions.

use libc::{c_int, c_void};

/// `errno` of the calling thread.
pub(crate) fn get() -> c_int {
    // SAFETY: the pointer is valid as long as the thread lives.
    unsafe { *libc::__errno_location() }
}

/// Sets `errno` of the calling thread.
pub(crate) fn set(why: c_int) {
    // SAFETY: the pointer is valid as long as the thread lives.
    unsafe { *libc::__errno_location() = why };
}

/// Sets `errno`, and returns -1, the error value of functions that return a number.
pub(crate) fn failed(why: c_int) -> c_int {
    set(why);
    -1
}

/// Sets `errno`, and returns `MAP_FAILED`, the error value of functions that return a mapping.
pub(crate) fn unmapped(why: c_int) -> *mut c_void {
    set(why);
    libc::MAP_FAILED
}
