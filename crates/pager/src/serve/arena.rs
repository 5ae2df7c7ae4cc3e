//! The arena: the address range that the pager reserves, and from which regions get their
//! addresses.
//!
//! Small regions are contiguous in *slabs*, so that many small regions need only one mapping.
//! Allocators make thousands of small regions as parts of one heap, and the kernel limits the
//! number of mappings of a process
//! ([`vm.max_map_count`](https://docs.kernel.org/admin-guide/sysctl/vm.html)).

use interleaf_procfs::page::{HUGE_BYTES, PAGE_BYTES};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

/// Limit between small and large regions, bytes: the size of a huge page. A region of fewer bytes
/// is small. A large region begins at the boundary of a huge page, and at least `SPACING` bytes
/// after it stay free, so that no stream of accesses goes from one region to the next.
pub(crate) const SPACING: usize = HUGE_BYTES;

/// Size of a slab, bytes. A slab is a range of addresses for many small regions.
const SLAB: usize = 64 << 20;

/// The owner of a piece (a range of whole pages) of the address range that the pager reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// No owner: the addresses can be allocated.
    Free,
    Region,
    /// The program has mapped other memory at the addresses of the piece.
    Foreign,
}

/// The owner of each page of the reserved address range.
#[derive(Clone, Debug)]
pub struct Arena {
    /// Earlier searches for free ranges: `small` for small regions, `growing` for large regions
    /// that can double their length, and `tight` for other large regions.
    small: Searches,
    growing: Searches,
    tight: Searches,
    addresses: Range<usize>,
    /// End and owner of each piece that is not free, keyed by the start of the piece. Adjacent
    /// pieces of the same owner are joined.
    used: BTreeMap<usize, (usize, Owner)>,
    /// The start of each slab.
    slabs: BTreeSet<usize>,
    /// The pages of each block that the program has allocated (`malloc(3)`), keyed by the address
    /// of the block.
    blocks: BTreeMap<usize, Range<usize>>,
}

impl Arena {
    /// An arena in which all of `addresses` are free.
    pub const fn new(addresses: Range<usize>) -> Self {
        Self {
            small: Searches::new(),
            growing: Searches::new(),
            tight: Searches::new(),
            addresses,
            used: BTreeMap::new(),
            slabs: BTreeSet::new(),
            blocks: BTreeMap::new(),
        }
    }

    /// True if an address is in the reserved address range.
    pub fn contains(&self, address: usize) -> bool {
        self.addresses.contains(&address)
    }

    /// Allocates whole pages for a new region; `None` when no free range is large enough. `align`,
    /// a power of two, is the alignment of the region's address.
    pub fn allocate(&mut self, bytes: usize, align: usize) -> Option<Range<usize>> {
        let bytes = bytes.max(1).checked_next_multiple_of(PAGE_BYTES)?;
        let small =
            if bytes < SPACING { self.find_small(bytes, align.max(PAGE_BYTES)) } else { None };
        let align = align.max(SPACING);
        let start = small
            .or_else(|| self.find(bytes, align, true))
            .or_else(|| self.find(bytes, align, false))?;
        self.set(start..start + bytes, Owner::Region);
        Some(start..start + bytes)
    }

    /// Finds a free range for a small region, and returns its address. The range is in an existing
    /// slab, or in a new slab if no existing slab has room.
    fn find_small(&mut self, bytes: usize, align: usize) -> Option<usize> {
        let from = self.small.start(bytes, align);
        let first = self.slabs.range(..=from).next_back().copied().unwrap_or(0);
        let old = self.slabs.range(first..);
        let mut old = old.filter_map(|slab| Some((*slab, self.find_in_slab(*slab, bytes, align)?)));
        let (slab, found) = match old.next() {
            Some(found) => found,
            None => {
                let slab = self.find(SLAB, SPACING, false)?;
                self.slabs.insert(slab);
                (slab, self.find_in_slab(slab, bytes, align)?)
            }
        };
        self.small.end(bytes, align, slab);
        Some(found)
    }

    fn find_in_slab(&self, slab: usize, bytes: usize, align: usize) -> Option<usize> {
        // A large region before the slab may have grown into the slab, so the free addresses may
        // begin after the start of the slab.
        let before = self.used.range(..slab).next_back().map_or(slab, |(_, (end, _))| *end);
        let mut free = before.max(slab);
        for (start, (end, _)) in self.used.range(slab..slab + SLAB) {
            let at = free.checked_next_multiple_of(align)?;
            if at.checked_add(bytes)? <= *start {
                return Some(at);
            }
            free = *end;
        }
        let at = free.checked_next_multiple_of(align)?;
        (at.checked_add(bytes)? <= slab + SLAB).then_some(at)
    }

