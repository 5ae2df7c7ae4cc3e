//! A workload that was run, as `interleaf.bench/1`.

use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.bench/1";

/// What was run, and how fast it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BenchDocument {
    pub schema: String,
    pub workload: String,
    /// All arrays together.
    pub footprint_bytes: u64,
    pub threads: u32,
    /// Where the arrays lived: heap, mmap or file, with what the kernel was told.
    pub memory: String,
    /// All rounds that were measured, without filling the arrays.
    pub seconds: f64,
    pub rate: f64,
    pub rate_unit: String,
    /// As the program has it; of stream as STREAM counts.
    pub bytes_moved: u64,
    pub flops: u64,
    pub accesses: u64,
    /// Whether every word of the result was looked at, and right.
    pub verified: bool,
    /// The same wherever the same rounds gave the same bits.
    pub checksum: String,
    pub round_seconds: Vec<f64>,
    /// Processor time of all threads of the program while it was measured.
    pub cpu_s: f64,
    /// The most memory that the program ever had, its libraries included.
    pub resident_max_bytes: Option<u64>,
    /// Faults that had to wait for a drive, as the kernel counts them.
    pub major_faults: u64,
    /// What the drive did meanwhile, for whomever; absent where none was named.
    pub drive: Option<DriveTraffic>,
    /// What else was measured, each once.
    pub loops: Vec<LoopDocument>,
}

/// What a drive did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveTraffic {
    pub name: String,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub writes: u64,
}

/// One of several loops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopDocument {
    pub name: String,
    pub seconds: f64,
    pub rate: f64,
    pub rate_unit: String,
}

/// The workloads there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListDocument {
    pub schema: String,
    pub workloads: Vec<EntryDocument>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntryDocument {
    pub name: String,
    /// built-in, or recipe: an application that has to be installed.
    pub kind: String,
    pub does: String,
    pub rate_unit: String,
}
