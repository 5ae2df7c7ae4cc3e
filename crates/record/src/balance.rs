//! The documents of `interleaf balance`: a line of JSON for each control period of a domain
//! (`interleaf.balance/1`), the advice at the end of `--advise` (`interleaf.balance.advice/1`), and
//! the plan of `--dry-run` (`interleaf.balance.plan/1`).
//!
//! The weight of a node is the percentage of all pages that are on it. Lists with an element per
//! node are in the order of the field `nodes`, fastest node first.

mod figures;

pub use figures::figures;

use super::{
    check::{Check, Checked, same_length},
    figure::Figure,
};
use interleaf_linux::place::actuator::ActuatorKind;
use interleaf_model::{
    control::DomainPeriod,
    machine::{Layout, Machine as _},
    weights::Weights,
};
use interleaf_observe::host::Host;
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.balance/1";

/// A control period of one domain: the measured traffic, and the decision of the policy
/// (`interleaf.balance/1`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BalancePeriod {
    pub schema: String,
    pub time_s: f64,
    pub domain: String,
    /// Nodes of the domain's tiers, fastest first.
    pub nodes: Vec<u32>,
    /// Target share of each node in `nodes`, percent of the pages.
    pub target_weights: Vec<u16>,
    /// Share of the pages of the domain's scopes on each node, 0 to 1; null when the placement was
    /// not sampled.
    pub reached_share: Option<Vec<f64>>,
    /// Bytes of the domain's scopes on each node; null when unknown.
    #[serde(default)]
    pub reached_bytes: Option<Vec<u64>>,
    /// Mean bandwidth of the domain in the period, GB/s; null when no source counts the traffic.
    pub bandwidth_gbps: Option<f64>,
    pub tier_bandwidth_gbps: Vec<f64>,
    pub tier_latency_ns: Vec<Option<f64>>,
    /// Bytes migrated in the period on the whole machine, for all domains.
    pub migrated_bytes: u64,
    /// The decision of the policy for this period, as a short name.
    pub decision: String,
    /// The reason for `decision`, in words.
    pub reason: String,
    /// Advice from the traffic of this period; only with `--advise`.
    #[serde(flatten)]
    pub advice: Option<AdviceDocument>,
}

/// The content of the file of `interleaf balance -o FILE`. Each run appends its lines to this file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BalanceLog {
    /// The runs of `interleaf balance` whose lines are in the file, oldest first.
    pub runs: Vec<BalanceRun>,
}

/// The lines of one run of `interleaf balance`: one for each period and domain, in order of time.
/// With `--advise`, a line with the advice for each domain follows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BalanceRun {
    pub periods: Vec<BalancePeriod>,
    pub advice: Vec<SummaryDocument>,
}

/// Advice on the placement of a domain's pages, from the traffic of a period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdviceDocument {
    /// Best share of each node in `nodes`, percent of the pages; null when neither curves nor rated
    /// bandwidths are known.
    pub advised_weights: Option<Vec<u16>>,
    /// Gain in bandwidth with `advised_weights`, as a fraction of the bandwidth with the current
    /// placement; null when unknown.
    pub gain: Option<f64>,
    pub gain_is: GainBasis,
    /// True if the first tier is not saturated, and would alone give about as much bandwidth as the
    /// current placement.
    pub is_unsaturated: bool,
    /// Bytes of the domain's pages that would migrate to reach `advised_weights`; null when the
    /// placement is unknown.
    pub would_move_bytes: Option<u64>,
}

/// The meaning of `gain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GainBasis {
    /// The gain that the curves of the platform predict.
    Predicted,
    /// An upper bound of the gain: no tier is assumed to exceed the bandwidth that the firmware
    /// rates.
    #[serde(rename = "at most")]
    AtMost,
    /// The gain is unknown: there are neither curves nor rated bandwidths.
    Unknown,
}

display_word!(GainBasis);

impl BalanceLog {
    /// Adds the period in the next line of the file. Begins a new run if the last run ended before
    /// this period.
    pub(crate) fn add_period(&mut self, period: BalancePeriod) {
        let is_new = self.runs.last().is_none_or(|run| run.has_ended_before(&period));
        self.run(is_new).periods.push(period);
    }

    /// Adds the advice in the next line of the file. Begins a new run if the last run already has
    /// advice for the same domain.
    pub(crate) fn add_advice(&mut self, advice: SummaryDocument) {
        let has_domain =
            |run: &BalanceRun| run.advice.iter().any(|known| known.domain == advice.domain);
        let is_new = self.runs.last().is_none_or(has_domain);
        self.run(is_new).advice.push(advice);
    }

