//! The periods of a daemon so far.

use interleaf_record::balance::BalancePeriod;
use std::collections::VecDeque;

/// Periods that are kept and drawn: a quarter of an hour of 6 s each.
const KEPT: usize = 150;

/// The last periods of each domain.
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
        // Periods from before a tier came or went belong to another machine.
        if domain.back().is_some_and(|last| last.nodes != period.nodes) {
            domain.clear();
        }
        domain.push_back(period);
        if domain.len() > KEPT {
            domain.pop_front();
        }
    }

    /// The number of domains.
    pub(super) fn domains(&self) -> usize {
        self.domains.len()
    }

    /// The periods of a domain, counted from 0; there is at least one.
    pub(super) fn periods(&self, domain: usize) -> Option<&VecDeque<BalancePeriod>> {
        self.domains.get(domain)
    }
}
