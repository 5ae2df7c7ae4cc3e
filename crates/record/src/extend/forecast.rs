//! The forecast of `interleaf extend --plan`, as `interleaf.extend.forecast/1`. For each DRAM
//! budget, it has the bytes that would be transferred from and to the store, and the efficiency
//! with each drive. It is computed from measured runs, from traces, or from both.

use crate::{
    check::{Check, Checked},
    figure::Figure,
};
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.extend.forecast/1";

/// The forecast of a program's speed with extended memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForecastDocument {
    pub schema: String,
    /// Files of the runs and traces from which the forecast is computed.
    pub inputs: Vec<String>,
    pub footprint_bytes: u64,
    /// Runtime with all data in DRAM, s; null without a measured run.
    pub compute_s: Option<f64>,
    /// Overlap of compute time and transfer time, as a fraction of the shorter one, 0 to 1; null
    /// without a measured run, or if the drive of the run was not measured.
    pub overlap: Option<f64>,
    /// Software time of the pager for a megabyte (10^6 bytes) of traffic, us; null without a
    /// measured run, or if the drive of the run was not measured.
    pub overhead_us_per_mb: Option<f64>,
    pub curve: Vec<CurveRow>,
    pub rows: Vec<ForecastRow>,
    pub enough: Vec<EnoughRow>,
    /// Assumptions that the forecast makes.
    pub notes: Vec<String>,
    pub figures: Vec<Figure>,
}

impl Check for ForecastDocument {
    fn check(&self) -> Checked {
        let mut figures = self.figures.iter().enumerate();
        figures.try_for_each(|(at, figure)| figure.check(&format!("figures[{at}]")))
    }
}

/// The traffic between DRAM and the store with a budget of `dram_bytes`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurveRow {
    pub dram_bytes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Fraction of block accesses that miss in an LRU cache of `dram_bytes`, estimated by SHARDS;
    /// null without a trace.
    pub lru_miss_ratio: Option<f64>,
}

/// The forecast for one budget and one drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForecastRow {
    pub drive: String,
    pub dram_bytes: u64,
    /// Elapsed time of the program, s. Without a measured run, it is the time that the drive needs
    /// for the traffic of one pass.
    pub seconds: f64,
    /// Speed divided by the speed with all data in DRAM; null without a measured run.
    pub efficiency: Option<f64>,
}

/// The smallest budget with which the program reaches the efficiency `efficiency` on a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnoughRow {
    pub drive: String,
    pub efficiency: f64,
    pub dram_bytes: u64,
    /// `dram_bytes` divided by `footprint_bytes`.
    pub share: f64,
    /// True if more than `dram_bytes` may be needed: the runtime with all data in DRAM is an
    /// estimate, or the pager's software time is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_lower_bound: bool,
}
