//! How much to bring in at once where no stream says so: what lies beside a page that was touched
//! is read with it if such pages are touched soon after.
//!
//! Now and then an extent is a *probe*: only the page that was touched is mapped, so that touches
//! of the others show.

use crate::predict::Page;

/// One extent in so many is a probe: a prime, or probes would fall on the same page of each block.
const PROBE_ONE_IN: u32 = 7;

/// A probe is judged after so many touches in its region: what is used later might as well be read
/// later.
const JUDGED_AFTER: u32 = 64;

/// Probes that are watched at once.
const WATCHED: usize = 16;

/// So many probes more for than against change the order.
const VOTES: i32 = 4;

/// The most that is brought in: 2^6 pages, 256 KiB. What needs more is a stream.
const ORDER_MAX: u8 = 6;

/// What is known of a region.
#[derive(Clone, Debug)]
pub(super) struct Learner {
    order: u8,
    votes: i32,
    misses: u32,
    touches: u32,
    probes: Vec<Probe>,
}

/// An extent that is watched, and its neighbour.
#[derive(Clone, Debug)]
struct Probe {
    page: Page,
    order: u8,
    /// Which of its pages were touched: those of larger extents in groups.
    touched: u64,
    is_neighbour_touched: bool,
    since: u32,
}

impl Learner {
    pub(super) const fn new(order: u8) -> Self {
        Self { order, votes: 0, misses: 0, touches: 0, probes: vec![] }
    }

    pub(super) const fn order(&self) -> u8 {
        self.order
    }

    /// A page was touched.
    pub(super) fn touch(&mut self, page: Page) {
        self.touches = self.touches.wrapping_add(1);
        for probe in &mut self.probes {
            let of = |page: Page| page >> probe.order;
            if of(page) == of(probe.page) {
                probe.touched |= 1 << (page & ((1 << probe.order) - 1));
            } else {
                probe.is_neighbour_touched |= of(page) ^ 1 == of(probe.page);
            }
        }
        let now = self.touches;
        let old = |probe: &mut Probe| now.wrapping_sub(probe.since) > JUDGED_AFTER;
        let judged: Vec<Probe> = self.probes.extract_if(.., old).collect();
        judged.iter().for_each(|probe| self.judge(probe));
    }

    /// A page that was not in memory is brought in with what is around it: whether as a probe.
    pub(super) fn miss(&mut self, page: Page) -> bool {
        self.misses = self.misses.wrapping_add(1);
        if !self.misses.is_multiple_of(PROBE_ONE_IN) || self.probes.len() == WATCHED {
            return false;
        }
        let touched = 1 << (page & ((1 << self.order) - 1));
        let (order, since) = (self.order, self.touches);
        self.probes.push(Probe { page, order, touched, is_neighbour_touched: false, since });
        true
    }

    /// Most of it should have been touched, or it is too large; and if its neighbour was as well,
    /// it is too small.
    fn judge(&mut self, probe: &Probe) {
        if probe.order != self.order {
            return;
        }
        let used = probe.touched.count_ones() * 4 >= 3 << self.order;
        self.votes += match (used, probe.is_neighbour_touched) {
            (false, _) => -1,
            // Of two neighbours only one is touched after the other.
            (true, true) => 2,
            (true, false) => -self.votes.signum(),
        };
        if self.votes.abs() >= VOTES {
            let order = self.order.saturating_add_signed(self.votes.signum() as i8);
            (self.order, self.votes) = (order.min(ORDER_MAX), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::{
        Pcg64Mcg,
        rand_core::{RngCore, SeedableRng},
    };
    use std::collections::BTreeSet;

    /// Touches pages: what was brought in lately is mapped, but for what belongs to a probe.
    fn run(learner: &mut Learner, pages: impl IntoIterator<Item = Page>) {
        let (mut mapped, mut ready) = (BTreeSet::new(), BTreeSet::new());
        for page in pages {
            if mapped.len() > 4096 {
                (mapped, ready) = (BTreeSet::new(), BTreeSet::new());
            }
            if mapped.contains(&page) {
                continue;
            }
            learner.touch(page);
            mapped.insert(page);
            if ready.contains(&page) {
                continue;
            }
            let start = page >> learner.order() << learner.order();
            let around = start..start + (1 << learner.order());
            if learner.miss(page) {
                ready.extend(around);
            } else {
                mapped.extend(around);
            }
        }
    }

    #[test]
    fn neighbours_make_extents_grow_and_strangers_make_them_shrink() {
        let mut learner = Learner::new(2);
        run(&mut learner, (0..20_000).map(|at| at * 16));
        assert_eq!(learner.order(), 0);
        let mut random = Pcg64Mcg::seed_from_u64(1);
        run(&mut learner, (0..20_000).map(|_| random.next_u64() >> 40));
        assert_eq!(learner.order(), 0);
        let mut blocks = || (random.next_u64() >> 40) << 3;
        let block: Vec<Page> = (0..2000).map(|_| blocks()).collect();
        run(&mut learner, block.iter().flat_map(|first| *first..first + 8));
        assert_eq!(learner.order(), 3);
    }
}
