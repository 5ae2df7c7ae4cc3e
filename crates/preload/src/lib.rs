//! What stands between an unchanged program and its C library: large allocations go to a pager,
//! all others where they always went.
//!
//! The program is started with this library in `LD_PRELOAD`, and the folder of its session in
//! `INTERLEAF_EXTEND`. The functions that C libraries export under a second name (`__libc_malloc`)
//! are the way on, so that nothing need be looked up while a program starts.

#![expect(unsafe_code, reason = "it takes the place of functions of the C library")]

mod start;

use interleaf_pager::{pager::Pager, worker::is_worker};
use libc::{c_int, c_void, size_t};
use start::Extend;
use std::{cell::Cell, sync::OnceLock};

unsafe extern "C" {
    fn __libc_malloc(bytes: size_t) -> *mut c_void;
    fn __libc_calloc(count: size_t, bytes: size_t) -> *mut c_void;
    fn __libc_realloc(memory: *mut c_void, bytes: size_t) -> *mut c_void;
    fn __libc_memalign(align: size_t, bytes: size_t) -> *mut c_void;
    fn __libc_free(memory: *mut c_void);
}

static EXTEND: OnceLock<Option<Extend>> = OnceLock::new();

thread_local! {
    /// Whether the thread is in here already, or is the pager's own.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The pager, for an allocation of so many bytes.
fn pager(bytes: usize) -> Option<&'static Pager> {
    // Most allocations are small: they should not even look at a thread's own variable.
    if bytes < 1 << 20 || INSIDE.get() || is_worker() {
        return None;
    }
    INSIDE.set(true);
    let extend = EXTEND.get_or_init(start::extend);
    INSIDE.set(false);
    let extend = extend.as_ref()?;
    (bytes >= extend.least).then_some(&extend.pager)
}

/// The pager that has this memory.
fn of(memory: *mut c_void) -> Option<&'static Pager> {
    let pager = &EXTEND.get()?.as_ref()?.pager;
    pager.has(memory as usize).then_some(pager)
}

fn take(bytes: usize, align: usize) -> Option<*mut c_void> {
    let pager = pager(bytes)?;
    INSIDE.set(true);
    let region = pager.take(bytes, align);
    INSIDE.set(false);
    Some(region?.start as *mut c_void)
}

fn give(pager: &Pager, memory: *mut c_void) {
    INSIDE.set(true);
    pager.give(memory as usize);
    INSIDE.set(false);
}

/// `malloc(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(bytes: size_t) -> *mut c_void {
    // SAFETY: what is not ours is the C library's, by the same contract.
    take(bytes, 16).unwrap_or_else(|| unsafe { __libc_malloc(bytes) })
}

/// `calloc(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: size_t, bytes: size_t) -> *mut c_void {
    let ours = count.checked_mul(bytes).and_then(|bytes| take(bytes, 16));
    // SAFETY: as of `malloc`.
    ours.unwrap_or_else(|| unsafe { __libc_calloc(count, bytes) })
}

/// `aligned_alloc(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(align: size_t, bytes: size_t) -> *mut c_void {
    // SAFETY: as of `malloc`.
    take(bytes, align).unwrap_or_else(|| unsafe { __libc_memalign(align, bytes) })
}

/// `memalign(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: size_t, bytes: size_t) -> *mut c_void {
    // SAFETY: as of `malloc`.
    take(bytes, align).unwrap_or_else(|| unsafe { __libc_memalign(align, bytes) })
}

/// `posix_memalign(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    memory: *mut *mut c_void,
    align: size_t,
    bytes: size_t,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    // SAFETY: as of `malloc`.
    let found = take(bytes, align).unwrap_or_else(|| unsafe { __libc_memalign(align, bytes) });
    if found.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: by the contract it points at a pointer.
    unsafe { *memory = found };
    0
}

/// `realloc(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(memory: *mut c_void, bytes: size_t) -> *mut c_void {
    let from = of(memory);
    if from.is_none() && (memory.is_null() || pager(bytes).is_none()) {
        // SAFETY: as of `malloc`: the memory is the C library's, or none.
        return unsafe { __libc_realloc(memory, bytes) };
    }
    let has = match from {
        Some(pager) => pager.of(memory as usize).map_or(0, |region| region.len()),
        // SAFETY: the memory is the C library's.
        None => unsafe { libc::malloc_usable_size(memory) },
    };
    // SAFETY: as of `malloc`.
    let new = unsafe { malloc(bytes) };
    if !new.is_null() {
        // SAFETY: both are as long as that, and do not overlap; the old one is of no use any more.
        unsafe {
            std::ptr::copy_nonoverlapping(memory.cast::<u8>(), new.cast::<u8>(), has.min(bytes));
            free(memory);
        }
    }
    new
}

/// `free(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(memory: *mut c_void) {
    match of(memory) {
        Some(pager) => give(pager, memory),
        // SAFETY: as of `malloc`.
        None => unsafe { __libc_free(memory) },
    }
}

/// `madvise(2)`: advice about memory of the pager is the pager's affair. That for huge pages would
/// divide the mapping, and pages no longer move across.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(memory: *mut c_void, bytes: size_t, advice: c_int) -> c_int {
    if of(memory).is_some() {
        return 0;
    }
    // SAFETY: what is not ours is the kernel's affair, by the same contract.
    unsafe { libc::syscall(libc::SYS_madvise, memory, bytes, advice) as c_int }
}
