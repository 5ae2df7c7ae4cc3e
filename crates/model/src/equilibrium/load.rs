//! A load: threads that request lines from tiers.

use crate::{mix::Mix, units::LINE_BYTES};

/// Threads that request lines from tiers.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The number of threads.
    pub threads: f64,
    /// Outstanding lines of each thread while it waits for memory.
    pub lines_per_thread: f64,
    /// Compute time of a thread for each line, ns.
    pub line_compute_ns: f64,
    /// The overlap of compute time and memory latency, 0 to 1: the fraction of the shorter of these
    /// two times that is hidden by the longer.
    pub overlap: f64,
    /// The mix of the traffic to each tier.
    pub mixes: Vec<Mix>,
    /// The fraction of traffic to each tier; sums to 1.
    pub shares: Vec<f64>,
    /// The fraction of threads in each domain; sums to 1. Threads of one load run in lock-step, as
    /// in a program with barriers: the traffic of a domain is proportional to its threads.
    pub domain_parts: Vec<f64>,
    /// The fraction of each tier's bandwidth that the access pattern of the load can reach (0 to
    /// 1).
    pub bandwidth_factors: Vec<f64>,
}

impl Load {
    /// The part of a thread's compute time that does not overlap with memory latency, ns, for its
    /// `lines_per_thread` outstanding lines together.
    pub(super) fn exposed_compute_ns(&self) -> f64 {
        (1.0 - self.overlap) * self.line_compute_ns * self.lines_per_thread
    }

    /// Bytes that circulate between threads and memory: bytes in flight, and bytes that threads
    /// compute on.
    pub fn circulating_bytes(&self) -> f64 {
        self.threads * self.lines_per_thread * LINE_BYTES
    }
}
