//! Traces: the blocks of memory that a round of a workload touches, in order.
//!
//! All blocks have the size that the caller gives. Successive touches of one block are merged. The
//! loops of libraries are modelled by the order of accesses that their authors document:
//! `matrixmultiply` packs panels as in Goto and van de Geijn (ACM TOMS 2008).

use crate::{
    PAGE, SetupError, array_bytes, cholesky, fft, gas, gemm,
    kind::{Kind, Setting},
    lu, qft, random, stream, sweep,
};
use interleaf_extend_forecast::access::Touch;

/// The columns, depth and rows of a panel in `matrixmultiply` for `f64`: the library's constants
/// NC, KC and MC.
const PANEL: [usize; 3] = [1024, 256, 64];

/// The rows and columns of the micro-kernel of `matrixmultiply`: its constants MR and NR.
const KERNEL: [usize; 2] = [8, 4];

const F64: usize = size_of::<f64>();

/// The touches of a workload so far, in order. A touch stands for successive accesses to one block.
struct Trace {
    touches: Vec<Touch>,
    /// Bytes of a block.
    block: usize,
}

/// A part of a matrix that is stored by rows. The rows of the matrix are `row` bytes apart. The
/// part begins at the address `start`, and has `rows` rows of `wide` bytes.
struct Submatrix {
    start: usize,
    row: usize,
    rows: usize,
    wide: usize,
}

impl Trace {
    /// Appends an access to each block of the `bytes` bytes that begin at `address`. Addresses
    /// begin at 0, and all arrays are in one contiguous range.
    fn touch(&mut self, address: usize, bytes: usize, is_write: bool) {
        let blocks = address / self.block..=(address + bytes.max(1) - 1) / self.block;
        for block in blocks {
            let offset = address.saturating_sub(block * self.block) as u32;
            let block = block as u32;
            match self.touches.last_mut() {
                Some(last) if last.block == block => last.is_write |= is_write,
                _ => self.touches.push(Touch { block, offset, is_write }),
            }
        }
    }

    /// Touches `part` by strips of neighbouring columns. A strip is `strip` bytes wide (at most one
    /// block), and is touched row by row. In a row, it touches only the blocks that the previous
    /// strip did not touch.
    fn columns(&mut self, part: &Submatrix, strip: usize, is_write: bool) {
        for column in (0..part.wide).step_by(strip) {
            for row in 0..part.rows {
                let at = part.start + row * part.row + column;
                let end = at + strip.min(part.wide - column);
                let new = (end - 1) / self.block * self.block;
                if column == 0 {
                    self.touch(at, end - at, is_write);
                } else if new >= at {
                    self.touch(new, end - new, is_write);
                }
            }
        }
    }
}

/// The footprint and the operations of a workload, computed without making its arrays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Bytes of all arrays.
    pub footprint: u64,
    /// Floating-point operations of a round. Those of a polynomial are for degree 1.
    pub flops: f64,
}

/// Returns the bytes of all arrays of the kernel that [`Kind::kernel`] would create: the footprint
/// in `setting`, rounded down as the kernel rounds it. Allocates no array. For a workload that
/// [`trace`] does not model, returns the footprint in `setting`.
///
/// # Errors
/// When the kernel would reject the footprint.
pub fn footprint(kind: Kind, setting: &Setting) -> Result<u64, SetupError> {
    let Setting { footprint, threads, stride, .. } = *setting;
    let whole = |what, unit| array_bytes(what, footprint, threads, unit).map(|bytes| bytes as u64);
    let lu = |form| Ok(8 * (lu::side(footprint, form)? as u64).pow(2));
    let gemm = |tile| Ok(24 * (gemm::side(footprint, tile)? as u64).pow(2));
    Ok(match kind {
        Kind::Stream => 3 * stream::array_bytes(footprint)? as u64,
        Kind::Seq => whole("seq", PAGE)?,
        Kind::Stride => whole("stride", sweep::whole_pages(stride))?,
        Kind::Random => whole("random", PAGE)?,
        Kind::Polynomial => whole("polynomial", PAGE)?,
        // The numbers of the cube, and one complex number of scratch memory.
        Kind::Fft3d => 16 * ((fft::side(footprint)? as u64).pow(3) + 1),
        Kind::Gemm => gemm(None)?,
        Kind::GemmTiled => gemm(Some(setting.tile))?,
        Kind::Lu => lu(lu::Form::Pivoting)?,
        Kind::LuPlain => lu(lu::Form::Plain)?,
        Kind::LuTiled => lu(lu::Form::Tiled(setting.tile))?,
        Kind::Cholesky => cholesky::factor_bytes(footprint)?,
        Kind::Qft => 16 << qft::qubits(footprint)?,
        Kind::Gas => gas::BYTES * (gas::side(footprint)? as u64).pow(3),
        // If `trace` does not model the workload, the footprint is not rounded.
        _ => footprint,
    })
}

