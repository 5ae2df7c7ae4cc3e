//! The lattice Boltzmann method with 19 velocities in three dimensions (D3Q19), and with the
//! relaxation of Bhatnagar, Gross and Krook (Qian, d'Humières, Lallemand, Europhysics Letters
//! 1992). These are the loops of the benchmark lbm.
//!
//! For each cell and velocity, a step reads the population that arrives from a neighbour, and
//! writes the relaxed population to a second array. Boundaries are periodic. The initial state is
//! an ABC flow (Arnold, Beltrami, Childress), which keeps its form and decays as exp(-viscosity k^2
//! t), where k is the wave number of the flow and t is the number of steps.
//!
//! Verification: one thread computes the last step again from the state before it, and all
//! populations must be equal. Mass and momentum must have their initial values, and the velocities
//! must be those of the decayed flow.

use super::{near, side};
use crate::{
    Kernel, SetupError, Work, Wrong, at_least,
    memory::{Array, Memory},
    mixed, team,
};
use rayon::{ThreadPool, prelude::*};
use std::f64::consts::TAU;

const VELOCITIES: usize = 19;

/// Bytes of a cell: its populations before and after a step.
const BYTES: u64 = 2 * VELOCITIES as u64 * 8;

/// Floating-point operations for a cell: density 18, momentum 3 x 9, velocities 4, square of the
/// velocity 6. For each population: product with the velocity 2, equilibrium 7, relaxation 3.
const FLOPS: u64 = 18 + 27 + 4 + 6 + 19 * 12;

/// The direction of each velocity: the number of cells along x, y and z that its population moves
/// in a step.
const DIRECTIONS: [[i32; 3]; VELOCITIES] = [
    [0, 0, 0],
    [1, 0, 0],
    [-1, 0, 0],
    [0, 1, 0],
    [0, -1, 0],
    [0, 0, 1],
    [0, 0, -1],
    [1, 1, 0],
    [-1, -1, 0],
    [1, -1, 0],
    [-1, 1, 0],
    [1, 0, 1],
    [-1, 0, -1],
    [1, 0, -1],
    [-1, 0, 1],
    [0, 1, 1],
    [0, -1, -1],
    [0, 1, -1],
    [0, -1, 1],
];

/// `RELAXATION` is the inverse of the relaxation time in steps. `VISCOSITY` is the viscosity that
/// follows from it, in squared cell widths per step.
const RELAXATION: f64 = 1.25;
const VISCOSITY: f64 = (1.0 / RELAXATION - 0.5) / 3.0;

/// The amplitude of the flow, in cells per step. It is far below the speed of sound (0.58 cells per
/// step).
const SPEED: f64 = 0.01;

/// The largest error of a population that `verify` accepts after the last step. For a sum over all
/// cells, this tolerance is multiplied by the numbers of cells and rounds.
const TOLERANCE: f64 = 1e-12;

/// The largest error of a velocity that `verify` accepts with 8 cells along an edge, as a fraction
/// of the amplitude [`SPEED`]. The error falls with the square of this number of cells.
const FLOW_TOLERANCE: f64 = 0.2;

/// The states of all cells before and after a step.
#[derive(Debug)]
pub struct Lattice {
    /// The states of all cells after an even and after an odd number of rounds. They are stored
    /// velocity by velocity.
    states: [Array; 2],
    side: usize,
    rounds: u32,
    pool: ThreadPool,
}

fn weight(velocity: usize) -> f64 {
    match velocity {
        0 => 1.0 / 3.0,
        1..=6 => 1.0 / 18.0,
        _ => 1.0 / 36.0,
    }
}

/// Returns the equilibrium population of one of the 19 velocities in a cell with the density
/// `density` and the flow velocity `speeds`. `square` is 1.5 times the square of the cell's speed.
fn equilibrium(velocity: usize, density: f64, speeds: [f64; 3], square: f64) -> f64 {
    let along: f64 = DIRECTIONS[velocity].iter().zip(speeds).map(|(c, u)| f64::from(*c) * u).sum();
    weight(velocity) * density * (1.0 + 3.0 * along + 4.5 * along * along - square)
}

