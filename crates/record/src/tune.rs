//! The search for the best static weights of a command by running it, as `interleaf.tune/1`.
//!
//! `interleaf tune` writes the document after each run. It compares runs by their runtime, or by a
//! number that the command prints (the metric). Intervals contain the true value with a probability
//! of 90 %.

mod figures;

pub use figures::TuneResult;

use super::{
    check::{Check, Checked, in_order, invalid, not_empty, same_length},
    rounded,
    run::{ChangedSetting, PlacedNode, PlacementMeans, RunDocument},
};
use interleaf_model::{
    predict::Estimate,
    tune::{Finding, Search, Stop, Why},
    weights::Weights,
};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

pub const SCHEMA: &str = "interleaf.tune/1";

/// A search for the best weights: what was requested, all runs, and the result so far. The document
/// is one JSON object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneDocument {
    pub schema: String,
    pub command: Vec<String>,
    /// Pattern that finds the metric in the command's output; null when the runtime is compared.
    pub metric: Option<String>,
    pub higher_is_better: bool,
    /// Smallest relative gain for which weights count as better, a fraction.
    #[serde(rename = "worth")]
    pub min_gain: f64,
    pub runs_max: usize,
    pub warm_up: usize,
    pub proposal: ProposalDocument,
    /// Weights of the first runs, each with the kernel settings that a run needs.
    pub plan: Vec<TunePlan>,
    pub dry_run: bool,
    /// All runs in order of time. Warm-up runs are left out.
    pub runs: Vec<TrialDocument>,
    /// Best weights so far; null before the first run.
    pub best: Option<TuneBest>,
    /// True if the best weights gain more than `worth` over all pages on the first tier, and the
    /// gain exceeds the noise.
    pub is_better: bool,
    /// Relative standard deviation, between runs, of the value by which runs are compared.
    pub noise: Option<f64>,
    pub stopped: TuneStop,
    /// Reason for `stopped`, in words.
    pub stopped_because: String,
}

impl Check for TuneDocument {
    fn check(&self) -> Checked {
        for (at, run) in self.runs.iter().enumerate() {
            let field = |name: &str| format!("runs[{at}].{name}");
            not_empty(field("weights"), run.weights.len())?;
            same_length(field("tier_share"), run.tier_share.len(), run.weights.len(), "weights")?;
            // Geometric means of the values are computed, so a value of 0 is rejected.
            for (name, value) in [("seconds", Some(run.seconds)), ("value", run.value)] {
                if value.is_some_and(|value| value <= 0.0) {
                    return invalid(field(name), "it is not above 0");
                }
            }
        }
        let Some(best) = &self.best else { return Ok(()) };
        in_order("best.value_low", [best.value_low, best.value_high])?;
        in_order("best.speedup_low", [best.speedup_low, best.speedup_high])
    }
}

/// The state of a search: more runs follow, or it has ended for a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TuneStop {
    /// More runs follow.
    Running,
    /// Nothing was run (`--dry-run`).
    #[serde(rename = "dry run")]
    DryRun,
    /// No other weights are better by `min_gain` or more.
    Settled,
    /// Noise hides the differences between weights, and more runs would not change this.
    Noise,
    /// The maximum number of runs is reached.
    Runs,
    /// A signal arrived.
    Signal,
    /// The command failed.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProposalDocument {
    pub weights: Vec<u16>,
    pub source: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunePlan {
    pub weights: Vec<u16>,
    pub means: PlacementMeans,
    pub nodes: Vec<PlacedNode>,
    pub settings: Vec<ChangedSetting>,
}

/// The reason for a run of the command. It is a text in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum TrialReason {
    /// The run is a warm-up before the search. Its result does not count.
    WarmUp,
    /// All pages are on the first tier. This run is the reference of the speed-up.
    First,
    /// The weights were proposed before the first run.
    Proposed,
    /// The user listed the weights.
    Listed,
    /// The weights may be better than the best weights so far by up to this percentage.
    Promising(u64),
    /// The weights were run before, and another run narrows the interval of their mean.
    Again,
}

const REASONS: [(TrialReason, &str); 5] = [
    (TrialReason::WarmUp, "warm-up"),
    (TrialReason::First, "all on the first tier"),
    (TrialReason::Proposed, "proposed"),
    (TrialReason::Listed, "listed"),
    (TrialReason::Again, "again, for confidence"),
];

/// The texts before and after the percentage of [`TrialReason::Promising`].
const PROMISING: (&str, &str) = ("may be up to ", " % better");

impl From<Why> for TrialReason {
    fn from(why: Why) -> Self {
        match why {
            Why::First => Self::First,
            Why::Proposed => Self::Proposed,
            Why::Listed => Self::Listed,
            Why::Promising(gain) => Self::Promising((100.0 * gain).round_ties_even() as u64),
            Why::Again => Self::Again,
        }
    }
}

impl From<TrialReason> for String {
    fn from(reason: TrialReason) -> Self {
        reason.to_string()
    }
}

