//! Computes the next quota of DAMON's migration from the measured placement, by pure functions.
//!
//! DAMON migrates whole regions of hot pages, and the effect can be measured only seconds later.
//! With DAMON's quota goals alone, the ratio of the pages on two nodes oscillates between 15:85 and
//! 98:2 (Linux 7.2.12). The quota is therefore computed from the measured placement: it is a
//! fraction of the missing bytes, and zero near the goal:
//!
//! ```text
//! 200 MiB, all on node 0, goal 60:40: 80 MiB are missing
//! window   moves at most     on node 1 after the window
//!      1   0.3 * 80 = 24     24
//!      2   0.3 * 56 = 17     41
//!      3   0.3 * 39 = 12     53 ...
//! ```
//!
//! If the placement is sampled only every second (third) window, at most 0.6 (0.9) of the missing
//! bytes move between two samples. This is less than 1, so the ratio does not overshoot.
//!
//! The kernel charges every attempt to the quota, even attempts on file pages and free memory. On
//! Linux 6.12, 15 MiB of attempts in each of eight windows moved no page. While all attempts fail,
//! the quota therefore grows: up to the missing bytes at level 0 ([`Push::level`]), and up to
//! `GAIN_MAX` times the missing bytes at higher levels. The quota falls back to 0.3 of the missing
//! bytes as soon as pages move, and when the level rises.
//!
//! If DAMON tries no page, no region matches the allowed access counts. A larger quota would have
//! no effect then, and would migrate too many pages as soon as a region matches. Therefore the
//! quota stays, and the range of allowed access counts is widened.

use super::{Goal, context::ACCESSES_MAX, demote::COLD_AGE, kdamond::Stats};
use crate::process::numa_maps::NodeBytes;
use interleaf_model::machine::Order;

/// The usual gain: the quota of a window divided by the missing bytes, which are the smaller of the
/// source node's excess and the destination node's deficit.
const GAIN: f64 = 0.3;

/// Upper bound of the gain at [`Push::level`] 1 and above; at level 0 the bound is 1. The gain
/// rises above [`GAIN`] while no page moves. With a gain of 2 or more, the placement would
/// oscillate around the goal.
const GAIN_MAX: f64 = 1.5;

/// Migration stops within this distance of the goal, percentage points.
const REST_POINTS: f64 = 1.0;

/// Stopped migration begins again above this distance from the goal, percentage points.
const WAKE_POINTS: f64 = 2.0;

/// The minimum quota of a window, bytes.
const LEAST_BYTES: u64 = 1 << 20;
/// The number of bytes that must migrate between two samples to count as an effect.
const STALL_BYTES: u64 = 256 << 10;

/// The number of consecutive samples without effect after which the controller changes its next
/// [`Push`]:
/// - [`Push::level`] rises if DAMON tried no migration in these samples, so that pages with other
///   access counts are migrated too. The first [`Push::age_min`] samples are not counted, because
///   no region can have that age yet.
/// - The direction of an exchange between two nodes (`exchange`) is reversed if less than
///   [`STALL_BYTES`] migrated in each of these samples.
const IDLE_MAX: u32 = 8;

/// The highest [`Push::level`], at which pages with any access count may migrate.
const LEVEL_MAX: u32 = 2;

/// Minimum access count of hot pages ([`Order::HottestFirst`]): half of the samples in an
/// aggregation interval.
const HOT: u32 = ACCESSES_MAX / 2;

/// The range of access counts of cold pages, for [`Order::HottestFirst`].
const COLD: (u32, u32) = (0, 0);

/// Chooses the next migration request ([`Push`]) from the measured placement and DAMON's
/// statistics.
#[derive(Clone, Debug, Default)]
pub struct QuotaController {
    is_moving: bool,
    demotes: bool,
    /// The number of consecutive samples in which DAMON tried no migration.
    idle: u32,
    /// The number of consecutive samples in which less than [`STALL_BYTES`] migrated.
    still: u32,
    /// Bytes tried by DAMON since the last sample in which at least [`STALL_BYTES`] migrated.
    failed_bytes: u64,
    level: u32,
    /// The minimum age of a region ([`Push::age_min`]) in the last push.
    age_min: u32,
    last: Option<(u32, u32, Stats)>,
}

