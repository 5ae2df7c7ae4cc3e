//! Block-tridiagonal systems with blocks of 5 x 5, solved by block elimination without pivoting
//! (Thomas). Implicit solvers of gas dynamics (bwaves, the NAS benchmark BT) solve such a system
//! along each line of cells. Its unknowns are the density, momentum and energy of the cells.
//!
//! A round is an implicit step: it solves A x = b for each line, where b is the solution of the
//! round before plus a small source. The blocks of A stay the same. Verification: A times the last
//! x must equal the last b, and all blocks must still have their initial values.

use super::near;
use crate::{
    Kernel, SetupError, Work, Wrong, at_least,
    memory::{Array, Memory},
    mixed, team, word,
};
use rayon::{ThreadPool, prelude::*};

/// The number of rows and of columns of a block.
const SIZE: usize = 5;

/// `BLOCK` is the number of elements in a block, and `BLOCKS` the number of elements in the three
/// blocks of a cell.
const BLOCK: usize = SIZE * SIZE;
const BLOCKS: usize = 3 * BLOCK;

/// The number of cells in a line.
const CELLS: usize = 64;

/// Bytes of a line: its blocks, and its results before and after a step.
const LINE_BYTES: u64 = (CELLS * (BLOCKS + 2 * SIZE) * 8) as u64;

/// Floating-point operations for a cell: two products of a block and a vector (2 x 50), the product
/// of two blocks (250), the decomposition of a block (2/3 x 125), and the solution for six
/// right-hand sides (6 x 50).
const FLOPS: u64 = 100 + 250 + 83 + 300;

/// The number that a round adds to each element of the right-hand sides. Its sign changes from
/// round to round. Without this source, results would go to zero.
const SOURCE: f64 = 0.2;

/// The largest difference between an element of A x and of b that `verify` accepts. The elements of
/// x are below 10.
const TOLERANCE: f64 = 1e-12;

type Vector = [f64; SIZE];
type Square = [Vector; SIZE];

/// The blocks of the matrix A for all lines, and the results before and after a round.
#[derive(Debug)]
pub struct BlockTridiagonal {
    /// The three blocks of each cell: before, on and after the diagonal of the matrix. A block is
    /// stored by rows.
    blocks: Array,
    /// The results after an even and after an odd number of rounds.
    results: [Array; 2],
    lines: usize,
    rounds: u32,
    pool: ThreadPool,
}

/// Returns the initial value of element `at` of the blocks. The matrix is diagonally dominant: a
/// diagonal element exceeds the sum of the absolute values of the other elements in its row.
fn element(at: usize) -> f64 {
    let (block, place) = (at % BLOCKS / BLOCK, at % BLOCK);
    let value = (word(at) >> 40) as f64 / (1 << 24) as f64 - 0.5;
    let is_diagonal = block == 1 && place / SIZE == place % SIZE;
    if is_diagonal { 1.2 + 0.01 * value } else { 0.02 * value }
}

impl BlockTridiagonal {
    /// Allocates and fills as many lines as fit into the footprint.
    ///
    /// # Errors
    /// When the footprint is less than a line, memory cannot be allocated, or threads cannot be
    /// started.
    pub fn new(memory: &Memory, footprint: u64, threads: usize) -> Result<Self, SetupError> {
        at_least("block-tridiagonal", footprint, LINE_BYTES)?;
        let lines = (footprint / LINE_BYTES) as usize;
        let mut blocks = memory.array(lines * CELLS * BLOCKS * size_of::<f64>())?;
        let result = || memory.array(lines * CELLS * SIZE * size_of::<f64>());
        let mut results = [result()?, result()?];
        let pool = team::pool(threads)?;
        pool.install(|| {
            let cells = blocks.of_mut::<f64>().par_chunks_mut(BLOCKS).enumerate();
            cells.for_each(|(cell, values)| {
                let values = values.iter_mut().enumerate();
                values.for_each(|(at, value)| *value = element(cell * BLOCKS + at));
            });
            let values = results[0].of_mut::<f64>().par_iter_mut().enumerate();
            values.for_each(|(at, value)| *value = (word(at) >> 11) as f64 / (1_u64 << 53) as f64);
            results[1].of_mut::<f64>().par_chunks_mut(CELLS).for_each(|it| it.fill(0.0));
        });
        Ok(Self { blocks, results, lines, rounds: 0, pool })
    }
}

/// Returns a block of a cell: before (0), on (1) or after (2) the diagonal of the matrix.
fn block(blocks: &[f64], cell: usize, which: usize) -> Square {
    let values = &blocks[cell * BLOCKS + which * BLOCK..][..BLOCK];
    std::array::from_fn(|row| std::array::from_fn(|column| values[row * SIZE + column]))
}

fn vector(values: &[f64], cell: usize) -> Vector {
    std::array::from_fn(|row| values[cell * SIZE + row])
}

fn product(block: &Square, vector: &Vector) -> Vector {
    std::array::from_fn(|row| block[row].iter().zip(vector).map(|(a, b)| a * b).sum())
}

/// Returns the number that round `round` adds to each element of the right-hand sides: [`SOURCE`]
/// in even rounds, and minus [`SOURCE`] in odd rounds.
fn source(round: u32) -> f64 {
    if round.is_multiple_of(2) { SOURCE } else { -SOURCE }
}

fn minus(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|at| a[at] - b[at])
}

