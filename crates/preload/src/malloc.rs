//! Replaces `malloc(3)` and its family, which `new` of C++ uses.
//!
//! In the C library, a large block begins 16 bytes behind the start of a page, because the length
//! of the block is stored in front of it. Blocks of the pager begin at the same offset. The
//! alignment of an array decides which of its elements a vectorized loop handles in one SIMD
//! instruction, and so the order in which the loop adds them. With the same offset, sums are
//! rounded in the same way as without this library.

use crate::{
    errno,
    next::{Next, early, next},
    start::pager_for,
    state::{BYTES_MIN, count_unextended, inside, pager_of, uncount_block},
};
use interleaf_pager::pager::{Pager, READ_WRITE};
use interleaf_procfs::page::PAGE_BYTES;
use libc::{c_int, c_void, size_t};
use std::ptr;

/// The distance of a large block from the start of its first page, as in the C library, bytes. This
/// distance is also the least alignment of a block.
const HEADER: usize = 16;

/// Allocates a zeroed block from the pager. If the allocation is not extended, calls `other`, which
/// allocates by the next definition of the function: the next in the loader's search order, mostly
/// that of the C library.
fn allocate(
    next: &Next,
    bytes: usize,
    align: usize,
    other: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    if !next.is_of_libc {
        return other();
    }
    let block = pager_for(bytes).and_then(|pager| {
        inside(|| {
            let before = HEADER.checked_next_multiple_of(align)?;
            let region = pager.allocate(before.checked_add(bytes)?, align)?;
            let address = region.start + before;
            pager.set_block(address, region);
            Some(address as *mut c_void)
        })
    });
    block.unwrap_or_else(|| {
        let block = other();
        // Only blocks with a usable size of at least `BYTES_MIN` count as unextended memory. Except
        // for tiny blocks, the usable size is less than twice the requested size. A block of less
        // than half of `BYTES_MIN` therefore never counts, and `malloc_usable_size` is not called.
        if bytes >= BYTES_MIN / 2 {
            // SAFETY: `other` has just allocated the block by the next definition, not by the
            // pager.
            count_unextended(unsafe { counted_bytes(next, block) });
        }
        block
    })
}

/// The pager, if `memory` is a block that the pager allocated.
fn owner(next: &Next, memory: *mut c_void) -> Option<&'static Pager> {
    // If the program has another allocator, that allocator maps its memory by this library's
    // `mmap(2)`. Its blocks may then lie in regions, but they are not blocks of the pager.
    if next.is_of_libc { pager_of(memory as usize) } else { None }
}

/// The bytes that a block of the C library adds to the total of unextended memory, which the pager
/// does not manage; 0 for a block of another allocator. The usable size of the block is added, not
/// the requested size, because the same number must be subtracted when the block is freed.
///
/// # Safety
/// `memory` was allocated by the next definition of `malloc`, not by the pager, or is null.
unsafe fn counted_bytes(next: &Next, memory: *mut c_void) -> usize {
    match next.is_of_libc && !memory.is_null() {
        // SAFETY: the caller guarantees that `next.malloc` or a function of its family allocated
        // the block.
        true => unsafe { (next.malloc_usable_size)(memory) },
        false => 0,
    }
}

/// The usable size of the pager's block at `address`, bytes; 0 if the pager has no such block.
fn usable_size(pager: &Pager, address: usize) -> usize {
    pager.block(address).map_or(0, |pages| pages.end - address)
}

/// Resizes a block of the pager to `bytes` bytes in place. Returns true on success.
fn resize(pager: &Pager, address: usize, bytes: usize) -> bool {
    let Some(pages) = pager.block(address) else { return false };
    let Some(end) = address.checked_add(bytes) else { return false };
    let Some(end) = end.checked_next_multiple_of(PAGE_BYTES) else { return false };
    if end > pages.end {
        if !pager.grow(pages.end, end - pages.end, READ_WRITE) {
            return false;
        }
    } else if end < pages.end {
        pager.free(&(end..pages.end));
    }
    pager.set_block(address, pages.start..end);
    true
}

/// Replaces `malloc(3)`: an extended block comes from the pager, any other block from
/// `next.malloc`, which is mostly the C library's.
///
/// # Safety
/// The caller must meet the conditions of `malloc(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(bytes: size_t) -> *mut c_void {
    let Some(next) = next() else { return early::allocate(bytes) };
    // SAFETY: the caller meets the conditions of `malloc(3)`, as `next.malloc` requires.
    allocate(next, bytes, HEADER, || unsafe { (next.malloc)(bytes) })
}