impl Lattice {
    /// Allocates the states of the largest cube of cells that fits into the footprint, before and
    /// after a step. Fills in the initial state.
    ///
    /// # Errors
    /// When the footprint is less than 8 x 8 x 8 cells, memory cannot be allocated, or threads
    /// cannot be started.
    pub fn new(memory: &Memory, footprint: u64, threads: usize) -> Result<Self, SetupError> {
        at_least("lbm", footprint, 512 * BYTES)?;
        let side = side(footprint, BYTES, 8);
        let array = || memory.array(side.pow(3) * VELOCITIES * size_of::<f64>());
        let states = [array()?, array()?];
        let mut lattice = Self { states, side, rounds: 0, pool: team::pool(threads)? };
        let cells = side.pow(3);
        let Self { states: [even, odd], pool, .. } = &mut lattice;
        pool.install(|| {
            let planes = even.of_mut::<f64>().par_chunks_mut(side * side).enumerate();
            planes.for_each(|(plane, populations)| {
                let (velocity, z) = (plane / side, plane % side);
                for (at, population) in populations.iter_mut().enumerate() {
                    let speeds = flow(side, [at % side, at / side, z]);
                    let square = 1.5 * speeds.iter().map(|u| u * u).sum::<f64>();
                    // By Bernoulli's equation, the pressure is lower where the flow is faster. The
                    // density is three times the pressure, so the density is 1 minus 1.5 times the
                    // square of the speed (`square`).
                    *population = equilibrium(velocity, 1.0 - square, speeds, square);
                }
            });
            // Touch the pages here, so that Linux allocates them before the measured rounds.
            odd.of_mut::<f64>().par_chunks_mut(cells).for_each(|it| it.fill(0.0));
        });
        Ok(lattice)
    }

    fn state(&self, rounds: u32) -> &[f64] {
        self.states[rounds as usize % 2].of()
    }
}

/// Returns the initial velocity of the ABC flow in the cell at the coordinates `place` of a cube
/// with `side` cells along an edge.
fn flow(side: usize, place: [usize; 3]) -> [f64; 3] {
    let [x, y, z] = place.map(|at| libm::sincos(TAU * at as f64 / side as f64));
    [z.0 + y.1, x.0 + z.1, y.0 + x.1].map(|speed| SPEED * speed)
}

/// Returns the origin of the populations of a velocity that arrive in the row of cells at `y` and
/// `z`, as (index of the first cell of the row that they come from, number of cells that they move
/// along x).
fn origin(side: usize, velocity: usize, y: usize, z: usize) -> (usize, i32) {
    let [dx, dy, dz] = DIRECTIONS[velocity];
    let before = |at: usize, by: i32| (at as i32 + side as i32 - by) as usize % side;
    ((before(z, dz) * side + before(y, dy)) * side, dx)
}

/// Computes the new populations of the row of cells at `y` and `z`. `new` has a row of populations
/// for each velocity.
fn row(old: &[f64], new: &mut [&mut [f64]], side: usize, y: usize, z: usize) {
    let cells = side.pow(3);
    // First copy the arriving populations, shifted along x. Then the loop over the cells has no
    // special cases at the borders.
    for (velocity, new) in new.iter_mut().enumerate() {
        let (start, shift) = origin(side, velocity, y, z);
        let from = &old[velocity * cells + start..][..side];
        match shift {
            1 => {
                new[1..].copy_from_slice(&from[..side - 1]);
                new[0] = from[side - 1];
            }
            -1 => {
                new[..side - 1].copy_from_slice(&from[1..]);
                new[side - 1] = from[0];
            }
            _ => new.copy_from_slice(from),
        }
    }
    #[expect(clippy::needless_range_loop, reason = "a cell of every row")]
    for x in 0..side {
        let arrived: [f64; VELOCITIES] = std::array::from_fn(|velocity| new[velocity][x]);
        let (density, speeds) = moments(&arrived);
        let square = 1.5 * speeds.iter().map(|u| u * u).sum::<f64>();
        for (velocity, population) in arrived.into_iter().enumerate() {
            let relaxed = equilibrium(velocity, density, speeds, square);
            new[velocity][x] = population + RELAXATION * (relaxed - population);
        }
    }
}

/// Returns the density of a cell and its velocity along each axis.
fn moments(populations: &[f64; VELOCITIES]) -> (f64, [f64; 3]) {
    let density: f64 = populations.iter().sum();
    let mut momentum = [0.0; 3];
    for (population, direction) in populations.iter().zip(&DIRECTIONS) {
        for (sum, c) in momentum.iter_mut().zip(direction) {
            *sum += f64::from(*c) * population;
        }
    }
    (density, momentum.map(|sum| sum / density))
}

impl Kernel for Lattice {
    fn footprint(&self) -> u64 {
        self.states.iter().map(|state| state.of::<u8>().len() as u64).sum()
    }

