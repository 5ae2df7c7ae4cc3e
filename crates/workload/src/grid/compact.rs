//! Compact finite differences of sixth order (Lele, Journal of Computational Physics 1992), by
//! which the solver Xcompact3D takes derivatives. The derivatives along a line of the grid are the
//! solution of a tridiagonal system. There are lines along all three axes.
//!
//! The field is a product of sines with periodic boundaries. A round takes the derivative of the
//! field in x, then that of the result in y, and then in z. Each of these three steps reads one of
//! two arrays, and writes the other one. The scheme's derivative of a sine is a cosine times a
//! known factor, by which the round divides. So the value of each element is known after any number
//! of rounds, and is verified.

use super::{near, side};
use crate::{
    Kernel, SetupError, Work, Wrong, at_least,
    memory::{Array, Memory},
    mixed, team,
};
use rayon::{ThreadPool, prelude::*};
use std::f64::consts::TAU;

/// The coefficients of the scheme. `ALPHA` multiplies the derivatives at the two neighbours,
/// `FIRST` the difference of the nearest neighbours, and `SECOND` the difference of the neighbours
/// after them.
const ALPHA: f64 = 1.0 / 3.0;
const FIRST: f64 = 14.0 / 9.0 / 2.0;
const SECOND: f64 = 1.0 / 9.0 / 4.0;

/// The wave number, in waves per cell, of the wave whose amplitude the scheme multiplies by the
/// largest factor. A round divides by the factor of the field's wave, so rounding errors at wave
/// numbers with a larger factor grow from round to round. Therefore the wave number of the field is
/// near `WAVE`. It is not exactly `WAVE`, because the number of waves along a line is whole, and
/// coprime to the number of cells: 24 cells have 11 waves, and errors grow by up to 6.6 times per
/// round.
const WAVE: f64 = 0.36;

/// The number of rounds after which the field equals the initial field. It is then filled again,
/// which removes rounding errors.
const PERIOD: u32 = 4;

/// Floating-point operations for each element and direction: 5 for the differences, 2 for the
/// forward pass, 3 for the backward pass, 2 for the correction of rank one, and 1 for the
/// multiplication by `Line::scale`.
const FLOPS: u64 = 13;

/// The largest error of an element that `verify` accepts after up to [`PERIOD`] rounds. Elements
/// are from -1 to 1.
const TOLERANCE: f64 = 1e-10;

/// The two arrays of a round, the factors of the tridiagonal matrix that a round uses, and the
/// threads.
#[derive(Debug)]
pub struct Compact {
    /// A round reads the field from one of these two arrays, and leaves the derivative in the other
    /// one.
    fields: [Array; 2],
    line: Line,
    rounds: u32,
    pool: ThreadPool,
}

/// The factors of the periodic tridiagonal matrix of a line of the grid. This matrix is a
/// tridiagonal matrix plus the product of two vectors u and v, a correction of rank one (Sherman
/// and Morrison).
#[derive(Debug)]
struct Line {
    side: usize,
    /// The inverse pivots of the tridiagonal matrix.
    pivots: Vec<f64>,
    /// The solution of the tridiagonal system with the right-hand side u.
    correction: Vec<f64>,
    /// One divided by the sum of one and the scalar product of v and `correction`.
    share: f64,
    /// One divided by the factor of the scheme. That factor times the cosine is the scheme's
    /// derivative of the field's sine.
    scale: f64,
    /// The number of whole waves along a line.
    waves: usize,
}

impl Line {
    fn new(side: usize) -> Self {
        // The periodic matrix, whose corner elements are ALPHA, is the tridiagonal matrix plus the
        // product of the vectors u = (-1, 0, ..., ALPHA) and v = (1, 0, ..., -ALPHA).
        let diagonal = |at: usize| match at {
            0 => 2.0,
            _ if at == side - 1 => 1.0 + ALPHA * ALPHA,
            _ => 1.0,
        };
        let mut pivots = vec![0.5; side];
        for at in 1..side {
            pivots[at] = 1.0 / (diagonal(at) - ALPHA * ALPHA * pivots[at - 1]);
        }
        let waves = waves(side);
        let angle = TAU * waves as f64 / side as f64;
        let factor = 2.0 * (FIRST * libm::sin(angle) + SECOND * libm::sin(2.0 * angle))
            / (1.0 + 2.0 * ALPHA * libm::cos(angle));
        let mut line =
            Self { side, pivots, correction: vec![], share: 0.0, scale: 1.0 / factor, waves };
        let mut correction = vec![0.0; side];
        (correction[0], correction[side - 1]) = (-1.0, ALPHA);
        let mut rows: Vec<&mut [f64]> = correction.chunks_mut(1).collect();
        line.sweep(&mut rows);
        line.share = 1.0 / (1.0 + correction[0] - ALPHA * correction[side - 1]);
        line.correction = correction;
        line
    }

