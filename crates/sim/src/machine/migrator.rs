//! Turns target shares into migrations of page groups.
//!
//! [`MoveQueue`] holds the misplaced page groups of all tasks. The order of the target ([`Order`])
//! decides where groups go. *Interleave*: a hot group goes to the tier that
//! [`super::pages::Interleaving`] assigns to its address; cold groups stay, because moving them
//! gains nothing. *Hottest first*: the hottest regions fill the first tier. With either order, and
//! before the first decision, cold pages of a tier that has less than 1 % of free memory are
//! demoted until 2 % are free, as the prototype of dynamic memory interleaving (DMI) does with
//! DAMON's `migrate_cold`. Pages of a scope that is not steered stay.

use super::{
    heat::{Heat, Region, samples},
    pages::{Interleaving, Pages},
    scenario::Damon,
};
use interleaf_model::machine::Order;
use std::collections::VecDeque;

/// A region is hot if at least this fraction of the samples of an aggregation interval found an
/// access. The prototype of dynamic memory interleaving (DMI) interleaves regions with accesses in
/// 10 to 100 % of the samples.
const HOT: f64 = 0.1;

/// Time without an access after which a region is cold, ns (DMI prototype: 15 s).
const COLD_NS: u64 = 15_000_000_000;

/// Demotion of cold pages from a tier starts when its free memory is below [`DEMOTE_BELOW`] of its
/// capacity, and stops at [`DEMOTE_UP_TO`] (DMI prototype: watermarks of 1 % and 2 % of a node).
const DEMOTE_BELOW: f64 = 0.01;
pub(super) const DEMOTE_UP_TO: f64 = 0.02;

/// Bonus of a page group that is already on the first local tier, when the hottest groups are
/// selected: this number is added to its hits (samples that found an access). Without the bonus,
/// random errors of sampling would exchange groups of equal hotness between tiers for ever.
const RESIDENT_BONUS: u32 = 2;

/// A planned migration: the page group `group` of the task `task` migrates to the tier `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) task: usize,
    pub(super) group: usize,
    pub(super) to: usize,
}

/// A task, with the pages that the migrator may move and the hotness that DAMON sampled.
pub(super) struct Steered<'a> {
    pub(super) task: usize,
    pub(super) pages: &'a Pages,
    pub(super) heat: &'a Heat,
    /// The local tiers of the task (the memory of its own socket), the fastest first.
    pub(super) near: &'a [usize],
    /// True if the pages of the task may be migrated.
    pub(super) steered: bool,
    /// The target shares of the tiers, and the order that assigns pages to tiers; `None` for a task
    /// that is not steered, and before the first decision of the policy.
    pub(super) target: Option<(&'a [f64], Order)>,
}

impl Steered<'_> {
    /// Returns the local tiers to which pages of `tier` are demoted, the fastest first: the local
    /// tiers that are slower than `tier`, or all local tiers if `tier` is not local.
    fn slower(&self, tier: usize) -> impl Iterator<Item = usize> {
        let behind = self.near.iter().position(|own| *own == tier).map_or(0, |at| at + 1);
        self.near[behind..].iter().copied()
    }
}

/// The planned moves of page groups, in the order in which they are made.
#[derive(Clone, Debug, Default)]
pub(super) struct MoveQueue {
    moves: VecDeque<Move>,
    /// For each task: if the last search found no misplaced group, the target shares and the value
    /// of [`Pages::moves`] at that search; otherwise `None`. While neither value has changed, no
    /// new search is needed.
    in_place: Vec<Option<(Vec<f64>, u64)>>,
    /// For each tier, true from the start of the demotion of its cold pages ([`DEMOTE_BELOW`]) to
    /// its end ([`DEMOTE_UP_TO`]).
    relieving: Vec<bool>,
}

impl MoveQueue {
    /// Returns the next move of the plan; `None` if nothing is left to move.
    pub(super) fn first(&self) -> Option<Move> {
        self.moves.front().copied()
    }

    pub(super) fn pop(&mut self) {
        self.moves.pop_front();
    }

