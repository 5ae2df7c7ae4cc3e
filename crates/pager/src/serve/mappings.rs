//! Operations on ranges of the pager's addresses. The preloaded library needs them for its
//! `mmap(2)`, `munmap(2)`, `mremap(2)`, `mprotect(2)`, `madvise(2)` and `mlock(2)`, and for the
//! blocks of `malloc(3)`.

use crate::{
    pager::Pager,
    ranges::Ranges,
    serve::{
        arena::Owner,
        context::{Inherit, Request},
    },
};
use interleaf_prefetch::{advice::Advice, page::Page};
use interleaf_procfs::page::PAGE_BYTES;
use interleaf_thread::lock;
use std::{io, ops::Range};

impl Pager {
    /// The address range that the pager reserves, in which all regions are.
    pub fn addresses(&self) -> Range<usize> {
        self.context.memory.addresses()
    }

    /// True if some of the addresses `pages` belong to the pager: to the range that it reserves for
    /// regions, or to frames.
    pub fn overlaps_pager(&self, pages: &Range<usize>) -> bool {
        let ranges = [self.addresses(), self.context.frames()];
        ranges.iter().any(|own| own.start < pages.end && pages.start < own.end)
    }

    /// The address ranges of all regions, in ascending order.
    pub fn regions(&self) -> Vec<Range<usize>> {
        lock(&self.context.arena).regions().collect()
    }

    /// The pieces of a range of pages in ascending order. Each piece has one owner.
    pub fn pieces(&self, pages: &Range<usize>) -> Vec<(Range<usize>, Owner)> {
        lock(&self.context.arena).pieces(pages.clone())
    }

    /// True if all of `pages` belong to regions.
    pub fn are_of_regions(&self, pages: &Range<usize>) -> bool {
        self.pieces(pages).iter().all(|(_, owner)| *owner == Owner::Region)
    }

    /// Unmaps pages, which may have any owner, and waits until they are unmapped.
    ///
    /// # Errors
    /// When the kernel refuses to unmap memory that the program has mapped. This memory then stays
    /// mapped.
    pub fn unmap(&self, pages: &Range<usize>) -> io::Result<()> {
        for (piece, owner) in self.pieces(pages) {
            match owner {
                Owner::Free => {}
                Owner::Region => {
                    self.remove(&piece);
                    self.context.release(&piece);
                }
                Owner::Foreign => self.reclaim(&piece)?,
            }
        }
        Ok(())
    }

    /// Turns `pages`, which may have any owner, into pages of a region that read as zeros.
    ///
    /// # Errors
    /// When the kernel refuses the protection, or refuses to unmap memory that the program has
    /// mapped. The pages of regions then keep their content.
    pub fn map(&self, pages: &Range<usize>, protection: u32) -> io::Result<()> {
        // First make the calls that the kernel may refuse.
        for (piece, owner) in self.pieces(pages) {
            if owner == Owner::Foreign {
                self.reclaim(&piece)?;
            }
            self.context.protect(&piece, protection)?;
        }
        for (piece, owner) in self.pieces(pages) {
            if owner == Owner::Region {
                // The old pages' advice, pins, and treatment in a forked child must not apply to
                // the new pages. Therefore remove the pages from their region, and add them again.
                // Add them before the discard: after the discard, another thread may fault on the
                // pages, and their region must exist then.
                let numbers = self.context.pages(&piece);
                self.context.forget_advice(&numbers);
                self.context.queue(Request::Remove(numbers.clone()));
                self.context.queue(Request::Add(numbers));
                self.discard(&piece);
                continue;
            }
            lock(&self.context.arena).set(piece.clone(), Owner::Region);
            self.context.queue(Request::Add(self.context.pages(&piece)));
        }
        Ok(())
    }

    /// Removes pages from their regions and marks them as foreign. The caller is about to map other
    /// memory at these addresses.
    pub fn leave_to_kernel(&self, pages: &Range<usize>) {
        for (piece, owner) in self.pieces(pages) {
            if owner == Owner::Region {
                self.remove(&piece);
            }
        }
        lock(&self.context.arena).set(pages.clone(), Owner::Foreign);
    }

    /// Extends the region that ends at `end` by `bytes`, at the same address. Returns true on
    /// success.
    pub fn grow(&self, end: usize, bytes: usize, protection: u32) -> bool {
        let Some(bytes) = bytes.checked_next_multiple_of(PAGE_BYTES) else { return false };
        if !lock(&self.context.arena).grow(end, bytes) {
            return false;
        }
        let pages = end..end + bytes;
        if self.context.protect(&pages, protection).is_err() {
            lock(&self.context.arena).set(pages, Owner::Free);
            return false;
        }
        self.context.queue(Request::Add(self.context.pages(&pages)));
        true
    }