/// Returns the size of a workload with the footprint in `setting`. It is precise enough for a
/// trace. Sides of matrices are rounded as the workload rounds them, and sides of cubes are rounded
/// to even numbers. Lengths of transforms and sizes of graphs may differ from those that the
/// workload would choose. The operations of workloads that [`trace`] does not model are 0, except
/// those of `Fft`.
pub fn size(kind: Kind, setting: &Setting) -> Size {
    let bytes = setting.footprint;
    let cube = |bytes_of_point: u64| libm::cbrt((bytes / bytes_of_point) as f64) as u64 / 2 * 2;
    let square = |matrices: u64, unit: usize| {
        ((bytes / (8 * matrices)) as f64).sqrt() as u64 / unit.max(1) as u64 * unit.max(1) as u64
    };
    let unit = setting.tile.max(8);
    let whole = |flops: f64| Size { footprint: bytes, flops };
    match kind {
        Kind::Seq | Kind::Stride | Kind::Random => whole(0.0),
        Kind::Stream => Size { footprint: bytes / 3 / 64 * 64 * 3, flops: bytes as f64 / 12.0 },
        Kind::Polynomial => whole(bytes as f64 / 4.0),
        Kind::Fft | Kind::Fft3d => {
            let numbers = cube(16).pow(3);
            let length = numbers as f64;
            Size { footprint: 16 * numbers, flops: 5.0 * length * libm::log2(length) }
        }
        Kind::Gemm | Kind::GemmTiled => {
            let side = square(3, if kind == Kind::Gemm { 8 } else { unit });
            Size { footprint: 24 * side.pow(2), flops: 2.0 * (side as f64).powi(3) }
        }
        Kind::Lu | Kind::LuPlain | Kind::LuTiled => {
            let side = square(1, if kind == Kind::LuTiled { unit } else { 8 });
            Size { footprint: 8 * side.pow(2), flops: 2.0 / 3.0 * (side as f64).powi(3) }
        }
        Kind::Cholesky => whole(cholesky::work(bytes) as f64),
        Kind::Qft => {
            let qubits = (bytes / 16).ilog2();
            let pairs = 1_u64 << (qubits - 1);
            let flops = u64::from(qubits) * pairs * qft::FLOPS;
            Size { footprint: 16 << qubits, flops: flops as f64 }
        }
        Kind::Gas => {
            let cells = cube(gas::BYTES).pow(3);
            Size { footprint: gas::BYTES * cells, flops: (gas::FLOPS * cells) as f64 }
        }
        // The operations are needed only for workloads that [`trace`] models, which are not among
        // these.
        _ => whole(0.0),
    }
}

/// Returns the number of rounds in a trace: two if even and odd rounds access memory in different
/// orders, and otherwise one.
pub fn rounds(kind: Kind) -> u32 {
    if matches!(kind, Kind::Gas | Kind::Qft) { 2 } else { 1 }
}

