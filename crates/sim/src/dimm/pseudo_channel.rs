//! Simulates a pseudo-channel: its banks, its queues, and the parts of the controller that choose
//! its commands.
//!
//! ```text
//!  requests ──> queue ──> scheduler ──┬──> command ──> timing_state, open rows
//!                          refresh ───┘        │
//!                        row_policy <──────────┘  (keeps the row open or closes it)
//! ```
//!
//! [`Scheduler`] proposes the next command for the queued requests, [`RefreshScheduler`] the next
//! command for a refresh. The earlier of the two commands is issued. Each method that issues a
//! command also updates the state that depends on the command: timing, open rows, row policy and
//! scheduler.

use super::{
    banks::Banks,
    config::Controller,
    constraint::{ACTIVATE, CLASSES, PRECHARGE},
    device::Device,
    geometry::{BANKS_MAX, BankSet, banks_in},
    queue::{NONE, Queue, RequestQueues},
    refresh::RefreshScheduler,
    row_policy::RowPolicyState,
    scheduler::{NO_COMMAND, Operation, Scheduler},
    timing_state::{NEVER, TimingState},
    traffic::Request,
};

#[derive(Clone, Debug)]
pub(super) struct PseudoChannel {
    banks: Banks,
    scheduler: Scheduler,
    refresh: RefreshScheduler,
    row_policy: RowPolicyState,
    /// The first clock at which the command bus is free for a command of this pseudo-channel.
    bus_free: u64,
    /// Clocks for which an activate command occupies the command bus.
    activate_slots: u64,
    /// Clocks for which a column command (read or write) occupies the command bus.
    access_slots: u64,
}

/// An access that was issued to the DRAM.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accessed {
    pub(super) request: Request,
    /// True if the access closes the row by auto-precharge.
    pub(super) closes: bool,
    pub(super) row_hit: bool,
}

impl PseudoChannel {
    /// Creates the pseudo-channel with the index `number` of a sub-channel. Its refreshes are
    /// offset by the fraction `phase.0 / phase.1` of a refresh interval.
    pub(super) fn new(
        device: &Device,
        controller: &Controller,
        number: usize,
        phase: (u64, u64),
    ) -> Self {
        let mut device = device.clone();
        device.timing.t_rank += controller.rank_margin;
        let device = &device;
        let timing = TimingState::new(device);
        let refresh = RefreshScheduler::new(device, controller, &timing.geometry, number, phase);
        let requests = RequestQueues::new(controller.read_queue, controller.write_queue);
        let activate_slots = u64::from(device.activate_slots);
        Self {
            banks: Banks::new(timing, requests),
            scheduler: Scheduler::new(controller.hits_max, activate_slots),
            refresh,
            row_policy: RowPolicyState::new(controller.row_policy),
            bus_free: 1,
            activate_slots,
            access_slots: u64::from(device.access_slots),
        }
    }

    #[inline]
    pub(super) fn queue(&self, which: usize) -> &Queue {
        self.banks.requests.queue(which)
    }

    /// Returns the open row of a bank, or [`CLOSED`](super::geometry::CLOSED).
    #[inline]
    pub(super) fn row(&self, bank: usize) -> u32 {
        self.banks.rows.row(bank)
    }

    #[inline]
    pub(super) fn address(&self, bank: usize) -> (u8, u8, u8) {
        self.banks.timing.geometry.address(bank)
    }

    /// Returns the bank that the next same-bank refresh of `rank` covers in each bank group, as an
    /// index within the group; `None` if refreshes cover all banks of a rank.
    pub(super) fn refreshed_bank(&self, rank: usize) -> Option<u8> {
        self.refresh.same_bank(rank)
    }

    /// Returns the clock of the DRAM at which the next refresh of any rank becomes due.
    #[inline]
    pub(super) fn refresh_wake(&self) -> u64 {
        self.refresh.wake()
    }

    /// Blocks the banks whose refresh is due at `clock`.
    pub(super) fn start_refreshes(&mut self, clock: u64) {
        let started = self.refresh.start_due(clock);
        self.update_each(started);
    }

    /// Delays the next command of this pseudo-channel to `clock` or later, because the other
    /// pseudo-channel uses the command bus until then.
    pub(super) fn wait_for_bus(&mut self, clock: u64) {
        self.bus_free = self.bus_free.max(clock);
    }

    /// Returns the next command and its clock, not before `now`; [`NEVER`] without a command.
    #[inline]
    pub(super) fn next_command(&mut self, now: u64) -> (u64, Operation) {
        let free = self.bus_free.max(now);
        let mut next = self.scheduler.next(&self.banks, free);
        if self.refresh.blocked() != 0 {
            let (at, operation) = self.refresh.next(&self.banks);
            let at = at.max(free);
            if at <= next.0 {
                next = (at, operation);
            }
        }
        if next.0 >= NO_COMMAND { (NEVER, next.1) } else { next }
    }

