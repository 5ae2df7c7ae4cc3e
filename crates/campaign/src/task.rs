//! A unit of work of a measurement.

use crate::setup::Setup;
use interleaf_measure::traffic::Traffic;
use interleaf_model::{units::Bandwidth, weights::Weights};
use std::time::Duration;

/// Something that is measured as one, and gives one point or several.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Task {
    /// Latency without load, in both orders.
    Idle { from: usize, memory: u32 },
    /// Latency by size.
    Sweep { from: usize, memory: u32 },
    /// Bandwidth of one mix.
    Bandwidth { from: usize, memory: u32, traffic: Traffic },
    /// Latency at several loads.
    Loaded { from: usize, memory: u32, traffic: Traffic, loads: Loads },
    /// The distribution of latencies, at one load.
    Histogram { from: usize, memory: u32, traffic: Traffic, loads: Loads },
    /// Bandwidth of each mix under one choice of weights, and latency under load.
    Weights { from: usize, weights: Weights, mixes: Vec<Traffic>, loads: Option<Loads> },
}

/// The loads of a curve.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Loads {
    /// Those at which the curve bends.
    Found,
    /// By how long threads pause.
    Delays(Vec<Duration>),
    /// By how much there is.
    Rates(Vec<Bandwidth>),
}

impl Task {
    /// The steps of a progress bar: about the time of the task, in points.
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

    /// A line that describes the task.
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
