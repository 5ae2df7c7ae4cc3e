//! The search for the best static weights, as `interleaf.tune/1`.

use super::{
    rounded,
    run::{ChangedSetting, PlacedNode, RunDocument},
};
use interleaf_model::{
    predict::Estimate,
    tune::{Finding, Search, Stop},
    weights::Weights,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub const SCHEMA: &str = "interleaf.tune/1";

/// What was to be found, each run, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneDocument {
    pub schema: String,
    pub command: Vec<String>,
    /// The pattern of the number that is compared; absent where it is the time of the command.
    pub metric: Option<String>,
    pub higher_is_better: bool,
    /// By which part weights have to be better to count.
    pub worth: f64,
    pub runs_max: usize,
    pub warm_up: usize,
    pub proposal: ProposalDocument,
    /// What is run first, and what has to be set for it each time.
    pub plan: Vec<TunePlan>,
    pub dry_run: bool,
    /// In their order, without those for warming up.
    pub runs: Vec<TrialDocument>,
    /// The best so far; absent before the first run.
    pub best: Option<TuneBest>,
    /// Whether the best is better than all on the first tier, by what counts and beyond noise.
    pub is_better: bool,
    /// The standard deviation of a run, as a part of what it gives.
    pub noise: Option<f64>,
    /// running, settled, noise, runs, signal or failed.
    pub stopped: String,
    /// The same in words.
    pub stopped_because: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProposalDocument {
    pub weights: Vec<u16>,
    pub source: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunePlan {
    pub weights: Vec<u16>,
    pub means: String,
    pub nodes: Vec<PlacedNode>,
    pub settings: Vec<ChangedSetting>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialDocument {
    pub weights: Vec<u16>,
    pub tier_share: Vec<f64>,
    /// Why it was made.
    pub why: String,
    pub seconds: f64,
    /// The metric; absent where it is the time.
    pub value: Option<f64>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// The part of the memory that was not under the placement; absent when it was not seen.
    pub escaped_share: Option<f64>,
}

/// The best weights, with intervals that hold nine tenths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneBest {
    pub weights: Vec<u16>,
    /// The mean of its runs: seconds, or the metric.
    pub value: f64,
    pub value_low: f64,
    pub value_high: f64,
    /// Against all on the first tier.
    pub speedup: f64,
    pub speedup_low: f64,
    pub speedup_high: f64,
}

/// What a search was request for.
#[derive(Clone, Debug)]
pub struct TuneRequest {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The pattern of the number that is compared; `None` where it is the command's time.
    pub metric: Option<String>,
    /// Whether more of the metric is better.
    pub higher_is_better: bool,
    /// Runs beforehand that do not count.
    pub warm_up: usize,
    /// Whether nothing is run.
    pub dry_run: bool,
}

impl TuneDocument {
    /// A search that has not begun; `source` says how its first weights were found.
    pub fn new(request: TuneRequest, search: &Search, source: &str) -> Self {
        Self {
            schema: SCHEMA.into(),
            command: request.command,
            metric: request.metric,
            higher_is_better: request.higher_is_better,
            worth: search.worth,
            runs_max: search.runs,
            warm_up: request.warm_up,
            proposal: ProposalDocument {
                weights: search.proposal.as_slice().to_vec(),
                source: source.into(),
            },
            plan: vec![],
            dry_run: request.dry_run,
            runs: vec![],
            best: None,
            is_better: false,
            noise: None,
            stopped: if request.dry_run { "dry run" } else { "running" }.into(),
            stopped_because: if request.dry_run { "nothing was run" } else { "it runs" }.into(),
        }
    }

    /// Notes what is done for weights that are run first.
    pub fn add_plan(&mut self, weights: &Weights, planned: &RunDocument) {
        let weights = weights.as_slice().to_vec();
        if self.plan.iter().all(|plan| plan.weights != weights) {
            self.plan.push(TunePlan {
                weights,
                means: planned.means.clone(),
                nodes: planned.nodes.clone(),
                settings: planned.settings.clone(),
            });
        }
    }

    /// Notes what is known so far.
    pub fn update(&mut self, finding: Option<&Finding>) {
        let Some(finding) = finding else { return };
        let of_metric = |value: Estimate| match self.higher_is_better {
            true => {
                Estimate { mean: 1.0 / value.mean, low: 1.0 / value.high, high: 1.0 / value.low }
            }
            false => value,
        };
        let (value, speedup) = (of_metric(finding.value), finding.speedup);
        self.best = Some(TuneBest {
            weights: finding.best.as_slice().to_vec(),
            value: rounded(value.mean),
            value_low: rounded(value.low),
            value_high: rounded(value.high),
            speedup: rounded(speedup.mean),
            speedup_low: rounded(speedup.low),
            speedup_high: rounded(speedup.high),
        });
        self.is_better = finding.is_better;
        self.noise = Some(rounded(finding.noise));
    }

    /// Notes what was found in the end.
    pub fn finish(&mut self, finding: &Finding) {
        self.update(Some(finding));
        let worth = 100.0 * self.worth;
        match finding.stop {
            Stop::Settled => {
                self.stop("settled", format!("no other weights are better by {worth} % or more"));
            }
            Stop::Noise => {
                let what = "what differs is noise, which the runs that are left would not change";
                self.stop("noise", what.into());
            }
            Stop::Runs => self.stop("runs", format!("all {} runs are made", self.runs_max)),
        }
    }

    pub fn stop(&mut self, stopped: &str, because: String) {
        self.stopped = stopped.into();
        self.stopped_because = because;
    }
}

impl TrialDocument {
    /// A run that took `elapsed`, without its metric.
    pub fn new(weights: &Weights, why: &str, elapsed: Duration, run: &RunDocument) -> Self {
        Self {
            weights: weights.as_slice().to_vec(),
            tier_share: super::all_rounded(&weights.shares()),
            why: why.into(),
            seconds: rounded(elapsed.as_secs_f64()),
            value: None,
            exit_code: run.exit_code,
            signal: run.signal,
            escaped_share: run.memory.as_ref().map(|memory| memory.escaped_share),
        }
    }
}
