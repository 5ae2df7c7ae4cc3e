//! Demands: what a workload asks of memory, as far as runs with all pages on the first tier show
//! it.

use crate::{mix::Mix, provenance::Figure, units::Bytes, weights::Weights};

/// The demand of a workload on memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The name of the workload.
    pub name: String,
    /// The source and provenance of its figures.
    pub figure: Figure,
    /// The platform its runs were made on; `None` for the one that is asked about.
    pub platform: Option<String>,
    /// The mix of its traffic.
    pub mix: Mix,
    /// Between what the read share lies, when it is not known: low and high, 0 to 1.
    pub read_share_range: (f64, f64),
    /// Memory that it touches.
    pub footprint: Option<Bytes>,
    /// The median of the lines a thread keeps outstanding, where that is better known than by
    /// the platform's cores: fewer where loads depend on each other.
    pub outstanding_lines_per_thread: Option<f64>,
    /// The unit of its results.
    pub metric: Metric,
    /// Runs with all pages on the first tier; at least one.
    pub local: Vec<Run>,
    /// Runs at other weights, where there are any.
    pub interleaved: Vec<InterleavedRun>,
    /// The distribution of its accesses over the footprint.
    pub hotness: Hotness,
    /// The phases of a run, which repeat in this order; empty of an even demand.
    pub phases: Vec<Phase>,
}

/// The unit of the result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Seconds; less is better.
    Runtime,
    /// Work per time, in this unit; more is better.
    Rate(String),
}

/// A run with all pages on the first tier.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Threads that worked.
    pub threads: u32,
    /// The result, in the demand's metric.
    pub result: f64,
    /// Reads and writes at the memory controllers while it was busy, GB/s.
    pub bandwidth_gbps: Option<f64>,
    /// Runs of one series were made alike and can be compared; empty for the main one.
    pub series: String,
}

/// A run with pages interleaved over the tiers of the demand's platform.
#[derive(Clone, Debug, PartialEq)]
pub struct InterleavedRun {
    /// The placement of its pages.
    pub weights: Weights,
    /// Threads that worked.
    pub threads: u32,
    /// The result, in the demand's metric.
    pub result: f64,
}

/// The distribution of accesses over the footprint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hotness {
    /// Every page as often.
    Uniform,
    /// The page at rank k as often as k to the power of minus `exponent`.
    Zipf {
        /// 0 is uniform.
        exponent: f64,
    },
    /// A part of the pages takes a part of the accesses.
    HotSet {
        /// Share of the pages, 0 to 1.
        pages: f64,
        /// Share of the accesses, 0 to 1.
        accesses: f64,
    },
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Fraction of the time of a run on the first tier alone, 0 to 1.
    pub share_of_time: f64,
    /// Bandwidth of the phase on the first tier alone, GB/s.
    pub bandwidth_gbps: f64,
}

impl Demand {
    /// Work per second of a run with this result: more is better in every metric.
    pub fn performance(&self, result: f64) -> f64 {
        match self.metric {
            Metric::Runtime => 1.0 / result,
            Metric::Rate(_) => result,
        }
    }

    /// The result of a run that does `performance` work in a second.
    pub fn result(&self, performance: f64) -> f64 {
        // The function is its own inverse in either metric.
        self.performance(performance)
    }

    /// The speed of a run with this `result` relative to one with the result `reference`.
    pub fn speedup(&self, result: f64, reference: f64) -> f64 {
        self.performance(result) / self.performance(reference)
    }

    /// The local runs of the main series that have a bandwidth, in order of threads.
    pub fn counted_runs(&self) -> Vec<(&Run, f64)> {
        let mut runs: Vec<_> =
            self.local.iter().filter_map(|run| Some((run, run.bandwidth_gbps?))).collect();
        if let Some((first, _)) = runs.first().copied() {
            runs.retain(|(run, _)| run.series == first.series);
        }
        runs.sort_by_key(|(run, _)| run.threads);
        runs
    }

    /// The default number of threads: the most of its runs, since no run shows that it could use
    /// more.
    pub fn threads(&self) -> u32 {
        self.local.iter().map(|run| run.threads).max().unwrap_or(1)
    }

    /// The local run that is nearest in threads, of the series that has bandwidths if any has.
    pub fn nearest_run(&self, threads: f64) -> &Run {
        let distance = |run: &&Run| {
            let steps = f64::from(run.threads) / threads;
            if steps > 1.0 { steps } else { 1.0 / steps }
        };
        let counted = self.counted_runs();
        let candidates: Vec<&Run> = match counted.first() {
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
