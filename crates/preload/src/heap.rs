//! This library's own allocator. It does not use `malloc(3)`, because the lock of the program's
//! allocator may be held when this library is called: by the program's allocator, which calls
//! `mmap(2)`, or by a thread that a signal handler has interrupted. In a child of `_Fork(3)`, the
//! lock may even be held for ever, by a thread that does not exist in the child.
//!
//! Blocks of up to 32 KiB have one of 40 sizes: multiples of 16 bytes up to 128 bytes, and then
//! four sizes for each power of two. Each size has a list of free blocks. Larger blocks are
//! mappings. The C library is used for system calls only. One lock protects all lists. A thread
//! holds the lock for a few instructions or one `mmap(2)`, with signals blocked
//! ([`crate::state::inside`]). A forking thread holds the lock during the fork ([`lock`]).

use interleaf_procfs::page::PAGE_BYTES;
use rustix::thread::futex;
use std::{
    alloc::{GlobalAlloc, Layout},
    cell::UnsafeCell,
    ptr,
    sync::atomic::{AtomicU32, Ordering::*},
};

/// Size of the largest block that is cut from a slab, bytes. A larger block is a mapping of its
/// own.
const BLOCK_MAX: usize = 32 << 10;

/// Size of a slab, bytes. A slab is a mapping from which blocks of one size are cut.
const SLAB_BYTES: usize = 128 << 10;

/// Size up to which the block sizes are multiples of 16, bytes.
const LINEAR: usize = 128;

const LINEAR_CLASSES: usize = LINEAR / 16;

const CLASSES: usize = LINEAR_CLASSES + 4 * (BLOCK_MAX / LINEAR).ilog2() as usize;

/// States of the heap's lock, a futex. In the state `CONTENDED`, the lock is held, and other
/// threads may wait for it.
const FREE: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;

struct Heap {
    lock: AtomicU32,
    lists: UnsafeCell<[List; CLASSES]>,
}

/// The free blocks of one size, and the slab from which further blocks are cut.
#[derive(Clone, Copy)]
struct List {
    /// The first block of the list of free blocks. A free block begins with the address of the next
    /// free block.
    free: *mut Free,
    /// The unused part of the last slab: the addresses from `rest` to `end`.
    rest: usize,
    end: usize,
}

struct Free {
    next: *mut Free,
}

#[global_allocator]
static HEAP: Heap = Heap {
    lock: AtomicU32::new(FREE),
    lists: UnsafeCell::new([List { free: ptr::null_mut(), rest: 0, end: 0 }; CLASSES]),
};

// SAFETY: the lists are accessed only with the lock held.
unsafe impl Sync for Heap {}

/// Holds the lock of the heap until the guard is dropped.
pub(crate) struct Guard(());

/// Locks the heap. The calling thread must not allocate while it holds the lock. A child that is
/// forked while the lock is held has a consistent copy of the heap.
pub(crate) fn lock() -> Guard {
    if HEAP.lock.compare_exchange(FREE, LOCKED, Acquire, Relaxed).is_err() {
        while HEAP.lock.swap(CONTENDED, Acquire) != FREE {
            // A futex wait may return early, so the loop checks the lock again.
            let _ = futex::wait(&HEAP.lock, futex::Flags::PRIVATE, CONTENDED, None);
        }
    }
    Guard(())
}

/// Releases the heap's lock after a fork, in the parent and in the child. The guard of the lock
/// does not exist any more: `process.rs` passed it to `mem::forget` before the fork.
///
/// # Safety
/// The calling thread holds the lock. In a child, the calling thread is the copy of the thread that
/// locked the heap in the parent.
pub(crate) unsafe fn unlock() {
    drop(Guard(()));
}

impl Drop for Guard {
    fn drop(&mut self) {
        if HEAP.lock.swap(FREE, Release) == CONTENDED {
            let _ = futex::wake(&HEAP.lock, futex::Flags::PRIVATE, 1);
        }
    }
}

/// The index of the list for a block of `bytes` bytes, and the size of the blocks in that list.
const fn class(bytes: usize) -> (usize, usize) {
    if bytes <= LINEAR {
        let class = if bytes == 0 { 0 } else { (bytes - 1) / 16 };
        return (class, (class + 1) * 16);
    }
    // Between two powers of two, `2^order` and `2^(order + 1)`, the block sizes are a quarter of
    // `2^order` apart: above 128 bytes, the sizes are 160, 192, 224 and 256 bytes.
    let order = (bytes - 1).ilog2() as usize;
    let step = (1 << order) / 4;
    let quarter = (bytes - 1 - (1 << order)) / step;
    let first = LINEAR_CLASSES + 4 * (order - LINEAR.ilog2() as usize);
    (first + quarter, (1 << order) + (quarter + 1) * step)
}

/// Returns the number of bytes that a block for `layout` must have. For an alignment of more than
/// 16 bytes, this is a power of two: a block of such a size is aligned to its size (or to a page,
/// if the size exceeds a page).
const fn wanted(layout: Layout) -> usize {
    if layout.align() <= 16 {
        return layout.size();
    }
    let bytes = if layout.size() > layout.align() { layout.size() } else { layout.align() };
    bytes.next_power_of_two()
}

/// Maps `bytes` bytes of new zero pages; null if the kernel has no memory.
fn map(bytes: usize) -> *mut u8 {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping changes no other memory.
    let found = unsafe { libc::syscall(libc::SYS_mmap, 0_usize, bytes, protection, flags, -1, 0) };
    if found == -1 { ptr::null_mut() } else { found as *mut u8 }
}

