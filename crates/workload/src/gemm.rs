//! The product C = A B of square matrices, by `matrixmultiply` through `ndarray`. If the matrices
//! are stored by rows, a thread computes all of its rows of C in one library call. If they are
//! stored by tiles, which are contiguous in memory, one library call multiplies two tiles.
//!
//! The elements are small integers, so every sum is exact in any order. To verify C, C x is
//! compared with A (B x) for a vector x (Freivalds 1977), which is exact, too. Every other round
//! computes 2 A B, so each round changes the stored values.

use crate::{
    Kernel, PAGE, SetupError, Work, Wrong, at_least,
    memory::{Array, Memory},
    mixed, team, word,
};
use ndarray::{ArrayView2, ArrayViewMut2, linalg::general_mat_mul};

/// The matrices A, B and C of C = A B.
#[derive(Debug)]
pub struct Gemm {
    a: Array,
    b: Array,
    c: Array,
    /// Number of rows, and of columns, of each matrix.
    side: usize,
    /// Number of rows of a tile. It equals `side` if the matrices are stored by rows.
    tile: usize,
    threads: usize,
    rounds: u32,
}

/// Returns the number that divides the side of each matrix: the rows of a tile, or 8 without tiles.
fn unit(tile: Option<usize>) -> usize {
    tile.unwrap_or(8).max(8)
}

/// Returns the number of rows of the largest three equal matrices that fit into the footprint.
///
/// # Errors
/// When the footprint is less than three tiles (without tiles, three times 8 x 8 elements).
pub(crate) fn side(footprint: u64, tile: Option<usize>) -> Result<usize, SetupError> {
    let what = if tile.is_some() { "gemm-tiled" } else { "gemm" };
    let unit = unit(tile);
    at_least(what, footprint, 24 * (unit * unit) as u64)?;
    Ok(((footprint / 24) as f64).sqrt() as usize / unit * unit)
}

impl Gemm {
    /// Allocates three matrices that fit into the footprint together. They are stored by tiles of
    /// `tile` rows (at least 8), or by rows if `tile` is `None`.
    ///
    /// # Errors
    /// When the footprint is less than three tiles (without tiles, three times 8 x 8 elements), or
    /// memory cannot be allocated.
    pub fn new(
        memory: &Memory,
        footprint: u64,
        threads: usize,
        tile: Option<usize>,
    ) -> Result<Self, SetupError> {
        let side = side(footprint, tile)?;
        let array = || memory.array(side * side * size_of::<f64>());
        let (a, b, c) = (array()?, array()?, array()?);
        let tile = tile.map_or(side, |_| unit(tile));
        let mut gemm = Self { a, b, c, side, tile, threads, rounds: 0 };
        for (matrix, seed) in [(&mut gemm.a, 0), (&mut gemm.b, 1 << 40)] {
            let elements = matrix.of_mut::<f64>().iter_mut().enumerate();
            elements.for_each(|(at, element)| *element = small(seed + at));
        }
        gemm.c.of_mut::<f64>().fill(0.0);
        Ok(gemm)
    }

    /// Returns the factor f of the product C = f A B in a round. It alternates between 1 and 2, so
    /// that each round changes C.
    fn factor(round: u32) -> f64 {
        1.0 + f64::from(round % 2)
    }

    fn is_tiled(&self) -> bool {
        self.tile < self.side
    }

    /// Multiplies matrices that are stored by rows. A thread computes several rows of C from the
    /// same rows of A.
    fn by_rows(&mut self, factor: f64) {
        let (side, b) = (self.side, self.b.of::<f64>());
        let rows = side.div_ceil(self.threads) * side;
        let parts = self.a.of::<f64>().chunks(rows).zip(self.c.of_mut::<f64>().chunks_mut(rows));
        team::each(parts.collect(), |(a, c)| multiply(factor, a, b, c, side, 0.0));
    }

