//! Conjugate gradients for Laplace's equation in spherical coordinates, which POT3D solves for the
//! magnetic field of the Sun. The grid is a shell of cells whose radii grow geometrically. Finite
//! volumes of seven points are used, and the diagonal is the preconditioner.
//!
//! As in POT3D, the coefficients of the matrix are stored. A round starts with a solution of zero,
//! and does twenty iterations for a right-hand side with a known solution. Each iteration updates
//! the residual. Two properties are verified at the end. In each cell, this residual must equal the
//! residual that is computed from the solution. The energy of the error e, which is the scalar
//! product of e and A e with the matrix A, must be less than its initial value.

use super::{add, dot, near, wrong};
use crate::{
    Kernel, SetupError, Work, Wrong, at_least,
    memory::{Array, Memory},
    mixed, team, word,
};
use rayon::{ThreadPool, prelude::*};
use std::f64::consts::{PI, TAU};

/// The number of arrays: four for the coefficients, and one each for the solution, the residual,
/// the direction and the product.
const ARRAYS: usize = 8;

/// Bytes of a cell: an element in each array.
const BYTES: u64 = 8 * ARRAYS as u64;

const ITERATIONS: u32 = 20;

/// Floating-point operations for a cell in an iteration: 13 for the product of the matrix and the
/// direction, 2 for its scalar product with the direction, 4 for the updates of solution and
/// residual, 3 for the preconditioned scalar product, and 3 for the new direction.
const FLOPS: u64 = 25;

/// The outer radius of the shell. Its inner radius is 1.
const RADIUS: f64 = 2.5;

/// The largest error of an element of the residual that `verify` accepts, as a fraction of the
/// diagonal element times the largest element of the solution.
const TOLERANCE: f64 = 1e-11;

/// The linear system, and the threads that solve it.
#[derive(Debug)]
pub struct Spherical {
    system: Shell,
    rounds: u32,
    pool: ThreadPool,
}

/// The matrix and the vectors of the iterations.
#[derive(Debug)]
struct Shell {
    matrix: Coefficients,
    solution: Array,
    residual: Array,
    direction: Array,
    product: Array,
}

/// The matrix of the finite volumes: its coefficients for each cell. In memory, the position along
/// the radius varies fastest, then the polar angle, and then the longitude. The last longitude is a
/// neighbour of the first.
#[derive(Debug)]
struct Coefficients {
    /// The numbers of cells along a radius, along the polar angle and along the longitude.
    sides: [usize; 3],
    diagonal: Array,
    /// The coefficient between each cell and the next cell in each of the three directions. It is 0
    /// where there is no next cell: at the end of a radius and at the pole.
    next: [Array; 3],
}

impl Coefficients {
    fn new(memory: &Memory, sides: [usize; 3]) -> Result<Self, SetupError> {
        let cells: usize = sides.iter().product();
        let array = || memory.array(8 * cells);
        let next = [array()?, array()?, array()?];
        let mut matrix = Self { sides, diagonal: array()?, next };
        let Self { diagonal, next: [outward, south, east], .. } = &mut matrix;
        let row = sides[0];
        let rows = diagonal.of_mut::<f64>().par_chunks_mut(row).zip_eq(
            outward.of_mut::<f64>().par_chunks_mut(row).zip_eq(
                south
                    .of_mut::<f64>()
                    .par_chunks_mut(row)
                    .zip_eq(east.of_mut::<f64>().par_chunks_mut(row)),
            ),
        );
        rows.enumerate().for_each(|(at, (diagonal, (outward, (south, east))))| {
            let polar = at % sides[1];
            for cell in 0..row {
                let faces = faces(sides, cell, polar);
                diagonal[cell] = faces.iter().flatten().sum();
                outward[cell] = if cell + 1 < row { faces[0][1] } else { 0.0 };
                (south[cell], east[cell]) = (faces[1][1], faces[2][1]);
            }
        });
        Ok(matrix)
    }

    fn bytes(&self) -> u64 {
        4 * self.diagonal.of::<u8>().len() as u64
    }

    fn view(&self) -> Operator<'_> {
        Operator {
            sides: self.sides,
            diagonal: self.diagonal.of(),
            next: [0, 1, 2].map(|axis| self.next[axis].of()),
        }
    }
}