/// Replaces `calloc(3)`: an extended block comes from the pager, already zeroed, any other block
/// from `next.calloc`, which is mostly the C library's.
///
/// # Safety
/// The caller must meet the conditions of `calloc(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: size_t, bytes: size_t) -> *mut c_void {
    let all = count.checked_mul(bytes);
    let Some(next) = next() else { return all.map_or(ptr::null_mut(), early::allocate) };
    // SAFETY: the caller meets the conditions of `calloc(3)`, as `next.calloc` requires.
    let other = || unsafe { (next.calloc)(count, bytes) };
    match all {
        Some(all) => allocate(next, all, HEADER, other),
        None => other(),
    }
}

/// Allocates a block of `bytes` bytes with the alignment `align` from the pager; if the allocation
/// is not extended, by `other`.
fn allocate_aligned(
    align: usize,
    bytes: usize,
    other: impl FnOnce(&Next) -> *mut c_void,
) -> *mut c_void {
    let Some(next) = next() else { return ptr::null_mut() };
    // An alignment that is not a power of two is rounded up, as in the C library.
    match align.checked_next_power_of_two() {
        Some(align) => allocate(next, bytes, align.max(HEADER), || other(next)),
        None => other(next),
    }
}

/// Replaces `memalign(3)`: an extended block comes from the pager, any other block from
/// `next.memalign`, which is mostly the C library's.
///
/// # Safety
/// The caller must meet the conditions of `memalign(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: size_t, bytes: size_t) -> *mut c_void {
    // SAFETY: the caller meets the conditions of `memalign(3)`, as `next.memalign` requires.
    allocate_aligned(align, bytes, |next| unsafe { (next.memalign)(align, bytes) })
}

/// Replaces `aligned_alloc(3)`: an extended block comes from the pager, any other block from
/// `next.aligned_alloc`, which is mostly the C library's.
///
/// # Safety
/// The caller must meet the conditions of `aligned_alloc(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(align: size_t, bytes: size_t) -> *mut c_void {
    // SAFETY: the caller meets the conditions of `next.aligned_alloc`.
    allocate_aligned(align, bytes, |next| unsafe { (next.aligned_alloc)(align, bytes) })
}

/// Replaces `valloc(3)`: an extended block comes from the pager, any other block from
/// `next.valloc`, which is mostly the C library's. The block is aligned to a page.
///
/// # Safety
/// The caller must meet the conditions of `valloc(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(bytes: size_t) -> *mut c_void {
    // SAFETY: the caller meets the conditions of `valloc(3)`, as `next.valloc` requires.
    allocate_aligned(PAGE_BYTES, bytes, |next| unsafe { (next.valloc)(bytes) })
}

/// Replaces `pvalloc(3)`: an extended block comes from the pager, any other block from
/// `next.pvalloc`, which is mostly the C library's. The block has whole pages and is aligned to a
/// page.
///
/// # Safety
/// The caller must meet the conditions of `pvalloc(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(bytes: size_t) -> *mut c_void {
    // SAFETY: the caller meets the conditions of `pvalloc(3)`, as `next.pvalloc` requires.
    let other = |next: &Next| unsafe { (next.pvalloc)(bytes) };
    match bytes.checked_next_multiple_of(PAGE_BYTES) {
        Some(pages) => allocate_aligned(PAGE_BYTES, pages, other),
        None => allocate_aligned(PAGE_BYTES, bytes, other),
    }
}

/// Replaces `posix_memalign(3)`: an extended block comes from the pager, any other block from
/// `next.posix_memalign`, which is mostly the C library's and also returns the error for an invalid
/// alignment.
///
/// # Safety
/// The caller must meet the conditions of `posix_memalign(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    memory: *mut *mut c_void,
    align: size_t,
    bytes: size_t,
) -> c_int {
    let mut outcome = libc::EINVAL;
    let mut other = |next: &Next| {
        let mut found = ptr::null_mut();
        // SAFETY: the caller meets the conditions of `next.posix_memalign`.
        outcome = unsafe { (next.posix_memalign)(&raw mut found, align, bytes) };
        found
    };
    let found = match align.is_power_of_two() && align.is_multiple_of(size_of::<*mut c_void>()) {
        true => allocate_aligned(align, bytes, other),
        false => next().map_or(ptr::null_mut(), &mut other),
    };
    if found.is_null() {
        return outcome;
    }
    // SAFETY: the caller guarantees that `memory` points at a pointer.
    unsafe { *memory = found };
    0
}

