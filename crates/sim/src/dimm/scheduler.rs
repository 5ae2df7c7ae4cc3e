//! A pseudo-channel: its banks, its queues, and which command comes next.
//!
//! Each bank with requests has exactly one next command: an access if a request wants the open
//! row, a precharge if all want others, an activation if no row is open. So the banks fall into
//! three classes, each with a best candidate: the bank that is ready first, the oldest request
//! where several are. A candidate is looked for again only when something has changed its class.

use super::{
    config::{Controller, PagePolicy, Refresh},
    constraint::{ACTIVATE, CLASSES, PRECHARGE, READ, Row, Scope, WRITE, table},
    device::Device,
    queue::{NONE, Queue},
};

/// The most banks of a pseudo-channel, over all ranks.
pub(super) const BANKS: usize = 128;
/// The most groups.
const GROUPS: usize = 64;
/// The most ranks.
pub(super) const RANKS: usize = 4;
/// No row.
const CLOSED: u32 = u32::MAX;
/// Never.
pub(super) const NEVER: u64 = u64::MAX;

/// Index of the queue of reads, and of that of writes.
pub(super) const READS: usize = 0;
pub(super) const WRITES: usize = 1;

/// A bank that may be next in its class: the clock above the order of its request, so that the
/// least is the one that has been ready for longest.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    key: u64,
    bank: usize,
}

const NOBODY: Candidate = Candidate { key: NEVER, bank: 0 };
/// Bits for the order. A clock has the other 48: a day.
const ORDER_BITS: u32 = 16;

/// What a pseudo-channel would do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Access(usize),
    Activate(usize),
    Precharge(usize),
    /// Closes what is open of a rank that is to be refreshed.
    CloseRank(usize),
    /// Refreshes a rank.
    Refresh(usize),
}

/// When a rank is refreshed next.
#[derive(Clone, Copy, Debug)]
struct RankRefresh {
    due: u64,
    /// It is time: no bank of `banks` is used until it is done.
    pending: bool,
    /// The banks that the next refresh takes.
    banks: u128,
    /// Which bank of each group is next.
    turn: u32,
    /// When the last one is over.
    over: u64,
}

/// One pseudo-channel.
#[derive(Clone, Debug)]
pub(super) struct Pseudo {
    rows: [Vec<Row>; CLASSES],
    bank_clock: [[u64; BANKS]; CLASSES],
    group_clock: [[u64; GROUPS]; CLASSES],
    rank_clock: [[u64; RANKS]; CLASSES],
    /// The last four activations of each rank.
    window: [[u64; 4]; RANKS],
    group_of: [u8; BANKS],
    rank_of: [u8; BANKS],
    open_row: [u32; BANKS],
    /// The oldest request for the open row in the queue that is served.
    hit: [u8; BANKS],
    /// The order of the request that each bank's next command is for.
    order: [u16; BANKS],
    hits_in_turn: [u32; BANKS],
    last_row: [u32; BANKS],
    /// Above 1: rows of this bank are worth keeping open.
    keep: [u8; BANKS],
    fresh: u128,
    blocked: u128,
    members: [u128; CLASSES],
    best: [Candidate; CLASSES],
    stale: [bool; CLASSES],
    refresh: [RankRefresh; RANKS],
    pub(super) refresh_wake: u64,
    pub(super) bus_free: u64,
    pub(super) queues: [Queue; 2],
    /// The queue that is served: [`READS`] or [`WRITES`].
    pub(super) served: usize,
    /// The queue that rows are opened for: the other one shortly before it is served.
    opened_for: usize,
    ranks: usize,
    rank_banks: usize,
    groups: usize,
    banks: usize,
    t: super::device::Timing,
    activate_slots: u64,
    access_slots: u64,
    page_policy: PagePolicy,
    hits_max: u32,
    same_bank: bool,
    refi: u64,
}

/// What an access was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accessed {
    pub(super) request: super::traffic::Request,
    pub(super) closes: bool,
    pub(super) row_hit: bool,
}

