//! What the simulated machine tells of itself.

use super::scenario::Scenario;
use interleaf_model::{
    machine::{DomainLayout, Layout, ScopeKind, ScopeLayout, TierLayout},
    mix::Mix,
    platform::Platform,
};

/// The layout of `scenario`: one scope for each task.
pub(super) fn layout(scenario: &Scenario) -> Layout {
    let platform = &scenario.platform;
    let scopes = scenario.tasks.iter().map(|task| ScopeLayout {
        name: task.scope.clone(),
        kind: ScopeKind::Cgroup,
        domain: task.domain,
        steered: task.steered,
    });
    Layout {
        domains: (0..platform.domains.len()).map(|at| domain(platform, at)).collect(),
        tiers: (0..platform.tiers.len()).map(|at| tier(platform, at)).collect(),
        scopes: scopes.collect(),
    }
}

/// A domain with the tiers that its traffic reaches over no link of its own: those behind a socket
/// link belong to another one. Where every tier is behind a link, all are near.
fn domain(platform: &Platform, at: usize) -> DomainLayout {
    let far = |tier: &usize| {
        platform.links.iter().any(|link| link.domains.contains(&at) && link.tiers.contains(tier))
    };
    let all: Vec<usize> = (0..platform.tiers.len()).collect();
    let near: Vec<usize> = all.iter().copied().filter(|tier| !far(tier)).collect();
    let domain = &platform.domains[at];
    DomainLayout {
        name: domain.name.clone(),
        cores: domain.cores,
        tiers: if near.is_empty() { all } else { near },
    }
}

/// A tier as firmware tables rate it: what it carries of reads, and its latency without load.
fn tier(platform: &Platform, at: usize) -> TierLayout {
    let tier = &platform.tiers[at];
    let domain = &platform.domains[0].name;
    let reads = tier.curves.answer(domain, Mix::READ).response;
    TierLayout {
        name: tier.name.clone(),
        kind: tier.kind,
        capacity_bytes: tier.capacity.get(),
        rated_gbps: reads.max_bandwidth_gbps(),
        rated_latency_ns: reads.idle_latency_ns(),
    }
}
