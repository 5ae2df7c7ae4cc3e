//! The search for the best static weights by runs of a command, as `interleaf.tune/1`.
//!
//! `interleaf tune` writes the document after every run. It compares the runtime, or a number that
//! the command prints (the metric). Intervals hold nine tenths of the probability.

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

/// The document: the request, each run and the result so far; one JSON object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneDocument {
    pub schema: String,
    pub command: Vec<String>,
    /// The pattern of the metric in the output; null when the runtime is compared.
    pub metric: Option<String>,
    pub higher_is_better: bool,
    /// The least relative gain that counts as better.
    pub worth: f64,
    pub runs_max: usize,
    pub warm_up: usize,
    pub proposal: ProposalDocument,
    /// The weights that are run first, with the kernel settings for each.
    pub plan: Vec<TunePlan>,
    pub dry_run: bool,
    /// The runs in their order, without warm-up runs.
    pub runs: Vec<TrialDocument>,
    /// The best weights so far; null before the first run.
    pub best: Option<TuneBest>,
    /// True if the best weights gain at least `worth` over the first tier alone, beyond noise.
    pub is_better: bool,
    /// Relative standard deviation of a run.
    pub noise: Option<f64>,
    /// running, settled, noise, runs, signal or failed.
    pub stopped: String,
    /// The reason, in words.
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

/// One run of the command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialDocument {
    pub weights: Vec<u16>,
    pub tier_share: Vec<f64>,
    /// The reason for the run.
    pub why: String,
    pub seconds: f64,
    /// The metric; null when the runtime is compared.
    pub value: Option<f64>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Fraction of the memory that bypassed the placement; null without a placement audit.
    pub escaped_share: Option<f64>,
}

/// The best weights, with intervals that hold nine tenths of the probability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneBest {
    pub weights: Vec<u16>,
    /// Mean of the runs: seconds, or the metric.
    pub value: f64,
    pub value_low: f64,
    pub value_high: f64,
    /// Speed-up over all pages on the first tier.
    pub speedup: f64,
    pub speedup_low: f64,
    pub speedup_high: f64,
}

/// The options of a search.
#[derive(Clone, Debug)]
pub struct TuneRequest {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The pattern of the metric; `None` to compare the runtime.
    pub metric: Option<String>,
    /// True if a larger metric is better.
    pub higher_is_better: bool,
    /// Number of warm-up runs.
    pub warm_up: usize,
    /// True if no command is run.
    pub dry_run: bool,
}

impl TuneDocument {
    /// A search without runs; `source` describes the origin of the proposed weights.
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

    /// Adds the plan for weights that are run first.
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

    /// Sets the result so far.
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

    /// Sets the final result and the reason to stop.
    pub fn finish(&mut self, finding: &Finding) {
        self.update(Some(finding));
        let worth = 100.0 * self.worth;
        match finding.stop {
            Stop::Settled => {
                self.stop("settled", format!("no other weights are better by {worth} % or more"));
            }
            Stop::Noise => {
                let because =
                    "what differs is noise, which the runs that are left would not change";
                self.stop("noise", because.into());
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
