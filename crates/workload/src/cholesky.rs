//! The Cholesky decomposition of a sparse matrix, by `faer`. The matrix is that of the discrete
//! Poisson equation on a cube of grid points. Its rows have at most seven non-zero elements. Direct
//! solvers, such as that of Mironov et al. (MCHPC'18), factor matrices of this kind.
//!
//! The unknowns are ordered by nested dissection (George, SIAM Journal on Numerical Analysis 1973):
//! a plane of points divides the cube into halves, the halves are divided likewise, and the plane
//! is eliminated last. For n unknowns, the factor then has of the order of n^(4/3) elements, and
//! takes of the order of n^2 operations. The factor takes almost all memory of the workload. Its
//! supernodes are stored in the order of elimination.
//!
//! The diagonal of the matrix alternates between two values, so each round changes the factor. To
//! verify the factor, a system of equations with a known solution is solved. The elements of this
//! solution are 1 and -1.

use crate::{
    Kernel, SetupError, Work, Wrong, at_least,
    memory::{Array, Memory},
    mixed, word,
};
use faer::{
    MatMut, Par, Side, Spec,
    dyn_stack::{MemBuffer, MemStack},
    linalg::cholesky::llt::factor::{LltParams, LltRegularization},
    perm::PermRef,
    sparse::{
        SparseColMatRef, SymbolicSparseColMatRef,
        linalg::{
            SupernodalThreshold,
            cholesky::{
                CholeskySymbolicParams, LltRef, SymbolicCholesky, SymbolicCholeskyRaw,
                SymmetricOrdering, factorize_symbolic_cholesky,
            },
        },
    },
};
use std::ops::Range;

/// The smallest number of grid points along an edge of the cube.
const SIDE_MIN: usize = 4;

/// A box with at most this number of grid points is not divided further. Its points are ordered by
/// their coordinates.
const SMALL: usize = 8;

/// The smallest footprint, bytes. The Cholesky factor for the smallest cube, which has `SIDE_MIN`
/// points along an edge, fits into this footprint.
const LEAST: u64 = 64 << 10;

/// The largest error of an element of the solution that `verify` accepts. The elements are 1 or -1.
const TOLERANCE: f64 = 1e-8;

/// The positions of the non-zero matrix elements on and above the diagonal, in compressed columns:
/// the index of each column's first element, and the row of each element.
#[derive(Debug)]
struct Pattern {
    /// Number of grid points along an edge of the cube.
    side: usize,
    column_starts: Vec<u32>,
    rows: Vec<u32>,
}

/// The pattern of the matrix, and its factor.
pub struct Cholesky {
    pattern: Pattern,
    symbolic: SymbolicCholesky<u32>,
    factor: Array,
    rounds: u32,
    flops: u64,
}

impl std::fmt::Debug for Cholesky {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cholesky").field("side", &self.pattern.side).finish()
    }
}

impl Pattern {
    fn new(side: usize) -> Self {
        let (mut column_starts, mut rows) = (vec![0], vec![]);
        for at in 0..side.pow(3) {
            let [x, y, z] = [at % side, at / side % side, at / side / side];
            let neighbours = [(z, side * side), (y, side), (x, 1)];
            let lower = neighbours.into_iter().filter(|(place, _)| *place > 0);
            rows.extend(lower.map(|(_, distance)| (at - distance) as u32));
            rows.push(at as u32);
            column_starts.push(rows.len() as u32);
        }
        Self { side, column_starts, rows }
    }

    fn unknowns(&self) -> usize {
        self.side.pow(3)
    }

    fn matrix(&self) -> SymbolicSparseColMatRef<'_, u32> {
        let n = self.unknowns();
        SymbolicSparseColMatRef::new_checked(n, n, &self.column_starts, None, &self.rows)
    }

    /// Returns the structure of the factor (its supernodes), or `None` if the factor has more
    /// elements than an index can count.
    fn symbolic(&self) -> Option<SymbolicCholesky<u32>> {
        let mut order = Vec::with_capacity(self.unknowns());
        dissect(self.side, [0..self.side, 0..self.side, 0..self.side], &mut order);
        let mut back = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, point)| back[*point as usize] = at as u32);
        let order = PermRef::new_checked(&order, &back, self.unknowns());
        let parameters = CholeskySymbolicParams {
            supernodal_flop_ratio_threshold: SupernodalThreshold::FORCE_SUPERNODAL,
            ..CholeskySymbolicParams::default()
        };
        let ordering = SymmetricOrdering::Custom(order);
        factorize_symbolic_cholesky(self.matrix(), Side::Upper, ordering, parameters).ok()
    }

    /// Returns the value of all diagonal elements of the matrix in round `round`: 6 in even rounds,
    /// and 6.5 in odd rounds.
    fn diagonal(round: u32) -> f64 {
        6.0 + f64::from(round % 2) / 2.0
    }

    /// Returns the values of the matrix elements in round `round`, in the order of `rows`.
    fn values(&self, round: u32) -> Vec<f64> {
        let mut values = vec![-1.0; self.rows.len()];
        // Columns end at the diagonal, because the elements are stored on and above it, by rising
        // row. So the diagonal element is the last one of its column.
        for end in &self.column_starts[1..] {
            values[*end as usize - 1] = Self::diagonal(round);
        }
        values
    }

    /// Returns the product of the matrix in round `round` and the known solution: the right-hand
    /// side of the system that `verify` solves.
    fn product(&self, round: u32) -> Vec<f64> {
        let mut product = vec![0.0; self.unknowns()];
        let values = self.values(round);
        for column in 0..self.unknowns() {
            let range =
                self.column_starts[column] as usize..self.column_starts[column + 1] as usize;
            for (row, value) in self.rows[range.clone()].iter().zip(&values[range]) {
                let row = *row as usize;
                product[row] += value * solution(column);
                if row != column {
                    product[column] += value * solution(row);
                }
            }
        }
        product
    }
}

