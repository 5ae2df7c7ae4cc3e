//! Pages that are looked at together, and what of them moves as one.

use super::{
    area::Area,
    memory::Memory,
    plan::{Place, Unit},
};
use crate::process::numa_maps::NodeBytes;
use interleaf_procfs::pagemap::ResidentPage;
use std::{io, ops::Range};

/// Addresses of one call that looks: enough that the call itself costs nothing.
const LOCATE_PAGES: usize = 1 << 14;

/// A page that is there, or was a moment ago.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// Its address.
    pub(super) address: u64,
    /// The node that it is on, when it is on one.
    pub(super) node: Option<u32>,
    /// Its area, by its place in the list.
    pub(super) area: usize,
    /// Whether other processes map it too.
    pub(super) is_shared: bool,
}

/// Pages in the order of their addresses.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The pages.
    pub(super) pages: Vec<Page>,
}

/// What moves as one, and the pages that it is of.
#[derive(Debug, Default)]
pub(super) struct Units {
    pub(super) units: Vec<Unit>,
    /// Of each unit, its pages by their place in the batch.
    pub(super) pages: Vec<Range<usize>>,
}

impl Batch {
    /// Adds pages of an area, which are behind all that there are.
    pub(super) fn add(&mut self, area: usize, found: &[ResidentPage]) {
        let page = |found: &ResidentPage| {
            let ResidentPage { address, is_shared } = *found;
            Page { address, node: None, area, is_shared }
        };
        self.pages.extend(found.iter().map(page));
    }

    /// Looks where some of the pages are.
    pub(super) fn locate(
        &mut self,
        memory: &mut impl Memory,
        pid: u32,
        pages: &[usize],
    ) -> io::Result<()> {
        for pages in pages.chunks(LOCATE_PAGES) {
            let addresses: Vec<u64> = pages.iter().map(|at| self.pages[*at].address).collect();
            // What the kernel does not come to is nowhere.
            let mut status = vec![-1; addresses.len()];
            memory.locate(pid, &addresses, &mut status)?;
            for (at, status) in pages.iter().zip(status) {
                // The zero page, which stands for all that was only read, is on no node here.
                self.pages[*at].node = u32::try_from(status).ok();
            }
        }
        Ok(())
    }

    /// How much is on each node, bytes.
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

    /// What moves as one: a page, or where huge ones are a whole block of addresses whose pages
    /// are all there, on one node.
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
            let place = match page.node {
                None => Place::Absent,
                Some(node) if stuck() => Place::Stuck(node),
                Some(node) => Place::On(node),
            };
            let size = area.page_bytes / page_bytes * count as u64;
            let pages = u32::try_from(size).unwrap_or(u32::MAX);
            all.units.push(Unit { address: page.address, pages, place });
            all.pages.push(at..at + count);
            at += count;
        }
        all
    }

    /// How many pages from `first` on move as one.
    fn block(&self, first: usize, area: &Area) -> usize {
        let count = area.unit_pages as usize;
        let page = &self.pages[first];
        let aligned = page.address.is_multiple_of(area.page_bytes * count as u64);
        let Some(pages) = self.pages.get(first..first + count).filter(|_| aligned) else {
            return 1;
        };
        let last = pages[count - 1].address;
        // They are in order, so that when the last is where it should be, none is missing.
        let whole = last - page.address == area.page_bytes * (count as u64 - 1);
        if whole && pages.iter().all(|other| other.node == page.node) { count } else { 1 }
    }

    /// The pages of an area in the aligned block of `bytes` in which the page `at` is.
    pub(super) fn block_around(&self, at: usize, bytes: u64) -> Range<usize> {
        let Page { address, area, .. } = self.pages[at];
        let block = address / bytes;
        let within = |page: &&Page| page.area == area && page.address / bytes == block;
        let before = self.pages[..at].iter().rev().take_while(within).count();
        let behind = self.pages[at..].iter().take_while(within).count();
        at - before..at + behind
    }
}
