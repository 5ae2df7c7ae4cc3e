//! Keeps the earliest clock at which each bank may receive a command of each class.
//!
//! Three tables keep these clocks: by bank, by bank group and by rank. A bank is ready at the
//! latest of its three entries. An issued command raises entries by the constraints of
//! [`super::constraint`], so the constraints are evaluated once for each command and not once for
//! each candidate. The window of four activations (tFAW) is separate: a list has the last four
//! activations of each rank.

use super::{
    constraint::{ACTIVATE, Affected, CLASSES, Constraint, PRECHARGE, table},
    device::Device,
    geometry::{BANKS_MAX, BankSet, GROUPS_MAX, Geometry, RANKS_MAX, banks_in},
};

/// The value in place of a clock for an event that never occurs.
pub(super) const NEVER: u64 = u64::MAX;

/// The earliest clocks of each class of commands in one pseudo-channel, in clocks of the DRAM.
#[derive(Clone, Debug)]
pub(super) struct TimingState {
    pub(super) geometry: Geometry,
    /// Constraints within this pseudo-channel, by the class of the issued command.
    constraints: [Vec<Constraint>; CLASSES],
    /// Constraints after a command of the other pseudo-channel, by the class of that command.
    constraints_of_other: [Vec<Constraint>; CLASSES],
    bank: [[u64; BANKS_MAX]; CLASSES],
    group: [[u64; GROUPS_MAX]; CLASSES],
    rank: [[u64; RANKS_MAX]; CLASSES],
    /// The clocks of the last four activations of each rank, the oldest first, for tFAW.
    activations: [[u64; 4]; RANKS_MAX],
    t_faw: u64,
    t_rp: u64,
}

impl TimingState {
    pub(super) fn new(device: &Device) -> Self {
        let (mut constraints, mut constraints_of_other) = (table(device), table(device));
        constraints.iter_mut().for_each(|constraints| {
            constraints.retain(|constraint| constraint.scope != Affected::OtherPseudo)
        });
        constraints_of_other.iter_mut().for_each(|constraints| {
            constraints.retain(|constraint| constraint.scope == Affected::OtherPseudo)
        });
        Self {
            geometry: Geometry::new(device),
            constraints,
            constraints_of_other,
            bank: [[0; BANKS_MAX]; CLASSES],
            group: [[0; GROUPS_MAX]; CLASSES],
            rank: [[0; RANKS_MAX]; CLASSES],
            activations: [[0; 4]; RANKS_MAX],
            t_faw: u64::from(device.timing.t_faw),
            t_rp: u64::from(device.timing.t_rp),
        }
    }

    #[inline]
    pub(super) fn earliest(&self, class: usize, bank: usize) -> u64 {
        self.of_class(class).earliest(bank)
    }

    /// Returns the earliest clocks of commands of `class`, for a search over banks.
    #[inline]
    pub(super) fn of_class(&self, class: usize) -> ClassClocks<'_> {
        ClassClocks {
            geometry: &self.geometry,
            bank: &self.bank[class],
            group: &self.group[class],
            rank: &self.rank[class],
        }
    }

    /// Returns the earliest clock at which all `banks` can be activated by the constraints within
    /// each bank (tRP, tRC, the end of the last refresh). Constraints of bank groups and ranks are
    /// left out.
    pub(super) fn precharged(&self, banks: BankSet) -> u64 {
        banks_in(banks).map(|bank| self.bank[ACTIVATE][bank]).max().unwrap_or(0)
    }

    /// Applies the constraints of a command that is issued to `bank`.
    #[inline]
    pub(super) fn issue(&mut self, class: usize, bank: usize, clock: u64) {
        let (group, own) = (self.geometry.group(bank), self.geometry.rank(bank));
        for constraint in &self.constraints[class] {
            let until = clock + constraint.clocks;
            match constraint.scope {
                Affected::Bank => raise(&mut self.bank[constraint.before][bank], until),
                Affected::Group => raise(&mut self.group[constraint.before][group], until),
                Affected::Rank => raise(&mut self.rank[constraint.before][own], until),
                Affected::OtherRanks => {
                    for rank in (0..self.geometry.ranks).filter(|rank| *rank != own) {
                        raise(&mut self.rank[constraint.before][rank], until);
                    }
                }
                // The other pseudo-channel applies the constraints of this kind, in
                // `issue_of_other`.
                Affected::OtherPseudo => {}
            }
        }
    }

    /// Applies the constraints of an activation, and tFAW.
    #[inline]
    pub(super) fn activate(&mut self, bank: usize, clock: u64) {
        self.issue(ACTIVATE, bank, clock);
        let rank = self.geometry.rank(bank);
        let activations = &mut self.activations[rank];
        activations.rotate_left(1);
        activations[3] = clock;
        if activations[0] > 0 {
            let until = activations[0] + self.t_faw;
            raise(&mut self.rank[ACTIVATE][rank], until);
        }
    }

    /// Applies the constraints of an access that the other pseudo-channel issued, and calls
    /// `raised` with each class whose clocks the constraints raise.
    #[inline]
    pub(super) fn issue_of_other(
        &mut self,
        class: usize,
        clock: u64,
        mut raised: impl FnMut(usize),
    ) {
        for constraint in &self.constraints_of_other[class] {
            let clocks = &mut self.rank[constraint.before][..self.geometry.ranks];
            clocks.iter_mut().for_each(|rank| raise(rank, clock + constraint.clocks));
            raised(constraint.before);
        }
    }

    /// Applies the auto-precharge of an access: the bank can be activated tRP after the earliest
    /// clock at which the bank can be precharged.
    #[inline]
    pub(super) fn auto_precharge(&mut self, bank: usize) {
        let until = self.bank[PRECHARGE][bank] + self.t_rp;
        raise(&mut self.bank[ACTIVATE][bank], until);
    }

    pub(super) fn block_banks(&mut self, banks: BankSet, until: u64) {
        banks_in(banks).for_each(|bank| raise(&mut self.bank[ACTIVATE][bank], until));
    }

    pub(super) fn block_rank(&mut self, rank: usize, until: u64) {
        raise(&mut self.rank[ACTIVATE][rank], until);
    }
}

/// The earliest clocks of one class of commands, for each bank, bank group and rank.
#[derive(Clone, Copy)]
pub(super) struct ClassClocks<'a> {
    geometry: &'a Geometry,
    bank: &'a [u64; BANKS_MAX],
    group: &'a [u64; GROUPS_MAX],
    rank: &'a [u64; RANKS_MAX],
}

impl ClassClocks<'_> {
    #[inline]
    pub(super) fn earliest(&self, bank: usize) -> u64 {
        let (group, rank) = (self.geometry.group(bank), self.geometry.rank(bank));
        self.bank[bank].max(self.group[group]).max(self.rank[rank])
    }
}

#[inline]
fn raise(clock: &mut u64, until: u64) {
    *clock = (*clock).max(until);
}
