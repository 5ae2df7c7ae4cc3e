//! Breadth-first search that changes its direction (Beamer, Asanović, Patterson, SC 2012).
//!
//! The *frontier* is the set of vertices at the current depth. A level is searched top-down or
//! bottom-up. Top-down visits the neighbours of each vertex in the frontier. Bottom-up visits the
//! neighbours of each unreached vertex, and stops at the first neighbour in the frontier. Bottom-up
//! is cheaper if the frontier is large.

use super::{
    Algorithm, Reach,
    csr::View,
    queue::{Batch, each_of},
    wrong,
};
use crate::{
    SetupError, Work, Wrong,
    memory::{Array, Memory},
    mixed,
};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Bottom-up begins when the frontier's vertices have more than 1/`ALPHA` of the edges that
/// top-down has not visited. It ends when the frontier shrinks and has at most 1/`BETA` of all
/// vertices. These are the values of the GAP suite; the paper has 14 and 24.
const ALPHA: usize = 15;
const BETA: usize = 18;

/// The bit that marks the parent entry of an unreached vertex. The other bits of such an entry are
/// the vertex's degree.
const UNREACHED: u32 = 1 << 31;

/// The number of vertices in a chunk of the bottom-up search. It is a multiple of 64, so that
/// chunks have whole words of the bitmaps.
const PART: usize = 4096;

/// The maximum number of steps with which the checksum walks from a vertex along the parents to the
/// source. The maximum ends walks along wrong parents, which may form a cycle.
const STEPS_MAX: usize = 4096;

/// The breadth-first tree of the last search (the parent of each vertex), and the arrays of the
/// search.
#[derive(Debug)]
pub(super) struct Bfs {
    parents: Array,
    queue: Array,
    /// Bitmaps of the vertices in the frontier (`front`) and in the next frontier (`next`).
    front: Array,
    next: Array,
    reach: Reach,
    source: u32,
}

impl Bfs {
    pub(super) fn new(memory: &Memory, vertices: usize, reach: Reach) -> Result<Self, SetupError> {
        let words = || memory.array(8 * vertices.div_ceil(64));
        let vertex = || memory.array(4 * vertices);
        let (parents, queue, front, next) = (vertex()?, vertex()?, words()?, words()?);
        Ok(Self { parents, queue, front, next, reach, source: 0 })
    }

    /// Returns, for each vertex in order, whether the last search reached it.
    pub(super) fn reached(&self) -> impl Iterator<Item = bool> {
        self.parents.of::<u32>().iter().map(|parent| parent & UNREACHED == 0)
    }

    pub(super) fn search(&mut self, graph: View<'_>, source: u32) {
        self.source = source;
        let parents = self.parents.of_mut::<u32>();
        parents.par_iter_mut().zip(graph.offsets.par_windows(2)).for_each(|(parent, ends)| {
            *parent = UNREACHED | (ends[1] - ends[0]) as u32;
        });
        parents[source as usize] = source;
        let (parents, queue) = (self.parents.atomic_u32(), self.queue.atomic_u32());
        let (mut front, mut next) = (self.front.atomic_u64(), self.next.atomic_u64());
        queue[0].store(source, Relaxed);
        let mut frontier = 0..1;
        let mut unexplored = graph.neighbours.len();
        let mut edges = graph.degree(source);
        while !frontier.is_empty() {
            let tail = AtomicUsize::new(frontier.end);
            if edges > unexplored / ALPHA {
                front.par_iter().for_each(|word| word.store(0, Relaxed));
                each_of(&queue[frontier.clone()], &|vertex| {
                    front[vertex as usize / 64].fetch_or(1 << (vertex % 64), Relaxed);
                });
                let mut awake = frontier.len();
                loop {
                    let before = awake;
                    awake = bottom_up(graph, parents, front, next);
                    (front, next) = (next, front);
                    if awake == 0 || (awake < before && awake <= graph.vertices() / BETA) {
                        break;
                    }
                }
                // Top-down needs the frontier in the queue, but the bottom-up levels kept it only
                // as a bitmap. Write its vertices to the beginning of the queue, because there may
                // not be enough room after the present tail. The entries that this overwrites are
                // not needed any more.
                tail.store(0, Relaxed);
                listed(front, queue, &tail);
                frontier = 0..tail.load(Relaxed);
                edges = 1;
            } else {
                unexplored = unexplored.saturating_sub(edges);
                edges = top_down(graph, parents, &queue[frontier.clone()], queue, &tail);
                frontier = frontier.end..tail.load(Relaxed);
            }
        }
    }
}

/// Searches one level top-down: sets the parents of the unreached neighbours of `frontier`, and
/// appends these neighbours to `queue` at `tail`. Returns the sum of the degrees of the vertices
/// that it reached.
fn top_down(
    graph: View<'_>,
    parents: &[AtomicU32],
    frontier: &[AtomicU32],
    queue: &[AtomicU32],
    tail: &AtomicUsize,
) -> usize {
    let part = |part: &[AtomicU32]| {
        let mut batch = Batch::new(queue, tail);
        let mut edges = 0;
        for vertex in part.iter().map(|vertex| vertex.load(Relaxed)) {
            for neighbour in graph.around(vertex) {
                let parent = &parents[*neighbour as usize];
                let old = parent.load(Relaxed);
                let is_first = old & UNREACHED != 0
                    && parent.compare_exchange(old, vertex, Relaxed, Relaxed).is_ok();
                if is_first {
                    batch.push(*neighbour);
                    edges += (old & !UNREACHED) as usize;
                }
            }
        }
        batch.flush();
        edges
    };
    frontier.par_chunks(64).map(part).sum()
}

