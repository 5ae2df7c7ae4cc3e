//! Policies: pure functions from observations to target shares.
//!
//! A policy is a pure function of what it has observed so far. A policy serves one domain, and its
//! tiers are those near that domain, the fastest first. The same code decides on a simulated
//! machine and on a real one; the loop around it is [`crate::control`].
//!
//! Shares are in *points* of a hundred where a policy takes steps, as the kernel's weights `65:35`
//! are.

mod colloid;
mod dmi;
mod fixed;
mod guided;
mod hotcold;
mod kind;

pub use colloid::{ClosedForm, Watermark};
pub use dmi::{Calibrator, DeadBand, DmiSettings};
pub use fixed::{Fixed, kernel_weights};
pub use guided::{Guided, Promise};
pub use hotcold::HotCold;
pub use kind::{Place, PolicyKind};

use crate::machine::{Order, TierLayout};

/// Decides, at the end of each period, where pages should go.
pub trait Policy {
    /// The shares with which pages are placed before anything was observed: those a program finds
    /// when it starts. One for each tier, summing to 1.
    fn start(&self) -> Vec<f64>;

    /// Receives each sample.
    fn watch(&mut self, _reading: &Reading) {}

    /// Whether `quiet` samples since the last migration are enough to decide before the period
    /// ends.
    fn enough(&self, _quiet: usize) -> bool {
        false
    }

    /// Decides at the end of a period.
    fn decide(&mut self, seen: &Observation) -> Verdict;
}

/// A sample as a policy sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// By tier.
    pub tiers: Vec<TierReading>,
    /// Whether pages migrated during the sample.
    pub migrating: bool,
}

/// A tier in a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TierReading {
    /// Reads and writes, GB/s.
    pub bandwidth_gbps: f64,
    /// Requests in a nanosecond.
    pub inserts_per_ns: Option<f64>,
    /// Requests that waited at a time, on average.
    pub occupancy: Option<f64>,
}

/// The observation of a period, from its quiet samples: those without migration. If the load comes
/// and goes within the period, from the samples with load.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Time since the start, s.
    pub time_s: f64,
    /// The samples that this rests on; above 0.
    pub quiet: usize,
    /// The 90th percentile of the samples' total bandwidth, GB/s.
    pub bandwidth_gbps: f64,
    /// Their mean, GB/s.
    pub mean_gbps: f64,
    /// The standard error of that mean, GB/s.
    pub error_gbps: f64,
    /// By tier.
    pub tiers: Vec<TierObservation>,
    /// The shares that are aimed at.
    pub target: Vec<f64>,
    /// Bytes of the scopes that are steered, where that is known.
    pub steered_bytes: Option<u64>,
}

/// A tier in a period: means over the quiet samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TierObservation {
    /// Reads and writes, GB/s.
    pub bandwidth_gbps: f64,
    /// The part of the bytes that are reads, 0 to 1; `None` where nothing was counted.
    pub read_share: Option<f64>,
    /// The latency of a line, ns; `None` where it is not counted or nothing came from there.
    pub latency_ns: Option<f64>,
    /// Bytes free at the end of the period.
    pub free_bytes: Option<u64>,
}

/// The verdict of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The part of the pages for each tier, summing to 1.
    pub shares: Vec<f64>,
    /// The assignment of pages to tiers.
    pub order: Order,
    /// The action in one word: `step`, `hold`, `settle`, ...
    pub action: &'static str,
    /// The reason, in one sentence.
    pub reason: String,
}

impl Verdict {
    /// Pages interleaved in these shares.
    pub fn interleave(shares: Vec<f64>, action: &'static str, reason: impl Into<String>) -> Self {
        Self { shares, order: Order::Interleave, action, reason: reason.into() }
    }
}

/// `first` points of a hundred on the first of `tiers`, and the rest on the others in the ratio of
/// what they are rated to carry.
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
