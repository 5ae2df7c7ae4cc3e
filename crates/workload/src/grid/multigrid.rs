//! Conjugate gradients with a multigrid preconditioner on a sparse matrix, as in the benchmark HPCG
//! (Dongarra, Heroux, Luszczek, IJHPCA 2016): a stencil of 27 points on a cube, four grids, and
//! symmetric Gauss-Seidel before and after each coarser grid.
//!
//! HPCG takes the residual of a coarser grid from every second point along each axis. Here,
//! Gauss-Seidel visits the points by colour, in eight colours. The points that HPCG takes are one
//! colour: the last one that Gauss-Seidel visits, so that the residual at these points is zero. So
//! the right-hand side at a point of the coarser grid is computed from the sum of the residuals of
//! eight points, and the correction at the coarser point is added at all of them.
//!
//! The matrix is stored: the values and columns of all points. The points of a colour do not depend
//! on each other, so the result is the same for any number of threads.
//!
//! A round starts with a solution of zero, and does ten iterations for a right-hand side with a
//! known solution. Each iteration updates the residual. Two properties are verified at the end. At
//! each point, this residual must equal the residual that is computed from the solution. The energy
//! of the error e, which is the scalar product of e and A e with the matrix A, must be less than
//! `ERROR_MAX` times its initial value.

use super::{PART, add, dot, near, scale_and_add, wrong};
use crate::{
    Kernel, SetupError, Work, Wrong, at_least,
    memory::{Array, Memory},
    mixed, team, word,
};
use rayon::{ThreadPool, prelude::*};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of stored elements in a row of the matrix: one for the row's own point, and one for
/// each of its 26 neighbours.
const POINTS: usize = 27;

/// The number of grids. A grid has half as many points along an edge as the grid before it.
const GRIDS: u32 = 4;

/// Minimum number of points along an edge of the coarsest of the [`GRIDS`] grids.
const LEAST: usize = 2;

const ITERATIONS: u32 = 10;

/// Bytes for a point of a grid: the values and columns of a row of the matrix, and an element of
/// each of two vectors.
const ROW_BYTES: u64 = (POINTS * (8 + 4) + 2 * 8) as u64;

/// The diagonal elements of the matrix. The elements of a point's neighbours are -1.
const DIAGONAL: f64 = 26.0;

/// The index of the diagonal element among the stored elements of a row.
const MIDDLE: usize = POINTS / 2;

/// The right-hand side at a point of the coarser grid is this factor times the sum of eight
/// residuals. For a smooth error, the sum is 8 times the residual of a point. The coarser grid has
/// the same stencil with twice the distance between points. So the product of its matrix and the
/// error is only 4 times as large as on the finer grid.
const RESTRICTION: f64 = 0.5;

/// The largest error of an element of the residual that `verify` accepts, as a fraction of the
/// diagonal element times the largest element of the solution.
const TOLERANCE: f64 = 1e-10;

/// The largest energy of the error that `verify` accepts after a round, as a fraction of the
/// initial energy. Measured fractions: 1e-27 with 16 points along an edge, 2e-20 with 48, 5e-12
/// with 112, 1e-7 with 208, 2e-5 with 304. The fraction grows, because the coarsest grid grows with
/// the finest grid. The fraction has a maximum, because the error is reduced from the border of the
/// cube, and a larger cube has more points for each point at its border. With one grid the maximum
/// is 1e-2, near 100 points. With two grids it is 2e-3, near 200. With four grids a maximum of 1e-4
/// near 800 points is expected. Without the corrections of the coarser grids, the fraction is 3e-3
/// to 6e-3 with 56 to 112 points. So `verify` also detects missing corrections.
const ERROR_MAX: f64 = 1e-3;

/// A grid of the hierarchy: the matrix, the right-hand side and the solution of its linear system.
#[derive(Debug)]
struct Grid {
    side: usize,
    values: Array,
    columns: Array,
    right: Array,
    solution: Array,
}

