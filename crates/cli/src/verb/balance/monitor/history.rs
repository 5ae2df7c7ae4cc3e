//! The last periods that a daemon has reported, kept for the charts of the monitor.

use interleaf_record::balance::BalancePeriod;
use std::collections::VecDeque;

/// Maximum number of kept periods of a domain: 15 minutes of periods of 6 s.
const KEPT: usize = 150;

/// The last periods of each domain. The domains are in the order of their first reports, the
/// periods of a domain from oldest to newest.
#[derive(Debug, Default)]
pub(super) struct History {
    domains: Vec<VecDeque<BalancePeriod>>,
}

impl History {
    pub(super) fn add(&mut self, period: BalancePeriod) {
        let of = |domain: &VecDeque<BalancePeriod>| {
            domain.back().is_some_and(|last| last.domain == period.domain)
        };
        let at = self.domains.iter().position(of).unwrap_or_else(|| {
            self.domains.push(VecDeque::new());
            self.domains.len() - 1
        });
        let domain = &mut self.domains[at];
        // If the nodes of a period differ from those of the period before, a tier was added or
        // removed. The older periods are then dropped, because their curves have other nodes.
        if domain.back().is_some_and(|last| last.nodes != period.nodes) {
            domain.clear();
        }
        domain.push_back(period);
        if domain.len() > KEPT {
            domain.pop_front();
        }
    }

    pub(super) fn domains(&self) -> usize {
        self.domains.len()
    }

    /// Returns the periods of a domain, the oldest first. `domain` is an index in the order in
    /// which the domains were first reported.
    pub(super) fn periods(&self, domain: usize) -> Option<&VecDeque<BalancePeriod>> {
        self.domains.get(domain)
    }
}