/// A migration from one node to another that the controller requests from DAMON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Push {
    /// The source node.
    pub from: u32,
    /// The destination node.
    pub to: u32,
    /// The bytes that DAMON may try to migrate in a window of the quota.
    pub bytes: u64,
    /// True to migrate hot pages (`migrate_hot`), false to migrate cold pages (`migrate_cold`).
    pub is_hot: bool,
    /// The least and the greatest access count in an aggregation interval that a region may have.
    pub accesses: (u32, u32),
    /// The minimum age of a region. DAMON's age is the number of aggregation intervals for which
    /// the access count has hardly changed. One interval with the count 0 does not show that a
    /// region is cold: a region of hot pages may have this count in one interval, above all in the
    /// first interval of monitoring.
    pub age_min: u32,
    /// The level of escalation: 0 at first, higher while pushes have no effect. From level 1 on,
    /// pages with other access counts are allowed too.
    pub level: u32,
}

impl QuotaController {
    /// Returns the next migration request, given the measured placement `on` and DAMON's statistics
    /// `done`; `None` if no page should migrate.
    pub fn step(&mut self, goal: &Goal, on: &NodeBytes, done: Stats) -> Option<Push> {
        let shares = goal.shares().ok()?;
        let total = on.total() as f64;
        // The bytes by which a node exceeds its target share of all bytes; negative if the node has
        // less than its target. Nodes outside the goal are not considered.
        let over = |node: u32| on.on(node) as f64 - shares.get(&node).unwrap_or(&0.0) * total;
        let nodes = || goal.nodes.iter().map(|(node, _)| *node);
        let most = nodes().max_by(|a, b| over(*a).total_cmp(&over(*b)))?;
        let least = nodes().min_by(|a, b| over(*a).total_cmp(&over(*b)))?;
        if total <= 0.0 || most == least {
            return None;
        }
        let missing = over(most).min(-over(least)).max(0.0);
        let points = 100.0 * missing / total;
        self.is_moving = points > if self.is_moving { REST_POINTS } else { WAKE_POINTS };
        if !self.is_moving {
            return self.exchange(goal, on, done, &over);
        }
        self.watch((most, least), on, done);
        let position = |node: u32| nodes().position(|it| it == node);
        let is_hot = goal.order == Order::Interleave || position(least) < position(most);
        let gain_most = if self.level == 0 { 1.0 } else { GAIN_MAX };
        let gain = (GAIN + self.failed_bytes as f64 / missing).min(gain_most);
        let bytes = ((missing * gain) as u64).max(LEAST_BYTES);
        Some(self.push(goal, most, least, bytes, is_hot))
    }

    /// Lets the two fastest nodes exchange pages, for [`Order::HottestFirst`] at the goal. Hot
    /// pages of the second node migrate to the first node until the first node is [`REST_POINTS`]
    /// above its target share. Then cold pages of the first node migrate to the second until the
    /// first node is [`REST_POINTS`] below its target share, and so on. The direction also changes
    /// after [`IDLE_MAX`] samples in which less than [`STALL_BYTES`] migrated.
    fn exchange(
        &mut self,
        goal: &Goal,
        on: &NodeBytes,
        done: Stats,
        over: &dyn Fn(u32) -> f64,
    ) -> Option<Push> {
        let (first, second) = (goal.nodes.first()?.0, goal.nodes.get(1)?.0);
        if goal.order == Order::Interleave {
            (self.last, self.level) = (None, 0);
            return None;
        }
        let points = 100.0 * over(first) / on.total() as f64;
        let (from, to) = if self.demotes { (first, second) } else { (second, first) };
        self.watch((from, to), on, done);
        let is_in_vain = self.still >= IDLE_MAX;
        self.level = 0;
        let is_far = if self.demotes { points < -REST_POINTS } else { points > REST_POINTS };
        self.demotes ^= is_in_vain || is_far;
        let (from, to) = if self.demotes { (first, second) } else { (second, first) };
        let bytes = ((on.total() as f64 * REST_POINTS / 100.0) as u64).max(LEAST_BYTES);
        Some(self.push(goal, from, to, bytes, !self.demotes))
    }

