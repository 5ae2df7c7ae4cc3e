//! The six kernels of the GAP benchmark suite (Beamer, Asanović, Patterson, arXiv 1508.03619) on
//! generated graphs: breadth-first search, shortest paths, PageRank, connected components,
//! betweenness centrality, and triangle counting.
//!
//! Rates count traversed edges. A search counts each undirected edge of its source's component
//! once, as Graph500 does. The rounds of a search use 64 sources in turn, all in the component of
//! the vertex with the most neighbours. Results are verified by the rules of the suite: they are
//! compared with those of single-threaded algorithms, which share only the graph with the measured
//! algorithms.

mod bfs;

mod centrality;

mod components;

mod csr;

mod generate;

mod page_rank;

mod queue;

mod sssp;

mod triangles;

pub use generate::Shape;

use crate::{Kernel, SetupError, Work, Wrong, at_least, memory::Memory, team, word};
use bfs::Bfs;
use centrality::Centrality;
use components::Components;
use csr::{Csr, View};
use generate::{DEGREE, Generator};
use page_rank::PageRank;
use rayon::ThreadPool;
use sssp::Sssp;
use std::fmt::Display;
use triangles::Triangles;

/// The limits of the scale of a graph. The scale is the base-2 logarithm of the number of vertices.
const SCALE_MIN: u32 = 6;
const SCALE_MAX: u32 = 30;

/// The number of source vertices of searches. The rounds use them in turn.
const SOURCES: usize = 64;

/// One of the six graph algorithms ("kernels") of the GAP suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Bfs,
    Sssp,
    PageRank,
    Components,
    Centrality,
    Triangles,
}

impl Task {
    /// All kernels, with their names on the command line.
    pub const ALL: [(&'static str, Self); 6] = [
        ("bfs", Self::Bfs),
        ("sssp", Self::Sssp),
        ("pr", Self::PageRank),
        ("cc", Self::Components),
        ("bc", Self::Centrality),
        ("tc", Self::Triangles),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, task)| *task == self).map_or("", |(name, _)| name)
    }

    /// Returns the memory for a vertex, bytes: its offset and its neighbours in the graph, and its
    /// elements in the kernel's arrays.
    fn bytes_of_vertex(self) -> u64 {
        let lists = 2 * DEGREE as u64;
        8 + 4 * lists
            + match self {
                // The parent and the queue entry of a vertex have 4 bytes each. Its two bits in the
                // two bitmaps count as a byte.
                Self::Bfs => 4 + 4 + 1,
                Self::Sssp => lists + 4,
                Self::PageRank => 4 + 4,
                Self::Components => 4,
                Self::Centrality => 4 + 4 + 4 + 8 + 4 + lists / 8,
                Self::Triangles => 8 + 4 + 8 + 4 * lists / 2,
            }
    }
}

/// A graph kernel ([`Task`]), with the arrays that it fills.
trait Algorithm: Send + Sync {
    /// Returns the bytes of the kernel's arrays. The arrays of the graph do not count.
    fn bytes(&self) -> u64;

