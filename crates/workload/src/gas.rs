//! A step of gas dynamics on a cube of cells: a ball of gas expands into near vacuum. The
//! astrophysics program AstroPhi computes such steps in the study of Mironov et al. (MCHPC'18,
//! section 5.3.2).
//!
//! The Euler equations for density, momentum and energy are solved with finite volumes. The states
//! at a cell's faces are reconstructed linearly with the minmod limiter (van Leer, Journal of
//! Computational Physics 1979). The numerical flux is that of Rusanov (USSR Computational
//! Mathematics 1961). AstroPhi reconstructs with parabolas, and computes the flux from Roe's
//! averages. But it has the same accesses as this module, two neighbours of a cell in each
//! direction, and a number of operations per byte of the same order.
//!
//! The boundaries are periodic, so mass and energy are conserved. The initial state equals its
//! mirror image bit for bit, and so does each later state. Both properties are verified. The gas
//! around the ball is not uniform, so each step changes every cell.

use crate::{
    Kernel, SetupError, Work, Wrong, at_least,
    memory::{Array, Memory},
    mixed, team,
};
use std::f64::consts::TAU;

/// The number of fields of a cell: density, momentum along three axes, and energy.
const FIELDS: usize = 5;

/// Bytes of a cell: all fields of its old and of its new state.
pub(crate) const BYTES: u64 = 2 * FIELDS as u64 * 8;

/// The ratio of specific heats of a monatomic gas.
const GAMMA: f64 = 5.0 / 3.0;

/// The fraction of a cell's width that the fastest wave crosses in a step. In three dimensions, the
/// scheme is stable up to 1/6.
const COURANT: f64 = 0.15;

/// The largest relative error that `verify` accepts in the sums of mass and energy, and between a
/// value and its mirror image.
const TOLERANCE: f64 = 1e-9;

/// Floating-point operations for a cell in a step. Comparisons do not count. There are 13 calls of
/// [`state_of`] with 13 operations each, 6 faces, and, for each field, 6 operations that sum the
/// fluxes and 2 that apply the sum. A face has 10 calls of [`half_slope`] with 5 operations each
/// (one of them adds the result), 2 calls of [`flux`] with 24 each, and 5 operations for each
/// field.
pub(crate) const FLOPS: u64 = 13 * 13 + 6 * (10 * 5 + 2 * 24 + 5 * 5) + 5 * (6 + 2);

/// The density, the three velocities and the pressure of a cell. Some functions use this type for
/// five other numbers: the stored fields of a cell, or the fluxes of these fields.
type State = [f64; FIELDS];

/// The states of the cells before and after a round.
#[derive(Debug)]
pub struct Gas {
    /// The states of all cells after an even and after an odd number of rounds. They are stored
    /// field by field.
    states: [Array; 2],
    /// Number of cells along an edge. It is even.
    side: usize,
    threads: usize,
    rounds: u32,
    /// The largest wave speed in the last step. The length of the next step follows from it.
    speed: f64,
    /// The sums of density and energy over all cells in the initial state.
    sums: [f64; 2],
}

/// Returns the number of cells, which is even, along an edge of the largest cube that fits into the
/// footprint.
///
/// # Errors
/// When the footprint is less than 8 x 8 x 8 cells.
pub(crate) fn side(footprint: u64) -> Result<usize, SetupError> {
    at_least("gas", footprint, 512 * BYTES)?;
    let largest = ((footprint / BYTES) as f64).cbrt() as usize + 1;
    let is_small_enough = |side: &usize| (*side as u64).pow(3) * BYTES <= footprint;
    let side = (8..=largest).rev().filter(|side| side % 2 == 0).find(is_small_enough);
    Ok(side.unwrap_or(8))
}

impl Gas {
    /// Allocates the states of the largest cube of cells that fits into the footprint, before and
    /// after a round. The cube has an even number of cells along an edge. Fills in the initial
    /// state.
    ///
    /// # Errors
    /// When the footprint is less than 8 x 8 x 8 cells, or memory cannot be allocated.
    pub fn new(memory: &Memory, footprint: u64, threads: usize) -> Result<Self, SetupError> {
        let side = side(footprint)?;
        let array = || memory.array(side.pow(3) * FIELDS * size_of::<f64>());
        let states = [array()?, array()?];
        let mut gas = Self { states, side, threads, rounds: 0, speed: 0.0, sums: [0.0; 2] };
        gas.fill();
        gas.sums = gas.conserved();
        Ok(gas)
    }

    /// Sets the initial state: a dense ball in a thin gas, both at rest. A cosine wave makes the
    /// density vary from cell to cell.
    fn fill(&mut self) {
        let cells = self.side.pow(3);
        let state = self.states[0].of_mut::<f64>();
        for at in 0..cells {
            for (field, value) in initial(self.side, at).into_iter().enumerate() {
                state[field * cells + at] = value;
            }
        }
        // Touch the pages here, so that Linux allocates them before the measured rounds.
        self.states[1].of_mut::<f64>().fill(0.0);
        // The gas is at rest, so the fastest wave is sound. Its speed is the same everywhere.
        self.speed = GAMMA.sqrt();
    }

