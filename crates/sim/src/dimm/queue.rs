//! Requests that wait at a pseudo-channel: a list for each bank, in the order of their coming.

use super::{scheduler::BANKS, traffic::Request};

/// No request.
pub(super) const NONE: u8 = u8::MAX;

/// Reads or writes that wait. Nothing is allocated after the beginning.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    requests: Vec<Request>,
    next: Vec<u8>,
    free: Vec<u8>,
    head: [u8; BANKS],
    tail: [u8; BANKS],
    /// Banks with requests, a bit each.
    pub(super) busy: u128,
    /// How many there are.
    pub(super) count: usize,
    /// How many of them for each rank.
    pub(super) of_rank: [u32; 4],
}

impl Queue {
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, super::config::QUEUE_MAX);
        Self {
            requests: vec![Request::default(); capacity],
            next: vec![NONE; capacity],
            free: (0..capacity as u8).rev().collect(),
            head: [NONE; BANKS],
            tail: [NONE; BANKS],
            busy: 0,
            count: 0,
            of_rank: [0; 4],
        }
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    #[inline]
    pub(super) fn get(&self, at: u8) -> &Request {
        &self.requests[usize::from(at)]
    }

    /// The oldest request of a bank.
    #[inline]
    pub(super) fn head(&self, bank: usize) -> u8 {
        self.head[bank]
    }

    /// Takes a request in, and says where it is. There has to be room.
    #[inline]
    pub(super) fn push(&mut self, request: Request, rank: usize) -> u8 {
        let Some(at) = self.free.pop() else { unreachable!("whoever pushes asks for room") };
        let bank = usize::from(request.place.bank);
        self.requests[usize::from(at)] = request;
        self.next[usize::from(at)] = NONE;
        match self.tail[bank] {
            NONE => self.head[bank] = at,
            tail => self.next[usize::from(tail)] = at,
        }
        self.tail[bank] = at;
        self.busy |= 1 << bank;
        self.count += 1;
        self.of_rank[rank] += 1;
        at
    }

    /// Takes a request out.
    #[inline]
    pub(super) fn remove(&mut self, at: u8, rank: usize) -> Request {
        let request = self.requests[usize::from(at)];
        let bank = usize::from(request.place.bank);
        let after = self.next[usize::from(at)];
        if self.head[bank] == at {
            self.head[bank] = after;
            if after == NONE {
                self.tail[bank] = NONE;
                self.busy &= !(1 << bank);
            }
        } else {
            let mut before = self.head[bank];
            while self.next[usize::from(before)] != at {
                before = self.next[usize::from(before)];
            }
            self.next[usize::from(before)] = after;
            if after == NONE {
                self.tail[bank] = before;
            }
        }
        self.free.push(at);
        self.count -= 1;
        self.of_rank[rank] -= 1;
        request
    }

    /// The least order of all that wait.
    pub(super) fn oldest(&self) -> Option<u16> {
        self.waiting().map(|at| self.get(at).order).min()
    }

    /// Counts the order of all that wait from `start` on.
    pub(super) fn count_from(&mut self, start: u16) {
        let all: Vec<u8> = self.waiting().collect();
        for at in all {
            self.requests[usize::from(at)].order -= start;
        }
    }

    fn waiting(&self) -> impl Iterator<Item = u8> {
        let banks = (0..BANKS).filter(|bank| self.busy & (1 << bank) != 0);
        banks.flat_map(|bank| {
            let after = |at: &u8| Some(self.next[usize::from(*at)]).filter(|next| *next != NONE);
            core::iter::successors(Some(self.head[bank]), after)
        })
    }

    /// The oldest request of a bank for this row.
    #[inline]
    pub(super) fn of_row(&self, bank: usize, row: u32) -> u8 {
        let mut at = self.head[bank];
        while at != NONE && self.requests[usize::from(at)].place.row != row {
            at = self.next[usize::from(at)];
        }
        at
    }

    /// Whether a request for this very burst waits.
    #[inline]
    pub(super) fn has(&self, request: &Request) -> bool {
        let place = &request.place;
        let mut at = self.head[usize::from(place.bank)];
        while at != NONE {
            let other = &self.requests[usize::from(at)].place;
            if other.row == place.row && other.column == place.column {
                return true;
            }
            at = self.next[usize::from(at)];
        }
        false
    }
}
