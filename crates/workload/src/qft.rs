//! A quantum Fourier transform of a state vector, as a simulator of quantum computers computes it
//! (Smelyanskiy, Sawaya and Aspuru-Guzik, qHiPSTER, arXiv:1601.07195).
//!
//! n qubits have 2^n complex amplitudes. The circuit has a Hadamard gate on each qubit, from the
//! highest to the lowest. After each Hadamard gate, there are phase shifts that the lower qubits
//! control. A gate on qubit t combines amplitudes that are 2^t apart, so the stride of a pass over
//! the vector halves from gate to gate. The phase shifts of a qubit are diagonal, and are applied
//! in the pass of its Hadamard gate (gate fusion). Qubits are not swapped at the end, so the
//! amplitudes are in bit-reversed order. Every second round applies the inverse circuit, which
//! restores the input.
//!
//! The input is the complex conjugate of the geometric sequence of [`crate::fft`], whose transform
//! is known.

use crate::{
    Kernel, SetupError, Work, Wrong, at_least,
    fft::{Number, geometric},
    memory::{Array, Memory},
    mixed, team,
};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Bytes of an amplitude.
const BYTES: u64 = size_of::<Number>() as u64;

/// The number of amplitudes that a thread processes at a time: 64 KiB, which fit into a cache.
const PIECE: usize = 4096;

/// The largest error of an amplitude that `verify` accepts, relative to the root mean square of all
/// amplitudes.
const TOLERANCE: f64 = 1e-9;

#[derive(Debug)]
pub struct Qft {
    state: Array,
    qubits: u32,
    threads: usize,
    rounds: u32,
}

/// Two slices of amplitudes that a gate combines pair by pair. The gate's qubit is 0 in `zero`, and
/// 1 in `one`. The lower qubits have the value `low` in the first amplitude of both slices.
struct Pairs<'a> {
    zero: &'a mut [Number],
    one: &'a mut [Number],
    low: usize,
}

/// Returns the number of qubits of the largest state vector that fits into the footprint.
///
/// # Errors
/// When the footprint is less than the amplitudes of 8 qubits.
pub(crate) fn qubits(footprint: u64) -> Result<u32, SetupError> {
    at_least("qft", footprint, BYTES << 8)?;
    Ok((footprint / BYTES).ilog2())
}

impl Qft {
    /// Allocates and fills the largest state vector that fits into the footprint.
    ///
    /// # Errors
    /// When the footprint is less than the amplitudes of 8 qubits, or memory cannot be allocated.
    pub fn new(memory: &Memory, footprint: u64, threads: usize) -> Result<Self, SetupError> {
        let qubits = qubits(footprint)?;
        let mut state = memory.array((BYTES << qubits) as usize)?;
        let length = 1 << qubits;
        for (at, amplitude) in state.of_mut::<Number>().iter_mut().enumerate() {
            *amplitude = geometric(length, at, false).conj();
        }
        Ok(Self { state, qubits, threads, rounds: 0 })
    }

    /// Applies the Hadamard gate on `qubit` and the phase shifts of this qubit, which the lower
    /// qubits control. If `is_inverse`, applies the inverse of both.
    fn gate(&mut self, qubit: u32, is_inverse: bool) {
        let distance = 1_usize << qubit;
        // `table` has the phases of the first piece of a block of amplitudes. A phase in a later
        // piece is the phase in the table times `base`, the phase of the piece's first amplitude.
        let angle = |low: usize| PI * low as f64 / distance as f64;
        let sign = if is_inverse { -1.0 } else { 1.0 };
        let phase = |low: usize| Number::from_polar(1.0, sign * angle(low));
        let table: Vec<Number> = (0..distance.min(PIECE)).map(phase).collect();
        let blocks = self.state.of_mut::<Number>().chunks_mut(2 * distance);
        let mut pairs: Vec<Pairs<'_>> = vec![];
        for block in blocks {
            let (zero, one) = block.split_at_mut(distance);
            let pieces = zero.chunks_mut(PIECE).zip(one.chunks_mut(PIECE)).enumerate();
            pairs.extend(pieces.map(|(at, (zero, one))| Pairs { zero, one, low: at * PIECE }));
        }
        let share = pairs.len().div_ceil(self.threads.max(1)).max(1);
        let mut pairs = pairs.into_iter();
        let mut parts: Vec<Vec<Pairs<'_>>> = vec![];
        while pairs.len() > 0 {
            parts.push(pairs.by_ref().take(share).collect());
        }
        team::each(parts, |part| {
            for Pairs { zero, one, low } in part {
                let base = phase(low);
                for ((zero, one), phase) in zero.iter_mut().zip(one).zip(&table) {
                    rotate(zero, one, base * phase, is_inverse);
                }
            }
        });
    }
}

/// Applies the Hadamard gate and the phase shift, or the inverse of both, to a pair of amplitudes.
fn rotate(zero: &mut Number, one: &mut Number, phase: Number, is_inverse: bool) {
    let (a, b) = (*zero, if is_inverse { *one * phase } else { *one });
    let (sum, difference) = ((a + b) * FRAC_1_SQRT_2, (a - b) * FRAC_1_SQRT_2);
    *zero = sum;
    *one = if is_inverse { difference } else { difference * phase };
}

/// Floating-point operations for a pair: two sums (4), two products with a real number (4), and two
/// products of complex numbers (12), one of which computes the phase for [`rotate`].
pub(crate) const FLOPS: u64 = 4 + 4 + 12;

impl Kernel for Qft {
    fn footprint(&self) -> u64 {
        BYTES << self.qubits
    }

    fn round(&mut self) -> Work {
        match self.rounds.is_multiple_of(2) {
            true => (0..self.qubits).rev().for_each(|qubit| self.gate(qubit, false)),
            false => (0..self.qubits).for_each(|qubit| self.gate(qubit, true)),
        }
        self.rounds += 1;
        let gates = u64::from(self.qubits);
        let pairs = 1 << (self.qubits - 1);
        Work {
            bytes: gates * 2 * self.footprint(),
            flops: gates * pairs * FLOPS,
            ..Work::default()
        }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        let is_transformed = !self.rounds.is_multiple_of(2);
        let length = 1_usize << self.qubits;
        // Gates keep the norm of the vector. The transform that [`geometric`] returns has a norm
        // that is larger by the square root of the length, so multiply its values by `scale`.
        let scale = if is_transformed { (length as f64).sqrt().recip() } else { 1.0 };
        let expected = |at: usize| {
            let place = match is_transformed {
                true => at.reverse_bits() >> (usize::BITS - self.qubits),
                false => at,
            };
            geometric(length, place, is_transformed).conj() * scale
        };
        let state = self.state.of::<Number>();
        let square: f64 = (0..length).map(|at| geometric(length, at, false).norm_sqr()).sum();
        let allowed = TOLERANCE * (square / length as f64).sqrt();
        // NaN fails this comparison, so it counts as a wrong value.
        let is_right = |at: usize, found: &Number| (found - expected(at)).norm() <= allowed;
        match state.iter().enumerate().find(|(at, found)| !is_right(*at, found)) {
            None => Ok(()),
            Some((at, found)) => Err(Wrong {
                what: format!("amplitude {at} after {} rounds", self.rounds),
                found: found.to_string(),
                expected: expected(at).to_string(),
            }),
        }
    }

    fn checksum(&self) -> u64 {
        self.state.of::<u64>().iter().fold(0, |sum, bits| mixed(sum, *bits))
    }
}