/// The linear system, and the threads that solve it.
#[derive(Debug)]
pub struct Multigrid {
    system: Hierarchy,
    rounds: u32,
    pool: ThreadPool,
}

/// All grids, the finest first, and the vectors of the conjugate gradients. The residual of the
/// conjugate gradients is the right-hand side of the finest grid, because the preconditioner solves
/// for it.
#[derive(Debug)]
struct Hierarchy {
    grids: Vec<Grid>,
    solution: Array,
    direction: Array,
    product: Array,
}

/// Returns the matrix row of point `at`: the value and the column of each element. An element for a
/// neighbour beyond the border has the value 0.
fn row(side: usize, at: usize) -> impl Iterator<Item = (f64, u32)> {
    let place = [at % side, at / side % side, at / side / side];
    (0..POINTS).map(move |point| {
        let offsets = [point % 3, point / 3 % 3, point / 9];
        let near =
            |axis: usize| (place[axis] + offsets[axis]).checked_sub(1).filter(|it| *it < side);
        match (near(0), near(1), near(2)) {
            _ if point == MIDDLE => (DIAGONAL, at as u32),
            (Some(x), Some(y), Some(z)) => (-1.0, ((z * side + y) * side + x) as u32),
            _ => (0.0, at as u32),
        }
    })
}

impl Grid {
    fn new(memory: &Memory, side: usize) -> Result<Self, SetupError> {
        let points = side.pow(3);
        let mut values = memory.array(8 * POINTS * points)?;
        let mut columns = memory.array(4 * POINTS * points)?;
        let rows = values.of_mut::<f64>().par_chunks_mut(POINTS);
        let rows = rows.zip(columns.of_mut::<u32>().par_chunks_mut(POINTS)).enumerate();
        rows.for_each(|(at, (values, columns))| {
            for ((value, column), found) in values.iter_mut().zip(columns).zip(row(side, at)) {
                (*value, *column) = found;
            }
        });
        let (right, solution) = (memory.array(8 * points)?, memory.array(8 * points)?);
        Ok(Self { side, values, columns, right, solution })
    }

    fn bytes(&self) -> u64 {
        let arrays = [&self.values, &self.columns, &self.right, &self.solution];
        arrays.iter().map(|array| array.of::<u8>().len() as u64).sum()
    }

    fn matrix(&self) -> Matrix<'_> {
        Matrix { side: self.side, values: self.values.of(), columns: self.columns.of() }
    }

    /// Runs one step of symmetric Gauss-Seidel: a forward and a backward pass over all points.
    fn smooth(&mut self) {
        let matrix =
            Matrix { side: self.side, values: self.values.of(), columns: self.columns.of() };
        let (right, solution) = (self.right.of::<f64>(), self.solution.atomic_u64());
        (0..8).chain((0..8).rev()).for_each(|colour| matrix.relax(colour, right, solution));
    }

    /// Runs one multigrid cycle on `grids`, the finest first. It approximates the solution of the
    /// finest grid for this grid's right-hand side.
    fn cycle(grids: &mut [Self]) {
        let [fine, rest @ ..] = grids else { return };
        fine.solution.of_mut::<f64>().par_iter_mut().for_each(|value| *value = 0.0);
        fine.smooth();
        let [coarse, ..] = rest else { return };
        let (side, half) = (fine.side, coarse.side);
        let above = |at: usize| {
            let place = [at % half, at / half % half, at / half / half];
            let first = 2 * ((place[2] * side + place[1]) * side + place[0]);
            (0..8).map(move |it| first + ((it >> 2) * side + (it >> 1 & 1)) * side + (it & 1))
        };
        let (matrix, right, solution) = (fine.matrix(), fine.right.of::<f64>(), fine.solution.of());
        let residuals = coarse.right.of_mut::<f64>().par_iter_mut().enumerate();
        residuals.for_each(|(at, residual)| {
            let fine = above(at).map(|at| right[at] - matrix.row(at, solution));
            *residual = RESTRICTION * fine.sum::<f64>();
        });
        Self::cycle(rest);
        let [coarse, ..] = rest else { return };
        let corrections = coarse.solution.of::<f64>().par_iter().enumerate();
        let solution = fine.solution.atomic_u64();
        corrections.for_each(|(at, correction)| {
            for value in above(at).map(|at| &solution[at]) {
                value.store((f64::from_bits(value.load(Relaxed)) + correction).to_bits(), Relaxed);
            }
        });
        fine.smooth();
    }
}