    /// Runs round `round` and returns its work. [`Graph`] sets the field `bytes` of the work.
    fn run(&mut self, graph: View<'_>, round: u64) -> Work;

    /// Checks the result of the last round on `graph`.
    fn verify(&self, graph: View<'_>) -> Result<(), Wrong>;

    fn checksum(&self) -> u64;

    /// Returns the vertices from which the searches of the rounds begin. A kernel without searches
    /// has none.
    fn sources(&self) -> &[u32] {
        &[]
    }

    /// Makes one value of the result wrong. Tests of [`Self::verify`] call it.
    #[cfg(test)]
    fn spoil(&mut self);
}

/// The source vertices of the searches, and the number of edges that a search reaches.
#[derive(Clone, Debug)]
struct Reach {
    sources: Vec<u32>,
    /// Number of edges in the component with all sources.
    edges: u64,
}

impl Reach {
    /// Finds the component of the vertex with the most neighbours, and draws the sources of all
    /// searches from it.
    fn find(memory: &Memory, graph: View<'_>, seed: u64) -> Result<Self, SetupError> {
        let hub = graph.all().max_by_key(|vertex| graph.degree(*vertex)).unwrap_or(0);
        let none = Self { sources: vec![hub], edges: 0 };
        let mut search = Bfs::new(memory, graph.vertices(), none)?;
        search.search(graph, hub);
        let reached: Vec<bool> = search.reached().collect();
        let of_component = graph.all().filter(|vertex| reached[*vertex as usize]);
        let edges = of_component.map(|vertex| graph.degree(vertex) as u64).sum::<u64>() / 2;
        let draw = |at: usize| {
            let start = (word(at) ^ word(seed as usize)) % graph.vertices() as u64;
            // The source is the first vertex of the component from `start` on, or, if there is
            // none, the first vertex of the component. The component is not empty: it has the
            // vertex with the most neighbours.
            let mut after = (start as u32..graph.vertices() as u32).chain(graph.all());
            after.find(|vertex| reached[*vertex as usize]).unwrap_or(hub)
        };
        Ok(Self { sources: (0..SOURCES).map(draw).collect(), edges })
    }

    fn source(&self, round: u64) -> u32 {
        self.sources[(round % self.sources.len() as u64) as usize]
    }
}

/// A graph kernel with its graph and its threads.
pub struct Graph {
    graph: Csr,
    algorithm: Box<dyn Algorithm>,
    pool: ThreadPool,
    rounds: u64,
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Graph").field("graph", &self.graph).finish_non_exhaustive()
    }
}

impl Graph {
    /// Generates the largest graph that fits into the footprint together with the kernel's arrays.
    /// Its number of vertices is a power of two.
    ///
    /// # Errors
    /// When the footprint is too small, memory cannot be allocated, or threads cannot be started.
    pub fn new(
        memory: &Memory,
        footprint: u64,
        threads: usize,
        task: Task,
        shape: Shape,
        seed: u64,
    ) -> Result<Self, SetupError> {
        // The 64 additional bytes have two reasons: bitmaps are rounded up to whole words, and an
        // array of offsets has one element more than there are vertices.
        let bytes = |scale: u32| (task.bytes_of_vertex() << scale) + 64;
        at_least(task.name(), footprint, bytes(SCALE_MIN))?;
        let fits = |scale: &u32| bytes(*scale) <= footprint;
        let scale = (SCALE_MIN..=SCALE_MAX).rev().find(fits).unwrap_or(SCALE_MIN);
        let pool = team::pool(threads)?;
        let generator = Generator { shape, scale, seed };
        let graph = pool.install(|| Csr::new(memory, &generator))?;
        Self::with(memory, graph, pool, task, seed)
    }

    fn with(
        memory: &Memory,
        graph: Csr,
        pool: ThreadPool,
        task: Task,
        seed: u64,
    ) -> Result<Self, SetupError> {
        let algorithm = pool.install(|| {
            let view = graph.view();
            let vertices = view.vertices();
            let reach = || Reach::find(memory, view, seed);
            Ok(match task {
                Task::Bfs => Box::new(Bfs::new(memory, vertices, reach()?)?) as Box<dyn Algorithm>,
                Task::Sssp => Box::new(Sssp::new(memory, view, seed, reach()?)?),
                Task::PageRank => Box::new(PageRank::new(memory, vertices)?),
                Task::Components => Box::new(Components::new(memory, vertices)?),
                Task::Centrality => Box::new(Centrality::new(memory, view, reach()?)?),
                Task::Triangles => Box::new(Triangles::new(memory, view)?),
            })
        })?;
        Ok(Self { graph, algorithm, pool, rounds: 0 })
    }

    /// Returns the vertices from which the searches of the rounds begin. A kernel without searches
    /// has none.
    pub fn sources(&self) -> Vec<u32> {
        self.algorithm.sources().to_vec()
    }

    /// Returns the graph in compressed sparse rows (CSR), for other programs that use the same
    /// graph. The first slice has the offset of each vertex's list of neighbours in the second
    /// slice, and then the end of the last list. The second slice has the neighbours of all
    /// vertices.
    pub fn lists(&self) -> (&[u64], &[u32]) {
        let View { offsets, neighbours } = self.graph.view();
        (offsets, neighbours)
    }
}

impl Kernel for Graph {
    fn footprint(&self) -> u64 {
        self.graph.bytes() + self.algorithm.bytes()
    }

    fn round(&mut self) -> Work {
        let (graph, algorithm) = (self.graph.view(), &mut self.algorithm);
        let work = self.pool.install(|| algorithm.run(graph, self.rounds));
        self.rounds += 1;
        Work { bytes: self.footprint(), ..work }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        if self.rounds == 0 { Ok(()) } else { self.algorithm.verify(self.graph.view()) }
    }

    fn checksum(&self) -> u64 {
        self.algorithm.checksum()
    }
}

/// Returns the error about a wrong value in the result.
fn wrong<T>(what: String, found: impl Display, expected: impl Display) -> Result<T, Wrong> {
    Err(Wrong { what, found: found.to_string(), expected: expected.to_string() })
}

#[cfg(test)]
mod tests;