    /// Returns the last run. First adds an empty run if `is_new`.
    fn run(&mut self, is_new: bool) -> &mut BalanceRun {
        if is_new {
            self.runs.push(BalanceRun::default());
        }
        let last = self.runs.len() - 1;
        &mut self.runs[last]
    }

    /// Returns the periods of the last run in the file.
    pub fn last_periods(&self) -> &[BalancePeriod] {
        self.runs.last().map_or(&[], |run| &run.periods)
    }

    /// Returns the text of the file: for each run, a line of JSON per period, and then a line per
    /// advice.
    pub fn text(&self) -> String {
        let lines = self.runs.iter().flat_map(|run| {
            let periods = run.periods.iter().map(super::json_line);
            periods.chain(run.advice.iter().map(super::json_line))
        });
        lines.map(|line| line + "\n").collect()
    }

    /// Returns the figures of the last run: shares, bandwidth and migrated bytes over time.
    pub fn figures(&self) -> Vec<Figure> {
        figures(self.last_periods())
    }
}

impl BalanceRun {
    /// True if `period`, from the next line of the file, belongs to a later run than this one. In
    /// each run, the time of a domain's periods begins at 0 and increases, and the advice comes
    /// last.
    fn has_ended_before(&self, period: &BalancePeriod) -> bool {
        let mut own = self.periods.iter().rev().filter(|known| known.domain == period.domain);
        let is_repeated = own.next().is_some_and(|known| period.time_s <= known.time_s);
        let is_earlier = self.periods.last().is_some_and(|last| period.time_s < last.time_s);
        is_repeated || is_earlier || !self.advice.is_empty()
    }
}

impl Check for BalancePeriod {
    fn check(&self) -> Checked {
        self.check_lists("")
    }
}

impl BalancePeriod {
    /// Checks that `target_weights` and `reached_share` have an element for each node. Errors name
    /// the fields after the prefix `path`.
    pub(crate) fn check_lists(&self, path: &str) -> Checked {
        let nodes = self.nodes.len();
        let of_node =
            |name: &str, found: usize| same_length(format!("{path}{name}"), found, nodes, "nodes");
        of_node("target_weights", self.target_weights.len())?;
        of_node("reached_share", self.reached_share.as_ref().map_or(nodes, Vec::len))
    }

    /// Creates the document of a control period on the running machine. `at` is the index of its
    /// domain in the layout of `host`.
    pub fn new(host: &Host<'_>, at: usize, time_s: f64, period: &DomainPeriod) -> Self {
        let layout = host.layout();
        let near = layout.domains[at].tiers.iter().map(|tier| host.nodes()[*tier]);
        let reached_bytes = reached_bytes(host, at, &near.collect::<Vec<_>>());
        let reached = reached_bytes.as_deref().map(shares);
        let document = Self::for_domain(layout, host.nodes(), at, time_s, period, reached);
        Self { reached_bytes, ..document }
    }

    /// Creates the document of a control period on a real or a simulated machine. `at` is the index
    /// of its domain in `layout`. `nodes` has the node of each tier. `reached` has the share of the
    /// domain's pages on each of the domain's nodes; it is `None` if the placement was not sampled.
    pub fn for_domain(
        layout: &Layout,
        nodes: &[u32],
        at: usize,
        time_s: f64,
        period: &DomainPeriod,
        reached: Option<Vec<f64>>,
    ) -> Self {
        let domain = &layout.domains[at];
        let gbps = period.tier_bandwidth_gbps.iter();
        let latency = period.tier_latency_ns.iter();
        Self {
            schema: SCHEMA.into(),
            time_s: super::rounded(time_s),
            domain: domain.name.clone(),
            nodes: domain.tiers.iter().map(|tier| nodes[*tier]).collect(),
            target_weights: Weights::percent(&period.verdict.shares).as_slice().to_vec(),
            reached_share: reached.map(|shares| super::all_rounded(&shares)),
            reached_bytes: None,
            bandwidth_gbps: period.seen.as_ref().map(|seen| super::rounded(seen.mean_gbps)),
            tier_bandwidth_gbps: gbps.map(|gbps| super::rounded(*gbps)).collect(),
            tier_latency_ns: latency.map(|latency| latency.map(super::rounded)).collect(),
            migrated_bytes: period.migrated_bytes,
            decision: period.verdict.action.into(),
            reason: period.verdict.reason.clone(),
            advice: None,
        }
    }
}

