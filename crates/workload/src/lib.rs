//! What the studies of memory extended by storage ran, as loops whose results are known.
//!
//! Each pattern is a [`Kernel`]: arrays that together are the footprint, a round over them that is
//! timed, and a check that no word of them is wrong afterwards. The arrays come from the ordinary
//! allocator unless something else is asked for, so that what extends a program extends these too.

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

    /// Once over everything; what it did.
    fn round(&mut self) -> Work;

    /// What is measured beside the rounds, once behind them: a name, and how to do it.
    fn beside(&mut self) -> Vec<(&'static str, Work, f64)> {
        vec![]
    }

    /// Looks at every word that rounds have read or written.
    ///
    /// # Errors
    /// What is wrong, and where.
    fn verify(&mut self) -> Result<(), Wrong>;

    /// A number that is the same wherever the same rounds gave the same bits.
    fn checksum(&self) -> u64;
}

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes of the arrays that were read and written, as the program has it.
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
    /// Where.
    pub what: String,
    /// What is there.
    pub found: String,
    /// What should be.
    pub expected: String,
}

/// Why there is no such kernel.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The arrays would have no page each.
    #[error("a footprint of {bytes} bytes is too small for {what}: at least {least} bytes")]
    Small {
        /// The workload.
        what: &'static str,
        /// What was asked for.
        bytes: u64,
        /// What it needs.
        least: u64,
    },
    /// More threads than it can use.
    #[error("{what} runs in one thread: the library has no other")]
    OneThread {
        /// The workload.
        what: &'static str,
    },
    /// There is no memory for the arrays.
    #[error("no memory for an array of {bytes} bytes: {why}")]
    Memory {
        /// Its size.
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
