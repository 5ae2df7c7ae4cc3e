//! Generators of graphs: Kronecker, and uniform (Erdős-Rényi). The number of edges per vertex is
//! that of the GAP benchmark suite (Beamer, Asanović, Patterson, arXiv 1508.03619, section 3).
//!
//! In a Kronecker graph, a few vertices have very many neighbours. The two vertex numbers of an
//! edge are drawn bit by bit. A pair of bits, one for each vertex, chooses one of four quadrants of
//! the adjacency matrix, with the probabilities of Graph500. Afterwards the vertex numbers are
//! permuted, so that a number tells nothing about the vertex's degree.
//!
//! Edges are drawn in chunks, each with a seed of its own, so that a graph is the same for any
//! number of threads.

use super::csr::Edges;
use crate::word;
use rand::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The number of edges that are drawn for each vertex. The mean degree is twice this number, minus
/// the edges that are drawn repeatedly or lead from a vertex to itself.
pub(super) const DEGREE: usize = 16;

/// The number of edges in a chunk. A chunk is drawn with its own seed.
const PART: usize = 1 << 14;

/// The distribution of the edges among the vertices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// A few vertices have most of the edges.
    #[default]
    Kronecker,
    /// All edges have the same probability.
    Uniform,
}

impl Shape {
    /// Both distributions, with their names on the command line.
    pub const ALL: [(&'static str, Self); 2] =
        [("kronecker", Self::Kronecker), ("uniform", Self::Uniform)];
}

/// Cumulative probabilities of the quadrants of the adjacency matrix, which have the probabilities
/// A = 0.57, B = 0.19, C = 0.19 and D = 0.05.
const QUADRANTS: [f64; 3] = [0.57, 0.76, 0.95];

/// The edges of a random graph with `1 << scale` vertices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Generator {
    pub(super) shape: Shape,
    pub(super) scale: u32,
    pub(super) seed: u64,
}

impl Generator {
    fn kronecker(self, random: &mut Pcg64Mcg) -> (u32, u32) {
        let limits = QUADRANTS.map(|limit| (limit * 2_f64.powi(32)) as u64);
        let (mut from, mut to, mut bits) = (0, 0, 0);
        for level in 0..self.scale {
            bits = if level % 2 == 0 { random.next_u64() } else { bits >> 32 };
            let draw = bits & 0xffff_ffff;
            let [a, b, c] = limits.map(|limit| u32::from(draw >= limit));
            // As pairs of (next bit of `from`, next bit of `to`), the quadrants are (0, 0), (0, 1),
            // (1, 0) and (1, 1).
            from = from << 1 | b;
            to = to << 1 | (a - b + c);
        }
        (self.permuted(from), self.permuted(to))
    }

    /// Permutes the numbers below `1 << scale`. No two numbers get the same result, because each
    /// step can be undone: a sum, a product with an odd number, and an exclusive OR with the
    /// shifted number.
    fn permuted(self, vertex: u32) -> u32 {
        let mask = ((1_u64 << self.scale) - 1) as u32;
        let shift = self.scale.div_ceil(2);
        let seeds = [0, 1, 2].map(|at| (word(at) ^ self.seed.rotate_left(17)) as u32);
        seeds.into_iter().fold(vertex, |at, seed| {
            let at = at.wrapping_add(seed).wrapping_mul(0x9e37_79b1) & mask;
            at ^ at >> shift
        })
    }
}

impl Edges for Generator {
    fn vertices(&self) -> usize {
        1 << self.scale
    }

    fn count(&self) -> usize {
        DEGREE << self.scale
    }

    fn parts(&self) -> usize {
        self.count().div_ceil(PART)
    }

    fn each(&self, part: usize, visit: &mut dyn FnMut(u32, u32)) {
        let mut random = Pcg64Mcg::seed_from_u64(self.seed ^ word(part));
        for _ in 0..PART.min(self.count() - part * PART) {
            let (from, to) = match self.shape {
                Shape::Kronecker => self.kronecker(&mut random),
                Shape::Uniform => {
                    let bits = random.next_u64();
                    let vertex = |bits: u64| (bits & ((1 << self.scale) - 1)) as u32;
                    (vertex(bits), vertex(bits >> 32))
                }
            };
            visit(from, to);
        }
    }
}

/// Returns the pseudo-random weight, 1 to 255, of the edge between the vertices `a` and `b`. It is
/// the same in both directions.
pub(super) fn weight(seed: u64, a: u32, b: u32) -> u8 {
    let edge = u64::from(a.min(b)) << 32 | u64::from(a.max(b));
    let mixed = word((edge ^ seed) as usize);
    (word((mixed ^ mixed >> 29) as usize) >> 32) as u8 % 255 + 1
}
