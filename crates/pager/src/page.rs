//! Pages and their sizes.

pub use interleaf_procfs::page::{HUGE_BYTES, PAGE_BYTES};

/// A page number, over all regions of a process. Page numbers of large regions are not adjacent, so
/// that no stream of accesses goes from one region to the next.
pub type Page = u64;
