//! Tests that the handler of SIGBUS ([`interleaf_pager::kernel::sigbus`]) neither allocates nor
//! frees memory: it may interrupt a thread that holds a lock of the allocator. The test counts the
//! calls of the allocator.

#![expect(unsafe_code, reason = "an allocator that counts")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_pager::{cache::Settings, kernel::uffd::FaultMode, nodes::Nodes, pager::Pager};
use interleaf_prefetch::Limits;
use interleaf_store::FileStore;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::Barrier,
    thread,
};

thread_local! {
    /// Number of allocations and deallocations of this thread so far.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    CALLS.set(CALLS.get() + 1);
}

// SAFETY: all calls are forwarded to the system allocator, which meets the conditions of the trait.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller meets the conditions of `GlobalAlloc::alloc`, which are those of this
        // call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller meets the conditions of `GlobalAlloc::dealloc`, which are those of
        // this call.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Settings with a budget of 8 MiB.
const SETTINGS: Settings =
    Settings { frames: 2048, order: 2, prefetch: Limits { initial: 16, max: 256 } };

const PAGE: usize = 4096;
const THREADS: usize = 4;
const ROUNDS: u8 = 4;

#[test]
fn the_handler_allocates_nothing() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let pager =
        Pager::with_slot(SETTINGS, 1 << 30, store, None, FaultMode::Signal, Nodes::single());
    let pager = pager.unwrap_or_else(|why| {
        panic!("userfaultfd is not available ({why}): this test needs root and Linux 6.8")
    });
    // The region is larger than the budget, so that pages are evicted, written back, and read
    // again.
    let mut region = pager.region(24 << 20).unwrap();
    let (length, begin) = (region.bytes().len() / THREADS, Barrier::new(THREADS));
    let calls: Vec<(u64, bool)> = thread::scope(|scope| {
        let parts = region.bytes_mut().chunks_exact_mut(length).enumerate();
        let threads: Vec<_> = parts
            .map(|(seed, part)| {
                let begin = &begin;
                scope.spawn(move || {
                    begin.wait();
                    let before = CALLS.get();
                    let is_right = touch(part, seed);
                    (CALLS.get() - before, is_right)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(calls, [(0, true); THREADS], "calls of the allocator, and whether all was right");
    let counts = pager.counts();
    assert!(counts.read > 0 && counts.written > 0 && counts.faults > 100, "{counts:?}");
    assert!(CALLS.get() > 0, "the allocator counts");
}

/// Adds 1 to one byte of each page in several rounds, alternately in order and in jumps of 1009
/// pages. Returns true if each byte had the value that was written to it last.
fn touch(part: &mut [u8], seed: usize) -> bool {
    let pages = part.len() / PAGE;
    let mut is_right = true;
    for round in 0..ROUNDS {
        for at in 0..pages {
            // The number of pages is coprime to the stride 1009, so each round touches each page
            // once.
            let page = if round % 2 == 0 { at } else { at * 1009 % pages };
            let byte = &mut part[page * PAGE + seed];
            is_right &= *byte == round;
            *byte = round + 1;
        }
    }
    is_right
}
