//! `malloc(3)` and its family; `new` of C++ is made of them.
//!
//! A large block of the C library begins 16 bytes behind the start of a page, where its length is
//! kept. Ours do too, so that a program that computes in vectors rounds as it does without us.

use crate::{
    errno,
    start::{give_back, inside, leave, pager_for, pager_of},
};
use interleaf_pager::pager::{Pager, READ_WRITE};
use libc::{c_int, c_void, size_t};
use std::ptr;

unsafe extern "C" {
    fn __libc_malloc(bytes: size_t) -> *mut c_void;
    fn __libc_calloc(count: size_t, bytes: size_t) -> *mut c_void;
    fn __libc_realloc(memory: *mut c_void, bytes: size_t) -> *mut c_void;
    fn __libc_memalign(align: size_t, bytes: size_t) -> *mut c_void;
    fn __libc_free(memory: *mut c_void);
}

const PAGE: usize = 4096;

/// What the C library keeps before a block, and to what it aligns one.
const HEAD: usize = 16;

/// A block of so many bytes, all of them zero.
fn take(bytes: usize, align: usize) -> Option<*mut c_void> {
    let pager = pager_for(bytes)?;
    inside(|| {
        let before = HEAD.checked_next_multiple_of(align)?;
        let region = pager.take(before.checked_add(bytes)?, align)?;
        let address = region.start + before;
        pager.set_block(address, region);
        Some(address as *mut c_void)
    })
}

/// What of a block of ours can be used.
fn length(pager: &Pager, address: usize) -> usize {
    pager.block(address).map_or(0, |pages| pages.end - address)
}

/// Makes a block of ours as long as that where it is, and says whether it could.
fn resize(pager: &Pager, address: usize, bytes: usize) -> bool {
    let Some(pages) = pager.block(address) else { return false };
    let Some(end) = address.checked_add(bytes) else { return false };
    let Some(end) = end.checked_next_multiple_of(PAGE) else { return false };
    if end > pages.end {
        if !pager.grow(pages.end, end - pages.end, READ_WRITE) {
            return false;
        }
    } else if end < pages.end {
        pager.give(end..pages.end);
    }
    pager.set_block(address, pages.start..end);
    true
}

/// `malloc(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(bytes: size_t) -> *mut c_void {
    // SAFETY: what is not ours is the C library's, by the same contract.
    take(bytes, HEAD).unwrap_or_else(|| unsafe {
        leave(bytes);
        __libc_malloc(bytes)
    })
}

/// `calloc(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: size_t, bytes: size_t) -> *mut c_void {
    let ours = count.checked_mul(bytes).and_then(|bytes| take(bytes, HEAD));
    // SAFETY: as of `malloc`.
    ours.unwrap_or_else(|| unsafe {
        leave(count.saturating_mul(bytes));
        __libc_calloc(count, bytes)
    })
}

/// `memalign(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: size_t, bytes: size_t) -> *mut c_void {
    // As the C library, which takes the next power of two.
    let ours = align.checked_next_power_of_two().and_then(|align| take(bytes, align.max(HEAD)));
    // SAFETY: as of `malloc`.
    ours.unwrap_or_else(|| unsafe {
        leave(bytes);
        __libc_memalign(align, bytes)
    })
}

/// `aligned_alloc(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(align: size_t, bytes: size_t) -> *mut c_void {
    // SAFETY: as of `malloc`.
    unsafe { memalign(align, bytes) }
}

/// `valloc(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(bytes: size_t) -> *mut c_void {
    // SAFETY: as of `malloc`.
    unsafe { memalign(PAGE, bytes) }
}

/// `pvalloc(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(bytes: size_t) -> *mut c_void {
    match bytes.checked_next_multiple_of(PAGE) {
        // SAFETY: as of `malloc`.
        Some(bytes) => unsafe { memalign(PAGE, bytes) },
        None => {
            errno::set(libc::ENOMEM);
            ptr::null_mut()
        }
    }
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
    let before = errno::get();
    // SAFETY: as of `malloc`.
    let found = unsafe { memalign(align, bytes) };
    errno::set(before);
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
    let from = pager_of(memory as usize);
    if from.is_none() && (memory.is_null() || pager_for(bytes).is_none()) {
        // SAFETY: as of `malloc`: the memory is the C library's, or none.
        return unsafe {
            give_back(c_length(memory));
            leave(bytes);
            __libc_realloc(memory, bytes)
        };
    }
    if from.is_some() && bytes == 0 {
        // SAFETY: as of the C library, where that is what it does.
        unsafe { free(memory) };
        return ptr::null_mut();
    }
    let has = match from {
        Some(pager) if inside(|| resize(pager, memory as usize, bytes)) => return memory,
        Some(pager) => length(pager, memory as usize),
        // SAFETY: the memory is the C library's.
        None => unsafe { c_length(memory) },
    };
    // SAFETY: as of `malloc`.
    let new = unsafe { malloc(bytes) };
    if !new.is_null() {
        // SAFETY: both are as long as that, and do not overlap; the old one is of no use any more.
        unsafe {
            ptr::copy_nonoverlapping(memory.cast::<u8>(), new.cast::<u8>(), has.min(bytes));
            free(memory);
        }
    }
    new
}

/// `reallocarray(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    memory: *mut c_void,
    count: size_t,
    bytes: size_t,
) -> *mut c_void {
    match count.checked_mul(bytes) {
        // SAFETY: as of `malloc`.
        Some(bytes) => unsafe { realloc(memory, bytes) },
        None => {
            errno::set(libc::ENOMEM);
            ptr::null_mut()
        }
    }
}

/// `malloc_usable_size(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(memory: *mut c_void) -> size_t {
    match pager_of(memory as usize) {
        Some(pager) => length(pager, memory as usize),
        // SAFETY: as of `malloc`.
        None => unsafe { c_length(memory) },
    }
}

/// `free(3)`.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(memory: *mut c_void) {
    match pager_of(memory as usize) {
        // Of a process that has it no more, it is gone anyway.
        Some(pager) if !pager.is_served() => {}
        Some(pager) => {
            let before = errno::get();
            inside(|| pager.give_block(memory as usize));
            errno::set(before);
        }
        // SAFETY: as of `malloc`.
        None => unsafe {
            give_back(c_length(memory));
            __libc_free(memory);
        },
    }
}

/// What of a block of the C library can be used. It has the length of a block before it, with three
/// marks in its last bits (`malloc/malloc.c`): what is mapped alone ends where it ends, and all
/// others use the first word behind them too.
///
/// # Safety
/// The block is one of the C library's, or none.
unsafe fn c_length(memory: *mut c_void) -> usize {
    if memory.is_null() {
        return 0;
    }
    // SAFETY: by the caller there is a length before it.
    let word = unsafe { memory.cast::<usize>().sub(1).read() };
    let (bytes, is_mapped) = (word & !7, word & 2 != 0);
    bytes.saturating_sub(if is_mapped { HEAD } else { HEAD / 2 })
}
