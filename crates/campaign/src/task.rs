//! Defines the tasks of a measurement. Each task measures one or several points of the record.

use crate::setup::Setup;
use interleaf_measure::traffic::Traffic;
use interleaf_model::{units::Bandwidth, weights::Weights};
use std::time::Duration;

/// A unit of work that measures one or several points of the record. `from` is an index into
/// `Setup::from` and selects the CPUs that measure; `memory` is the node whose memory is measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Task {
    /// Idle latency, measured by a pointer chase in local order (block after block) and in random
    /// order.
    Idle { from: usize, memory: u32 },
    /// Idle latency as a function of the size of the chased memory, which shows the caches.
    Sweep { from: usize, memory: u32 },
    /// Bandwidth of one mix of loads and stores.
    Bandwidth { from: usize, memory: u32, traffic: Traffic },
    /// Latency of the chase at several loads.
    Loaded { from: usize, memory: u32, traffic: Traffic, loads: Loads },
    /// The distribution of the latency of single accesses, idle and at several loads.
    Histogram { from: usize, memory: u32, traffic: Traffic, loads: Loads },
    /// Bandwidth of each mix on memory that is interleaved by `weights`, and loaded latency if
    /// `loads` is given.
    Weights { from: usize, weights: Weights, mixes: Vec<Traffic>, loads: Option<Loads> },
}

/// The loads of a curve.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Loads {
    /// Loads that show the curve and its knee, chosen during the measurement.
    Found,
    /// The pauses of the loading threads, one for each load.
    Delays(Vec<Duration>),
    /// The bandwidths of the loads, one for each load: the sum of the bandwidths of the loading
    /// threads and of the chase.
    Rates(Vec<Bandwidth>),
}

impl Task {
    /// Returns the number of steps of the task in the progress bar. The number is the task's
    /// approximate duration, in units of the time of one point.
    pub(crate) fn steps(&self) -> u64 {
        match self {
            Self::Idle { .. } => 2,
            Self::Bandwidth { .. } => 1,
            Self::Sweep { .. } => 8,
            Self::Loaded { loads, .. } => loads.steps(),
            Self::Histogram { .. } => 3,
            Self::Weights { mixes, loads, .. } => {
                mixes.len() as u64 + loads.as_ref().map_or(0, Loads::steps)
            }
        }
    }

    /// Describes the task in one line.
    pub(crate) fn describe(&self, setup: &Setup<'_>) -> String {
        let cpus = |from: &usize| {
            let from = &setup.from[*from];
            let list: interleaf_linux::machine::id_list::IdList =
                from.cpus.iter().copied().collect();
            format!("CPUs {list} of node {}", from.node)
        };
        match self {
            Self::Idle { from, memory } => {
                format!("idle latency, {}, memory of node {memory}", cpus(from))
            }
            Self::Sweep { from, memory } => {
                format!("latency by size, {}, memory of node {memory}", cpus(from))
            }
            Self::Bandwidth { from, memory, traffic } => {
                format!("bandwidth of {traffic}, {}, memory of node {memory}", cpus(from))
            }
            Self::Loaded { from, memory, traffic, .. } => {
                format!("latency under load of {traffic}, {}, memory of node {memory}", cpus(from))
            }
            Self::Histogram { from, memory, traffic, .. } => format!(
                "latency of single accesses, idle and under load of {traffic}, {}, memory of node \
                 {memory}",
                cpus(from)
            ),
            Self::Weights { from, weights, mixes, loads } => {
                let names: Vec<String> = mixes.iter().map(Traffic::to_string).collect();
                let loads = if loads.is_some() { ", and latency under load" } else { "" };
                format!("bandwidth of {} under {weights}, {}{loads}", names.join(", "), cpus(from))
            }
        }
    }
}

impl Loads {
    fn steps(&self) -> u64 {
        match self {
            Self::Found => 16,
            Self::Delays(delays) => delays.len() as u64,
            Self::Rates(rates) => rates.len() as u64 + 1,
        }
    }
}