    /// Sets the protection (bits of `PROT_...`) of `pages`, which belong to regions.
    ///
    /// # Errors
    /// When the kernel refuses the new protection.
    pub fn protect(&self, pages: &Range<usize>, protection: u32) -> io::Result<()> {
        self.context.protect(pages, protection)
    }

    /// Passes the program's advice about `pages`, which belong to regions, to the pager.
    pub fn advise(&self, pages: &Range<usize>, advice: Advice) {
        self.context.send(Request::Advise(
            self.context.pages(pages),
            advice,
            self.context.node_here(),
        ));
    }

    /// Pins in DRAM the pages of all `ranges`, which belong to regions, or none of them if too many
    /// pages would be pinned. Returns true if the pages are pinned.
    pub fn pin(&self, ranges: &[Range<usize>]) -> bool {
        {
            let mut pinned = lock(&self.context.pinned);
            let before = pinned.clone();
            for pages in ranges {
                pinned.set(&self.context.pages(pages), Some(()));
            }
            let count: u64 = pinned.iter().map(|(pages, ())| pages.end - pages.start).sum();
            if count > self.context.pinned_max {
                *pinned = before;
                return false;
            }
        }
        ranges.iter().for_each(|pages| self.advise(pages, Advice::Pin));
        true
    }

    /// Ends the pins of `pages`, which belong to regions.
    pub fn unpin(&self, pages: &Range<usize>) {
        lock(&self.context.pinned).set(&self.context.pages(pages), None);
        self.advise(pages, Advice::Unpin);
    }

    /// Returns how the pages at `to` are treated in a forked child after `mremap(2)` has moved the
    /// mapping `from`, which is in regions, to `to`. Pages that `to` has in addition are treated
    /// like the last page of `from`.
    pub fn moved_inherit(
        &self,
        from: &Range<usize>,
        to: &Range<usize>,
    ) -> Vec<(Range<usize>, Inherit)> {
        self.moved(&lock(&self.context.inherit), from, to)
    }

    /// The pinned ranges at `to` after `mremap(2)` has moved the mapping `from`, which is in
    /// regions, to `to`. Pages that `to` has in addition are pinned if the last page of `from` is
    /// pinned. They are then a range of their own.
    pub fn moved_pins(&self, from: &Range<usize>, to: &Range<usize>) -> Vec<Range<usize>> {
        let moved = self.moved(&lock(&self.context.pinned), from, to);
        moved.into_iter().map(|(pages, ())| pages).collect()
    }

    /// Returns the values of the pages at `to` after `mremap(2)` has moved the mapping `from` to
    /// `to`. `values` has the values before the move. The mapping `to` may be outside of all
    /// regions.
    fn moved<T: Copy>(
        &self,
        values: &Ranges<T>,
        from: &Range<usize>,
        to: &Range<usize>,
    ) -> Vec<(Range<usize>, T)> {
        let from = self.context.pages(from);
        let in_place = from.start..from.start + (to.len() / PAGE_BYTES) as Page;
        let address = |page: Page| to.start + (page - from.start) as usize * PAGE_BYTES;
        let moved = values.moved(&from, &in_place).into_iter();
        moved.map(|(pages, value)| (address(pages.start)..address(pages.end), value)).collect()
    }

    /// Records the pages of the block that the program has allocated at `address`. They are a
    /// region, or a part of a region.
    pub fn set_block(&self, address: usize, region: Range<usize>) {
        lock(&self.context.arena).set_block(address, Some(region));
    }

    /// The pages of the block that the program has allocated at `address`.
    pub fn block(&self, address: usize) -> Option<Range<usize>> {
        lock(&self.context.arena).block(address)
    }

    /// Frees the block that the program has allocated at `address`. The pager later reuses the
    /// addresses of its pages.
    pub fn free_block(&self, address: usize) {
        let block = {
            let mut arena = lock(&self.context.arena);
            let block = arena.block(address);
            arena.set_block(address, None);
            block
        };
        if let Some(pages) = block {
            self.free(&pages);
        }
    }

    /// Removes pages from their regions, and discards their content.
    fn remove(&self, pages: &Range<usize>) {
        let numbers = self.context.pages(pages);
        self.context.forget_advice(&numbers);
        // Remove the pages from their region before the discard. Otherwise a prefetch could load
        // them again after the discard. An eviction of the loaded pages would then unmap other
        // memory that the program may have mapped at the same addresses.
        self.context.queue(Request::Remove(numbers));
        self.discard(pages);
    }

    /// Reserves addresses for the pager again, and removes the mapping that the program has made at
    /// these addresses.
    fn reclaim(&self, pages: &Range<usize>) -> io::Result<()> {
        self.context.reserve_again(pages)?;
        lock(&self.context.arena).set(pages.clone(), Owner::Free);
        Ok(())
    }
}