/// Returns the conductance of both faces of a cell in each direction: the area of the face divided
/// by the distance between the centres of the cells on its two sides. `cell` is the cell's index
/// along its radius, and `polar` its index along the polar angle. The solution is zero at both ends
/// of a radius.
fn faces(sides: [usize; 3], cell: usize, polar: usize) -> [[f64; 2]; 3] {
    let radius = |face: f64| libm::pow(RADIUS, face / sides[0] as f64);
    let [theta, phi] = [PI / sides[1] as f64, TAU / sides[2] as f64];
    let (here, angle) = (cell as f64, polar as f64 * theta);
    let thick = radius(here + 1.0) - radius(here);
    let band = libm::cos(angle) - libm::cos(angle + theta);
    let radial = |face: f64| {
        // The distance between the centres of the two cells at this face. At an end of the radius,
        // the end takes the place of the missing centre.
        let outer = radius((face + 0.5).min(sides[0] as f64));
        let inner = radius((face - 0.5).max(0.0));
        radius(face) * radius(face) * band * phi / (outer - inner)
    };
    let pole = |face: usize| {
        let is_pole = face == 0 || face == sides[1];
        if is_pole { 0.0 } else { libm::sin(face as f64 * theta) * thick * phi / theta }
    };
    let around = thick * theta / (libm::sin(angle + theta / 2.0) * phi);
    [[radial(here), radial(here + 1.0)], [pole(polar), pole(polar + 1)], [around, around]]
}

/// The coefficients of the matrix, as slices.
#[derive(Clone, Copy)]
struct Operator<'a> {
    sides: [usize; 3],
    diagonal: &'a [f64],
    next: [&'a [f64]; 3],
}

impl Operator<'_> {
    /// Sets `y` to the product of the matrix and `x`.
    fn multiply(&self, x: &[f64], y: &mut [f64]) {
        let row = self.sides[0];
        y.par_chunks_mut(row).enumerate().for_each(|(at, y)| self.row(x, at, y));
    }

    /// Computes the part of the product of the matrix and `x` for the cells along one radius, the
    /// one with the index `at`. Sets `y` to these elements.
    fn row(&self, x: &[f64], at: usize, y: &mut [f64]) {
        let [row, polar, longitudes] = self.sides;
        let of = |at: usize| at * row..(at + 1) * row;
        let own = of(at);
        let [outward, south, east] = self.next;
        let plane = at / polar;
        let west_at = (plane + longitudes - 1) % longitudes * polar + at % polar;
        let east_at = (plane + 1) % longitudes * polar + at % polar;
        let (west_x, east_x) = (&x[of(west_at)], &x[of(east_at)]);
        let (west, east) = (&east[of(west_at)], &east[own.clone()]);
        let (here, diagonal) = (&x[own.clone()], &self.diagonal[own.clone()]);
        for cell in 0..row {
            y[cell] =
                diagonal[cell] * here[cell] - west[cell] * west_x[cell] - east[cell] * east_x[cell];
        }
        if !at.is_multiple_of(polar) {
            let (north, north_x) = (&south[of(at - 1)], &x[of(at - 1)]);
            y.iter_mut().zip(north).zip(north_x).for_each(|((y, c), x)| *y -= c * x);
        }
        if at % polar + 1 < polar {
            let (south, south_x) = (&south[own.clone()], &x[of(at + 1)]);
            y.iter_mut().zip(south).zip(south_x).for_each(|((y, c), x)| *y -= c * x);
        }
        let outward = &outward[own];
        for cell in 0..row - 1 {
            y[cell] -= outward[cell] * here[cell + 1];
            y[cell + 1] -= outward[cell] * here[cell];
        }
    }
}

/// Returns the known solution of round `round` in cell `cell`.
fn solution(cell: usize, round: u32) -> f64 {
    let value = (word(cell) >> 11) as f64 / (1_u64 << 53) as f64;
    value * f64::from(1 + round % 8)
}