impl TryFrom<String> for TrialReason {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (before, after) = PROMISING;
        let percent = text.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        if let Some(percent) = percent.and_then(|percent| percent.parse().ok()) {
            return Ok(Self::Promising(percent));
        }
        let known = REASONS.iter().find(|(_, name)| *name == text);
        known.map(|(reason, _)| *reason).ok_or_else(|| format!("\"{text}\" is no reason of a run"))
    }
}

impl fmt::Display for TrialReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Promising(percent) = self {
            let (before, after) = PROMISING;
            return write!(f, "{before}{percent}{after}");
        }
        let name = REASONS.iter().find(|(reason, _)| reason == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

/// One run of the command with one choice of weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialDocument {
    pub weights: Vec<u16>,
    pub tier_share: Vec<f64>,
    /// Reason for this run.
    pub why: TrialReason,
    pub seconds: f64,
    /// Metric that the run printed; null when the runtime is compared.
    pub value: Option<f64>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Fraction of the memory that bypassed the placement policy, 0 to 1; null without a placement
    /// audit.
    pub escaped_share: Option<f64>,
}

/// The best weights, with their value and their speed-up. The intervals contain the true value with
/// a probability of 90 %.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneBest {
    pub weights: Vec<u16>,
    /// Geometric mean of the runtime, s, or of the metric, over the runs with `weights`.
    pub value: f64,
    pub value_low: f64,
    pub value_high: f64,
    /// Speed-up over all pages on the first tier.
    pub speedup: f64,
    pub speedup_low: f64,
    pub speedup_high: f64,
}

#[derive(Clone, Debug)]
pub struct TuneRequest {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The pattern that finds the metric in the command's output. With `None`, the runtime is
    /// compared.
    pub metric: Option<String>,
    /// True if a higher metric is better.
    pub higher_is_better: bool,
    /// Number of warm-up runs before the search. Their results do not count.
    pub warm_up: usize,
    /// True if the search is only planned, and nothing is run.
    pub dry_run: bool,
}

impl TuneDocument {
    /// Creates the document of a search before its first run. `source` says where the proposed
    /// weights come from.
    pub fn new(request: TuneRequest, search: &Search, source: &str) -> Self {
        Self {
            schema: SCHEMA.into(),
            command: request.command,
            metric: request.metric,
            higher_is_better: request.higher_is_better,
            min_gain: search.min_gain,
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
            stopped: if request.dry_run { TuneStop::DryRun } else { TuneStop::Running },
            stopped_because: if request.dry_run { "nothing was run" } else { "it runs" }.into(),
        }
    }

    /// Adds the plan for `weights`, which will be among the first to run. Does nothing if the
    /// document already has a plan for `weights`.
    pub fn add_plan(&mut self, weights: &Weights, planned: &RunDocument) {
        let weights = weights.as_slice().to_vec();
        if self.plan.iter().all(|plan| plan.weights != weights) {
            self.plan.push(TunePlan {
                weights,
                means: planned.means,
                nodes: planned.nodes.clone(),
                settings: planned.settings.clone(),
            });
        }
    }

    /// Sets the result so far, `finding`. Does nothing if there is no result yet.
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

    /// Sets the final result, and the reason why the search stopped.
    pub fn finish(&mut self, finding: &Finding) {
        self.update(Some(finding));
        let min_gain = 100.0 * self.min_gain;
        match finding.stop {
            Stop::Settled => {
                self.stop(
                    TuneStop::Settled,
                    format!("no other weights are better by {min_gain} % or more"),
                );
            }
            Stop::Noise => {
                let because =
                    "the differences are noise, which the remaining runs would not change";
                self.stop(TuneStop::Noise, because.into());
            }
            Stop::Runs => self.stop(TuneStop::Runs, format!("all {} runs are made", self.runs_max)),
        }
    }

    pub fn stop(&mut self, stopped: TuneStop, because: String) {
        self.stopped = stopped;
        self.stopped_because = because;
    }
}

impl TrialDocument {
    /// Creates the document of a run that took `elapsed`. The metric is not set yet.
    pub fn new(weights: &Weights, why: TrialReason, elapsed: Duration, run: &RunDocument) -> Self {
        Self {
            weights: weights.as_slice().to_vec(),
            tier_share: super::all_rounded(&weights.shares()),
            why,
            seconds: rounded(elapsed.as_secs_f64()),
            value: None,
            exit_code: run.exit_code,
            signal: run.signal,
            escaped_share: run.memory.as_ref().map(|memory| memory.escaped_share),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_runs_are_strings_in_documents() {
        for (reason, text) in [
            (TrialReason::WarmUp, "\"warm-up\""),
            (Why::First.into(), "\"all on the first tier\""),
            (Why::Proposed.into(), "\"proposed\""),
            (Why::Listed.into(), "\"listed\""),
            (Why::Promising(0.125).into(), "\"may be up to 12 % better\""),
            (Why::Again.into(), "\"again, for confidence\""),
        ] {
            assert_eq!(serde_json::to_string(&reason).unwrap(), text);
            assert_eq!(serde_json::from_str::<TrialReason>(text).unwrap(), reason);
        }
        let why = serde_json::from_str::<TrialReason>("\"a guess\"").unwrap_err().to_string();
        assert!(why.starts_with("\"a guess\" is no reason of a run"), "{why}");
    }
}
