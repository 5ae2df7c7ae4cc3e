//! Turns the timing of a device into a table of constraints between commands.
//!
//! A constraint is a minimum number of clocks from a command of one class to a later command of the
//! same or another class. A constraint holds for later commands to the same bank, the same group,
//! the same rank, the other ranks, or the other pseudo-channel. [`super::timing_state`] keeps the
//! earliest clock of each class for each bank, bank group and rank. The window of four activations
//! (tFAW) and the distances of refreshes are not in this table; `timing_state` has methods for
//! both.

use super::device::Device;

/// The classes of commands. Commands of one class have the same constraints. `CLASSES` is the
/// number of classes.
pub(super) const ACTIVATE: usize = 0;
pub(super) const READ: usize = 1;
pub(super) const WRITE: usize = 2;
pub(super) const PRECHARGE: usize = 3;
pub(super) const CLASSES: usize = 4;

/// The banks that a constraint covers, relative to the issued command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Affected {
    Bank,
    Group,
    Rank,
    /// The ranks of the pseudo-channel other than the rank of the issued command.
    OtherRanks,
    /// All ranks of the other pseudo-channel.
    OtherPseudo,
}

/// A constraint after an issued command: a command of the class `before` to the banks in `scope`
/// must come at least `clocks` clocks of the DRAM later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constraint {
    pub(super) before: usize,
    pub(super) scope: Affected,
    pub(super) clocks: u64,
}

/// Returns the constraints of `device`, indexed by the class of the issued command.
pub(super) fn table(device: &Device) -> [Vec<Constraint>; CLASSES] {
    let t = &device.timing;
    let mut constraints: [Vec<Constraint>; CLASSES] = Default::default();
    let mut add = |after: usize, before: usize, scope: Affected, clocks: i64| {
        if clocks > 0 {
            constraints[after].push(Constraint { before, scope, clocks: clocks as u64 });
        }
    };
    let clocks = |value: u32| i64::from(value);
    let (cl, cwl, burst) = (clocks(t.cl), clocks(t.cwl), clocks(t.burst));
    add(ACTIVATE, READ, Affected::Bank, clocks(t.t_rcd));
    add(ACTIVATE, WRITE, Affected::Bank, clocks(t.t_rcd));
    add(ACTIVATE, PRECHARGE, Affected::Bank, clocks(t.t_ras));
    add(ACTIVATE, ACTIVATE, Affected::Bank, clocks(t.t_rc));
    add(ACTIVATE, ACTIVATE, Affected::Group, clocks(t.t_rrd_l));
    add(ACTIVATE, ACTIVATE, Affected::Rank, clocks(t.t_rrd_s));
    add(READ, PRECHARGE, Affected::Bank, clocks(t.t_rtp));
    add(READ, READ, Affected::Group, clocks(t.t_ccd_l));
    add(READ, READ, Affected::Rank, clocks(t.t_ccd_s));
    add(READ, READ, Affected::OtherRanks, burst + clocks(t.t_rank));
    // The data bus carries data in one direction at a time, so a turnaround concerns all ranks and
    // both pseudo-channels.
    for scope in [Affected::Rank, Affected::OtherRanks, Affected::OtherPseudo] {
        add(READ, WRITE, scope, cl - cwl + burst + clocks(t.t_turn));
    }
    add(WRITE, PRECHARGE, Affected::Bank, cwl + burst + clocks(t.t_wr));
    add(WRITE, WRITE, Affected::Group, clocks(device.same_group_writes()));
    add(WRITE, WRITE, Affected::Rank, clocks(t.t_ccd_s));
    add(WRITE, WRITE, Affected::OtherRanks, burst + clocks(t.t_rank));
    add(WRITE, READ, Affected::Group, cwl + burst + clocks(t.t_wtr_l));
    add(WRITE, READ, Affected::Rank, cwl + burst + clocks(t.t_wtr_s));
    for scope in [Affected::OtherRanks, Affected::OtherPseudo] {
        add(WRITE, READ, scope, cwl + burst + clocks(t.t_rank) - cl);
    }
    add(PRECHARGE, ACTIVATE, Affected::Bank, clocks(t.t_rp));
    add(PRECHARGE, PRECHARGE, Affected::Rank, clocks(t.t_ppd));
    constraints
}
