//! Turns the timing tables into rules. A rule is the minimum distance between two commands, and the
//! level at which it holds: bank, bank group or rank.

use super::{Violation, refresh::RefreshRules};
use crate::dimm::{
    command::{Command, Kind},
    device::Device,
};

/// Classes of commands that have the same rules. An access with auto-precharge has the class of the
/// access; the bank's history keeps the clock of the auto-precharge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Opens a row.
    Activate,
    /// Reads a burst.
    Read,
    /// Writes a burst.
    Write,
    /// Closes a row, or all rows of a rank.
    Precharge,
    /// Refreshes all banks.
    RefreshAll,
    /// Refreshes one bank of each group.
    RefreshSame,
}

pub(super) const CLASSES: usize = 6;

impl Class {
    /// Returns the class of the commands of the kind `kind`.
    pub const fn of(kind: Kind) -> Self {
        match kind {
            Kind::Activate => Self::Activate,
            Kind::Read | Kind::ReadAuto => Self::Read,
            Kind::Write | Kind::WriteAuto => Self::Write,
            Kind::Precharge | Kind::PrechargeAll => Self::Precharge,
            Kind::RefreshAll => Self::RefreshAll,
            Kind::RefreshSame => Self::RefreshSame,
        }
    }
}

/// The last command of each class that a bank, a bank group or a rank received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastCommands {
    last: [Option<Command>; CLASSES],
}

impl LastCommands {
    pub(super) const fn of(&self, class: Class) -> Option<&Command> {
        self.last[class as usize].as_ref()
    }

    pub(super) const fn remember(&mut self, command: &Command) {
        self.last[Class::of(command.kind) as usize] = Some(*command);
    }
}

/// The level of the hierarchy that the earlier and the later command of a rule share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Both commands address the same bank. A command to several banks (PREab, refresh) addresses
    /// each of them.
    Bank,
    /// Both commands address the same bank group.
    Group,
    /// Both commands address the same rank.
    Rank,
}

/// A rule: the least distance from a command of one class to a later command of the same or another
/// class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastDistance {
    /// The name that JEDEC's standards give to the distance, such as `tRCD`.
    pub name: &'static str,
    /// The level of the hierarchy that both commands must share.
    pub scope: Scope,
    /// The class of the earlier command.
    pub earlier: Class,
    /// The class of the later command.
    pub later: Class,
    /// Minimum distance, in clocks of the host.
    pub cycles: u64,
}

impl LeastDistance {
    /// Checks that `command` comes at least `self.cycles` clocks after the last command of the
    /// class `self.earlier`.
    pub(super) fn far(&self, last: &LastCommands, command: &Command) -> Result<(), Violation> {
        let Some(earlier) = last.of(self.earlier) else { return Ok(()) };
        let (rule, limit) = (self.name, self.cycles);
        let cycles = command.at.saturating_sub(earlier.at);
        if cycles < limit {
            let earlier = Some(*earlier);
            return Err(Violation { rule, earlier, later: *command, cycles, limit });
        }
        Ok(())
    }
}

/// The dimensions of a sub-channel, from the outermost to the innermost: each field counts the
/// units within one unit of the previous field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of pseudo-channels in the sub-channel.
    pub pseudos: usize,
    /// Number of ranks in a pseudo-channel.
    pub ranks: usize,
    /// Number of bank groups in a rank.
    pub groups: usize,
    /// Number of banks in a bank group.
    pub banks: usize,
    /// Number of rows in a bank.
    pub rows: u32,
    /// Number of bursts in a row.
    pub columns: u32,
}