    fn round(&mut self) -> Work {
        let (side, cells) = (self.side, self.side.pow(3));
        let [even, odd] = &mut self.states;
        let (old, new) = if self.rounds.is_multiple_of(2) { (even, odd) } else { (odd, even) };
        let old: &[f64] = old.of();
        let mut planes: Vec<Vec<&mut [f64]>> = (0..side).map(|_| vec![]).collect();
        for population in new.of_mut::<f64>().chunks_mut(cells) {
            let of_plane = population.chunks_mut(side * side);
            planes.iter_mut().zip(of_plane).for_each(|(plane, part)| plane.push(part));
        }
        self.pool.install(|| {
            planes.into_par_iter().enumerate().for_each(|(z, mut plane)| {
                for y in 0..side {
                    let rows = plane.iter_mut().map(|part| &mut part[y * side..][..side]);
                    row(old, &mut rows.collect::<Vec<_>>(), side, y, z);
                }
            });
        });
        self.rounds += 1;
        Work { bytes: self.footprint(), flops: FLOPS * cells as u64, ..Work::default() }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        let Some(before) = self.rounds.checked_sub(1) else { return Ok(()) };
        let (side, cells) = (self.side, self.side.pow(3));
        let (old, new) = (self.state(before), self.state(self.rounds));
        let decay = libm::exp(
            -VISCOSITY * (TAU / side as f64) * (TAU / side as f64) * f64::from(self.rounds),
        );
        let mut sums = [0.0; 4];
        for cell in 0..cells {
            let place = [cell % side, cell / side % side, cell / side / side];
            let arrived: [f64; VELOCITIES] = std::array::from_fn(|velocity| {
                let (row, shift) = origin(side, velocity, place[1], place[2]);
                let x = (place[0] as i32 + side as i32 - shift) as usize % side;
                old[velocity * cells + row + x]
            });
            let (density, speeds) = moments(&arrived);
            let square = 1.5 * speeds.iter().map(|u| u * u).sum::<f64>();
            for velocity in 0..VELOCITIES {
                let relaxed = equilibrium(velocity, density, speeds, square);
                let expected = arrived[velocity] + RELAXATION * (relaxed - arrived[velocity]);
                let found = new[velocity * cells + cell];
                let what = || format!("population {velocity} of cell {cell}");
                near(what, found, expected, TOLERANCE)?;
            }
            let right = flow(side, place).map(|speed| decay * speed);
            let tolerance = SPEED * FLOW_TOLERANCE * 64.0 / side.pow(2) as f64;
            for (axis, (found, expected)) in speeds.into_iter().zip(right).enumerate() {
                near(|| format!("velocity {axis} of cell {cell}"), found, expected, tolerance)?;
                sums[axis] += density * found;
            }
            sums[3] += density;
        }
        let start: f64 = (0..cells)
            .map(|cell| {
                let speeds = flow(side, [cell % side, cell / side % side, cell / side / side]);
                1.0 - 1.5 * speeds.iter().map(|u| u * u).sum::<f64>()
            })
            .sum();
        for (name, (found, expected)) in
            ["x", "y", "z", "mass"].iter().zip(sums.into_iter().zip([0.0, 0.0, 0.0, start]))
        {
            let tolerance = TOLERANCE * cells as f64 * f64::from(self.rounds);
            near(|| format!("the sum of {name}"), found, expected, tolerance)?;
        }
        Ok(())
    }

    fn checksum(&self) -> u64 {
        self.state(self.rounds).iter().fold(0, |sum, value| mixed(sum, value.to_bits()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn velocities_are_isotropic() {
        let sum = |f: &dyn Fn(&[i32; 3]) -> i32| -> f64 {
            let terms = DIRECTIONS.iter().enumerate();
            terms.map(|(at, direction)| weight(at) * f64::from(f(direction))).sum()
        };
        assert!((sum(&|_| 1) - 1.0).abs() < 1e-15);
        for a in 0..3 {
            assert!(sum(&|c| c[a]).abs() < 1e-15);
            for b in 0..3 {
                let expected = if a == b { 1.0 / 3.0 } else { 0.0 };
                assert!((sum(&|c| c[a] * c[b]) - expected).abs() < 1e-15);
            }
        }
    }

    #[test]
    fn the_flow_decays_as_it_should_for_many_steps() {
        let mut lattice = Lattice::new(&Memory::Heap, 16 * 16 * 16 * BYTES, 2).expect("enough");
        for _ in 0..40 {
            lattice.round();
        }
        assert_eq!(lattice.verify(), Ok(()));
    }

    #[test]
    fn a_wrong_page_is_found() {
        let mut lattice = Lattice::new(&Memory::Heap, 8 * 8 * 8 * BYTES, 1).expect("enough");
        lattice.round();
        assert_eq!(lattice.verify(), Ok(()));
        let page = lattice.states[1].of::<f64>()[512..1024].to_vec();
        lattice.states[1].of_mut::<f64>()[1024..1536].copy_from_slice(&page);
        assert!(lattice.verify().is_err());
    }
}
