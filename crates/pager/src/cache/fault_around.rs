//! Fault-around reads pages beside a faulting page that belongs to no stream. This module chooses
//! the number of these pages.
//!
//! Each region learns an *order*: a fault loads the aligned block of 2^order pages around the
//! faulting page. The order grows while whole blocks and their neighbours are used, and shrinks
//! while parts of blocks stay unused. The pager cannot see touches of mapped pages. Therefore one
//! extent in [`PROBE_ONE_IN`] is a *probe*: only the faulting page is mapped, so that touches of
//! the other pages fault.

use super::{Cache, Extent, ExtentState, index::ExtentId, regions::Regions};
use interleaf_prefetch::page::Page;
use std::{collections::BTreeMap, mem, ops::Range};

/// One in this number of extents is a probe, of which only the faulting page is mapped. The number
/// is prime, because otherwise regular accesses would place all probes on the same page of their
/// blocks.
const PROBE_ONE_IN: u32 = 7;

/// Number of faults in a region after which a [`Probe`] of the region is judged: the probe then
/// votes for a larger or a smaller order. If late use counts, the probe is judged later
/// ([`RESIDENT_DIVISOR`]).
const JUDGED_AFTER: u32 = 64;

/// A probe has *late use* if touches show only after [`JUDGED_AFTER`] faults that its order is too
/// small. In a region where late use counts (`patience`), a probe is judged later: when the cache
/// has loaded, since the beginning of the probe, more pages than the budget divided by this number.
/// The pages of a larger read would still be resident then, and would have saved later reads.
const RESIDENT_DIVISOR: u64 = 4;

/// Maximum of the `patience` of a region. While `patience` is above zero, late use of probes
/// ([`RESIDENT_DIVISOR`]) counts for the votes on the region's order. Each late use adds 1 to
/// `patience`.
const PATIENCE_MAX: i32 = 8;

/// Minimum and initial value of `patience` ([`PATIENCE_MAX`]). A probe with late use ends as soon
/// as the use is seen, and a probe without late use ends later. The first probes to end therefore
/// all have late use. The value is far below zero, so that these few probes do not decide that late
/// use counts.
const PATIENCE_MIN: i32 = -24;

/// Number by which `patience` ([`PATIENCE_MAX`]) falls when a probe that was watched for late use
/// had none. The number exceeds 1, which is added for each late use, because random accesses also
/// cause some late use.
const DISUSE_WEIGHT: i32 = 6;

/// Maximum number of probes of a region that are watched for late use ([`RESIDENT_DIVISOR`]) at the
/// same time. Also the maximum number of probes that wait for their [`JUDGED_AFTER`] faults.
const WATCHED_MAX: usize = 16;

/// Number of votes that changes the order of a region. The order grows by 1 when the votes for a
/// larger order exceed the votes for a smaller order by this number, and shrinks by 1 in the
/// opposite case.
const VOTES: i32 = 4;

/// Maximum fault-around order: 2^6 pages, 256 KiB. Accesses to longer ranges are recognized as
/// streams.
const ORDER_MAX: u8 = 6;

/// Number of fault-around orders.
const ORDERS: usize = ORDER_MAX as usize + 1;

/// The clock by which probes are judged: the number of pages loaded so far, and the budget in
/// frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadClock {
    pub(super) loaded: u64,
    pub(super) budget: u32,
}

/// The fault-around sizes of all regions.
#[derive(Clone, Debug)]
pub(super) struct FaultAround {
    /// The initial order of each region, until votes of the region's probes change the order.
    initial_order: u8,
    /// The fault-around size of each region, keyed by the first page of the region.
    sizes: BTreeMap<Page, FaultAroundSize>,
    /// For each order, the number of regions in `sizes` that have this order.
    of_order: [usize; ORDERS],
}

impl FaultAround {
    pub(super) fn new(initial_order: u8) -> Self {
        let initial_order = initial_order.min(ORDER_MAX);
        Self { initial_order, sizes: BTreeMap::new(), of_order: [0; ORDERS] }
    }

