//! Makes pseudo-random numbers from a seed.

use rand_distr::{Distribution, StandardNormal};
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};

/// A stream of random numbers that is the same on every machine.
#[derive(Clone, Debug)]
pub(super) struct Noise(Pcg64Mcg);

impl Noise {
    /// Creates the random stream with the index `stream`, made from `seed`. Streams are
    /// independent: an additional draw from one stream does not change the other streams.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut noise =
            Self(Pcg64Mcg::seed_from_u64(seed ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        // The first value is skipped: seeds that differ little have similar first values.
        noise.0.next_u64();
        noise
    }

    /// Returns a number from 0 to `end - 1`; `end` is above 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        // The high half of the 128-bit product is below `end`, and nearly uniform, because `end` is
        // far below 2^64.
        ((u128::from(self.0.next_u64()) * end as u128) >> 64) as usize
    }

    /// Returns a number from 0 to 1, 1 excluded.
    pub(super) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a random factor: 1 plus a normally distributed error with the standard deviation
    /// `spread`, and never below 0.
    pub(super) fn factor(&mut self, spread: f64) -> f64 {
        if spread == 0.0 {
            return 1.0;
        }
        let error: f64 = StandardNormal.sample(&mut self.0);
        (1.0 + spread * error).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, stream| {
            let mut noise = Noise::new(seed, stream);
            (0..4).map(|_| noise.below(1 << 30)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(1, 1));
        assert_ne!(draw(1, 0), draw(2, 0));
    }

    #[test]
    fn factors_have_the_requested_spread() {
        let mut noise = Noise::new(7, 0);
        let count = 20_000;
        let factors: Vec<f64> = (0..count).map(|_| noise.factor(0.05)).collect();
        let mean = factors.iter().sum::<f64>() / f64::from(count);
        let square = factors.iter().map(|f| (f - mean) * (f - mean)).sum::<f64>();
        assert!((mean - 1.0).abs() < 2e-3);
        assert!(((square / f64::from(count)).sqrt() - 0.05).abs() < 2e-3);
        assert_eq!(noise.factor(0.0), 1.0);
        let mean = (0..count).map(|_| noise.uniform()).sum::<f64>() / f64::from(count);
        assert!((mean - 0.5).abs() < 0.01);
    }
}
