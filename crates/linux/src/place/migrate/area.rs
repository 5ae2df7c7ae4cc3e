//! Finds the mappings of a process whose pages can be migrated. `numa_maps` shows the kind of each
//! mapping and the nodes of its pages. `smaps` shows the end of each mapping, and how many of its
//! bytes are in huge pages.
//!
//! Only the process's own memory is migrated: anonymous memory, heap, stack, pages of hugetlbfs,
//! and shared memory that no other process maps. Pages of files stay on their nodes, because the
//! page cache belongs to all processes. Private copies of file pages, which the process has
//! written, stay too.

use crate::process::numa_maps::{Kind, Mapping, addresses};
use std::{collections::BTreeMap, ops::Range};

/// A mapping whose pages may be migrated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) addresses: Range<u64>,
    pub(super) resident_bytes: u64,
    /// The size of a page, bytes. For hugetlbfs, it is the page size of hugetlbfs; for a mapping
    /// whose whole resident memory is in transparent huge pages, the size of a huge page; otherwise
    /// the size of a base page. With the size of a huge page, each huge page is located once and
    /// not 512 times. If a huge page is split during a pass, the next pass finds its base pages.
    pub(super) page_bytes: u64,
    /// The number of adjacent pages that migrate together; a power of two.
    pub(super) unit_pages: u32,
    /// True for shared memory and hugetlbfs, whose pages `pagemap` marks as pages of a file.
    pub(super) is_shared: bool,
}

/// The properties of a mapping that `smaps` has and `numa_maps` lacks.
#[derive(Debug, PartialEq, Eq)]
struct Extent {
    end: u64,
    /// Bytes of the mapping that are in transparent huge pages.
    huge_bytes: u64,
}

/// Returns the mappings of a process whose pages can be migrated, in order of their addresses.
/// `smaps` is the content of the process's file `smaps`, and `mappings` that of its `numa_maps`.
/// `page_bytes` and `huge_bytes` are the sizes of a base page and of a transparent huge page.
pub(super) fn areas(
    smaps: &str,
    mappings: &[Mapping],
    page_bytes: u64,
    huge_bytes: u64,
) -> Vec<Area> {
    let extents = extents(smaps);
    let area = |mapping: &Mapping| {
        // Skip a mapping that `extents` lacks: it was added between the readings of the two files.
        let extent = extents.get(&mapping.start)?;
        let is_hugetlb = mapping.page_bytes > page_bytes;
        let is_shared = is_hugetlb || mapping.is_named_memory(page_bytes);
        if !is_shared && matches!(mapping.kind, Kind::File(_)) {
            return None;
        }
        let resident_bytes = mapping.bytes.total();
        let (page_bytes, unit_pages) = match extent.huge_bytes {
            _ if is_hugetlb => (mapping.page_bytes, 1),
            0 => (page_bytes, 1),
            huge if huge == resident_bytes => (huge_bytes.max(page_bytes), 1),
            _ => (page_bytes, (huge_bytes / page_bytes).max(1) as u32),
        };
        let addresses = mapping.start..extent.end;
        Some(Area { addresses, resident_bytes, page_bytes, unit_pages, is_shared })
    };
    mappings.iter().filter_map(area).collect()
}

/// Returns the [`Extent`] of each mapping in `smaps`, by the mapping's start address.
fn extents(smaps: &str) -> BTreeMap<u64, Extent> {
    let mut all = BTreeMap::new();
    let mut last = None;
    for line in smaps.lines() {
        if let Some(range) = addresses(line) {
            last = Some(range.start);
            all.insert(range.start, Extent { end: range.end, huge_bytes: 0 });
            continue;
        }
        let Some((name, value)) = line.split_once(':') else { continue };
        let kib = value.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok());
        if matches!(name, "AnonHugePages" | "ShmemPmdMapped")
            && let Some(extent) = last.and_then(|start| all.get_mut(&start))
        {
            extent.huge_bytes += kib.unwrap_or(0).saturating_mul(1024);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::process::numa_maps;

    const SMAPS: &str = "\
00400000-00403000 r-xp 00000000 fe:00 42                 /bin/some thing
AnonHugePages:         0 kB
01000000-01800000 rw-p 00000000 00:00 0                  [heap]
Rss:                8192 kB
AnonHugePages:      2048 kB
ShmemPmdMapped:        0 kB
VmFlags: rd wr mr mw me ac
02000000-02800000 rw-p 00000000 00:00 0 
AnonHugePages:      4096 kB
7f0000000000-7f0000400000 rw-s 00000000 00:01 7          /dev/zero (deleted)
7f8000000000-7f8000400000 rw-p 00000000 00:0f 9          /anon_hugepage (deleted)
zz-7 nonsense
";

    #[test]
    fn anonymous_and_shared_memory_is_moved() {
        let mappings = numa_maps::parse(
            "00400000 default file=/bin/some\\040thing mapped=3 N0=3 kernelpagesize_kB=4\n\
             01000000 default heap anon=513 N0=513 kernelpagesize_kB=4\n\
             02000000 default anon=1024 N0=512 N1=512 kernelpagesize_kB=4\n\
             7f0000000000 default file=/dev/zero\\040(deleted) N1=7 kernelpagesize_kB=4\n\
             7f8000000000 default file=/anon_hugepage\\040(deleted) huge anon=1 N0=1 \
             kernelpagesize_kB=2048\n\
             7fff00000000 default anon=1 N0=1 kernelpagesize_kB=4\n",
        );
        let found = areas(SMAPS, &mappings.unwrap(), 4096, 2 << 20);
        let shown: Vec<_> = found
            .iter()
            .map(|area| (area.addresses.start, area.page_bytes >> 12, area.unit_pages))
            .collect();
        let shared: Vec<bool> = found.iter().map(|area| area.is_shared).collect();
        let expected = [
            (1 << 24, 1, 512),
            (1 << 25, 512, 1),
            (0x7f00_0000_0000, 1, 1),
            (0x7f80_0000_0000, 512, 1),
        ];
        assert_eq!(shown, expected, "neither the file nor what smaps does not have");
        assert_eq!(shared, [false, false, true, true]);
        assert_eq!((found[0].addresses.end, found[0].resident_bytes), (0x0180_0000, 513 << 12));
        assert_eq!(areas("", &[], 4096, 0), []);
    }
}