impl Pseudo {
    pub(super) fn new(
        device: &Device,
        controller: &Controller,
        number: usize,
        phase: (u64, u64),
    ) -> Self {
        let (groups, banks) = (device.bank_groups as usize, device.banks as usize);
        let rank_banks = groups * banks;
        let ranks = device.ranks as usize;
        let of = |per: usize| {
            let mut table = [0; BANKS];
            for (bank, slot) in table.iter_mut().enumerate().take(ranks * rank_banks) {
                *slot = (bank / per) as u8;
            }
            table
        };
        let t = device.timing;
        let same_bank = controller.refresh == Refresh::SameBank && t.t_refi_sb > 0;
        let refi = match controller.refresh {
            Refresh::Never => 0,
            _ if same_bank => u64::from(t.t_refi_sb),
            _ => u64::from(t.t_refi),
        };
        let mut pseudo = Self {
            rows: table(device),
            bank_clock: [[0; BANKS]; CLASSES],
            group_clock: [[0; GROUPS]; CLASSES],
            rank_clock: [[0; RANKS]; CLASSES],
            window: [[0; 4]; RANKS],
            group_of: of(banks),
            rank_of: of(rank_banks),
            open_row: [CLOSED; BANKS],
            hit: [NONE; BANKS],
            order: [0; BANKS],
            hits_in_turn: [0; BANKS],
            last_row: [CLOSED; BANKS],
            keep: [1; BANKS],
            fresh: 0,
            blocked: 0,
            members: [0; CLASSES],
            best: [NOBODY; CLASSES],
            stale: [false; CLASSES],
            refresh: [RankRefresh { due: NEVER, pending: false, banks: 0, turn: 0, over: 0 };
                RANKS],
            refresh_wake: NEVER,
            bus_free: 1,
            queues: [Queue::new(controller.read_queue), Queue::new(controller.write_queue)],
            served: READS,
            opened_for: READS,
            ranks,
            rank_banks,
            groups,
            banks,
            t,
            activate_slots: u64::from(device.activate_slots),
            access_slots: u64::from(device.access_slots),
            page_policy: controller.page_policy,
            hits_max: controller.hits_max,
            same_bank,
            refi,
        };
        pseudo.stagger(device.pseudo_channels as usize, number, controller.refresh_together, phase);
        pseudo
    }

    /// Pseudo-channels are refreshed one after another, evenly over the interval; the ranks of one
    /// too, unless they are refreshed together.
    fn stagger(
        &mut self,
        pseudo_channels: usize,
        number: usize,
        together: bool,
        phase: (u64, u64),
    ) {
        if self.refi == 0 {
            return;
        }
        let parts = (if together { 1 } else { self.ranks } * pseudo_channels) as u64;
        for rank in 0..self.ranks {
            let rank_part = if together { 0 } else { rank };
            let part = (rank_part * pseudo_channels + number) as u64 + 1;
            let offset = self.refi * phase.0 / phase.1.max(1);
            self.refresh[rank].due = self.refi * part / parts + offset;
            self.refresh[rank].banks = self.refreshed_next(rank);
        }
        self.wake_for_refresh();
    }

    fn wake_for_refresh(&mut self) {
        let ranks = &self.refresh[..self.ranks];
        let dues = ranks.iter().filter(|rank| !rank.pending).map(|rank| rank.due);
        self.refresh_wake = dues.min().unwrap_or(NEVER);
    }

    fn all_banks(&self, rank: usize) -> u128 {
        ((1_u128 << self.rank_banks) - 1) << (rank * self.rank_banks)
    }

    fn refreshed_next(&self, rank: usize) -> u128 {
        if !self.same_bank {
            return self.all_banks(rank);
        }
        let first = rank * self.rank_banks + self.refresh[rank].turn as usize;
        (0..self.groups).fold(0, |banks, group| banks | 1 << (first + group * self.banks))
    }

