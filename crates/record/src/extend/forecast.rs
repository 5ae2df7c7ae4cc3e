//! The forecast of `interleaf extend --plan`, as `interleaf.extend.forecast/1`: the traffic by
//! budget, and the efficiency with each drive, computed from runs or traces.

use crate::{
    check::{Check, Checked},
    figure::Figure,
};
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.extend.forecast/1";

/// The forecast of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForecastDocument {
    pub schema: String,
    /// The files that the forecast is made from.
    pub inputs: Vec<String>,
    pub footprint_bytes: u64,
    /// Seconds with all data in DRAM; null without a run.
    pub compute_s: Option<f64>,
    /// Part of the shorter of compute and transfer time that the two share; null without a run.
    pub overlap: Option<f64>,
    /// Software time for a megabyte (10^6) of traffic; null without a run.
    pub overhead_us_per_mb: Option<f64>,
    pub curve: Vec<CurveRow>,
    pub rows: Vec<ForecastRow>,
    pub enough: Vec<EnoughRow>,
    /// Assumptions that the forecast rests on.
    pub notes: Vec<String>,
    pub figures: Vec<Figure>,
}

impl Check for ForecastDocument {
    fn check(&self) -> Checked {
        let mut figures = self.figures.iter().enumerate();
        figures.try_for_each(|(at, figure)| figure.check(&format!("figures[{at}]")))
    }
}

/// The traffic at a budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurveRow {
    pub dram_bytes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// The fraction of block accesses that LRU would miss (SHARDS); null without a trace.
    pub lru_miss_ratio: Option<f64>,
}

/// The forecast for a budget and a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForecastRow {
    pub drive: String,
    pub dram_bytes: u64,
    /// Elapsed time; without a run, the time of the drive for a pass.
    pub seconds: f64,
    /// Speed divided by the speed in DRAM; null without a run.
    pub efficiency: Option<f64>,
}

/// Minimum budget for an efficiency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnoughRow {
    pub drive: String,
    pub efficiency: f64,
    pub dram_bytes: u64,
    /// `dram_bytes` divided by the footprint.
    pub share: f64,
    /// True if more may be needed: the time in DRAM is estimated, or the software time of the pager
    /// is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_lower_bound: bool,
}
