//! Keeps the last commands that each bank, bank group and rank received.

use super::{
    Violation,
    refresh::RefreshHistory,
    rules::{Class, LastCommands, Rules},
    violation,
};
use crate::dimm::command::{Command, Kind};

/// The last command of each class that a bank received, and the bank's open row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bank {
    pub(super) last: LastCommands,
    open: Option<u32>,
    /// The access with auto-precharge that closes the bank, and the clock of that precharge; `None`
    /// if the bank was not closed by an auto-precharge.
    closing: Option<(Command, u64)>,
}

impl Bank {
    /// Checks that the bank is closed. If an auto-precharge closed the bank, also checks that tRP
    /// has passed since the auto-precharge; for a precharge command, [`Rules`] has a rule for tRP.
    pub(super) fn closed(&self, rules: &Rules, command: &Command) -> Result<(), Violation> {
        if self.open.is_some() {
            let earlier = self.last.of(Class::Activate).copied();
            return Err(Violation { earlier, ..violation("bank is open", command) });
        }
        let Some((earlier, from)) = self.closing else { return Ok(()) };
        let limit = from - earlier.at + rules.t_rp;
        let cycles = command.at.saturating_sub(earlier.at);
        if cycles < limit {
            let earlier = Some(earlier);
            return Err(Violation { rule: "tRP", earlier, later: *command, cycles, limit });
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Checks that the row that `command` addresses is open.
    pub(super) fn has_row(&self, command: &Command) -> Result<(), Violation> {
        let rule = match self.open {
            None => "bank is closed",
            Some(row) if row != command.row => "another row is open",
            Some(_) => return Ok(()),
        };
        let earlier = self.last.of(Class::Activate).copied();
        Err(Violation { earlier, ..violation(rule, command) })
    }

    fn remember(&mut self, rules: &Rules, command: &Command) {
        self.last.remember(command);
        match command.kind {
            Kind::Activate => (self.open, self.closing) = (Some(command.row), None),
            Kind::Precharge | Kind::PrechargeAll => (self.open, self.closing) = (None, None),
            Kind::ReadAuto | Kind::WriteAuto => {
                // An auto-precharge comes `own` clocks after its access, but not before tRAS has
                // passed since the activation (JESD79-5, 4.9).
                let own = if command.kind == Kind::ReadAuto {
                    rules.read_to_precharge
                } else {
                    rules.write_to_precharge
                };
                let row = self.last.of(Class::Activate).map_or(0, |act| act.at + rules.t_ras);
                self.closing = Some((*command, (command.at + own).max(row)));
                self.open = None;
            }
            Kind::Read | Kind::Write | Kind::RefreshAll | Kind::RefreshSame => {}
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) last: LastCommands,
    pub(super) banks: Vec<Bank>,
}

#[derive(Clone, Debug)]
pub(super) struct Rank {
    pub(super) last: LastCommands,
    pub(super) groups: Vec<Group>,
    /// The last four activations, the oldest first.
    pub(super) activations: [Option<Command>; 4],
    pub(super) refresh: RefreshHistory,
}

impl Rank {
    pub(super) fn bank(&self, command: &Command) -> &Bank {
        &self.groups[usize::from(command.bank_group)].banks[usize::from(command.bank)]
    }

    pub(super) fn banks(&self) -> impl Iterator<Item = &Bank> {
        self.groups.iter().flat_map(|group| &group.banks)
    }

    /// Returns the bank with index `bank` in each group.
    pub(super) fn banks_of(&self, bank: u8) -> impl Iterator<Item = &Bank> {
        self.groups.iter().map(move |group| &group.banks[usize::from(bank)])
    }

    /// Returns the banks that a command addresses.
    pub(super) fn banks_under(&self, command: &Command) -> impl Iterator<Item = &Bank> {
        let all = matches!(command.kind, Kind::PrechargeAll | Kind::RefreshAll);
        let bank = usize::from(command.bank);
        self.groups_under(command).flat_map(move |group| {
            if all { group.banks.iter() } else { group.banks[bank..=bank].iter() }
        })
    }

    /// Returns the bank groups that a command addresses.
    pub(super) fn groups_under(&self, command: &Command) -> impl Iterator<Item = &Group> {
        let group = usize::from(command.bank_group);
        match command.kind {
            Kind::PrechargeAll | Kind::RefreshAll | Kind::RefreshSame => self.groups.iter(),
            _ => self.groups[group..=group].iter(),
        }
    }

    /// Checks tFAW: an activation must be at least tFAW after the fourth last activation of the
    /// rank.
    pub(super) fn four_activations(
        &self,
        rules: &Rules,
        command: &Command,
    ) -> Result<(), Violation> {
        let (Kind::Activate, Some(earlier)) = (command.kind, self.activations[0]) else {
            return Ok(());
        };
        let (cycles, limit) = (command.at.saturating_sub(earlier.at), rules.t_faw);
        if cycles < limit {
            let earlier = Some(earlier);
            return Err(Violation { rule: "tFAW", earlier, later: *command, cycles, limit });
        }
        Ok(())
    }

    pub(super) fn remember(&mut self, rules: &Rules, command: &Command) {
        self.last.remember(command);
        self.refresh.remember(command);
        if command.kind == Kind::Activate {
            self.activations.rotate_left(1);
            self.activations[3] = Some(*command);
        }
        let (all_groups, all_banks) = match command.kind {
            Kind::PrechargeAll | Kind::RefreshAll => (true, true),
            Kind::RefreshSame => (true, false),
            _ => (false, false),
        };
        for (at, group) in self.groups.iter_mut().enumerate() {
            if all_groups || at == usize::from(command.bank_group) {
                group.last.remember(command);
                for (at, bank) in group.banks.iter_mut().enumerate() {
                    if all_banks || at == usize::from(command.bank) {
                        bank.remember(rules, command);
                    }
                }
            }
        }
    }
}
