//! Computes the order in which a thread of a load accesses its blocks.

use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};

/// Number of Feistel rounds of [`Permutation`]. With 3 rounds, neighbouring indices are mapped to
/// unrelated numbers.
const ROUNDS: usize = 3;

/// Replaces `seed` by the next number of a linear congruential generator (with the multiplier of
/// Knuth's MMIX), and returns the new number. Each thread of a load gets one of these seeds.
pub(crate) fn next_seed(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
    *seed
}

/// The order in which a thread accesses its blocks.
#[derive(Clone, Debug)]
pub(super) enum Blocks {
    /// Blocks in the order of their indices.
    Sequential,
    /// Uniformly random blocks, with repetition.
    Random,
    /// Blocks in random order. Each block is used once in a pass over all blocks.
    Permuted(Permutation),
}

/// A pseudo-random permutation of `0..count` that needs no memory: a Feistel network over 2^n
/// numbers, with the smallest even n of at least 2 for which 2^n is at least `count`. A result of
/// `count` or more goes through the network again (cycle walking).
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    pub(super) fn new(count: u64, random: &mut Pcg64Mcg) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(1);
        Self { half_bits, keys: std::array::from_fn(|_| random.next_u64()) }
    }

    /// Returns the number below `count` to which the permutation of `0..count` maps `index`.
    #[inline]
    pub(super) fn of(&self, index: u64, count: u64) -> u64 {
        let mut at = index;
        loop {
            at = self.mixed(at);
            if at < count {
                return at;
            }
        }
    }

    #[inline]
    fn mixed(&self, at: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (at >> self.half_bits, at & mask);
        for key in self.keys {
            let product = (right ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (left, right) = (right, left ^ ((product ^ (product >> 29)) >> 32 & mask));
        }
        left << self.half_bits | right
    }
}

/// The sequence of block indices that one thread accesses.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    blocks: Blocks,
    count: u64,
    next: u64,
    random: Pcg64Mcg,
}

impl Addresses {
    /// Creates the sequence of `count` blocks, in random order or in the order of their indices. In
    /// random order, `repeats` allows a block to be used twice before all blocks are used once.
    pub(crate) fn new(random_order: bool, repeats: bool, count: u64, seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let blocks = match (random_order, repeats) {
            (false, _) => Blocks::Sequential,
            (true, true) => Blocks::Random,
            (true, false) => Blocks::Permuted(Permutation::new(count, &mut random)),
        };
        Self { blocks, count: count.max(1), next: 0, random }
    }

    /// Returns the 0-based index of the next block.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        let index = self.next;
        self.next = if index + 1 < self.count { index + 1 } else { 0 };
        match &self.blocks {
            Blocks::Sequential => index,
            Blocks::Random => self.below(self.count),
            Blocks::Permuted(permutation) => {
                let block = permutation.of(index, self.count);
                if self.next == 0 {
                    let permutation = Permutation::new(self.count, &mut self.random);
                    self.blocks = Blocks::Permuted(permutation);
                }
                block
            }
        }
    }

    /// Returns a random number below `end`.
    #[inline]
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(end)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn each_block_is_used_once_in_a_pass(count in 1_u64..3000, seed in any::<u64>()) {
            let mut addresses = Addresses::new(true, false, count, seed);
            let mut passes = vec![];
            for _ in 0..2 {
                let pass: Vec<u64> = (0..count).map(|_| addresses.next()).collect();
                prop_assert_eq!(pass.iter().collect::<BTreeSet<_>>().len() as u64, count);
                prop_assert!(pass.iter().all(|block| *block < count));
                passes.push(pass);
            }
            prop_assert!(count < 20 || passes[0] != passes[1]);
        }
    }

    #[test]
    fn blocks_are_spread_evenly() {
        // The blocks of the first tenth of a pass are spread evenly: each tenth of the addresses
        // gets about a tenth of the accesses.
        let mut addresses = Addresses::new(true, false, 100_000, 7);
        let mut tenths = [0_u32; 10];
        (0..10_000).for_each(|_| tenths[(addresses.next() / 10_000) as usize] += 1);
        assert!(tenths.iter().all(|count| (850..1150).contains(count)), "{tenths:?}");
        let mut sequential = Addresses::new(false, false, 3, 7);
        assert_eq!([0; 5].map(|_| sequential.next()), [0, 1, 2, 0, 1]);
        let mut repeats = Addresses::new(true, true, 4, 7);
        let found: BTreeSet<u64> = (0..100).map(|_| repeats.next()).collect();
        assert_eq!(found.len(), 4);
    }
}
