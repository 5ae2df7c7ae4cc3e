//! What is measured, in which order.

use super::{
    setup::{Given, Setup},
    weights,
};
use crate::failure::Failure;
use interleaf_measure::traffic::Traffic;
use interleaf_model::{units::Bandwidth, weights::Weights};
use std::time::Duration;

/// Mixes of the published matrix of weights (the white paper's section IV.A).
const OF_WEIGHTS: [&str; 4] = ["R", "W2", "W5", "W10"];

/// Weights to try unasked, from the most on the first tier to the least.
const WEIGHTS: [&str; 8] = ["1:0", "9:1", "4:1", "3:1", "5:2", "2:1", "1:1", "0:1"];

/// Something that is measured as one, and gives one point or several.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Task {
    /// Latency without load, in both orders.
    Idle { from: usize, memory: u32 },
    /// Latency by size.
    Sweep { from: usize, memory: u32 },
    /// Bandwidth of one mix.
    Bandwidth { from: usize, memory: u32, traffic: Traffic },
    /// Latency at several loads.
    Loaded { from: usize, memory: u32, traffic: Traffic, loads: Loads },
    /// How latencies are spread, at one load.
    Histogram { from: usize, memory: u32, traffic: Traffic, loads: Loads },
    /// Bandwidth of each mix under one choice of weights, and latency under load.
    Weights { from: usize, weights: Weights, mixes: Vec<Traffic>, loads: Option<Loads> },
}

/// Which loads.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Loads {
    /// Those at which the curve bends.
    Found,
    /// By how long threads pause.
    Delays(Vec<Duration>),
    /// By how much there is.
    Rates(Vec<Bandwidth>),
}

/// What is to be measured.
pub(super) fn of(setup: &Setup<'_>, given: &Given<'_>) -> Result<Vec<Task>, Failure> {
    let mixes = |usual: &[&str]| {
        let named = given.traffic.mix.clone().or(given.traffic.read_share.clone());
        named.map_or_else(|| named_traffic(usual), |mixes| mixes.0)
    };
    let near = |from: usize| setup.nearest(&setup.from[from]);
    let loads = loads(given);
    let mut tasks = vec![];
    match setup.what {
        "idle" => {
            for memory in setup.memory.clone() {
                tasks.push(Task::Idle { from: 0, memory });
                tasks.push(Task::Sweep { from: 0, memory });
            }
        }
        "bandwidth" => {
            for memory in setup.memory.clone() {
                let of = |traffic| Task::Bandwidth { from: 0, memory, traffic };
                tasks.extend(mixes(&[]).into_iter().map(of));
            }
        }
        "loaded" => {
            for memory in setup.memory.clone() {
                let loads = loads.clone();
                let of = |traffic| Task::Loaded { from: 0, memory, traffic, loads: loads.clone() };
                tasks.extend(mixes(&["R"]).into_iter().map(of));
            }
        }
        "histogram" => {
            for memory in setup.memory.clone() {
                let traffic = mixes(&["R"])[0];
                let loads = loads.clone();
                tasks.push(Task::Histogram { from: 0, memory, traffic, loads });
            }
        }
        "matrix" => tasks.extend(matrix(setup, &mixes(&["R"]))),
        "interleave" => {
            let loads = given.interleave.is_some_and(|args| args.loads).then_some(loads);
            let mixes = mixes(&OF_WEIGHTS);
            for weights in weights::choices(setup, given, &WEIGHTS)? {
                let (mixes, loads) = (mixes.clone(), loads.clone());
                tasks.push(Task::Weights { from: 0, weights, mixes, loads });
            }
        }
        _ => {
            let memory = near(0);
            tasks.extend(matrix(setup, &[Traffic::READ]));
            tasks.push(Task::Sweep { from: 0, memory });
            let of = |traffic| Task::Bandwidth { from: 0, memory, traffic };
            let is_new = |traffic: &Traffic| *traffic != Traffic::READ;
            tasks.extend(mixes(&[]).into_iter().filter(is_new).map(of));
            for memory in setup.memory.clone() {
                let (traffic, loads) = (Traffic::READ, loads.clone());
                tasks.push(Task::Loaded { from: 0, memory, traffic, loads });
            }
            let traffic = Traffic::READ;
            tasks.push(Task::Histogram { from: 0, memory, traffic, loads });
        }
    }
    Ok(tasks)
}

/// From the CPUs of each node to the memory of each.
fn matrix(setup: &Setup<'_>, mixes: &[Traffic]) -> Vec<Task> {
    let mut tasks = vec![];
    for from in 0..setup.from.len() {
        for memory in setup.memory.clone() {
            tasks.push(Task::Idle { from, memory });
            let of = |traffic: &Traffic| Task::Bandwidth { from, memory, traffic: *traffic };
            tasks.extend(mixes.iter().map(of));
        }
    }
    tasks
}

fn loads(given: &Given<'_>) -> Loads {
    let load = &given.load;
    match (load.delays.is_empty(), load.rate.is_empty()) {
        (false, _) => {
            let delay =
                |time: &interleaf_model::units::Time| Duration::from_secs_f64(time.seconds());
            Loads::Delays(load.delays.iter().map(delay).collect())
        }
        (true, false) => Loads::Rates(load.rate.clone()),
        (true, true) => Loads::Found,
    }
}

/// The mixes of these names; all of none.
fn named_traffic(names: &[&str]) -> Vec<Traffic> {
    let is_named = |it: &Traffic| names.is_empty() || names.contains(&it.to_string().as_str());
    Traffic::all().into_iter().filter(is_named).collect()
}

impl Task {
    /// How much of a progress bar it is: about the time that it takes, in points.
    pub(super) fn steps(&self) -> u64 {
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

    /// What it is, for people.
    pub(super) fn told(&self, setup: &Setup<'_>) -> String {
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
