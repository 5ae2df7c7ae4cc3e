//! Chooses the next command by first-ready, first-come-first-served (FR-FCFS; Rixner et al. 2000).
//!
//! Each bank has at most one next command for its queued requests: an access if a request hits the
//! open row, a precharge if all requests are for other rows, an activation if no row is open. Thus
//! banks fall into three classes, and each class has a best candidate: the bank that is ready
//! first, or among equals the bank with the oldest request. A class is searched again only after a
//! change that affects its best candidate, so a choice takes little time.
//!
//! Repeated row hits do not starve other requests for the bank: after
//! [`Controller::hits_max`](super::config::Controller::hits_max) accesses an older request for
//! another row closes the open row.

use super::{
    banks::Banks,
    constraint::{ACTIVATE, CLASSES, PRECHARGE, READ, WRITE},
    geometry::{BANKS_MAX, BankSet, banks_in},
    queue::NONE,
    timing_state::NEVER,
};

/// A command, with the index of the bank or the rank that receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Reads or writes a burst of a bank.
    Access(usize),
    /// Opens a row of a bank.
    Activate(usize),
    /// Closes the open row of a bank.
    Precharge(usize),
    /// Closes all banks of a rank.
    PrechargeRank(usize),
    /// Refreshes a rank, or one bank of each of its groups.
    Refresh(usize),
}

/// A bank that may be next in its class. The high bits of the key are the clock at which the bank
/// is ready, the low bits the arrival order of its request. The smallest key is thus the bank that
/// is ready first, and among equals the bank with the oldest request.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    key: u64,
    bank: usize,
}

const NO_CANDIDATE: Candidate = Candidate { key: NEVER, bank: 0 };
/// Number of low bits of a candidate's key that hold the arrival order. The other 48 bits hold the
/// clock: enough for a day at 3.2 GHz.
const ORDER_BITS: u32 = 16;

/// The scheduler of one pseudo-channel, with the best candidate of each class of commands.
#[derive(Clone, Debug)]
pub(super) struct Scheduler {
    /// The arrival order of the request that each bank's next command serves.
    order: [u16; BANKS_MAX],
    /// For each class of commands, the banks whose next command is of this class.
    members: [BankSet; CLASSES],
    best: [Candidate; CLASSES],
    /// For each class of commands, true if its entry in `best` may be outdated: the class must then
    /// be searched again.
    stale: [bool; CLASSES],
    hits_max: u32,
    activate_slots: u64,
}

impl Scheduler {
    /// Creates a scheduler; an activation occupies the command bus for `activate_slots` clocks.
    pub(super) fn new(hits_max: u32, activate_slots: u64) -> Self {
        Self {
            order: [0; BANKS_MAX],
            members: [0; CLASSES],
            best: [NO_CANDIDATE; CLASSES],
            stale: [false; CLASSES],
            hits_max,
            activate_slots,
        }
    }

    /// Marks a class of commands for which the earliest clock of some bank changed. The class is
    /// searched for its best candidate again before its next use.
    #[inline]
    pub(super) fn invalidate(&mut self, class: usize) {
        self.stale[class] = true;
    }

    /// Puts each bank with requests into the class of its next command. Must be called after a
    /// change of the served queue, of the queue for which rows are opened, or of all arrival
    /// orders.
    pub(super) fn update_all(&mut self, banks: &Banks, blocked: BankSet) {
        self.members = [0; CLASSES];
        self.best = [NO_CANDIDATE; CLASSES];
        self.stale = [false; CLASSES];
        for bank in banks_in(banks.requests.busy()) {
            self.update(bank, banks, blocked);
        }
    }

    /// Puts a bank into the class of its next command, after the state or the requests of the bank
    /// changed.
    #[inline]
    pub(super) fn update(&mut self, bank: usize, banks: &Banks, blocked: BankSet) {
        // The mask does not change a valid bank number. It shows the compiler that the index is
        // within the arrays, so that the compiler leaves out the bounds checks.
        let bank = bank & (BANKS_MAX - 1);
        let bit = 1 << bank;
        let next = self.next_class(bank, banks, blocked);
        if let Some(class) = next {
            self.order[bank] = request_order(class, bank, banks);
        }
        for class in [ACTIVATE, banks.requests.access_class(), PRECHARGE] {
            if Some(class) == next {
                self.members[class] |= bit;
                let candidate = self.candidate(bank, banks.timing.earliest(class, bank));
                if candidate.key < self.best[class].key {
                    self.best[class] = candidate;
                } else if self.best[class].bank == bank && candidate.key > self.best[class].key {
                    self.stale[class] = true;
                }
            } else if self.members[class] & bit != 0 {
                self.members[class] &= !bit;
                self.stale[class] |= self.best[class].bank == bank;
            }
        }
    }

