//! Defines the contents of a buffer that traffic kernels read. A formula gives the sum of any range
//! of lines without reading memory.
//!
//! Word `i` of the memory of a thread is `seed + i * STEP`. Modulo 2^64, the sum of the words with
//! the indices `a` to `b - 1` is `(b - a) * seed + STEP * (b (b - 1) - a (a - 1)) / 2`. The sum
//! depends on the position of the words as well as on their number. Reading the right number of
//! wrong lines is therefore detected.

use super::LINE;
use std::ops::Range;

/// The difference of neighbouring words: 2^64 divided by the golden ratio, an odd number with well
/// mixed bits.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of 8-byte words in a cache line.
const LINE_WORDS: u64 = LINE as u64 / 8;

/// The contents of the memory of one thread, which follow from a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) seed: u64,
}

impl Contents {
    pub(super) const fn word(self, index: usize) -> u64 {
        self.seed.wrapping_add(STEP.wrapping_mul(index as u64))
    }

    /// Returns the sum of all words of `lines`, modulo 2^64.
    pub(super) fn sum(self, lines: Range<usize>) -> u64 {
        let below = |line: usize| {
            let words = u128::from(LINE_WORDS) * line as u128;
            (words * words.saturating_sub(1) / 2) as u64
        };
        let indices = below(lines.end).wrapping_sub(below(lines.start));
        let count = LINE_WORDS.wrapping_mul(lines.len() as u64);
        count.wrapping_mul(self.seed).wrapping_add(STEP.wrapping_mul(indices))
    }

    /// Returns the sum of the words of `count` lines, modulo 2^64. `numbers` is the sum of the
    /// indices of these lines.
    pub(super) const fn sum_of_lines(self, count: u64, numbers: u64) -> u64 {
        // The words of line n have the indices 8 n to 8 n + 7, whose sum is 64 n + 28.
        let within = LINE_WORDS * (LINE_WORDS - 1) / 2;
        let indices = (LINE_WORDS * LINE_WORDS)
            .wrapping_mul(numbers)
            .wrapping_add(within.wrapping_mul(count));
        let words = LINE_WORDS.wrapping_mul(count);
        words.wrapping_mul(self.seed).wrapping_add(STEP.wrapping_mul(indices))
    }

    /// Returns the word that pass `pass` stores. The word is different in each pass, and never 0,
    /// because some processors do not write zero lines to memory. The words of consecutive passes
    /// differ in many bits.
    pub(super) const fn stored(self, pass: u64) -> u64 {
        let mixed = (self.seed ^ pass.wrapping_mul(STEP)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed ^ (mixed >> 32)) | 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sums_are_those_of_the_words(seed: u64, start in 0_usize..1000, count in 0_usize..100) {
            let contents = Contents { seed };
            let words = start * 8..(start + count) * 8;
            let sum = words.map(|at| contents.word(at)).fold(0, u64::wrapping_add);
            prop_assert_eq!(contents.sum(start..start + count), sum);
            let numbers = (start..start + count).sum::<usize>() as u64;
            prop_assert_eq!(contents.sum_of_lines(count as u64, numbers), sum);
        }
    }

    #[test]
    fn stored_words_are_distinct_and_never_zero() {
        let contents = Contents { seed: 7 };
        let mut words: Vec<u64> = (0..1000).map(|pass| contents.stored(pass)).collect();
        assert!(words.iter().all(|word| *word != 0));
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 1000);
    }
}