    /// The fault-around size of the region that begins with the page `region`.
    pub(super) fn size_mut(&mut self, region: Page) -> &mut FaultAroundSize {
        let order = self.initial_order;
        self.sizes.entry(region).or_insert_with(|| {
            self.of_order[usize::from(order)] += 1;
            FaultAroundSize::new(order)
        })
    }

    /// Notes a fault on a page of the region that begins with the page `region`.
    pub(super) fn on_fault(&mut self, region: Page, page: Page, clock: LoadClock) {
        let size = self.size_mut(region);
        let before = size.order();
        size.on_fault(page, clock);
        let after = size.order();
        self.of_order[usize::from(before)] -= 1;
        self.of_order[usize::from(after)] += 1;
    }

    /// The fault-around order of the region that begins with the page `region`.
    fn order(&self, region: Page) -> u8 {
        self.sizes.get(&region).map_or(self.initial_order, FaultAroundSize::order)
    }

    /// The largest fault-around order of any region.
    pub(super) fn order_max(&self) -> u8 {
        self.of_order.iter().rposition(|count| *count > 0).unwrap_or(0) as u8
    }

    /// Forgets the fault-around sizes of regions that no longer exist, after the regions in `pages`
    /// have changed. A region that begins outside of `pages` is not affected.
    pub(super) fn forget_removed(&mut self, regions: &Regions, pages: &Range<Page>) {
        let all = self.sizes.range(pages.start..=pages.end);
        let gone: Vec<Page> =
            all.map(|(first, _)| *first).filter(|first| !regions.begins_at(*first)).collect();
        for first in gone {
            if let Some(size) = self.sizes.remove(&first) {
                self.of_order[usize::from(size.order())] -= 1;
            }
        }
    }

    /// The union of `pages` and the block that a fault on the first of these pages would load. The
    /// union is cut at the ends of the region.
    pub(super) fn pages_around(&self, regions: &Regions, pages: &Range<Page>) -> Range<Page> {
        let region = regions.containing(pages.start);
        let order = self.order(region.start);
        let start = pages.start >> order << order;
        start.max(region.start)..(start + (1 << order)).max(pages.end).min(region.end)
    }

    /// The order of fault-around for a fault on a page.
    pub(super) fn order_at(&self, regions: &Regions, page: Page) -> u8 {
        self.order(regions.containing(page).start)
    }
}

impl Cache {
    pub(super) fn load_clock(&self) -> LoadClock {
        LoadClock { loaded: self.residency.loaded_pages(), budget: self.budget() }
    }

    /// If the extent `id` is a probe, splits it: the extent keeps only the faulting page `page`,
    /// and the other pages become inactive extents. The extent must be in no queue. Also begins to
    /// watch the block of the probe, if the pager will see touches of all its other pages.
    pub(super) fn split_probe(&mut self, id: ExtentId, page: Page) {
        let extent = self.residency.extent_mut(id);
        if !mem::take(&mut extent.is_probe) {
            return;
        }
        if self.is_probe_visible(id, page) {
            let clock = self.load_clock();
            let region = self.regions.containing(page).start;
            self.fault_around.size_mut(region).watch(page, clock);
        }
        while self.residency.extent(id).frames() > 1 {
            let whole = *self.residency.extent(id);
            let [first, second] = whole.span().halves();
            let (near, far) =
                if first.pages().contains(&page) { (first, second) } else { (second, first) };
            let rest = Extent::new(far, ExtentState::Ready, 0);
            let other = self.residency.add(rest);
            self.residency.push_ready(other);
            let mut near = Extent::new(near, whole.state, 0);
            if let Some(fault) = whole.waiting_fault() {
                near.add_waiter(fault);
            }
            self.residency.replace(id, near);
        }
    }

