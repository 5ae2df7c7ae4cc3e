//! Shortest paths from one vertex by delta-stepping (Meyer and Sanders, Journal of Algorithms 2003)
//! with the bucket fusion of GraphIt, as in the GAP suite.
//!
//! Vertices are in buckets by their distance. Threads relax the vertices of the first bucket in
//! parallel. A vertex whose distance becomes shorter goes to the bucket of its new distance. The
//! buckets are vectors that the ordinary allocator allocates.

use super::{Algorithm, Reach, csr::View, generate::weight, wrong};
use crate::{
    SetupError, Work, Wrong,
    memory::{Array, Memory},
    mixed,
};
use rayon::prelude::*;
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    mem,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// The width of a bucket, in units of distance. (Edges have weights of 1 to 255.) The GAP suite
/// uses 2 for both shapes of generated graphs.
const DELTA: u32 = 2;

/// The limit for bucket fusion: if a thread has fewer new vertices than this in the current bucket,
/// it relaxes them at once, without waiting for the other threads.
const FUSED_MAX: usize = 1000;

/// The distance of a vertex that is not connected with the source vertex.
const FAR: u32 = u32::MAX;

/// The weights of the edges, and the distances from `source` that the last search found.
#[derive(Debug)]
pub(super) struct Sssp {
    /// The weight of the edge to each neighbour, one byte each, in the order of the graph's lists
    /// of neighbours.
    weights: Array,
    distances: Array,
    reach: Reach,
    source: u32,
}

/// The buckets of a thread. The index of a bucket is the distance of its vertices divided by
/// [`DELTA`], rounded down.
type Buckets = Vec<Vec<u32>>;

impl Sssp {
    pub(super) fn new(
        memory: &Memory,
        graph: View<'_>,
        seed: u64,
        reach: Reach,
    ) -> Result<Self, SetupError> {
        let mut weights = memory.array(graph.neighbours.len())?;
        let distances = memory.array(4 * graph.vertices())?;
        let mut rest: &mut [u8] = weights.of_mut();
        let mut lists = Vec::with_capacity(graph.vertices());
        for vertex in graph.all() {
            let (list, behind) = mem::take(&mut rest).split_at_mut(graph.degree(vertex));
            lists.push((vertex, list));
            rest = behind;
        }
        lists.into_par_iter().for_each(|(vertex, list)| {
            list.iter_mut()
                .zip(graph.around(vertex))
                .for_each(|(it, neighbour)| *it = weight(seed, vertex, *neighbour));
        });
        Ok(Self { weights, distances, reach, source: 0 })
    }

    fn search(&mut self, graph: View<'_>, source: u32) {
        self.source = source;
        self.distances.of_mut::<u32>().par_iter_mut().for_each(|it| *it = FAR);
        let search = Relaxation {
            graph,
            weights: self.weights.of(),
            distances: self.distances.atomic_u32(),
        };
        search.distances[source as usize].store(0, Relaxed);
        let threads = rayon::current_num_threads();
        let own: Vec<Mutex<Buckets>> = (0..threads).map(|_| Mutex::default()).collect();
        let (mut frontier, mut bucket) = (vec![vec![source]], 0);
        loop {
            let chunks = frontier.par_iter().flat_map(|part| part.par_chunks(64));
            chunks.for_each(|chunk| {
                let at = rayon::current_thread_index().unwrap_or(0);
                search.settle(chunk, bucket, &mut locked(&own[at]));
            });
            let first = |buckets: &Mutex<Buckets>| {
                let buckets = locked(buckets);
                (bucket..buckets.len()).find(|at| !buckets[*at].is_empty())
            };
            let Some(next) = own.iter().filter_map(first).min() else { break };
            bucket = next;
            let part = |it: &Mutex<Buckets>| locked(it).get_mut(bucket).map(mem::take);
            frontier = own.iter().filter_map(part).collect();
        }
    }
}

