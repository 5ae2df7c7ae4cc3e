//! The three documents of `interleaf balance`: a line of JSON for each control period of a domain
//! (`interleaf.balance/1`), the advice that `--advise` writes at the end
//! (`interleaf.balance.advice/1`), and the plan of `--dry-run` (`interleaf.balance.plan/1`).
//!
//! A weight is the percentage of all pages that are on a node. Every list with one element per node
//! has the order of the field `nodes`, the fastest node first.

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

/// The result of one control period in one domain (`interleaf.balance/1`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BalancePeriod {
    pub schema: String,
    pub time_s: f64,
    pub domain: String,
    /// Nodes of the domain's tiers, fastest first.
    pub nodes: Vec<u32>,
    /// Target share of each node of `nodes`, percent of the pages.
    pub target_weights: Vec<u16>,
    /// Share of the pages of the domain's scopes on each node, 0 to 1; null when placement is not
    /// sampled.
    pub reached_share: Option<Vec<f64>>,
    /// Bytes of the pages of the domain's scopes on each node; null when unknown.
    #[serde(default)]
    pub reached_bytes: Option<Vec<u64>>,
    /// Mean bandwidth of the domain in the period, GB/s; null when no traffic was counted.
    pub bandwidth_gbps: Option<f64>,
    pub tier_bandwidth_gbps: Vec<f64>,
    pub tier_latency_ns: Vec<Option<f64>>,
    /// Bytes migrated in the period on the whole machine, in all domains.
    pub migrated_bytes: u64,
    /// The decision of the policy for this period, as a short name.
    pub decision: String,
    /// The reason for `decision`, in words.
    pub reason: String,
    /// The advice that follows from the period; only with `--advise`.
    #[serde(flatten)]
    pub advice: Option<AdviceDocument>,
}

/// The content of the file of `interleaf balance -o FILE`, to which each run appends its lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BalanceLog {
    /// The runs of `interleaf balance` that wrote to the file, in order of time.
    pub runs: Vec<BalanceRun>,
}

/// The lines that one run of `interleaf balance` wrote: a line of JSON for each period and domain,
/// in order of time. With `--advise`, a line with the advice for each domain follows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BalanceRun {
    pub periods: Vec<BalancePeriod>,
    pub advice: Vec<SummaryDocument>,
}

/// Advice on the placement of pages, from the traffic of a period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdviceDocument {
    /// The best share of each node of `nodes`, percent of the pages; null when neither curves nor
    /// rated bandwidths are known.
    pub advised_weights: Option<Vec<u16>>,
    /// Gain in bandwidth with `advised_weights`, as a fraction of the bandwidth with the current
    /// placement; null when unknown.
    pub gain: Option<f64>,
    pub gain_is: GainBasis,
    /// True if the first tier is not saturated, and a placement of all pages on the first tier
    /// would give about as much bandwidth as the current placement.
    pub is_unsaturated: bool,
    /// Bytes of the scope that would migrate to reach `advised_weights`; null when the placement is
    /// unknown.
    pub would_move_bytes: Option<u64>,
}

/// The way in which `gain` was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GainBasis {
    /// The curves of the platform predict the gain.
    Predicted,
    /// The gain is an upper bound: no tier carries more than the bandwidth that the firmware rates.
    #[serde(rename = "at most")]
    AtMost,
    /// The gain is unknown, because neither curves nor rated bandwidths are known.
    Unknown,
}

display_word!(GainBasis);

impl BalanceLog {
    /// Adds a period, which is the next line of the file. Begins a new run if the last run has
    /// ended.
    pub(crate) fn add_period(&mut self, period: BalancePeriod) {
        let is_new = self.runs.last().is_none_or(|run| run.has_ended_before(&period));
        self.run(is_new).periods.push(period);
    }

    /// Adds the advice for a domain, which is the next line of the file. Begins a new run if the
    /// last run has advice for this domain already.
    pub(crate) fn add_advice(&mut self, advice: SummaryDocument) {
        let has_domain =
            |run: &BalanceRun| run.advice.iter().any(|known| known.domain == advice.domain);
        let is_new = self.runs.last().is_none_or(has_domain);
        self.run(is_new).advice.push(advice);
    }

    /// Returns the last run. If `is_new`, first adds an empty run.
    fn run(&mut self, is_new: bool) -> &mut BalanceRun {
        if is_new {
            self.runs.push(BalanceRun::default());
        }
        let last = self.runs.len() - 1;
        &mut self.runs[last]
    }

    /// The periods of the last run in the file.
    pub fn last_periods(&self) -> &[BalancePeriod] {
        self.runs.last().map_or(&[], |run| &run.periods)
    }

    /// The text of the file. For each run it has a line of JSON for each period, and then a line
    /// for each advice.
    pub fn text(&self) -> String {
        let lines = self.runs.iter().flat_map(|run| {
            let periods = run.periods.iter().map(super::json_line);
            periods.chain(run.advice.iter().map(super::json_line))
        });
        lines.map(|line| line + "\n").collect()
    }

    /// Figures of the shares, the bandwidth and the migration in the last run.
    pub fn figures(&self) -> Vec<Figure> {
        figures(self.last_periods())
    }
}

