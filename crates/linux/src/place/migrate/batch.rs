//! A batch of pages of a process, and its division into units, whose pages migrate together.

use super::{
    area::Area,
    memory::Memory,
    plan::{PageLocation, Unit},
};
use crate::process::numa_maps::NodeBytes;
use interleaf_procfs::pagemap::ResidentPage;
use std::{io, ops::Range};

/// Maximum number of addresses in a call that locates pages. With so many addresses, the fixed cost
/// of a call is negligible.
const LOCATE_PAGES: usize = 1 << 14;

/// A page that was resident when `pagemap` was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) address: u64,
    /// The node of the page; `None` if the page is not located yet or is not resident any more.
    pub(super) node: Option<u32>,
    /// The index of the area (mapping) that contains the page.
    pub(super) area: usize,
    /// True when other processes map the page too.
    pub(super) is_shared: bool,
}

/// A batch of pages in order of their addresses.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) pages: Vec<Page>,
}

/// The units of a batch, with their pages. The pages of a unit migrate together.
#[derive(Debug, Default)]
pub(super) struct Units {
    pub(super) units: Vec<Unit>,
    /// For each unit of `units`, in the same order, the indices of its pages in the batch.
    pub(super) pages: Vec<Range<usize>>,
}

impl Batch {
    /// Appends the pages `found`, which are in the area (mapping) with the index `area`. Their
    /// addresses must be above all addresses that the batch has.
    pub(super) fn add(&mut self, area: usize, found: &[ResidentPage]) {
        let page = |found: &ResidentPage| {
            let ResidentPage { address, is_shared } = *found;
            Page { address, node: None, area, is_shared }
        };
        self.pages.extend(found.iter().map(page));
    }

    /// Finds the nodes of the pages of the batch with the indices `pages`.
    pub(super) fn locate(
        &mut self,
        memory: &mut impl Memory,
        pid: u32,
        pages: &[usize],
    ) -> io::Result<()> {
        for pages in pages.chunks(LOCATE_PAGES) {
            let addresses: Vec<u64> = pages.iter().map(|at| self.pages[*at].address).collect();
            // A page about which the kernel reports nothing counts as not resident.
            let mut status = vec![-1; addresses.len()];
            memory.locate(pid, &addresses, &mut status)?;
            for (at, status) in pages.iter().zip(status) {
                // The zero page (memory that was only read) has a negative status: not resident.
                self.pages[*at].node = u32::try_from(status).ok();
            }
        }
        Ok(())
    }

    /// Returns the bytes of the batch's pages on each node.
    pub(super) fn bytes(&self, areas: &[Area]) -> NodeBytes {
        let mut bytes = NodeBytes::default();
        for pages in self.pages.chunk_by(|a, b| (a.node, a.area) == (b.node, b.area)) {
            if let Page { node: Some(node), area, .. } = pages[0] {
                let sum = areas[area].page_bytes * pages.len() as u64;
                *bytes.0.entry(node).or_default() += sum;
            }
        }
        bytes
    }

    /// Divides the batch into units whose pages migrate together. A unit is a page, or, in an area
    /// with `unit_pages` above 1, an aligned block of `unit_pages` pages that are all resident on
    /// one node. `is_stuck` is true for the address of a page that failed to migrate.
    pub(super) fn units(
        &self,
        areas: &[Area],
        page_bytes: u64,
        is_stuck: impl Fn(u64) -> bool,
    ) -> Units {
        let mut all = Units::default();
        let mut at = 0;
        while at < self.pages.len() {
            let page = &self.pages[at];
            let area = &areas[page.area];
            let count = self.block(at, area);
            let pages = &self.pages[at..at + count];
            let stuck = || pages.iter().any(|page| page.is_shared) || is_stuck(page.address);
            let location = match page.node {
                None => PageLocation::NotResident,
                Some(node) if stuck() => PageLocation::Unmovable(node),
                Some(node) => PageLocation::OnNode(node),
            };
            let size = area.page_bytes / page_bytes * count as u64;
            let pages = u32::try_from(size).unwrap_or(u32::MAX);
            all.units.push(Unit { address: page.address, pages, location });
            all.pages.push(at..at + count);
            at += count;
        }
        all
    }

    /// Returns the number of pages, from the index `first` on, that migrate together.
    fn block(&self, first: usize, area: &Area) -> usize {
        let count = area.unit_pages as usize;
        let page = &self.pages[first];
        let aligned = page.address.is_multiple_of(area.page_bytes * count as u64);
        let Some(pages) = self.pages.get(first..first + count).filter(|_| aligned) else {
            return 1;
        };
        let last = pages[count - 1].address;
        // Pages are in order, so no page is missing if the last one has the expected address.
        let whole = last - page.address == area.page_bytes * (count as u64 - 1);
        if whole && pages.iter().all(|other| other.node == page.node) { count } else { 1 }
    }

    /// Returns the indices of the pages in the aligned block of `bytes` bytes that contains the
    /// page at the index `at`. Pages of other areas (mappings) are left out.
    pub(super) fn block_around(&self, at: usize, bytes: u64) -> Range<usize> {
        let Page { address, area, .. } = self.pages[at];
        let block = address / bytes;
        let within = |page: &&Page| page.area == area && page.address / bytes == block;
        let before = self.pages[..at].iter().rev().take_while(within).count();
        let behind = self.pages[at..].iter().take_while(within).count();
        at - before..at + behind
    }
}