fn unmap(address: usize, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller has mapped this memory, and does not use it any more.
        unsafe { libc::syscall(libc::SYS_munmap, address, bytes) };
    }
}

/// Maps at least `bytes` bytes, aligned to `align`, which may be more than a page. Returns null if
/// the kernel has no memory.
fn map_aligned(bytes: usize, align: usize) -> *mut u8 {
    let bytes = bytes.next_multiple_of(PAGE_BYTES);
    if align <= PAGE_BYTES {
        return map(bytes);
    }
    let Some(all) = bytes.checked_add(align) else { return ptr::null_mut() };
    let start = map(all) as usize;
    if start == 0 {
        return ptr::null_mut();
    }
    let at = start.next_multiple_of(align);
    unmap(start, at - start);
    unmap(at + bytes, start + all - at - bytes);
    at as *mut u8
}

impl List {
    /// Returns a block of `bytes` bytes, the size of all blocks of the list; null if the kernel has
    /// no memory.
    fn allocate(&mut self, bytes: usize) -> *mut u8 {
        if !self.free.is_null() {
            let block = self.free;
            // SAFETY: a free block belongs to the heap, and begins with the address of the next
            // free block.
            self.free = unsafe { (*block).next };
            return block.cast();
        }
        if self.end - self.rest < bytes {
            self.rest = map(SLAB_BYTES) as usize;
            self.end = if self.rest == 0 { 0 } else { self.rest + SLAB_BYTES };
            if self.rest == 0 {
                return ptr::null_mut();
            }
        }
        let block = self.rest;
        self.rest += bytes;
        block as *mut u8
    }
}

// SAFETY: blocks do not overlap, and have at least the size and alignment of the layout. Block
// sizes are multiples of 16, and a slab begins at a page, so a block whose size is a power of two
// is aligned to its size, up to a page. A block with a larger alignment is a mapping of its own.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let bytes = wanted(layout);
        if bytes > BLOCK_MAX || layout.align() > PAGE_BYTES {
            return map_aligned(layout.size(), layout.align());
        }
        let (class, bytes) = class(bytes);
        let _guard = lock();
        // SAFETY: this thread has the lock.
        let lists = unsafe { &mut *self.lists.get() };
        lists[class].allocate(bytes)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let bytes = wanted(layout);
        if bytes > BLOCK_MAX || layout.align() > PAGE_BYTES {
            return unmap(block as usize, layout.size().next_multiple_of(PAGE_BYTES));
        }
        let (class, _) = class(bytes);
        let _guard = lock();
        // SAFETY: this thread has the lock, and the caller does not use the block any more.
        unsafe {
            let list = &mut (*self.lists.get())[class];
            let block = block.cast::<Free>();
            (*block).next = list.free;
            list.free = block;
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let is_mapped = |bytes: usize| bytes > BLOCK_MAX && layout.align() <= 16;
        if is_mapped(layout.size()) && is_mapped(bytes) {
            let (old, new) =
                (layout.size().next_multiple_of(PAGE_BYTES), bytes.next_multiple_of(PAGE_BYTES));
            // SAFETY: the block is a mapping of this heap.
            let found = unsafe {
                libc::syscall(libc::SYS_mremap, block, old, new, libc::MREMAP_MAYMOVE, 0)
            };
            return if found == -1 { ptr::null_mut() } else { found as *mut u8 };
        }
        // SAFETY: the caller guarantees that `bytes` is a valid size for this alignment. The copy
        // is no longer than the shorter of the two blocks.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size().min(bytes));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_at_most_a_quarter_longer_than_requested() {
        let mut last = 0;
        for bytes in 0..=BLOCK_MAX {
            let (at, has) = class(bytes);
            assert!(at < CLASSES && has >= bytes && has.is_multiple_of(16), "{bytes}: {at} {has}");
            assert!(at == last || at == last + 1, "{bytes}: {at} after {last}");
            assert!(bytes <= LINEAR || has * 4 <= bytes * 5, "{bytes}: {has}");
            assert_eq!(class(has), (at, has));
            last = at;
        }
        assert_eq!(last, CLASSES - 1);
    }

    #[test]
    fn blocks_are_aligned_and_apart() {
        let mut blocks: Vec<(usize, Layout)> = vec![];
        for round in 0..2000_usize {
            let (bytes, align) = (1 + round * 37 % 70_000, 1 << (round % 15));
            let Ok(layout) = Layout::from_size_align(bytes, align) else { continue };
            // SAFETY: the size of the layout is not 0, and the block is freed with the same layout.
            let block = unsafe { HEAP.alloc(layout) } as usize;
            assert!(block != 0 && block.is_multiple_of(align));
            let is_apart = |(other, of): &(usize, Layout)| {
                block + bytes <= *other || other + of.size() <= block
            };
            assert!(blocks.iter().all(is_apart), "{layout:?}");
            blocks.push((block, layout));
            if round % 3 == 0 {
                let (block, layout) = blocks.swap_remove(round * 7 % blocks.len());
                // SAFETY: the block is freed once, with the layout of its allocation.
                unsafe { HEAP.dealloc(block as *mut u8, layout) };
            }
        }
        for (block, layout) in blocks {
            // SAFETY: the block is freed once, with the layout of its allocation.
            unsafe { HEAP.dealloc(block as *mut u8, layout) };
        }
    }
}
