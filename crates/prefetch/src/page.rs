//! Page numbers. The prefetcher identifies memory by page numbers, not by addresses.

/// The number of a page. In a pager, the number is the index of the page in the address range that
/// is reserved for all regions. Large regions are not adjacent in this range, so that no stream of
/// accesses goes from one region to the next.
pub type Page = u64;