    /// The first address range at or after `from` that large regions cannot use, because it has an
    /// owner or is a slab (`SLAB`). If a region has grown across an end of the slab, the range
    /// covers both.
    fn occupied_from(&self, from: usize) -> Option<Range<usize>> {
        let used = self.used.range(from..).next().map(|(start, (end, _))| *start..*end);
        let slab = self.slabs.range(from..).next().map(|slab| self.slab_addresses(*slab));
        match (used, slab) {
            (Some(used), Some(slab)) if used.start < slab.start => Some(used),
            (used, slab) => slab.or(used),
        }
    }

    /// The last address range that begins before `from` and that large regions cannot use, because
    /// it has an owner or is a slab.
    fn occupied_before(&self, from: usize) -> Option<Range<usize>> {
        let slab = self.slabs.range(..from).next_back().map(|slab| self.slab_addresses(*slab));
        let used = self.used.range(..from).next_back().map(|(start, (end, _))| *start..*end);
        match (used, slab) {
            (Some(used), Some(slab)) if used.start >= slab.start + SLAB => Some(used),
            (used, slab) => slab.or(used),
        }
    }

    fn slab_addresses(&self, slab: usize) -> Range<usize> {
        let last = self.used.range(..slab + SLAB).next_back().map_or(slab, |(_, (end, _))| *end);
        slab..last.max(slab + SLAB)
    }

    /// Finds a free range for a region, and returns its address. At least [`SPACING`] bytes stay
    /// free after each region. If `grows` is true, both the new region and the region before it can
    /// double their length: the gap after each of them is at least as long as the region itself. At
    /// the end of the reserved range, a gap of [`SPACING`] bytes suffices.
    fn find(&mut self, bytes: usize, align: usize, grows: bool) -> Option<usize> {
        let searches = if grows { &self.growing } else { &self.tight };
        let found = self.find_from(searches.start(bytes, align), bytes, align, grows);
        let searches = if grows { &mut self.growing } else { &mut self.tight };
        searches.end(bytes, align, found.unwrap_or(self.addresses.end));
        found
    }

    fn find_from(&self, from: usize, bytes: usize, align: usize, grows: bool) -> Option<usize> {
        let behind = |length: usize| if grows { length.max(SPACING) } else { SPACING };
        let (mut free, mut from) = (self.addresses.start, from);
        if let Some(before) = self.occupied_before(from) {
            free = before.end.checked_add(behind(before.len()))?;
            from = from.max(before.end);
        }
        while let Some(next) = self.occupied_from(from) {
            let at = free.checked_next_multiple_of(align)?;
            if at.checked_add(bytes)?.checked_add(behind(bytes))? <= next.start {
                return Some(at);
            }
            free = next.end.checked_add(behind(next.len()))?;
            from = next.end;
        }
        let at = free.checked_next_multiple_of(align)?;
        (at.checked_add(bytes)?.checked_add(SPACING)? <= self.addresses.end).then_some(at)
    }

    /// Updates the slabs and the earlier searches after the owner of `pages` has become `owner`.
    /// Removes slabs without regions, so that large regions can use their addresses. Makes the next
    /// searches include freed addresses.
    fn on_owner_changed(&mut self, pages: &Range<usize>, owner: Owner) {
        let mut first = pages.start;
        if owner == Owner::Free {
            let slabs = self.slabs.range(pages.start.saturating_sub(SLAB)..pages.end);
            let is_empty = |slab: &usize| self.used.range(*slab..slab + SLAB).next().is_none();
            let empty: Vec<usize> = slabs.copied().filter(is_empty).collect();
            for slab in empty {
                self.slabs.remove(&slab);
                first = first.min(slab);
            }
        }
        if owner != Owner::Region {
            for searches in [&mut self.small, &mut self.growing, &mut self.tight] {
                searches.begin_at(first);
            }
        }
    }

    /// Sets the owner of all pages in a range.
    pub fn set(&mut self, pages: Range<usize>, owner: Owner) {
        if pages.is_empty() {
            return;
        }
        let touching = self.used.range(..=pages.end).rev().take_while(|it| it.1.0 >= pages.start);
        let touching: Vec<_> =
            touching.map(|(start, (end, owner))| (*start, *end, *owner)).collect();
        let (mut first, mut last) = (pages.start, pages.end);
        for (start, end, other) in touching {
            self.used.remove(&start);
            if other == owner {
                (first, last) = (first.min(start), last.max(end));
                continue;
            }
            if start < pages.start {
                self.used.insert(start, (pages.start, other));
            }
            if pages.end < end {
                self.used.insert(pages.end, (end, other));
            }
        }
        if owner != Owner::Free {
            self.used.insert(first, (last, owner));
        }
        self.on_owner_changed(&pages, owner);
    }

