//! Checks independently every command that a controller issues to a device.
//!
//! The checker is written from the timing tables alone and shares no code with the scheduler. It
//! keeps the last command of each class for each bank, bank group and rank. For each rank it also
//! keeps the last four activations, and the last read and the last write on the data bus. For each
//! pseudo-channel it keeps the last command on the command bus. A new command is compared with each
//! command that a rule names, pair by pair. The checker has no queues, ready times or cached
//! results, so it does not repeat errors in these parts of the scheduler.
//!
//! A rule is a minimum distance, and commands come in order of time. An earlier command of the same
//! class at the same bank is further away, so the last command of each class is enough.
//!
//! The figure shows the level at which each rule applies:
//! ```text
//! sub-channel ── pseudo-channel ── rank ── bank group ── bank
//!  command bus    (MRDIMM: 2)       tFAW    tRRD_L        tRCD tRAS tRP
//!  data bus                         tRFC    tCCD_L        open row
//! ```

mod bus;
mod history;
mod refresh;
mod rules;
#[cfg(test)]
mod tests;

pub use refresh::RefreshRules;
pub use rules::{Class, LeastDistance, Rules, Scope, Shape};

use super::{
    command::{Command, Kind, Observer},
    device::Device,
};
use bus::{CommandBus, DataBus};
use core::fmt;
use history::{Bank, Group, Rank};
use refresh::RefreshHistory;
use rules::LastCommands;

/// A command that violates a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The name of the rule: JEDEC's name of the limit, such as `tRCD`, or a few words, such as
    /// `bank is open`.
    pub rule: &'static str,
    /// The earlier command, from which the rule counts the clocks; `None` for a rule about a single
    /// command.
    pub earlier: Option<Command>,
    /// The command that came too early, or is not allowed at all.
    pub later: Command,
    /// The clocks of the host between the two commands; 0 for a rule that is not about time.
    pub cycles: u64,
    /// The limit of the tables: the minimum number of clocks between the two commands, or the
    /// maximum if the rule is about a late refresh.
    pub limit: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, earlier, later, cycles, limit } = self;
        write!(f, "{rule}: {}", CommandText(later))?;
        if let Some(earlier) = earlier {
            write!(f, " after {}", CommandText(earlier))?;
        }
        if *limit > 0 {
            write!(f, ": {cycles} cycles, the limit is {limit}")?;
        }
        Ok(())
    }
}

struct CommandText<'a>(&'a Command);

impl fmt::Display for CommandText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Command { at, kind, pseudo, rank, bank_group, bank, row, column } = self.0;
        let name = kind.name();
        write!(f, "{name} at {at} (pseudo-channel {pseudo}, rank {rank}, ")?;
        write!(f, "bank {bank_group}.{bank}, row {row}, column {column})")
    }
}

/// A placeholder for the later command of a violation that [`Checker::finish`] reports. A refresh
/// that is overdue at the end of a run has no later command.
const END: Command = Command {
    at: 0,
    kind: Kind::RefreshAll,
    pseudo: 0,
    rank: 0,
    bank_group: 0,
    bank: 0,
    row: 0,
    column: 0,
};

/// Maximum number of violations that the checker keeps; further violations are only counted.
const KEPT_MAX: usize = 16;

/// Checks the commands of one sub-channel, in the order in which they were issued.
#[derive(Clone, Debug)]
pub struct Checker {
    rules: Rules,
    /// The ranks of the first pseudo-channel, then the ranks of the second.
    ranks: Vec<Rank>,
    command_bus: CommandBus,
    data_bus: DataBus,
    commands: u64,
    violations: Vec<Violation>,
    violated: u64,
}

impl Checker {
    /// Creates a checker for one sub-channel of `device`. The checker's time begins at clock 0 of
    /// the host.
    pub fn new(device: &Device) -> Self {
        Self::with_rules(Rules::new(device))
    }

    /// Creates a checker that compares commands with `rules`. Its time begins at clock 0 of the
    /// host.
    pub fn with_rules(rules: Rules) -> Self {
        let shape = rules.shape;
        let bank = Bank::default();
        let group = Group { last: LastCommands::default(), banks: vec![bank; shape.banks] };
        let refresh = RefreshHistory::new(shape.banks);
        let groups = vec![group; shape.groups];
        let rank = Rank { last: LastCommands::default(), groups, activations: [None; 4], refresh };
        Self {
            ranks: vec![rank; shape.pseudos * shape.ranks],
            command_bus: CommandBus::default(),
            data_bus: DataBus::default(),
            commands: 0,
            violations: vec![],
            violated: 0,
            rules,
        }
    }