    /// True if no page of the block around `page` is mapped or being mapped, except pages of the
    /// extent `id`. Touches of the other pages of the block then fault, so the pager sees them.
    fn is_probe_visible(&self, id: ExtentId, page: Page) -> bool {
        let state = |page: Page| {
            let other = self.residency.find(page).filter(|other| *other != id);
            other.map(|id| self.residency.extent(id).state)
        };
        let mut around = self.fault_around.pages_around(&self.regions, &(page..page + 1));
        around.all(|page| !matches!(state(page), Some(ExtentState::Mapped | ExtentState::Mapping)))
    }
}

/// The fault-around size of a region, and the probes that decide on it.
#[derive(Clone, Debug)]
pub(super) struct FaultAroundSize {
    order: u8,
    /// Votes for a larger order, minus votes for a smaller order.
    votes: i32,
    /// While this number is above 0, late use of a probe ([`RESIDENT_DIVISOR`]) counts for the
    /// votes.
    patience: i32,
    loads: u32,
    faults: u32,
    probes: Vec<Probe>,
}

/// A probe: an extent of which only the faulting page is mapped. Touches of its other pages and of
/// the two neighbouring blocks are watched.
#[derive(Clone, Debug)]
struct Probe {
    page: Page,
    order: u8,
    /// A bit for each page of the block, set if the page was touched.
    touched: u64,
    is_neighbour_touched: bool,
    /// Number of faults in the region, and number of pages loaded, when the watch of the probe
    /// began.
    first_fault: u32,
    first_loaded: u64,
    /// True if the probe has been watched for more than [`JUDGED_AFTER`] faults. The probe has late
    /// use if its order turns out to be too small after that.
    is_late: bool,
}

impl Probe {
    /// True if at least three quarters of the probe's pages were touched.
    fn is_used(&self) -> bool {
        self.touched.count_ones() * 4 >= 3 << self.order
    }

    fn is_too_small(&self) -> bool {
        self.is_used() && self.is_neighbour_touched
    }
}

impl FaultAroundSize {
    const fn new(order: u8) -> Self {
        Self { order, votes: 0, patience: PATIENCE_MIN, loads: 0, faults: 0, probes: vec![] }
    }

    pub(super) const fn order(&self) -> u8 {
        self.order
    }

    /// Notes a fault on a page of the region.
    pub(super) fn on_fault(&mut self, page: Page, clock: LoadClock) {
        self.faults = self.faults.wrapping_add(1);
        for probe in &mut self.probes {
            let block = |page: Page| page >> probe.order;
            if block(page) == block(probe.page) {
                probe.touched |= 1 << (page & ((1 << probe.order) - 1));
            } else {
                probe.is_neighbour_touched |= block(page).abs_diff(block(probe.page)) == 1;
            }
        }
        let order = self.order;
        for mut probe in mem::take(&mut self.probes) {
            if self.order == order && !self.has_ended(&mut probe, clock) {
                self.probes.push(probe);
            }
        }
        if self.order != order {
            // The watched probes tested the former order, and say nothing about the new order.
            self.probes.clear();
        }
    }

    /// Counts a load. Returns true if the loaded extent should be a [`Probe`].
    pub(super) fn is_next_a_probe(&mut self) -> bool {
        self.loads = self.loads.wrapping_add(1);
        self.loads.is_multiple_of(PROBE_ONE_IN) && self.watched(false) < WATCHED_MAX
    }

    /// Starts to watch a probe: the block around `page`, of which only `page` is mapped.
    fn watch(&mut self, page: Page, clock: LoadClock) {
        let order = self.order;
        if self.probes.iter().any(|probe| probe.page >> order == page >> order) {
            return;
        }
        self.probes.push(Probe {
            page,
            order,
            touched: 1 << (page & ((1 << order) - 1)),
            is_neighbour_touched: false,
            first_fault: self.faults,
            first_loaded: clock.loaded,
            is_late: false,
        });
    }

    fn watched(&self, is_late: bool) -> usize {
        self.probes.iter().filter(|probe| probe.is_late == is_late).count()
    }