    /// Returns the state after the last round.
    fn state(&self) -> &[f64] {
        self.states[self.rounds as usize % 2].of()
    }

    /// Returns the sums of density and energy over all cells.
    fn conserved(&self) -> [f64; 2] {
        let cells = self.side.pow(3);
        let sum = |field: usize| {
            let values = &self.state()[field * cells..][..cells];
            values.chunks(self.side).map(|row| row.iter().sum::<f64>()).sum()
        };
        [sum(0), sum(FIELDS - 1)]
    }
}

/// Returns the initial fields of cell `at` in a cube with `side` cells along an edge.
fn initial(side: usize, at: usize) -> State {
    let places = [at % side, at / side % side, at / side / side];
    // The distances to the edge are integers, so those of mirrored cells are equal, bit for bit.
    let to_edge = places.map(|place| place.min(side - 1 - place));
    let to_middle = to_edge.map(|distance| side as f64 / 2.0 - distance as f64 - 0.5);
    let radius = to_middle.iter().map(|distance| distance * distance).sum::<f64>().sqrt();
    let is_inside = radius < 0.2 * side as f64;
    let wave: f64 = to_edge.iter().map(|at| (TAU * *at as f64 / side as f64).cos()).sum();
    let density = if is_inside { 1.0 } else { 1e-3 } * (1.0 + 0.05 * wave);
    // The pressure equals the density, so the speed of sound is the same everywhere.
    [density, 0.0, 0.0, 0.0, density / (GAMMA - 1.0)]
}

/// Converts the stored fields of cell `at` to density, velocities and pressure.
fn state_of(fields: &[&[f64]; FIELDS], at: usize) -> State {
    let [density, x, y, z, energy] = fields.map(|field| field[at]);
    let inverse = 1.0 / density;
    let kinetic = 0.5 * (x * x + y * y + z * z) * inverse;
    [density, x * inverse, y * inverse, z * inverse, (GAMMA - 1.0) * (energy - kinetic)]
}

/// Returns half of a field's slope in a cell, limited by minmod. The slope is the smaller of the
/// differences to the two neighbours, or 0 if the signs of the differences disagree.
fn half_slope(before: f64, here: f64, after: f64) -> f64 {
    let (left, right) = (here - before, after - here);
    match left * right > 0.0 {
        true if left.abs() < right.abs() => 0.5 * left,
        true => 0.5 * right,
        false => 0.0,
    }
}

/// Returns the conserved fields of a state, their flux along an axis, and the speed of the state's
/// fastest wave.
fn flux(state: &State, axis: usize) -> (State, State, f64) {
    let [density, x, y, z, pressure] = *state;
    let energy = pressure / (GAMMA - 1.0) + 0.5 * density * (x * x + y * y + z * z);
    let fields = [density, density * x, density * y, density * z, energy];
    let across = state[1 + axis];
    let mut flux = fields.map(|field| field * across);
    flux[1 + axis] += pressure;
    flux[FIELDS - 1] += pressure * across;
    (fields, flux, across.abs() + (GAMMA * pressure / density).sqrt())
}

/// Returns the flux through the face between the second and the third of four successive cells
/// along `axis`, and the speed of the fastest wave at this face.
fn face(cells: [&State; 4], axis: usize) -> (State, f64) {
    let [a, b, c, d] = cells;
    let left: State = std::array::from_fn(|at| b[at] + half_slope(a[at], b[at], c[at]));
    let right: State = std::array::from_fn(|at| c[at] - half_slope(b[at], c[at], d[at]));
    let (left_fields, left_flux, left_speed) = flux(&left, axis);
    let (right_fields, right_flux, right_speed) = flux(&right, axis);
    let speed = left_speed.max(right_speed);
    let of = |at: usize| {
        0.5 * ((left_flux[at] + right_flux[at]) - speed * (right_fields[at] - left_fields[at]))
    };
    (std::array::from_fn(of), speed)
}

/// Returns the fields of cell `at` after a step of length `time` (a cell has the width 1), and the
/// speed of the fastest wave at its faces.
fn step(fields: &[&[f64]; FIELDS], side: usize, at: usize, time: f64) -> (State, f64) {
    let here = state_of(fields, at);
    let mut change = [0.0; FIELDS];
    let mut fastest = 0.0_f64;
    for (axis, distance) in [1, side, side * side].into_iter().enumerate() {
        let place = at / distance % side;
        // Returns the index of the cell that is `offset` cells further along the axis. The boundary
        // is periodic: after the last cell comes the first one.
        let neighbour = |offset: usize| at - place * distance + (place + offset) % side * distance;
        let around = [side - 2, side - 1, 1, 2].map(|offset| state_of(fields, neighbour(offset)));
        let [a, b, d, e] = &around;
        let (left, left_speed) = face([a, b, &here, d], axis);
        let (right, right_speed) = face([b, &here, d, e], axis);
        change.iter_mut().zip(right.iter().zip(&left)).for_each(|(sum, (r, l))| *sum += r - l);
        fastest = fastest.max(left_speed).max(right_speed);
    }
    (std::array::from_fn(|field| fields[field][at] - time * change[field]), fastest)
}

