//! Checks the command bus and the data bus of a sub-channel.

use super::{Class, Violation, rules::Rules, violation};
use crate::dimm::command::Command;

/// The command bus of a sub-channel. The pseudo-channels share the bus: the clocks of their
/// commands alternate.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandBus {
    /// The last command of each pseudo-channel; `None` before its first command.
    last: [Option<Command>; 2],
}

impl CommandBus {
    pub(super) fn check(&self, rules: &Rules, command: &Command) -> Result<(), Violation> {
        let clocks = rules.host_clocks;
        if command.at % clocks != u64::from(command.pseudo) % clocks {
            return Err(violation("clock of another pseudo-channel", command));
        }
        for last in self.last.iter().flatten() {
            if command.at < last.at {
                let earlier = Some(*last);
                return Err(Violation { earlier, ..violation("order of time", command) });
            }
        }
        let Some(earlier) = self.last[usize::from(command.pseudo)] else { return Ok(()) };
        let limit = rules.slots(Class::of(earlier.kind));
        let cycles = command.at - earlier.at;
        if cycles < limit {
            let earlier = Some(earlier);
            return Err(Violation { rule: "command bus", earlier, later: *command, cycles, limit });
        }
        Ok(())
    }

    pub(super) fn remember(&mut self, command: &Command) {
        self.last[usize::from(command.pseudo)] = Some(*command);
    }
}

#[derive(Clone, Copy, Debug)]
struct Burst {
    command: Command,
    write: bool,
    /// The host's clock at the start of the DRAM clock in which the command was issued.
    clock: u64,
    /// Host clocks from `clock` to the start of the data.
    latency: u64,
}

/// The data bus. Transfers of the two pseudo-channels alternate, so bursts of different
/// pseudo-channels may overlap in time if both are reads or both are writes.
#[derive(Clone, Debug, Default)]
pub(super) struct DataBus {
    /// The last burst of each pseudo-channel, rank and direction.
    bursts: Vec<Burst>,
}

impl DataBus {
    pub(super) fn check(&self, rules: &Rules, command: &Command) -> Result<(), Violation> {
        let Some(burst) = Burst::of(rules, command) else { return Ok(()) };
        for earlier in &self.bursts {
            let (rule, gap) = match rules.gap(&earlier.command, command) {
                Some(gap) => gap,
                None => continue,
            };
            // The minimum distance between the two commands, so that their data are at least `gap`
            // apart on the bus.
            let limit = (earlier.latency + rules.burst + gap).saturating_sub(burst.latency);
            let cycles = burst.clock.saturating_sub(earlier.clock);
            if burst.start() < earlier.start() + rules.burst + gap {
                let earlier = Some(earlier.command);
                return Err(Violation { rule, earlier, later: *command, cycles, limit });
            }
        }
        Ok(())
    }

    pub(super) fn remember(&mut self, rules: &Rules, command: &Command) {
        let Some(burst) = Burst::of(rules, command) else { return };
        let place = |burst: &Burst| (burst.command.pseudo, burst.command.rank, burst.write);
        match self.bursts.iter_mut().find(|earlier| place(earlier) == place(&burst)) {
            Some(earlier) => *earlier = burst,
            None => self.bursts.push(burst),
        }
    }
}

impl Burst {
    fn of(rules: &Rules, command: &Command) -> Option<Self> {
        let (write, latency) = match Class::of(command.kind) {
            Class::Read => (false, rules.read_latency),
            Class::Write => (true, rules.write_latency),
            _ => return None,
        };
        // The second pseudo-channel issues its command half a clock of the DRAM after the first.
        // The register of the module forwards both commands together. The data of both commands are
        // therefore counted from the start of the DRAM clock (`clock`).
        let clock = command.at - command.at % rules.host_clocks;
        Some(Self { command: *command, write, clock, latency })
    }

    const fn start(&self) -> u64 {
        self.clock + self.latency
    }
}
