//! Programs on grids: the lattice Boltzmann method, block-tridiagonal systems, compact finite
//! differences, and conjugate gradients (in spherical coordinates, and with multigrid).
//!
//! Loops are divided into chunks of a fixed size, and not into one chunk per thread. Sums are added
//! in the order of the chunks. So the results have the same bits for any number of threads.

pub mod block_tridiagonal;

pub mod compact;

pub mod lattice;

pub mod multigrid;

pub mod spherical;

use crate::Wrong;
use rayon::prelude::*;
use std::fmt::Display;

/// The number of elements in a chunk of a vector. A chunk is one task.
const PART: usize = 4096;

/// Returns the number of cells along an edge of the largest cube that fits into the footprint. A
/// cell takes `cell_bytes` bytes. The number is even, and at least `least`.
fn side(footprint: u64, cell_bytes: u64, least: usize) -> usize {
    let fits = |side: &usize| (*side as u64).pow(3) * cell_bytes <= footprint;
    let largest = libm::cbrt((footprint / cell_bytes) as f64) as usize + 2;
    (least..=largest).rev().filter(|side| side % 2 == 0).find(fits).unwrap_or(least)
}

/// Returns the scalar product of two vectors.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let part = |(a, b): (&[f64], &[f64])| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let parts: Vec<f64> = a.par_chunks(PART).zip(b.par_chunks(PART)).map(part).collect();
    parts.iter().sum()
}

/// Computes `y = x + scale y`.
fn scale_and_add(y: &mut [f64], scale: f64, x: &[f64]) {
    y.par_chunks_mut(PART).zip(x.par_chunks(PART)).for_each(|(y, x)| {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x + scale * *y);
    });
}

/// Computes `y = y + scale x`.
fn add(y: &mut [f64], scale: f64, x: &[f64]) {
    y.par_chunks_mut(PART).zip(x.par_chunks(PART)).for_each(|(y, x)| {
        y.iter_mut().zip(x).for_each(|(y, x)| *y += scale * x);
    });
}

/// Fails if `found` is NaN, or differs from `expected` by more than `tolerance`. `what` names the
/// value in the error.
fn near(
    what: impl FnOnce() -> String,
    found: f64,
    expected: f64,
    tolerance: f64,
) -> Result<(), Wrong> {
    let is_near = (found - expected).abs() <= tolerance;
    if is_near { Ok(()) } else { wrong(what(), found, expected) }
}

fn wrong<T>(what: String, found: impl Display, expected: impl Display) -> Result<T, Wrong> {
    Err(Wrong { what, found: found.to_string(), expected: expected.to_string() })
}
