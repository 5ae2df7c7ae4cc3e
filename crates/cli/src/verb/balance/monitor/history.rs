//! The last periods of a daemon, kept for the charts of the monitor.

use interleaf_record::balance::BalancePeriod;
use std::collections::VecDeque;

/// Maximum number of periods that are kept for a domain: 15 minutes if a period is 6 s.
const KEPT: usize = 150;

/// The last periods of each domain (a socket or a sub-NUMA cluster), from oldest to newest. The
/// domains are in the order in which they were first reported.
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
        // If the period has other nodes than the period before, a tier was added or removed. Drop
        // the older periods: the charts find a tier by its index, which has changed.
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

    /// Returns the periods of a domain, oldest first. `domain` counts from 0, in the order in which
    /// the domains were first reported.
    pub(super) fn periods(&self, domain: usize) -> Option<&VecDeque<BalancePeriod>> {
        self.domains.get(domain)
    }
}
