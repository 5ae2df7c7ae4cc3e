//! Page numbers: the prefetcher identifies memory by them, and not by addresses.

/// The number of a page. In a pager, it is the index of the page in the address range that is
/// reserved for all regions. Large regions are not adjacent in this range, so no stream of accesses
/// can continue from one region into the next.
pub type Page = u64;