    /// Solves the tridiagonal systems of many lines in place: `rows` has the right-hand sides
    /// before the call, and the solutions afterwards. Row `at` has element `at` of each line.
    fn sweep(&self, rows: &mut [&mut [f64]]) {
        for at in 1..self.side {
            let factor = ALPHA * self.pivots[at - 1];
            let (before, rest) = rows.split_at_mut(at);
            for (value, before) in rest[0].iter_mut().zip(before[at - 1].iter()) {
                *value -= factor * before;
            }
        }
        let last = self.side - 1;
        rows[last].iter_mut().for_each(|value| *value *= self.pivots[last]);
        for at in (0..last).rev() {
            let (rest, after) = rows.split_at_mut(at + 1);
            for (value, after) in rest[at].iter_mut().zip(after[0].iter()) {
                *value = (*value - ALPHA * after) * self.pivots[at];
            }
        }
    }

    /// Computes the derivatives, times `self.scale`, along many lines of the grid: reads the lines
    /// from `from`, and writes the derivatives to `to`. In both, row `at` has element `at` of each
    /// line.
    fn derive(&self, from: &[&[f64]], to: &mut [&mut [f64]]) {
        let side = self.side;
        for (at, to) in to.iter_mut().enumerate() {
            let [a, b, d, e] = [side - 2, side - 1, 1, 2].map(|offset| from[(at + offset) % side]);
            for (((to, a), b), (d, e)) in to.iter_mut().zip(a).zip(b).zip(d.iter().zip(e)) {
                *to = FIRST * (d - b) + SECOND * (e - a);
            }
        }
        self.sweep(to);
        let mut shares = to[0].to_vec();
        for (share, last) in shares.iter_mut().zip(to[side - 1].iter()) {
            *share = self.share * (*share - ALPHA * last);
        }
        for (to, correction) in to.iter_mut().zip(&self.correction) {
            for (value, share) in to.iter_mut().zip(&shares) {
                *value = (*value - correction * share) * self.scale;
            }
        }
    }

    /// Sets `to` to the derivatives along the rows of `from`. [`Self::derive`] needs one element of
    /// each line in a row, so the rows are transposed into a buffer.
    fn along_rows(&self, from: &[f64], to: &mut [f64]) {
        let side = self.side;
        let rows = to.len() / side;
        let mut buffers = [vec![0.0; from.len()], vec![0.0; from.len()]];
        for (row, from) in from.chunks(side).enumerate() {
            from.iter().enumerate().for_each(|(at, value)| buffers[0][at * rows + row] = *value);
        }
        let [before, after] = &mut buffers;
        let columns: Vec<&[f64]> = before.chunks(rows).collect();
        self.derive(&columns, &mut after.chunks_mut(rows).collect::<Vec<_>>());
        for (row, to) in to.chunks_mut(side).enumerate() {
            to.iter_mut().enumerate().for_each(|(at, value)| *value = after[at * rows + row]);
        }
    }
}

/// Returns the number of waves along a line of `side` cells. It is near [`WAVE`] per cell, and
/// coprime to the number of cells, so that all elements of a line differ.
fn waves(side: usize) -> usize {
    let divides =
        |waves: usize| (2..=waves).any(|it| waves.is_multiple_of(it) && side.is_multiple_of(it));
    let start = (side as f64 * WAVE).round() as usize;
    (start..side / 2).find(|waves| !divides(*waves)).unwrap_or(1)
}

/// The number of rows that are transposed together.
const ROWS: usize = 8;

/// Returns the sine of cell `at` along one axis, after `rounds` rounds. An element of the field is
/// the product of three such sines. Each round shifts the sine by a quarter of a wave.
fn factor(line: &Line, at: usize, rounds: u32) -> f64 {
    let angle = TAU * ((line.waves * at) % line.side) as f64 / line.side as f64 + 0.3;
    libm::sin(angle + TAU / 4.0 * f64::from(rounds % PERIOD))
}

impl Compact {
    /// Allocates the two arrays of the largest cube that fits into the footprint, and fills the
    /// first one.
    ///
    /// # Errors
    /// When the footprint is less than 16 x 16 x 16 elements, memory cannot be allocated, or
    /// threads cannot be started.
    pub fn new(memory: &Memory, footprint: u64, threads: usize) -> Result<Self, SetupError> {
        at_least("compact", footprint, 16 * 16 * 16 * 16)?;
        let side = side(footprint, 16, 16);
        let array = || memory.array(side.pow(3) * size_of::<f64>());
        let fields = [array()?, array()?];
        let mut compact =
            Self { fields, line: Line::new(side), rounds: 0, pool: team::pool(threads)? };
        compact.fill();
        let Self { fields: [_, other], pool, .. } = &mut compact;
        // Touch the pages here, so that Linux allocates them before the measured rounds.
        pool.install(|| {
            other.of_mut::<f64>().par_chunks_mut(side * side).for_each(|plane| plane.fill(0.0));
        });
        Ok(compact)
    }

    /// Fills the first array with the initial field.
    fn fill(&mut self) {
        let Self { fields: [field, _], line, pool, .. } = self;
        let side = line.side;
        let factors: Vec<f64> = (0..side).map(|at| factor(line, at, 0)).collect();
        pool.install(|| {
            let planes = field.of_mut::<f64>().par_chunks_mut(side * side).enumerate();
            planes.for_each(|(z, plane)| {
                for (at, value) in plane.iter_mut().enumerate() {
                    *value = factors[at % side] * factors[at / side] * factors[z];
                }
            });
        });
    }
}

