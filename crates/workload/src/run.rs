//! Runs and times rounds of a workload.

use crate::{Kernel, Work, kind::Unit};
use std::time::{Duration, Instant};

/// The length of the measurement of a workload, in rounds and time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Length {
    /// Number of rounds before the measurement. They are not timed.
    pub warm_up: u32,
    /// Minimum number of measured rounds.
    pub rounds: u32,
    /// Minimum time of the measurement. Rounds are measured until this time has passed since the
    /// start of the first measured round.
    pub at_least: Duration,
}

/// The result of the measured rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The duration of each measured round, s.
    pub seconds: Vec<f64>,
    /// The sum of the work of all measured rounds.
    pub work: Work,
}

impl Measured {
    /// Returns the sum of the durations of all measured rounds, s.
    pub fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }

    /// Returns the work of all measured rounds divided by their duration, in `unit`.
    pub fn rate(&self, unit: Unit) -> f64 {
        rate(&self.work, self.total(), unit)
    }
}

/// Returns `work` divided by `seconds`, in `unit`.
pub fn rate(work: &Work, seconds: f64, unit: Unit) -> f64 {
    let (amount, of) = match unit {
        Unit::Gbps => (work.bytes, 1e9),
        Unit::Gflops => (work.flops, 1e9),
        Unit::Kaccesses => (work.accesses, 1e3),
        Unit::Medges => (work.edges, 1e6),
    };
    if seconds > 0.0 { amount as f64 / of / seconds } else { 0.0 }
}

/// The start or the end of a measured round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Start,
    End,
}

/// Runs rounds, and times each round after the warm-up. Calls `at_edge` at the start and at the end
/// of each timed round, outside of the measured time. If `at_edge` reads counters, the difference
/// of a round's two readings excludes [`Kernel::prepare`].
pub fn measured(
    kernel: &mut dyn Kernel,
    length: &Length,
    mut at_edge: impl FnMut(Edge),
) -> Measured {
    for _ in 0..length.warm_up {
        kernel.prepare();
        kernel.round();
    }
    let mut measured = Measured { seconds: vec![], work: Work::default() };
    let start = Instant::now();
    while measured.seconds.len() < length.rounds as usize || start.elapsed() < length.at_least {
        kernel.prepare();
        at_edge(Edge::Start);
        let begun = Instant::now();
        measured.work += kernel.round();
        measured.seconds.push(begun.elapsed().as_secs_f64());
        at_edge(Edge::End);
    }
    measured
}
