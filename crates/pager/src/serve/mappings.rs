//! What a program does to the addresses of regions, as it would to those that the kernel gave it.

use crate::{
    advice::Advice,
    page::PAGE_BYTES,
    pager::{Pager, Request, lock},
    serve::arena::Owner,
};
use std::{io, ops::Range};

impl Pager {
    /// All addresses that regions can have.
    pub fn addresses(&self) -> Range<usize> {
        self.shared.memory.addresses()
    }

    /// Whether some of these addresses are the pager's own: of regions, or of frames.
    pub fn is_own(&self, pages: &Range<usize>) -> bool {
        let own = [self.addresses(), self.shared.frames()];
        own.iter().any(|own| own.start < pages.end && pages.start < own.end)
    }

    /// The pages of all regions.
    pub fn regions(&self) -> Vec<Range<usize>> {
        lock(&self.shared.arena).regions().collect()
    }

    /// Whose pages are, in order.
    pub fn pieces(&self, pages: &Range<usize>) -> Vec<(Range<usize>, Owner)> {
        lock(&self.shared.arena).pieces(pages.clone())
    }

    /// Whether all pages are of regions.
    pub fn has_all(&self, pages: &Range<usize>) -> bool {
        self.pieces(pages).iter().all(|(_, owner)| *owner == Owner::Region)
    }

    /// Removes pages from whatever they are of, and waits until that is done.
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

    /// Makes pages part of a region, all of them zero, whatever they were before.
    ///
    /// # Errors
    /// What the kernel says about the protection.
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

    /// Leaves pages to the kernel: something else is about to be mapped there.
    pub fn leave(&self, pages: &Range<usize>) {
        for (piece, owner) in self.pieces(pages) {
            if owner == Owner::Region {
                self.remove(&piece);
            }
        }
        lock(&self.shared.arena).set(pages.clone(), Owner::Foreign);
    }

    /// Makes the region that ends at `end` longer where it is, and says whether it could.
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

    /// Says what may be done with pages of regions.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn protect(&self, pages: &Range<usize>, protection: u32) -> io::Result<()> {
        self.shared.protect(pages, protection)
    }

    /// Says something about pages of regions.
    pub fn advise(&self, pages: &Range<usize>, advice: Advice) {
        self.shared.ask(Request::Advise(self.shared.pages(pages), advice));
    }

    /// Keeps pages of regions in memory; `false` when that would be too many.
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

    /// Lets pages go that were to stay in memory.
    pub fn unpin(&self, pages: &Range<usize>) {
        lock(&self.shared.pinned).set(&self.shared.pages(pages), None);
        self.advise(pages, Advice::Unpin);
    }

    /// Says that a region, or a part of one, was given as the block at an address.
    pub fn set_block(&self, address: usize, region: Range<usize>) {
        lock(&self.shared.arena).set_block(address, Some(region));
    }

    /// The pages of the block that was given as this address.
    pub fn block(&self, address: usize) -> Option<Range<usize>> {
        lock(&self.shared.arena).block(address)
    }

    /// Gives back the block that was given as this address, soon.
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

    /// Discards pages of regions, which are of none any more.
    fn remove(&self, pages: &Range<usize>) {
        self.discard(pages);
        let numbers = self.shared.pages(pages);
        lock(&self.shared.pinned).set(&numbers, None);
        lock(&self.shared.inherit).set(&numbers, None);
        lock(&self.shared.asked).push(Request::Remove(numbers));
    }

    /// Pages that something else was mapped at are free again.
    fn take_back(&self, pages: &Range<usize>) {
        if self.shared.reserve_again(pages).is_ok() {
            lock(&self.shared.arena).set(pages.clone(), Owner::Free);
        }
    }
}
