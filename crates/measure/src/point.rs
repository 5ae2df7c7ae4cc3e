//! A point: the measurement at one setting.

use crate::{spread::Spread, traffic::Traffic};
use std::{fmt, time::Duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Latency without load.
    Idle,
    /// Bandwidth, without a measurement of latency.
    Bandwidth,
    /// Latency while other threads load the memory.
    Loaded,
    /// The distribution of the latencies of single accesses.
    Histogram,
    /// Bandwidth of memory that is interleaved by weights.
    Interleave,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Bandwidth => "bandwidth",
            Self::Loaded => "loaded",
            Self::Histogram => "histogram",
            Self::Interleave => "interleave",
        })
    }
}

/// The order of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Consecutive lines.
    Sequential,
    /// Any line, in an order without repetition.
    Random,
}

/// The binding of threads to the CPUs of a node, and of their memory to nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub cpu_node: u32,
    /// The nodes of the memory, each with its number of pages in a round of interleaving. If memory
    /// is not interleaved, there is one node with 1 page.
    pub memory: Vec<(u32, u32)>,
}

/// The bandwidth of a program, and the bandwidth that follows for the memory controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Bandwidth of the loads and stores of the program, GB/s.
    pub program_gbps: Spread,
    /// Bytes at the controller for each byte of the program, by the table of [`Traffic`].
    pub controller_factor: f64,
    /// Bandwidth that the memory controller counted, GB/s; `None` without counters.
    pub measured_gbps: Option<f64>,
}

/// The result of a measurement at one setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub kind: Kind,
    pub binding: Binding,
    /// The traffic of the loading threads; `None` without loading threads.
    pub traffic: Option<(Traffic, Pattern)>,
    /// The number of loading threads.
    pub threads: u32,
    /// The bandwidth of the loading threads.
    pub rate: Option<Rate>,
    /// Latency of a dependent access, ns; `None` if it was not measured.
    pub latency_ns: Option<Spread>,
    /// Duration of the measurement.
    pub took: Duration,
}
