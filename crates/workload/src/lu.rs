//! LU decomposition of a square matrix, in three forms (Mironov et al., MCHPC'18, section 5.2.1):
//!
//! - [`Form::Pivoting`]: the algorithm of the library `faer`, with partial pivoting, on a matrix
//!   stored by columns.
//! - [`Form::Plain`]: the blocked algorithm of LAPACK's `dgetrf`, without pivoting. It factors a
//!   panel of [`PANEL`] columns, and then updates all columns to the right of the panel.
//! - [`Form::Tiled`]: the same algorithm, without pivoting, by tiles that are contiguous in memory.
//!
//! The elements are pseudo-random, from -1 to 1. For the forms without pivoting, the matrix is
//! diagonally dominant, so that the decomposition is stable. A round overwrites the matrix with its
//! factors. The matrix is filled again between two rounds, in time that is not measured. To verify
//! the result, L (U x) is compared with A x for a vector x whose elements are 1 and -1.

use crate::{
    Kernel, PAGE, SetupError, Work, Wrong, at_least,
    memory::{Array, Memory},
    mixed, team, word,
};
use faer::{
    Accum, MatMut, MatRef, Par, Spec,
    dyn_stack::{MemBuffer, MemStack},
    linalg::{
        lu::partial_pivoting::factor::{PartialPivLuParams, lu_in_place, lu_in_place_scratch},
        matmul::matmul,
        triangular_solve,
    },
};

/// The number of columns of a panel. The decomposition factors a panel, and then updates the
/// columns to the right of it.
pub(crate) const PANEL: usize = 256;

/// A matrix with up to this number of columns is factored column by column. A larger matrix is
/// divided into halves, recursively.
const SMALL: usize = 16;

/// The largest difference between an element of L (U x) and of A x that `verify` accepts.
const TOLERANCE: f64 = 1e-6;

/// The algorithm, and the order in which the matrix is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// With partial pivoting, stored by columns.
    Pivoting,
    /// Without pivoting, stored by columns.
    Plain,
    /// Without pivoting, stored by tiles with this number of rows.
    Tiled(usize),
}

impl Form {
    /// Returns the name of the workload, and the number that divides the matrix's side.
    fn name_and_unit(self) -> (&'static str, usize) {
        match self {
            Self::Pivoting => ("lu", 8),
            Self::Plain => ("lu-plain", 8),
            Self::Tiled(tile) => ("lu-tiled", tile.max(8)),
        }
    }
}

/// Returns the number of rows of the largest matrix that fits into the footprint.
///
/// # Errors
/// When the footprint is less than a tile or a page.
pub(crate) fn side(footprint: u64, form: Form) -> Result<usize, SetupError> {
    let (what, unit) = form.name_and_unit();
    at_least(what, footprint, (8 * unit * unit).max(PAGE) as u64)?;
    Ok(((footprint / 8) as f64).sqrt() as usize / unit * unit)
}

/// The matrix, which a round overwrites with its factors.
#[derive(Debug)]
pub struct Lu {
    matrix: Array,
    /// The number of rows, and of columns, of the matrix.
    side: usize,
    /// The number of rows of a tile. It equals `side` if the matrix is stored by columns.
    tile: usize,
    form: Form,
    threads: usize,
    rounds: u32,
    /// For each row of the factors, the row of the input matrix A that pivoting has moved to it.
    rows: Vec<usize>,
    /// True if the matrix is A, and false if it is A's factors.
    is_filled: bool,
}

impl Lu {
    /// Allocates and fills the largest matrix that fits into the footprint. Its side is a multiple
    /// of a tile's side, or of 8 without tiles.
    ///
    /// # Errors
    /// When the footprint is less than a tile or a page, more than one thread is requested without
    /// tiles, or memory cannot be allocated.
    pub fn new(
        memory: &Memory,
        footprint: u64,
        threads: usize,
        form: Form,
    ) -> Result<Self, SetupError> {
        let side = side(footprint, form)?;
        let (what, unit) = form.name_and_unit();
        if threads > 1 && !matches!(form, Form::Tiled(_)) {
            return Err(SetupError::OneThread { what });
        }
        let matrix = memory.array(side * side * size_of::<f64>())?;
        let tile = if matches!(form, Form::Tiled(_)) { unit } else { side };
        let rows = (0..side).collect();
        let mut lu = Self { matrix, side, tile, form, threads, rounds: 0, rows, is_filled: false };
        lu.fill();
        Ok(lu)
    }

    fn fill(&mut self) {
        let (side, tile, form) = (self.side, self.tile, self.form);
        let panels = self.matrix.of_mut::<f64>().chunks_mut(tile * side).enumerate();
        for (of_columns, panel) in panels {
            for (of_rows, block) in panel.chunks_mut(tile * tile).enumerate() {
                for (at, element) in block.iter_mut().enumerate() {
                    let row = of_rows * tile + at % tile;
                    let column = of_columns * tile + at / tile;
                    *element = initial(form, side, row, column);
                }
            }
        }
        self.is_filled = true;
    }

