//! Pages and their sizes.

pub use interleaf_procfs::page::{HUGE_BYTES, PAGE_BYTES};

/// The number of a page, counted over all regions of a process. The page numbers of large regions
/// are not adjacent, so that no stream of accesses goes from one region to the next.
pub type Page = u64;
