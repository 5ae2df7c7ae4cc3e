//! Demands: the requests of a workload to memory, as its measured runs show them. At least one run
//! has all pages on the first tier; runs with interleaved pages are optional.

use crate::{mix::Mix, provenance::Figure, units::Bytes, weights::Weights};

/// A workload's requests to memory, described by its measured runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The name of the workload.
    pub name: String,
    /// The source and provenance of the demand's figures.
    pub figure: Figure,
    /// The platform on which the runs were measured; `None` if they were measured on the platform
    /// for which a prediction is made.
    pub platform: Option<String>,
    /// The mix of the traffic.
    pub mix: Mix,
    /// Lower and upper bound of the read share, 0 to 1. If the read share is known, both bounds are
    /// the read share of `mix`.
    pub read_share_range: (f64, f64),
    /// Memory that the workload touches; `None` if unknown.
    pub footprint: Option<Bytes>,
    /// The median of the prior for a thread's outstanding lines: the assumption before the runs are
    /// evaluated. `None` stands for the number of lines that a core can have outstanding. A program
    /// whose loads depend on each other has fewer outstanding lines than its core allows.
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
    /// Work per unit of time, in the unit of this text; higher is better.
    Rate(String),
}

impl Metric {
    /// The unit of a result in this metric.
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
    /// The file, line and field of the bandwidth, for errors; empty if it was not read from a file.
    pub bandwidth_place: String,
    /// The name of the series that the run belongs to; empty for the main series. Only runs of the
    /// same series are comparable.
    pub series: String,
}

/// A measured run of the workload that the demand describes, with pages interleaved over the tiers
/// of the platform of its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct InterleavedRun {
    /// The weights by which the pages were placed.
    pub weights: Weights,
    /// The file, line and field of the weights, for errors.
    pub weights_place: String,
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

/// A phase of a workload's run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// The phase's fraction of the time of a run with all pages on the first tier, 0 to 1.
    pub share_of_time: f64,
    /// Bandwidth of the phase with all pages on the first tier, GB/s.
    pub bandwidth_gbps: f64,
}

impl Demand {
    /// Returns the performance of a run whose result is `result`: the rate, or the inverse of the
    /// runtime. Higher is better.
    pub fn performance(&self, result: f64) -> f64 {
        match self.metric {
            Metric::Runtime => 1.0 / result,
            Metric::Rate(_) => result,
        }
    }

    /// Returns the result, in the demand's metric, of a run that does `performance` units of work
    /// per second.
    pub fn result(&self, performance: f64) -> f64 {
        // `performance` is its own inverse function: a reciprocal for a runtime, the identity for a
        // rate. A second call therefore converts the performance back to a result.
        self.performance(performance)
    }

    /// Returns the speed of a run with the result `result`, divided by the speed of a run with the
    /// result `reference`.
    pub fn speedup(&self, result: f64, reference: f64) -> f64 {
        self.performance(result) / self.performance(reference)
    }

    /// The local runs with a counted bandwidth, each with this bandwidth in GB/s, in rising order
    /// of their threads. All returned runs are of one series (made under equal conditions): the
    /// series of the first run with a counted bandwidth.
    pub fn counted_runs(&self) -> Vec<(&LocalRun, f64)> {
        let mut runs: Vec<_> =
            self.local.iter().filter_map(|run| Some((run, run.bandwidth_gbps?))).collect();
        if let Some((first, _)) = runs.first().copied() {
            runs.retain(|(run, _)| run.series == first.series);
        }
        runs.sort_by_key(|(run, _)| run.threads);
        runs
    }

    /// The default number of threads for predictions: the largest number of threads of any local
    /// run, since no run was measured with more.
    pub fn threads(&self) -> u32 {
        self.local.iter().map(|run| run.threads).max().unwrap_or(1)
    }

    /// Returns the local run whose number of threads is nearest to `threads` as a ratio: 60 is
    /// nearer to 80 (a factor of 1.33) than to 40 (1.5). The candidates are the runs of
    /// [`Self::counted_runs`] or, if no run has a counted bandwidth, all runs of the first run's
    /// series.
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
