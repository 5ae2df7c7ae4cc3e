//! Evaluates a polynomial at each element of an array, by Horner's method. The degree sets the
//! arithmetic intensity: 2 · degree / 8 operations per byte read (Mironov et al., MCHPC'18,
//! equation 1). As in that paper, a round either only reads the elements, or also replaces them by
//! the values of the polynomial.
//!
//! With a single polynomial, the values that are written back would converge to a fixed point
//! within some rounds, and not change any more. So two polynomials with different fixed points
//! alternate.

use crate::{
    Kernel, PAGE, SetupError, Work, Wrong, array_bytes,
    memory::{Array, Memory},
    mixed, team,
};

/// The number of elements at which the polynomial is evaluated together. Operations on different
/// elements are independent, which hides the latency of each operation.
const LANES: usize = 32;

/// The array, and the degree of the polynomials that are evaluated at its elements.
#[derive(Debug)]
pub struct Polynomial {
    array: Array,
    degree: u32,
    /// True if the values replace the elements.
    is_writing: bool,
    threads: usize,
    rounds: u32,
    sum: u64,
}

impl Polynomial {
    /// Allocates and fills an array as large as the footprint, rounded down to whole pages.
    ///
    /// # Errors
    /// When the footprint is less than a page for each thread, or memory cannot be allocated.
    pub fn new(
        memory: &Memory,
        footprint: u64,
        threads: usize,
        degree: u32,
        is_writing: bool,
    ) -> Result<Self, SetupError> {
        let mut array = memory.array(array_bytes("polynomial", footprint, threads, PAGE)?)?;
        let share = team::share::<f64>(array.of::<f64>().len(), threads);
        let parts = array.of_mut::<f64>().chunks_mut(share).enumerate().collect();
        team::each(parts, |(at, part): (usize, &mut [f64])| {
            part.iter_mut().enumerate().for_each(|(i, value)| *value = start(at * share + i));
        });
        Ok(Self { array, degree, is_writing, threads, rounds: 0, sum: 0 })
    }
}

/// Returns the values of the polynomial of round `round` at the [`LANES`] elements `x`. The
/// coefficients of the polynomial are equal, and so small that values stay between -1 and 1.
fn values(degree: u32, round: u32, x: [f64; LANES]) -> [f64; LANES] {
    let sum = if round.is_multiple_of(2) { 0.5 } else { 0.25 };
    let coefficient = sum / f64::from(degree.max(1));
    let mut values = [coefficient; LANES];
    for _ in 0..degree {
        for (value, x) in values.iter_mut().zip(&x) {
            *value = *value * x + coefficient;
        }
    }
    values
}

/// Returns the initial value of element `at`, between -1 and 1. The elements of a page and of its
/// neighbouring pages all differ.
fn start(at: usize) -> f64 {
    (at % 1_000_003) as f64 / 500_002.0 - 1.0
}

fn lanes(elements: &[f64]) -> [f64; LANES] {
    let mut lanes = [0.0; LANES];
    lanes.iter_mut().zip(elements).for_each(|(lane, element)| *lane = *element);
    lanes
}

fn bits(sum: u64, values: &[f64; LANES]) -> u64 {
    mixed(sum, values.iter().fold(0, |sum: u64, value| sum.wrapping_add(value.to_bits())))
}

impl Kernel for Polynomial {
    fn footprint(&self) -> u64 {
        self.array.of::<u8>().len() as u64
    }

    fn round(&mut self) -> Work {
        let elements = self.array.of::<f64>().len();
        let share = team::share::<f64>(elements, self.threads);
        let (degree, is_writing) = (self.degree, self.is_writing);
        // Without writes, the elements stay the same, and all rounds evaluate the first polynomial.
        let round = if is_writing { self.rounds } else { 0 };
        let parts = self.array.of_mut::<f64>().chunks_mut(share).collect();
        let sums = team::each(parts, |part: &mut [f64]| {
            part.chunks_mut(LANES).fold(0, |sum, some| {
                let values = values(degree, round, lanes(some));
                if is_writing {
                    some.copy_from_slice(&values[..some.len()]);
                }
                bits(sum, &values)
            })
        });
        self.sum = sums.into_iter().fold(self.sum, mixed);
        self.rounds += 1;
        let bytes = self.footprint() * if self.is_writing { 2 } else { 1 };
        let flops = 2 * u64::from(self.degree) * elements as u64;
        Work { bytes, flops, ..Work::default() }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        let elements = self.array.of::<f64>();
        // The first [`LANES`] elements of each page are enough. A pager restores pages as a whole,
        // so a wrong page differs in these elements too.
        for at in (0..elements.len()).step_by(512) {
            let first: Vec<f64> = (at..at + LANES).map(start).collect();
            let mut expected = lanes(&first);
            for round in 0..if self.is_writing { self.rounds } else { 0 } {
                expected = values(self.degree, round, expected);
            }
            let found = lanes(&elements[at..]);
            if let Some(lane) = (0..LANES).find(|i| found[*i].to_bits() != expected[*i].to_bits()) {
                let what = format!("element {}", at + lane);
                let (found, expected) = (found[lane].to_string(), expected[lane].to_string());
                return Err(Wrong { what, found, expected });
            }
        }
        Ok(())
    }

    fn checksum(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn every_round_changes_every_page_that_it_writes() {
        for degree in [8, 64, 256] {
            let memory = Memory::Heap;
            let mut polynomial = Polynomial::new(&memory, 4 * 4096, 1, degree, true).unwrap();
            for round in 0..60 {
                let before = polynomial.array.of::<u64>().to_vec();
                polynomial.round();
                let after = polynomial.array.of::<u64>();
                let has_changed = before.chunks(512).zip(after.chunks(512)).all(|(a, b)| a != b);
                assert!(has_changed, "degree {degree}, round {round}");
            }
            polynomial.verify().unwrap();
        }
    }
}
