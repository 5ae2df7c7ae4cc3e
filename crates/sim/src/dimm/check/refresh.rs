//! Checks that refresh commands are issued in time.
//!
//! A refresh is due each tREFI, and up to N refreshes may be postponed: at any time at most N due
//! refreshes have not been issued, and two refreshes are at most N + 1 intervals apart (JESD79-5,
//! 4.13; JESD79-4, 4.26).

use super::Violation;
use crate::dimm::command::{Command, Kind};

/// The refresh intervals of a device, and the number of refreshes that may be postponed. A device
/// without refresh has no intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshRules {
    /// Interval of all-bank refreshes, clocks of the host; `None` without refresh.
    pub all: Option<u64>,
    /// Interval in which each bank gets a same-bank refresh, clocks of the host; `None` for a
    /// device without same-bank refreshes.
    pub same: Option<u64>,
    /// Number of due refreshes that may be postponed at any time.
    pub postponed: u64,
}

/// The refreshes that the banks of a rank have received.
#[derive(Clone, Debug)]
pub(super) struct RefreshHistory {
    /// Entry `i` has the refreshes of the banks with the index `i` in their groups.
    banks: Vec<Refreshed>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Refreshed {
    /// `last` is the last refresh of the bank (`None` before the first). `all` and `same` count the
    /// all-bank and the same-bank refreshes of the bank so far.
    last: Option<Command>,
    all: u64,
    same: u64,
}

impl RefreshHistory {
    pub(super) fn new(banks: usize) -> Self {
        Self { banks: vec![Refreshed::default(); banks] }
    }

    /// Checks that no bank is overdue for refresh at `command`.
    pub(super) fn late(&self, rules: &RefreshRules, command: &Command) -> Result<(), Violation> {
        let Some(all) = rules.all else { return Ok(()) };
        let same = rules.same.unwrap_or(all);
        for bank in &self.banks {
            let earlier = bank.last;
            let by_bank = earlier.is_some_and(|last| last.kind == Kind::RefreshSame);
            let limit = (rules.postponed + 1) * if by_bank { same } else { all };
            let covered = bank.all * all + bank.same * same;
            let since = |from: u64| command.at.saturating_sub(from);
            let apart = since(earlier.map_or(0, |last| last.at));
            let owed = since(covered);
            let cycles = apart.max(owed);
            if cycles > limit {
                let rule = if apart > limit { "tREFI, apart" } else { "tREFI, owed" };
                return Err(Violation { rule, earlier, later: *command, cycles, limit });
            }
        }
        Ok(())
    }

    pub(super) fn remember(&mut self, command: &Command) {
        match command.kind {
            Kind::RefreshAll => {
                for bank in &mut self.banks {
                    (bank.last, bank.all) = (Some(*command), bank.all + 1);
                }
            }
            Kind::RefreshSame => {
                let bank = &mut self.banks[usize::from(command.bank)];
                (bank.last, bank.same) = (Some(*command), bank.same + 1);
            }
            _ => {}
        }
    }
}
