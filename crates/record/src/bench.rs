//! The result of a run of `interleaf bench`, as `interleaf.bench/1`, and the list of its workloads.
//!
//! A run executes a built-in workload, or the application of a recipe. `bench compare` runs `bench`
//! in a child process for each kind of memory, and reads the child's document. The rate of the
//! workload `stream` counts bytes as the STREAM benchmark does. Other workloads have other rates,
//! in `rate_unit`.

use super::{
    check::Check,
    extend::CountsDocument,
    figure::{Figure, Series, SeriesKind},
};
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.bench/1";

/// Result of a run of a workload or of a recipe. The document is one JSON object with at most 22
/// fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BenchDocument {
    pub schema: String,
    pub workload: String,
    /// Size of all arrays, bytes.
    pub footprint_bytes: u64,
    pub threads: u32,
    /// Kind of memory of the arrays: heap, mmap or file, with the madvise hint. `its own` for the
    /// application of a recipe, which allocates its memory itself.
    pub memory: String,
    /// Time of all measured rounds, s. It excludes the initialisation of the arrays.
    pub seconds: f64,
    pub rate: f64,
    pub rate_unit: String,
    /// Bytes that the workload loaded and stored; for the workload `stream`, counted as in STREAM.
    /// Left out for the application of a recipe, whose accesses are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_moved: Option<u64>,
    /// Number of floating-point operations; left out for a recipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops: Option<u64>,
    /// Arithmetic intensity: `flops` divided by `bytes_moved`; null without floating-point
    /// operations.
    #[serde(default)]
    pub flops_per_byte: Option<f64>,
    /// Number of accesses to memory; left out for a recipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accesses: Option<u64>,
    /// Number of traversed edges; 0 for workloads without a graph.
    #[serde(default)]
    pub edges: u64,
    /// True if every word of the result was checked and is right. For a recipe, true if the
    /// application verified its result.
    pub verified: bool,
    /// Checksum of the result. Runs with the same number of rounds and bit-identical results have
    /// equal checksums.
    pub checksum: String,
    pub round_seconds: Vec<f64>,
    /// CPU time of all threads in the measured rounds, s. For a recipe, the CPU time of its command
    /// and of the command's descendants.
    pub cpu_s: f64,
    /// Peak resident memory of the workload's process; for a recipe, of its largest process.
    pub resident_max_bytes: Option<u64>,
    /// Number of major faults of the workload's process, as the kernel counts them. For a recipe,
    /// those of all its processes.
    pub major_faults: u64,
    /// Traffic of the named drive in the measured rounds, by all programs; null when the run names
    /// no drive.
    pub drive: Option<DriveTraffic>,
    /// Counts of the pager in the measured rounds; null outside `interleaf extend`.
    #[serde(default)]
    pub extended: Option<ExtendedDocument>,
    /// Results in addition to `rate`: those of the loops copy, scale and add of `stream`, or other
    /// figures of a recipe. Empty when there are none.
    pub loops: Vec<LoopDocument>,
}

impl Check for BenchDocument {}

impl BenchDocument {
    /// Returns a figure of the time of each round; none for a single round.
    pub fn figures(&self) -> Vec<Figure> {
        let rounds = self.round_seconds.iter().enumerate();
        let points = rounds.map(|(at, seconds)| ((at + 1) as f64, *seconds));
        let series = Series::new("round", SeriesKind::Points, 0, points);
        if series.x.len() < 2 {
            return vec![];
        }
        vec![Figure {
            series: vec![series],
            caption: "The loop of the workload, once a round.".into(),
            ..Figure::new("rounds", "Time of the rounds", "round", "time, s")
        }]
    }
}

/// The DRAM budget and the pager's counts of a run under `interleaf extend`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExtendedDocument {
    /// DRAM budget of the session, bytes.
    pub dram_bytes: u64,
    #[serde(flatten)]
    pub counts: CountsDocument,
}

/// Traffic of a drive in the measured rounds. It includes the traffic of other programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveTraffic {
    pub name: String,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub writes: u64,
}

/// The result of one loop of a workload, or an additional figure of a recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopDocument {
    pub name: String,
    pub seconds: f64,
    pub rate: f64,
    pub rate_unit: String,
}

/// The list of workloads and recipes, as `interleaf bench list` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListDocument {
    pub schema: String,
    pub workloads: Vec<EntryDocument>,
}

/// The kind of a workload: built into `interleaf`, or an application that a recipe installs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// The workload is built into `interleaf`.
    BuiltIn,
    /// The workload is an application. A recipe says how it is installed and run.
    Recipe,
}

display_word!(EntryKind);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntryDocument {
    pub name: String,
    pub kind: EntryKind,
    pub does: String,
    pub rate_unit: String,
    /// The better direction of the rate: `higher` or `lower`.
    #[serde(default)]
    pub better: String,
}
