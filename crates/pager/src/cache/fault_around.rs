//! How much to bring in at once where no stream says so: what lies beside a page that was touched
//! is read with it if such pages are touched soon after.
//!
//! Now and then an extent is a *probe*: only the page that was touched is mapped, so that touches
//! of the others show.

use crate::page::Page;
use std::mem;

/// One extent in so many is a probe: a prime, or probes would fall on the same page of each block.
const PROBE_ONE_IN: u32 = 7;

/// A probe is judged after so many touches in its region ...
const JUDGED_AFTER: u32 = 64;

/// ... or, where it has shown that more comes later, after so many pages were brought in as are
/// this part of the budget: what is used while it is in memory might as well be read at once.
const STAYS_PART: u64 = 4;

/// So many probes of one kind more than of the other show that more comes later, and are remembered
/// at most.
const PATIENCE_MAX: i32 = 8;

/// What comes of probes late comes before anybody knows of which nothing does: those that are
/// watched at once must not be enough.
const IMPATIENCE_MAX: i32 = -24;

/// Of what is random much is used in the end: one probe of which nothing comes counts for so many
/// of which something does.
const IMPATIENCE: i32 = 6;

/// Probes that are watched at once, of those that were judged and of those that were not.
const WATCHED: usize = 16;

/// So many probes more for than against change the order.
const VOTES: i32 = 4;

/// The most that is brought in: 2^6 pages, 256 KiB. What needs more is a stream.
const ORDER_MAX: u8 = 6;

/// When something is: pages that were brought in before, of how many in the budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) brought: u64,
    pub(super) budget: u32,
}

/// What is known of a region.
#[derive(Clone, Debug)]
pub(super) struct Learner {
    order: u8,
    votes: i32,
    /// Above zero, what is used late counts.
    patience: i32,
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
    /// Touches before it, and pages that were brought in before it.
    since: u32,
    brought: u64,
    /// Whether it was watched for [`JUDGED_AFTER`].
    is_late: bool,
}

impl Probe {
    /// Most of it was touched.
    fn is_used(&self) -> bool {
        self.touched.count_ones() * 4 >= 3 << self.order
    }

    fn is_too_small(&self) -> bool {
        self.is_used() && self.is_neighbour_touched
    }
}

impl Learner {
    pub(super) const fn new(order: u8) -> Self {
        Self { order, votes: 0, patience: IMPATIENCE_MAX, misses: 0, touches: 0, probes: vec![] }
    }

    pub(super) const fn order(&self) -> u8 {
        self.order
    }

    /// A page was touched.
    pub(super) fn touch(&mut self, page: Page, now: Now) {
        self.touches = self.touches.wrapping_add(1);
        for probe in &mut self.probes {
            let of = |page: Page| page >> probe.order;
            if of(page) == of(probe.page) {
                probe.touched |= 1 << (page & ((1 << probe.order) - 1));
            } else {
                probe.is_neighbour_touched |= of(page).abs_diff(of(probe.page)) == 1;
            }
        }
        let order = self.order;
        for mut probe in mem::take(&mut self.probes) {
            if self.order == order && !self.is_over(&mut probe, now) {
                self.probes.push(probe);
            }
        }
        if self.order != order {
            // They say nothing of what is brought in now.
            self.probes.clear();
        }
    }

    /// What is brought in next: whether as a probe.
    pub(super) fn is_to_probe(&mut self) -> bool {
        self.misses = self.misses.wrapping_add(1);
        self.misses.is_multiple_of(PROBE_ONE_IN) && self.watched(false) < WATCHED
    }

    /// Of what a touch of this page brings in only this page is mapped.
    pub(super) fn watch(&mut self, page: Page, now: Now) {
        let order = self.order;
        if self.probes.iter().any(|probe| probe.page >> order == page >> order) {
            return;
        }
        let touched = 1 << (page & ((1 << order) - 1));
        let (since, Now { brought, .. }) = (self.touches, now);
        let (is_neighbour_touched, is_late) = (false, false);
        let probe = Probe { page, order, touched, is_neighbour_touched, since, brought, is_late };
        self.probes.push(probe);
    }

    fn watched(&self, is_late: bool) -> usize {
        self.probes.iter().filter(|probe| probe.is_late == is_late).count()
    }

    /// Judges a probe if it is time to, and says whether it need not be watched any more.
    fn is_over(&mut self, probe: &mut Probe, now: Now) -> bool {
        let stays = u64::from(now.budget) / STAYS_PART;
        if probe.is_too_small() {
            self.patience = (self.patience + i32::from(probe.is_late)).min(PATIENCE_MAX);
            if !probe.is_late {
                // Of two neighbours that nobody else is near to one was touched before the other.
                self.vote(2);
            } else if self.patience > 0 {
                self.vote(1);
            }
            true
        } else if probe.is_late && now.brought.wrapping_sub(probe.brought) > stays {
            if self.patience > 0 {
                self.judge(probe);
            }
            self.patience = (self.patience - IMPATIENCE).max(IMPATIENCE_MAX);
            true
        } else if !probe.is_late && self.touches.wrapping_sub(probe.since) > JUDGED_AFTER {
            if self.patience <= 0 {
                self.judge(probe);
            }
            probe.is_late = true;
            self.watched(true) >= WATCHED
        } else {
            false
        }
    }

    /// Most of it should have been touched, or it is too large; otherwise it is of the right size.
    fn judge(&mut self, probe: &Probe) {
        self.vote(if probe.is_used() { -self.votes.signum() } else { -1 });
    }

    fn vote(&mut self, votes: i32) {
        self.votes += votes;
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
        let mut brought = 0;
        for page in pages {
            if mapped.len() > 4096 {
                (mapped, ready) = (BTreeSet::new(), BTreeSet::new());
            }
            if mapped.contains(&page) {
                continue;
            }
            let now = Now { brought, budget: 1 << 13 };
            learner.touch(page, now);
            mapped.insert(page);
            if ready.contains(&page) {
                continue;
            }
            let around = |order: u8| {
                let start = page >> order << order;
                start..start + (1 << order)
            };
            let is_free = |order: &u8| {
                let first = mapped.range(around(*order)).find(|other| **other != page);
                first.is_none() && ready.range(around(*order)).next().is_none()
            };
            let order = (0..=learner.order()).rev().find(is_free).unwrap_or(0);
            brought += 1 << order;
            if learner.is_to_probe() {
                if order == learner.order() {
                    learner.watch(page, now);
                }
                ready.extend(around(order));
            } else {
                mapped.extend(around(order));
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

    #[test]
    fn what_is_used_while_it_stays_is_read_at_once() {
        let mut learner = Learner::new(2);
        // Planes across a cube: of each of 100 rows a page, and then of each the next.
        run(&mut learner, (0..400).flat_map(|page| (0..100).map(move |row| row * 1000 + page)));
        assert!(learner.order() >= 2, "{learner:?}");
        let mut random = Pcg64Mcg::seed_from_u64(1);
        run(&mut learner, (0..20_000).map(|_| random.next_u64() >> 50));
        assert_eq!(learner.order(), 0);
    }
}
