//! A pager that uses DRAM as a cache for allocations on a drive.
//!
//! A drive stores a large allocation, and DRAM holds its working set. A thread that touches a page
//! which is not mapped takes a page fault and waits until the page is read. Most pages are read
//! before their first touch, because `interleaf_prefetch` predicts them from earlier faults.
//!
//! All decisions are made without I/O and without a clock: [`cache`] and the prefetcher get events,
//! and return the pages to read, to write back and to evict. The fault server ([`serve`]) executes
//! these actions. Pages that are not in DRAM are in a store (`interleaf_store`).

pub mod cache;

pub mod nodes;

pub mod ranges;

mod fatal;

pub mod kernel;

pub mod serve;

pub mod pager;

pub mod session;

pub mod shared;

pub mod rights;