/// The matrix of a grid as slices, row by row: the value and the column of each of the [`POINTS`]
/// stored elements of a row.
#[derive(Clone, Copy)]
struct Matrix<'a> {
    side: usize,
    values: &'a [f64],
    columns: &'a [u32],
}

impl Matrix<'_> {
    /// Returns the product of row `at` and the vector `x`.
    fn row(&self, at: usize, x: &[f64]) -> f64 {
        let range = at * POINTS..(at + 1) * POINTS;
        let points = self.values[range.clone()].iter().zip(&self.columns[range]);
        points.map(|(value, column)| value * x[*column as usize]).sum()
    }

    fn multiply(&self, x: &[f64], y: &mut [f64]) {
        y.par_chunks_mut(PART).enumerate().for_each(|(part, y)| {
            let rows = y.iter_mut().enumerate();
            rows.for_each(|(at, y)| *y = self.row(part * PART + at, x));
        });
    }

    /// Runs the Gauss-Seidel step for the points of one colour: solves the equation of each point
    /// for the value at this point.
    fn relax(&self, colour: usize, right: &[f64], solution: &[AtomicU64]) {
        let [x, y, z] = [colour & 1, colour >> 1 & 1, colour >> 2];
        let side = self.side;
        (z..side).into_par_iter().step_by(2).for_each(|z| {
            for y in (y..side).step_by(2) {
                for x in (x..side).step_by(2) {
                    let at = (z * side + y) * side + x;
                    let range = at * POINTS..(at + 1) * POINTS;
                    let (values, columns) = (&self.values[range.clone()], &self.columns[range]);
                    let value = |at: u32| f64::from_bits(solution[at as usize].load(Relaxed));
                    let points = values.iter().zip(columns);
                    let sum: f64 = points.map(|(factor, at)| factor * value(*at)).sum();
                    let own = value(at as u32);
                    let new = own + (right[at] - sum) / values[MIDDLE];
                    solution[at].store(new.to_bits(), Relaxed);
                }
            }
        });
    }
}

/// Returns the known solution of round `round` at point `at`, from which the right-hand side of the
/// round is computed.
fn wanted(at: usize, round: u32) -> f64 {
    (1.0 + (word(at) >> 11) as f64 / (1_u64 << 53) as f64) * f64::from(1 + round % 8)
}

/// Returns the bytes of all arrays if the finest grid has `side` points along an edge.
fn bytes(side: usize) -> u64 {
    let points = |grid: u32| (side as u64 >> grid).pow(3);
    (0..GRIDS).map(|grid| ROW_BYTES * points(grid)).sum::<u64>() + 3 * 8 * points(0)
}

impl Multigrid {
    /// Allocates the grids and vectors of the largest cube of points that fits into the footprint.
    ///
    /// # Errors
    /// When the footprint is less than 16 x 16 x 16 points, memory cannot be allocated, or threads
    /// cannot be started.
    pub fn new(memory: &Memory, footprint: u64, threads: usize) -> Result<Self, SetupError> {
        let unit = 1 << (GRIDS - 1);
        at_least("multigrid-cg", footprint, bytes(LEAST * unit))?;
        let sides = (LEAST..).map(|coarse| coarse * unit);
        let side = sides.take_while(|side| bytes(*side) <= footprint).last();
        let side = side.unwrap_or(LEAST * unit);
        let pool = team::pool(threads)?;
        let system = pool.install(|| Hierarchy::new(memory, side))?;
        Ok(Self { system, rounds: 0, pool })
    }
}

