//! Computes a pseudo-random order in which each line occurs once. The order is computed during the
//! accesses and never stored, so it causes no memory traffic.
//!
//! The lines are divided into `sheets` of `2^bits` lines. A round visits one line of each sheet;
//! from one sheet to the next, the sheet number grows by a constant step. In each sheet, a
//! bijection maps the number of the round to a line, so `2^bits` rounds visit every line once.
//! Distances between successive lines hardly ever repeat, so no prefetcher detects a stride.

use super::{BATCH, LINE};

/// Maximum of `bits`: a sheet has at most `2^SHEET_BITS` lines, which are 2 MiB, the size of a huge
/// page.
const SHEET_BITS: u32 = 15;

/// A pseudo-random order of the lines of a buffer, and the current position in the order.
#[derive(Clone, Copy, Debug)]
pub(super) struct VisitOrder {
    seed: u32,
    bits: u32,
    sheets: u32,
    step: u32,
    sheet: u32,
    round: u32,
}

impl VisitOrder {
    /// Makes an order of at most `lines` lines and at least one line. The order consists of whole
    /// sheets, which have `2^bits` lines each. If `lines` is 64 or more, the order has at least
    /// 63/64 of the lines.
    pub(super) fn new(lines: usize, seed: u64) -> Self {
        let bits = (lines / 64).checked_ilog2().unwrap_or(0).min(SHEET_BITS);
        let sheets = u32::try_from(lines >> bits).unwrap_or(u32::MAX).max(1);
        Self { seed: seed as u32, bits, sheets, step: step(sheets), sheet: 0, round: 0 }
    }

    pub(super) const fn lines(&self) -> usize {
        (self.sheets as usize) << self.bits
    }

    /// Returns this visit order, restarted from its beginning.
    pub(super) const fn restarted(&self) -> Self {
        Self { sheet: 0, round: 0, ..*self }
    }

    /// Returns the next line of the order, and advances the position.
    #[inline(always)]
    pub(super) fn next(&mut self) -> usize {
        let mask = (1_u32 << self.bits) - 1;
        // The first two constants are from Murmur3's finaliser. Each step that changes `line` has
        // an inverse modulo 2^bits, so two rounds never visit the same line of a sheet.
        let key = (self.sheet ^ self.seed).wrapping_mul(0x85eb_ca6b);
        let mut line = (self.round.wrapping_add(key ^ (key >> 15))) & mask;
        line = line.wrapping_mul(0xc2b2_ae35) & mask;
        line ^= line >> (self.bits / 2 + 1);
        line = line.wrapping_mul(0x9e37_79b1) & mask;
        let at = ((self.sheet as usize) << self.bits) | line as usize;
        let next = self.sheet + self.step;
        self.sheet = if next >= self.sheets { next - self.sheets } else { next };
        self.round = self.round.wrapping_add(u32::from(self.sheet == 0)) & mask;
        at
    }
}

/// The number of batches that are accessed between the prefetch of a batch and the access to it.
const AHEAD: usize = 4;

/// A visit order whose next [`AHEAD`] batches are computed in advance. A batch has the byte offsets
/// of [`BATCH`] lines in the buffer.
#[derive(Clone, Debug)]
pub(super) struct Batches {
    order: VisitOrder,
    ahead: [[usize; BATCH]; AHEAD],
    first: usize,
    /// The number of lines accessed in the current cycle. A cycle accesses each line of the order
    /// once.
    done: usize,
}

impl Batches {
    /// Makes the batches of `order`, and computes the first [`AHEAD`] batches. `order` must be at
    /// its beginning.
    pub(super) fn new(order: VisitOrder) -> Self {
        let mut batches = Self { order, ahead: [[0; BATCH]; AHEAD], first: 0, done: 0 };
        (0..AHEAD).for_each(|at| batches.ahead[at] = batch(&mut batches.order));
        batches
    }

    /// Returns the batch of lines to access now, and the batch to prefetch now. The second batch is
    /// accessed [`AHEAD`] calls later.
    #[inline(always)]
    pub(super) fn next(&mut self) -> ([usize; BATCH], &[usize; BATCH]) {
        let last = self.first;
        self.first = (last + 1) % AHEAD;
        self.done += BATCH;
        let now = self.ahead[last];
        self.ahead[last] = batch(&mut self.order);
        (now, &self.ahead[last])
    }

    /// Returns true if the last batch ended a cycle (an access to each line of the order). In this
    /// case, the next cycle begins.
    pub(super) const fn ends_cycle(&mut self) -> bool {
        let ends = self.done >= self.order.lines();
        if ends {
            self.done = 0;
        }
        ends
    }

    /// Returns the indices of the lines that the current cycle has accessed so far.
    pub(super) fn touched(&self) -> impl Iterator<Item = usize> {
        let mut order = self.order.restarted();
        (0..self.done).map(move |_| order.next())
    }
}

#[inline(always)]
fn batch(order: &mut VisitOrder) -> [usize; BATCH] {
    let mut lines = [0; BATCH];
    lines.iter_mut().for_each(|line| *line = order.next() * LINE);
    lines
}

/// Returns the increment of the sheet number from one visited line to the next. The increment is
/// coprime to the number of sheets, so that all sheets are visited. It is near 0.618 times the
/// number of sheets (golden section), so that sheets visited one after the other are far apart.
fn step(sheets: u32) -> u32 {
    let golden = (f64::from(sheets) * 0.618) as u32;
    let coprime = |step: &u32| {
        let (mut a, mut b) = (*step, sheets);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    (golden.max(1)..sheets).find(coprime).unwrap_or(if sheets == 1 { 0 } else { 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_line_is_visited_once(lines in 1_usize..70_000, seed: u64) {
            let mut order = VisitOrder::new(lines, seed);
            prop_assert!(order.lines() <= lines && order.lines() * 64 >= lines * 63);
            let mut seen = vec![false; order.lines()];
            for _ in 0..seen.len() {
                let at = order.next();
                prop_assert!(!seen[at]);
                seen[at] = true;
            }
            prop_assert_eq!(order.next(), order.restarted().next());
        }
    }

    #[test]
    fn steps_hardly_repeat() {
        let mut order = VisitOrder::new(1 << 20, 1);
        let lines: Vec<i64> = (0..1000).map(|_| order.next() as i64).collect();
        let mut steps: Vec<i64> = lines.windows(2).map(|pair| pair[1] - pair[0]).collect();
        steps.sort_unstable();
        steps.dedup();
        assert!(steps.len() > 900, "{}", steps.len());
    }
}
