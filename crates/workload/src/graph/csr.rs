//! Graphs in compressed sparse rows (CSR): one array has the sorted lists of neighbours of all
//! vertices, one list after the other.
//!
//! The graphs are undirected: an edge is in the lists of both of its vertices. A list has neither
//! its own vertex nor a neighbour twice.

use crate::{
    SetupError,
    memory::{Array, Memory},
};
use rayon::prelude::*;
use std::sync::atomic::Ordering::Relaxed;

/// The number of vertices whose lists of neighbours a task sorts.
const PART: usize = 1024;

/// A graph in compressed sparse rows that owns its arrays.
#[derive(Debug)]
pub(super) struct Csr {
    /// The offset of each vertex's first neighbour, and then the number of all neighbours (u64).
    offsets: Array,
    neighbours: Array,
    vertices: usize,
}

/// A graph as two slices: the offset of each vertex's list of neighbours, and the lists, one after
/// the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) offsets: &'a [u64],
    pub(super) neighbours: &'a [u32],
}

impl<'a> View<'a> {
    pub(super) fn vertices(self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the indices of a vertex's neighbours in the array of all neighbours.
    pub(super) fn range(self, vertex: u32) -> std::ops::Range<usize> {
        let at = vertex as usize;
        self.offsets[at] as usize..self.offsets[at + 1] as usize
    }

    pub(super) fn around(self, vertex: u32) -> &'a [u32] {
        &self.neighbours[self.range(vertex)]
    }

    pub(super) fn degree(self, vertex: u32) -> usize {
        self.range(vertex).len()
    }

    pub(super) fn all(self) -> std::ops::Range<u32> {
        0..self.vertices() as u32
    }
}

/// A source of edges. It is divided into chunks for different threads. A chunk that is read again
/// gives the same edges.
pub(super) trait Edges: Sync {
    fn vertices(&self) -> usize;
    /// Returns the number of edges in all chunks.
    fn count(&self) -> usize;
    fn parts(&self) -> usize;
    fn each(&self, part: usize, visit: &mut dyn FnMut(u32, u32));
}

impl Csr {
    /// Builds a graph from `edges`. Reads the edges twice, so that they need not be stored: first
    /// to count the neighbours of each vertex, and then to write the neighbours.
    pub(super) fn new(memory: &Memory, edges: &impl Edges) -> Result<Self, SetupError> {
        let vertices = edges.vertices();
        let mut offsets = memory.array(8 * (vertices + 1))?;
        let mut neighbours = memory.array(4 * 2 * edges.count())?;
        let counts = offsets.atomic_u64();
        each_end(edges, &|from, _| {
            counts[from as usize].fetch_add(1, Relaxed);
        });
        let mut sum = 0;
        for start in offsets.of_mut::<u64>() {
            sum += std::mem::replace(start, sum);
        }
        // This pass writes the neighbours. It advances the start of each list to the list's end,
        // which is the start of the next list.
        let (ends, places) = (offsets.atomic_u64(), neighbours.atomic_u32());
        each_end(edges, &|from, to| {
            let at = ends[from as usize].fetch_add(1, Relaxed);
            places[at as usize].store(to, Relaxed);
        });
        squeeze(offsets.of_mut(), neighbours.of_mut(), vertices);
        Ok(Self { offsets, neighbours, vertices })
    }

    pub(super) fn view(&self) -> View<'_> {
        let offsets = &self.offsets.of::<u64>()[..=self.vertices];
        View { offsets, neighbours: &self.neighbours.of()[..offsets[self.vertices] as usize] }
    }

    /// Returns the bytes of the allocated arrays. They have room for all edges that the generator
    /// draws, including repeated ones.
    pub(super) fn bytes(&self) -> u64 {
        (self.offsets.of::<u8>().len() + self.neighbours.of::<u8>().len()) as u64
    }
}

/// Calls `visit` twice for each edge, once per direction. Leaves out edges from a vertex to itself.
fn each_end(edges: &impl Edges, visit: &(impl Fn(u32, u32) + Sync)) {
    (0..edges.parts()).into_par_iter().for_each(|part| {
        edges.each(part, &mut |a, b| {
            if a != b {
                visit(a, b);
                visit(b, a);
            }
        });
    });
}

/// Sorts each list of neighbours, removes repeated neighbours, and closes the gaps. Before the
/// call, `offsets` has the ends of the lists, and afterwards their starts.
fn squeeze(offsets: &mut [u64], neighbours: &mut [u32], vertices: usize) {
    let mut parts = vec![];
    let (mut rest, mut done) = (&mut *neighbours, 0);
    for ends in offsets[..vertices].chunks_mut(PART) {
        let end = ends.last().map_or(done, |end| *end as usize);
        let (lists, behind) = std::mem::take(&mut rest).split_at_mut(end - done);
        parts.push((done, ends, lists));
        (rest, done) = (behind, end);
    }
    let lengths: Vec<(usize, usize)> = parts
        .into_par_iter()
        .map(|(first, ends, lists)| {
            let (mut start, mut kept) = (0, 0);
            for end in ends {
                let stop = *end as usize - first;
                lists[start..stop].sort_unstable();
                let before = kept;
                for at in start..stop {
                    if kept == before || lists[kept - 1] != lists[at] {
                        lists[kept] = lists[at];
                        kept += 1;
                    }
                }
                // Until all chunks are done, `offsets` has the length of each list. The starts can
                // be computed only then: a list starts at the sum of the lengths of all lists
                // before it.
                *end = (kept - before) as u64;
                start = stop;
            }
            (first, kept)
        })
        .collect();
    let mut to = 0;
    for (first, length) in lengths {
        neighbours.copy_within(first..first + length, to);
        to += length;
    }
    let mut sum = 0;
    for length in &mut offsets[..vertices] {
        sum += std::mem::replace(length, sum);
    }
    offsets[vertices] = sum;
}
