//! Finds the pages that the kernel gave to mapped memory: their size and their nodes.

use interleaf_linux::{
    process::numa_maps::{self, NodeBytes},
    root::{Root, RootError},
};
use std::ops::Range;

/// The pages of some address ranges: their bytes in huge pages, and their bytes on each node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backing {
    /// Bytes of all ranges.
    pub bytes: u64,
    /// Bytes in huge pages, transparent and hugetlbfs.
    pub huge_bytes: u64,
    /// Bytes on each node; empty on a kernel without NUMA.
    pub nodes: NodeBytes,
}

impl Backing {
    /// Reads the page sizes and the nodes of `ranges`, which are address ranges of this process.
    /// The kernel counts the pages of each mapping, and may merge neighbouring mappings. A range
    /// that is only a part of a mapping therefore gets a part of the mapping's counts, in
    /// proportion to its length.
    ///
    /// # Errors
    /// When the kernel's files cannot be read.
    pub fn of(root: &Root, ranges: &[Range<u64>]) -> Result<Self, RootError> {
        let smaps = root.peek("/proc/self/smaps")?.unwrap_or_default();
        let mappings = mappings(&smaps);
        let placed = numa_maps::mappings(root, std::process::id())?.unwrap_or_default();
        let mut backing = Self::default();
        for range in ranges {
            let bytes = range.end - range.start;
            backing.bytes += bytes;
            backing.huge_bytes += huge_in(&mappings, range);
            let before = placed.iter().filter(|mapping| mapping.start <= range.start);
            let Some(place) = before.max_by_key(|mapping| mapping.start) else { continue };
            let total = place.bytes.total();
            let share = |(node, on_node): (&u32, &u64)| (*node, part(bytes, *on_node, total));
            backing.nodes.add(&NodeBytes(place.bytes.0.iter().map(share).collect()));
        }
        Ok(backing)
    }
}

/// Returns the bytes in huge pages, transparent and hugetlbfs, among the `bytes` from the address
/// `start` on; `None` if `/proc/self/smaps` does not exist. Unlike [`Backing::of`], this function
/// does not read `numa_maps`, because the kernel walks the page tables once more for each reading
/// of `numa_maps`.
///
/// # Errors
/// When `smaps` cannot be read.
pub fn huge_bytes(root: &Root, start: usize, bytes: usize) -> Result<Option<usize>, RootError> {
    let range = start as u64..(start + bytes) as u64;
    let Some(smaps) = root.peek("/proc/self/smaps")? else { return Ok(None) };
    Ok(Some(huge_in(&mappings(&smaps), &range) as usize))
}

fn huge_in(mappings: &[Mapping], range: &Range<u64>) -> u64 {
    let ours = mappings.iter().find(|mapping| mapping.addresses.contains(&range.start));
    let bytes = range.end - range.start;
    ours.map_or(0, |mapping| part(bytes, mapping.huge_bytes, mapping.resident_bytes))
}

/// Estimates how many bytes of a range are in huge pages, or on one node. `bytes` is the length of
/// the range. The mapping that contains the range has `whole` resident bytes, of which `part` are
/// in huge pages, or on the node. Example: if 2 of the mapping's 8 MiB are in huge pages, 1 MiB of
/// a range of 4 MiB is counted. The result is 0 for a mapping without resident bytes.
fn part(bytes: u64, part: u64, whole: u64) -> u64 {
    let exact = u128::from(bytes) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(exact).unwrap_or(bytes)
}

#[derive(Debug, PartialEq)]
struct Mapping {
    addresses: Range<u64>,
    resident_bytes: u64,
    huge_bytes: u64,
}

fn mappings(smaps: &str) -> Vec<Mapping> {
    let mut all: Vec<Mapping> = vec![];
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        let (Some(first), second) = (words.next(), words.next().unwrap_or("")) else { continue };
        let bytes = second.parse::<u64>().unwrap_or(0) * 1024;
        match (first, all.last_mut()) {
            ("Rss:", Some(last)) => last.resident_bytes += bytes,
            ("AnonHugePages:", Some(last)) => last.huge_bytes += bytes,
            // `smaps` counts hugetlbfs pages neither in Rss nor in AnonHugePages.
            ("Private_Hugetlb:", Some(last)) => {
                last.resident_bytes += bytes;
                last.huge_bytes += bytes;
            }
            _ => {
                if let Some(addresses) = numa_maps::addresses(line) {
                    all.push(Mapping { addresses, resident_bytes: 0, huge_bytes: 0 });
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::{pages::Pages, region::Region};
    use interleaf_linux::place::mempolicy::Policy;

    #[test]
    fn memory_touched_in_base_pages_has_no_huge_pages() {
        let region = Region::new(4 << 20, Pages::Small, &Policy::Default).unwrap();
        let root = Root::live();
        assert_eq!(huge_bytes(&root, region.start() as usize, region.bytes()).unwrap(), Some(0));
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(huge_bytes(&Root::captured(empty.path()), 0, 4096).unwrap(), None);
    }

    #[test]
    fn smaps_shows_huge_pages() {
        let smaps = "7f00-7f80 rw-p 00000000 00:00 0\nRss: 8 kB\nAnonHugePages: 4 kB\n\
                     VmFlags: rd wr\n7f80-7fa0 rw-p 00000000 00:0f 1 /anon_hugepage\n\
                     Rss: 0 kB\nPrivate_Hugetlb: 2048 kB\n";
        let mapping = |addresses, resident_bytes, huge_bytes| Mapping {
            addresses,
            resident_bytes,
            huge_bytes,
        };
        let expected =
            [mapping(0x7f00..0x7f80, 8192, 4096), mapping(0x7f80..0x7fa0, 2 << 20, 2 << 20)];
        assert_eq!(mappings(smaps), expected);
    }

    #[test]
    fn base_pages_are_counted_as_base_pages_with_a_node() {
        let region = Region::new(4 << 20, Pages::Small, &Policy::Default).unwrap();
        let backing = Backing::of(&Root::live(), &[region.addresses()]).unwrap();
        assert_eq!((backing.bytes, backing.huge_bytes), (4 << 20, 0));
        let total = backing.nodes.total();
        assert!(total == 0 || total.abs_diff(4 << 20) < 8, "{backing:?}");
    }
}