    /// Counts consecutive samples without effect, from DAMON's statistics `done`, and raises the
    /// level after too many of them. Pages that land on a node other than the destination `to`,
    /// because the destination is full, count as migrated: a larger quota would not help.
    fn watch(&mut self, (from, to): (u32, u32), on: &NodeBytes, done: Stats) {
        match self.last {
            Some((was_from, was_to, before)) if (was_from, was_to) == (from, to) => {
                let tried = done.tried_bytes.saturating_sub(before.tried_bytes);
                let applied = done.applied_bytes.saturating_sub(before.applied_bytes);
                let has_moved = applied >= STALL_BYTES;
                self.failed_bytes = if has_moved { 0 } else { self.failed_bytes + tried };
                self.idle = if tried > 0 { 0 } else { self.idle + 1 };
                self.still = if has_moved { 0 } else { self.still + 1 };
            }
            _ => (self.idle, self.still, self.failed_bytes, self.level) = (0, 0, 0, 0),
        }
        // DAMON tries no region before the region has the age `age_min`. Therefore the first
        // `age_min` samples do not count as idle. The level also rises when the failed attempts add
        // up to the memory of the source node.
        if self.idle >= IDLE_MAX + self.age_min || self.failed_bytes >= on.on(from).max(LEAST_BYTES)
        {
            (self.idle, self.failed_bytes) = (0, 0);
            self.level = (self.level + 1).min(LEVEL_MAX);
        }
        self.last = Some((from, to, done));
    }

