//! The mappings of this process, read from `/proc/self/maps`.

use interleaf_procfs::{files::Files, maps};
use std::ops::Range;

/// A mapping of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) addresses: Range<usize>,
    /// The protection of the mapping: bits of `PROT_...`, as for `mmap(2)`.
    pub(crate) protection: u32,
    /// True if the mapping is private and was made by `mmap(2)` with `MAP_ANONYMOUS`. False for the
    /// heap and the first thread's stack.
    pub(crate) is_anonymous: bool,
}

/// All mappings of this process, by ascending address.
pub(crate) fn all() -> Vec<Mapping> {
    let text = Files::live().read("proc/self/maps").ok().flatten().unwrap_or_default();
    let mapping = |found: maps::Mapping<'_>| Mapping {
        addresses: found.addresses.start as usize..found.addresses.end as usize,
        protection: found.protection(),
        is_anonymous: found.is_anonymous_mmap(),
    };
    maps::mappings(&text).map(mapping).collect()
}

/// True if all addresses of `pages` are mapped.
pub(crate) fn are_mapped(pages: &Range<usize>) -> bool {
    let covered = all().into_iter().fold(pages.start, |covered, it| {
        if it.addresses.contains(&covered) { it.addresses.end } else { covered }
    });
    covered >= pages.end
}

/// True if all mappings that overlap `pages` are readable.
pub(crate) fn is_readable(pages: &Range<usize>) -> bool {
    let over = |it: &Mapping| it.addresses.start < pages.end && pages.start < it.addresses.end;
    all().into_iter().filter(over).all(|it| it.protection & 1 != 0)
}
