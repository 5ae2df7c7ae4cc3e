//! A workload that was run, as `interleaf.bench/1`.

use serde::{Deserialize, Serialize};

pub(crate) const SCHEMA: &str = "interleaf.bench/1";

/// What was run, and how fast it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BenchDocument {
    pub(crate) schema: String,
    pub(crate) workload: String,
    /// All arrays together.
    pub(crate) footprint_bytes: u64,
    pub(crate) threads: u32,
    /// Where the arrays lived: heap, mmap or file, with what the kernel was told.
    pub(crate) memory: String,
    /// All rounds that were measured, without filling the arrays.
    pub(crate) seconds: f64,
    pub(crate) rate: f64,
    pub(crate) rate_unit: String,
    /// As the program has it; of stream as STREAM counts.
    pub(crate) bytes_moved: u64,
    pub(crate) flops: u64,
    pub(crate) accesses: u64,
    /// Whether every word of the result was looked at, and right.
    pub(crate) verified: bool,
    /// The same wherever the same rounds gave the same bits.
    pub(crate) checksum: String,
    pub(crate) round_seconds: Vec<f64>,
    /// Processor time of all threads of the program while it was measured.
    pub(crate) cpu_s: f64,
    /// The most memory that the program ever had, its libraries included.
    pub(crate) resident_max_bytes: Option<u64>,
    /// Faults that had to wait for a drive, as the kernel counts them.
    pub(crate) major_faults: u64,
    /// What the drive did meanwhile, for whomever; absent where none was named.
    pub(crate) drive: Option<DriveDocument>,
    /// What else was measured, each once.
    pub(crate) loops: Vec<LoopDocument>,
}

/// What a drive did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DriveDocument {
    pub(crate) name: String,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

/// One of several loops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoopDocument {
    pub(crate) name: String,
    pub(crate) seconds: f64,
    pub(crate) rate: f64,
    pub(crate) rate_unit: String,
}

/// The workloads there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ListDocument {
    pub(crate) schema: String,
    pub(crate) workloads: Vec<EntryDocument>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EntryDocument {
    pub(crate) name: String,
    /// built-in, or recipe: an application that has to be installed.
    pub(crate) kind: String,
    pub(crate) does: String,
    pub(crate) rate_unit: String,
}
