//! The addresses of regions: one reservation, from which pieces are taken and given back.

use std::{collections::BTreeMap, ops::Range};

/// Pieces are whole huge pages, one of which stays free behind each: no run goes from one to the
/// next.
const PIECE: usize = 2 << 20;

/// Which addresses are free.
#[derive(Clone, Debug)]
pub struct Arena {
    addresses: Range<usize>,
    /// Free pieces: where each ends, by where it begins.
    free: BTreeMap<usize, usize>,
    /// What was given, with as many bytes as were asked for.
    given: BTreeMap<usize, usize>,
}

impl Arena {
    /// All of `addresses`, free.
    pub fn new(addresses: Range<usize>) -> Self {
        let free = [(addresses.start, addresses.end)].into_iter().collect();
        Self { addresses, free, given: BTreeMap::new() }
    }

    /// Whether an address is in it.
    pub fn has(&self, address: usize) -> bool {
        self.addresses.contains(&address)
    }

    /// The addresses of a new region, aligned to `align`, a power of two; `None` when there is no
    /// room for it.
    pub fn take(&mut self, bytes: usize, align: usize) -> Option<Range<usize>> {
        let align = align.max(PIECE);
        let length = bytes.max(1).checked_next_multiple_of(PIECE)?.checked_add(PIECE)?;
        let fits = |(start, end): (&usize, &usize)| {
            let at = start.checked_next_multiple_of(align)?;
            (at.checked_add(length)? <= *end).then_some((*start, at, *end))
        };
        let (start, at, end) = self.free.iter().find_map(fits)?;
        self.free.remove(&start);
        if start < at {
            self.free.insert(start, at);
        }
        if at + length < end {
            self.free.insert(at + length, end);
        }
        self.given.insert(at, bytes);
        Some(at..at + bytes)
    }

    /// The region that begins at an address.
    pub fn region(&self, start: usize) -> Option<Range<usize>> {
        self.given.get(&start).map(|bytes| start..start + bytes)
    }

    /// Gives back the region that begins at an address.
    pub fn give(&mut self, start: usize) {
        let Some(bytes) = self.given.remove(&start) else { return };
        let (mut start, mut end) = (start, start + bytes.max(1).next_multiple_of(PIECE) + PIECE);
        if let Some((&before, &before_end)) = self.free.range(..start).next_back()
            && before_end == start
        {
            start = before;
        }
        if let Some(behind_end) = self.free.remove(&end) {
            end = behind_end;
        }
        self.free.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn regions_are_apart_and_all_comes_back(
            steps in proptest::collection::vec(
                (1_usize..20 << 20, 12_u32..25, any::<bool>()), 0..100,
            ),
        ) {
            let all = PIECE..1 << 30;
            let mut arena = Arena::new(all.clone());
            let mut given: Vec<Range<usize>> = vec![];
            for (bytes, align, gives) in steps {
                if gives && !given.is_empty() {
                    let region = given.swap_remove(bytes % given.len());
                    prop_assert_eq!(arena.region(region.start), Some(region.clone()));
                    arena.give(region.start);
                } else if let Some(region) = arena.take(bytes, 1 << align) {
                    prop_assert!(region.start.is_multiple_of(1 << align));
                    prop_assert!(all.start <= region.start && region.end + PIECE <= all.end);
                    let apart = |other: &Range<usize>| {
                        region.end + PIECE <= other.start || other.end + PIECE <= region.start
                    };
                    prop_assert!(given.iter().all(apart));
                    given.push(region);
                }
            }
            given.iter().for_each(|region| arena.give(region.start));
            prop_assert_eq!(arena.take(all.len() - PIECE, 1), Some(PIECE..(1 << 30) - PIECE));
        }
    }
}
