//! How functions of the C library say that they have failed.

use libc::{c_int, c_void};

/// `errno` of the calling thread.
pub(crate) fn get() -> c_int {
    // SAFETY: it is there for as long as the thread.
    unsafe { *libc::__errno_location() }
}

/// Says why in `errno`.
pub(crate) fn set(why: c_int) {
    // SAFETY: as of `get`.
    unsafe { *libc::__errno_location() = why };
}

/// A function that gives a number has failed.
pub(crate) fn failed(why: c_int) -> c_int {
    set(why);
    -1
}

/// A function that gives addresses of a mapping has failed.
pub(crate) fn unmapped(why: c_int) -> *mut c_void {
    set(why);
    libc::MAP_FAILED
}
