//! Changes of the address space in the range of the pager: `mmap(2)`, `munmap(2)`, `mprotect(2)`,
//! `madvise(2)` and `mlock(2)` on regions.

use crate::{
    advice::Advice,
    page::PAGE_BYTES,
    pager::{Pager, Request, lock},
    serve::arena::Owner,
};
use std::{io, ops::Range};

impl Pager {
    /// The address range of all regions.
    pub fn addresses(&self) -> Range<usize> {
        self.shared.memory.addresses()
    }

    /// Whether some of these addresses belong to the pager: to regions, or to frames.
    pub fn is_own(&self, pages: &Range<usize>) -> bool {
        let own = [self.addresses(), self.shared.frames()];
        own.iter().any(|own| own.start < pages.end && pages.start < own.end)
    }

    /// The pages of all regions.
    pub fn regions(&self) -> Vec<Range<usize>> {
        lock(&self.shared.arena).regions().collect()
    }

    /// The owners of pages, in order.
    pub fn pieces(&self, pages: &Range<usize>) -> Vec<(Range<usize>, Owner)> {
        lock(&self.shared.arena).pieces(pages.clone())
    }

    /// Whether all pages belong to regions.
    pub fn has_all(&self, pages: &Range<usize>) -> bool {
        self.pieces(pages).iter().all(|(_, owner)| *owner == Owner::Region)
    }

    /// Unmaps pages of any owner, and waits until that is done.
    pub fn unmap(&self, pages: &Range<usize>) {
        for (piece, owner) in self.pieces(pages) {
            match owner {
                Owner::Free => {}
                Owner::Region => {
                    self.remove(&piece);
                    self.shared.release(&piece);
                }
                Owner::Foreign => self.take_back(&piece),
            }
        }
    }

    /// Makes pages part of a region, all of them zero, whatever their owner was.
    ///
    /// # Errors
    /// When the kernel refuses the protection.
    pub fn map(&self, pages: &Range<usize>, protection: u32) -> io::Result<()> {
        for (piece, owner) in self.pieces(pages) {
            match owner {
                Owner::Region => {
                    self.discard(&piece);
                    continue;
                }
                Owner::Foreign => self.take_back(&piece),
                Owner::Free => {}
            }
            lock(&self.shared.arena).set(piece.clone(), Owner::Region);
            lock(&self.shared.asked).push(Request::Add(self.shared.pages(&piece)));
        }
        self.shared.protect(pages, protection)
    }

    /// Leaves pages to the kernel: the caller is about to map something else there.
    pub fn leave(&self, pages: &Range<usize>) {
        for (piece, owner) in self.pieces(pages) {
            if owner == Owner::Region {
                self.remove(&piece);
            }
        }
        lock(&self.shared.arena).set(pages.clone(), Owner::Foreign);
    }

    /// Extends the region that ends at `end` in place. Returns whether that was possible.
    pub fn grow(&self, end: usize, bytes: usize, protection: u32) -> bool {
        let Some(bytes) = bytes.checked_next_multiple_of(PAGE_BYTES) else { return false };
        if !lock(&self.shared.arena).grow(end, bytes) {
            return false;
        }
        let pages = end..end + bytes;
        if self.shared.protect(&pages, protection).is_err() {
            lock(&self.shared.arena).set(pages, Owner::Free);
            return false;
        }
        lock(&self.shared.asked).push(Request::Add(self.shared.pages(&pages)));
        true
    }

    /// Sets the protection of pages of regions.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn protect(&self, pages: &Range<usize>, protection: u32) -> io::Result<()> {
        self.shared.protect(pages, protection)
    }

    /// Passes the program's advice about pages of regions to the pager.
    pub fn advise(&self, pages: &Range<usize>, advice: Advice) {
        self.shared.ask(Request::Advise(self.shared.pages(pages), advice));
    }

    /// Pins pages of regions in memory; `false` when too many would be pinned.
    pub fn pin(&self, pages: &Range<usize>) -> bool {
        let numbers = self.shared.pages(pages);
        {
            let mut pinned = lock(&self.shared.pinned);
            let before = pinned.clone();
            pinned.set(&numbers, Some(()));
            let count: u64 = pinned.iter().map(|(pages, ())| pages.end - pages.start).sum();
            if count > self.shared.pinned_max {
                *pinned = before;
                return false;
            }
        }
        self.advise(pages, Advice::Pin);
        true
    }

    /// Unpins pages of regions.
    pub fn unpin(&self, pages: &Range<usize>) {
        lock(&self.shared.pinned).set(&self.shared.pages(pages), None);
        self.advise(pages, Advice::Unpin);
    }

    /// Records that a region, or a part of one, is the block at an address.
    pub fn set_block(&self, address: usize, region: Range<usize>) {
        lock(&self.shared.arena).set_block(address, Some(region));
    }

    /// The pages of the block at this address.
    pub fn block(&self, address: usize) -> Option<Range<usize>> {
        lock(&self.shared.arena).block(address)
    }

    /// Frees the block at this address; its pages are reused later.
    pub fn give_block(&self, address: usize) {
        let block = {
            let mut arena = lock(&self.shared.arena);
            let block = arena.block(address);
            arena.set_block(address, None);
            block
        };
        if let Some(pages) = block {
            self.give(pages);
        }
    }

    /// Discards pages, and takes them out of their regions.
    fn remove(&self, pages: &Range<usize>) {
        self.discard(pages);
        let numbers = self.shared.pages(pages);
        lock(&self.shared.pinned).set(&numbers, None);
        lock(&self.shared.inherit).set(&numbers, None);
        lock(&self.shared.asked).push(Request::Remove(numbers));
    }

    /// Reserves pages again that something else was mapped at.
    fn take_back(&self, pages: &Range<usize>) {
        if self.shared.reserve_again(pages).is_ok() {
            lock(&self.shared.arena).set(pages.clone(), Owner::Free);
        }
    }
}
