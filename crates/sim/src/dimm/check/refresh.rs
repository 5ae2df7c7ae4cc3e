//! That no row waits for its refresh longer than may be.
//!
//! A refresh is good for one interval, tREFI. Some may be owed: at any time the refreshes that
//! were due, less those that were given, are at most that many; and two refreshes are never
//! further apart than that many intervals and one (JESD79-5, 4.13; JESD79-4, 4.26).

use super::Violation;
use crate::dimm::command::{Command, Kind};

/// The limits of refresh; no intervals where a device needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshRules {
    /// From a refresh of all banks to the next.
    pub all: Option<u64>,
    /// From a refresh of a bank by its number to the next.
    pub same: Option<u64>,
    /// How many may be owed.
    pub postponed: u64,
}

/// The refreshes of a rank.
#[derive(Clone, Debug)]
pub(super) struct Refresh {
    /// By the number of a bank in its group.
    banks: Vec<Refreshed>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Refreshed {
    /// The last of them.
    last: Option<Command>,
    all: u64,
    same: u64,
}

impl Refresh {
    pub(super) fn new(banks: usize) -> Self {
        Self { banks: vec![Refreshed::default(); banks] }
    }

    /// Whether a bank is overdue when `command` comes.
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
