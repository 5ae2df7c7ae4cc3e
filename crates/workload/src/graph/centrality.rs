//! Betweenness centrality: the fraction of shortest paths that pass through each vertex. It is
//! computed by Brandes' algorithm (Journal of Mathematical Sociology 2001) from four sampled
//! sources, as in the GAP suite.
//!
//! A breadth-first search counts the shortest paths to each vertex, and marks the edges of these
//! paths. Then, level by level back to the source, the dependency of each vertex is computed from
//! those of its successors. The dependency of a vertex is the fraction of the shortest paths from
//! the source to a target that pass through the vertex, summed over all targets.

use super::{Algorithm, Reach, csr::View, queue::Batch, wrong};
use crate::{
    SetupError, Work, Wrong,
    memory::{Array, Memory},
    mixed,
};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The number of vertices from which a round searches.
const SOURCES: u64 = 4;

/// The depth of a vertex that was not reached.
const FAR: u32 = u32::MAX;

/// The largest error of a score that `verify` accepts. Scores are scaled so that the largest one is
/// 1.
const TOLERANCE: f64 = 1e-5;

/// The number of vertices in a chunk of a parallel loop: `PART` in loops over the vertices of a
/// level, and `PART_OF_ALL` in loops over all vertices.
const PART: usize = 64;
const PART_OF_ALL: usize = 4096;

/// The score of each vertex, and the arrays of the search from the current source.
#[derive(Debug)]
pub(super) struct Centrality {
    scores: Array,
    /// For each vertex, the fraction of the shortest paths from the current source to a target that
    /// pass through the vertex, summed over all targets (Brandes' dependency), as bits of an f32.
    deltas: Array,
    depths: Array,
    /// The number of shortest paths from the current source to each vertex, as bits of an f64.
    paths: Array,
    queue: Array,
    /// A bit for each edge. It is set if the edge is on a shortest path from the current source.
    on_path: Array,
    reach: Reach,
    round: u64,
}

impl Centrality {
    pub(super) fn new(memory: &Memory, graph: View<'_>, reach: Reach) -> Result<Self, SetupError> {
        let vertex = |bytes: usize| memory.array(bytes * graph.vertices());
        Ok(Self {
            scores: vertex(4)?,
            deltas: vertex(4)?,
            depths: vertex(4)?,
            paths: vertex(8)?,
            queue: vertex(4)?,
            on_path: memory.array(8 * graph.neighbours.len().div_ceil(64))?,
            reach,
            round: 0,
        })
    }

    /// Adds to each vertex's score the fraction of the shortest paths from `source` to a target
    /// that pass through the vertex, summed over all targets (Brandes' dependency).
    fn add(&mut self, graph: View<'_>, source: u32) {
        self.on_path.of_mut::<u64>().par_iter_mut().for_each(|word| *word = 0);
        self.depths.of_mut::<u32>().par_iter_mut().for_each(|depth| *depth = FAR);
        self.paths.of_mut::<u64>().par_iter_mut().for_each(|count| *count = 0);
        let search = PathCount {
            graph,
            depths: self.depths.atomic_u32(),
            paths: self.paths.atomic_u64(),
            queue: self.queue.atomic_u32(),
            on_path: self.on_path.atomic_u64(),
        };
        let levels = search.forward(source);
        let deltas = self.deltas.atomic_u32();
        deltas.par_iter().for_each(|delta| delta.store(0, Relaxed));
        let scores = self.scores.atomic_u32();
        for level in levels.windows(2).rev() {
            let vertices = &search.queue[level[0]..level[1]];
            vertices.par_chunks(PART).for_each(|part| {
                for vertex in part.iter().map(|it| it.load(Relaxed)) {
                    let delta = search.dependency(vertex, deltas);
                    deltas[vertex as usize].store(delta.to_bits(), Relaxed);
                    if vertex != source {
                        let score = &scores[vertex as usize];
                        let sum = f32::from_bits(score.load(Relaxed)) + delta;
                        score.store(sum.to_bits(), Relaxed);
                    }
                }
            });
        }
    }
}

/// The graph, and the arrays of [`Centrality`] that one search fills.
struct PathCount<'a> {
    graph: View<'a>,
    depths: &'a [AtomicU32],
    paths: &'a [AtomicU64],
    queue: &'a [AtomicU32],
    on_path: &'a [AtomicU64],
}