    /// Returns the class of a bank's next command; `None` for a bank that waits for a due refresh
    /// (`blocked`), or a bank without requests.
    #[inline]
    fn next_class(&self, bank: usize, banks: &Banks, blocked: BankSet) -> Option<usize> {
        if banks.requests.is_turning() {
            return next_class_before_turn(bank, banks, blocked);
        }
        let queue = banks.requests.served();
        if (queue.busy & !blocked) & (1 << bank) == 0 {
            return None;
        }
        if !banks.rows.is_open(bank) {
            return Some(ACTIVATE);
        }
        let hit = banks.rows.hit(bank);
        let capped = banks.rows.accesses(bank) >= self.hits_max && queue.head(bank) != hit;
        if hit == NONE || capped {
            return Some(PRECHARGE);
        }
        Some(banks.requests.access_class())
    }

    #[inline]
    fn candidate(&self, bank: usize, ready: u64) -> Candidate {
        Candidate { key: ready << ORDER_BITS | u64::from(self.order[bank]), bank }
    }

    #[inline]
    fn best(&mut self, class: usize, banks: &Banks) -> Candidate {
        if self.stale[class] {
            self.best[class] = self.search(class, banks);
            self.stale[class] = false;
        }
        self.best[class]
    }

    fn search(&self, class: usize, banks: &Banks) -> Candidate {
        let mut best = NO_CANDIDATE;
        let members = self.members[class];
        let clocks = banks.timing.of_class(class);
        for (half, mut word) in [(0, members as u64), (64, (members >> 64) as u64)] {
            while word != 0 {
                let bank = (half + word.trailing_zeros() as usize) & (BANKS_MAX - 1);
                word &= word - 1;
                let candidate = self.candidate(bank, clocks.earliest(bank));
                if candidate.key < best.key {
                    best = candidate;
                }
            }
        }
        best
    }

    /// Returns the next command and its clock, not before `free`. An access has priority over an
    /// activation or a precharge that would occupy the command bus at the clock of the access,
    /// because the data bus is the bottleneck.
    #[inline]
    pub(super) fn next(&mut self, banks: &Banks, free: u64) -> (u64, Operation) {
        let clock = |candidate: Candidate| (candidate.key >> ORDER_BITS).max(free);
        let access = self.best(banks.requests.access_class(), banks);
        let activate = self.best(ACTIVATE, banks);
        let precharge = self.best(PRECHARGE, banks);
        let mut next = (clock(access), Operation::Access(access.bank));
        let access_at = next.0;
        let at = clock(activate);
        if at + self.activate_slots <= access_at {
            next = (at, Operation::Activate(activate.bank));
        }
        let at = clock(precharge);
        if at < next.0 && at < access_at {
            next = (at, Operation::Precharge(precharge.bank));
        }
        next
    }
}

/// The clock that [`Scheduler::next`] returns if no class has a candidate.
pub(super) const NO_COMMAND: u64 = NEVER >> ORDER_BITS;

/// Returns the arrival order of the request for which `bank` issues its next command of `class`; 0
/// if the bank has no such request.
#[inline]
fn request_order(class: usize, bank: usize, banks: &Banks) -> u16 {
    let (queue, request) = match class {
        READ | WRITE => (banks.requests.served(), banks.rows.hit(bank)),
        _ => {
            let queue = banks.requests.opener(bank);
            (queue, queue.head(bank))
        }
    };
    if request == NONE { 0 } else { queue.get(request).order }
}

/// Returns the class of a bank's next command between the decision on a bus turnaround and the
/// turnaround; `None` if the bank has no next command. Row hits of the served queue continue. A
/// closed bank opens a row for the served queue, or for the other queue if the served queue has no
/// request for the bank. An open row without row hits is closed for a request for another row,
/// unless the other queue has a request for the open row.
fn next_class_before_turn(bank: usize, banks: &Banks, blocked: BankSet) -> Option<usize> {
    if blocked & (1 << bank) != 0 {
        return None;
    }
    if banks.rows.hit(bank) != NONE {
        return Some(banks.requests.access_class());
    }
    if banks.requests.opener(bank).head(bank) == NONE {
        return None;
    }
    if !banks.rows.is_open(bank) {
        return Some(ACTIVATE);
    }
    let next = banks.requests.opened_for();
    let hit = next.oldest_for_row(bank, banks.rows.row(bank));
    if hit != NONE { None } else { Some(PRECHARGE) }
}
