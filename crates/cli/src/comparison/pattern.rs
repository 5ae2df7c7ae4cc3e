//! The patterns that are compared: a workload, how it is told to run, and for how long.

use interleaf_workload::kind::Kind;

/// A pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Arguments of `interleaf bench run` beside the footprint.
    pub(crate) arguments: &'static [&'static str],
    /// The advice to the kernel that is tried for a mapped file: the best result counts.
    pub(crate) hints: &'static [&'static str],
    /// Whether large pieces of a drive serve it.
    pub(crate) is_streaming: bool,
}

impl Pattern {
    /// Whether the next access can be predicted.
    pub(crate) fn is_predictable(&self) -> bool {
        self.kind != Kind::Random
    }

    /// Whether bytes bound the drive that serves it, and not requests.
    pub(crate) fn moves_bytes(&self) -> bool {
        self.is_streaming || self.is_predictable()
    }
}

const ONE: &[&str] = &["--rounds", "1"];
/// The write-back of the filling ends before a round counts.
const FILLED: &[&str] = &["--warm-up", "1", "--rounds", "1"];
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

/// All there are.
pub(crate) const PATTERNS: [Pattern; 12] = [
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
    // Operations for each byte: 2, 16, 64.
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
];