/// Returns the bytes of the scopes of a domain on each of `nodes`; `None` if no page was found on
/// these nodes.
fn reached_bytes(host: &Host<'_>, domain: usize, nodes: &[u32]) -> Option<Vec<u64>> {
    let scopes = host.layout().scopes.iter().zip(host.states());
    let of_domain = scopes.filter(|(scope, _)| scope.domain == domain);
    let on: Vec<_> = of_domain.filter_map(|(_, state)| state.on.as_ref()).collect();
    let bytes: Vec<u64> = nodes.iter().map(|node| on.iter().map(|on| on.on(*node)).sum()).collect();
    bytes.iter().any(|bytes| *bytes > 0).then_some(bytes)
}

fn shares(bytes: &[u64]) -> Vec<f64> {
    let total: u64 = bytes.iter().sum();
    bytes.iter().map(|bytes| *bytes as f64 / total as f64).collect()
}

pub const SUMMARY_SCHEMA: &str = "interleaf.balance.advice/1";

/// The advice for one domain at the end of `balance --advise`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummaryDocument {
    pub schema: String,
    pub domain: String,
    /// Nodes of the domain's tiers, fastest first.
    pub nodes: Vec<u32>,
    /// Number of periods in which traffic was counted.
    pub periods: usize,
    /// Mean bandwidth of the periods in which traffic was counted, GB/s.
    pub bandwidth_gbps: f64,
    /// Share of the domain's pages on each node, 0 to 1; null when the placement is unknown.
    pub reached_share: Option<Vec<f64>>,
    pub policy: String,
    /// Target at the start of the daemon: the share of each node, percent of the pages.
    pub start_weights: Vec<u16>,
    /// The policy's first target after `start_weights`: the share of each node, percent of the
    /// pages.
    pub first_weights: Vec<u16>,
    /// Actuator that would migrate the pages.
    pub way: ActuatorName,
    /// Name or file of the platform whose curves the advice uses; null without a platform.
    pub curves: Option<String>,
    /// The advice of the last period that has advice. `gain`, however, is the mean of the known
    /// gains of all periods.
    #[serde(flatten)]
    pub advice: AdviceDocument,
}

impl Check for SummaryDocument {}

pub const PLAN_SCHEMA: &str = "interleaf.balance.plan/1";

/// The plan that `balance --dry-run` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BalancePlanDocument {
    pub schema: String,
    /// Domains of the machine, each with its nodes, fastest first.
    pub domains: Vec<BalanceDomain>,
    /// The pages that would be steered: those of the machine, of a control group, or of named
    /// processes.
    pub scope: String,
    /// PIDs of the running processes in the scope; null when the scope is not a set of processes.
    pub processes: Option<Vec<u32>>,
    pub policy: String,
    /// Actuator that would migrate the pages.
    pub way: ActuatorName,
    pub way_description: String,
    /// Actuators that are better than `way` but cannot be used, each with the reason.
    pub ways_missing: Vec<String>,
    pub source: SourceDocument,
    /// Warnings about the plan.
    pub notes: Vec<String>,
    /// Target of each domain at the start of the daemon.
    pub start: Vec<PointsDocument>,
    /// Files that the daemon would write to reach `start`, in the order of the writes.
    pub writes: Vec<WriteDocument>,
    /// An example of a later target of each domain: the ratio of the rated bandwidths. Empty when
    /// `start` has this ratio already.
    pub next: Vec<PointsDocument>,
    /// Files that the daemon would write to change from `start` to `next`.
    pub next_writes: Vec<WriteDocument>,
}

impl Check for BalancePlanDocument {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BalanceDomain {
    pub name: String,
    pub nodes: Vec<u32>,
}

/// The target share of each node of a domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointsDocument {
    pub domain: String,
    pub nodes: Vec<NodePoints>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodePoints {
    pub node: u32,
    /// Target share of the pages on the node, percent.
    pub points: u16,
}

/// The actuator that migrates pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActuatorName {
    /// DAMON on the virtual addresses of processes.
    Vaddr,
    /// DAMON on physical addresses. The target shares are the goals of its quota.
    Paddr,
    /// DAMON on physical addresses. Interleaf adjusts its quota.
    Quota,
    /// The system call `move_pages`.
    Pages,
    /// No actuator, so no domain is steered.
    None,
}

display_word!(ActuatorName);

impl From<ActuatorKind> for ActuatorName {
    fn from(kind: ActuatorKind) -> Self {
        match kind {
            ActuatorKind::Vaddr => Self::Vaddr,
            ActuatorKind::Paddr => Self::Paddr,
            ActuatorKind::Quota => Self::Quota,
            ActuatorKind::Pages => Self::Pages,
        }
    }
}

