//! `PageRank` by Gauss-Seidel iterations. A vertex sums the contributions of its neighbours, some
//! of which were already updated in the same iteration, and updates its own contribution at once.
//! Gauss-Seidel needs half as many iterations as Jacobi's method (Arasu et al., WWW 2002). The GAP
//! suite uses Gauss-Seidel, too.

use super::{Algorithm, csr::View, wrong};
use crate::{
    SetupError, Work, Wrong,
    memory::{Array, Memory},
    mixed,
};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The probability that a random walk follows an edge. Otherwise it continues at a random vertex.
const DAMPING: f32 = 0.85;

/// The iterations end when the absolute changes of all ranks in one iteration sum to less than this
/// value. The initial ranks sum to 1.
const CHANGE_MAX: f64 = 1e-4;

/// Maximum number of iterations.
const ITERATIONS_MAX: u32 = 100;

/// The number of vertices in a chunk of a parallel loop.
const PART: usize = 4096;

/// The rank and the contribution of each vertex that the last round computed.
#[derive(Debug)]
pub(super) struct PageRank {
    ranks: Array,
    /// The rank of each vertex divided by its degree, as bits of an f32.
    contributions: Array,
}

impl PageRank {
    pub(super) fn new(memory: &Memory, vertices: usize) -> Result<Self, SetupError> {
        let array = || memory.array(4 * vertices);
        Ok(Self { ranks: array()?, contributions: array()? })
    }

    /// Computes the ranks, and returns the number of iterations.
    fn rank(&mut self, graph: View<'_>) -> u32 {
        let start = 1.0 / graph.vertices() as f32;
        let base = (1.0 - DAMPING) / graph.vertices() as f32;
        let contributions = self.contributions.atomic_u32();
        let ranks = self.ranks.of_mut::<f32>();
        let degrees = graph.offsets.par_windows(2).map(|ends| (ends[1] - ends[0]) as f32);
        ranks.par_iter_mut().zip(contributions).zip(degrees).for_each(|((rank, own), degree)| {
            *rank = start;
            own.store((start / degree).to_bits(), Relaxed);
        });
        for iteration in 1..=ITERATIONS_MAX {
            let part = |(part, ranks): (usize, &mut [f32])| {
                let mut change = 0.0;
                for (at, rank) in ranks.iter_mut().enumerate() {
                    let vertex = part * PART + at;
                    let around = graph.around(vertex as u32);
                    let sum = incoming(around, contributions);
                    let new = base + DAMPING * sum;
                    change += f64::from((new - *rank).abs());
                    *rank = new;
                    contributions[vertex].store((new / around.len() as f32).to_bits(), Relaxed);
                }
                change
            };
            let changes: Vec<f64> = ranks.par_chunks_mut(PART).enumerate().map(part).collect();
            if changes.iter().sum::<f64>() < CHANGE_MAX {
                return iteration;
            }
        }
        ITERATIONS_MAX
    }
}

fn incoming(around: &[u32], contributions: &[AtomicU32]) -> f32 {
    let of = |vertex: &u32| f32::from_bits(contributions[*vertex as usize].load(Relaxed));
    around.iter().fold(0.0, |sum, vertex| sum + of(vertex))
}

impl Algorithm for PageRank {
    fn bytes(&self) -> u64 {
        2 * self.ranks.of::<u8>().len() as u64
    }

    fn run(&mut self, graph: View<'_>, _: u64) -> Work {
        let edges = u64::from(self.rank(graph)) * graph.neighbours.len() as u64;
        Work { edges, flops: edges, ..Work::default() }
    }

    /// Checks the ranks by another iteration, in which each vertex adds its contribution to the
    /// sums of its neighbours. The absolute changes of all ranks must sum to less than
    /// [`CHANGE_MAX`].
    fn verify(&self, graph: View<'_>) -> Result<(), Wrong> {
        let ranks = self.ranks.of::<f32>();
        let mut sums = vec![0.0_f64; graph.vertices()];
        for vertex in graph.all() {
            let around = graph.around(vertex);
            let share = f64::from(ranks[vertex as usize]) / around.len() as f64;
            around.iter().for_each(|neighbour| sums[*neighbour as usize] += share);
        }
        let base = (1.0 - f64::from(DAMPING)) / graph.vertices() as f64;
        let change =
            |(rank, sum): (&f32, &f64)| (base + f64::from(DAMPING) * sum - f64::from(*rank)).abs();
        let change: f64 = ranks.iter().zip(&sums).map(change).sum();
        // NaN fails this comparison, so it counts as a wrong value.
        let is_right = change < CHANGE_MAX;
        if is_right {
            return Ok(());
        }
        wrong("the change of all ranks in one more iteration".into(), change, "less than 1e-4")
    }

    fn checksum(&self) -> u64 {
        self.ranks.of::<u32>().iter().fold(0, |sum, bits| mixed(sum, u64::from(*bits)))
    }

    #[cfg(test)]
    fn spoil(&mut self) {
        self.ranks.of_mut::<f32>()[17] *= 2.0;
    }
}