/// Returns element `at` of the known solution: 1 or -1.
fn solution(at: usize) -> f64 {
    if word(at) >> 63 == 0 { 1.0 } else { -1.0 }
}

/// Appends the grid points of a box to `order`, in the order of nested dissection. `ranges` are the
/// coordinates of the box along the three axes.
fn dissect(side: usize, ranges: [Range<usize>; 3], order: &mut Vec<u32>) {
    let lengths = ranges.clone().map(|range| range.len());
    let [xs, ys, zs] = ranges.clone();
    if lengths.iter().product::<usize>() <= SMALL {
        for z in zs {
            for y in ys.clone() {
                order.extend(xs.clone().map(|x| ((z * side + y) * side + x) as u32));
            }
        }
        return;
    }
    let longest = (0..3).max_by_key(|axis| lengths[*axis]).unwrap_or(0);
    let middle = ranges[longest].start + lengths[longest] / 2;
    let part = |range: Range<usize>| {
        let mut part = ranges.clone();
        part[longest] = range;
        part
    };
    dissect(side, part(ranges[longest].start..middle), order);
    dissect(side, part(middle + 1..ranges[longest].end), order);
    // The plane between the halves comes last, because its points are neighbours of both.
    let plane = part(middle..middle + 1).map(|range| range.collect::<Vec<usize>>());
    for z in &plane[2] {
        for y in &plane[1] {
            order.extend(plane[0].iter().map(|x| ((z * side + y) * side + x) as u32));
        }
    }
}

impl Cholesky {
    /// Finds the largest cube of grid points whose factor fits into the footprint, and allocates
    /// the factor.
    ///
    /// # Errors
    /// When the footprint is less than 64 KiB, more than one thread is requested, or memory cannot
    /// be allocated.
    pub fn new(memory: &Memory, footprint: u64, threads: usize) -> Result<Self, SetupError> {
        at_least("cholesky", footprint, LEAST)?;
        if threads > 1 {
            return Err(SetupError::OneThread { what: "cholesky" });
        }
        let (pattern, symbolic) = largest(footprint).ok_or_else(|| too_small(footprint))?;
        let factor = memory.array(8 * symbolic.len_val())?;
        let flops = flops(&symbolic);
        Ok(Self { pattern, symbolic, factor, rounds: 0, flops })
    }
}

fn too_small(footprint: u64) -> SetupError {
    SetupError::Small { what: "cholesky", bytes: footprint, least: LEAST }
}

/// Returns the bytes of the largest factor that fits into the footprint.
///
/// # Errors
/// When the footprint is less than 64 KiB.
pub(crate) fn factor_bytes(footprint: u64) -> Result<u64, SetupError> {
    at_least("cholesky", footprint, LEAST)?;
    let (_, symbolic) = largest(footprint).ok_or_else(|| too_small(footprint))?;
    Ok(8 * symbolic.len_val() as u64)
}

/// Returns the largest cube of grid points whose factor fits into the footprint, or `None` if even
/// the factor of the smallest cube does not.
fn largest(footprint: u64) -> Option<(Pattern, SymbolicCholesky<u32>)> {
    let fits = |side: usize| {
        let pattern = Pattern::new(side);
        let symbolic = pattern.symbolic()?;
        (8 * symbolic.len_val() as u64 <= footprint).then_some((pattern, symbolic))
    };
    // Begin the search at an estimate: the factor has about 8 side^4 elements of 8 bytes.
    let mut side = ((footprint as f64 / 64.0).sqrt().sqrt() as usize).max(SIDE_MIN);
    let mut best = fits(side);
    while best.is_none() && side > SIDE_MIN {
        side -= 1;
        best = fits(side);
    }
    while let Some(larger) = fits(side + 1) {
        best = Some(larger);
        side += 1;
    }
    best
}