/// Locks the buckets of a thread. Ignores that the lock is poisoned: a thread that panics ends the
/// search, and does not damage the buckets of the other threads.
fn locked(buckets: &Mutex<Buckets>) -> MutexGuard<'_, Buckets> {
    buckets.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The graph, the weights of its edges, and the distances that one search computes.
struct Relaxation<'a> {
    graph: View<'a>,
    weights: &'a [u8],
    distances: &'a [AtomicU32],
}

impl Relaxation<'_> {
    /// Relaxes `vertices`, which are in bucket `bucket`. This may put new vertices into the same
    /// bucket of `own`, the thread's own buckets. They are relaxed too, as long as there are fewer
    /// than [`FUSED_MAX`].
    fn settle(&self, vertices: &[u32], bucket: usize, own: &mut Buckets) {
        for vertex in vertices {
            // A vertex with a distance below the range of this bucket was relaxed with an earlier
            // bucket.
            if self.distances[*vertex as usize].load(Relaxed) >= DELTA * bucket as u32 {
                self.relax(*vertex, own);
            }
        }
        while let Some(again) = own.get_mut(bucket) {
            if again.is_empty() || again.len() >= FUSED_MAX {
                break;
            }
            for vertex in mem::take(again) {
                self.relax(vertex, own);
            }
        }
    }

    fn relax(&self, vertex: u32, own: &mut Buckets) {
        let here = self.distances[vertex as usize].load(Relaxed);
        let range = self.graph.range(vertex);
        let edges = self.graph.neighbours[range.clone()].iter().zip(&self.weights[range]);
        for (neighbour, weight) in edges {
            let distance = &self.distances[*neighbour as usize];
            let new = here.saturating_add(u32::from(*weight));
            if new < distance.load(Relaxed) && distance.fetch_min(new, Relaxed) > new {
                let bucket = (new / DELTA) as usize;
                if own.len() <= bucket {
                    own.resize_with(bucket + 1, Vec::new);
                }
                own[bucket].push(*neighbour);
            }
        }
    }
}

/// Returns the distance of each vertex from `source`. One thread computes it by Dijkstra's
/// algorithm, to verify the result of delta-stepping.
fn dijkstra(graph: View<'_>, weights: &[u8], source: u32) -> Vec<u32> {
    let mut distances = vec![FAR; graph.vertices()];
    distances[source as usize] = 0;
    let mut heap = BinaryHeap::from([(Reverse(0), source)]);
    while let Some((Reverse(distance), vertex)) = heap.pop() {
        if distance > distances[vertex as usize] {
            continue;
        }
        for at in graph.range(vertex) {
            let (neighbour, new) = (graph.neighbours[at], distance + u32::from(weights[at]));
            if new < distances[neighbour as usize] {
                distances[neighbour as usize] = new;
                heap.push((Reverse(new), neighbour));
            }
        }
    }
    distances
}

impl Algorithm for Sssp {
    fn bytes(&self) -> u64 {
        (self.weights.of::<u8>().len() + self.distances.of::<u8>().len()) as u64
    }

    fn run(&mut self, graph: View<'_>, round: u64) -> Work {
        self.search(graph, self.reach.source(round));
        Work { edges: self.reach.edges, ..Work::default() }
    }

    fn verify(&self, graph: View<'_>) -> Result<(), Wrong> {
        let expected = dijkstra(graph, self.weights.of(), self.source);
        let found = self.distances.of::<u32>();
        match found.iter().zip(&expected).position(|(found, expected)| found != expected) {
            None => Ok(()),
            Some(at) => wrong(format!("the distance of vertex {at}"), found[at], expected[at]),
        }
    }

    fn checksum(&self) -> u64 {
        self.distances.of::<u32>().iter().fold(0, |sum, value| mixed(sum, u64::from(*value)))
    }

    fn sources(&self) -> &[u32] {
        &self.reach.sources
    }

    #[cfg(test)]
    fn spoil(&mut self) {
        self.distances.of_mut::<u32>()[17] += 1;
    }
}
