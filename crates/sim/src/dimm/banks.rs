//! Keeps the state of a pseudo-channel that the command scheduler and the refresh scheduler read:
//! timing, open rows, requests.

use super::{
    geometry::{BANKS_MAX, BankSet, CLOSED, banks_in},
    queue::{NONE, RequestQueues},
    timing_state::TimingState,
};

/// For each bank of a pseudo-channel: the open row, the oldest request for this row in the served
/// queue, and the number of accesses since the row was opened.
#[derive(Clone, Debug)]
pub(super) struct OpenRows {
    row: [u32; BANKS_MAX],
    /// For each bank: the index of the oldest request for the bank's open row, or [`NONE`]. The
    /// index is in the served queue: the read queue, or the write queue during a write drain.
    hit: [u8; BANKS_MAX],
    accesses: [u32; BANKS_MAX],
}

impl OpenRows {
    fn new() -> Self {
        Self { row: [CLOSED; BANKS_MAX], hit: [NONE; BANKS_MAX], accesses: [0; BANKS_MAX] }
    }

    #[inline]
    pub(super) fn is_open(&self, bank: usize) -> bool {
        self.row[bank] != CLOSED
    }

    /// Returns the open row of `bank`, or [`CLOSED`].
    #[inline]
    pub(super) fn row(&self, bank: usize) -> u32 {
        self.row[bank]
    }

    /// Returns the index of the oldest request for the open row of `bank` in the served queue (the
    /// read queue or the write queue), or [`NONE`].
    #[inline]
    pub(super) fn hit(&self, bank: usize) -> u8 {
        self.hit[bank]
    }

    /// Returns the number of accesses to the open row of `bank` since the row was opened.
    #[inline]
    pub(super) fn accesses(&self, bank: usize) -> u32 {
        self.accesses[bank]
    }

    #[inline]
    pub(super) fn open(&mut self, bank: usize, row: u32, hit: u8) {
        self.row[bank] = row;
        self.hit[bank] = hit;
        self.accesses[bank] = 0;
    }

    #[inline]
    pub(super) fn close(&mut self, bank: usize) {
        self.row[bank] = CLOSED;
        self.hit[bank] = NONE;
    }

    /// Counts an access to the open row; `next_hit` is the index of the next queued request for
    /// this row, or [`NONE`]. Returns true if the access is a row hit: the row was opened for an
    /// earlier access.
    #[inline]
    pub(super) fn access(&mut self, bank: usize, next_hit: u8) -> bool {
        self.hit[bank] = next_hit;
        self.accesses[bank] += 1;
        self.accesses[bank] > 1
    }

    /// Records the request at index `at` of the served queue as the hit of its bank, if the request
    /// is for the open row and no earlier request is for this row.
    #[inline]
    pub(super) fn request(&mut self, bank: usize, row: u32, at: u8) {
        if self.hit[bank] == NONE && self.row[bank] == row {
            self.hit[bank] = at;
        }
    }
}

/// The state of the banks of a pseudo-channel: timing, open rows and queued requests.
#[derive(Clone, Debug)]
pub(super) struct Banks {
    pub(super) timing: TimingState,
    pub(super) rows: OpenRows,
    pub(super) requests: RequestQueues,
}

impl Banks {
    pub(super) fn new(timing: TimingState, requests: RequestQueues) -> Self {
        Self { timing, rows: OpenRows::new(), requests }
    }

    /// For each bank, finds the oldest request for the bank's open row in the served queue. Must be
    /// called after a bus turnaround, because the served queue has then changed from the read queue
    /// to the write queue or back.
    pub(super) fn find_hits(&mut self) {
        self.rows.hit = [NONE; BANKS_MAX];
        let served = self.requests.served();
        for bank in banks_in(served.busy) {
            if self.rows.is_open(bank) {
                self.rows.hit[bank] = served.oldest_for_row(bank, self.rows.row(bank));
            }
        }
    }

    pub(super) fn open_in(&self, banks: BankSet) -> impl Iterator<Item = usize> {
        banks_in(banks).filter(|bank| self.rows.is_open(*bank))
    }
}