/// Returns the byte ranges of the factor that a round accesses, in order, each with true for a
/// write and false for a read. Before a round writes a supernode S, it reads the earlier supernodes
/// that update S: those with a non-zero row whose index is that of a column of S.
pub(crate) fn accesses(footprint: u64) -> Vec<(Range<usize>, bool)> {
    let Some((_, symbolic)) = largest(footprint) else { return vec![] };
    let SymbolicCholeskyRaw::Supernodal(nodes) = symbolic.raw() else { return vec![] };
    let begins: Vec<u32> = nodes.supernode_begin().to_vec();
    let mut updates: Vec<Vec<usize>> = vec![vec![]; nodes.n_supernodes()];
    for node in 0..nodes.n_supernodes() {
        let mut targets: Vec<usize> = nodes
            .supernode(node)
            .pattern()
            .iter()
            .map(|row| begins.partition_point(|begin| begin <= row) - 1)
            .collect();
        targets.dedup();
        targets.into_iter().for_each(|target| updates[target].push(node));
    }
    let bytes = |node: usize| {
        let starts = nodes.col_ptr_for_val();
        8 * starts[node] as usize..8 * starts[node + 1] as usize
    };
    let mut all = vec![];
    for (node, sources) in updates.iter().enumerate() {
        all.extend(sources.iter().map(|source| (bytes(*source), false)));
        all.push((bytes(node), true));
    }
    all
}

/// Returns the floating-point operations of a round: one decomposition of the largest matrix whose
/// factor fits into `footprint` bytes. Returns 0 if not even the smallest factor fits.
pub(crate) fn work(footprint: u64) -> u64 {
    largest(footprint).map_or(0, |(_, symbolic)| flops(&symbolic))
}

/// Returns the floating-point operations of the decomposition. A column with n elements costs n^2
/// operations. A supernode with c columns begins with a triangle, in which the columns have 1 to c
/// elements. Below the triangle, each of its columns has `below` elements.
fn flops(symbolic: &SymbolicCholesky<u32>) -> u64 {
    let SymbolicCholeskyRaw::Supernodal(nodes) = symbolic.raw() else { return 0 };
    let of = |node: usize| {
        let columns = nodes.supernode_end()[node] - nodes.supernode_begin()[node];
        let below = nodes.supernode(node).pattern().len() as u64;
        (1..=u64::from(columns)).map(|length| (length + below).pow(2)).sum::<u64>()
    };
    (0..nodes.n_supernodes()).map(of).sum()
}

impl Kernel for Cholesky {
    fn footprint(&self) -> u64 {
        self.factor.of::<u8>().len() as u64
    }

    fn round(&mut self) -> Work {
        let par = Par::Seq;
        let values = self.pattern.values(self.rounds);
        let matrix = SparseColMatRef::new(self.pattern.matrix(), &values);
        let parameters: Spec<LltParams, f64> = Spec::default();
        let need = self.symbolic.factorize_numeric_llt_scratch::<f64>(par, parameters);
        let buffer = &mut MemBuffer::new(need);
        let none = LltRegularization::default();
        let (factor, stack) = (self.factor.of_mut::<f64>(), MemStack::new(buffer));
        let symbolic = &self.symbolic;
        // The factorization cannot fail, because the matrix is positive definite. If it failed,
        // `verify` would reject the factor.
        let _ = symbolic.factorize_numeric_llt(
            factor,
            matrix,
            Side::Upper,
            none,
            par,
            stack,
            parameters,
        );
        self.rounds += 1;
        Work { bytes: 2 * self.footprint(), flops: self.flops, ..Work::default() }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        let Some(round) = self.rounds.checked_sub(1) else { return Ok(()) };
        let mut found = self.pattern.product(round);
        let factor = LltRef::new(&self.symbolic, self.factor.of::<f64>());
        let buffer = &mut MemBuffer::new(self.symbolic.solve_in_place_scratch::<f64>(1, Par::Seq));
        let unknowns = self.pattern.unknowns();
        let right = MatMut::from_column_major_slice_mut(&mut found, unknowns, 1);
        factor.solve_in_place_with_conj(faer::Conj::No, right, Par::Seq, MemStack::new(buffer));
        // NaN fails this comparison, so it counts as a wrong value.
        let is_right = |at: usize, found: f64| (found - solution(at)).abs() <= TOLERANCE;
        match found.iter().enumerate().find(|(at, found)| !is_right(*at, **found)) {
            None => Ok(()),
            Some((at, found)) => Err(Wrong {
                what: format!("unknown {at}"),
                found: found.to_string(),
                expected: solution(at).to_string(),
            }),
        }
    }

    fn checksum(&self) -> u64 {
        self.factor.of::<u64>().iter().fold(0, |sum, bits| mixed(sum, *bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_dissection_visits_each_point_once() {
        for side in [4, 5, 9] {
            let mut order = vec![];
            dissect(side, [0..side, 0..side, 0..side], &mut order);
            order.sort_unstable();
            assert!(order.iter().enumerate().all(|(at, point)| at == *point as usize));
            assert_eq!(order.len(), side.pow(3));
        }
    }

    #[test]
    fn a_wrong_page_of_the_factor_is_found() {
        let mut cholesky = Cholesky::new(&Memory::Heap, 256 << 10, 1).expect("enough");
        cholesky.round();
        assert_eq!(cholesky.verify(), Ok(()));
        let pages = cholesky.factor.of::<u8>().len() / 4096;
        let other = cholesky.factor.of::<f64>()[..512].to_vec();
        cholesky.factor.of_mut::<f64>()[pages / 2 * 512..][..512].copy_from_slice(&other);
        assert!(cholesky.verify().is_err());
    }
}