    /// Judges a probe if it is due. Returns true if the watch of the probe has ended.
    fn has_ended(&mut self, probe: &mut Probe, clock: LoadClock) -> bool {
        let resident = u64::from(clock.budget) / RESIDENT_DIVISOR;
        if probe.is_too_small() {
            self.patience = (self.patience + i32::from(probe.is_late)).min(PATIENCE_MAX);
            if !probe.is_late {
                // Count two votes, because only one of two probes gives this result. A program that
                // uses two neighbouring blocks one after the other touches the second block while
                // the probe of the first block is watched. A probe of the second block begins after
                // the touches of the first block, and sees no touched neighbour.
                self.vote(2);
            } else if self.patience > 0 {
                self.vote(1);
            }
            true
        } else if probe.is_late && clock.loaded.wrapping_sub(probe.first_loaded) > resident {
            if self.patience > 0 {
                self.judge(probe);
            }
            self.patience = (self.patience - DISUSE_WEIGHT).max(PATIENCE_MIN);
            true
        } else if !probe.is_late && self.faults.wrapping_sub(probe.first_fault) > JUDGED_AFTER {
            if self.patience <= 0 {
                self.judge(probe);
            }
            probe.is_late = true;
            self.watched(true) >= WATCHED_MAX
        } else {
            false
        }
    }

    /// Votes for a smaller order if fewer than three quarters of the probe's pages were touched.
    /// Otherwise confirms the present order: moves the sum of the votes towards 0.
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

    /// Simulates a program that touches `pages` in order, in a region with the fault-around size
    /// `size`. Loaded pages stay mapped until more than 4096 pages are mapped. Then all pages are
    /// evicted. Only the touched pages of a probe are mapped.
    fn run(size: &mut FaultAroundSize, pages: impl IntoIterator<Item = Page>) {
        let (mut mapped, mut ready) = (BTreeSet::new(), BTreeSet::new());
        let mut loaded = 0;
        for page in pages {
            if mapped.len() > 4096 {
                (mapped, ready) = (BTreeSet::new(), BTreeSet::new());
            }
            if mapped.contains(&page) {
                continue;
            }
            let clock = LoadClock { loaded, budget: 1 << 13 };
            size.on_fault(page, clock);
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
            let order = (0..=size.order()).rev().find(is_free).unwrap_or(0);
            loaded += 1 << order;
            if size.is_next_a_probe() {
                if order == size.order() {
                    size.watch(page, clock);
                }
                ready.extend(around(order));
            } else {
                mapped.extend(around(order));
            }
        }
    }

    #[test]
    fn used_neighbours_make_fault_around_grow_and_unused_ones_make_it_shrink() {
        let mut size = FaultAroundSize::new(2);
        run(&mut size, (0..20_000).map(|at| at * 16));
        assert_eq!(size.order(), 0);
        let mut random = Pcg64Mcg::seed_from_u64(1);
        run(&mut size, (0..20_000).map(|_| random.next_u64() >> 40));
        assert_eq!(size.order(), 0);
        let mut blocks = || (random.next_u64() >> 40) << 3;
        let block: Vec<Page> = (0..2000).map(|_| blocks()).collect();
        run(&mut size, block.iter().flat_map(|first| *first..first + 8));
        assert_eq!(size.order(), 3);
    }

    #[test]
    fn pages_used_while_they_are_resident_are_read_at_once() {
        let mut size = FaultAroundSize::new(2);
        // The program reads a cube across its rows: one page of each of 100 rows, then the next
        // page of each row. The rows begin 1000 pages apart. A row's next page is touched after 99
        // other rows, while its block is still resident, so the order must not shrink.
        run(&mut size, (0..400).flat_map(|page| (0..100).map(move |row| row * 1000 + page)));
        assert!(size.order() >= 2, "{size:?}");
        let mut random = Pcg64Mcg::seed_from_u64(1);
        run(&mut size, (0..20_000).map(|_| random.next_u64() >> 50));
        assert_eq!(size.order(), 0);
    }
}