    /// Ranks whose refresh is due are blocked.
    pub(super) fn start_refreshes(&mut self, clock: u64) {
        for rank in 0..self.ranks {
            let state = self.refresh[rank];
            if state.pending || state.due > clock {
                continue;
            }
            self.refresh[rank].pending = true;
            self.blocked |= state.banks;
            for bank in bits(state.banks) {
                self.place(bank);
            }
        }
        self.wake_for_refresh();
    }

    pub(super) fn is_open(&self, bank: usize) -> bool {
        self.open_row[bank] != CLOSED
    }

    pub(super) fn row(&self, bank: usize) -> u32 {
        self.open_row[bank]
    }

    pub(super) fn rank(&self, bank: usize) -> usize {
        usize::from(self.rank_of[bank])
    }

    /// Rank, group and bank as a command has them.
    pub(super) fn address(&self, bank: usize) -> (u8, u8, u8) {
        let group = usize::from(self.group_of[bank]);
        (self.rank_of[bank], (group % self.groups) as u8, (bank % self.banks) as u8)
    }

    /// Which bank of each group a rank's refresh takes, if it does not take all.
    pub(super) fn refresh_turn(&self, rank: usize) -> Option<u8> {
        self.same_bank.then(|| self.refresh[rank].turn as u8)
    }

    #[inline]
    fn access_class(&self) -> usize {
        if self.served == WRITES { WRITE } else { READ }
    }

    #[inline]
    fn ready(&self, class: usize, bank: usize) -> u64 {
        // The bounds are known to the compiler so.
        let group = usize::from(self.group_of[bank]) & (GROUPS - 1);
        let rank = usize::from(self.rank_of[bank]) & (RANKS - 1);
        let (group, rank) = (self.group_clock[class][group], self.rank_clock[class][rank]);
        self.bank_clock[class][bank].max(group).max(rank)
    }

    /// The candidate that a bank makes in its class.
    #[inline]
    fn candidate(&self, class: usize, bank: usize) -> Candidate {
        let key = self.ready(class, bank) << ORDER_BITS | u64::from(self.order[bank]);
        Candidate { key, bank }
    }

    /// The order of the request that a bank's next command of a class is for.
    #[inline]
    fn order_of(&self, class: usize, bank: usize) -> u16 {
        let (queue, request) = match class {
            READ | WRITE => (&self.queues[self.served], self.hit[bank]),
            _ => {
                let queue = &self.queues[self.opened_for];
                (queue, queue.head(bank))
            }
        };
        if request == NONE { 0 } else { queue.get(request).order }
    }

    /// The class of a bank's next command, if it has any.
    #[inline]
    fn class_of(&self, bank: usize) -> Option<usize> {
        if self.opened_for != self.served {
            return self.class_before_turn(bank);
        }
        let queue = &self.queues[self.served];
        let bit = 1_u128 << bank;
        if (queue.busy & !self.blocked) & bit == 0 {
            return None;
        }
        if self.open_row[bank] == CLOSED {
            return Some(ACTIVATE);
        }
        let hit = self.hit[bank];
        if hit == NONE || (self.hits_in_turn[bank] >= self.hits_max && queue.head(bank) != hit) {
            return Some(PRECHARGE);
        }
        Some(self.access_class())
    }

    /// The same shortly before the other queue is served: what is open is still used, and rows are
    /// opened for the other.
    fn class_before_turn(&self, bank: usize) -> Option<usize> {
        if self.blocked & (1 << bank) != 0 {
            return None;
        }
        if self.hit[bank] != NONE {
            return Some(self.access_class());
        }
        let next = self.queues[self.opened_for].head(bank);
        if next == NONE {
            return None;
        }
        match self.open_row[bank] {
            CLOSED => Some(ACTIVATE),
            row if self.queues[self.opened_for].of_row(bank, row) != NONE => None,
            _ => Some(PRECHARGE),
        }
    }

    /// Opens rows for the other queue from now on, which is served soon.
    pub(super) fn prepare(&mut self) {
        self.opened_for = 1 - self.served;
        self.place_all();
    }

