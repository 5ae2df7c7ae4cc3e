//! The layout of a simulated machine: domains, tiers and scopes in the form of a real machine.

use super::scenario::Scenario;
use interleaf_model::{
    machine::{DomainLayout, Layout, ScopeKind, ScopeLayout, TierLayout},
    mix::Mix,
    platform::Platform,
};

impl Scenario {
    /// The layout of the simulated machine, with one scope for each task.
    pub fn layout(&self) -> Layout {
        let platform = &self.platform;
        let scopes = self.tasks.iter().map(|task| ScopeLayout {
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
}

/// A domain with its near tiers: the tiers that its traffic reaches without crossing a socket link.
/// If all tiers are behind links, all tiers are near.
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

/// A tier as firmware would describe it in its HMAT: read bandwidth and idle latency.
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
