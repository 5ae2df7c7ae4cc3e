//! Demands: the requests of a workload to memory, described by measured runs. At least one run has
//! all pages on the first tier; runs with interleaved pages are optional.

use crate::{mix::Mix, provenance::Figure, units::Bytes, weights::Weights};

/// The demand of a workload on memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The name of the workload.
    pub name: String,
    /// The source and provenance of the demand's figures.
    pub figure: Figure,
    /// The platform on which the runs were measured; `None` if the runs are from the platform that
    /// a prediction is made for.
    pub platform: Option<String>,
    /// The mix of the traffic.
    pub mix: Mix,
    /// Lower and upper bound of the read share, 0 to 1. If the read share is known, both bounds are
    /// the read share of `mix`.
    pub read_share_range: (f64, f64),
    /// Memory that the workload touches; `None` if unknown.
    pub footprint: Option<Bytes>,
    /// The assumed number of outstanding lines of a thread, before the runs are evaluated: the
    /// median of the prior. `None` stands for the outstanding lines of a core. A program whose
    /// loads depend on each other has fewer lines outstanding than its core allows.
    pub outstanding_lines_per_thread: Option<f64>,
    /// The unit of the results of all runs.
    pub metric: Metric,
    /// Runs with all pages on the first tier; at least one.
    pub local: Vec<LocalRun>,
    /// Runs with pages interleaved over several tiers; may be empty.
    pub interleaved: Vec<InterleavedRun>,
    /// The distribution of accesses over the footprint.
    pub hotness: Hotness,
    /// The phases of a run, which repeat in this order; empty for an even demand.
    pub phases: Vec<Phase>,
}

/// The unit of the result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Seconds; lower is better.
    Runtime,
    /// Work per time, in this unit; higher is better.
    Rate(String),
}

impl Metric {
    /// The unit of a result.
    pub fn unit(&self) -> &str {
        match self {
            Self::Runtime => "s",
            Self::Rate(unit) => unit,
        }
    }
}

/// A run with all pages on the first tier.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalRun {
    /// The number of working threads.
    pub threads: u32,
    /// The result, in the demand's metric.
    pub result: f64,
    /// Bandwidth of reads and writes at the memory controllers during the work, GB/s; `None` if not
    /// counted.
    pub bandwidth_gbps: Option<f64>,
    /// The name of the series that the run belongs to; empty for the main series. Runs of one
    /// series are comparable.
    pub series: String,
}

/// A run with pages interleaved over the tiers of the demand's platform.
#[derive(Clone, Debug, PartialEq)]
pub struct InterleavedRun {
    /// The weights by which the pages were placed.
    pub weights: Weights,
    /// The number of working threads.
    pub threads: u32,
    /// The result, in the demand's metric.
    pub result: f64,
}

/// The distribution of accesses over the footprint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hotness {
    /// Every page gets the same number of accesses.
    Uniform,
    /// Accesses to the page of rank k are proportional to k to the power of minus `exponent`.
    Zipf {
        /// The exponent; 0 is uniform.
        exponent: f64,
    },
    /// A hot set: the fraction `pages` of the pages gets the fraction `accesses` of the accesses.
    /// With 0.1 and 0.9, a tenth of the pages gets nine tenths of the accesses.
    HotSet {
        /// The fraction of the pages that is hot, 0 to 1.
        pages: f64,
        /// The fraction of the accesses that goes to the hot pages, 0 to 1.
        accesses: f64,
    },
}

/// A phase of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// The phase's fraction of the time of a run with all pages on the first tier, 0 to 1.
    pub share_of_time: f64,
    /// Bandwidth of the phase with all pages on the first tier, GB/s.
    pub bandwidth_gbps: f64,
}

impl Demand {
    /// The performance of a run with the result `result`: the rate, or the inverse of the runtime.
    /// Higher is better.
    pub fn performance(&self, result: f64) -> f64 {
        match self.metric {
            Metric::Runtime => 1.0 / result,
            Metric::Rate(_) => result,
        }
    }

    /// The result, in the demand's metric, of a run with `performance` units of work per second.
    pub fn result(&self, performance: f64) -> f64 {
        // `performance` is its own inverse function: a reciprocal for a runtime, the identity for a
        // rate. A second call therefore converts the performance back to a result.
        self.performance(performance)
    }

    /// The speed of a run with this `result` divided by the speed of a run with the result
    /// `reference`.
    pub fn speedup(&self, result: f64, reference: f64) -> f64 {
        self.performance(result) / self.performance(reference)
    }

    /// The local runs with a counted bandwidth, each with this bandwidth in GB/s, in rising order
    /// of threads. Only runs of one series are returned: the series of the first run with a counted
    /// bandwidth.
    pub fn counted_runs(&self) -> Vec<(&LocalRun, f64)> {
        let mut runs: Vec<_> =
            self.local.iter().filter_map(|run| Some((run, run.bandwidth_gbps?))).collect();
        if let Some((first, _)) = runs.first().copied() {
            runs.retain(|(run, _)| run.series == first.series);
        }
        runs.sort_by_key(|(run, _)| run.threads);
        runs
    }

    /// The default number of threads: the largest number of any local run, since more threads were
    /// not measured.
    pub fn threads(&self) -> u32 {
        self.local.iter().map(|run| run.threads).max().unwrap_or(1)
    }

    /// The local run whose number of threads is nearest to `threads` as a ratio: 60 is nearer to 80
    /// (a factor of 1.33) than to 40 (1.5). Only the runs of [`Self::counted_runs`] are considered.
    /// If no run has a counted bandwidth, all runs of the series of the first run are considered.
    pub fn nearest_run(&self, threads: f64) -> &LocalRun {
        let distance = |run: &&LocalRun| {
            let steps = f64::from(run.threads) / threads;
            if steps > 1.0 { steps } else { 1.0 / steps }
        };
        let counted = self.counted_runs();
        let candidates: Vec<&LocalRun> = match counted.first() {
            Some(_) => counted.iter().map(|(run, _)| *run).collect(),
            None => {
                let series = &self.local[0].series;
                self.local.iter().filter(|run| run.series == *series).collect()
            }
        };
        let nearest = candidates.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        nearest.unwrap_or(&self.local[0])
    }
}