/// Searches one level bottom-up: for each unreached vertex, looks for a parent in the frontier,
/// which is the bitmap `front`. Sets `next` to the bitmap of the vertices that this level reached,
/// and returns the number of these vertices.
fn bottom_up(
    graph: View<'_>,
    parents: &[AtomicU32],
    front: &[AtomicU64],
    next: &[AtomicU64],
) -> usize {
    let parts = parents.par_chunks(PART).zip(next.par_chunks(PART / 64)).enumerate();
    let part = |(part, (parents, next)): (usize, (&[AtomicU32], &[AtomicU64]))| {
        let mut awake = 0;
        for (at, (parents, word)) in parents.chunks(64).zip(next).enumerate() {
            let mut bits = 0_u64;
            for (bit, parent) in parents.iter().enumerate() {
                if parent.load(Relaxed) & UNREACHED == 0 {
                    continue;
                }
                let vertex = (part * PART + at * 64 + bit) as u32;
                let is_in_front = |neighbour: &&u32| {
                    front[**neighbour as usize / 64].load(Relaxed) >> (**neighbour % 64) & 1 == 1
                };
                if let Some(found) = graph.around(vertex).iter().find(is_in_front) {
                    parent.store(*found, Relaxed);
                    bits |= 1 << bit;
                    awake += 1;
                }
            }
            word.store(bits, Relaxed);
        }
        awake
    };
    parts.map(part).sum()
}

/// Appends the vertices of a bitmap to `queue` at `tail`.
fn listed(bitmap: &[AtomicU64], queue: &[AtomicU32], tail: &AtomicUsize) {
    bitmap.par_chunks(PART / 64).enumerate().for_each(|(part, words)| {
        let mut batch = Batch::new(queue, tail);
        for (at, word) in words.iter().enumerate() {
            let mut bits = word.load(Relaxed);
            while bits != 0 {
                batch.push((part * PART + at * 64) as u32 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
        batch.flush();
    });
}

/// Returns the depth of each vertex: its number of edges from `source`, computed by one thread. A
/// vertex that is not connected with `source` has the depth `u32::MAX`.
pub(super) fn depths(graph: View<'_>, source: u32) -> Vec<u32> {
    let mut depths = vec![u32::MAX; graph.vertices()];
    depths[source as usize] = 0;
    let mut queue = std::collections::VecDeque::from([source]);
    while let Some(vertex) = queue.pop_front() {
        for neighbour in graph.around(vertex) {
            if depths[*neighbour as usize] == u32::MAX {
                depths[*neighbour as usize] = depths[vertex as usize] + 1;
                queue.push_back(*neighbour);
            }
        }
    }
    depths
}

impl Algorithm for Bfs {
    fn bytes(&self) -> u64 {
        [&self.parents, &self.queue, &self.front, &self.next]
            .map(|array| array.of::<u8>().len() as u64)
            .iter()
            .sum()
    }

    fn run(&mut self, graph: View<'_>, round: u64) -> Work {
        self.search(graph, self.reach.source(round));
        Work { edges: self.reach.edges, ..Work::default() }
    }

    /// Checks the tree: the parent of a reached vertex must be a neighbour that is one level nearer
    /// to the source. The source is its own parent.
    fn verify(&self, graph: View<'_>) -> Result<(), Wrong> {
        let depths = depths(graph, self.source);
        for (vertex, parent) in graph.all().zip(self.parents.of::<u32>()) {
            let depth = depths[vertex as usize];
            let is_right = match depth {
                0 => *parent == vertex,
                u32::MAX => parent & UNREACHED != 0,
                _ => {
                    graph.around(vertex).binary_search(parent).is_ok()
                        && depths[*parent as usize] == depth - 1
                }
            };
            if !is_right {
                return wrong(format!("the parent of vertex {vertex}"), parent, depth_text(depth));
            }
        }
        Ok(())
    }

    /// The checksum covers the depths of the vertices, and not their parents: which parent is found
    /// depends on the timing of the threads.
    fn checksum(&self) -> u64 {
        let parents = self.parents.of::<u32>();
        let depth = |vertex: usize| {
            let next =
                |at: &usize| parents.get(parents[*at] as usize).map(|_| parents[*at] as usize);
            let path = std::iter::successors(Some(vertex), next).take(STEPS_MAX);
            path.take_while(|at| *at != self.source as usize).count() as u64
        };
        (0..parents.len()).fold(0, |sum, vertex| mixed(sum, depth(vertex)))
    }

    fn sources(&self) -> &[u32] {
        &self.reach.sources
    }

    #[cfg(test)]
    fn spoil(&mut self) {
        let at = (self.source + 1) as usize % self.parents.of::<u32>().len();
        self.parents.of_mut::<u32>()[at] = at as u32;
    }
}

fn depth_text(depth: u32) -> String {
    match depth {
        u32::MAX => "none".into(),
        0 => "itself".into(),
        _ => format!("a neighbour at depth {}", depth - 1),
    }
}
