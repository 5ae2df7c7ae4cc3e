//! Policies: pure functions from observations to target shares.
//!
//! A policy decides from its earlier observations alone. Each policy serves one domain, and its
//! tiers are the tiers *near* this domain, the fastest first. A tier is near if the domain reaches
//! it without a link between sockets, such as the domain's DRAM and its expanders. The same
//! policies decide on a simulated machine and on a real machine; [`crate::control`] is the loop
//! that calls them.
//!
//! Policies that change shares in steps measure a step in *points*. A point is a hundredth of the
//! pages: the weights `65:35` of the kernel are 65 and 35 points.

mod colloid;
mod dmi;
mod fixed;
mod guided;
mod hotcold;
mod kind;

pub use colloid::{ClosedForm, Watermark};
pub use dmi::{Calibrator, DeadBand, DmiSettings};
pub use fixed::{Fixed, kernel_weights};
pub use guided::{GainForecast, Guided};
pub use hotcold::HotCold;
pub use kind::{PolicyContext, PolicyKind};

use crate::machine::{Order, TierLayout};

/// Decides, at the end of each period, the share of pages on each tier.
pub trait Policy {
    /// The shares before the first observation: the placement of a program's pages when it starts.
    /// Each tier has one share; the shares sum to 1.
    fn start(&self) -> Vec<f64>;

    /// Receives each sample of a period, also those during migration. By default the policy ignores
    /// them.
    fn watch(&mut self, _reading: &Reading) {}

    /// True if the policy can decide before the period ends. `quiet` is the number of samples with
    /// counted bytes since the last migration.
    fn enough(&self, _quiet: usize) -> bool {
        false
    }

    /// Decides the shares for the next period from `seen`, the observation of the period that ends.
    fn decide(&mut self, seen: &Observation) -> Verdict;
}

/// One sample of the counters, as a policy gets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// One reading for each tier, in the order of the tiers.
    pub tiers: Vec<TierReading>,
    /// True if pages migrated during the sample.
    pub migrating: bool,
}

/// The counters of one tier in a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TierReading {
    /// Bandwidth of reads and writes, GB/s.
    pub bandwidth_gbps: f64,
    /// Requests that arrive per nanosecond; `None` if not counted.
    pub inserts_per_ns: Option<f64>,
    /// Mean number of outstanding requests; `None` if not counted.
    pub occupancy: Option<f64>,
}

/// The observation of a period. It is computed from the quiet samples (samples without migration)
/// since the last migration. If they are still too few after the maximum wait, it is computed from
/// all quiet samples of the period, or from all samples if none is quiet. If the load varies within
/// the period, only samples under load are used.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// End of the period, s after the start of the control loop.
    pub time_s: f64,
    /// The number of samples from which this observation is computed; above 0.
    pub quiet: usize,
    /// The percentile of the samples' total bandwidth that represents the period, GB/s: by default
    /// the 90th.
    pub bandwidth_gbps: f64,
    /// The mean of the samples' total bandwidth, GB/s.
    pub mean_gbps: f64,
    /// The standard error of `mean_gbps`, GB/s.
    pub error_gbps: f64,
    /// One observation for each tier, in the order of the tiers.
    pub tiers: Vec<TierObservation>,
    /// The target shares that were in force during the period.
    pub target: Vec<f64>,
    /// Bytes of the pages that the policy may move (the pages of the steered scopes); `None` if
    /// unknown.
    pub steered_bytes: Option<u64>,
}

/// The observation of one tier in a period: means over the samples of the [`Observation`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TierObservation {
    /// Bandwidth of reads and writes, GB/s.
    pub bandwidth_gbps: f64,
    /// Read share, 0 to 1; `None` if no traffic was counted.
    pub read_share: Option<f64>,
    /// Mean latency of a line, ns; `None` if the tier has no latency counter or no traffic.
    pub latency_ns: Option<f64>,
    /// Free memory of the tier in the last sample of the observation, bytes; `None` if not counted.
    pub free_bytes: Option<u64>,
}

/// A policy's decision, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The share of pages on each tier, summing to 1.
    pub shares: Vec<f64>,
    /// The rule that says which pages go to which tier: interleaved, or the hottest pages first.
    pub order: Order,
    /// The name of the action: `step`, `hold`, `settle`, ...
    pub action: &'static str,
    /// The reason for the decision, in one sentence.
    pub reason: String,
}

impl Verdict {
    /// Creates a verdict that interleaves pages in the ratio of `shares`.
    pub fn interleave(shares: Vec<f64>, action: &'static str, reason: impl Into<String>) -> Self {
        Self { shares, order: Order::Interleave, action, reason: reason.into() }
    }
}

/// Returns one share for each of `tiers`. The first tier gets `first` percent; the other tiers
/// divide the rest in proportion to their rated bandwidths.
pub fn shares_with_first(first: f64, tiers: &[TierLayout]) -> Vec<f64> {
    let [_, others @ ..] = tiers else { return vec![] };
    if others.is_empty() {
        return vec![1.0];
    }
    let rest = 1.0 - first / 100.0;
    let all: f64 = others.iter().map(|tier| tier.rated_gbps).sum();
    let others = others.iter().map(|tier| rest * tier.rated_gbps / all);
    std::iter::once(1.0 - rest).chain(others).collect()
}
