//! Page numbers, by which the prefetcher identifies memory instead of by addresses.

/// The number of a page. A pager counts pages from the start of the address range that it reserves
/// for all regions. Large regions are not adjacent in this range, so no stream of accesses can
/// continue from one region into the next.
pub type Page = u64;
