//! Describes a simulated machine by its domains, tiers and scopes, in the same form as a real
//! machine.

use super::scenario::Scenario;
use interleaf_model::{
    machine::{DomainLayout, Layout, ScopeKind, ScopeLayout, TierLayout},
    mix::Mix,
    platform::Platform,
};

impl Scenario {
    /// Returns the layout of the simulated machine, with one scope for each task.
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

/// Describes domain `at` of `platform` with its local tiers: the tiers that its traffic reaches
/// without crossing a socket link. If all tiers are behind links, all tiers are local.
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

/// Describes tier `at` of `platform` as the HMAT of firmware does: the read bandwidth and the idle
/// latency from the nearest domain. The nearest domain is the domain with the highest read
/// bandwidth from the tier. Among domains with equal bandwidth, the nearest domain has the lowest
/// latency.
fn tier(platform: &Platform, at: usize) -> TierLayout {
    let tier = &platform.tiers[at];
    let ratings = platform.domains.iter().map(|domain| {
        let reads = tier.curves.answer(&domain.name, Mix::READ).response;
        (reads.max_bandwidth_gbps(), reads.idle_latency_ns())
    });
    let nearer = |a: (f64, f64), b: (f64, f64)| {
        if b.0 > a.0 || (b.0 == a.0 && b.1 < a.1) { b } else { a }
    };
    let (rated_gbps, rated_latency_ns) = ratings.reduce(nearer).unwrap_or_default();
    TierLayout {
        name: tier.name.clone(),
        kind: tier.kind,
        capacity_bytes: tier.capacity.get(),
        rated_gbps,
        rated_latency_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interleaf_model::{
        format::platform_toml,
        policy::{Fixed, Policy},
    };

    /// The tiers `dram1` and `cxl1` are memory of the socket `s1`; from the socket `s0`, `dram1`
    /// has a lower bandwidth.
    const PLATFORM: &str = r#"
schema = "interleaf.platform/1"
name = "two"
source = "a test"
cpu = { cores = 16, outstanding_lines_per_core = 48, uncore_latency_ns = 60.0 }
domain = [{ name = "s0", cores = 8 }, { name = "s1", cores = 8 }]
tier = [
    { name = "dram0", kind = "dram", capacity = "1GiB", curves = "s0 500 90; s1 100 180" },
    { name = "dram1", kind = "dram", capacity = "1GiB", curves = "s0 100 180; s1 500 90" },
    { name = "cxl1", kind = "cxl", capacity = "1GiB", curves = "s0 100 400; s1 100 250" },
]
[[link]]
name = "upi"
bandwidth_gbps = 100.0
tiers = ["dram1", "cxl1"]
domains = ["s0"]
provenance = "assumed"
source = "a test"
"#;

    /// Converts `lines` to the CSV of a tier's curves. An entry of `lines` has a domain, its
    /// maximum bandwidth (GB/s) and its idle latency (ns).
    fn curves(lines: &str) -> Result<String, String> {
        let mut text = "mix,bandwidth_gbps,latency_ns,provenance,source,domain\n".to_string();
        for line in lines.split("; ") {
            let [domain, gbps, ns] = line.split(' ').collect::<Vec<_>>()[..] else {
                return Err(line.into());
            };
            text += &format!("R,0,{ns},assumed,a test,{domain}\n");
            text += &format!("R,{gbps},{ns}0,assumed,a test,{domain}\n");
        }
        Ok(text)
    }

    #[test]
    fn a_tier_is_rated_from_its_nearest_domain() {
        let platform = platform_toml::parse("two.toml", PLATFORM, &curves).unwrap();
        let tiers: Vec<TierLayout> = (0..3).map(|at| tier(&platform, at)).collect();
        let ratings: Vec<_> =
            tiers.iter().map(|tier| (tier.rated_gbps, tier.rated_latency_ns)).collect();
        assert_eq!(ratings, [(500.0, 90.0), (500.0, 90.0), (100.0, 250.0)]);
        let near = domain(&platform, 1).tiers;
        assert_eq!(near, [0, 1, 2], "the test platform has no link from s1");
        // Linux divides 32 pages among the nodes in proportion to 500 and 100 GB/s, which gives
        // 26.7 and 5.3 pages, and truncates both numbers: the weights are 26:5.
        assert_eq!(Fixed::bandwidth(&tiers[1..]).start(), [26.0 / 31.0, 5.0 / 31.0]);
    }
}
