//! Links a ring of pointers in memory: each linked word holds the address of the next linked word.
//! A pointer chase follows the ring.

#![expect(unsafe_code, reason = "a pointer that was loaded is followed, in a timed loop")]

use crate::region::Region;
use std::{arch::asm, marker::PhantomData};

/// The number of loads in one iteration of the loop that follows the ring. With this number, the
/// branch of the loop adds about 1 % to the latency of hits in the first-level cache, and is
/// negligible for loads from memory.
pub const UNROLL: u64 = 128;

/// A region in which linked words form a ring of addresses.
///
/// Invariant: each word at a linked slot holds the address of a linked slot.
#[derive(Debug)]
pub struct Ring {
    region: Region,
    stride: usize,
    /// The number of words from the start of the region to the last linked word, inclusive.
    extent: usize,
}

/// A position in a ring: the address of a slot, whose word holds the address of the next slot. The
/// ring is borrowed for `'r`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor<'r> {
    address: *const u64,
    ring: PhantomData<&'r Ring>,
}

impl<'r> Cursor<'r> {
    /// Returns the address of the slot under the cursor.
    pub(crate) const fn address(self) -> *const u64 {
        self.address
    }

    /// Returns the cursor at `address`, the address that the word under `self` holds.
    ///
    /// # Safety
    ///
    /// `address` was loaded from the word under a cursor of the same ring.
    pub(crate) const unsafe fn moved(self, address: *const u64) -> Self {
        Self { address, ring: PhantomData }
    }
}

impl Ring {
    /// Makes a ring without linked slots.
    pub const fn new(region: Region) -> Self {
        Self { region, stride: 8, extent: 0 }
    }

    pub const fn region(&self) -> &Region {
        &self.region
    }

    /// Links the slots `order` one after the other, and the last slot to the first. Slot `n` begins
    /// `n * stride` bytes after the start of the region. Earlier links are removed.
    ///
    /// # Panics
    /// When the stride is not a multiple of the word size, or a slot is not in the region.
    pub fn link(&mut self, order: &[u32], stride: usize) {
        assert!(stride > 0 && stride.is_multiple_of(8), "slots hold whole words");
        self.stride = stride;
        let start = self.region.start() as usize;
        let words = self.region.words_mut();
        // The value 1 marks a word that is not linked. Words of earlier links are set to 1, so that
        // `at` returns no cursor on them.
        words[..self.extent].fill(1);
        self.extent = 0;
        let Some(&first) = order.first() else { return };
        let nexts = order.iter().skip(1).chain([&first]);
        for (&slot, &next) in order.iter().zip(nexts) {
            let offset = next as usize * stride;
            assert!(offset / 8 < words.len(), "a slot beyond the region");
            let word = slot as usize * stride / 8;
            words[word] = (start + offset) as u64;
            self.extent = self.extent.max(word + 1);
        }
    }

    /// Returns a cursor on `slot`; `None` if the slot is not linked.
    pub fn at(&self, slot: u32) -> Option<Cursor<'_>> {
        let word = self.region.words().get(slot as usize * self.stride / 8)?;
        (*word != 1).then_some(Cursor { address: word, ring: PhantomData })
    }

    /// Returns the slot under a cursor.
    pub fn slot(&self, cursor: Cursor<'_>) -> u32 {
        ((cursor.address as usize - self.region.start() as usize) / self.stride) as u32
    }

    /// Follows the ring from `from` for `rounds` times [`UNROLL`] loads, and returns the position
    /// after the last load. Each load depends on the load before.
    pub fn walk<'r>(&'r self, from: Cursor<'r>, rounds: u64) -> Cursor<'r> {
        if rounds == 0 {
            return from;
        }
        let mut at = from.address;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a cursor is on a linked slot, and each linked slot holds the address of a linked
        // slot of the same mapping, which is alive and initialised; the loop only reads.
        unsafe {
            asm!(
                "2:",
                ".rept {unroll}",
                "mov {at}, qword ptr [{at}]",
                ".endr",
                "dec {rounds}",
                "jnz 2b",
                unroll = const UNROLL,
                at = inout(reg) at,
                rounds = inout(reg) rounds => _,
                options(nostack, readonly),
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: a cursor is on a linked slot, and each linked slot holds the address of a linked
        // slot of the same mapping, which is alive and initialised; the loop only reads.
        unsafe {
            asm!(
                "2:",
                ".rept {unroll}",
                "ldr {at}, [{at}]",
                ".endr",
                "subs {rounds}, {rounds}, #1",
                "b.ne 2b",
                unroll = const UNROLL,
                at = inout(reg) at,
                rounds = inout(reg) rounds => _,
                options(nostack, readonly),
            );
        }
        Cursor { address: at, ring: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::region::Pages;
    use interleaf_linux::place::mempolicy::Policy;

    #[test]
    fn a_walk_ends_where_the_ring_leads() {
        let mut ring = Ring::new(Region::new(1, Pages::Small, &Policy::Default).unwrap());
        assert_eq!(ring.at(0), None, "nothing is linked yet");
        ring.link(&[2, 0, 7], 64);
        let from = ring.at(2).unwrap();
        for rounds in 0..4 {
            let steps = (rounds * UNROLL) as usize;
            assert_eq!(ring.slot(ring.walk(from, rounds)), [2, 0, 7][steps % 3]);
        }
        assert_eq!((ring.at(1), ring.at(u32::MAX)), (None, None));
        ring.link(&[1], 64);
        assert_eq!(ring.at(2), None, "the ring before is gone");
        assert_eq!(ring.slot(ring.walk(ring.at(1).unwrap(), 1)), 1);
    }
}
