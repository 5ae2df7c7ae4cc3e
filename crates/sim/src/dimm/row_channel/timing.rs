//! Applies the constraints between row accesses.
//!
//! All commands of an access are known at once, and reads and writes are in order on the bus.
//! Therefore few clocks decide when the next access may begin: the end of each bank's precharge,
//! and the last activation, read and write of each rank and bank group. The distances are looked up
//! once in the table of [`constraint`](crate::dimm::constraint).

use crate::dimm::{
    constraint::{ACTIVATE, Affected, PRECHARGE, READ, WRITE, table},
    device::Device,
    geometry::{BANKS_MAX, BankSet, GROUPS_MAX, RANKS_MAX, banks_in},
};

/// Distances from a read or write to the next read or write: in the same bank group, in the same
/// rank, and in different ranks.
#[derive(Clone, Copy, Debug, Default)]
struct AccessDistances {
    group: u64,
    rank: u64,
    other_ranks: u64,
}

/// The last commands and the distances that decide when the next row access may begin, in clocks.
#[derive(Clone, Debug)]
pub(super) struct RowTiming {
    /// For each bank, the earliest clock of its next activation.
    banks: [u64; BANKS_MAX],
    /// `group_activation` is the clock of the last activation of each group. `rank_activations` are
    /// the clocks of the last four activations of each rank, the earliest of them at index
    /// `oldest`.
    group_activation: [u64; GROUPS_MAX],
    rank_activations: [[u64; 4]; RANKS_MAX],
    oldest: [u8; RANKS_MAX],
    /// The clocks of the last read and of the last write: `group_access` for each group,
    /// `rank_access` for each rank.
    group_access: [[u64; GROUPS_MAX]; 2],
    rank_access: [[u64; RANKS_MAX]; 2],
    /// For reads and for writes: `last_rank` is the rank of the last access, `other_access` the
    /// clock of the last access to any other rank.
    last_rank: [usize; 2],
    other_access: [u64; 2],
    distances: [[AccessDistances; 2]; 2],
    /// Clocks from an activation to a read, and to a write.
    to_access: [u64; 2],
    /// Clocks from the last read, and from the last write, to the precharge.
    to_precharge: [u64; 2],
    activate_to_precharge: u64,
    precharge_to_activate: u64,
    activate_to_activate: u64,
    group_to_activate: u64,
    rank_to_activate: u64,
    t_faw: u64,
}

impl RowTiming {
    pub(super) fn new(device: &Device) -> Self {
        let constraints = table(device);
        let distance = |after: usize, before: usize, scope: Affected| {
            let of = constraints[after].iter();
            let same = of.filter(|c| c.before == before && c.scope == scope);
            same.map(|c| c.clocks).max().unwrap_or(0)
        };
        let accesses = |after: usize| {
            [READ, WRITE].map(|before| AccessDistances {
                group: distance(after, before, Affected::Group),
                rank: distance(after, before, Affected::Rank),
                other_ranks: distance(after, before, Affected::OtherRanks),
            })
        };
        let bank = |after, before| distance(after, before, Affected::Bank);
        Self {
            banks: [0; BANKS_MAX],
            group_activation: [0; GROUPS_MAX],
            rank_activations: [[0; 4]; RANKS_MAX],
            oldest: [0; RANKS_MAX],
            group_access: [[0; GROUPS_MAX]; 2],
            rank_access: [[0; RANKS_MAX]; 2],
            last_rank: [0; 2],
            other_access: [0; 2],
            distances: [accesses(READ), accesses(WRITE)],
            to_access: [bank(ACTIVATE, READ), bank(ACTIVATE, WRITE)],
            to_precharge: [bank(READ, PRECHARGE), bank(WRITE, PRECHARGE)],
            activate_to_precharge: bank(ACTIVATE, PRECHARGE),
            precharge_to_activate: bank(PRECHARGE, ACTIVATE),
            activate_to_activate: bank(ACTIVATE, ACTIVATE),
            group_to_activate: distance(ACTIVATE, ACTIVATE, Affected::Group),
            rank_to_activate: distance(ACTIVATE, ACTIVATE, Affected::Rank),
            t_faw: u64::from(device.timing.t_faw),
        }
    }

    /// Returns the earliest clock of the next activation of `bank`, which is in bank group `group`
    /// of rank `rank`.
    #[inline]
    pub(super) fn activation(&self, bank: usize, group: usize, rank: usize) -> u64 {
        let last_four = &self.rank_activations[rank];
        let oldest = usize::from(self.oldest[rank]) % 4;
        let last = last_four[(oldest + 3) % 4];
        // Clock 0 stands for no activation yet, which allows the next activation at any clock.
        let since = |clock: u64, distance: u64| if clock > 0 { clock + distance } else { 0 };
        self.banks[bank]
            .max(since(self.group_activation[group], self.group_to_activate))
            .max(since(last, self.rank_to_activate))
            .max(since(last_four[oldest], self.t_faw))
    }

    #[inline]
    pub(super) fn activate(&mut self, group: usize, rank: usize, clock: u64) {
        self.group_activation[group] = clock;
        let oldest = &mut self.oldest[rank];
        self.rank_activations[rank][usize::from(*oldest) % 4] = clock;
        *oldest = (*oldest + 1) % 4;
    }

    /// Returns the earliest clock of the first read or write of an access whose activation is at
    /// `activated`.
    #[inline]
    pub(super) fn access(&self, write: bool, activated: u64, group: usize, rank: usize) -> u64 {
        let class = usize::from(write);
        let mut earliest = activated + self.to_access[class];
        for before in 0..2 {
            let distances = &self.distances[before][class];
            let since = |clock: u64, distance: u64| if clock > 0 { clock + distance } else { 0 };
            let accesses = &self.rank_access[before];
            let last_rank = self.last_rank[before] % RANKS_MAX;
            let same = last_rank == rank;
            let other = if same { self.other_access[before] } else { accesses[last_rank] };
            earliest = earliest
                .max(since(self.group_access[before][group], distances.group))
                .max(since(accesses[rank], distances.rank))
                .max(since(other, distances.other_ranks));
        }
        earliest
    }

    /// Records the last read or write of an access, which has auto-precharge, at clock `last`. The
    /// activation of the access was at `activated`. Returns the end of the precharge.
    #[inline]
    pub(super) fn close(
        &mut self,
        write: bool,
        (bank, group, rank): (usize, usize, usize),
        activated: u64,
        last: u64,
    ) -> u64 {
        let class = usize::from(write);
        self.group_access[class][group] = last;
        let last_rank = self.last_rank[class] % RANKS_MAX;
        if last_rank != rank {
            self.other_access[class] = self.rank_access[class][last_rank];
            self.last_rank[class] = rank;
        }
        self.rank_access[class][rank] = last;
        let precharge =
            (activated + self.activate_to_precharge).max(last + self.to_precharge[class]);
        let closed = precharge + self.precharge_to_activate;
        self.banks[bank] = closed.max(activated + self.activate_to_activate);
        closed
    }

    /// Returns the clock from which each of `banks` may be activated or refreshed.
    pub(super) fn closed(&self, banks: BankSet) -> u64 {
        banks_in(banks).map(|bank| self.banks[bank]).max().unwrap_or(0)
    }

    pub(super) fn block_banks(&mut self, banks: BankSet, until: u64) {
        for bank in banks_in(banks) {
            self.banks[bank] = self.banks[bank].max(until);
        }
    }
}