/// Sets `to` to the derivatives of `from` in x: along the rows of all planes.
fn in_x(line: &Line, from: &[f64], to: &mut [f64]) {
    let part = ROWS * line.side;
    let parts = from.par_chunks(part).zip(to.par_chunks_mut(part));
    parts.for_each(|(from, to)| line.along_rows(from, to));
}

/// Sets `to` to the derivatives of `from` in y: across the rows of each plane.
fn in_y(line: &Line, from: &[f64], to: &mut [f64]) {
    let plane = line.side * line.side;
    from.par_chunks(plane).zip(to.par_chunks_mut(plane)).for_each(|(from, to)| {
        let from: Vec<&[f64]> = from.chunks(line.side).collect();
        line.derive(&from, &mut to.chunks_mut(line.side).collect::<Vec<_>>());
    });
}

/// Sets `to` to the derivatives of `from` in z: across the planes. A task computes all rows with
/// the same y, one in each plane.
fn in_z(line: &Line, from: &[f64], to: &mut [f64]) {
    let side = line.side;
    let mut parts: Vec<Vec<&mut [f64]>> = (0..side).map(|_| Vec::with_capacity(side)).collect();
    for plane in to.chunks_mut(side * side) {
        parts.iter_mut().zip(plane.chunks_mut(side)).for_each(|(part, row)| part.push(row));
    }
    parts.into_par_iter().enumerate().for_each(|(y, mut to)| {
        let from: Vec<&[f64]> = (0..side).map(|z| &from[(z * side + y) * side..][..side]).collect();
        line.derive(&from, &mut to);
    });
}

impl Kernel for Compact {
    fn footprint(&self) -> u64 {
        self.fields.iter().map(|field| field.of::<u8>().len() as u64).sum()
    }

    fn prepare(&mut self) {
        if self.rounds > 0 && self.rounds.is_multiple_of(PERIOD) {
            self.fill();
        }
    }

    fn round(&mut self) -> Work {
        let Self { fields: [even, odd], line, pool, rounds } = self;
        let (old, new) = if rounds.is_multiple_of(2) { (even, odd) } else { (odd, even) };
        pool.install(|| {
            in_x(line, old.of(), new.of_mut());
            in_y(line, new.of(), old.of_mut());
            in_z(line, old.of(), new.of_mut());
        });
        *rounds += 1;
        let elements = line.side.pow(3) as u64;
        // In each of the three directions, an element is read and written: 8 bytes each.
        Work { bytes: 3 * 16 * elements, flops: 3 * FLOPS * elements, ..Work::default() }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        let side = self.line.side;
        let factors: Vec<f64> = (0..side).map(|at| factor(&self.line, at, self.rounds)).collect();
        let field = self.fields[self.rounds as usize % 2].of::<f64>();
        for (at, found) in field.iter().enumerate() {
            let expected =
                factors[at % side] * factors[at / side % side] * factors[at / side / side];
            near(|| format!("element {at}"), *found, expected, TOLERANCE)?;
        }
        Ok(())
    }

    fn checksum(&self) -> u64 {
        let field = self.fields[self.rounds as usize % 2].of::<u64>();
        field.iter().fold(0, |sum, bits| mixed(sum, *bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derivative_is_of_sixth_order() {
        // With a `scale` of 1, the result is not divided by the scheme's factor, so it must be near
        // the exact derivative of a sine with one wave along the line.
        let error = |side: usize| {
            let line = Line { scale: 1.0, ..Line::new(side) };
            let angle = |at: usize| TAU * at as f64 / side as f64;
            let field: Vec<f64> = (0..side).map(|at| libm::sin(angle(at))).collect();
            let mut found = vec![0.0; side];
            line.along_rows(&field, &mut found);
            let right = |at: usize| angle(1) * libm::cos(angle(at));
            let errors = found.iter().enumerate().map(|(at, it)| (it - right(at)).abs() / angle(1));
            errors.fold(0.0, f64::max)
        };
        let (coarse, fine) = (error(16), error(32));
        assert!(coarse < 1e-4 && fine < coarse / 50.0, "{coarse} {fine}");
    }

    /// The test asserts that the results stay right for 100 rounds with several numbers of cells
    /// along a line. The field's wave number differs from [`WAVE`] for each of them; the difference
    /// is least with 20 cells.
    #[test]
    fn errors_do_not_grow_from_round_to_round() {
        for side in [16, 20, 24, 40, 90] {
            let mut compact =
                Compact::new(&Memory::Heap, side * side * side * 16, 2).expect("enough");
            for _ in 0..100 {
                compact.prepare();
                compact.round();
            }
            assert_eq!(compact.verify(), Ok(()), "{side}");
            let at = compact.rounds as usize % 2;
            compact.fields[at].of_mut::<f64>()[1234] += 1e-9;
            assert!(compact.verify().is_err(), "{side}");
        }
    }
}
