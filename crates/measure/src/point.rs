//! What is measured at one setting.

use crate::{spread::Spread, traffic::Traffic};
use std::{fmt, time::Duration};

/// What a point is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Latency without load.
    Idle,
    /// Bandwidth of threads that do nothing else.
    Bandwidth,
    /// Latency while other threads load the memory.
    Loaded,
    /// How latencies of single accesses are distributed.
    Histogram,
    /// Bandwidth under weights.
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

/// Whether accesses go along the lines or jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One line after the other.
    Sequential,
    /// Any line, in an order without repetition.
    Random,
}

/// Where the threads are, and where the memory that they use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node of the CPUs.
    pub cpu_node: u32,
    /// The nodes of the memory, each with its pages of a round: one node with 1 where nothing is
    /// interleaved.
    pub memory: Vec<(u32, u32)>,
}

/// How fast bytes went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Bytes that the program loaded and stored, GB/s.
    pub program_gbps: Spread,
    /// The part of its bytes that a controller would see more, by the table of [`Traffic`]: 1.5 is
    /// half as much again.
    pub controller_factor: f64,
    /// What counters saw, GB/s; `None` without any.
    pub measured_gbps: Option<f64>,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// What it is of.
    pub kind: Kind,
    /// Where.
    pub place: Place,
    /// What the loading threads did; `None` where there were none.
    pub traffic: Option<(Traffic, Pattern)>,
    /// How many threads loaded the memory.
    pub threads: u32,
    /// How fast they were.
    pub rate: Option<Rate>,
    /// Latency of a dependent access, ns.
    pub latency_ns: Option<Spread>,
    /// How long it took.
    pub took: Duration,
}
