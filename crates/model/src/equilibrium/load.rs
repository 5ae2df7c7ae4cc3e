//! A load: threads that ask tiers for lines.

use crate::{mix::Mix, units::LINE_BYTES};

/// Threads that ask tiers for lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The number of threads.
    pub threads: f64,
    /// Lines that each keeps outstanding while it waits.
    pub lines_per_thread: f64,
    /// Time a thread computes for each line, ns.
    pub line_compute_ns: f64,
    /// The fraction of the shorter of computing and waiting that is hidden behind the longer, 0 to
    /// 1.
    pub overlap: f64,
    /// The mix of its traffic to each tier.
    pub mixes: Vec<Mix>,
    /// The part of the traffic that goes to each tier; sums to 1.
    pub shares: Vec<f64>,
    /// The part of its threads in each domain; sums to 1. Threads of one load keep pace, as those
    /// of a program with barriers do: each domain has as much of the traffic as of the threads.
    pub domain_parts: Vec<f64>,
    /// The part of each tier's bandwidth that this pattern of accesses can reach (0 to 1).
    pub bandwidth_factors: Vec<f64>,
}

impl Load {
    /// Time that a thread computes on the lines it has outstanding while none are on their way, ns.
    pub(super) fn exposed_compute_ns(&self) -> f64 {
        (1.0 - self.overlap) * self.line_compute_ns * self.lines_per_thread
    }

    /// Bytes that circulate between threads and memory.
    pub fn circulating_bytes(&self) -> f64 {
        self.threads * self.lines_per_thread * LINE_BYTES
    }
}
