//! The list of all workloads, with their names and parameters.

use crate::{
    Kernel, SetupError,
    cholesky::Cholesky,
    fft::Transform,
    gas::Gas,
    gemm::Gemm,
    graph::{Graph, Shape, Task},
    grid::{
        block_tridiagonal::BlockTridiagonal, compact::Compact, lattice::Lattice,
        multigrid::Multigrid, spherical::Spherical,
    },
    lu::{Form, Lu},
    memory::Memory,
    polynomial::Polynomial,
    qft::Qft,
    random::Random,
    stream::{Loop, Stream},
    sweep::Sweep,
};

/// A workload. [`Setting`] has its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Stream,
    /// Reads all words of an array in order.
    Seq,
    /// Reads one word of each page. Successive reads are [`Setting::stride`] bytes apart.
    Stride,
    /// Accesses single words at random addresses.
    Random,
    /// A one-dimensional Fourier transform.
    Fft,
    /// A three-dimensional Fourier transform of a cube.
    Fft3d,
    /// A product of matrices that are stored by rows.
    Gemm,
    /// A product of matrices that are stored by tiles.
    GemmTiled,
    /// Evaluates a polynomial at each element of an array.
    Polynomial,
    /// LU decomposition with partial pivoting.
    Lu,
    /// LU decomposition by columns, without pivoting.
    LuPlain,
    /// LU decomposition by tiles, without pivoting.
    LuTiled,
    /// Cholesky decomposition of a sparse matrix.
    Cholesky,
    /// A quantum Fourier transform of a state vector.
    Qft,
    /// A step of gas dynamics on a cube of cells.
    Gas,
    /// Breadth-first search of a graph.
    Bfs,
    /// Shortest paths in a graph with weighted edges.
    Sssp,
    /// `PageRank` of the vertices of a graph.
    PageRank,
    /// Connected components of a graph.
    Components,
    /// Betweenness centrality of the vertices of a graph.
    Centrality,
    /// The number of triangles in a graph.
    Triangles,
    /// A step of the lattice Boltzmann method.
    Lattice,
    /// The solution of block-tridiagonal systems.
    BlockTridiagonal,
    /// Derivatives by compact finite differences.
    Compact,
    /// Conjugate gradients in spherical coordinates.
    Spherical,
    /// Conjugate gradients with a multigrid preconditioner.
    Multigrid,
}

/// The unit of a workload's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// 10^9 bytes per second.
    Gbps,
    /// 10^9 floating-point operations per second.
    Gflops,
    /// 10^3 accesses per second.
    Kaccesses,
    /// 10^6 traversed edges of a graph per second.
    Medges,
}

impl Unit {
    /// Returns the text of the unit that follows a number.
    pub fn text(self) -> &'static str {
        match self {
            Self::Gbps => "GB/s",
            Self::Gflops => "GFLOP/s",
            Self::Kaccesses => "k accesses/s",
            Self::Medges => "M edges/s",
        }
    }
}

/// The parameters of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Bytes of all arrays.
    pub footprint: u64,
    /// Number of threads that share the work of a round.
    pub threads: usize,
    /// The kind of memory that the arrays are in.
    pub memory: Memory,
    /// For stream: the only loop that runs. If it is `None`, the rounds run triad, and each of the
    /// other three loops runs once afterwards.
    pub only: Option<Loop>,
    /// For stride: the bytes from one access to the next. They are rounded up to whole pages.
    pub stride: u64,
    /// For random and polynomial: true if the accesses also write the elements.
    pub is_writing: bool,
    /// For gemm-tiled and lu-tiled: the number of rows of a tile.
    pub tile: usize,
    /// For polynomial: the degree of the polynomials.
    pub degree: u32,
    /// For random: the seed of the accessed addresses. For graphs: the seed of the graph.
    pub seed: u64,
    /// For graphs: the distribution of the edges.
    pub graph: Shape,
}