impl Spherical {
    /// Allocates the matrix and the vectors of the largest shell of cells that fits into the
    /// footprint.
    ///
    /// # Errors
    /// When the footprint is less than 8 x 8 x 16 cells, memory cannot be allocated, or threads
    /// cannot be started.
    pub fn new(memory: &Memory, footprint: u64, threads: usize) -> Result<Self, SetupError> {
        at_least("spherical-cg", footprint, 8 * 8 * 16 * BYTES)?;
        // The shell has `side` radii, `side` polar angles and 2 `side` longitudes. These are as
        // many cells as in two cubes with `side` cells along an edge, so `side` is computed for
        // twice the bytes of a cell.
        let side = super::side(footprint, 2 * BYTES, 8);
        let sides = [side, side, 2 * side];
        let pool = team::pool(threads)?;
        let system = pool.install(|| Shell::new(memory, sides))?;
        Ok(Self { system, rounds: 0, pool })
    }
}

impl Shell {
    fn new(memory: &Memory, sides: [usize; 3]) -> Result<Self, SetupError> {
        let matrix = Coefficients::new(memory, sides)?;
        let array = || memory.array(8 * sides.iter().product::<usize>());
        let (solution, residual, direction, product) = (array()?, array()?, array()?, array()?);
        Ok(Self { matrix, solution, residual, direction, product })
    }

    /// Prepares round `round`. The right-hand side is the product of the matrix and the round's
    /// known solution. The iterations start with a solution of zero, so the right-hand side is also
    /// the initial residual.
    fn start(&mut self, round: u32) {
        let operator = self.matrix.view();
        let direction = self.direction.of_mut::<f64>();
        let cells = direction.par_iter_mut().enumerate();
        cells.for_each(|(cell, value)| *value = solution(cell, round));
        operator.multiply(direction, self.residual.of_mut());
        self.solution.of_mut::<f64>().par_iter_mut().for_each(|value| *value = 0.0);
        self.product.of_mut::<f64>().par_iter_mut().for_each(|value| *value = 0.0);
    }

    fn iterate(&mut self, iterations: u32) {
        let operator = self.matrix.view();
        let (solution, residual) = (self.solution.of_mut(), self.residual.of_mut::<f64>());
        let (direction, product) = (self.direction.of_mut::<f64>(), self.product.of_mut::<f64>());
        let mut gain = 0.0;
        for iteration in 0..iterations {
            let before = std::mem::replace(&mut gain, weighted(residual, operator.diagonal));
            if gain == 0.0 {
                break;
            }
            let kept = if iteration == 0 { 0.0 } else { gain / before };
            let parts = direction.par_chunks_mut(super::PART);
            let residuals = residual.par_chunks(super::PART);
            let diagonals = operator.diagonal.par_chunks(super::PART);
            parts.zip(residuals).zip(diagonals).for_each(|((direction, residual), diagonal)| {
                for ((value, residual), diagonal) in
                    direction.iter_mut().zip(residual).zip(diagonal)
                {
                    *value = residual / diagonal + kept * *value;
                }
            });
            operator.multiply(direction, product);
            let step = gain / dot(direction, product);
            add(solution, step, direction);
            add(residual, -step, product);
        }
    }
}

impl Shell {
    /// Compares the residual that the iterations updated with the residual that is computed from
    /// the solution. The energy of the error must be less than at the start of the round.
    fn verify(&self, round: u32) -> Result<(), Wrong> {
        let operator = self.matrix.view();
        let (solutions, residuals) = (self.solution.of::<f64>(), self.residual.of::<f64>());
        let right: Vec<f64> = (0..solutions.len()).map(|cell| solution(cell, round)).collect();
        let errors: Vec<f64> = right.iter().zip(solutions).map(|(a, b)| a - b).collect();
        let (row, mut energies) = (operator.sides[0], [0.0; 2]);
        let mut product = vec![0.0; row];
        for at in 0..solutions.len() / row {
            let cells = at * row..(at + 1) * row;
            operator.row(&right, at, &mut product);
            energies[0] +=
                product.iter().zip(&right[cells.clone()]).map(|(a, b)| a * b).sum::<f64>();
            operator.row(&errors, at, &mut product);
            for (cell, found) in cells.clone().zip(&product) {
                let scale = operator.diagonal[cell] * f64::from(1 + round % 8);
                let what = || format!("the residual of cell {cell}");
                near(what, residuals[cell], *found, TOLERANCE * scale)?;
            }
            energies[1] += product.iter().zip(&errors[cells]).map(|(a, b)| a * b).sum::<f64>();
        }
        // NaN fails this comparison, so it counts as a wrong value.
        let is_smaller = energies[1] < energies[0];
        if is_smaller {
            return Ok(());
        }
        wrong("the error, as an energy".into(), energies[1], format!("below {}", energies[0]))
    }
}