impl Kernel for Gas {
    fn footprint(&self) -> u64 {
        self.states.iter().map(|state| state.of::<u8>().len() as u64).sum()
    }

    fn round(&mut self) -> Work {
        let (side, cells) = (self.side, self.side.pow(3));
        let time = COURANT / self.speed;
        let [even, odd] = &mut self.states;
        let (old, new) = if self.rounds.is_multiple_of(2) { (even, odd) } else { (odd, even) };
        let old: &[f64] = old.of();
        let fields: [&[f64]; FIELDS] = std::array::from_fn(|field| &old[field * cells..][..cells]);
        // Each thread computes several planes of cells, and writes all fields of these cells.
        let share = side.div_ceil(self.threads.max(1)) * side * side;
        let mut parts: Vec<Vec<&mut [f64]>> = (0..cells.div_ceil(share)).map(|_| vec![]).collect();
        for field in new.of_mut::<f64>().chunks_mut(cells) {
            parts.iter_mut().zip(field.chunks_mut(share)).for_each(|(part, it)| part.push(it));
        }
        let parts: Vec<(usize, Vec<&mut [f64]>)> = parts.into_iter().enumerate().collect();
        let speeds = team::each(parts, |(part, mut new)| {
            let mut fastest = 0.0_f64;
            for at in 0..new[0].len() {
                let (fields, speed) = step(&fields, side, part * share + at, time);
                new.iter_mut().zip(fields).for_each(|(new, value)| new[at] = value);
                fastest = fastest.max(speed);
            }
            fastest
        });
        self.speed = speeds.into_iter().fold(0.0, f64::max);
        self.rounds += 1;
        Work { bytes: self.footprint(), flops: FLOPS * cells as u64, ..Work::default() }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        // NaN fails this comparison, so it counts as a wrong value.
        let is_near = |found: f64, expected: f64, scale: f64| {
            (found - expected).abs() <= TOLERANCE * scale.abs()
        };
        let wrong = |what: String, found: f64, expected: f64| {
            Err(Wrong { what, found: found.to_string(), expected: expected.to_string() })
        };
        for ((name, found), expected) in
            ["mass", "energy"].into_iter().zip(self.conserved()).zip(self.sums)
        {
            if !is_near(found, expected, expected) {
                return wrong(format!("the sum of {name}"), found, expected);
            }
        }
        let (side, cells) = (self.side, self.side.pow(3));
        for (at, found) in self.state().iter().enumerate() {
            let (field, place) = (at / cells, at % side);
            // The mirror image along x has the opposite momentum along x (field 1).
            let sign = if field == 1 { -1.0 } else { 1.0 };
            let expected = sign * self.state()[at - place + side - 1 - place];
            if !is_near(*found, expected, expected.abs() + f64::MIN_POSITIVE) {
                return wrong(format!("field {field} of cell {}", at % cells), *found, expected);
            }
        }
        Ok(())
    }

    fn checksum(&self) -> u64 {
        self.state().iter().fold(0, |sum, value| mixed(sum, value.to_bits()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uniform_gas_stays_at_rest() {
        let uniform = [1.0, 0.0, 0.0, 0.0, 1.0];
        let fields: Vec<Vec<f64>> = uniform.iter().map(|value| vec![*value; 512]).collect();
        let fields: [&[f64]; FIELDS] = std::array::from_fn(|field| &fields[field][..]);
        let (found, speed) = step(&fields, 8, 100, 0.1);
        assert_eq!(found, uniform);
        assert!((speed - (GAMMA * (GAMMA - 1.0)).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn every_step_changes_every_page_and_keeps_mass_and_energy() {
        let mut gas = Gas::new(&Memory::Heap, 16 * 16 * 16 * BYTES, 2).expect("enough");
        for round in 0..20 {
            let before = gas.states[(gas.rounds as usize + 1) % 2].of::<u64>().to_vec();
            gas.round();
            let after = gas.state();
            let is_new = |(a, b): (&[u64], &[f64])| a.iter().zip(b).any(|(a, b)| *a != b.to_bits());
            assert!(before.chunks(512).zip(after.chunks(512)).all(is_new), "round {round}");
            assert_eq!(gas.verify(), Ok(()), "round {round}");
        }
    }
}
