//! Parses the bit positions of an event's fields. The kernel lists these positions in the folder
//! `format/` of a PMU, for example `config:0-7,32-35`.
//!
//! The lowest bits of a value go to the first range, the next bits to the second range. With
//! `config:8-15,32-63` the value 0x10c8178201 is 0x01 in bits 8 to 15 and 0x10c81782 from bit 32.

/// Number of configuration words of an event: `config`, `config1`, `config2`.
pub const WORDS: usize = 3;

/// The position of an event's field in the configuration words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The index of the configuration word: 0 is `config`, 1 is `config1`, and 2 is `config2`.
    word: usize,
    /// The bits of the field as ranges with both ends included. The first range has the lowest bits
    /// of a value.
    ranges: Vec<(u32, u32)>,
}

impl Field {
    /// Parses the kernel's notation, such as `config:0-7,32-35`. Returns `None` for an unknown
    /// configuration word or an invalid range of bits.
    pub fn parse(text: &str) -> Option<Self> {
        let (word, ranges) = text.trim().split_once(':')?;
        let word = match word {
            "config" => 0,
            "config1" => 1,
            "config2" => 2,
            _ => return None,
        };
        let range = |text: &str| -> Option<(u32, u32)> {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let range = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (range.0 <= range.1 && range.1 < u64::BITS).then_some(range)
        };
        let ranges: Vec<(u32, u32)> = ranges.split(',').map(range).collect::<Option<_>>()?;
        let bits: u32 = ranges.iter().map(|(first, last)| last - first + 1).sum();
        (bits <= u64::BITS).then_some(Self { word, ranges })
    }

    /// Returns the width of the field in bits, 1 to 64.
    pub fn bits(&self) -> u32 {
        self.ranges.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Inserts `value` into the bits of the field in `words`. Returns false if the value does not
    /// fit into the field; `words` then stays unchanged.
    pub fn encode(&self, value: u64, words: &mut [u64; WORDS]) -> bool {
        if self.bits() < u64::BITS && value >> self.bits() != 0 {
            return false;
        }
        let mut left = value;
        for (first, last) in &self.ranges {
            let count = last - first + 1;
            let mask = mask(count);
            words[self.word] |= (left & mask) << first;
            left = if count < u64::BITS { left >> count } else { 0 };
        }
        true
    }

    /// Extracts the value of the field from the configuration words of an event.
    pub fn get(&self, words: &[u64; WORDS]) -> u64 {
        let (mut value, mut at) = (0, 0);
        for (first, last) in &self.ranges {
            let count = last - first + 1;
            value |= ((words[self.word] >> first) & mask(count)) << at;
            at = (at + count) % u64::BITS;
        }
        value
    }
}

/// Returns a mask of the lowest `count` bits, 1 to 64.
fn mask(count: u32) -> u64 {
    u64::MAX >> (u64::BITS - count)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        // Each row has a format from Linux, the value of the field, and the words that must result,
        // which were calculated by hand.
        let table = [
            ("config:0-7", 0x05, [0x05, 0, 0]),
            ("config:8-15", 0xcf, [0xcf00, 0, 0]),
            ("config:8-15,32-63", 0x10_c817_8201, [0x10c8_1782_0000_0100, 0, 0]),
            ("config:0-7,32-37", 0xd5f, [0x0000_000d_0000_005f, 0, 0]),
            ("config:8-15,24-27", 0xf3e, [0x0f00_3e00, 0, 0]),
            ("config:47", 1, [0x8000_0000_0000, 0, 0]),
            ("config1:0-9", 0x3ff, [0, 0x3ff, 0]),
            ("config2:0-15", 0xffff, [0, 0, 0xffff]),
            ("config:0-63", u64::MAX, [u64::MAX, 0, 0]),
        ];
        for (format, value, words) in table {
            let field = Field::parse(format).unwrap();
            let mut got = [0; WORDS];
            assert!(field.encode(value, &mut got), "{format}");
            assert_eq!((got, field.get(&got)), (words, value), "{format}");
        }
    }

    #[test]
    fn a_value_beyond_the_field_is_refused() {
        // This is the format of `umask` in a home agent (CHA) of Sapphire Rapids, in kernels before
        // a fix of July 2024. The field has 32 bits, but the value for CXL events has 37 bits and
        // must be refused.
        let field = Field::parse("config:8-15,32-55").unwrap();
        let mut words = [7; WORDS];
        assert!(field.encode(0xc817_8601, &mut words));
        let before = words;
        assert!(!field.encode(0x10_c817_8201, &mut words));
        assert_eq!(words, before);
    }

    #[test]
    fn invalid_formats_are_refused() {
        for bad in ["", "config", "config:", "config:a", "config:7-0", "config:0-64", "config9:1"] {
            assert_eq!(Field::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        /// A value that was inserted into the words is extracted again, and no other bit of the
        /// words changes.
        #[test]
        fn encoded_values_are_read_back(
            widths in prop::collection::vec((1u32..12, 0u32..4), 1..5),
            value: u64,
        ) {
            let mut next = 0;
            let mut ranges = vec![];
            for (width, gap) in widths {
                ranges.push((next + gap, next + gap + width - 1));
                next += gap + width;
            }
            prop_assume!(next <= 64);
            let text: Vec<String> = ranges.iter().map(|(a, b)| format!("{a}-{b}")).collect();
            let field = Field::parse(&format!("config1:{}", text.join(","))).unwrap();
            let value = value & mask(field.bits());
            let mut words = [0; WORDS];
            prop_assert!(field.encode(value, &mut words));
            prop_assert_eq!(field.get(&words), value);
            prop_assert_eq!(words[1].count_ones(), value.count_ones());
            prop_assert_eq!((words[0], words[2]), (0, 0));
        }
    }
}
