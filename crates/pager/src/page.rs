//! Pages and their sizes.

pub use interleaf_procfs::page::{HUGE_BYTES, PAGE_BYTES};

/// A page number, over all regions of a process. Regions are numbered apart from each other, so
/// that no stream of accesses goes from one to the next.
pub type Page = u64;
