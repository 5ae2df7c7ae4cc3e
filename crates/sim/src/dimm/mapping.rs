//! Maps line addresses to banks, rows and columns.
//!
//! Each line of a sub-channel has an index, whose bits are called address bits. The low bits select
//! pseudo-channel, rank, group, bank and column, in the order of the layout; the bits above them
//! are the row. Each bit of pseudo-channel, rank, group and bank is the XOR of the address bits in
//! a mask. Each mask has one bit below the row that no other mask has, so no two lines share a
//! location. Each mask also has two bits of the row, so neighbouring rows are in different banks.
//!
//! Consecutive chunks of lines are on consecutive sub-channels, over all channels ([`deal`]). The
//! number of sub-channels need not be a power of two.

use super::{device::Device, traffic::Location};

/// A component of the DRAM location of a line, without the row. Each address bit below the row bits
/// belongs to one component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Pseudo,
    Rank,
    Group,
    Bank,
    Column,
}

/// The order of the address bits of a line, from the lowest: the column bits of neighbouring lines
/// in one row; bank group; pseudo-channel; rank and bank (or bank and rank, see `banks_first`); the
/// other column bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Base-2 logarithm of the number of neighbouring lines in one row. If this number exceeds the
    /// lines of a row, whole rows are filled.
    pub neighbours_log2: u32,
    /// True if bank bits are below rank bits: consecutive lines use all banks of a rank before the
    /// next rank, so the data bus switches ranks less often.
    pub banks_first: bool,
}

impl Layout {
    /// The layout of Intel's servers: pairs of neighbouring lines are in one row.
    pub const XEON: Self = Self { neighbours_log2: 1, banks_first: false };
    /// Lines fill a whole row, then continue in another bank.
    pub const ROW_BY_ROW: Self = Self { neighbours_log2: 16, banks_first: false };
}

/// Maps the lines of one sub-channel to banks, rows and columns.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// For each bit of bank, group and rank, the mask of the address bits whose XOR is this bit,
    /// low bits first. The masks of the pseudo-channel follow.
    masks: [u64; 12],
    /// The number of masks at the start of `masks` that select the bank number (bank, group and
    /// rank).
    selects: usize,
    pseudo_bits: u32,
    /// The column bits are two ranges of consecutive address bits. Each entry has the first address
    /// bit of a range, the number of bits, and the first column bit.
    columns: [(u32, u32, u32); 2],
    row_shift: u32,
    lines: u64,
}

impl Mapping {
    /// Creates the mapping of a sub-channel of `device`.
    pub fn new(device: &Device, layout: Layout) -> Self {
        // All counts are powers of two: the reader of device files refuses other counts.
        let bits = |count: u32| count.trailing_zeros();
        let pseudo = bits(device.pseudo_channels);
        let (rank, group) = (bits(device.ranks), bits(device.bank_groups));
        let (bank, column) = (bits(device.banks), bits(device.columns));
        let run = |field: Field, count: u32| core::iter::repeat_n(field, count as usize);
        let low = layout.neighbours_log2.min(column);
        let (ranks, banks) = ((Field::Rank, rank), (Field::Bank, bank));
        let (first, second) = if layout.banks_first { (banks, ranks) } else { (ranks, banks) };
        let order: Vec<Field> = run(Field::Column, low)
            .chain(run(Field::Group, group))
            .chain(run(Field::Pseudo, pseudo))
            .chain(run(first.0, first.1))
            .chain(run(second.0, second.1))
            .chain(run(Field::Column, column - low))
            .collect();
        let row_shift = order.len() as u32;
        let mut masks = [0; 12];
        let mut selects = 0;
        // The masks are in the order of the bits of a bank number: bank lowest, then group, then
        // rank. The masks of the pseudo-channel come last.
        let mut hash = 0;
        for field in [Field::Bank, Field::Group, Field::Rank, Field::Pseudo] {
            for (bit, _) in order.iter().enumerate().filter(|(_, of)| **of == field) {
                // Each mask has two bits of the row: a low bit, and the bit 8 places higher.
                let row = 1 << (row_shift + hash) | 1 << (row_shift + hash + 8);
                masks[selects] = 1 << bit | row;
                selects += 1;
                hash += 1;
            }
        }
        let first_high = row_shift - (column - low);
        Self {
            masks,
            selects: selects - pseudo as usize,
            pseudo_bits: pseudo,
            columns: [(0, low, 0), (first_high, column - low, low)],
            row_shift,
            lines: device.bursts(),
        }
    }

    /// Returns the number of lines of the sub-channel.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the location of the line with index `line`, taken modulo the number of lines.
    #[inline]
    pub fn location(&self, line: u64) -> Location {
        let line = if line < self.lines { line } else { line % self.lines };
        let bit = |mask: u64| (line & mask).count_ones() & 1;
        let mut bank = 0;
        for (at, mask) in self.masks[..self.selects].iter().enumerate() {
            bank |= bit(*mask) << at;
        }
        let pseudo = if self.pseudo_bits == 0 { 0 } else { bit(self.masks[self.selects]) };
        let mut column = 0;
        for (from, count, to) in self.columns {
            column |= ((line >> from) & ((1 << count) - 1)) << to;
        }
        Location {
            pseudo: pseudo as u8,
            bank: bank as u8,
            column: column as u16,
            row: (line >> self.row_shift) as u32,
        }
    }
}

/// Returns the index of the sub-channel that has the line `line` of the whole memory, and the
/// line's index within this sub-channel. Consecutive chunks of `chunk` lines are on consecutive
/// sub-channels, of which there are `parts`.
pub fn deal(line: u64, parts: u64, chunk: u64) -> (u64, u64) {
    let (number, within) = (line / chunk, line % chunk);
    (number % parts, number / parts * chunk + within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimm::device::{Options, names};
    use std::collections::BTreeSet;

    #[test]
    fn every_line_has_a_place_of_its_own() {
        for name in names() {
            let device = Device::by_name(&name, &Options::default()).unwrap();
            for layout in [Layout::XEON, Layout::ROW_BY_ROW] {
                let mapping = Mapping::new(&device, layout);
                let low = 1 << (mapping.row_shift + 2);
                let locations: BTreeSet<_> = (0..low)
                    .map(|line| {
                        let location = mapping.location(line);
                        assert!(u32::from(location.pseudo) < device.pseudo_channels);
                        assert!(u32::from(location.bank) < device.ranks * device.banks_of_rank());
                        assert!(u32::from(location.column) < device.columns);
                        (location.pseudo, location.bank, location.row, location.column)
                    })
                    .collect();
                assert_eq!(locations.len() as u64, low, "{name}");
                assert!(mapping.location(mapping.lines() - 1).row < device.rows);
            }
        }
    }

    #[test]
    fn lines_are_interleaved_over_any_number_of_channels() {
        let mut seen = BTreeSet::new();
        for line in 0..24 * 4 * 10 {
            let (part, local) = deal(line, 24, 4);
            assert!(part < 24 && local < 40);
            seen.insert((part, local));
        }
        assert_eq!(seen.len(), 960);
    }
}
