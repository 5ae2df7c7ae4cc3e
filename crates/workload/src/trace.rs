//! Traces: the blocks of memory that a round of a workload touches, in order.
//!
//! A block has a given number of pages; consecutive touches of a block are one. Libraries access
//! memory as they document it: `matrixmultiply` packs panels as in Goto and van de Geijn (ACM TOMS
//! 2008), a long Fourier transform passes over all of its numbers once for each of its radices.

use crate::{
    belady::Touch,
    kind::{Kind, Setting},
    random, sweep,
};

/// Columns, depth and rows of a panel of `matrixmultiply` for `f64`: its NC, KC and MC.
const PANEL: [usize; 3] = [1024, 256, 64];

/// Rows and columns of what its innermost loop takes at once: its MR and NR.
const KERNEL: [usize; 2] = [8, 4];

/// Bytes of an `f64`.
const F64: usize = size_of::<f64>();

/// A trace that is being made.
struct Trace {
    touches: Vec<Touch>,
    /// Bytes of a block.
    block: usize,
}

/// Part of a matrix, in bytes but for its rows.
struct Part {
    start: usize,
    row: usize,
    rows: usize,
    wide: usize,
}

impl Trace {
    /// Touches bytes from an address on; all arrays are one behind the other.
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

    /// A part of a matrix, a strip of its columns after the other: of each row what comes with a
    /// new block.
    fn columns(&mut self, part: &Part, strip: usize, is_write: bool) {
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

/// The blocks that a round of a workload touches, in one thread; `None` where the loops are those
/// of a library that does not say.
pub fn trace(kind: Kind, setting: &Setting, footprint: u64, block: usize) -> Option<Vec<Touch>> {
    let mut trace = Trace { touches: vec![], block };
    let bytes = footprint as usize;
    match kind {
        Kind::Stream => stream(&mut trace, bytes / 3),
        Kind::Seq | Kind::Polynomial => {
            let is_write = kind == Kind::Polynomial && setting.is_writing;
            trace.touch(0, bytes, is_write);
        }
        Kind::Stride => {
            let stride = setting.stride as usize / 8;
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
        Kind::Fft => return None,
    }
    Some(trace.touches)
}

/// Triad: b and c are read, a is written, block by block.
fn stream(trace: &mut Trace, array: usize) {
    for at in (0..array).step_by(trace.block) {
        let bytes = trace.block.min(array - at);
        trace.touch(array + at, bytes, false);
        trace.touch(2 * array + at, bytes, false);
        trace.touch(at, bytes, true);
    }
}

/// Lines along each of three axes, plane by plane.
fn cube(trace: &mut Trace, bytes: usize) {
    let side = ((bytes / 16) as f64).cbrt().round() as usize;
    let (row, plane) = (side * 16, side * side * 16);
    // Planes are in order for the first two axes; for the third, of each plane one row.
    for _ in 0..2 {
        (0..side).for_each(|at| trace.touch(at * plane, plane, true));
    }
    for y in 0..side {
        (0..side).for_each(|x| trace.touch(x * plane + y * row, row, true));
    }
}

/// Over stretches of columns, panels of B, and stretches of rows. Panels are packed, and results
/// are added, by a few columns of many rows at once.
fn rows(trace: &mut Trace, side: usize) {
    let (matrix, row) = (side * side * F64, side * F64);
    let [columns, depth, height] = PANEL;
    for j in (0..side).step_by(columns) {
        let wide = columns.min(side - j) * F64;
        for k in (0..side).step_by(depth) {
            let deep = depth.min(side - k);
            let [rows, strip] = KERNEL;
            let b = Part { start: matrix + k * row + j * F64, row, rows: deep, wide };
            trace.columns(&b, strip * F64, false);
            for i in (0..side).step_by(height) {
                let end = side.min(i + height);
                for at in (i..end).step_by(rows) {
                    let rows = rows.min(end - at);
                    let a = Part { start: at * row + k * F64, row, rows, wide: deep * F64 };
                    trace.columns(&a, F64, false);
                }
                let start = 2 * matrix + i * row + j * F64;
                let c = Part { start, row, rows: end - i, wide };
                trace.columns(&c, strip * F64, true);
            }
        }
    }
}

/// Tile by tile.
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