/// Returns the preconditioned scalar product of a vector with itself. The diagonal is the
/// preconditioner, so each term is divided by the diagonal element of the matrix.
fn weighted(vector: &[f64], diagonal: &[f64]) -> f64 {
    let part = |(a, d): (&[f64], &[f64])| a.iter().zip(d).map(|(a, d)| a * a / d).sum::<f64>();
    let parts = vector.par_chunks(super::PART).zip(diagonal.par_chunks(super::PART));
    parts.map(part).collect::<Vec<f64>>().iter().sum()
}

impl Kernel for Spherical {
    fn footprint(&self) -> u64 {
        self.system.matrix.bytes() + 4 * self.system.solution.of::<u8>().len() as u64
    }

    fn prepare(&mut self) {
        let Self { system, rounds, pool } = self;
        pool.install(|| system.start(*rounds));
    }

    fn round(&mut self) -> Work {
        let Self { system, pool, .. } = self;
        pool.install(|| system.iterate(ITERATIONS));
        self.rounds += 1;
        let cells = self.system.matrix.sides.iter().product::<usize>() as u64;
        let iterations = u64::from(ITERATIONS);
        // Accesses to elements of 8 bytes for a cell in an iteration: 2 for `gain`, 4 for the
        // direction, 6 for the product (4 of them read the matrix), 2 for `step`, and 3 each for
        // the solution and the residual.
        let bytes = iterations * cells * 8 * (2 + 4 + 6 + 2 + 3 + 3);
        Work { bytes, flops: iterations * FLOPS * cells, ..Work::default() }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        let Some(round) = self.rounds.checked_sub(1) else { return Ok(()) };
        self.system.verify(round)
    }

    fn checksum(&self) -> u64 {
        let solution = self.system.solution.of::<u64>();
        solution.iter().fold(0, |sum, bits| mixed(sum, *bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_find_the_solution() {
        let mut system = Shell::new(&Memory::Heap, [8, 8, 16]).expect("memory");
        system.start(2);
        system.iterate(400);
        for (cell, found) in system.solution.of::<f64>().iter().enumerate() {
            assert!((found - solution(cell, 2)).abs() < 1e-7, "cell {cell}: {found}");
        }
        assert_eq!(system.verify(2), Ok(()));
    }

    #[test]
    fn a_potential_that_falls_with_the_radius_has_no_sources_within() {
        // 1/r is harmonic, so its product with the matrix is zero inside the shell. With radii that
        // grow geometrically, it is zero but for rounding: the centres on both sides of a face have
        // radii whose product is the face's squared radius, so all faces have the same flux. The
        // error is relative to the terms that cancel.
        let error = |side: usize| {
            let matrix = Coefficients::new(&Memory::Heap, [side, 8, 16]).expect("memory");
            let centre =
                |cell: usize| libm::pow(RADIUS, ((cell % side) as f64 + 0.5) / side as f64);
            let field: Vec<f64> = (0..side * 128).map(|cell| 1.0 / centre(cell)).collect();
            let mut product = vec![0.0; field.len()];
            matrix.view().multiply(&field, &mut product);
            let middle = side / 2 + side * 4;
            (product[middle] / (matrix.view().diagonal[middle] * field[middle])).abs()
        };
        assert!(error(16) < 1e-12, "{}", error(16));
    }

    #[test]
    fn a_wrong_element_is_found() {
        let mut spherical = Spherical::new(&Memory::Heap, 1 << 20, 2).expect("enough");
        spherical.prepare();
        spherical.round();
        assert_eq!(spherical.verify(), Ok(()));
        spherical.system.solution.of_mut::<f64>()[99] += 1e-6;
        assert!(spherical.verify().is_err());
    }
}
