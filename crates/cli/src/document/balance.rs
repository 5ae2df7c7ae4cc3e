//! What the daemon does, a line of JSON for each period: `interleaf.balance/1`.

use interleaf_linux::host::Host;
use interleaf_model::{control::DomainPeriod, weights::Weights};
use serde::{Deserialize, Serialize};

pub(crate) const SCHEMA: &str = "interleaf.balance/1";

/// What happened in a period, in one domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PeriodDocument {
    pub(crate) schema: String,
    pub(crate) time_s: f64,
    pub(crate) domain: String,
    /// The nodes of its tiers, the fastest first.
    pub(crate) nodes: Vec<u32>,
    /// Where pages should go, in points of a hundred.
    pub(crate) target_weights: Vec<u16>,
    /// Where the pages of its scopes are, 0 to 1; absent when nobody could look.
    pub(crate) reached_share: Option<Vec<f64>>,
    /// The same in bytes.
    #[serde(default)]
    pub(crate) reached_bytes: Option<Vec<u64>>,
    /// The mean of the period; absent when nothing was counted.
    pub(crate) bandwidth_gbps: Option<f64>,
    pub(crate) tier_bandwidth_gbps: Vec<f64>,
    pub(crate) tier_latency_ns: Vec<Option<f64>>,
    /// Pages that moved, of the whole machine.
    pub(crate) migrated_bytes: u64,
    /// In a word, what was decided.
    pub(crate) decision: String,
    /// Why.
    pub(crate) reason: String,
}

impl PeriodDocument {
    pub(crate) fn new(host: &Host<'_>, at: usize, time_s: f64, period: &DomainPeriod) -> Self {
        use interleaf_model::machine::Machine;
        let layout = host.layout();
        let domain = &layout.domains[at];
        let nodes: Vec<u32> = domain.tiers.iter().map(|tier| host.nodes()[*tier]).collect();
        let gbps = period.tier_bandwidth_gbps.iter();
        let reached_bytes = reached(host, at, &nodes);
        Self {
            schema: SCHEMA.into(),
            time_s: super::rounded(time_s),
            domain: domain.name.clone(),
            target_weights: Weights::percent(&period.verdict.shares).as_slice().to_vec(),
            reached_share: reached_bytes.as_deref().map(shares),
            reached_bytes,
            bandwidth_gbps: period.seen.as_ref().map(|seen| super::rounded(seen.mean_gbps)),
            tier_bandwidth_gbps: gbps.map(|gbps| super::rounded(*gbps)).collect(),
            tier_latency_ns: period
                .tier_latency_ns
                .iter()
                .map(|latency| latency.map(super::rounded))
                .collect(),
            migrated_bytes: period.migrated_bytes,
            decision: period.verdict.action.into(),
            reason: period.verdict.reason.clone(),
            nodes,
        }
    }
}

/// Where the pages of a domain's scopes are, bytes on each of its nodes.
fn reached(host: &Host<'_>, domain: usize, nodes: &[u32]) -> Option<Vec<u64>> {
    use interleaf_model::machine::Machine;
    let scopes = host.layout().scopes.iter().zip(host.followed());
    let of_domain = scopes.filter(|(scope, _)| scope.domain == domain);
    let on: Vec<_> = of_domain.filter_map(|(_, followed)| followed.on.as_ref()).collect();
    let bytes: Vec<u64> = nodes.iter().map(|node| on.iter().map(|on| on.on(*node)).sum()).collect();
    bytes.iter().any(|bytes| *bytes > 0).then_some(bytes)
}

fn shares(bytes: &[u64]) -> Vec<f64> {
    let total: u64 = bytes.iter().sum();
    bytes.iter().map(|bytes| super::rounded(*bytes as f64 / total as f64)).collect()
}