impl PathCount<'_> {
    /// Searches from `source`, level by level. Returns the offset of each level in the queue, and
    /// the end of the last level.
    fn forward(&self, source: u32) -> Vec<usize> {
        self.depths[source as usize].store(0, Relaxed);
        self.paths[source as usize].store(1_f64.to_bits(), Relaxed);
        self.queue[0].store(source, Relaxed);
        let mut levels = vec![0, 1];
        while let [.., start, end] = levels[..]
            && start < end
        {
            let tail = AtomicUsize::new(end);
            let depth = levels.len() as u32 - 2;
            self.queue[start..end].par_chunks(PART).for_each(|part| {
                let mut batch = Batch::new(self.queue, &tail);
                part.iter().for_each(|it| self.expand(it.load(Relaxed), depth, &mut batch));
                batch.flush();
            });
            levels.push(tail.load(Relaxed));
        }
        levels.pop();
        levels
    }

    /// Visits the neighbours of a vertex at depth `depth`. Appends unreached neighbours to the next
    /// level through `batch`. Marks the edges to the next level in `on_path`, and adds the vertex's
    /// number of shortest paths to that of each neighbour in the next level.
    fn expand(&self, vertex: u32, depth: u32, batch: &mut Batch<'_>) {
        let paths = f64::from_bits(self.paths[vertex as usize].load(Relaxed));
        for at in self.graph.range(vertex) {
            let neighbour = self.graph.neighbours[at];
            let place = &self.depths[neighbour as usize];
            let mut found = place.load(Relaxed);
            if found == FAR {
                match place.compare_exchange(FAR, depth + 1, Relaxed, Relaxed) {
                    Ok(_) => {
                        batch.push(neighbour);
                        found = depth + 1;
                    }
                    Err(other) => found = other,
                }
            }
            if found == depth + 1 {
                self.on_path[at / 64].fetch_or(1 << (at % 64), Relaxed);
                let count = &self.paths[neighbour as usize];
                let add = |bits| Some((f64::from_bits(bits) + paths).to_bits());
                // `fetch_update` fails only if `add` returns `None`, which it never does.
                let _ = count.fetch_update(Relaxed, Relaxed, add);
            }
        }
    }

    /// Computes the dependency of a vertex: a sum over its successors, the neighbours in the next
    /// level.
    fn dependency(&self, vertex: u32, deltas: &[AtomicU32]) -> f32 {
        let paths = f64::from_bits(self.paths[vertex as usize].load(Relaxed));
        let mut sum = 0.0;
        for at in self.graph.range(vertex) {
            if self.on_path[at / 64].load(Relaxed) >> (at % 64) & 1 == 1 {
                let next = self.graph.neighbours[at] as usize;
                let delta = f64::from(f32::from_bits(deltas[next].load(Relaxed)));
                sum += (1.0 + delta) / f64::from_bits(self.paths[next].load(Relaxed));
            }
        }
        (paths * sum) as f32
    }
}

/// Returns the score of each vertex from the shortest paths that begin at `sources`. One thread
/// computes these scores, to verify those of the parallel algorithm.
fn brandes(graph: View<'_>, sources: impl Iterator<Item = u32>) -> Vec<f64> {
    let mut scores = vec![0.0; graph.vertices()];
    for source in sources {
        let depths = super::bfs::depths(graph, source);
        let mut order: Vec<u32> =
            graph.all().filter(|vertex| depths[*vertex as usize] != FAR).collect();
        order.sort_by_key(|vertex| depths[*vertex as usize]);
        let mut paths = vec![0.0; graph.vertices()];
        paths[source as usize] = 1.0;
        let is_next = |vertex: u32, next: u32| depths[next as usize] == depths[vertex as usize] + 1;
        for vertex in &order {
            for next in graph.around(*vertex).iter().filter(|next| is_next(*vertex, **next)) {
                paths[*next as usize] += paths[*vertex as usize];
            }
        }
        let mut deltas = vec![0.0; graph.vertices()];
        for vertex in order.iter().rev() {
            for next in graph.around(*vertex).iter().filter(|next| is_next(*vertex, **next)) {
                let part = paths[*vertex as usize] / paths[*next as usize];
                deltas[*vertex as usize] += part * (1.0 + deltas[*next as usize]);
            }
            if *vertex != source {
                scores[*vertex as usize] += deltas[*vertex as usize];
            }
        }
    }
    normalise(&mut scores);
    scores
}

fn normalise(scores: &mut [f64]) {
    let largest = scores.iter().fold(0.0, |a: f64, b| a.max(*b));
    if largest > 0.0 {
        scores.iter_mut().for_each(|score| *score /= largest);
    }
}

fn sources(reach: &Reach, round: u64) -> impl Iterator<Item = u32> {
    (0..SOURCES).map(move |at| reach.source(round * SOURCES + at))
}

impl Algorithm for Centrality {
    fn bytes(&self) -> u64 {
        [&self.scores, &self.deltas, &self.depths, &self.paths, &self.queue, &self.on_path]
            .map(|array| array.of::<u8>().len() as u64)
            .iter()
            .sum()
    }

    fn run(&mut self, graph: View<'_>, round: u64) -> Work {
        self.round = round;
        self.scores.of_mut::<f32>().par_iter_mut().for_each(|score| *score = 0.0);
        for source in sources(&self.reach.clone(), round) {
            self.add(graph, source);
        }
        let scores = self.scores.of_mut::<f32>();
        let largest = |scores: &[f32]| scores.iter().fold(0.0, |a: f32, b| a.max(*b));
        let all = scores.par_chunks(PART_OF_ALL).map(largest).reduce(|| 0.0, f32::max);
        if all > 0.0 {
            scores.par_iter_mut().for_each(|score| *score /= all);
        }
        // Each edge is traversed twice: by the search (forward), and when the dependencies are
        // summed (back).
        let edges = 2 * SOURCES * self.reach.edges;
        Work { edges, ..Work::default() }
    }

    fn verify(&self, graph: View<'_>) -> Result<(), Wrong> {
        let expected = brandes(graph, sources(&self.reach, self.round));
        for (vertex, (found, expected)) in self.scores.of::<f32>().iter().zip(expected).enumerate()
        {
            // NaN fails this comparison, so it counts as a wrong value.
            let is_right = (f64::from(*found) - expected).abs() <= TOLERANCE;
            if !is_right {
                return wrong(format!("the score of vertex {vertex}"), found, expected);
            }
        }
        Ok(())
    }

    fn checksum(&self) -> u64 {
        self.scores.of::<u32>().iter().fold(0, |sum, bits| mixed(sum, u64::from(*bits)))
    }

    fn sources(&self) -> &[u32] {
        &self.reach.sources
    }

    #[cfg(test)]
    fn spoil(&mut self) {
        self.scores.of_mut::<f32>()[17] += 0.01;
    }
}