impl BalanceRun {
    /// True if `period` belongs to a later run than this one. The lines of a run end with its
    /// advice. Within a run, the times of a domain's periods increase. In each run, the time begins
    /// at 0.
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
    /// Checks that `target_weights` and `reached_share` have an element for each node. In errors,
    /// `path` is put before the names of the two fields.
    pub(crate) fn check_lists(&self, path: &str) -> Checked {
        let nodes = self.nodes.len();
        let of_node =
            |name: &str, found: usize| same_length(format!("{path}{name}"), found, nodes, "nodes");
        of_node("target_weights", self.target_weights.len())?;
        of_node("reached_share", self.reached_share.as_ref().map_or(nodes, Vec::len))
    }

    /// The document of a control period on the running machine. `at` is the index of the period's
    /// domain in the layout of `host`.
    pub fn new(host: &Host<'_>, at: usize, time_s: f64, period: &DomainPeriod) -> Self {
        let layout = host.layout();
        let near = layout.domains[at].tiers.iter().map(|tier| host.nodes()[*tier]);
        let reached_bytes = reached_bytes(host, at, &near.collect::<Vec<_>>());
        let reached = reached_bytes.as_deref().map(shares);
        let document = Self::for_domain(layout, host.nodes(), at, time_s, period, reached);
        Self { reached_bytes, ..document }
    }

    /// The document of a control period on a real or a simulated machine. `at` is the index of the
    /// period's domain in `layout`, and `nodes` has the node of each tier. `reached` is the share
    /// of the domain's pages on each of the domain's nodes; `None` if the placement was not
    /// sampled.
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

/// Returns the bytes of all scopes of a domain on each of `nodes`; `None` if no page of the scopes
/// is known to be on these nodes.
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

/// The advice for a domain at the end of `balance --advise`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummaryDocument {
    pub schema: String,
    pub domain: String,
    /// Nodes of the domain's tiers, fastest first.
    pub nodes: Vec<u32>,
    /// Number of periods with counted traffic.
    pub periods: usize,
    /// Mean bandwidth of the periods with counted traffic, GB/s.
    pub bandwidth_gbps: f64,
    /// Share of the domain's pages on each node, 0 to 1; null when the placement is unknown.
    pub reached_share: Option<Vec<f64>>,
    pub policy: String,
    /// The target with which the daemon would start: the share of each node, percent of the pages.
    pub start_weights: Vec<u16>,
    /// The first target that the policy would set after `start_weights`: the share of each node,
    /// percent of the pages.
    pub first_weights: Vec<u16>,
    /// The actuator that would migrate pages.
    pub way: ActuatorName,
    /// The name or the file of the platform whose curves the advice uses; null without a platform.
    pub curves: Option<String>,
    /// The advice of the last period that has advice, except that `gain` is the mean of all known
    /// gains of the periods.
    #[serde(flatten)]
    pub advice: AdviceDocument,
}

impl Check for SummaryDocument {}

pub const PLAN_SCHEMA: &str = "interleaf.balance.plan/1";

/// The plan of `balance --dry-run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BalancePlanDocument {
    pub schema: String,
    /// The domains of the machine, each with its nodes, fastest first.
    pub domains: Vec<BalanceDomain>,
    /// The pages that would be steered: those of the machine, of a control group, or of processes
    /// by name.
    pub scope: String,
    /// PIDs of the running processes in the scope; null for a scope that is not a set of processes.
    pub processes: Option<Vec<u32>>,
    pub policy: String,
    /// The actuator that would migrate pages.
    pub way: ActuatorName,
    pub way_description: String,
    /// Actuators that would be better than `way` but cannot be used, each with the reason.
    pub ways_missing: Vec<String>,
    pub source: SourceDocument,
    /// Warnings about the plan.
    pub notes: Vec<String>,
    /// The target of each domain with which the daemon would start.
    pub start: Vec<PointsDocument>,
    /// Files that the daemon would write to reach `start`, in the order of the writes.
    pub writes: Vec<WriteDocument>,
    /// An example of a later target of each domain: the ratio of the rated bandwidths. Empty when
    /// this ratio equals `start`.
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

/// The target shares of a domain.
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
    /// DAMON on virtual addresses of processes.
    Vaddr,
    /// DAMON on physical addresses, with the target shares as the goals of its quota.
    Paddr,
    /// DAMON on physical addresses, with a quota that Interleaf adjusts.
    Quota,
    /// The system call `move_pages`.
    Pages,
    /// No actuator: no domain is steered.
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

/// The kind of a source of traffic counts.
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

/// The source of traffic counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceDocument {
    pub kind: SourceKind,
    pub is_there: bool,
    pub what: String,
    /// Hint how to get the source; null when the source exists.
    pub remedy: Option<String>,
}

impl SourceDocument {
    /// Returns the description of the source, preceded by `nothing: ` if the source does not exist.
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
    /// Current content of the file; null when the file does not exist yet.
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

    /// Each text stands for the lines of a file: a number is the time of a period, after the name
    /// of its domain unless it is the first domain. A letter alone is the advice for the domain
    /// with this name. `|` stands before the first line of a new run.
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
