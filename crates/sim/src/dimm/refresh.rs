//! Chooses the time and the command of each rank's refreshes.
//!
//! A due refresh blocks its banks: until the refresh is issued, the scheduler sends these banks
//! only the precharge that the refresh needs. With tREFI = 3.9 us and tRFC = 295 ns, all banks of a
//! rank are unavailable for 7.6 % of the time. A same-bank refresh (REFsb) blocks one bank of each
//! group instead, more often and for less time.

use super::{
    banks::Banks,
    config::{Controller, Refresh},
    constraint::{ACTIVATE, PRECHARGE},
    device::Device,
    geometry::{BankSet, Geometry, RANKS_MAX, banks_in},
    scheduler::Operation,
    timing_state::{NEVER, TimingState},
};

/// The refresh schedule of a rank: the next refresh, and the end of the last.
#[derive(Clone, Copy, Debug)]
struct RankRefresh {
    due: u64,
    /// True if the refresh is due and not issued yet. `banks` are blocked during this time.
    pending: bool,
    /// The banks that the next refresh covers.
    banks: BankSet,
    /// For a same-bank refresh, the index of the banks within their groups, which is the same in
    /// each group.
    bank: usize,
    /// The clock at which the last refresh of the rank ends.
    over: u64,
}

#[derive(Clone, Debug)]
pub(super) struct RefreshScheduler {
    ranks: [RankRefresh; RANKS_MAX],
    /// The number of ranks of the pseudo-channel.
    count: usize,
    /// The clock at which the next refresh of any rank becomes due; [`NEVER`] if the refreshes of
    /// all ranks are pending, or without refresh.
    wake: u64,
    blocked: BankSet,
    same_bank: bool,
    /// Clocks from one refresh of a rank to the next; 0 without refresh.
    interval: u64,
    /// Duration of a refresh (tRFC or tRFCsb), clocks.
    busy: u64,
    /// Clocks from a same-bank refresh to an activation of another bank of the rank.
    t_refsbrd: u64,
}

impl RefreshScheduler {
    /// Creates a scheduler that staggers the refreshes of pseudo-channels evenly over the refresh
    /// interval. If `refresh_together` is false, the refreshes of ranks are staggered, too. The
    /// offset of this sub-channel is the fraction `phase.0 / phase.1` of an interval.
    pub(super) fn new(
        device: &Device,
        controller: &Controller,
        geometry: &Geometry,
        pseudo: usize,
        phase: (u64, u64),
    ) -> Self {
        let t = &device.timing;
        let same_bank = controller.refresh == Refresh::SameBank && t.t_refi_sb > 0;
        let interval = match controller.refresh {
            Refresh::Never => 0,
            _ if same_bank => u64::from(t.t_refi_sb),
            _ => u64::from(t.t_refi),
        };
        let none = RankRefresh { due: NEVER, pending: false, banks: 0, bank: 0, over: 0 };
        let mut refresh = Self {
            ranks: [none; RANKS_MAX],
            count: geometry.ranks,
            wake: NEVER,
            blocked: 0,
            same_bank,
            interval,
            busy: u64::from(if same_bank { t.t_rfc_sb } else { t.t_rfc }),
            t_refsbrd: u64::from(t.t_refsbrd),
        };
        if interval == 0 {
            return refresh;
        }
        let together = controller.refresh_together;
        let pseudo_channels = device.pseudo_channels as usize;
        let slots = (if together { 1 } else { geometry.ranks } * pseudo_channels) as u64;
        for rank in 0..geometry.ranks {
            let rank_slot = if together { 0 } else { rank };
            let slot = (rank_slot * pseudo_channels + pseudo) as u64 + 1;
            let offset = interval * phase.0 / phase.1.max(1);
            refresh.ranks[rank].due = interval * slot / slots + offset;
            refresh.ranks[rank].banks = refresh.banks_of_next(rank, geometry);
        }
        refresh.set_wake();
        refresh
    }

    /// Returns the clock at which the next refresh becomes due; [`NEVER`] while the refreshes of
    /// all ranks are pending, or without refresh.
    #[inline]
    pub(super) fn wake(&self) -> u64 {
        self.wake
    }

