//! The patterns of `interleaf bench compare`: workloads with fixed arguments.

use interleaf_workload::{
    graph::Shape,
    kind::{Kind, Setting},
    memory::Memory,
};

/// The patterns that `interleaf reproduce imdt` runs, for the study of Intel Memory Drive
/// Technology (IMDT). The number in the name of a polynomial is its arithmetic intensity, here 4 to
/// 256 operations per byte.
pub(crate) const STUDY_WORKLOADS: [&str; 13] = [
    "stream",
    "gemm-tiled",
    "lu-tiled",
    "fft-3d",
    "gas",
    "polynomial-16",
    "polynomial-256",
    "lu",
    "lu-plain",
    "cholesky",
    "qft",
    "polynomial-4",
    "polynomial-64",
];

#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Arguments of `interleaf bench run` for this pattern, without the footprint.
    pub(crate) arguments: &'static [&'static str],
    /// The kinds of advice (`madvise`) to try with a mapped file. The fastest run counts.
    pub(crate) hints: &'static [&'static str],
    /// True if the pattern's traffic with the drive is in large sequential transfers.
    pub(crate) is_streaming: bool,
}

impl Pattern {
    /// Returns the workload's setting, from which the order of its accesses is computed. Fields
    /// that do not affect this order have arbitrary fixed values.
    pub(crate) fn setting(&self, footprint: u64) -> Setting {
        Setting {
            footprint,
            threads: 1,
            memory: Memory::Heap,
            only: None,
            stride: 64 << 10,
            is_writing: self.arguments.contains(&"--write"),
            tile: if self.kind == Kind::LuTiled { 256 } else { 512 },
            degree: 1,
            seed: 1,
            graph: Shape::default(),
        }
    }

    /// True if a prefetcher can predict the next access of the pattern.
    pub(crate) fn is_predictable(&self) -> bool {
        self.kind != Kind::Random
    }

    /// True if the drive's bandwidth limits the pattern's speed; false if the drive's requests per
    /// second limit it.
    pub(crate) fn moves_bytes(&self) -> bool {
        self.is_streaming || self.is_predictable()
    }
}

const ONE: &[&str] = &["--rounds", "1"];
/// Options for a warm-up round before the timed round. The write-back of the arrays' initial data
/// ends in the warm-up round.
const FILLED: &[&str] = &["--warm-up", "1", "--rounds", "1"];
const UNIFORM: &[&str] = &["--graph", "uniform", "--warm-up", "1", "--rounds", "1"];
const SWEEPS: &[&str] = &["--warm-up", "1", "--rounds", "2"];
const IN_ORDER: &[&str] = &["normal", "sequential"];
const ANYWHERE: &[&str] = &["random"];
const EITHER: &[&str] = &["normal", "random"];

const fn pattern(
    name: &'static str,
    kind: Kind,
    arguments: &'static [&'static str],
    hints: &'static [&'static str],
    is_streaming: bool,
) -> Pattern {
    Pattern { name, kind, arguments, hints, is_streaming }
}

/// The patterns that `bench compare --workload` can name.
pub(crate) const PATTERNS: [Pattern; 37] = [
    pattern(
        "stream",
        Kind::Stream,
        &["--loop", "triad", "--warm-up", "1", "--rounds", "2"],
        IN_ORDER,
        true,
    ),
    pattern("seq", Kind::Seq, SWEEPS, IN_ORDER, true),
    pattern("stride", Kind::Stride, ONE, ANYWHERE, false),
    pattern("random", Kind::Random, FILLED, ANYWHERE, false),
    pattern(
        "random-write",
        Kind::Random,
        &["--write", "--warm-up", "1", "--rounds", "1"],
        ANYWHERE,
        false,
    ),
    pattern("fft", Kind::Fft, ONE, EITHER, true),
    pattern("fft-3d", Kind::Fft3d, ONE, EITHER, true),
    pattern("gemm", Kind::Gemm, ONE, EITHER, true),
    pattern("gemm-tiled", Kind::GemmTiled, ONE, EITHER, true),
    // The number in the name of a polynomial is its arithmetic intensity, operations per byte. It
    // is a quarter of the degree.
    pattern(
        "polynomial-2",
        Kind::Polynomial,
        &["--degree", "8", "--write", "--warm-up", "1", "--rounds", "2"],
        IN_ORDER,
        true,
    ),
    pattern(
        "polynomial-16",
        Kind::Polynomial,
        &["--degree", "64", "--write", "--warm-up", "1", "--rounds", "2"],
        IN_ORDER,
        true,
    ),
    pattern(
        "polynomial-64",
        Kind::Polynomial,
        &["--degree", "256", "--write", "--warm-up", "1", "--rounds", "1"],
        IN_ORDER,
        true,
    ),
    pattern("lu", Kind::Lu, ONE, EITHER, true),
    pattern("lu-plain", Kind::LuPlain, ONE, EITHER, true),
    pattern("lu-tiled", Kind::LuTiled, &["--tile", "256", "--rounds", "1"], EITHER, true),
    pattern("cholesky", Kind::Cholesky, ONE, EITHER, true),
    pattern("qft", Kind::Qft, FILLED, EITHER, true),
    pattern("gas", Kind::Gas, FILLED, IN_ORDER, true),
    pattern(
        "polynomial-4",
        Kind::Polynomial,
        &["--degree", "16", "--write", "--warm-up", "1", "--rounds", "2"],
        IN_ORDER,
        true,
    ),
    pattern(
        "polynomial-256",
        Kind::Polynomial,
        &["--degree", "1024", "--write", "--warm-up", "1", "--rounds", "1"],
        IN_ORDER,
        true,
    ),
    pattern("bfs", Kind::Bfs, FILLED, EITHER, false),
    pattern("bfs-uniform", Kind::Bfs, UNIFORM, EITHER, false),
    pattern("sssp", Kind::Sssp, FILLED, EITHER, false),
    pattern("sssp-uniform", Kind::Sssp, UNIFORM, EITHER, false),
    pattern("pr", Kind::PageRank, FILLED, EITHER, true),
    pattern("pr-uniform", Kind::PageRank, UNIFORM, EITHER, true),
    pattern("cc", Kind::Components, FILLED, EITHER, false),
    pattern("cc-uniform", Kind::Components, UNIFORM, EITHER, false),
    pattern("bc", Kind::Centrality, FILLED, EITHER, false),
    pattern("bc-uniform", Kind::Centrality, UNIFORM, EITHER, false),
    pattern("tc", Kind::Triangles, FILLED, EITHER, false),
    pattern("tc-uniform", Kind::Triangles, UNIFORM, EITHER, false),
    pattern("lbm", Kind::Lattice, FILLED, IN_ORDER, true),
    pattern("block-tridiagonal", Kind::BlockTridiagonal, FILLED, IN_ORDER, true),
    pattern("compact", Kind::Compact, FILLED, IN_ORDER, true),
    pattern("spherical-cg", Kind::Spherical, FILLED, IN_ORDER, true),
    pattern("multigrid-cg", Kind::Multigrid, FILLED, IN_ORDER, true),
];
