//! Maps anonymous memory whose placement on the nodes can be read from `numa_maps`.

use std::{
    io,
    ops::{Deref, DerefMut, Range},
    process,
};

use interleaf_linux::{
    process::numa_maps::{self, Mapping, NodeBytes},
    root::Root,
};
use interleaf_procfs::page::PAGE_BYTES;
use memmap2::{Advice, MmapMut};

/// Size of a cache line, bytes. Programs write and verify only the first word of each line. The
/// kernel and the pager move whole pages, so a check of all words would find no further errors, and
/// would take an emulated processor a second for each 12 MiB.
pub const LINE: usize = 64;

/// Number of cache lines in a page.
pub const LINES: usize = PAGE_BYTES / LINE;

/// Anonymous memory that has lines of its own in `numa_maps`, apart from all other mappings.
///
/// The kernel merges adjacent mappings with equal flags and policy. Therefore this memory is the
/// middle of a larger mapping, and only the middle has the advice about huge pages. The flags of
/// the mappings on both sides then differ from those of the middle.
pub struct Memory {
    map: MmapMut,
    bytes: usize,
}

/// Unused bytes of the mapping on each side of the memory: a whole huge page, so that the memory
/// keeps the alignment that the kernel chose for the mapping.
const EDGE: usize = 2 << 20;

impl Memory {
    /// Maps `bytes` bytes, a multiple of the page size, and gives `advice` on them: `HugePage` or
    /// `NoHugePage`.
    ///
    /// # Errors
    /// When the kernel cannot map the memory, or does not know the advice.
    pub fn map(bytes: usize, advice: Advice) -> io::Result<Self> {
        let map = MmapMut::map_anon(bytes + 2 * EDGE)?;
        map.advise_range(advice, EDGE, bytes)?;
        Ok(Self { map, bytes })
    }

    /// Returns the addresses of the memory, without the unused bytes on each side.
    #[must_use]
    pub fn addresses(&self) -> Range<u64> {
        let start = self.as_ptr().addr() as u64;
        start..start + self.bytes as u64
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map[EDGE..EDGE + self.bytes]
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map[EDGE..EDGE + self.bytes]
    }
}

/// Returns the mappings of this program.
///
/// # Errors
/// When `numa_maps` cannot be read.
pub fn mappings() -> io::Result<Vec<Mapping>> {
    let mine = numa_maps::mappings(&Root::live(), process::id()).map_err(io::Error::other)?;
    Ok(mine.unwrap_or_default())
}

/// Returns the bytes on each node, summed over all mappings that begin in `addresses`. The kernel
/// may have split the memory into several mappings.
#[must_use]
pub fn within(mappings: &[Mapping], addresses: &Range<u64>) -> NodeBytes {
    let mine = mappings.iter().filter(|mapping| addresses.contains(&mapping.start));
    mine.map(|mapping| &mapping.bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many mappings of equal flags are made one after the other, and the pages of each are counted
    /// separately. Without the edges, the kernel would merge the mappings.
    #[test]
    fn adjacent_memory_is_counted_alone() {
        let mut all: Vec<Memory> =
            (1..=16).map(|pages| Memory::map(pages * 4096, Advice::NoHugePage).unwrap()).collect();
        all.iter_mut().for_each(|memory| memory.fill(1));
        let mappings = mappings().unwrap();
        for memory in &all {
            let placed = within(&mappings, &memory.addresses());
            assert_eq!(placed.total(), memory.len() as u64);
        }
    }
}
