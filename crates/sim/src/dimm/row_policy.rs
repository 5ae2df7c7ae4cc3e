//! The row policy, also called page policy, decides if a row without queued requests stays open.
//!
//! An open row answers a row hit in tCL; a row conflict costs tRP + tRCD + tCL, and a row miss in a
//! closed bank tRCD + tCL. The last queued access to a row closes the row with auto-precharge if
//! the queue has a request for another row of the bank. Otherwise the policy decides
//! ([`RowPolicyState::keeps_open`]).
//!
//! To add a policy, add a variant of [`RowPolicy`], its state in [`RowPolicyState`], and its arms
//! in the methods below. No other file decides whether a row without queued requests stays open.

use super::geometry::{BANKS_MAX, CLOSED};

/// The rule by which a row without queued requests stays open or is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowPolicy {
    /// The row is closed only for a request for another row of the bank, or for a refresh.
    Open,
    /// The row is closed after its last queued access.
    Closed,
    /// The history of the bank decides, as a saturating counter from 0 to 3: rows stay open while
    /// the counter is above 1. A row hit raises the counter, and so does the next activation of a
    /// row that was closed too early. A row conflict lowers the counter.
    Adaptive,
}

impl RowPolicy {
    /// All row policies.
    pub const ALL: [Self; 3] = [Self::Open, Self::Closed, Self::Adaptive];

    /// Returns the name of the policy, as users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Adaptive => "adaptive",
        }
    }
}

const COUNTER_MAX: u8 = 3;

/// A row policy, and the history of each bank on which the policy decides.
#[derive(Clone, Debug)]
pub(super) struct RowPolicyState {
    policy: RowPolicy,
    /// The saturating counter of the adaptive policy, for each bank.
    counter: [u8; BANKS_MAX],
    /// For each bank, the row that the last auto-precharge closed; [`CLOSED`] once a row of the
    /// bank is opened again.
    closed_row: [u32; BANKS_MAX],
}

impl RowPolicyState {
    pub(super) fn new(policy: RowPolicy) -> Self {
        Self { policy, counter: [1; BANKS_MAX], closed_row: [CLOSED; BANKS_MAX] }
    }

    /// Returns true if the open row of a bank stays open after its last queued access.
    #[inline]
    pub(super) fn keeps_open(&self, bank: usize) -> bool {
        match self.policy {
            RowPolicy::Open => true,
            RowPolicy::Closed => false,
            RowPolicy::Adaptive => self.counter[bank] > 1,
        }
    }

    /// Records that a row was opened. If the last auto-precharge of the bank closed this row, the
    /// auto-precharge came too early, and the counter of the adaptive policy is raised.
    #[inline]
    pub(super) fn opened(&mut self, bank: usize, row: u32) {
        if self.policy == RowPolicy::Adaptive && self.closed_row[bank] == row {
            self.raise(bank);
        }
        self.closed_row[bank] = CLOSED;
    }

    #[inline]
    pub(super) fn hit(&mut self, bank: usize) {
        if self.policy == RowPolicy::Adaptive {
            self.raise(bank);
        }
    }

    /// Records a row conflict: the open row was closed for a request for another row, so the row
    /// was open for too long.
    #[inline]
    pub(super) fn conflict(&mut self, bank: usize) {
        self.counter[bank] = self.counter[bank].saturating_sub(1);
    }

    /// Records that the row was closed by auto-precharge.
    #[inline]
    pub(super) fn closed(&mut self, bank: usize, row: u32) {
        self.closed_row[bank] = row;
    }

    fn raise(&mut self, bank: usize) {
        self.counter[bank] = (self.counter[bank] + 1).min(COUNTER_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_adaptive_policy_follows_hits_and_conflicts() {
        let mut policy = RowPolicyState::new(RowPolicy::Adaptive);
        assert!(!policy.keeps_open(0), "a bank without history closes its rows");
        policy.closed(0, 7);
        policy.opened(0, 7);
        assert!(policy.keeps_open(0), "the row came back: it was closed too early");
        policy.conflict(0);
        assert!(!policy.keeps_open(0), "another row was wanted");
        (0..9).for_each(|_| policy.hit(0));
        policy.conflict(0);
        assert!(policy.keeps_open(0), "the counter saturates at {COUNTER_MAX}");
        assert!(!policy.keeps_open(1), "each bank has a history of its own");
    }

    #[test]
    fn fixed_policies_ignore_history() {
        for (policy, keeps) in [(RowPolicy::Open, true), (RowPolicy::Closed, false)] {
            let mut policy = RowPolicyState::new(policy);
            assert_eq!(policy.keeps_open(3), keeps);
            policy.hit(3);
            policy.conflict(3);
            assert_eq!(policy.keeps_open(3), keeps);
        }
    }
}
