//! The search for the best static weights, as `interleaf.tune/1`.

use super::{
    rounded,
    run::{NodeDocument, RunDocument, SettingDocument},
};
use interleaf_model::{
    predict::Estimate,
    tune::{Finding, Search, Stop},
    weights::Weights,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub(crate) const SCHEMA: &str = "interleaf.tune/1";

/// What was to be found, each run, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TuneDocument {
    pub(crate) schema: String,
    pub(crate) command: Vec<String>,
    /// The pattern of the number that is compared; absent where it is the time of the command.
    pub(crate) metric: Option<String>,
    pub(crate) higher_is_better: bool,
    /// By which part weights have to be better to count.
    pub(crate) worth: f64,
    pub(crate) runs_max: usize,
    pub(crate) warm_up: usize,
    pub(crate) proposal: ProposalDocument,
    /// What is run first, and what has to be set for it each time.
    pub(crate) plan: Vec<PlanDocument>,
    pub(crate) dry_run: bool,
    /// In their order, without those for warming up.
    pub(crate) runs: Vec<TrialDocument>,
    /// The best so far; absent before the first run.
    pub(crate) best: Option<BestDocument>,
    /// Whether the best is better than all on the first tier, by what counts and beyond noise.
    pub(crate) is_better: bool,
    /// The standard deviation of a run, as a part of what it gives.
    pub(crate) noise: Option<f64>,
    /// running, settled, noise, runs, signal or failed.
    pub(crate) stopped: String,
    /// The same in words.
    pub(crate) stopped_because: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProposalDocument {
    pub(crate) weights: Vec<u16>,
    pub(crate) source: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlanDocument {
    pub(crate) weights: Vec<u16>,
    pub(crate) means: String,
    pub(crate) nodes: Vec<NodeDocument>,
    pub(crate) settings: Vec<SettingDocument>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TrialDocument {
    pub(crate) weights: Vec<u16>,
    pub(crate) tier_share: Vec<f64>,
    /// Why it was made.
    pub(crate) why: String,
    pub(crate) seconds: f64,
    /// The metric; absent where it is the time.
    pub(crate) value: Option<f64>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// The part of the memory that was not under the placement; absent when it was not seen.
    pub(crate) escaped_share: Option<f64>,
}

/// The best weights, with intervals that hold nine tenths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BestDocument {
    pub(crate) weights: Vec<u16>,
    /// The mean of its runs: seconds, or the metric.
    pub(crate) value: f64,
    pub(crate) value_low: f64,
    pub(crate) value_high: f64,
    /// Against all on the first tier.
    pub(crate) speedup: f64,
    pub(crate) speedup_low: f64,
    pub(crate) speedup_high: f64,
}

/// What a search was asked for.
#[derive(Clone, Debug)]
pub(crate) struct TuneRequest {
    /// The command and its arguments.
    pub(crate) command: Vec<String>,
    /// The pattern of the number that is compared; `None` where it is the command's time.
    pub(crate) metric: Option<String>,
    /// Whether more of the metric is better.
    pub(crate) higher_is_better: bool,
    /// Runs beforehand that do not count.
    pub(crate) warm_up: usize,
    /// Whether nothing is run.
    pub(crate) dry_run: bool,
}

impl TuneDocument {
    /// A search that has not begun; `source` says how its first weights were found.
    pub(crate) fn new(asked: TuneRequest, search: &Search, source: &str) -> Self {
        Self {
            schema: SCHEMA.into(),
            command: asked.command,
            metric: asked.metric,
            higher_is_better: asked.higher_is_better,
            worth: search.worth,
            runs_max: search.runs,
            warm_up: asked.warm_up,
            proposal: ProposalDocument {
                weights: search.proposal.as_slice().to_vec(),
                source: source.into(),
            },
            plan: vec![],
            dry_run: asked.dry_run,
            runs: vec![],
            best: None,
            is_better: false,
            noise: None,
            stopped: if asked.dry_run { "dry run" } else { "running" }.into(),
            stopped_because: if asked.dry_run { "nothing was run" } else { "it runs" }.into(),
        }
    }

    /// Notes what is done for weights that are run first.
    pub(crate) fn plan(&mut self, weights: &Weights, planned: &RunDocument) {
        let weights = weights.as_slice().to_vec();
        if self.plan.iter().all(|plan| plan.weights != weights) {
            self.plan.push(PlanDocument {
                weights,
                means: planned.means.clone(),
                nodes: planned.nodes.clone(),
                settings: planned.settings.clone(),
            });
        }
    }

    /// Notes what is known so far.
    pub(crate) fn so_far(&mut self, finding: Option<&Finding>) {
        let Some(finding) = finding else { return };
        let of_metric = |value: Estimate| match self.higher_is_better {
            true => {
                Estimate { mean: 1.0 / value.mean, low: 1.0 / value.high, high: 1.0 / value.low }
            }
            false => value,
        };
        let (value, speedup) = (of_metric(finding.value), finding.speedup);
        self.best = Some(BestDocument {
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
    pub(crate) fn finish(&mut self, finding: &Finding) {
        self.so_far(Some(finding));
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

    pub(crate) fn stop(&mut self, stopped: &str, because: String) {
        self.stopped = stopped.into();
        self.stopped_because = because;
    }
}

impl TrialDocument {
    /// A run that took `elapsed`, without its metric.
    pub(crate) fn new(weights: &Weights, why: &str, elapsed: Duration, run: &RunDocument) -> Self {
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
