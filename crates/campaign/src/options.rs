//! Defines the options of a measurement, independent of the command line.

use interleaf_measure::{interleave::Method, isa::Isa, region::Pages, traffic::Traffic};
use interleaf_model::{
    units::{Bandwidth, Bytes, Time},
    weights::Weights,
};
use std::{path::PathBuf, time::Duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measurement {
    /// All subjects whose results a platform file needs.
    All,
    Idle,
    /// Maximum bandwidth of each mix.
    Bandwidth,
    Loaded,
    /// The distribution of the latency of single accesses, idle and under load.
    Histogram,
    /// Idle latency and bandwidth from the CPUs of each node to the memory of each node.
    Matrix,
    /// Bandwidth of memory that is interleaved by weights.
    Interleave,
}

impl Measurement {
    /// True if the record of this subject has curves of latency against bandwidth for single nodes.
    pub fn has_curves(self) -> bool {
        matches!(self, Self::All | Self::Loaded)
    }

    /// Returns the name of the subject in the record.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Idle => "idle",
            Self::Bandwidth => "bandwidth",
            Self::Loaded => "loaded",
            Self::Histogram => "histogram",
            Self::Matrix => "matrix",
            Self::Interleave => "interleave",
        }
    }
}

/// The options of a measurement. `None` and empty lists stand for defaults that depend on the
/// subject of the measurement and on the machine.
#[derive(Clone, Debug)]
pub struct Options {
    pub measurement: Measurement,
    pub chase: ChaseOptions,
    pub traffic: TrafficOptions,
    pub load: LoadOptions,
    /// Options of [`Measurement::Interleave`].
    pub interleave: Option<InterleaveOptions>,
    /// The CPUs on which the measuring threads run, in the list format of numactl.
    pub cpus: Option<String>,
    /// The node on whose CPUs the measuring threads run.
    pub cpu_node: Option<u32>,
    /// The nodes whose memory is measured, in the list format of numactl.
    pub nodes: Option<String>,
    /// The instruction set of the traffic kernels, which load and store lines.
    pub isa: Option<Isa>,
    /// The page size of the measured memory.
    pub pages: Pages,
    /// Duration of the measurement of one point of the record, including all repetitions.
    pub duration: Option<Time>,
    /// The number of repetitions of the measurement of one point.
    pub repeat: Option<u32>,
    /// The seed of all random orders.
    pub seed: u64,
    /// True to measure all points in half a minute, with less accuracy.
    pub quick: bool,
    /// A recording of counters that is read in place of the machine's counters.
    pub replay: Option<PathBuf>,
    /// True for a dry run, which measures nothing.
    pub dry_run: bool,
    /// True to print errors only.
    pub quiet: bool,
    /// The file to which the record is written after each point. If it is stdout (`-`), only the
    /// final record is written.
    pub output: Option<PathBuf>,
}

#[derive(Clone, Debug, Default)]
pub struct ChaseOptions {
    /// The size of the memory that the pointer chase visits.
    pub bytes: Option<Bytes>,
    /// The distance in memory between neighbouring lines of the chase.
    pub stride: Option<Bytes>,
}

/// The options of the traffic with which threads load the memory.
#[derive(Clone, Debug, Default)]
pub struct TrafficOptions {
    pub threads: Option<u32>,
    pub mixes: Option<Vec<Traffic>>,
    /// True to access lines in random order.
    pub random: bool,
    /// The size of the memory of each thread: the sum of the buffers from which the thread loads
    /// and of the buffer to which it stores.
    pub buffer: Option<Bytes>,
}

/// The loads of a curve. If both lists are empty, loads that show the knee are chosen during the
/// measurement.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The pauses of the loading threads, one for each load.
    pub delays: Vec<Duration>,
    /// The bandwidths of the loads, one for each load: the sum of the bandwidths of the loading
    /// threads and of the chase.
    pub rates: Vec<Bandwidth>,
}

#[derive(Clone, Debug, Default)]
pub struct InterleaveOptions {
    pub weights: Option<Vec<Weights>>,
    /// The mechanism that places pages by weights.
    pub method: Option<Method>,
    /// True to measure the loaded latency, in addition to the bandwidth, with each choice of
    /// weights.
    pub loads: bool,
}
