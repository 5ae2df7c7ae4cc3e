//! The workloads of published studies about storage that extends memory. Their loops have known
//! results.
//!
//! A workload is a [`Kernel`]: arrays that fill the footprint, a timed round that works on them,
//! and a check of the results. By default, the ordinary allocator allocates the arrays, so
//! `interleaf extend` extends them.

pub mod memory;

pub mod run;

mod team;

pub mod stream;

pub mod sweep;

pub mod random;

pub mod polynomial;

pub mod fft;

pub mod gemm;

pub mod lu;

pub mod cholesky;

pub mod qft;

pub mod gas;

pub mod graph;

pub mod grid;

pub mod kind;

pub mod trace;

use std::io;

/// A workload with its arrays, which are filled when it is created.
pub trait Kernel {
    /// Returns the bytes of all arrays.
    fn footprint(&self) -> u64;

    /// Restores the input if a round overwrites it. It is called before each round, and is not
    /// timed.
    fn prepare(&mut self) {}

    /// Runs one round, and returns its work. The caller times this call.
    fn round(&mut self) -> Work;

    /// Runs additional measurements after the rounds. Returns each as (name, work, duration in
    /// seconds).
    fn beside(&mut self) -> Vec<(&'static str, Work, f64)> {
        vec![]
    }

    /// Checks the results of all rounds, so that a page with wrong content is found.
    ///
    /// # Errors
    ///
    /// The first value that is wrong.
    fn verify(&mut self) -> Result<(), Wrong>;

    /// Returns a checksum of the results. Runs with the same rounds have the same checksum if their
    /// results are bit-identical.
    fn checksum(&self) -> u64;
}

/// The work of one round, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes read from the arrays and written to them, as the workload counts them.
    pub bytes: u64,
    /// The number of floating-point operations.
    pub flops: u64,
    /// The number of accesses to single words, which only `stride` and `random` count; 0 for
    /// others.
    pub accesses: u64,
    /// The number of traversed edges; 0 for a workload without a graph.
    pub edges: u64,
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.flops += other.flops;
        self.accesses += other.accesses;
        self.edges += other.edges;
    }
}

/// The error of a workload with a wrong result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{what}: {found} where {expected} is right")]
pub struct Wrong {
    /// The position of the wrong value, or the name of the wrong quantity.
    pub what: String,
    pub found: String,
    pub expected: String,
}

#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The requested footprint is too small for the workload.
    #[error("a footprint of {bytes} bytes is too small for {what}: at least {least} bytes")]
    Small {
        /// The name of the workload.
        what: &'static str,
        /// The requested footprint, bytes.
        bytes: u64,
        /// The smallest footprint that the workload accepts, bytes.
        least: u64,
    },
    /// Several threads were requested for a workload that has only one.
    #[error("{what} runs in one thread: the library has no other")]
    OneThread {
        /// The name of the workload.
        what: &'static str,
    },
    /// The threads could not be started.
    #[error("{threads} threads could not be started: {why}")]
    Threads {
        /// The requested number of threads.
        threads: usize,
        /// The operating system's error.
        why: String,
    },
    /// The arrays could not be allocated.
    #[error("no memory for an array of {bytes} bytes: {why}")]
    Memory {
        bytes: usize,
        /// The operating system's error.
        why: io::Error,
    },
}

/// Fails if `bytes`, the requested footprint, is less than `least` bytes. `what` is the name of the
/// workload.
fn at_least(what: &'static str, bytes: u64, least: u64) -> Result<(), SetupError> {
    if bytes < least { Err(SetupError::Small { what, bytes, least }) } else { Ok(()) }
}

/// Returns the bytes of the array of a workload: `bytes`, the footprint, rounded down to whole
/// units of `unit` bytes. Fails if a thread would have no unit.
fn array_bytes(
    what: &'static str,
    bytes: u64,
    threads: usize,
    unit: usize,
) -> Result<usize, SetupError> {
    at_least(what, bytes, (unit * threads) as u64)?;
    Ok(bytes as usize / unit * unit)
}

/// Returns the pseudo-random 64-bit word with the index `at`. Words with different indices differ.
/// Workloads fill their arrays with these words.
fn word(at: usize) -> u64 {
    (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns the checksum `sum` with `value` added to it. It depends on the order of the values.
fn mixed(sum: u64, value: u64) -> u64 {
    (sum.rotate_left(7) ^ value).wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// Bytes of a page.
pub const PAGE: usize = 4096;
