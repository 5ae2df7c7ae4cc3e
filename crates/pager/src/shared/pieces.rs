//! The pieces of shared memory that one process has mapped.

use std::{collections::BTreeMap, ops::Range};

/// The mapped pieces of an address space, keyed by their addresses. A `page` is an address in the
/// range that the server has reserved. It identifies a page in all processes.
#[derive(Debug, Default)]
pub(super) struct MappedPieces(BTreeMap<usize, MappedPiece>);

#[derive(Clone, Copy, Debug)]
struct MappedPiece {
    end: usize,
    page: usize,
}

impl MappedPieces {
    /// Records that the pages from `page` on are mapped at `addresses`. They replace earlier pieces
    /// at these addresses.
    pub(super) fn insert(&mut self, addresses: &Range<usize>, page: usize) {
        self.remove(addresses);
        self.0.insert(addresses.start, MappedPiece { end: addresses.end, page });
    }

    /// Removes the pieces at `addresses`. Keeps the rest of a piece that is only partly in this
    /// range.
    pub(super) fn remove(&mut self, addresses: &Range<usize>) {
        for (part, page) in self.parts(addresses) {
            let Some((&start, &MappedPiece { end, page: first })) =
                self.0.range(..=part.start).next_back()
            else {
                continue;
            };
            self.0.remove(&start);
            if start < part.start {
                self.0.insert(start, MappedPiece { end: part.start, page: first });
            }
            if part.end < end {
                self.0.insert(part.end, MappedPiece { end, page: page + part.len() });
            }
        }
    }

    /// The parts of `addresses` at which pages are mapped, each with its first page.
    pub(super) fn parts(&self, addresses: &Range<usize>) -> Vec<(Range<usize>, usize)> {
        let over = self.0.range(..addresses.end).rev();
        let over = over.take_while(|(_, piece)| piece.end > addresses.start);
        let part = |(start, piece): (&usize, &MappedPiece)| {
            let first = addresses.start.max(*start);
            (first..addresses.end.min(piece.end), piece.page + (first - start))
        };
        over.map(part).filter(|(part, _)| !part.is_empty()).collect()
    }

    /// The ranges of addresses at which the address space maps some of `pages`.
    pub(super) fn addresses(&self, pages: &Range<usize>) -> Vec<Range<usize>> {
        let mapped = |(start, piece): (&usize, &MappedPiece)| {
            let first = pages.start.max(piece.page);
            let last = pages.end.min(piece.page + (piece.end - start));
            (first < last).then(|| start + (first - piece.page)..start + (last - piece.page))
        };
        self.0.iter().filter_map(mapped).collect()
    }

    /// True if the address space maps some of `pages`.
    pub(super) fn has_pages(&self, pages: &Range<usize>) -> bool {
        !self.addresses(pages).is_empty()
    }

    /// The page that is mapped at an address; `None` if no page is.
    pub(super) fn page(&self, address: usize) -> Option<usize> {
        self.parts(&(address..address + 1)).first().map(|(_, page)| *page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_address_has_its_last_mapping(
            steps in proptest::collection::vec(
                (0_usize..64, 1_usize..32, proptest::option::of(100_usize..200)), 0..40,
            ),
        ) {
            let mut pieces = MappedPieces::default();
            let mut model = [None; 64];
            for (start, length, page) in steps {
                let addresses = start..(start + length).min(64);
                match page {
                    Some(page) => pieces.insert(&addresses, page),
                    None => pieces.remove(&addresses),
                }
                for address in addresses.clone() {
                    model[address] = page.map(|page| page + (address - addresses.start));
                }
            }
            for (address, page) in model.iter().enumerate() {
                prop_assert_eq!(pieces.page(address), *page);
                prop_assert_eq!(pieces.parts(&(address..address + 1)).is_empty(), page.is_none());
            }
            for page in 100..232 {
                let addresses = pieces.addresses(&(page..page + 2));
                let mut found: Vec<usize> = addresses.into_iter().flatten().collect();
                found.sort_unstable();
                let has = |it: &Option<usize>| it.is_some_and(|it| (page..page + 2).contains(&it));
                let expected: Vec<usize> = (0..64).filter(|at| has(&model[*at])).collect();
                prop_assert_eq!(found, expected);
                prop_assert_eq!(pieces.has_pages(&(page..page + 2)), model.iter().any(has));
            }
        }
    }
}