    fn pivoting(&mut self) {
        let (side, par) = (self.side, Par::Seq);
        let parameters: Spec<PartialPivLuParams, f64> = Spec::default();
        let need = lu_in_place_scratch::<usize, f64>(side, side, par, parameters);
        let (mut rows, mut back) = (vec![0_usize; side], vec![0_usize; side]);
        let matrix = MatMut::from_column_major_slice_mut(self.matrix.of_mut(), side, side);
        let stack = &mut MemBuffer::new(need);
        lu_in_place(matrix, &mut rows, &mut back, par, MemStack::new(stack), parameters);
        self.rows = rows;
    }

    fn plain(&mut self) {
        let (side, par) = (self.side, Par::Seq);
        let mut matrix = MatMut::from_column_major_slice_mut(self.matrix.of_mut(), side, side);
        for first in (0..side).step_by(PANEL) {
            let columns = PANEL.min(side - first);
            let rest = matrix.as_mut().submatrix_mut(first, first, side - first, side - first);
            let [mut corner, right, below, mut trailing] = quarters(rest, columns);
            factor(corner.as_mut(), par);
            let corner = corner.as_ref();
            let (right, below) = (solve_left(corner, right, par), solve_right(corner, below, par));
            subtract_product(trailing.as_mut(), below.as_ref(), right.as_ref(), par);
        }
    }

    /// Factors the matrix tile by tile. After each diagonal tile, updates all tiles to the right of
    /// this tile and below it (right-looking), in the order of hStreams (Mironov et al., reference
    /// 2).
    fn tiled(&mut self) {
        let (side, tile, threads) = (self.side, self.tile, self.threads);
        let panel = side * tile;
        for first in (0..side).step_by(tile) {
            let (left, right) =
                self.matrix.of_mut::<f64>().split_at_mut((first / tile + 1) * panel);
            let column = &mut left[first / tile * panel..][first * tile..];
            let (corner, below) = column.split_at_mut(tile * tile);
            factor(square_mut(corner, tile), Par::Seq);
            let corner = square(corner, tile);
            shared(below.chunks_mut(tile * tile).collect(), threads, |block| {
                solve_right(corner, square_mut(block, tile), Par::Seq);
            });
            let below = &*below;
            shared(right.chunks_mut(panel).collect(), threads, |panel| {
                let (top, rest) = panel[first * tile..].split_at_mut(tile * tile);
                let top = solve_left(corner, square_mut(top, tile), Par::Seq);
                let blocks = rest.chunks_mut(tile * tile).zip(below.chunks(tile * tile));
                for (block, left) in blocks {
                    let (block, left) = (square_mut(block, tile), square(left, tile));
                    subtract_product(block, left, top.as_ref(), Par::Seq);
                }
            });
        }
    }

    /// Returns the product L (U x), computed by columns. L and U are the factors, and [`sign`]
    /// returns the elements of x.
    fn product(&self) -> Vec<f64> {
        let mut product: Vec<f64> = vec![0.0; self.side];
        self.each_column(|column, first, elements| {
            let x = sign(column);
            let upper = elements.iter().zip(&mut product[first..]);
            let rows = (column + 1).saturating_sub(first);
            upper.take(rows).for_each(|(element, sum)| *sum += element * x);
        });
        let upper = product.clone();
        self.each_column(|column, first, elements| {
            let lower = elements.iter().zip(&mut product[first..]);
            let rows = (column + 1).saturating_sub(first);
            lower.skip(rows).for_each(|(element, sum)| *sum += element * upper[column]);
        });
        product
    }

    /// Calls `visit` for each contiguous part of each column, with the index of the column, the
    /// index of the part's first row, and the part's elements.
    fn each_column(&self, mut visit: impl FnMut(usize, usize, &[f64])) {
        let tile = self.tile;
        for (of_columns, panel) in self.matrix.of::<f64>().chunks(tile * self.side).enumerate() {
            for (of_rows, block) in panel.chunks(tile * tile).enumerate() {
                for (at, elements) in block.chunks(tile).enumerate() {
                    visit(of_columns * tile + at, of_rows * tile, elements);
                }
            }
        }
    }
}

/// Returns the element of the input matrix A at `row` and `column`.
fn initial(form: Form, side: usize, row: usize, column: usize) -> f64 {
    let unit = (word(row * side + column) >> 11) as f64 / (1_u64 << 53) as f64;
    let element = 2.0 * unit - 1.0;
    match form {
        Form::Plain | Form::Tiled(_) if row == column => element + side as f64,
        _ => element,
    }
}

/// Returns element `at` of the vector x by which the factors are verified: 1 or -1.
fn sign(at: usize) -> f64 {
    if word(at + (1 << 50)) >> 63 == 0 { 1.0 } else { -1.0 }
}

fn square(block: &[f64], tile: usize) -> MatRef<'_, f64> {
    MatRef::from_column_major_slice(block, tile, tile)
}