    /// Multiplies matrices that are stored by tiles. A thread computes several rows of tiles of C,
    /// and completes each tile before it begins the next one.
    fn by_tiles(&mut self, factor: f64) {
        let (tiles, size) = (self.side / self.tile, self.tile * self.tile);
        let (a, b, tile) = (self.a.of::<f64>(), self.b.of::<f64>(), self.tile);
        let rows: Vec<(usize, &mut [f64])> =
            self.c.of_mut::<f64>().chunks_mut(tiles * size).enumerate().collect();
        let share = rows.len().div_ceil(self.threads);
        let mut rows = rows.into_iter();
        let mut parts: Vec<Vec<(usize, &mut [f64])>> = vec![];
        while rows.len() > 0 {
            parts.push(rows.by_ref().take(share).collect());
        }
        team::each(parts, |rows| {
            for (i, row) in rows {
                for (j, c) in row.chunks_mut(size).enumerate() {
                    for k in 0..tiles {
                        let (a, b) = (&a[(i * tiles + k) * size..], &b[(k * tiles + j) * size..]);
                        let old = if k == 0 { 0.0 } else { 1.0 };
                        multiply(factor, &a[..size], &b[..size], c, tile, old);
                    }
                }
            }
        });
    }

    /// Returns the index in a matrix's array of the element at `row` and `column`.
    fn place(&self, row: usize, column: usize) -> usize {
        let (tile, tiles) = (self.tile, self.side / self.tile);
        let of_tile = (row / tile * tiles + column / tile) * tile * tile;
        of_tile + row % tile * tile + column % tile
    }

    /// Returns the product of a matrix and a vector. Reads the matrix in the order of its memory.
    fn times(&self, matrix: &Array, vector: &[f64]) -> Vec<f64> {
        let (tile, tiles) = (self.tile, self.side / self.tile);
        let mut result = vec![0.0; self.side];
        for (at, row) in matrix.of::<f64>().chunks(tile).enumerate() {
            let (of_tile, in_tile) = (at / tile, at % tile);
            let (i, k) = (of_tile / tiles * tile + in_tile, of_tile % tiles * tile);
            result[i] += row.iter().zip(&vector[k..]).map(|(a, x)| a * x).sum::<f64>();
        }
        result
    }
}

/// Computes c = `factor` a b + `old` c. All three matrices have `side` columns. `b` also has `side`
/// rows.
fn multiply(factor: f64, a: &[f64], b: &[f64], c: &mut [f64], side: usize, old: f64) {
    let shape = (a.len() / side, side);
    let a = ArrayView2::from_shape(shape, a);
    let b = ArrayView2::from_shape((side, side), b);
    let c = ArrayViewMut2::from_shape(shape, c);
    // The conversions cannot fail: each slice has as many elements as its matrix.
    if let (Ok(a), Ok(b), Ok(mut c)) = (a, b, c) {
        general_mat_mul(factor, &a, &b, old, &mut c);
    }
}

/// Returns a pseudo-random integer from -4 to 4 that depends only on the index `at`.
fn small(at: usize) -> f64 {
    ((word(at) >> 32) % 9) as f64 - 4.0
}

impl Kernel for Gemm {
    fn footprint(&self) -> u64 {
        3 * self.a.of::<u8>().len() as u64
    }

    fn round(&mut self) -> Work {
        let factor = Self::factor(self.rounds);
        if self.is_tiled() {
            self.by_tiles(factor)
        } else {
            self.by_rows(factor)
        }
        self.rounds += 1;
        let side = self.side as u64;
        Work { bytes: self.footprint(), flops: 2 * side.pow(3), ..Work::default() }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        let vector: Vec<f64> = (0..self.side).map(|at| small(at + (1 << 50))).collect();
        let found = self.times(&self.c, &vector);
        let factor = Self::factor(self.rounds.saturating_sub(1));
        let mut expected = self.times(&self.a, &self.times(&self.b, &vector));
        expected.iter_mut().for_each(|element| *element *= factor);
        match (0..self.side).find(|row| found[*row].to_bits() != expected[*row].to_bits()) {
            None => Ok(()),
            Some(row) => {
                let what = format!("row {row} of C (element {} on) times x", self.place(row, 0));
                let (found, expected) = (found[row].to_string(), expected[row].to_string());
                Err(Wrong { what, found, expected })
            }
        }
    }

    fn checksum(&self) -> u64 {
        let pages = self.c.of::<u64>().chunks(PAGE / 8);
        pages.flatten().fold(0, |sum, bits| mixed(sum, *bits))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn every_round_changes_every_page_of_the_product() {
        for tile in [None, Some(32)] {
            let mut gemm = Gemm::new(&Memory::Heap, 3 * 64 * 64 * 8, 2, tile).unwrap();
            gemm.round();
            for _ in 0..3 {
                let before = gemm.c.of::<u64>().to_vec();
                gemm.round();
                let after = gemm.c.of::<u64>();
                assert!(before.chunks(512).zip(after.chunks(512)).all(|(a, b)| a != b));
                gemm.verify().unwrap();
            }
        }
    }
}