/// The kind of a source that counts traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// Counters of the processor.
    Counters,
    /// A socket to which programs write their traffic.
    Feed,
    /// A recording of counter readings.
    Replay,
}

/// A source that counts traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceDocument {
    pub kind: SourceKind,
    pub is_there: bool,
    pub what: String,
    /// Hint how to get the source; null when it is available.
    pub remedy: Option<String>,
}

impl SourceDocument {
    /// Returns the description of the source. `nothing: ` precedes it if the source is not
    /// available.
    pub fn summary_line(&self) -> String {
        match self.is_there {
            true => self.what.clone(),
            false => format!("nothing: {}", self.what),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WriteDocument {
    pub path: String,
    pub text: String,
    /// Current content of the file; null when the file does not exist.
    pub was: Option<String>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use crate::Document;

    fn line(time_s: f64) -> String {
        format!(
            "{{\"schema\": \"interleaf.balance/1\", \"time_s\": {time_s}, \"domain\": \"cpu\", \
             \"nodes\": [0, 1], \"target_weights\": [90, 10], \"reached_share\": [1, 0], \
             \"bandwidth_gbps\": 400, \"tier_bandwidth_gbps\": [400, 0], \
             \"tier_latency_ns\": [300, null], \"migrated_bytes\": 0, \"decision\": \"hold\", \
             \"reason\": \"as before\"}}\n"
        )
    }

    #[test]
    fn the_last_run_of_a_file_is_shown() {
        let text: String = [6.0, 12.0, 6.0, 12.0, 18.0].map(line).concat();
        let Document::Balance(log) = crate::read("log", &text).unwrap() else { panic!("{text}") };
        let times: Vec<f64> = log.last_periods().iter().map(|period| period.time_s).collect();
        assert_eq!((log.runs.len(), times), (2, vec![6.0, 12.0, 18.0]));
        assert_eq!(log.figures().len(), 2, "nothing was migrated");
        let Document::Balance(again) = crate::read("log", &log.text()).unwrap() else { panic!() };
        assert_eq!(again, log);
    }

    /// Each text stands for the lines of a file. A number is the time of a period of the first
    /// domain. Letters before a number name another domain. Letters alone are the advice for the
    /// domain of this name. `|` is where a new run must begin.
    #[test]
    fn a_run_begins_where_the_time_of_a_domain_does() {
        for file in [
            "6 | 6 12 18",
            "6 12 | 6 | 6",
            "6 m6 12 m12 | 6 m6 | 6 m6",
            "6 m6 12 | m6",
            "6 12 A B | A B | 18 A | 24",
        ] {
            let lines = |run: &str| run.split_whitespace().map(logged).collect::<String>();
            let text: String = file.split('|').map(lines).collect();
            let Document::Balance(log) = crate::read("log", &text).unwrap() else { panic!() };
            let found: Vec<usize> =
                log.runs.iter().map(|run| run.periods.len() + run.advice.len()).collect();
            let expected: Vec<usize> =
                file.split('|').map(|run| run.split_whitespace().count()).collect();
            assert_eq!(found, expected, "{file}");
            let Document::Balance(again) = crate::read("log", &log.text()).unwrap() else {
                panic!()
            };
            assert_eq!(again, log);
        }
    }

    fn logged(word: &str) -> String {
        match (word.parse(), word.strip_prefix('m')) {
            (Ok(time_s), _) => line(time_s),
            (_, Some(time)) => line(time.parse().unwrap()).replace("\"cpu\"", "\"m\""),
            _ => format!(
                "{{\"schema\": \"interleaf.balance.advice/1\", \"domain\": \"{word}\", \
                 \"nodes\": [0], \"periods\": 3, \"bandwidth_gbps\": 400, \
                 \"reached_share\": null, \"policy\": \"guided\", \"start_weights\": [100], \
                 \"first_weights\": [100], \"way\": \"pages\", \"curves\": null, \
                 \"advised_weights\": null, \"gain\": null, \"gain_is\": \"unknown\", \
                 \"is_unsaturated\": false, \"would_move_bytes\": null}}\n"
            ),
        }
    }

    #[test]
    fn errors_name_the_line() {
        let bad = line(6.0).replace("[90, 10]", "[90]");
        let why = crate::read("log", &(line(6.0) + &bad)).unwrap_err().problem;
        assert!(why.starts_with("log: line 2: target_weights: it has 1 element"), "{why}");
        let cut = line(6.0) + "{\"schema\": \"interleaf.balance/1\", \"time";
        let why = crate::read("log", &cut).unwrap_err().problem;
        assert!(why.starts_with("log: line 2:1:"), "{why}");
    }
}
