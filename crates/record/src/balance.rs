//! What the daemon does, a line of JSON for each period: `interleaf.balance/1`.

use interleaf_model::{
    control::DomainPeriod,
    machine::{Layout, Machine as _},
    weights::Weights,
};
use interleaf_observe::host::Host;
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.balance/1";

/// What happened in a period, in one domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BalancePeriod {
    pub schema: String,
    pub time_s: f64,
    pub domain: String,
    /// The nodes of its tiers, the fastest first.
    pub nodes: Vec<u32>,
    /// Where pages should go, in points of a hundred.
    pub target_weights: Vec<u16>,
    /// Where the pages of its scopes are, 0 to 1; absent when nobody could look.
    pub reached_share: Option<Vec<f64>>,
    /// The same in bytes.
    #[serde(default)]
    pub reached_bytes: Option<Vec<u64>>,
    /// The mean of the period; absent when nothing was counted.
    pub bandwidth_gbps: Option<f64>,
    pub tier_bandwidth_gbps: Vec<f64>,
    pub tier_latency_ns: Vec<Option<f64>>,
    /// Pages that moved, of the whole machine.
    pub migrated_bytes: u64,
    /// In a word, what was decided.
    pub decision: String,
    /// Why.
    pub reason: String,
    /// With `--advise`, what would be gained and moved.
    #[serde(flatten)]
    pub advice: Option<AdviceDocument>,
}

/// What is advised, by what was seen in a period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdviceDocument {
    /// Where pages had best be, points of a hundred; null when nothing says.
    pub advised_weights: Option<Vec<u16>>,
    /// How much more bandwidth that gives, as a part of now; null when nothing says.
    pub gain: Option<f64>,
    /// predicted (by curves), at most (by ratings), or unknown.
    pub gain_is: String,
    /// Whether the first tier is not saturated, and alone as good.
    pub is_unsaturated: bool,
    /// Pages that would move, of the scope; null when nobody knows where they are.
    pub would_move_bytes: Option<u64>,
}

impl BalancePeriod {
    /// Of a machine that runs.
    pub fn new(host: &Host<'_>, at: usize, time_s: f64, period: &DomainPeriod) -> Self {
        let layout = host.layout();
        let near = layout.domains[at].tiers.iter().map(|tier| host.nodes()[*tier]);
        let reached_bytes = reached_bytes(host, at, &near.collect::<Vec<_>>());
        let reached = reached_bytes.as_deref().map(shares);
        let document = Self::for_domain(layout, host.nodes(), at, time_s, period, reached);
        Self { reached_bytes, ..document }
    }

    /// Of any machine: the domain at `at` of `layout`, whose tiers are `nodes`.
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

/// Where the pages of a domain's scopes are, bytes on each of its nodes.
fn reached_bytes(host: &Host<'_>, domain: usize, nodes: &[u32]) -> Option<Vec<u64>> {
    let scopes = host.layout().scopes.iter().zip(host.followed());
    let of_domain = scopes.filter(|(scope, _)| scope.domain == domain);
    let on: Vec<_> = of_domain.filter_map(|(_, followed)| followed.on.as_ref()).collect();
    let bytes: Vec<u64> = nodes.iter().map(|node| on.iter().map(|on| on.on(*node)).sum()).collect();
    bytes.iter().any(|bytes| *bytes > 0).then_some(bytes)
}

fn shares(bytes: &[u64]) -> Vec<f64> {
    let total: u64 = bytes.iter().sum();
    bytes.iter().map(|bytes| *bytes as f64 / total as f64).collect()
}

pub const SUMMARY_SCHEMA: &str = "interleaf.balance.advice/1";

/// What is advised for a domain in the end: `balance --advise`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummaryDocument {
    pub schema: String,
    pub domain: String,
    /// The nodes of its tiers, the fastest first.
    pub nodes: Vec<u32>,
    /// Periods in which something was counted.
    pub periods: usize,
    /// The mean of them.
    pub bandwidth_gbps: f64,
    /// Where the pages are; absent when nobody knows.
    pub reached_share: Option<Vec<f64>>,
    pub policy: String,
    /// Where the daemon would send pages first of all, and what its policy would decide then.
    pub start_weights: Vec<u16>,
    pub first_weights: Vec<u16>,
    /// How pages would be moved.
    pub way: String,
    /// The curves that were believed; absent where there are the firmware's ratings at most.
    pub curves: Option<String>,
    /// The last advice; its gain is the mean of all periods.
    #[serde(flatten)]
    pub advice: AdviceDocument,
}

pub const PLAN_SCHEMA: &str = "interleaf.balance.plan/1";

/// What would be set up: `balance --dry-run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BalancePlanDocument {
    pub schema: String,
    /// Domains, with the nodes near each, the fastest first.
    pub domains: Vec<BalanceDomain>,
    /// What is steered: the machine, a control group, or processes by name.
    pub scope: String,
    /// Processes of it that run now; absent of a scope that is not known by its processes.
    pub processes: Option<Vec<u32>>,
    pub policy: String,
    /// How pages would be moved.
    pub way: String,
    pub way_description: String,
    /// Better ways that there are not, and why.
    pub ways_missing: Vec<String>,
    pub source: SourceDocument,
    /// What is to be minded.
    pub notes: Vec<String>,
    /// Where pages are sent before anything was observed.
    pub start: Vec<PointsDocument>,
    /// What would be written for that, in this order.
    pub writes: Vec<WriteDocument>,
    /// Where a decision might send them: in the ratio of the rated bandwidths. Empty when that is
    /// where they are sent at first.
    pub next: Vec<PointsDocument>,
    /// What would be written for that.
    pub next_writes: Vec<WriteDocument>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BalanceDomain {
    pub name: String,
    pub nodes: Vec<u32>,
}

/// Where the pages of a domain go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointsDocument {
    pub domain: String,
    pub nodes: Vec<NodePoints>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodePoints {
    pub node: u32,
    /// Points of a hundred.
    pub points: u16,
}

/// What counts the traffic, or would.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceDocument {
    /// counters, feed or replay.
    pub kind: String,
    pub is_there: bool,
    pub what: String,
    /// What to do where it is not there.
    pub remedy: Option<String>,
}

impl SourceDocument {
    /// In a line.
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
    /// What is in the file now; absent where there is no such file yet.
    pub was: Option<String>,
}
