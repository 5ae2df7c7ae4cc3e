//! Rounds of a workload, and how long they took.

use crate::{Kernel, Work, kind::Unit};
use std::time::{Duration, Instant};

/// How long a workload runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Length {
    /// Rounds that do not count, in the beginning.
    pub warm_up: u32,
    /// Rounds that do, at least.
    pub rounds: u32,
    /// For how long there are more of them.
    pub at_least: Duration,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Seconds of each round.
    pub seconds: Vec<f64>,
    /// What all of them did.
    pub work: Work,
}

impl Measured {
    /// Seconds of all rounds.
    pub fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }

    /// How much was done in a second.
    pub fn rate(&self, unit: Unit) -> f64 {
        rate(&self.work, self.total(), unit)
    }
}

/// So much work in so long.
pub fn rate(work: &Work, seconds: f64, unit: Unit) -> f64 {
    let (amount, of) = match unit {
        Unit::Gbps => (work.bytes, 1e9),
        Unit::Gflops => (work.flops, 1e9),
        Unit::Kaccesses => (work.accesses, 1e3),
    };
    if seconds > 0.0 { amount as f64 / of / seconds } else { 0.0 }
}

/// Runs whole rounds. `begun` is called when those begin that count.
pub fn measured(kernel: &mut dyn Kernel, length: &Length, begun: impl FnOnce()) -> Measured {
    for _ in 0..length.warm_up {
        kernel.round();
    }
    begun();
    let mut measured = Measured { seconds: vec![], work: Work::default() };
    let start = Instant::now();
    while measured.seconds.len() < length.rounds as usize || start.elapsed() < length.at_least {
        let begun = Instant::now();
        measured.work += kernel.round();
        measured.seconds.push(begun.elapsed().as_secs_f64());
    }
    measured
}
