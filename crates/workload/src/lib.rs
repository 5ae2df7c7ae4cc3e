//! The workloads of published studies of memory extended by storage, as loops with known results.
//!
//! Each is a [`Kernel`]: arrays that together are the footprint, a round over them that is timed,
//! and a check afterwards that no word of them is wrong. The arrays come from the ordinary
//! allocator by default, so that `interleaf extend` covers them.

pub mod memory;

pub mod run;

mod team;

pub mod stream;

pub mod sweep;

pub mod random;

pub mod polynomial;

pub mod fft;

pub mod gemm;

pub mod kind;

pub mod belady;

pub mod trace;

use std::io;

/// A pattern over its arrays, which are filled when there is one.
pub trait Kernel {
    /// Bytes of all arrays together.
    fn footprint(&self) -> u64;

    /// One pass over the arrays.
    fn round(&mut self) -> Work;

    /// Additional measurements after the rounds: name, work, and seconds of each.
    fn beside(&mut self) -> Vec<(&'static str, Work, f64)> {
        vec![]
    }

    /// Checks every word that the rounds have read or written.
    ///
    /// # Errors
    ///
    /// The first wrong word.
    fn verify(&mut self) -> Result<(), Wrong>;

    /// Equal for equal rounds with bit-identical results.
    fn checksum(&self) -> u64;
}

/// The work of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes of the arrays that the program read and wrote.
    pub bytes: u64,
    /// Operations with floating point.
    pub flops: u64,
    /// Accesses, where they are single ones.
    pub accesses: u64,
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.flops += other.flops;
        self.accesses += other.accesses;
    }
}

/// A result that is not what it has to be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{what}: {found} where {expected} is right")]
pub struct Wrong {
    /// The position.
    pub what: String,
    /// The value found.
    pub found: String,
    /// The value expected.
    pub expected: String,
}

#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The arrays would have no page each.
    #[error("a footprint of {bytes} bytes is too small for {what}: at least {least} bytes")]
    Small {
        /// The workload.
        what: &'static str,
        /// Requested, bytes.
        bytes: u64,
        /// Needed at least, bytes.
        least: u64,
    },
    /// More threads than it can use.
    #[error("{what} runs in one thread: the library has no other")]
    OneThread {
        /// The workload.
        what: &'static str,
    },
    /// The arrays could not be allocated.
    #[error("no memory for an array of {bytes} bytes: {why}")]
    Memory {
        bytes: usize,
        /// The system's reason.
        why: io::Error,
    },
}

/// Fails unless a footprint is large enough.
fn at_least(what: &'static str, bytes: u64, least: u64) -> Result<(), SetupError> {
    if bytes < least { Err(SetupError::Small { what, bytes, least }) } else { Ok(()) }
}

/// The word at a place, which no other place has.
fn word(at: usize) -> u64 {
    (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Adds a value to a checksum in which order counts.
fn mixed(sum: u64, value: u64) -> u64 {
    (sum.rotate_left(7) ^ value).wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
