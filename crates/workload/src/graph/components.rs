//! Connected components by Afforest (Sutton, Ben-Nun, Barak, IPDPS 2018), as in the GAP suite.
//!
//! Edges join trees of vertices. After each vertex is joined with its first two neighbours, most
//! vertices are in one tree. A sample of vertices shows the largest tree. For the vertices of this
//! tree, the remaining edges are then skipped.

use super::{Algorithm, csr::View, wrong};
use crate::{
    SetupError, Work, Wrong,
    memory::{Array, Memory},
    mixed, word,
};
use rayon::prelude::*;
use std::{
    collections::HashMap,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// The number of neighbours that each vertex is joined with before the sample is drawn.
const ROUNDS: usize = 2;

/// The number of vertices in the sample that shows the largest tree.
const SAMPLE: usize = 1024;

/// The number of vertices in a chunk of a parallel loop.
const PART: usize = 4096;

/// The label of each vertex. After a round, it is the lowest number of a vertex in the same
/// component.
#[derive(Debug)]
pub(super) struct Components {
    labels: Array,
}

impl Components {
    pub(super) fn new(memory: &Memory, vertices: usize) -> Result<Self, SetupError> {
        Ok(Self { labels: memory.array(4 * vertices)? })
    }

    fn find(&mut self, graph: View<'_>) {
        let labels = self.labels.atomic_u32();
        each(labels, &|vertex| labels[vertex as usize].store(vertex, Relaxed));
        for round in 0..ROUNDS {
            each(labels, &|vertex| {
                graph.around(vertex).get(round).iter().for_each(|it| link(vertex, **it, labels));
            });
            each(labels, &|vertex| compress(vertex, labels));
        }
        let largest = frequent(labels);
        each(labels, &|vertex| {
            if labels[vertex as usize].load(Relaxed) != largest {
                let rest = graph.around(vertex).iter().skip(ROUNDS);
                rest.for_each(|neighbour| link(vertex, *neighbour, labels));
            }
        });
        each(labels, &|vertex| compress(vertex, labels));
    }
}

fn each(labels: &[AtomicU32], visit: &(impl Fn(u32) + Sync)) {
    labels.par_chunks(PART).enumerate().for_each(|(part, labels)| {
        (part * PART..part * PART + labels.len()).for_each(|vertex| visit(vertex as u32));
    });
}

/// Joins the trees of two vertices: the root with the lower number becomes the parent of the root
/// with the higher number.
fn link(a: u32, b: u32, labels: &[AtomicU32]) {
    let label = |at: u32| labels[at as usize].load(Relaxed);
    let (mut first, mut second) = (label(a), label(b));
    while first != second {
        let (high, low) = (first.max(second), first.min(second));
        let parent = label(high);
        let is_joined = parent == low
            || parent == high
                && labels[high as usize].compare_exchange(high, low, Relaxed, Relaxed).is_ok();
        if is_joined {
            break;
        }
        (first, second) = (label(label(high)), label(low));
    }
}

/// Makes the root of a vertex's tree the vertex's parent (path compression).
fn compress(vertex: u32, labels: &[AtomicU32]) {
    let label = |at: u32| labels[at as usize].load(Relaxed);
    while label(vertex) != label(label(vertex)) {
        labels[vertex as usize].store(label(label(vertex)), Relaxed);
    }
}

/// Returns the label that is most frequent in a sample of vertices.
fn frequent(labels: &[AtomicU32]) -> u32 {
    let mut counts = HashMap::new();
    for at in 0..SAMPLE {
        let vertex = (word(at) % labels.len() as u64) as usize;
        *counts.entry(labels[vertex].load(Relaxed)).or_insert(0) += 1;
    }
    let most = counts.into_iter().max_by_key(|(label, count)| (*count, *label));
    most.map_or(0, |(label, _)| label)
}

/// Returns, for each vertex, the lowest number of a vertex in the same component. One thread finds
/// it by searches, to verify the labels.
fn least(graph: View<'_>) -> Vec<u32> {
    let mut labels = vec![u32::MAX; graph.vertices()];
    let mut stack = vec![];
    for first in graph.all() {
        if labels[first as usize] != u32::MAX {
            continue;
        }
        labels[first as usize] = first;
        stack.push(first);
        while let Some(vertex) = stack.pop() {
            for neighbour in graph.around(vertex) {
                if labels[*neighbour as usize] == u32::MAX {
                    labels[*neighbour as usize] = first;
                    stack.push(*neighbour);
                }
            }
        }
    }
    labels
}

impl Algorithm for Components {
    fn bytes(&self) -> u64 {
        self.labels.of::<u8>().len() as u64
    }

    fn run(&mut self, graph: View<'_>, _: u64) -> Work {
        self.find(graph);
        Work { edges: graph.neighbours.len() as u64 / 2, ..Work::default() }
    }

    fn verify(&self, graph: View<'_>) -> Result<(), Wrong> {
        let (found, expected) = (self.labels.of::<u32>(), least(graph));
        match found.iter().zip(&expected).position(|(found, expected)| found != expected) {
            None => Ok(()),
            Some(at) => wrong(format!("the component of vertex {at}"), found[at], expected[at]),
        }
    }

    fn checksum(&self) -> u64 {
        self.labels.of::<u32>().iter().fold(0, |sum, label| mixed(sum, u64::from(*label)))
    }

    #[cfg(test)]
    fn spoil(&mut self) {
        self.labels.of_mut::<u32>()[17] += 1;
    }
}
