//! Options of a measurement, as plain values.

use interleaf_measure::{interleave::Method, isa::Isa, region::Pages, traffic::Traffic};
use interleaf_model::{
    units::{Bandwidth, Bytes, Time},
    weights::Weights,
};
use std::{path::PathBuf, time::Duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measurement {
    /// All subjects whose figures a platform file needs.
    All,
    Idle,
    /// Maximum bandwidth of each mix.
    Bandwidth,
    Loaded,
    /// The distribution of the latency of single accesses.
    Histogram,
    /// Latency and bandwidth from each node to each node.
    Matrix,
    /// Bandwidth with interleaving by weights.
    Interleave,
}

impl Measurement {
    /// True if the record has the curve of a node, of latency against bandwidth.
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
/// subject and the machine.
#[derive(Clone, Debug)]
pub struct Options {
    pub measurement: Measurement,
    pub chase: ChaseOptions,
    pub traffic: TrafficOptions,
    pub load: LoadOptions,
    /// Options of [`Measurement::Interleave`].
    pub interleave: Option<InterleaveOptions>,
    /// The CPUs that measure, in the list format of numactl.
    pub cpus: Option<String>,
    /// The node whose CPUs measure.
    pub cpu_node: Option<u32>,
    /// The nodes whose memory is measured, in the list format of numactl.
    pub nodes: Option<String>,
    /// The instruction set of the traffic kernels, which load and store lines.
    pub isa: Option<Isa>,
    /// The page size of the measured memory.
    pub pages: Pages,
    /// Duration of the measurement of one point of the record, with all repetitions.
    pub duration: Option<Time>,
    /// Repetitions of the measurement of one point.
    pub repeat: Option<u32>,
    /// The seed of all random orders.
    pub seed: u64,
    /// True to measure everything in half a minute, with less accuracy.
    pub quick: bool,
    /// A recording of counters that replaces the machine's counters.
    pub replay: Option<PathBuf>,
    /// True for a dry run, which measures nothing.
    pub dry_run: bool,
    /// True to print errors only.
    pub quiet: bool,
    /// The file of the record, written after each point. stdout (`-`) gets only the final record.
    pub output: Option<PathBuf>,
}

#[derive(Clone, Debug, Default)]
pub struct ChaseOptions {
    /// The size of the memory of the chase.
    pub bytes: Option<Bytes>,
    /// The distance in memory from one line of the chase to the next.
    pub stride: Option<Bytes>,
}

/// The options of the traffic with which threads load the memory.
#[derive(Clone, Debug, Default)]
pub struct TrafficOptions {
    pub threads: Option<u32>,
    pub mixes: Option<Vec<Traffic>>,
    /// True to access lines in random order.
    pub random: bool,
    /// The memory of each thread: the buffers that the thread loads from and the buffer that it
    /// stores to, together.
    pub buffer: Option<Bytes>,
}

/// The loads of a curve. Without a list, loads are chosen during the measurement to show the knee.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// One pause of the loading threads for each load.
    pub delays: Vec<Duration>,
    /// One bandwidth for each load: that of the loading threads and the chase together.
    pub rates: Vec<Bandwidth>,
}

#[derive(Clone, Debug, Default)]
pub struct InterleaveOptions {
    pub weights: Option<Vec<Weights>>,
    /// The mechanism that places pages by weights.
    pub method: Option<Method>,
    /// True to measure, with each of the weights, the loaded latency besides the bandwidth.
    pub loads: bool,
}