    /// The pieces of a range of addresses in ascending order. Each piece has one owner.
    pub fn pieces(&self, pages: Range<usize>) -> Vec<(Range<usize>, Owner)> {
        let mut pieces = vec![];
        let mut at = pages.start;
        while at < pages.end {
            let here = self.used.range(..=at).next_back().filter(|(_, (end, _))| *end > at);
            let (end, owner) = match here {
                Some((_, (end, owner))) => (*end, *owner),
                None => {
                    let next = self.used.range(at..).next();
                    (next.map_or(pages.end, |(start, _)| *start), Owner::Free)
                }
            };
            let end = end.min(pages.end);
            pieces.push((at..end, owner));
            at = end;
        }
        pieces
    }

    /// The pieces that belong to regions, in ascending order.
    pub fn regions(&self) -> impl Iterator<Item = Range<usize>> {
        let regions = self.used.iter().filter(|(_, (_, owner))| *owner == Owner::Region);
        regions.map(|(start, (end, _))| *start..*end)
    }

    /// Extends the region that ends at `end` by `bytes` bytes, if these bytes and the [`SPACING`]
    /// bytes after them are free. Returns true on success.
    pub fn grow(&mut self, end: usize, bytes: usize) -> bool {
        let Some(last) = end.checked_add(bytes) else { return false };
        let Some(behind) = last.checked_add(SPACING) else { return false };
        let is_free = behind <= self.addresses.end
            && matches!(self.pieces(end..behind)[..], [(_, Owner::Free)]);
        if is_free {
            self.set(end..last, Owner::Region);
        }
        is_free
    }

    /// The pages of the block that the program has allocated at `address`.
    pub fn block(&self, address: usize) -> Option<Range<usize>> {
        self.blocks.get(&address).cloned()
    }

    /// Records the pages of the block that the program has allocated at `address`. `None` removes
    /// the entry of a freed block.
    pub fn set_block(&mut self, address: usize, region: Option<Range<usize>>) {
        match region {
            Some(region) => self.blocks.insert(address, region),
            None => self.blocks.remove(&address),
        };
    }
}

/// Maximum number of earlier searches that are remembered.
const SEARCHES_MAX: usize = 16;

/// Results of earlier searches of the arena. A search skips the addresses in which an earlier
/// search has found no free range.
#[derive(Clone, Debug)]
struct Searches(Vec<Search>);

/// The result of a search: no free range for a region of at least `bytes` bytes, aligned to at
/// least `align`, begins before the address `from`.
#[derive(Clone, Copy, Debug)]
struct Search {
    bytes: usize,
    align: usize,
    from: usize,
}

impl Searches {
    const fn new() -> Self {
        Self(vec![])
    }

    /// The address at which a search for a region of `bytes` bytes, aligned to `align`, begins.
    fn start(&self, bytes: usize, align: usize) -> usize {
        let known = self.0.iter().filter(|other| other.bytes <= bytes && other.align <= align);
        known.map(|other| other.from).max().unwrap_or(0)
    }

    /// Remembers a search for `bytes` bytes, aligned to `align`, that has found no free range
    /// before the address `from`.
    fn end(&mut self, bytes: usize, align: usize, from: usize) {
        // Keep an older search only if it excludes addresses that the new search does not: it was
        // for fewer bytes or a smaller alignment, or found no free range up to a later address.
        let says_more =
            |other: &Search| other.bytes < bytes || other.align < align || other.from > from;
        self.0.retain(says_more);
        if self.0.len() == SEARCHES_MAX {
            self.0.remove(0);
        }
        self.0.push(Search { bytes, align, from });
    }