    /// Replaces the planned moves: first demotions from nearly full tiers, then moves to the
    /// targets. `free` has the free bytes of each tier, `capacity` the total bytes.
    pub(super) fn plan(
        &mut self,
        tasks: &[Steered<'_>],
        damon: &Damon,
        free: &[u64],
        capacity: &[u64],
    ) {
        self.moves.clear();
        self.relieve(tasks, damon, free, capacity);
        for task in tasks {
            match task.target {
                Some((shares, Order::Interleave)) => self.interleave(task, damon, shares),
                Some((shares, Order::HottestFirst)) => self.hottest_first(task, shares),
                None => {}
            }
        }
    }

    fn relieve(&mut self, tasks: &[Steered<'_>], damon: &Damon, free: &[u64], capacity: &[u64]) {
        let mut room = free.to_vec();
        self.relieving.resize(free.len(), false);
        for tier in 0..free.len() {
            let below = |part: f64| (free[tier] as f64) < part * capacity[tier] as f64;
            self.relieving[tier] =
                below(DEMOTE_BELOW) || self.relieving[tier] && below(DEMOTE_UP_TO);
            if !self.relieving[tier] {
                continue;
            }
            let wanted = (DEMOTE_UP_TO * capacity[tier] as f64) as u64;
            for task in tasks.iter().filter(|task| task.steered) {
                let cold = task.heat.regions().iter().filter(|region| is_cold(region, damon));
                for group in cold.flat_map(|region| region.start..region.end) {
                    let bytes = task.pages.group_bytes(group);
                    if room[tier] >= wanted {
                        break;
                    }
                    if task.pages.tier(group) != tier {
                        continue;
                    }
                    let slower = task.slower(tier).find(|to| room[*to] > bytes);
                    let Some(to) = slower else { break };
                    room[tier] += bytes;
                    room[to] -= bytes;
                    self.moves.push_back(Move { task: task.task, group, to });
                }
            }
        }
    }

    fn interleave(&mut self, task: &Steered<'_>, damon: &Damon, shares: &[f64]) {
        if self.in_place.len() <= task.task {
            self.in_place.resize(task.task + 1, None);
        }
        let moves = task.pages.moves();
        let known = self.in_place[task.task].as_ref();
        if known.is_some_and(|(at, until)| at == shares && *until == moves) {
            return;
        }
        let interleaving = Interleaving::new(shares);
        let hot = HOT * f64::from(samples(damon));
        let mut in_place = true;
        for region in task.heat.regions() {
            let is_hot = f64::from(region.accesses) >= hot;
            for group in region.start..region.end {
                let to = interleaving.tier(group);
                if task.pages.tier(group) != to {
                    in_place = false;
                    if is_hot {
                        self.moves.push_back(Move { task: task.task, group, to });
                    }
                }
            }
        }
        self.in_place[task.task] = in_place.then(|| (shares.to_vec(), moves));
    }

    fn hottest_first(&mut self, task: &Steered<'_>, shares: &[f64]) {
        if !task.heat.is_known() {
            return;
        }
        let pages = task.pages;
        // Entry `h` has the page groups with `h` hits (including the bonus), in the order of
        // addresses.
        let mut by_heat: Vec<Vec<usize>> = vec![];
        for region in task.heat.regions() {
            for group in region.start..region.end {
                let bonus = if pages.tier(group) == task.near[0] { RESIDENT_BONUS } else { 0 };
                let heat = (region.accesses + bonus) as usize;
                if by_heat.len() <= heat {
                    by_heat.resize(heat + 1, vec![]);
                }
                by_heat[heat].push(group);
            }
        }
        let mut room: Vec<f64> = shares.iter().map(|share| share * pages.bytes() as f64).collect();
        let last = task.near[task.near.len() - 1];
        let mut up = vec![];
        for group in by_heat.into_iter().rev().flatten() {
            let bytes = pages.group_bytes(group) as f64;
            let to = room.iter().position(|room| *room >= 0.5 * bytes).unwrap_or(last);
            room[to] -= bytes;
            let step = Move { task: task.task, group, to };
            match pages.tier(group).cmp(&to) {
                // Moves out of a fast tier go first, because they free its memory for the moves
                // into it.
                std::cmp::Ordering::Less => self.moves.push_back(step),
                std::cmp::Ordering::Greater => up.push(step),
                std::cmp::Ordering::Equal => {}
            }
        }
        self.moves.extend(up);
    }
}

fn is_cold(region: &Region, damon: &Damon) -> bool {
    region.accesses == 0 && u64::from(region.age) * damon.aggregation_ns >= COLD_NS
}
