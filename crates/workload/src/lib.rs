//! The workloads of published studies of memory extended by storage, as loops with known results.
//!
//! A workload is a [`Kernel`]: arrays whose total size is the footprint, a timed round over them,
//! and a check of the results afterwards. By default the arrays are allocated with the ordinary
//! allocator, so `interleaf extend` extends their memory.

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

/// A workload with its arrays. The arrays are filled when the workload is created.
pub trait Kernel {
    /// Bytes of all arrays together.
    fn footprint(&self) -> u64;

    /// Restores the input if a round overwrites it. This function is called before each round, and
    /// is not timed.
    fn prepare(&mut self) {}

    /// Runs one round of the workload, and returns the work of the round. The caller times this
    /// call.
    fn round(&mut self) -> Work;

    /// Runs additional measurements after the rounds. Returns the name, the work and the duration
    /// in seconds of each measurement.
    fn beside(&mut self) -> Vec<(&'static str, Work, f64)> {
        vec![]
    }

    /// Checks the results of the rounds, in order to find a page with wrong content.
    ///
    /// # Errors
    ///
    /// The first wrong value.
    fn verify(&mut self) -> Result<(), Wrong>;

    /// A checksum of the results. Two runs of the same rounds have the same checksum if their
    /// results are bit-identical.
    fn checksum(&self) -> u64;
}

/// The work of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes that a round reads from the arrays and writes to them, as the workload counts them.
    pub bytes: u64,
    /// The number of floating-point operations.
    pub flops: u64,
    /// The number of accesses to single words, counted by `stride` and `random`; 0 for other
    /// workloads.
    pub accesses: u64,
    /// The number of traversed edges; 0 for workloads without a graph.
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

/// The error of a wrong result.
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
    /// The requested footprint is smaller than the workload needs.
    #[error("a footprint of {bytes} bytes is too small for {what}: at least {least} bytes")]
    Small {
        /// The name of the workload.
        what: &'static str,
        /// The requested footprint, bytes.
        bytes: u64,
        /// The smallest footprint of the workload, bytes.
        least: u64,
    },
    /// Several threads were requested for a workload that runs in one thread.
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
        /// The error of the operating system.
        why: String,
    },
    /// The arrays could not be allocated.
    #[error("no memory for an array of {bytes} bytes: {why}")]
    Memory {
        bytes: usize,
        /// The error of the operating system.
        why: io::Error,
    },
}

/// Fails if the footprint of `bytes` bytes is less than `least` bytes. `what` is the name of the
/// workload.
fn at_least(what: &'static str, bytes: u64, least: u64) -> Result<(), SetupError> {
    if bytes < least { Err(SetupError::Small { what, bytes, least }) } else { Ok(()) }
}

/// Bytes of the array of a workload: the footprint of `bytes` bytes, rounded down to whole units of
/// `unit` bytes. Fails if a thread would have no unit.
fn array_bytes(
    what: &'static str,
    bytes: u64,
    threads: usize,
    unit: usize,
) -> Result<usize, SetupError> {
    at_least(what, bytes, (unit * threads) as u64)?;
    Ok(bytes as usize / unit * unit)
}

/// The pseudo-random 64-bit word with the index `at`; each index has a different word. Workloads
/// fill their arrays with these words.
fn word(at: usize) -> u64 {
    (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Adds a value to a checksum. The checksum depends on the order of the values.
fn mixed(sum: u64, value: u64) -> u64 {
    (sum.rotate_left(7) ^ value).wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
