//! Implements the read queue and the write queue of a pseudo-channel. A queue has, for each bank, a
//! list of requests in order of arrival.

use super::{
    config::QUEUE_MAX,
    constraint::{READ, WRITE},
    geometry::{BANKS_MAX, BankSet, banks_in},
    traffic::Request,
};

/// The indices of the read queue (`READS`) and of the write queue (`WRITES`).
pub(super) const READS: usize = 0;
pub(super) const WRITES: usize = 1;

/// Stands for "no request" in place of the index of a request.
pub(super) const NONE: u8 = u8::MAX;

/// The queued reads, or the queued writes, of a pseudo-channel. Only `new` allocates memory.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    requests: Vec<Request>,
    next: Vec<u8>,
    free: Vec<u8>,
    head: [u8; BANKS_MAX],
    tail: [u8; BANKS_MAX],
    /// The set of banks for which a request is queued.
    pub(super) busy: BankSet,
    pub(super) count: usize,
}

impl Queue {
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, QUEUE_MAX);
        Self {
            requests: vec![Request::default(); capacity],
            next: vec![NONE; capacity],
            free: (0..capacity as u8).rev().collect(),
            head: [NONE; BANKS_MAX],
            tail: [NONE; BANKS_MAX],
            busy: 0,
            count: 0,
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

    /// Returns the index of the oldest request for a bank, or [`NONE`].
    #[inline]
    pub(super) fn head(&self, bank: usize) -> u8 {
        self.head[bank]
    }

    /// Adds a request and returns its index. The queue must have room.
    #[inline]
    pub(super) fn push(&mut self, request: Request) -> u8 {
        let Some(at) = self.free.pop() else {
            unreachable!("the caller checks that the queue has room")
        };
        let bank = usize::from(request.location.bank);
        self.requests[usize::from(at)] = request;
        self.next[usize::from(at)] = NONE;
        match self.tail[bank] {
            NONE => self.head[bank] = at,
            tail => self.next[usize::from(tail)] = at,
        }
        self.tail[bank] = at;
        self.busy |= 1 << bank;
        self.count += 1;
        at
    }

    #[inline]
    pub(super) fn remove(&mut self, at: u8) -> Request {
        let request = self.requests[usize::from(at)];
        let bank = usize::from(request.location.bank);
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
        request
    }

    /// Returns the arrival order of the oldest queued request; `None` if the queue is empty.
    pub(super) fn oldest_order(&self) -> Option<u16> {
        self.waiting().map(|at| self.get(at).order).min()
    }

    /// Subtracts `start` from the arrival order of all queued requests, so that the 16 bits of an
    /// arrival order do not overflow.
    pub(super) fn renumber_from(&mut self, start: u16) {
        let all: Vec<u8> = self.waiting().collect();
        for at in all {
            self.requests[usize::from(at)].order -= start;
        }
    }

    fn waiting(&self) -> impl Iterator<Item = u8> {
        let banks = banks_in(self.busy);
        banks.flat_map(|bank| {
            let after = |at: &u8| Some(self.next[usize::from(*at)]).filter(|next| *next != NONE);
            core::iter::successors(Some(self.head[bank]), after)
        })
    }

    /// Returns the index of the oldest request for a row of a bank, or [`NONE`].
    #[inline]
    pub(super) fn oldest_for_row(&self, bank: usize, row: u32) -> u8 {
        let mut at = self.head[bank];
        while at != NONE && self.requests[usize::from(at)].location.row != row {
            at = self.next[usize::from(at)];
        }
        at
    }

    #[inline]
    pub(super) fn has_burst(&self, request: &Request) -> bool {
        let location = &request.location;
        let mut at = self.head[usize::from(location.bank)];
        while at != NONE {
            let other = &self.requests[usize::from(at)].location;
            if other.row == location.row && other.column == location.column {
                return true;
            }
            at = self.next[usize::from(at)];
        }
        false
    }
}

/// The read queue and the write queue, one of which is served.
#[derive(Clone, Debug)]
pub(super) struct RequestQueues {
    queues: [Queue; 2],
    /// The queue whose accesses are issued: [`READS`] or [`WRITES`].
    served: usize,
    /// The queue for which rows are opened: usually the served queue; shortly before a bus
    /// turnaround, the other queue.
    opened_for: usize,
}

impl RequestQueues {
    /// Creates empty queues for `reads` reads and `writes` writes; the read queue is served.
    pub(super) fn new(reads: usize, writes: usize) -> Self {
        let queues = [Queue::new(reads), Queue::new(writes)];
        Self { queues, served: READS, opened_for: READS }
    }

    #[inline]
    pub(super) fn queue(&self, which: usize) -> &Queue {
        &self.queues[which]
    }

    #[inline]
    pub(super) fn served(&self) -> &Queue {
        &self.queues[self.served]
    }

    #[inline]
    pub(super) fn served_mut(&mut self) -> &mut Queue {
        &mut self.queues[self.served]
    }

    #[inline]
    pub(super) fn opened_for(&self) -> &Queue {
        &self.queues[self.opened_for]
    }

    /// Returns the queue for which the next row of a bank is opened: the served queue if it has a
    /// request for the bank, otherwise the queue `opened_for`.
    #[inline]
    pub(super) fn opener(&self, bank: usize) -> &Queue {
        let served = self.served();
        if served.head(bank) == NONE { self.opened_for() } else { served }
    }

    /// Returns true between the decision on a bus turnaround and the turnaround: rows are then
    /// opened for the queue that is not served yet.
    #[inline]
    pub(super) fn is_turning(&self) -> bool {
        self.opened_for != self.served
    }

    /// Returns the class of the accesses of the served queue.
    #[inline]
    pub(super) fn access_class(&self) -> usize {
        if self.served == WRITES { WRITE } else { READ }
    }

    /// Returns the set of banks with a request in either queue.
    pub(super) fn busy(&self) -> BankSet {
        self.queues[READS].busy | self.queues[WRITES].busy
    }

    /// Adds a request to its queue. Returns the index of the request, true if the queue is served,
    /// and true if rows are opened for the queue.
    #[inline]
    pub(super) fn push(&mut self, request: Request) -> (u8, bool, bool) {
        let which = usize::from(request.write);
        let at = self.queues[which].push(request);
        (at, which == self.served, which == self.opened_for)
    }

    /// Opens rows for the queue that is not served, from now on.
    pub(super) fn prepare_turn(&mut self) {
        self.opened_for = 1 - self.served;
    }

    /// Serves the queue `which`, and opens rows for it, from now on.
    pub(super) fn serve(&mut self, which: usize) {
        (self.served, self.opened_for) = (which, which);
    }

    /// Subtracts `start` from the arrival order of all queued requests, so that the 16 bits of an
    /// arrival order do not overflow.
    pub(super) fn renumber_from(&mut self, start: u16) {
        self.queues.iter_mut().for_each(|queue| queue.renumber_from(start));
    }
}