    /// Whether nothing is open any more that the queue which is served wants.
    pub(super) fn has_done(&self) -> bool {
        self.members[self.access_class()] == 0
    }

    /// Puts all banks into their classes anew.
    fn place_all(&mut self) {
        self.members = [0; CLASSES];
        self.best = [NOBODY; CLASSES];
        self.stale = [false; CLASSES];
        for bank in bits(self.queues[READS].busy | self.queues[WRITES].busy) {
            self.place(bank);
        }
    }

    /// Puts a bank into the class of its next command.
    #[inline]
    fn place(&mut self, bank: usize) {
        let bit = 1_u128 << bank;
        let now = self.class_of(bank);
        if let Some(class) = now {
            self.order[bank] = self.order_of(class, bank);
        }
        for class in [ACTIVATE, self.access_class(), PRECHARGE] {
            if Some(class) == now {
                self.members[class] |= bit;
                let candidate = self.candidate(class, bank);
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

    /// The best of a class.
    #[inline]
    fn find(&mut self, class: usize) -> Candidate {
        if self.stale[class] {
            self.best[class] = self.search(class);
            self.stale[class] = false;
        }
        self.best[class]
    }

    fn search(&self, class: usize) -> Candidate {
        let mut best = NOBODY;
        let members = self.members[class];
        for (half, mut word) in [(0, members as u64), (64, (members >> 64) as u64)] {
            while word != 0 {
                let bank = (half + word.trailing_zeros() as usize) & (BANKS - 1);
                word &= word - 1;
                let candidate = self.candidate(class, bank);
                if candidate.key < best.key {
                    best = candidate;
                }
            }
        }
        best
    }

    /// What would be issued next, and when. Where an activation or a precharge would be on the
    /// command bus when an access is due, the access goes first: data are what counts.
    #[inline]
    pub(super) fn next_step(&mut self, now: u64) -> (u64, Step) {
        let free = self.bus_free.max(now);
        let clock = |candidate: Candidate| (candidate.key >> ORDER_BITS).max(free);
        let access = self.find(self.access_class());
        let activate = self.find(ACTIVATE);
        let precharge = self.find(PRECHARGE);
        let none = NEVER >> ORDER_BITS;
        let mut chosen = (clock(access), Step::Access(access.bank));
        let access_at = chosen.0;
        let at = clock(activate);
        if at + self.activate_slots <= access_at {
            chosen = (at, Step::Activate(activate.bank));
        }
        let at = clock(precharge);
        if at < chosen.0 && at < access_at {
            chosen = (at, Step::Precharge(precharge.bank));
        }
        if self.blocked != 0 {
            let (at, step) = self.refresh_step();
            let at = at.max(free);
            if at <= chosen.0 {
                chosen = (at, step);
            }
        }
        if chosen.0 >= none { (NEVER, chosen.1) } else { chosen }
    }

    /// The next command of those refreshes whose time has come.
    fn refresh_step(&self) -> (u64, Step) {
        let mut chosen = (NEVER, Step::Refresh(0));
        for rank in 0..self.ranks {
            let state = &self.refresh[rank];
            if !state.pending {
                continue;
            }
            let mut open = bits(state.banks).filter(|bank| self.is_open(*bank));
            let closing = |bank: usize| (self.ready(PRECHARGE, bank), bank);
            let (at, step) = match open.next() {
                None => (self.refreshable(rank), Step::Refresh(rank)),
                Some(first) if self.same_bank => {
                    let (at, bank) = open.map(closing).fold(closing(first), Ord::min);
                    (at, Step::Precharge(bank))
                }
                // Those that close by themselves have to have done so.
                Some(_) => {
                    let last = bits(state.banks).map(|bank| self.ready(PRECHARGE, bank)).max();
                    (last.unwrap_or(0), Step::CloseRank(rank))
                }
            };
            if at < chosen.0 {
                chosen = (at, step);
            }
        }
        chosen
    }

    /// When the banks of a refresh have been closed for long enough.
    fn refreshable(&self, rank: usize) -> u64 {
        let state = &self.refresh[rank];
        let closed = |bank: usize| match self.same_bank {
            // A refresh of few banks is an activation to the others.
            true => self.ready(ACTIVATE, bank),
            false => self.bank_clock[ACTIVATE][bank],
        };
        bits(state.banks).map(closed).max().unwrap_or(0).max(state.over)
    }

    /// Lets everybody wait as the rows of a class say.
    #[inline]
    fn constrain(&mut self, class: usize, bank: usize, clock: u64) {
        let (group, own) = (usize::from(self.group_of[bank]), usize::from(self.rank_of[bank]));
        for row in &self.rows[class] {
            let until = clock + row.clocks;
            match row.scope {
                Scope::Bank => later(&mut self.bank_clock[row.before][bank], until),
                Scope::Group => later(&mut self.group_clock[row.before][group], until),
                Scope::Rank => later(&mut self.rank_clock[row.before][own], until),
                Scope::OtherRanks => {
                    for rank in (0..self.ranks).filter(|rank| *rank != own) {
                        later(&mut self.rank_clock[row.before][rank], until);
                    }
                }
                Scope::OtherPseudo => {}
            }
        }
    }

    /// What an access of the other pseudo-channel lets this one wait for.
    #[inline]
    pub(super) fn constrain_from_other(&mut self, class: usize, clock: u64) {
        for row in &self.rows[class] {
            if row.scope == Scope::OtherPseudo {
                for rank in 0..self.ranks {
                    later(&mut self.rank_clock[row.before][rank], clock + row.clocks);
                }
                self.stale[row.before] = true;
            }
        }
    }

    pub(super) fn activate(&mut self, bank: usize, clock: u64) -> u32 {
        let queue = &self.queues[self.opened_for];
        let row = queue.get(queue.head(bank)).place.row;
        if self.page_policy == PagePolicy::Adaptive && self.last_row[bank] == row {
            self.keep[bank] = (self.keep[bank] + 1).min(3);
        }
        self.hit[bank] = self.queues[self.served].of_row(bank, row);
        self.open_row[bank] = row;
        self.last_row[bank] = CLOSED;
        self.hits_in_turn[bank] = 0;
        self.fresh |= 1 << bank;
        self.bus_free = clock + self.activate_slots;
        self.constrain(ACTIVATE, bank, clock);
        let rank = self.rank(bank);
        let window = &mut self.window[rank];
        window.rotate_left(1);
        window[3] = clock;
        if window[0] > 0 {
            let until = window[0] + u64::from(self.t.t_faw);
            later(&mut self.rank_clock[ACTIVATE][rank], until);
        }
        self.stale[ACTIVATE] = true;
        self.place(bank);
        row
    }

    pub(super) fn precharge(&mut self, bank: usize, clock: u64) {
        if self.blocked & (1 << bank) == 0 && self.keep[bank] > 0 {
            self.keep[bank] -= 1;
        }
        self.open_row[bank] = CLOSED;
        self.hit[bank] = NONE;
        self.bus_free = clock + 1;
        self.constrain(PRECHARGE, bank, clock);
        self.stale[PRECHARGE] = true;
        self.place(bank);
    }

    pub(super) fn close_rank(&mut self, rank: usize, clock: u64) {
        for bank in bits(self.all_banks(rank)) {
            self.open_row[bank] = CLOSED;
            self.hit[bank] = NONE;
            self.constrain(PRECHARGE, bank, clock);
            self.place(bank);
        }
        self.bus_free = clock + 1;
        self.stale[PRECHARGE] = true;
        self.stale[ACTIVATE] = true;
    }

    pub(super) fn refresh(&mut self, rank: usize, clock: u64) {
        let state = self.refresh[rank];
        let busy = u64::from(if self.same_bank { self.t.t_rfc_sb } else { self.t.t_rfc });
        for bank in bits(state.banks) {
            later(&mut self.bank_clock[ACTIVATE][bank], clock + busy);
        }
        if self.same_bank {
            let until = clock + u64::from(self.t.t_refsbrd);
            later(&mut self.rank_clock[ACTIVATE][rank], until);
            let banks = self.banks as u32;
            self.refresh[rank].turn = (state.turn + 1) % banks;
        }
        self.blocked &= !state.banks;
        self.refresh[rank].pending = false;
        self.refresh[rank].over = clock + busy;
        self.refresh[rank].due += self.refi;
        self.refresh[rank].banks = self.refreshed_next(rank);
        self.bus_free = clock + 1;
        for bank in bits(state.banks) {
            self.place(bank);
        }
        self.stale[ACTIVATE] = true;
        self.wake_for_refresh();
    }

    /// Serves the oldest request for the open row of a bank.
    #[inline]
    pub(super) fn access(&mut self, bank: usize, clock: u64) -> Accessed {
        let class = self.access_class();
        let row = self.open_row[bank];
        let rank = self.rank(bank);
        let queue = &mut self.queues[self.served];
        let request = queue.remove(self.hit[bank], rank);
        let more = queue.of_row(bank, row);
        self.hit[bank] = more;
        self.hits_in_turn[bank] += 1;
        let bit = 1_u128 << bank;
        let row_hit = self.fresh & bit == 0;
        self.fresh &= !bit;
        if row_hit && self.page_policy == PagePolicy::Adaptive {
            self.keep[bank] = (self.keep[bank] + 1).min(3);
        }
        self.bus_free = clock + self.access_slots;
        self.constrain(class, bank, clock);
        let keeps = match self.page_policy {
            PagePolicy::Open => true,
            PagePolicy::Closed => false,
            PagePolicy::Adaptive => self.keep[bank] > 1,
        };
        let next = &self.queues[self.opened_for];
        let others = next.head(bank) != NONE
            && (self.opened_for == self.served || next.of_row(bank, row) == NONE);
        let closes = more == NONE && (others || !keeps);
        if closes {
            self.open_row[bank] = CLOSED;
            self.last_row[bank] = row;
            let until = self.bank_clock[PRECHARGE][bank] + u64::from(self.t.t_rp);
            later(&mut self.bank_clock[ACTIVATE][bank], until);
        }
        self.stale[class] = true;
        self.place(bank);
        Accessed { request, closes, row_hit }
    }

    /// Takes a request into its queue.
    #[inline]
    pub(super) fn push(&mut self, request: super::traffic::Request) {
        let bank = usize::from(request.place.bank);
        let rank = self.rank(bank);
        let which = usize::from(request.write);
        let at = self.queues[which].push(request, rank);
        if which == self.served || which == self.opened_for {
            if which == self.served
                && self.hit[bank] == NONE
                && self.open_row[bank] == request.place.row
            {
                self.hit[bank] = at;
            }
            self.place(bank);
        }
    }

    /// Counts the order of requests from `start` on.
    pub(super) fn count_from(&mut self, start: u16) {
        self.queues.iter_mut().for_each(|queue| queue.count_from(start));
        self.place_all();
        self.stale = [true; CLASSES];
    }

    /// Serves the other queue from now on.
    pub(super) fn turn(&mut self, served: usize) {
        self.served = served;
        self.opened_for = served;
        self.hit = [NONE; BANKS];
        for bank in bits(self.queues[served].busy) {
            let row = self.open_row[bank];
            self.hit[bank] =
                if row == CLOSED { NONE } else { self.queues[served].of_row(bank, row) };
        }
        self.place_all();
    }
}

#[inline]
fn later(clock: &mut u64, until: u64) {
    *clock = (*clock).max(until);
}

/// The numbers of the bits that are set.
#[inline]
fn bits(mut word: u128) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        (word != 0).then(|| {
            let bit = word.trailing_zeros() as usize;
            word &= word - 1;
            bit & (BANKS - 1)
        })
    })
}