    /// Returns the banks whose refresh is due and not issued yet. Until the refresh is issued, the
    /// only command for these banks is the precharge that the refresh needs.
    #[inline]
    pub(super) fn blocked(&self) -> BankSet {
        self.blocked
    }

    /// Returns the bank that the next same-bank refresh of `rank` covers in each bank group, as an
    /// index within the group; `None` if refreshes are not same-bank refreshes.
    pub(super) fn same_bank(&self, rank: usize) -> Option<u8> {
        self.same_bank.then(|| self.ranks[rank].bank as u8)
    }

    /// Blocks the banks of the refreshes that are due at `clock`, and returns these banks.
    pub(super) fn start_due(&mut self, clock: u64) -> BankSet {
        let mut started = 0;
        for rank in &mut self.ranks[..self.count] {
            if !rank.pending && rank.due <= clock {
                rank.pending = true;
                started |= rank.banks;
            }
        }
        self.blocked |= started;
        self.set_wake();
        started
    }

    /// Returns the next command of the pending refreshes (a precharge or a refresh), and its
    /// earliest clock.
    pub(super) fn next(&self, banks: &Banks) -> (u64, Operation) {
        let mut next = (NEVER, Operation::Refresh(0));
        for (number, rank) in self.ranks[..self.count].iter().enumerate() {
            if !rank.pending {
                continue;
            }
            let precharge = |bank: usize| (banks.timing.earliest(PRECHARGE, bank), bank);
            let mut open = banks.open_in(rank.banks);
            let (at, operation) = match open.next() {
                None => (self.earliest(rank, &banks.timing), Operation::Refresh(number)),
                Some(first) if self.same_bank => {
                    let (at, bank) = open.map(precharge).fold(precharge(first), Ord::min);
                    (at, Operation::Precharge(bank))
                }
                // PREab closes all banks of the rank at once, so PREab waits until each of these
                // banks can be precharged, including banks with a pending auto-precharge.
                Some(_) => {
                    let last = banks_in(rank.banks).map(|bank| precharge(bank).0).max();
                    (last.unwrap_or(0), Operation::PrechargeRank(number))
                }
            };
            if at < next.0 {
                next = (at, operation);
            }
        }
        next
    }

    /// Returns the earliest clock of a refresh of banks that are closed: tRP after their last
    /// precharge, tRC after their last activation, and after the last refresh of the rank.
    fn earliest(&self, rank: &RankRefresh, timing: &TimingState) -> u64 {
        let precharged = if self.same_bank {
            // A same-bank refresh must keep the same minimum distances to earlier commands for
            // other banks of the rank as an activation (tRRD, for example).
            banks_in(rank.banks).map(|bank| timing.earliest(ACTIVATE, bank)).max().unwrap_or(0)
        } else {
            timing.precharged(rank.banks)
        };
        precharged.max(rank.over)
    }

    /// Issues the refresh of a rank; returns the banks that are no longer blocked.
    pub(super) fn issue(&mut self, rank: usize, clock: u64, timing: &mut TimingState) -> BankSet {
        let banks = self.ranks[rank].banks;
        timing.block_banks(banks, clock + self.busy);
        if self.same_bank {
            timing.block_rank(rank, clock + self.t_refsbrd);
            self.ranks[rank].bank = (self.ranks[rank].bank + 1) % timing.geometry.banks;
        }
        self.blocked &= !banks;
        let next = self.banks_of_next(rank, &timing.geometry);
        let state = &mut self.ranks[rank];
        state.pending = false;
        state.over = clock + self.busy;
        state.due += self.interval;
        state.banks = next;
        self.set_wake();
        banks
    }

    fn banks_of_next(&self, rank: usize, geometry: &Geometry) -> BankSet {
        if self.same_bank {
            geometry.same_banks(rank, self.ranks[rank].bank)
        } else {
            geometry.rank_banks(rank)
        }
    }

    fn set_wake(&mut self) {
        let ranks = self.ranks[..self.count].iter();
        let dues = ranks.filter(|rank| !rank.pending).map(|rank| rank.due);
        self.wake = dues.min().unwrap_or(NEVER);
    }
}