/// Solves `block x = right` for the vector x, and `block x = c` for each column c of `other`. The
/// solutions replace `right` and `other`. The matrix is diagonally dominant, so no pivoting is
/// needed.
fn solve(mut block: Square, right: &mut Vector, other: &mut Square) {
    for pivot in 0..SIZE {
        let inverse = 1.0 / block[pivot][pivot];
        block[pivot].iter_mut().skip(pivot).for_each(|value| *value *= inverse);
        other[pivot].iter_mut().for_each(|value| *value *= inverse);
        right[pivot] *= inverse;
        let (values, others, own) = (block[pivot], other[pivot], right[pivot]);
        for row in (0..SIZE).filter(|row| *row != pivot) {
            let factor = block[row][pivot];
            for at in pivot..SIZE {
                block[row][at] -= factor * values[at];
            }
            for at in 0..SIZE {
                other[row][at] -= factor * others[at];
            }
            right[row] -= factor * own;
        }
    }
}

/// Solves the system of a line of cells. Its right-hand side is `right`, with `source` added to
/// each element. `upper` is scratch memory with a block for each cell.
fn line(
    blocks: &[f64],
    (right, source): (&[f64], f64),
    result: &mut [f64],
    upper: &mut [Square; CELLS],
) {
    let mut before = [0.0; SIZE];
    for cell in 0..CELLS {
        let (lower, mut diagonal) = (block(blocks, cell, 0), block(blocks, cell, 1));
        let mut own = vector(right, cell).map(|value| value + source);
        if cell > 0 {
            own = minus(own, product(&lower, &before));
            let last = &upper[cell - 1];
            for (row, lower) in diagonal.iter_mut().zip(&lower) {
                for (factor, last) in lower.iter().zip(last) {
                    row.iter_mut().zip(last).for_each(|(value, it)| *value -= factor * it);
                }
            }
        }
        upper[cell] = block(blocks, cell, 2);
        solve(diagonal, &mut own, &mut upper[cell]);
        result[cell * SIZE..][..SIZE].copy_from_slice(&own);
        before = own;
    }
    for cell in (0..CELLS - 1).rev() {
        let own = minus(vector(result, cell), product(&upper[cell], &before));
        result[cell * SIZE..][..SIZE].copy_from_slice(&own);
        before = own;
    }
}

impl Kernel for BlockTridiagonal {
    fn footprint(&self) -> u64 {
        LINE_BYTES * self.lines as u64
    }

    fn round(&mut self) -> Work {
        let [even, odd] = &mut self.results;
        let (old, new) = if self.rounds.is_multiple_of(2) { (even, odd) } else { (odd, even) };
        let blocks = self.blocks.of::<f64>().par_chunks(CELLS * BLOCKS);
        let right = old.of::<f64>().par_chunks(CELLS * SIZE);
        let results = new.of_mut::<f64>().par_chunks_mut(CELLS * SIZE);
        let source = source(self.rounds);
        self.pool.install(|| {
            let upper = || Box::new([[[0.0; SIZE]; SIZE]; CELLS]);
            blocks.zip(right).zip(results).for_each_init(upper, |upper, ((blocks, right), it)| {
                line(blocks, (right, source), it, upper);
            });
        });
        self.rounds += 1;
        let flops = FLOPS * (CELLS * self.lines) as u64;
        Work { bytes: self.footprint(), flops, ..Work::default() }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        let blocks = self.blocks.of::<f64>();
        for (at, found) in blocks.iter().enumerate() {
            near(|| format!("element {at} of the blocks"), *found, element(at), 0.0)?;
        }
        let Some(before) = self.rounds.checked_sub(1) else { return Ok(()) };
        let right = self.results[before as usize % 2].of::<f64>();
        let result = self.results[self.rounds as usize % 2].of::<f64>();
        for cell in 0..CELLS * self.lines {
            let place = cell % CELLS;
            let near_cells = [(0, place > 0), (1, true), (2, place + 1 < CELLS)];
            let mut sum = [0.0; SIZE];
            for (which, _) in near_cells.into_iter().filter(|(_, is_inside)| *is_inside) {
                let part = product(&block(blocks, cell, which), &vector(result, cell + which - 1));
                sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
            for (row, found) in sum.into_iter().enumerate() {
                let what = || format!("row {row} of cell {cell} of the product");
                near(what, found, right[cell * SIZE + row] + source(before), TOLERANCE)?;
            }
        }
        Ok(())
    }

    fn checksum(&self) -> u64 {
        let result = self.results[self.rounds as usize % 2].of::<u64>();
        result.iter().fold(0, |sum, bits| mixed(sum, *bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stay_bounded_and_right() {
        let mut system = BlockTridiagonal::new(&Memory::Heap, 2 * LINE_BYTES, 2).expect("enough");
        for _ in 0..50 {
            system.round();
        }
        assert_eq!(system.verify(), Ok(()));
        assert!(system.results[0].of::<f64>().iter().all(|value| value.abs() < 10.0));
    }

    #[test]
    fn a_wrong_element_is_found() {
        let mut system = BlockTridiagonal::new(&Memory::Heap, LINE_BYTES, 1).expect("enough");
        system.round();
        assert_eq!(system.verify(), Ok(()));
        system.results[1].of_mut::<f64>()[17] += 1e-6;
        assert!(system.verify().is_err());
        system.round();
        system.blocks.of_mut::<f64>()[4711] += 1e-6;
        assert!(system.verify().is_err());
    }
}
