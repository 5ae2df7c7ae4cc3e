//! The number of triangles: pairs of a vertex's neighbours that are neighbours of each other.
//!
//! For each edge, the lists of its two vertices are intersected. Only neighbours with lower numbers
//! count, so each triangle is found once. If a few vertices have most of the edges, the vertices
//! are renumbered first, by descending degree: then each vertex has few neighbours with lower
//! numbers (Cohen, Computing in Science & Engineering 2009). The GAP suite does the same. The
//! renumbering is part of the timed round.

use super::{Algorithm, csr::View, wrong};
use crate::{
    SetupError, Work, Wrong,
    memory::{Array, Memory},
    word,
};
use rayon::prelude::*;

/// The number of vertices in a chunk. A chunk is a separate task: after the renumbering, most of
/// the work is in the first vertices, and other threads cannot take chunks of a task that has
/// begun.
const PART: usize = 64;

/// The number of vertices in the sample whose degrees decide whether the graph is renumbered.
const SAMPLE: usize = 1000;

/// The renumbered graph, and the number of triangles that the last round counted.
#[derive(Debug)]
pub(super) struct Triangles {
    /// A u64 for each vertex, in the new order. Its upper half is `u32::MAX` minus the degree, and
    /// its lower half is the vertex.
    order: Array,
    /// The new number of each vertex.
    numbers: Array,
    offsets: Array,
    neighbours: Array,
    count: u64,
}

impl Triangles {
    pub(super) fn new(memory: &Memory, graph: View<'_>) -> Result<Self, SetupError> {
        let vertices = graph.vertices();
        let order = memory.array(8 * vertices)?;
        let numbers = memory.array(4 * vertices)?;
        let offsets = memory.array(8 * (vertices + 1))?;
        // The renumbered graph has each edge only once, in the list of its vertex with the higher
        // number. So it has half as many entries as the original graph.
        let neighbours = memory.array(4 * (graph.neighbours.len() / 2))?;
        Ok(Self { order, numbers, offsets, neighbours, count: 0 })
    }