/// Replaces `realloc(3)`: resizes a block of the pager in place if possible. A block of the C
/// library moves to the pager if its new size is large enough to be extended.
///
/// # Safety
/// The caller must meet the conditions of `realloc(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(memory: *mut c_void, bytes: size_t) -> *mut c_void {
    let early = early::length(memory);
    let Some(next) = next().filter(|_| early.is_none()) else {
        // SAFETY: `early` is the length of the block. If it is `None`, no byte is copied.
        return unsafe { move_block(memory, early.unwrap_or(0), bytes) };
    };
    if memory.is_null() && next.is_of_libc {
        // SAFETY: `malloc` accepts any size.
        return unsafe { malloc(bytes) };
    }
    let pager = owner(next, memory);
    if pager.is_none() && (!next.is_of_libc || pager_for(bytes).is_none()) {
        // SAFETY: `memory` is null or a block of `next`'s allocator, and the caller meets the
        // conditions of `realloc(3)`.
        return unsafe {
            let had = counted_bytes(next, memory);
            let new = (next.realloc)(memory, bytes);
            if !new.is_null() || bytes == 0 {
                uncount_block(had);
                count_unextended(counted_bytes(next, new));
            }
            new
        };
    }
    if pager.is_some() && bytes == 0 {
        // SAFETY: the caller passes a valid block. As in the C library, a resize to 0 bytes frees
        // it.
        unsafe { free(memory) };
        return ptr::null_mut();
    }
    let has = match pager {
        Some(pager) if inside(|| resize(pager, memory as usize, bytes)) => return memory,
        Some(pager) => usable_size(pager, memory as usize),
        // SAFETY: `next`'s allocator has allocated the block.
        None => unsafe { (next.malloc_usable_size)(memory) },
    };
    // SAFETY: `has` is the usable size of the block.
    unsafe { move_block(memory, has, bytes) }
}

/// Moves a block of `has` bytes into a new block of `bytes` bytes.
///
/// # Safety
/// `memory` is a block of at least `has` bytes. If the new block is allocated, `memory` is freed.
unsafe fn move_block(memory: *mut c_void, has: usize, bytes: usize) -> *mut c_void {
    // SAFETY: the old block has at least `has` bytes, the new block has `bytes` bytes, and the copy
    // has the smaller number. The blocks do not overlap.
    unsafe {
        let new = malloc(bytes);
        if !new.is_null() {
            ptr::copy_nonoverlapping(memory.cast::<u8>(), new.cast::<u8>(), has.min(bytes));
            free(memory);
        }
        new
    }
}

/// Replaces `reallocarray(3)` by `realloc` with the product of `count` and `bytes`.
///
/// # Safety
/// The caller must meet the conditions of `reallocarray(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    memory: *mut c_void,
    count: size_t,
    bytes: size_t,
) -> *mut c_void {
    match count.checked_mul(bytes) {
        // SAFETY: the caller meets the conditions of `realloc(3)`.
        Some(bytes) => unsafe { realloc(memory, bytes) },
        None => {
            errno::set(libc::ENOMEM);
            ptr::null_mut()
        }
    }
}

/// Replaces `malloc_usable_size(3)`, because the C library does not know the blocks of the pager.
///
/// # Safety
/// The caller must meet the conditions of `malloc_usable_size(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(memory: *mut c_void) -> size_t {
    if let Some(length) = early::length(memory) {
        return length;
    }
    let Some(next) = next() else { return 0 };
    match owner(next, memory) {
        Some(pager) => usable_size(pager, memory as usize),
        // SAFETY: the caller meets the conditions of `next.malloc_usable_size`.
        None => unsafe { (next.malloc_usable_size)(memory) },
    }
}

/// Replaces `free(3)`: the pager frees its own blocks, and `next.free`, mostly the C library's,
/// frees all others.
///
/// # Safety
/// The caller must meet the conditions of `free(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(memory: *mut c_void) {
    let Some(next) = next().filter(|_| early::length(memory).is_none()) else { return };
    match owner(next, memory) {
        // This process is a forked child that the pager does not serve. The block is not mapped in
        // the child, so nothing is freed.
        Some(pager) if !pager.is_served() => {}
        Some(pager) => {
            let before = errno::get();
            inside(|| pager.free_block(memory as usize));
            errno::set(before);
        }
        // SAFETY: the caller meets the conditions of `free(3)`, as `next.free` requires.
        None => unsafe {
            uncount_block(counted_bytes(next, memory));
            (next.free)(memory);
        },
    }
}

/// Replaces `free_sized` of C23 by `free`.
///
/// # Safety
/// The caller must meet the conditions of `free_sized` (C23).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(memory: *mut c_void, _bytes: size_t) {
    // SAFETY: the caller meets the conditions of `free(3)`, which does not need the size.
    unsafe { free(memory) }
}

/// Replaces `free_aligned_sized` of C23 by `free`.
///
/// # Safety
/// The caller must meet the conditions of `free_aligned_sized` (C23).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(memory: *mut c_void, _align: size_t, _bytes: size_t) {
    // SAFETY: the caller meets the conditions of `free(3)`, which does not need the size.
    unsafe { free(memory) }
}
