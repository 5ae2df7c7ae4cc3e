//! The behaviour of a workload's threads, inferred from a few measured runs.
//!
//! The result of a run says how fast it was, not why. The same bandwidth comes from threads that
//! keep few lines outstanding and never compute, from threads that compute while many lines are
//! on their way, or from a pattern of accesses that gets less out of the DIMMs than the curves
//! do. Each would gain something else from a second tier. Runs with several thread counts tell
//! these apart (one that saturates shows what the pattern can reach, one that does not shows what
//! the threads ask for); one run alone does not.
//!
//! No single answer is fitted, therefore. All answers that agree with the runs are kept, as a set
//! of [`Behaviour`]s of equal weight ([`infer`]). A prediction is made with each of them, and its
//! spread shows the uncertainty that the runs leave.

mod posterior;
mod prior;
mod traffic;

pub use posterior::{MEMBERS, infer};
pub use prior::{DIMENSIONS, Prior};
pub use traffic::TrafficPerWork;

use crate::{equilibrium::Load, mix::Mix, platform::Platform, tier::TierKind};

/// A behaviour of threads that agrees with the measured runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Behaviour {
    /// Lines that a thread keeps outstanding: its memory-level parallelism.
    pub lines_per_thread: f64,
    /// Time a thread that is alone computes for each line, ns.
    pub line_compute_ns: f64,
    /// Contention: the time that each further thread adds to the computing time of all, relative to
    /// that of one thread alone. Locks, shared caches and falling clocks cause it (Gunther's
    /// universal scalability law).
    pub contention: f64,
    /// The overlap of computing and waiting: the fraction of the shorter one that is hidden, 0 to
    /// 1.
    pub overlap: f64,
    /// The part of a DRAM tier's bandwidth that its pattern of accesses can reach (0 to 1): what
    /// bank conflicts and row misses leave of what a measurement kernel gets. The bandwidth of
    /// the other kinds of tier is bound by link or controller and not reduced.
    pub pattern_factor: f64,
    /// The degree to which traffic per work depends on memory pressure instead of the number of
    /// threads, 0 to 1. See [`TrafficPerWork`].
    pub traffic_relief: f64,
    /// The read share of its traffic, 0 to 1.
    pub read_share: f64,
}

impl Behaviour {
    /// Time each of `threads` threads computes for a line, ns.
    pub fn compute_ns(&self, threads: f64) -> f64 {
        self.line_compute_ns * (1.0 + self.contention * (threads - 1.0).max(0.0))
    }

    /// The part of a tier's bandwidth that such threads can reach, 0 to 1.
    pub fn bandwidth_factor(&self, kind: TierKind) -> f64 {
        if kind == TierKind::Dram { self.pattern_factor } else { 1.0 }
    }

    /// `threads` such threads on `platform`, spread over its domains, with `shares` of their
    /// traffic on each tier. Threads beyond the cores share the lines that a core can have
    /// outstanding.
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