/// Returns the blocks that a workload touches in [`rounds`] rounds with one thread, or `None` if
/// the workload is not modelled. `bytes` is the footprint that [`footprint`] returns for the
/// workload. `block` is the size of a block, bytes.
pub fn trace(kind: Kind, setting: &Setting, bytes: u64, block: usize) -> Option<Vec<Touch>> {
    let mut trace = Trace { touches: vec![], block };
    let bytes = bytes as usize;
    match kind {
        Kind::Stream => triad(&mut trace, bytes / 3),
        Kind::Seq | Kind::Polynomial => {
            let is_write = kind == Kind::Polynomial && setting.is_writing;
            trace.touch(0, bytes, is_write);
        }
        Kind::Stride => {
            let stride = sweep::whole_pages(setting.stride) / 8;
            sweep::strided(bytes / 8, stride).for_each(|at| trace.touch(at * 8, 8, false));
        }
        Kind::Random => {
            let places = random::places(setting.seed, 0, 0, bytes / 8);
            places.for_each(|at| trace.touch(at * 8, 8, setting.is_writing));
        }
        Kind::Fft3d => cube(&mut trace, bytes),
        Kind::Gemm => rows(&mut trace, ((bytes / 24) as f64).sqrt().round() as usize),
        Kind::GemmTiled => {
            let side = ((bytes / 24) as f64).sqrt().round() as usize;
            tiles(&mut trace, side, setting.tile.max(8).min(side));
        }
        Kind::Lu => factors(&mut trace, bytes, true),
        Kind::LuPlain => factors(&mut trace, bytes, false),
        Kind::LuTiled => factor_tiles(&mut trace, bytes, setting.tile.max(8)),
        Kind::Cholesky => {
            for (range, is_write) in cholesky::accesses(bytes as u64) {
                trace.touch(range.start, range.len(), is_write);
            }
        }
        Kind::Qft => gates(&mut trace, bytes),
        Kind::Gas => cells(&mut trace, bytes),
        // These workloads are not modelled: `Fft`, graph kernels (their order of accesses depends
        // on the edges), and solvers on grids.
        _ => return None,
    }
    Some(trace.touches)
}

/// Touches the blocks of STREAM's triad: block by block, b and c are read and a is written. Each
/// array has `array` bytes.
fn triad(trace: &mut Trace, array: usize) {
    for at in (0..array).step_by(trace.block) {
        let bytes = trace.block.min(array - at);
        trace.touch(array + at, bytes, false);
        trace.touch(2 * array + at, bytes, false);
        trace.touch(at, bytes, true);
    }
}

/// Touches the blocks of the Fourier transform of a cube. The lines along each axis are
/// transformed, one plane of lines after the other.
fn cube(trace: &mut Trace, bytes: usize) {
    let side = ((bytes / 16) as f64).cbrt().round() as usize;
    let (row, plane) = (side * 16, side * side * 16);
    // The transforms along the first two axes visit the planes of the cube in order. That along the
    // third axis visits one row of each plane, and then the next row of each plane.
    for _ in 0..2 {
        (0..side).for_each(|at| trace.touch(at * plane, plane, true));
    }
    for y in 0..side {
        (0..side).for_each(|x| trace.touch(x * plane + y * row, row, true));
    }
}

/// Touches the blocks of a product of matrices that are stored by rows. The loops step over NC
/// columns of B, KC rows of B, and MC rows of A ([`PANEL`]). Panels are packed, and results are
/// accumulated, in strips of a few columns over many rows.
fn rows(trace: &mut Trace, side: usize) {
    let (matrix, row) = (side * side * F64, side * F64);
    let [columns, depth, height] = PANEL;
    for j in (0..side).step_by(columns) {
        let wide = columns.min(side - j) * F64;
        for k in (0..side).step_by(depth) {
            let deep = depth.min(side - k);
            let [rows, strip] = KERNEL;
            let b = Submatrix { start: matrix + k * row + j * F64, row, rows: deep, wide };
            trace.columns(&b, strip * F64, false);
            for i in (0..side).step_by(height) {
                let end = side.min(i + height);
                for at in (i..end).step_by(rows) {
                    let rows = rows.min(end - at);
                    let a = Submatrix { start: at * row + k * F64, row, rows, wide: deep * F64 };
                    trace.columns(&a, F64, false);
                }
                let start = 2 * matrix + i * row + j * F64;
                let c = Submatrix { start, row, rows: end - i, wide };
                trace.columns(&c, strip * F64, true);
            }
        }
    }
}