impl Shape {
    /// Checks that the address of a command exists.
    pub(super) fn has(&self, command: &Command) -> bool {
        let Command { kind, pseudo, rank, bank_group, bank, row, column, .. } = *command;
        let rank = usize::from(pseudo) < self.pseudos && usize::from(rank) < self.ranks;
        let group = usize::from(bank_group) < self.groups;
        let bank = usize::from(bank) < self.banks;
        rank && match Class::of(kind) {
            Class::Activate => group && bank && row < self.rows,
            Class::Read | Class::Write => {
                group && bank && row < self.rows && u32::from(column) < self.columns
            }
            Class::Precharge => kind == Kind::PrechargeAll || group && bank,
            Class::RefreshSame => bank,
            Class::RefreshAll => true,
        }
    }
}

/// The rules that the timing tables of a device demand. All times are in clocks of the host.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The dimensions of the sub-channel.
    pub shape: Shape,
    /// Clocks of the host per clock of the DRAM.
    pub host_clocks: u64,
    pub(super) t_rp: u64,
    pub(super) t_ras: u64,
    pub(super) t_faw: u64,
    pub(super) read_to_precharge: u64,
    pub(super) write_to_precharge: u64,
    pub(super) read_latency: u64,
    pub(super) write_latency: u64,
    pub(super) burst: u64,
    pub(super) refresh: RefreshRules,
    t_turn: u64,
    t_rank: u64,
    activate_slots: u64,
    access_slots: u64,
    /// Minimum distances, indexed by the class of the later command.
    pairs: [Vec<LeastDistance>; CLASSES],
}

impl Rules {
    /// Computes the rules from the timing tables of `device`.
    pub fn new(device: &Device) -> Self {
        let t = &device.timing;
        let host = |clocks: u32| u64::from(clocks) * device.host_clocks;
        let every = |clocks: u32| (clocks > 0).then(|| host(clocks));
        let shape = Shape {
            pseudos: device.pseudo_channels as usize,
            ranks: device.ranks as usize,
            groups: device.bank_groups as usize,
            banks: device.banks as usize,
            rows: device.rows,
            columns: device.columns,
        };
        let refresh = RefreshRules {
            all: every(t.t_refi),
            // A same-bank refresh covers the banks with the same index in all groups. The indices
            // take turns, so each bank is refreshed once in `banks` intervals of same-bank
            // refreshes.
            same: every(t.t_refi_sb * device.banks),
            postponed: u64::from(device.refresh_postponed),
        };
        let mut pairs: [Vec<LeastDistance>; CLASSES] = Default::default();
        for pair in least_distances(device) {
            pairs[pair.later as usize]
                .push(LeastDistance { cycles: pair.cycles * device.host_clocks, ..pair });
        }
        Self {
            shape,
            host_clocks: device.host_clocks,
            t_rp: host(t.t_rp),
            t_ras: host(t.t_ras),
            t_faw: host(t.t_faw),
            read_to_precharge: host(t.t_rtp),
            write_to_precharge: host(t.cwl + t.burst + t.t_wr),
            read_latency: host(t.cl),
            write_latency: host(t.cwl),
            burst: host(t.burst),
            refresh,
            t_turn: host(t.t_turn),
            t_rank: host(t.t_rank),
            activate_slots: host(device.activate_slots),
            access_slots: host(device.access_slots),
            pairs,
        }
    }

    pub(super) fn pairs(&self, later: Class) -> &[LeastDistance] {
        &self.pairs[later as usize]
    }

    /// Returns the number of clocks of the host for which a command occupies the command bus of its
    /// pseudo-channel.
    pub(super) const fn slots(&self, class: Class) -> u64 {
        match class {
            Class::Activate => self.activate_slots,
            Class::Read | Class::Write => self.access_slots,
            _ => self.host_clocks,
        }
    }

