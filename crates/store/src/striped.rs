//! Striping: several files form one store, so that a large transfer keeps all drives busy.

use std::{iter, ops::Range};

/// The geometry of the stripes. Stripe n of the store is in the file with the index n modulo
/// `files`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripes {
    pub files: u64,
    /// Size of a stripe, bytes.
    pub bytes: u64,
}

/// The part of a range of the store that lies in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripePart {
    /// The index of the file.
    pub file: usize,
    /// Offset of the part in the file, bytes.
    pub offset: u64,
    /// The pieces of the range that are in this file, in order, as byte offsets in the whole store.
    /// In the file, the pieces follow each other without gaps.
    pub of: Vec<Range<u64>>,
}

impl Stripes {
    /// Splits a range of the store into one part for each file. One part suffices, because the
    /// stripes of the range that are in the same file are contiguous in this file.
    pub fn parts(&self, whole: Range<u64>) -> Vec<StripePart> {
        if self.files == 1 {
            return vec![StripePart {
                file: 0,
                offset: whole.start,
                of: iter::once(whole).collect(),
            }];
        }
        let mut parts: Vec<StripePart> = vec![];
        let mut at = whole.start;
        while at < whole.end {
            let (stripe, inside) = (at / self.bytes, at % self.bytes);
            let end = whole.end.min(at - inside + self.bytes);
            let file = (stripe % self.files) as usize;
            match parts.iter_mut().find(|part| part.file == file) {
                Some(part) => part.of.push(at..end),
                None => {
                    let offset = stripe / self.files * self.bytes + inside;
                    parts.push(StripePart { file, offset, of: iter::once(at..end).collect() });
                }
            }
            at = end;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn stripes_go_round() {
        let stripes = Stripes { files: 2, bytes: 100 };
        let part = |file, offset, of: &[(u64, u64)]| StripePart {
            file,
            offset,
            of: of.iter().map(|(start, end)| *start..*end).collect(),
        };
        let parts = stripes.parts(150..420);
        assert_eq!(
            parts,
            [part(1, 50, &[(150, 200), (300, 400)]), part(0, 100, &[(200, 300), (400, 420)])]
        );
        assert_eq!(Stripes { files: 1, bytes: 100 }.parts(7..900), [part(0, 7, &[(7, 900)])]);
    }

    proptest! {
        #[test]
        fn each_byte_is_in_one_place(files in 1_u64..5, start in 0_u64..64, bytes in 1_u64..200) {
            let stripes = Stripes { files, bytes: 8 };
            // Returns the file and the offset of each byte of a range. Both must be the same
            // whether the range is split as a whole or byte by byte.
            let place = |whole: Range<u64>| -> Vec<(u64, usize, u64)> {
                let flat = |part: StripePart| {
                    let bytes = part.of.into_iter().flatten().enumerate();
                    let place = move |(at, byte)| (byte, part.file, part.offset + at as u64);
                    bytes.map(place).collect::<Vec<_>>()
                };
                stripes.parts(whole).into_iter().flat_map(flat).collect()
            };
            let whole = place(start..start + bytes);
            let each = start..start + bytes;
            let single: BTreeSet<_> = each.flat_map(|at| place(at..at + 1)).collect();
            prop_assert_eq!(whole.iter().copied().collect::<BTreeSet<_>>(), single);
            let places: BTreeSet<_> = whole.iter().map(|(_, file, at)| (file, at)).collect();
            prop_assert_eq!(places.len() as u64, bytes);
        }
    }
}
