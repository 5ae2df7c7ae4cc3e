//! A load: the threads of one program and their requests to the tiers.

use crate::{mix::Mix, units::LINE_BYTES};

/// Threads that behave alike, and the division of their traffic among tiers and domains.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The number of threads; need not be a whole number.
    pub threads: f64,
    /// The number of lines that each thread has outstanding while it waits for memory.
    pub lines_per_thread: f64,
    /// Compute time, ns, that a thread spends on each line.
    pub line_compute_ns: f64,
    /// The overlap of compute time and memory latency, 0 to 1: the fraction of the shorter of these
    /// two times that is hidden by the longer.
    pub overlap: f64,
    /// For each tier, the mix of the load's traffic to it.
    pub mixes: Vec<Mix>,
    /// For each tier, the fraction of the load's traffic to it; the fractions sum to 1.
    pub shares: Vec<f64>,
    /// For each domain, the fraction of the load's threads in it; the fractions sum to 1. Threads
    /// of one load run in lock-step, as in a program with barriers: the traffic of a domain is
    /// proportional to its threads.
    pub domain_parts: Vec<f64>,
    /// For each tier, the fraction (0 to 1) of its bandwidth that the access pattern of the load
    /// can reach.
    pub bandwidth_factors: Vec<f64>,
}

impl Load {
    /// Compute time, ns, that a thread spends on all of its `lines_per_thread` outstanding lines
    /// and that memory latency does not hide.
    pub(super) fn exposed_compute_ns(&self) -> f64 {
        (1.0 - self.overlap) * self.line_compute_ns * self.lines_per_thread
    }

    /// Bytes that circulate between threads and memory: the bytes in flight, and the bytes on which
    /// threads compute.
    pub fn circulating_bytes(&self) -> f64 {
        self.threads * self.lines_per_thread * LINE_BYTES
    }
}