fn square_mut(block: &mut [f64], tile: usize) -> MatMut<'_, f64> {
    MatMut::from_column_major_slice_mut(block, tile, tile)
}

/// Splits a matrix after `corner` rows and `corner` columns into four parts: top left, top right,
/// bottom left and bottom right.
fn quarters(matrix: MatMut<'_, f64>, corner: usize) -> [MatMut<'_, f64>; 4] {
    let (top_left, top_right, below_left, below_right) = matrix.split_at_mut(corner, corner);
    [top_left, top_right, below_left, below_right]
}

/// Replaces a matrix by its factors, without pivoting. A matrix with more than `SMALL` rows is
/// divided into halves, recursively. A smaller matrix is factored column by column.
fn factor(mut matrix: MatMut<'_, f64>, par: Par) {
    let side = matrix.nrows();
    if side > SMALL {
        let [mut corner, right, below, mut rest] = quarters(matrix, side / 2);
        factor(corner.as_mut(), par);
        let corner = corner.as_ref();
        let (right, below) = (solve_left(corner, right, par), solve_right(corner, below, par));
        subtract_product(rest.as_mut(), below.as_ref(), right.as_ref(), par);
        return factor(rest, par);
    }
    for pivot in 0..side {
        let inverse = matrix[(pivot, pivot)].recip();
        (pivot + 1..side).for_each(|row| matrix[(row, pivot)] *= inverse);
        for column in pivot + 1..side {
            let above = matrix[(pivot, column)];
            for row in pivot + 1..side {
                matrix[(row, column)] -= matrix[(row, pivot)] * above;
            }
        }
    }
}

/// Replaces B by L^-1 B, where L is the lower triangle of `factors` with a unit diagonal.
fn solve_left<'a>(factors: MatRef<'_, f64>, mut b: MatMut<'a, f64>, par: Par) -> MatMut<'a, f64> {
    triangular_solve::solve_unit_lower_triangular_in_place(factors, b.as_mut(), par);
    b
}

/// Replaces B by B U^-1, where U is the upper triangle of `factors`.
fn solve_right<'a>(factors: MatRef<'_, f64>, mut b: MatMut<'a, f64>, par: Par) -> MatMut<'a, f64> {
    let transposed = b.as_mut().transpose_mut();
    triangular_solve::solve_lower_triangular_in_place(factors.transpose(), transposed, par);
    b
}

/// Replaces C by C - A B.
fn subtract_product(c: MatMut<'_, f64>, a: MatRef<'_, f64>, b: MatRef<'_, f64>, par: Par) {
    matmul(c, Accum::Add, a, b, -1.0, par);
}

/// Divides the elements of `all` among at most `threads` threads. A thread calls `work` for each of
/// its elements.
fn shared<T: Send>(all: Vec<T>, threads: usize, work: impl Fn(T) + Sync) {
    let share = all.len().div_ceil(threads.max(1)).max(1);
    let mut all = all.into_iter();
    let mut parts: Vec<Vec<T>> = vec![];
    while all.len() > 0 {
        parts.push(all.by_ref().take(share).collect());
    }
    team::each(parts, |part: Vec<T>| part.into_iter().for_each(&work));
}

impl Kernel for Lu {
    fn footprint(&self) -> u64 {
        self.matrix.of::<u8>().len() as u64
    }

    fn prepare(&mut self) {
        if !self.is_filled {
            self.fill();
        }
    }

    fn round(&mut self) -> Work {
        match self.form {
            Form::Pivoting => self.pivoting(),
            Form::Plain => self.plain(),
            Form::Tiled(_) => self.tiled(),
        }
        self.is_filled = false;
        self.rounds += 1;
        let side = self.side as u64;
        Work { bytes: 2 * self.footprint(), flops: 2 * side.pow(3) / 3, ..Work::default() }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        let (side, form) = (self.side, self.form);
        let is_factored = !self.is_filled;
        let found = match is_factored {
            true => self.product(),
            false => {
                let mut sums = vec![0.0; side];
                self.each_column(|column, first, elements| {
                    let sums = elements.iter().zip(&mut sums[first..]);
                    sums.for_each(|(element, sum)| *sum += element * sign(column));
                });
                sums
            }
        };
        for (at, found) in found.into_iter().enumerate() {
            let row = if is_factored { self.rows[at] } else { at };
            let expected: f64 =
                (0..side).map(|column| initial(form, side, row, column) * sign(column)).sum();
            // NaN fails this comparison, so it counts as a wrong value.
            let is_right = (found - expected).abs() <= TOLERANCE;
            if !is_right {
                let what = format!("row {at} of the factors times x");
                let (found, expected) = (found.to_string(), expected.to_string());
                return Err(Wrong { what, found, expected });
            }
        }
        Ok(())
    }

    fn checksum(&self) -> u64 {
        self.matrix.of::<u64>().iter().fold(0, |sum, bits| mixed(sum, *bits))
    }
}