impl Kind {
    /// All workloads, as (name, kind, description in a line).
    pub const ALL: [(&'static str, Self, &'static str); 26] = [
        ("stream", Self::Stream, "STREAM: triad over three arrays, then copy, scale and add"),
        ("seq", Self::Seq, "reads every word in order"),
        ("stride", Self::Stride, "reads one word of each page, 64 KiB from one to the next"),
        ("random", Self::Random, "reads single words anywhere, or changes them (--write)"),
        ("fft", Self::Fft, "one long Fourier transform in place"),
        ("fft-3d", Self::Fft3d, "the Fourier transform of a cube, axis by axis"),
        ("gemm", Self::Gemm, "a product of matrices stored row by row"),
        ("gemm-tiled", Self::GemmTiled, "a product of matrices stored tile by tile"),
        ("polynomial", Self::Polynomial, "a polynomial at each element, of any intensity"),
        ("lu", Self::Lu, "LU decomposition with partial pivoting, stored by columns"),
        ("lu-plain", Self::LuPlain, "LU decomposition without pivots, stored by columns"),
        ("lu-tiled", Self::LuTiled, "LU decomposition without pivots, tile by tile"),
        ("cholesky", Self::Cholesky, "Cholesky decomposition of a sparse matrix (Poisson)"),
        ("qft", Self::Qft, "a quantum Fourier transform, gate by gate over a state vector"),
        ("gas", Self::Gas, "a step of gas dynamics on a cube of cells"),
        ("bfs", Self::Bfs, "GAP: breadth-first search of a graph (--graph), from one vertex"),
        ("sssp", Self::Sssp, "GAP: shortest paths of a weighted graph by delta-stepping"),
        ("pr", Self::PageRank, "GAP: PageRank of a graph by Gauss-Seidel iterations"),
        ("cc", Self::Components, "GAP: connected components of a graph by Afforest"),
        ("bc", Self::Centrality, "GAP: betweenness centrality of a graph, four sources"),
        ("tc", Self::Triangles, "GAP: the number of triangles of a graph"),
        ("lbm", Self::Lattice, "a step of lattice Boltzmann with 19 velocities on a cube"),
        ("block-tridiagonal", Self::BlockTridiagonal, "implicit steps with blocks of 5 x 5"),
        ("compact", Self::Compact, "compact finite differences in three directions of a cube"),
        ("spherical-cg", Self::Spherical, "conjugate gradients in spherical coordinates"),
        ("multigrid-cg", Self::Multigrid, "conjugate gradients with multigrid, as HPCG"),
    ];

    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _, _)| *known == name).map(|(_, kind, _)| *kind)
    }

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind, _)| *kind == self).map_or("", |(name, _, _)| name)
    }

    pub fn unit(self) -> Unit {
        match self {
            Self::Stream | Self::Seq => Unit::Gbps,
            Self::Stride | Self::Random => Unit::Kaccesses,
            _ if self.task().is_some() => Unit::Medges,
            _ => Unit::Gflops,
        }
    }

    /// Returns the graph kernel of this workload, or `None` for a workload without a graph.
    pub fn task(self) -> Option<Task> {
        Some(match self {
            Self::Bfs => Task::Bfs,
            Self::Sssp => Task::Sssp,
            Self::PageRank => Task::PageRank,
            Self::Components => Task::Components,
            Self::Centrality => Task::Centrality,
            Self::Triangles => Task::Triangles,
            _ => return None,
        })
    }

    /// Creates the workload with these parameters, and fills its arrays.
    ///
    /// # Errors
    /// When a parameter is not valid for the workload, or memory cannot be allocated.
    pub fn kernel(self, setting: &Setting) -> Result<Box<dyn Kernel>, SetupError> {
        let Setting { footprint, threads, ref memory, is_writing, .. } = *setting;
        let (seed, shape) = (setting.seed, setting.graph);
        let graph = |task| Graph::new(memory, footprint, threads, task, shape, seed);
        Ok(match self {
            Self::Stream => Box::new(Stream::new(memory, footprint, threads, setting.only)?),
            Self::Seq => Box::new(Sweep::new(memory, footprint, threads, None)?),
            Self::Stride => Box::new(Sweep::new(memory, footprint, threads, Some(setting.stride))?),
            Self::Random => Box::new(Random::new(memory, footprint, threads, is_writing, seed)?),
            Self::Fft => Box::new(Transform::long(memory, footprint, threads)?),
            Self::Fft3d => Box::new(Transform::cube(memory, footprint, threads)?),
            Self::Gemm => Box::new(Gemm::new(memory, footprint, threads, None)?),
            Self::GemmTiled => Box::new(Gemm::new(memory, footprint, threads, Some(setting.tile))?),
            Self::Polynomial => {
                let degree = setting.degree;
                Box::new(Polynomial::new(memory, footprint, threads, degree, is_writing)?)
            }
            Self::Lu => Box::new(Lu::new(memory, footprint, threads, Form::Pivoting)?),
            Self::LuPlain => Box::new(Lu::new(memory, footprint, threads, Form::Plain)?),
            Self::LuTiled => {
                Box::new(Lu::new(memory, footprint, threads, Form::Tiled(setting.tile))?)
            }
            Self::Cholesky => Box::new(Cholesky::new(memory, footprint, threads)?),
            Self::Qft => Box::new(Qft::new(memory, footprint, threads)?),
            Self::Gas => Box::new(Gas::new(memory, footprint, threads)?),
            Self::Bfs => Box::new(graph(Task::Bfs)?),
            Self::Sssp => Box::new(graph(Task::Sssp)?),
            Self::PageRank => Box::new(graph(Task::PageRank)?),
            Self::Components => Box::new(graph(Task::Components)?),
            Self::Centrality => Box::new(graph(Task::Centrality)?),
            Self::Triangles => Box::new(graph(Task::Triangles)?),
            Self::Lattice => Box::new(Lattice::new(memory, footprint, threads)?),
            Self::BlockTridiagonal => Box::new(BlockTridiagonal::new(memory, footprint, threads)?),
            Self::Compact => Box::new(Compact::new(memory, footprint, threads)?),
            Self::Spherical => Box::new(Spherical::new(memory, footprint, threads)?),
            Self::Multigrid => Box::new(Multigrid::new(memory, footprint, threads)?),
        })
    }
}