    /// Returns the name of the rule that keeps the data of two accesses apart on the data bus, and
    /// the minimum gap between their data in clocks of the host. `None` for accesses whose data may
    /// overlap.
    pub(super) fn gap(&self, earlier: &Command, later: &Command) -> Option<(&'static str, u64)> {
        let write = |command: &Command| Class::of(command.kind) == Class::Write;
        let one_pseudo = earlier.pseudo == later.pseudo;
        let one_rank = one_pseudo && earlier.rank == later.rank;
        match (write(earlier), write(later)) {
            (false, true) if one_rank => Some(("read to write", self.t_turn)),
            // Before the host drives the data bus for a write, the rank that sent the read data
            // must release the data bus.
            (false, true) => Some(("read to write, other rank", self.t_turn.max(self.t_rank))),
            _ if one_rank => Some(("data bus", 0)),
            (true, false) => Some(("write to read, other rank", self.t_rank)),
            _ if one_pseudo => Some(("other rank", self.t_rank)),
            _ => None,
        }
    }
}

/// Returns the least distances that the timing tables of `device` demand, in clocks of the DRAM.
fn least_distances(device: &Device) -> Vec<LeastDistance> {
    use Class::{Activate, Precharge, Read, RefreshAll, RefreshSame, Write};
    use Scope::{Bank, Group, Rank};
    let t = &device.timing;
    // Clocks from a write command to the end of its data.
    let written = t.cwl + t.burst;
    // On-die error correction works on words of 128 bits. A burst of a x4 device has only 64 bits.
    // A write to a x4 device therefore reads the word, modifies it and writes it back, which takes
    // longer.
    let write_l = if device.width == 4 { t.t_ccd_l_wr } else { t.t_ccd_l_wr2 };
    let rows = [
        ("tRC", Bank, Activate, Activate, t.t_rc),
        ("tRRD_L", Group, Activate, Activate, t.t_rrd_l),
        ("tRRD_S", Rank, Activate, Activate, t.t_rrd_s),
        ("tRP", Bank, Precharge, Activate, t.t_rp),
        ("tRFC", Rank, RefreshAll, Activate, t.t_rfc),
        ("tRFCsb", Bank, RefreshSame, Activate, t.t_rfc_sb),
        ("tREFSBRD", Rank, RefreshSame, Activate, t.t_refsbrd),
        ("tRCD", Bank, Activate, Read, t.t_rcd),
        ("tCCD_L", Group, Read, Read, t.t_ccd_l),
        ("tCCD_S", Rank, Read, Read, t.t_ccd_s),
        ("tWTR_L", Group, Write, Read, written + t.t_wtr_l),
        ("tWTR_S", Rank, Write, Read, written + t.t_wtr_s),
        ("tRCD", Bank, Activate, Write, t.t_rcd),
        ("tCCD_L_WR", Group, Write, Write, write_l),
        ("tCCD_S", Rank, Write, Write, t.t_ccd_s),
        ("tRAS", Bank, Activate, Precharge, t.t_ras),
        ("tRTP", Bank, Read, Precharge, t.t_rtp),
        ("tWR", Bank, Write, Precharge, written + t.t_wr),
        ("tPPD", Rank, Precharge, Precharge, t.t_ppd),
        ("tRFC", Rank, RefreshAll, Precharge, t.t_rfc),
        ("tRFCsb", Bank, RefreshSame, Precharge, t.t_rfc_sb),
        ("tRP", Bank, Precharge, RefreshAll, t.t_rp),
        ("tRFC", Rank, RefreshAll, RefreshAll, t.t_rfc),
        ("tRFCsb", Rank, RefreshSame, RefreshAll, t.t_rfc_sb),
        ("tRP", Bank, Precharge, RefreshSame, t.t_rp),
        ("tRRD_L", Rank, Activate, RefreshSame, t.t_rrd_l),
        ("tRFC", Rank, RefreshAll, RefreshSame, t.t_rfc),
        ("tRFCsb", Rank, RefreshSame, RefreshSame, t.t_rfc_sb),
    ];
    let pair = |(name, scope, earlier, later, clocks): (_, _, _, _, u32)| LeastDistance {
        name,
        scope,
        earlier,
        later,
        cycles: u64::from(clocks),
    };
    rows.into_iter().map(pair).collect()
}