impl Hierarchy {
    fn new(memory: &Memory, side: usize) -> Result<Self, SetupError> {
        let grids = (0..GRIDS).map(|grid| Grid::new(memory, side >> grid));
        let grids = grids.collect::<Result<Vec<Grid>, SetupError>>()?;
        let array = || memory.array(8 * side.pow(3));
        let (solution, direction, product) = (array()?, array()?, array()?);
        Ok(Self { grids, solution, direction, product })
    }

    /// Prepares round `round`. The right-hand side is the product of the matrix and the round's
    /// known solution. The iterations start with a solution of zero, so the right-hand side is also
    /// the initial residual.
    fn start(&mut self, round: u32) {
        let Self { grids, solution, direction, product } = self;
        let values = solution.of_mut::<f64>().par_iter_mut().enumerate();
        values.for_each(|(at, value)| *value = wanted(at, round));
        let fine = &mut grids[0];
        fine.matrix().multiply(solution.of(), product.of_mut());
        fine.right.of_mut::<f64>().copy_from_slice(product.of());
        for array in [solution, direction] {
            array.of_mut::<f64>().par_iter_mut().for_each(|value| *value = 0.0);
        }
    }

    fn iterate(&mut self, iterations: u32) {
        let Self { grids, solution, direction, product } = self;
        let (solution, direction) = (solution.of_mut::<f64>(), direction.of_mut::<f64>());
        let product = product.of_mut::<f64>();
        let mut gain = 0.0;
        for iteration in 0..iterations {
            Grid::cycle(grids);
            let fine = &mut grids[0];
            let (residual, preconditioned) = (fine.right.of::<f64>(), fine.solution.of::<f64>());
            let before = std::mem::replace(&mut gain, dot(residual, preconditioned));
            if gain == 0.0 {
                break;
            }
            let kept = if iteration == 0 { 0.0 } else { gain / before };
            scale_and_add(direction, kept, preconditioned);
            fine.matrix().multiply(direction, product);
            let step = gain / dot(direction, product);
            add(solution, step, direction);
            add(fine.right.of_mut(), -step, product);
        }
    }

    /// Returns the floating-point operations of an iteration: the product with the matrix; four
    /// passes of Gauss-Seidel on each grid (two on the coarsest); at each point of all grids but
    /// the coarsest, the residual, its sum and the correction; and five operations on vectors.
    fn flops(&self) -> u64 {
        let points = |grid: &Grid| grid.side.pow(3) as u64;
        let row = 2 * POINTS as u64;
        let cycle = self.grids.iter().map(|grid| 4 * row * points(grid)).sum::<u64>();
        let between = self.grids.iter().map(|grid| (row + 2) * points(grid)).sum::<u64>();
        let coarsest = self.grids.last().map_or(0, |grid| (3 * row + 2) * points(grid));
        cycle + between - coarsest + (row + 10) * points(&self.grids[0])
    }

