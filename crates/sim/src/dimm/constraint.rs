//! The timing of a device as a table of constraints between commands.
//!
//! A row says that after a command of one class, no command of another class may be issued within a
//! number of clocks, on the same bank, in the same group, on the same rank, on other ranks or on
//! the other pseudo-channel. [`super::timing_state`] keeps the earliest clock of each class at each
//! of these levels. Only the window of four activations (tFAW) does not fit such a row.

use super::device::Device;

/// Classes of commands with the same constraints.
pub(super) const ACTIVATE: usize = 0;
pub(super) const READ: usize = 1;
pub(super) const WRITE: usize = 2;
pub(super) const PRECHARGE: usize = 3;
pub(super) const CLASSES: usize = 4;

/// The banks that a row constrains, relative to the issued command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Bank,
    Group,
    Rank,
    /// The other ranks of the pseudo-channel.
    OtherRanks,
    /// All ranks of the other pseudo-channel.
    OtherPseudo,
}

/// After the issued command, none of the class `before` within `clocks`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) before: usize,
    pub(super) scope: Scope,
    pub(super) clocks: u64,
}

/// The rows of a device, by the class of the issued command.
pub(super) fn table(device: &Device) -> [Vec<Row>; CLASSES] {
    let t = &device.timing;
    let mut rows: [Vec<Row>; CLASSES] = Default::default();
    let mut add = |after: usize, before: usize, scope: Scope, clocks: i64| {
        if clocks > 0 {
            rows[after].push(Row { before, scope, clocks: clocks as u64 });
        }
    };
    let clocks = |value: u32| i64::from(value);
    let (cl, cwl, burst) = (clocks(t.cl), clocks(t.cwl), clocks(t.burst));
    add(ACTIVATE, READ, Scope::Bank, clocks(t.t_rcd));
    add(ACTIVATE, WRITE, Scope::Bank, clocks(t.t_rcd));
    add(ACTIVATE, PRECHARGE, Scope::Bank, clocks(t.t_ras));
    add(ACTIVATE, ACTIVATE, Scope::Bank, clocks(t.t_rc));
    add(ACTIVATE, ACTIVATE, Scope::Group, clocks(t.t_rrd_l));
    add(ACTIVATE, ACTIVATE, Scope::Rank, clocks(t.t_rrd_s));
    add(READ, PRECHARGE, Scope::Bank, clocks(t.t_rtp));
    add(READ, READ, Scope::Group, clocks(t.t_ccd_l));
    add(READ, READ, Scope::Rank, clocks(t.t_ccd_s));
    add(READ, READ, Scope::OtherRanks, burst + clocks(t.t_rank));
    // The data bus has one direction at a time, for all ranks and pseudo-channels.
    for scope in [Scope::Rank, Scope::OtherRanks, Scope::OtherPseudo] {
        add(READ, WRITE, scope, cl - cwl + burst + clocks(t.t_turn));
    }
    add(WRITE, PRECHARGE, Scope::Bank, cwl + burst + clocks(t.t_wr));
    add(WRITE, WRITE, Scope::Group, clocks(device.same_group_writes()));
    add(WRITE, WRITE, Scope::Rank, clocks(t.t_ccd_s));
    add(WRITE, WRITE, Scope::OtherRanks, burst + clocks(t.t_rank));
    add(WRITE, READ, Scope::Group, cwl + burst + clocks(t.t_wtr_l));
    add(WRITE, READ, Scope::Rank, cwl + burst + clocks(t.t_wtr_s));
    for scope in [Scope::OtherRanks, Scope::OtherPseudo] {
        add(WRITE, READ, scope, cwl + burst + clocks(t.t_rank) - cl);
    }
    add(PRECHARGE, ACTIVATE, Scope::Bank, clocks(t.t_rp));
    add(PRECHARGE, PRECHARGE, Scope::Rank, clocks(t.t_ppd));
    rows
}
