//! Pages and their sizes.

/// A page number, over all regions of a process. Regions are numbered apart from each other, so
/// that no stream of accesses goes from one to the next.
pub type Page = u64;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of a huge page.
pub const HUGE_BYTES: usize = 2 << 20;