    /// Renumbers the vertices by descending degree. Returns the renumbered graph, in which a vertex
    /// has only its neighbours with lower numbers.
    fn renumber(&mut self, graph: View<'_>) -> View<'_> {
        let order = self.order.of_mut::<u64>();
        order.par_iter_mut().zip(graph.all()).for_each(|(it, vertex)| {
            *it = (u64::from(u32::MAX) - graph.degree(vertex) as u64) << 32 | u64::from(vertex);
        });
        order.par_sort_unstable();
        let order: &[u64] = order;
        let numbers = self.numbers.atomic_u32();
        let vertices = order.par_iter().enumerate();
        vertices.for_each(|(number, it)| {
            let vertex = (*it & u64::from(u32::MAX)) as usize;
            numbers[vertex].store(number as u32, std::sync::atomic::Ordering::Relaxed);
        });
        let numbers: &[u32] = self.numbers.of();
        let lower = |number: usize| {
            let vertex = (order[number] & u64::from(u32::MAX)) as u32;
            let new = graph.around(vertex).iter().map(|it| numbers[*it as usize]);
            new.filter(move |it| (*it as usize) < number)
        };
        let offsets = &mut self.offsets.of_mut::<u64>()[..=graph.vertices()];
        let all = offsets[..graph.vertices()].par_iter_mut().enumerate().with_max_len(PART);
        all.for_each(|(number, length)| *length = lower(number).count() as u64);
        offsets[graph.vertices()] = 0;
        let mut sum = 0;
        for length in offsets.iter_mut() {
            sum += std::mem::replace(length, sum);
        }
        let mut rest = self.neighbours.of_mut::<u32>();
        let mut parts = vec![];
        for first in (0..graph.vertices()).step_by(PART) {
            let end = graph.vertices().min(first + PART);
            let length = (offsets[end] - offsets[first]) as usize;
            let (lists, behind) = std::mem::take(&mut rest).split_at_mut(length);
            parts.push((first..end, lists));
            rest = behind;
        }
        let offsets: &[u64] = offsets;
        parts.into_par_iter().with_max_len(1).for_each(|(range, lists)| {
            let first = offsets[range.start];
            for number in range {
                let list = &mut lists
                    [(offsets[number] - first) as usize..(offsets[number + 1] - first) as usize];
                list.iter_mut().zip(lower(number)).for_each(|(it, neighbour)| *it = neighbour);
                list.sort_unstable();
            }
        });
        View { offsets, neighbours: self.neighbours.of() }
    }
}

/// Returns the number of triangles of a graph whose lists of neighbours are sorted.
fn count(graph: View<'_>) -> u64 {
    let parts = (0..graph.vertices()).into_par_iter().step_by(PART).with_max_len(1);
    let part = |first: usize| {
        let vertices = first..graph.vertices().min(first + PART);
        vertices.map(|vertex| of_vertex(graph, vertex as u32)).sum::<u64>()
    };
    parts.map(part).sum()
}

/// Returns the number of triangles in which `vertex` has the highest number.
fn of_vertex(graph: View<'_>, vertex: u32) -> u64 {
    let around = graph.around(vertex);
    let around = &around[..around.partition_point(|it| *it < vertex)];
    around.iter().map(|second| common(around, graph.around(*second), *second)).sum()
}

/// Returns the number of vertices below `limit` that are in both sorted lists. `a` must contain
/// `limit`, which ends the inner loop.
fn common(a: &[u32], b: &[u32], limit: u32) -> u64 {
    let (mut at, mut count) = (0, 0);
    for it in b {
        if *it >= limit {
            break;
        }
        while a[at] < *it {
            at += 1;
        }
        count += u64::from(a[at] == *it);
    }
    count
}

/// True if a few vertices have most of the edges: in a sample, the mean degree is more than 1.3
/// times the median degree.
fn is_skewed(graph: View<'_>) -> bool {
    let vertices = graph.vertices();
    let sample = |at| graph.degree((word(at) % vertices as u64) as u32);
    let mut degrees: Vec<usize> = (0..SAMPLE).map(sample).collect();
    degrees.sort_unstable();
    let average = degrees.iter().sum::<usize>() as f64 / SAMPLE as f64;
    average / 1.3 > degrees[SAMPLE / 2] as f64
}

/// Returns the number of triangles, to verify the count of the parallel algorithm. For each vertex,
/// one thread marks the neighbours, and counts the marked neighbours of each neighbour. An edge is
/// kept only in the list of its vertex with the lower rank, which has fewer neighbours: the full
/// lists of vertices with many neighbours would take several times as long as the rounds.
fn marked(graph: View<'_>) -> u64 {
    let rank = |vertex: u32| (graph.degree(vertex), vertex);
    let (mut ends, mut lists) = (vec![0], Vec::with_capacity(graph.neighbours.len() / 2));
    for vertex in graph.all() {
        let around = graph.around(vertex).iter().copied();
        lists.extend(around.filter(|it| rank(*it) > rank(vertex)));
        ends.push(lists.len());
    }
    let above = |vertex: u32| &lists[ends[vertex as usize]..ends[vertex as usize + 1]];
    let mut marks = vec![u32::MAX; graph.vertices()];
    let mut count = 0;
    for vertex in graph.all() {
        above(vertex).iter().for_each(|it| marks[*it as usize] = vertex);
        for second in above(vertex) {
            let thirds = above(*second).iter();
            count += thirds.filter(|third| marks[**third as usize] == vertex).count() as u64;
        }
    }
    count
}

impl Algorithm for Triangles {
    fn bytes(&self) -> u64 {
        [&self.order, &self.numbers, &self.offsets, &self.neighbours]
            .map(|array| array.of::<u8>().len() as u64)
            .iter()
            .sum()
    }

    fn run(&mut self, graph: View<'_>, _: u64) -> Work {
        self.count = match is_skewed(graph) {
            true => count(self.renumber(graph)),
            false => count(graph),
        };
        Work { edges: graph.neighbours.len() as u64 / 2, ..Work::default() }
    }

    fn verify(&self, graph: View<'_>) -> Result<(), Wrong> {
        let expected = marked(graph);
        if self.count == expected {
            return Ok(());
        }
        wrong("the number of triangles".into(), self.count, expected)
    }

    fn checksum(&self) -> u64 {
        self.count
    }

    #[cfg(test)]
    fn spoil(&mut self) {
        self.count += 1;
    }
}
