//! The behaviour of a workload's threads, inferred from a few measured runs.
//!
//! The result of a run shows the speed of a workload, not the cause of this speed. Three causes can
//! give the same bandwidth: threads with few outstanding lines and no compute time; threads that
//! compute while many lines are outstanding; an access pattern that gets less bandwidth from the
//! DIMMs than the loaded-latency curves show. The gain from a second tier differs between these
//! causes. Runs with several thread counts separate the causes: a saturated run shows the limit of
//! the pattern, an unsaturated run the demand of the threads. A single run does not separate them.
//!
//! Therefore no single behaviour is fitted. [`infer`] returns a set of [`Behaviour`]s of equal
//! weight that agree with the runs. Each behaviour gives a prediction, and the spread of the
//! predictions shows the uncertainty that the runs leave.

mod posterior;
mod prior;
mod traffic;

pub use posterior::{MEMBERS, infer};
pub use prior::{DIMENSIONS, Prior};
pub use traffic::TrafficPerWork;

use crate::{equilibrium::Load, mix::Mix, platform::Platform, tier::TierKind};

/// A behaviour of a workload's threads that agrees with the measured runs of the workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Behaviour {
    /// The number of lines that a thread keeps outstanding: its memory-level parallelism.
    pub lines_per_thread: f64,
    /// Compute time, ns, that a thread spends on each line while no other thread runs.
    pub line_compute_ns: f64,
    /// Contention between threads, as a fraction of the compute time of a thread that runs alone:
    /// each further thread lengthens the compute time of every thread by this fraction. Causes are
    /// locks, shared caches and lower clock rates (Gunther's universal scalability law).
    pub contention: f64,
    /// The overlap of compute time and memory latency, 0 to 1: the fraction of the shorter of these
    /// two times that is hidden by the longer.
    pub overlap: f64,
    /// The fraction of a DRAM tier's bandwidth that the access pattern can reach (0 to 1). The
    /// benchmark loop that measured the curve reaches 1; bank conflicts and row misses cost other
    /// patterns a part of the bandwidth. Tiers of other kinds are limited by their link or
    /// controller, so the pattern does not reduce their bandwidth.
    pub pattern_factor: f64,
    /// Weight, 0 to 1, of the bandwidth of one thread in the traffic for a unit of work
    /// ([`TrafficPerWork`]). At 0, this traffic depends only on the number of threads; at 1, only
    /// on the bandwidth of one thread.
    pub traffic_relief: f64,
    /// Reads as a fraction of the bytes of the traffic, 0 to 1.
    pub read_share: f64,
}

impl Behaviour {
    /// Compute time, ns, that a thread spends on each line while `threads` threads run.
    pub fn compute_ns(&self, threads: f64) -> f64 {
        self.line_compute_ns * (1.0 + self.contention * (threads - 1.0).max(0.0))
    }

    /// Returns the fraction (0 to 1) of a tier's bandwidth that the threads can reach. `kind` is
    /// the tier's kind.
    pub fn bandwidth_factor(&self, kind: TierKind) -> f64 {
        if kind == TierKind::Dram { self.pattern_factor } else { 1.0 }
    }

    /// The load of `threads` threads with this behaviour on `platform`. The threads are spread over
    /// the domains (sockets or sub-NUMA clusters), and `shares` are the fractions of their traffic
    /// to each tier. Threads beyond the number of cores add no outstanding lines.
    pub fn load(&self, platform: &Platform, mix: Mix, threads: f64, shares: Vec<f64>) -> Load {
        let mix = mix.with_read_share(self.read_share).unwrap_or(mix);
        Load {
            threads: threads.min(f64::from(platform.cpu.cores)),
            lines_per_thread: self.lines_per_thread,
            line_compute_ns: self.compute_ns(threads),
            overlap: self.overlap,
            mixes: vec![mix; shares.len()],
            shares,
            domain_parts: platform.spread(),
            bandwidth_factors: platform
                .tiers
                .iter()
                .map(|tier| self.bandwidth_factor(tier.kind))
                .collect(),
        }
    }
}