    /// Makes all later searches begin at `from` or before, because addresses at `from` may have
    /// become free.
    fn begin_at(&mut self, from: usize) {
        self.0.iter_mut().for_each(|search| search.from = search.from.min(from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn regions_are_apart_and_all_addresses_return(
            steps in proptest::collection::vec(
                (1_usize..20 << 20, 12_u32..25, any::<bool>()), 0..100,
            ),
        ) {
            let all = SPACING..1 << 30;
            let mut arena = Arena::new(all.clone());
            let mut given: Vec<Range<usize>> = vec![];
            for (bytes, align, gives) in steps {
                if gives && !given.is_empty() {
                    let region = given.swap_remove(bytes % given.len());
                    arena.set(region, Owner::Free);
                    continue;
                }
                // Without the earlier searches, the arena must allocate the same addresses.
                let mut other = Arena {
                    small: Searches::new(),
                    growing: Searches::new(),
                    tight: Searches::new(),
                    ..arena.clone()
                };
                let found = arena.allocate(bytes, 1 << align);
                prop_assert_eq!(&found, &other.allocate(bytes, 1 << align));
                if let Some(region) = found {
                    prop_assert!(region.start.is_multiple_of(1 << align));
                    prop_assert!(all.start <= region.start && region.end + SPACING <= all.end);
                    let apart = |other: &Range<usize>| {
                        let is_small = region.len() < SPACING || other.len() < SPACING;
                        let between = if is_small { 0 } else { SPACING };
                        region.end + between <= other.start || other.end + between <= region.start
                    };
                    prop_assert!(given.iter().all(apart));
                    given.push(region);
                }
            }
            given.into_iter().for_each(|region| arena.set(region, Owner::Free));
            let whole = Some(SPACING..(1 << 30) - SPACING);
            prop_assert_eq!(arena.allocate(all.len() - SPACING, 1), whole);
        }

        #[test]
        fn every_page_has_its_last_owner(
            steps in proptest::collection::vec((0_usize..64, 1_usize..64, 0_u8..3), 0..50),
        ) {
            let mut arena = Arena::new(0..64 * PAGE_BYTES);
            let mut model = [Owner::Free; 64];
            for (first, pages, owner) in steps {
                let pages = first..(first + pages).min(64);
                let owner = [Owner::Free, Owner::Region, Owner::Foreign][usize::from(owner)];
                arena.set(pages.start * PAGE_BYTES..pages.end * PAGE_BYTES, owner);
                model[pages].fill(owner);
                let pieces = arena.pieces(0..64 * PAGE_BYTES);
                prop_assert!(pieces.windows(2).all(|two| two[0].1 != two[1].1), "{:?}", pieces);
                let found = pieces.into_iter().flat_map(|(range, owner)| {
                    std::iter::repeat_n(owner, range.len() / PAGE_BYTES)
                });
                prop_assert_eq!(found.collect::<Vec<_>>(), model.to_vec());
            }
        }
    }

    /// A search for a region begins at the last region of the same size instead of the first region
    /// of the arena.
    #[test]
    fn searches_begin_where_there_may_be_room() {
        let mut arena = Arena::new(0..10_000 * SPACING);
        let mut large = vec![];
        for _ in 0..500 {
            for bytes in [SPACING, 3 * SPACING] {
                let region = arena.allocate(bytes, 1).unwrap_or_default();
                assert_eq!(arena.growing.start(bytes, SPACING), region.start);
                large.push(region);
            }
        }
        assert_eq!(large.last().map(|it| it.len()), Some(3 * SPACING));
        // A freed region must be used again, although it is before the start of the search.
        arena.set(large[600].clone(), Owner::Free);
        assert_eq!(arena.allocate(SPACING, 1), Some(large[600].clone()));
    }

    #[test]
    fn small_regions_are_one_piece() {
        let mut arena = Arena::new(0..1000 * SPACING);
        let all: Vec<_> = (0..60).filter_map(|_| arena.allocate(SPACING / 2, 1)).collect();
        assert_eq!(all.len(), 60);
        let one = all[0].start..all[59].end;
        assert!(arena.regions().eq([one]), "they are one piece");
        assert!(!arena.grow(all[7].end, PAGE_BYTES), "over the next one");
        arena.set(all[7].clone(), Owner::Free);
        assert_eq!(arena.allocate(SPACING / 4, 1).map(|it| it.start), Some(all[7].start));
        let large = arena.allocate(SPACING, 1).map(|it| it.start);
        assert!(large > Some(all[0].start + SLAB) && large < Some(all[0].start + 3 * SLAB));
    }

    #[test]
    fn addresses_that_a_region_grew_into_are_not_allocated_again() {
        let mut arena = Arena::new(0..1000 * SPACING);
        let large = arena.allocate(SPACING, 1).map_or(0, |it| it.end);
        let small = [
            arena.allocate(PAGE_BYTES, 1),
            arena.allocate(SPACING / 2, 1),
            arena.allocate(SPACING / 2, 1),
        ];
        let small = small.map(Option::unwrap_or_default);
        arena.set(small[0].start..small[1].end, Owner::Free);
        let end = small[0].start + 4 * PAGE_BYTES;
        arena.set(large..end, Owner::Region);
        assert_eq!(arena.allocate(PAGE_BYTES, 1), Some(end..end + PAGE_BYTES));
    }

    #[test]
    fn a_region_grows_where_there_is_room() {
        let mut arena = Arena::new(0..100 * SPACING);
        let first = arena.allocate(4 * SPACING, 1);
        let second = arena.allocate(SPACING, 1);
        assert_eq!((first, second), (Some(0..4 * SPACING), Some(8 * SPACING..9 * SPACING)));
        assert!(arena.grow(4 * SPACING, 3 * SPACING), "up to the free one before the second");
        assert!(!arena.grow(7 * SPACING, PAGE_BYTES));
        assert!(!arena.grow(9 * SPACING, 91 * SPACING), "over the end");
        assert_eq!(arena.regions().collect::<Vec<_>>(), [0..7 * SPACING, 8 * SPACING..9 * SPACING]);
    }
}