/// Touches the blocks of a product of matrices that are stored by tiles. The matrices A, B and
/// their product C follow each other in memory.
fn tiles(trace: &mut Trace, side: usize, tile: usize) {
    let (tiles, bytes, matrix) = (side / tile, tile * tile * F64, side * side * F64);
    for i in 0..tiles {
        for j in 0..tiles {
            for k in 0..tiles {
                trace.touch((i * tiles + k) * bytes, bytes, false);
                trace.touch(matrix + (k * tiles + j) * bytes, bytes, false);
                trace.touch(2 * matrix + (i * tiles + j) * bytes, bytes, true);
            }
        }
    }
}

/// Touches the blocks of an LU decomposition by columns. For each panel (a group of neighbouring
/// columns), the panel is factored. Then, in all columns to the right of the panel, the rows of its
/// diagonal block are solved, and the columns are updated. Pivoting interchanges rows in all
/// columns.
fn factors(trace: &mut Trace, bytes: usize, is_pivoting: bool) {
    let side = ((bytes / F64) as f64).sqrt().round() as usize;
    let column = side * F64;
    for first in (0..side).step_by(lu::PANEL) {
        let columns = lu::PANEL.min(side - first);
        let right = first + columns..side;
        let below = |at: usize| (at * column + first * F64, column - first * F64);
        let mut touch = |(start, bytes): (usize, usize)| trace.touch(start, bytes, true);
        (first..first + columns).for_each(|at| touch(below(at)));
        if is_pivoting {
            (0..side).for_each(|at| touch(below(at)));
        }
        right.clone().for_each(|at| touch((at * column + first * F64, columns * F64)));
        for at in right {
            touch((at * column + (first + columns) * F64, column - (first + columns) * F64));
        }
    }
}

/// Touches the blocks of an LU decomposition of a matrix that is stored by tiles.
fn factor_tiles(trace: &mut Trace, bytes: usize, tile: usize) {
    let side = ((bytes / F64) as f64).sqrt().round() as usize;
    let (tiles, size) = (side / tile, tile * tile * F64);
    let place = |row: usize, column: usize| (column * tiles + row) * size;
    for first in 0..tiles {
        (first..tiles).for_each(|row| trace.touch(place(row, first), size, true));
        for column in first + 1..tiles {
            trace.touch(place(first, column), size, true);
            for row in first + 1..tiles {
                trace.touch(place(row, first), size, false);
                trace.touch(place(row, column), size, true);
            }
        }
    }
}

/// Touches the blocks of a quantum Fourier transform and of its inverse. A gate touches pieces of
/// the state vector in pairs, which are `distance` bytes apart.
fn gates(trace: &mut Trace, bytes: usize) {
    let mut qubit = |distance: usize| {
        if 2 * distance <= trace.block {
            return trace.touch(0, bytes, true);
        }
        for first in (0..bytes).step_by(2 * distance) {
            for at in (first..first + distance).step_by(trace.block.min(distance)) {
                let piece = trace.block.min(distance);
                trace.touch(at, piece, true);
                trace.touch(at + distance, piece, true);
            }
        }
    };
    let distances: Vec<usize> = (4..bytes.ilog2()).map(|power| 1 << power).collect();
    distances.iter().rev().for_each(|distance| qubit(*distance));
    distances.iter().for_each(|distance| qubit(*distance));
}

/// Touches the blocks of two steps of gas dynamics on a cube of cells. For each plane of cells, a
/// step reads five planes of each field of the old state, and writes one plane of each field of the
/// new state.
fn cells(trace: &mut Trace, bytes: usize) {
    let side = ((bytes / 80) as f64).cbrt().round() as usize;
    let (plane, field) = (side * side * F64, side.pow(3) * F64);
    for (old, new) in [(0, 5 * field), (5 * field, 0)] {
        for z in 0..side {
            for at in (0..5).map(|index| index * field) {
                for near in (z + side - 2..=z + side + 2).map(|near| near % side) {
                    trace.touch(old + at + near * plane, plane, false);
                }
            }
            for at in (0..5).map(|index| index * field) {
                trace.touch(new + at + z * plane, plane, true);
            }
        }
    }
}