    fn push(&mut self, goal: &Goal, from: u32, to: u32, bytes: u64, is_hot: bool) -> Push {
        let accesses = match (goal.order, is_hot, self.level) {
            (Order::Interleave, _, 0) => (1, u32::MAX),
            (Order::HottestFirst, true, 0) => (HOT, u32::MAX),
            (Order::HottestFirst, true, 1) => (1, u32::MAX),
            (Order::HottestFirst, false, 0) => COLD,
            (Order::HottestFirst, false, 1) => (0, HOT),
            _ => (0, u32::MAX),
        };
        self.age_min = if accesses == COLD { COLD_AGE } else { 0 };
        let Self { age_min, level, .. } = *self;
        Push { from, to, bytes, is_hot, accesses, age_min, level }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const MIB: u64 = 1 << 20;

    fn goal(nodes: &[(u32, u32)], order: Order) -> Goal {
        Goal { nodes: nodes.to_vec(), order, demotions: vec![], rate_limit_bytes_per_s: None }
    }

    fn on(pairs: &[(u32, u64)]) -> NodeBytes {
        NodeBytes(pairs.iter().map(|(node, mib)| (*node, mib * MIB)).collect())
    }

    /// Simulates 200 MiB, all on node 0 at first, with a goal of 60:40. Returns node 0's share
    /// after each sample, percent. Each window moves its whole quota, and one sample is taken every
    /// `periods_per_sample` windows.
    fn run(periods_per_sample: u32) -> Vec<f64> {
        let goal = goal(&[(0, 60), (1, 40)], Order::Interleave);
        let (mut steer, mut here) = (QuotaController::default(), on(&[(0, 200), (1, 0)]));
        let mut done = Stats::default();
        let mut points = vec![];
        for _ in 0..30 {
            if let Some(push) = steer.step(&goal, &here, done) {
                for _ in 0..periods_per_sample {
                    let bytes = push.bytes.min(here.on(push.from));
                    *here.0.entry(push.from).or_default() -= bytes;
                    *here.0.entry(push.to).or_default() += bytes;
                    done.tried_bytes += bytes;
                    done.applied_bytes += bytes;
                }
            }
            points.push(100.0 * here.on(0) as f64 / here.total() as f64);
        }
        points
    }

    #[test]
    fn the_controller_settles_at_the_goal() {
        for periods_per_sample in [1, 2, 3, 5] {
            let points = run(periods_per_sample);
            let last = points.last().unwrap();
            assert!((last - 60.0).abs() <= WAKE_POINTS, "{periods_per_sample}: {points:?}");
            assert!(periods_per_sample > 3 || points.iter().all(|it| *it >= 56.0), "{points:?}");
        }
    }

    #[test]
    fn of_three_nodes_the_fullest_gives_to_the_emptiest() {
        let goal = goal(&[(0, 2), (1, 1), (2, 1)], Order::Interleave);
        let here = on(&[(0, 100), (1, 90), (2, 10)]);
        let push = QuotaController::default().step(&goal, &here, Stats::default()).unwrap();
        assert_eq!((push.from, push.to), (1, 2));
        assert_eq!((push.bytes, push.accesses), (12 * MIB, (1, u32::MAX)));
    }

    /// Returns the pushes of the controller if each window tries `tries_mib` MiB and no page moves.
    /// All memory is on node 0, and the goal is 1:1.
    fn in_vain(tries_mib: u64) -> Vec<Push> {
        let goal = goal(&[(0, 1), (1, 1)], Order::Interleave);
        let (mut steer, here) = (QuotaController::default(), on(&[(0, 100)]));
        let done = |sample| Stats { tried_bytes: sample * tries_mib * MIB, applied_bytes: 0 };
        (0..20).map(|sample| steer.step(&goal, &here, done(sample)).unwrap()).collect()
    }

    #[test]
    fn quotas_without_matching_regions_raise_the_level() {
        let pushes = in_vain(0);
        let levels: Vec<u32> = pushes.iter().map(|push| push.level).collect();
        assert_eq!(levels, [vec![0; 8], vec![1; 8], vec![2; 4]].concat());
        assert!(pushes.iter().all(|push| push.bytes == 15 * MIB), "{pushes:?}");
    }

    #[test]
    fn unsuccessful_attempts_raise_quota_and_level() {
        let pushes = in_vain(20);
        let steps: Vec<(u32, u64)> = pushes.iter().map(|it| (it.level, it.bytes / MIB)).collect();
        let expected = [(0, 15), (0, 35), (0, 50), (0, 50), (0, 50), (1, 15), (1, 35), (1, 55)];
        assert_eq!(steps[..8], expected);
        assert_eq!(steps[8..12], [(1, 75), (1, 75), (2, 15), (2, 35)]);
    }

    #[test]
    fn a_resumed_migration_does_not_raise_the_quota() {
        let goal = goal(&[(0, 1), (1, 1)], Order::Interleave);
        let mut steer = QuotaController::default();
        let samples = [(0, 0, 100), (40, 0, 100), (90, 40, 60), (110, 40, 60)];
        let mib = samples.map(|(tried, applied, here)| {
            let done = Stats { tried_bytes: tried * MIB, applied_bytes: applied * MIB };
            let push = steer.step(&goal, &on(&[(0, here), (1, 100 - here)]), done).unwrap();
            push.bytes / MIB
        });
        assert_eq!(mib, [15, 50, 3, 10]);
    }

    #[test]
    fn the_hottest_go_up_and_the_coldest_down() {
        let goal = goal(&[(0, 1), (1, 1)], Order::HottestFirst);
        let none = Stats::default();
        let push = QuotaController::default().step(&goal, &on(&[(0, 10), (1, 90)]), none).unwrap();
        assert_eq!((push.to, push.is_hot, push.accesses), (0, true, (HOT, u32::MAX)));
        let push = QuotaController::default().step(&goal, &on(&[(0, 90), (1, 10)]), none).unwrap();
        assert_eq!((push.to, push.is_hot, push.accesses), (1, false, (0, 0)));
        assert_eq!(push.age_min, COLD_AGE);
        // At the goal, the two nodes exchange pages. The exchange reverses if no page moves, even
        // if DAMON tries pages: with `vaddr`, it also tries pages that are on the destination
        // already.
        for tries in [0, MIB] {
            let (mut steer, here) = (QuotaController::default(), on(&[(0, 50), (1, 50)]));
            let done = |sample| Stats { tried_bytes: sample * tries, applied_bytes: 0 };
            let to = (0..20).map(|sample| steer.step(&goal, &here, done(sample)).unwrap().to);
            let to: Vec<u32> = to.collect();
            assert_eq!((to[0], to[10], to[19]), (0, 1, 0), "{to:?}");
        }
    }

    /// DAMON tries no page at all. Before the controller demotes pages with more accesses, it waits
    /// for `COLD_AGE` samples in addition, in which cold regions can reach this age.
    #[test]
    fn cold_pages_may_grow_old_before_the_level_rises() {
        let goal = goal(&[(0, 1), (1, 1)], Order::HottestFirst);
        let (mut steer, here) = (QuotaController::default(), on(&[(0, 100)]));
        let mut step = || steer.step(&goal, &here, Stats::default()).unwrap();
        let pushes: Vec<Push> = (0..=IDLE_MAX + COLD_AGE).map(|_| step()).collect();
        let (last, first) = pushes.split_last().unwrap();
        assert!(first.iter().all(|it| (it.accesses, it.age_min) == (COLD, COLD_AGE)), "{first:?}");
        assert_eq!((last.accesses, last.age_min), ((0, HOT), 0));
    }

    #[test]
    fn a_process_without_pages_has_no_quota() {
        let goal = goal(&[(0, 1), (1, 1)], Order::Interleave);
        assert_eq!(QuotaController::default().step(&goal, &on(&[]), Stats::default()), None);
    }
}