    /// Compares the stored matrices with their definition, and the residual that the iterations
    /// updated with the residual that is computed from the solution. The energy of the error must
    /// be less than [`ERROR_MAX`] times its initial value.
    fn verify(&self, round: u32) -> Result<(), Wrong> {
        for grid in &self.grids {
            let matrix = grid.matrix();
            for at in 0..grid.side.pow(3) {
                let range = at * POINTS..(at + 1) * POINTS;
                let found = matrix.values[range.clone()].iter().zip(&matrix.columns[range]);
                let wrong_point = found.zip(row(grid.side, at)).find(|((value, column), right)| {
                    value.to_bits() != right.0.to_bits() || **column != right.1
                });
                if let Some((found, right)) = wrong_point {
                    let what = format!("row {at} of the matrix of {} points", grid.side);
                    return wrong(what, format!("{found:?}"), format!("{right:?}"));
                }
            }
        }
        let fine = &self.grids[0];
        let (solution, residual) = (self.solution.of::<f64>(), fine.right.of::<f64>());
        let right: Vec<f64> = (0..solution.len()).map(|at| wanted(at, round)).collect();
        let errors: Vec<f64> = right.iter().zip(solution).map(|(a, b)| a - b).collect();
        let mut energies = [0.0; 2];
        for at in 0..solution.len() {
            let expected = fine.matrix().row(at, &errors);
            let scale = DIAGONAL * 2.0 * f64::from(1 + round % 8);
            let what = || format!("the residual of point {at}");
            near(what, residual[at], expected, TOLERANCE * scale)?;
            energies[0] += right[at] * fine.matrix().row(at, &right);
            energies[1] += errors[at] * expected;
        }
        // NaN fails this comparison, so it counts as a wrong value.
        let is_smaller = energies[1] < ERROR_MAX * energies[0];
        if is_smaller {
            return Ok(());
        }
        let most = format!("below {}", ERROR_MAX * energies[0]);
        wrong("the error, as an energy".into(), energies[1], most)
    }
}

impl Kernel for Multigrid {
    fn footprint(&self) -> u64 {
        let vectors = 3 * self.system.solution.of::<u8>().len() as u64;
        self.system.grids.iter().map(Grid::bytes).sum::<u64>() + vectors
    }

    fn prepare(&mut self) {
        let Self { system, rounds, pool } = self;
        pool.install(|| system.start(*rounds));
    }

    fn round(&mut self) -> Work {
        let Self { system, pool, .. } = self;
        pool.install(|| system.iterate(ITERATIONS));
        self.rounds += 1;
        let flops = u64::from(ITERATIONS) * self.system.flops();
        // Estimate the bytes by the products with the matrix: each stored element has two
        // operations, and is read as a value (8 bytes) and a column (4 bytes). So an operation
        // reads 6 bytes.
        Work { bytes: 6 * flops, flops, ..Work::default() }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        let Some(round) = self.rounds.checked_sub(1) else { return Ok(()) };
        self.system.verify(round)
    }

    fn checksum(&self) -> u64 {
        self.system.solution.of::<u64>().iter().fold(0, |sum, bits| mixed(sum, *bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_find_the_solution() {
        let mut system = Hierarchy::new(&Memory::Heap, 16).expect("memory");
        system.start(1);
        system.iterate(30);
        for (at, found) in system.solution.of::<f64>().iter().enumerate() {
            assert!((found - wanted(at, 1)).abs() < 1e-8, "point {at}: {found}");
        }
        assert_eq!(system.verify(1), Ok(()));
    }

    /// For cubes of several sizes, ten iterations must reduce the energy of the error to less than
    /// [`ERROR_MAX`], and `verify` must find an error of 1e-6 in one element of the solution.
    #[test]
    fn ten_iterations_are_enough_for_cubes_of_any_size() {
        for side in [16, 48, 56, 64] {
            let mut system = Hierarchy::new(&Memory::Heap, side).expect("memory");
            system.start(0);
            system.iterate(ITERATIONS);
            assert_eq!(system.verify(0), Ok(()), "{side}");
            system.solution.of_mut::<f64>()[side + 1] += 1e-6;
            assert!(system.verify(0).is_err(), "{side}");
        }
    }

    #[test]
    fn a_wrong_element_is_found() {
        let make = || {
            let mut multigrid = Multigrid::new(&Memory::Heap, 3 << 20, 2).expect("enough");
            multigrid.prepare();
            multigrid.round();
            assert_eq!(multigrid.verify(), Ok(()));
            multigrid
        };
        let mut multigrid = make();
        multigrid.system.solution.of_mut::<f64>()[99] += 1e-6;
        assert!(multigrid.verify().is_err());
        let mut multigrid = make();
        multigrid.system.grids[2].columns.of_mut::<u32>()[30] += 1;
        assert!(multigrid.verify().is_err());
    }
}
