//! Options of a measurement, as plain values.

use interleaf_measure::{interleave::Way, isa::Isa, region::Pages, traffic::Traffic};
use interleaf_model::{
    units::{Bandwidth, Bytes, Time},
    weights::Weights,
};
use std::{path::PathBuf, time::Duration};

/// The subject of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A bit of everything, for a platform.
    All,
    /// Latency without load.
    Idle,
    /// Bandwidth of each mix.
    Bandwidth,
    /// Latency under load.
    Loaded,
    /// The distribution of the latency of single accesses.
    Histogram,
    /// Latency and bandwidth from each node to each node.
    Matrix,
    /// Bandwidth under weights.
    Interleave,
}

impl What {
    /// Its name in the record.
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

/// The options of a measurement. `None` and empty lists stand for a default that depends on the
/// subject and the machine.
#[derive(Clone, Debug)]
pub struct Options {
    /// The subject.
    pub what: What,
    /// The pointer chase.
    pub chase: ChaseOptions,
    /// The traffic.
    pub traffic: TrafficOptions,
    /// The loads of a curve.
    pub load: LoadOptions,
    /// The weights, of [`What::Interleave`].
    pub interleave: Option<InterleaveOptions>,
    /// The CPUs, as numactl takes them.
    pub cpus: Option<String>,
    /// The node whose CPUs are used.
    pub cpu_node: Option<u32>,
    /// The nodes whose memory is measured, as numactl takes them.
    pub nodes: Option<String>,
    /// The instructions by which memory is read and written.
    pub isa: Option<Isa>,
    /// The pages of the memory that is measured.
    pub pages: Pages,
    /// The time of a point, all its repeats together.
    pub duration: Option<Time>,
    /// The repeats of a point.
    pub repeat: Option<u32>,
    /// The seed of all random orders.
    pub seed: u64,
    /// Whether all is measured in half a minute, coarser.
    pub quick: bool,
    /// A recording of counters, in place of those of the machine.
    pub replay: Option<PathBuf>,
    /// Whether nothing is measured.
    pub dry_run: bool,
    /// Whether only errors are printed.
    pub quiet: bool,
    /// The file that the record is written to after each point; `-` gets none then.
    pub output: Option<PathBuf>,
}

/// The options of a pointer chase.
#[derive(Clone, Debug, Default)]
pub struct ChaseOptions {
    /// The memory that is chased through.
    pub bytes: Option<Bytes>,
    /// The distance of accesses, before their order is shuffled.
    pub stride: Option<Bytes>,
}

/// The options of traffic.
#[derive(Clone, Debug, Default)]
pub struct TrafficOptions {
    /// The threads.
    pub threads: Option<u32>,
    /// The mixes.
    pub mixes: Option<Vec<Traffic>>,
    /// Whether lines are in random order.
    pub random: bool,
    /// The memory of each thread, for each buffer of its mix.
    pub buffer: Option<Bytes>,
}

/// The loads of a curve: found as the curve bends, unless one of these is given.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Pauses of the loading threads.
    pub delays: Vec<Duration>,
    /// Traffic of the program.
    pub rates: Vec<Bandwidth>,
}

/// The options of interleaving by weights.
#[derive(Clone, Debug, Default)]
pub struct InterleaveOptions {
    /// The weights.
    pub weights: Option<Vec<Weights>>,
    /// The way in which pages are placed.
    pub way: Option<Way>,
    /// Whether the curve of latency under load is measured under each weights.
    pub loads: bool,
}