    /// Adds a request to its queue, which must have room.
    #[inline]
    pub(super) fn push(&mut self, request: Request) {
        let (bank, row) = (usize::from(request.location.bank), request.location.row);
        let (at, is_served, is_opened_for) = self.banks.requests.push(request);
        if is_served {
            self.banks.rows.request(bank, row, at);
        }
        if is_served || is_opened_for {
            self.update(bank);
        }
    }

    /// Opens the row that the oldest request for `bank` needs, and returns the row.
    pub(super) fn activate(&mut self, bank: usize, clock: u64) -> u32 {
        let requests = &self.banks.requests;
        let queue = requests.opener(bank);
        let row = queue.get(queue.head(bank)).location.row;
        let hit = requests.served().oldest_for_row(bank, row);
        self.row_policy.opened(bank, row);
        self.banks.rows.open(bank, row, hit);
        self.bus_free = clock + self.activate_slots;
        self.banks.timing.activate(bank, clock);
        self.scheduler.invalidate(ACTIVATE);
        self.update(bank);
        row
    }

    /// Closes a bank, for another row or for a refresh.
    pub(super) fn precharge(&mut self, bank: usize, clock: u64) {
        if self.refresh.blocked() & (1 << bank) == 0 {
            self.row_policy.conflict(bank);
        }
        self.banks.rows.close(bank);
        self.bus_free = clock + 1;
        self.banks.timing.issue(PRECHARGE, bank, clock);
        self.scheduler.invalidate(PRECHARGE);
        self.update(bank);
    }

    /// Closes all banks of a rank, for a refresh.
    pub(super) fn precharge_rank(&mut self, rank: usize, clock: u64) {
        for bank in banks_in(self.banks.timing.geometry.rank_banks(rank)) {
            self.banks.rows.close(bank);
            self.banks.timing.issue(PRECHARGE, bank, clock);
            self.update(bank);
        }
        self.bus_free = clock + 1;
        self.scheduler.invalidate(PRECHARGE);
        self.scheduler.invalidate(ACTIVATE);
    }

    pub(super) fn refresh(&mut self, rank: usize, clock: u64) {
        let freed = self.refresh.issue(rank, clock, &mut self.banks.timing);
        self.bus_free = clock + 1;
        self.update_each(freed);
        self.scheduler.invalidate(ACTIVATE);
    }

    /// Serves the oldest request for the open row of a bank.
    #[inline]
    pub(super) fn access(&mut self, bank: usize, clock: u64) -> Accessed {
        // The mask does not change a valid bank number. It shows the compiler that the index is
        // within the arrays, so that the compiler leaves out the bounds checks.
        let bank = bank & (BANKS_MAX - 1);
        let Banks { timing, rows, requests } = &mut self.banks;
        let (class, row) = (requests.access_class(), rows.row(bank));
        let queue = requests.served_mut();
        let request = queue.remove(rows.hit(bank));
        let next_hit = queue.oldest_for_row(bank, row);
        let row_hit = rows.access(bank, next_hit);
        if row_hit {
            self.row_policy.hit(bank);
        }
        self.bus_free = clock + self.access_slots;
        timing.issue(class, bank, clock);
        let next = requests.opened_for();
        let conflict = next.head(bank) != NONE
            && (!requests.is_turning() || next.oldest_for_row(bank, row) == NONE);
        let closes = next_hit == NONE && (conflict || !self.row_policy.keeps_open(bank));
        if closes {
            rows.close(bank);
            self.row_policy.closed(bank, row);
            timing.auto_precharge(bank);
        }
        self.scheduler.invalidate(class);
        self.update(bank);
        Accessed { request, closes, row_hit }
    }

    /// Applies the constraints of the shared data bus: the other pseudo-channel issued an access of
    /// `class` (read or write) at `clock`.
    #[inline]
    pub(super) fn wait_for_other(&mut self, class: usize, clock: u64) {
        let scheduler = &mut self.scheduler;
        self.banks.timing.issue_of_other(class, clock, |class| scheduler.invalidate(class));
    }

    /// From now on, also opens rows for the queue that is not served yet, so that the rows of its
    /// requests are open at the bus turnaround.
    pub(super) fn prepare_turn(&mut self) {
        self.banks.requests.prepare_turn();
        self.update_all();
    }

    /// Serves the queue `served` (reads or writes) from now on, after a bus turnaround.
    pub(super) fn serve_queue(&mut self, served: usize) {
        self.banks.requests.serve(served);
        self.banks.find_hits();
        self.update_all();
    }

    /// Subtracts `start` from the arrival order of all requests, so that the 16 bits of an arrival
    /// order do not overflow.
    pub(super) fn renumber_from(&mut self, start: u16) {
        self.banks.requests.renumber_from(start);
        self.update_all();
        (0..CLASSES).for_each(|class| self.scheduler.invalidate(class));
    }

    #[inline]
    fn update(&mut self, bank: usize) {
        self.scheduler.update(bank, &self.banks, self.refresh.blocked());
    }

    fn update_each(&mut self, set: BankSet) {
        banks_in(set).for_each(|bank| self.update(bank));
    }

    fn update_all(&mut self) {
        self.scheduler.update_all(&self.banks, self.refresh.blocked());
    }
}