    /// Returns the number of commands that were checked.
    pub const fn commands(&self) -> u64 {
        self.commands
    }

    /// Returns the number of violations, and the first [`KEPT_MAX`] violations.
    pub fn violations(&self) -> (u64, &[Violation]) {
        (self.violated, &self.violations)
    }

    /// Checks the next command. Adds the command to the history, even if the command violates a
    /// rule, unless the address of the command does not exist.
    ///
    /// # Errors
    /// If the command violates a rule. The error is the first violation.
    pub fn check(&mut self, command: &Command) -> Result<(), Violation> {
        self.commands += 1;
        if !self.rules.shape.has(command) {
            return Err(violation("no such place", command));
        }
        let verdict = self.verdict(command);
        self.remember(command);
        verdict
    }

    /// Checks that no refresh is overdue at the end `at` of a run.
    ///
    /// # Errors
    /// If a refresh is overdue. The error is the violation of the first rank with an overdue
    /// refresh.
    pub fn finish(&mut self, at: u64) -> Result<(), Violation> {
        for (place, rank) in self.ranks.iter().enumerate() {
            let ranks = self.rules.shape.ranks;
            let (pseudo, rank_of) = ((place / ranks) as u8, (place % ranks) as u8);
            let end = Command { at, pseudo, rank: rank_of, ..END };
            rank.refresh.late(&self.rules.refresh, &end)?;
        }
        Ok(())
    }

    fn verdict(&self, command: &Command) -> Result<(), Violation> {
        self.command_bus.check(&self.rules, command)?;
        self.state(command)?;
        self.pairs(command)?;
        let rank = self.rank(command);
        rank.four_activations(&self.rules, command)?;
        rank.refresh.late(&self.rules.refresh, command)?;
        self.data_bus.check(&self.rules, command)
    }

    /// Checks that banks are open or closed as the command requires.
    fn state(&self, command: &Command) -> Result<(), Violation> {
        let rank = self.rank(command);
        let rules = &self.rules;
        match command.kind {
            Kind::Activate => rank.bank(command).closed(rules, command),
            Kind::Read | Kind::ReadAuto | Kind::Write | Kind::WriteAuto => {
                rank.bank(command).has_row(command)
            }
            Kind::RefreshAll => rank.banks().try_for_each(|bank| bank.closed(rules, command)),
            Kind::RefreshSame => {
                rank.banks_of(command.bank).try_for_each(|bank| bank.closed(rules, command))
            }
            // A precharge of a closed bank is allowed, and has no effect.
            Kind::Precharge | Kind::PrechargeAll => Ok(()),
        }
    }

    /// Checks the minimum distances from earlier commands of the rank.
    fn pairs(&self, command: &Command) -> Result<(), Violation> {
        let rank = self.rank(command);
        for pair in self.rules.pairs(Class::of(command.kind)) {
            let far = |last: &LastCommands| pair.far(last, command);
            match pair.scope {
                Scope::Bank => rank.banks_under(command).try_for_each(|bank| far(&bank.last))?,
                Scope::Group => rank.groups_under(command).try_for_each(|g| far(&g.last))?,
                Scope::Rank => far(&rank.last)?,
            }
        }
        Ok(())
    }

    fn remember(&mut self, command: &Command) {
        let place = self.place(command);
        let Self { rules, ranks, command_bus, data_bus, .. } = self;
        command_bus.remember(command);
        data_bus.remember(rules, command);
        ranks[place].remember(rules, command);
    }

    fn rank(&self, command: &Command) -> &Rank {
        &self.ranks[self.place(command)]
    }

    fn place(&self, command: &Command) -> usize {
        usize::from(command.pseudo) * self.rules.shape.ranks + usize::from(command.rank)
    }
}

impl Observer for Checker {
    fn command(&mut self, command: &Command) {
        if let Err(violation) = self.check(command) {
            self.violated += 1;
            if self.violations.len() < KEPT_MAX {
                self.violations.push(violation);
            }
        }
    }
}

/// Returns a violation of a rule that is not about time.
const fn violation(rule: &'static str, later: &Command) -> Violation {
    Violation { rule, earlier: None, later: *later, cycles: 0, limit: 0 }
}
