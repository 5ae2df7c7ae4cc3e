//! The traffic of the pager at every budget: computed from a trace and one run, or from runs alone.
//!
//! While the footprint does not fit, a part of the budget holds no used pages: the reserve of free
//! frames, and pages that are prefetched and not used yet. The rest is the used part
//! ([`used_bytes`]), which determines the traffic even at budgets just below the footprint. For
//! example, a footprint of 100 MiB exceeds a budget of 97 MiB by only 3 MiB. But the used part of
//! the budget is only 85 MiB, so each pass of a loop reads 15 MiB. Once the footprint fits, nothing
//! is evicted, and the traffic falls to 0 in a step.
//!
//! The pager's traffic is between the traffic of two policies. For a loop that the pager has
//! detected, it reads hardly more than optimal replacement. For other accesses, it reads as much as
//! random replacement. The traffic of one run gives the share of random replacement, and the model
//! assumes the same share at other budgets:
//!
//! ```text
//! traffic(b) = (1 - share) optimal(used(b)) + share random(used(b))
//! ```
//!
//! A worked example: at a budget of 24 MiB, of which 21 MiB are used, a pass reads 82 MiB with
//! optimal and 126 MiB with random replacement. The run has read 114 MiB, so the share is 0.73. At
//! a budget of 36 MiB, the two policies read 51 and 85 MiB, so the pager reads 76 MiB.
//!
//! Without a trace, the model assumes that the traffic is proportional to the bytes by which the
//! footprint exceeds the used part of the budget ([`curve_of_runs`]). This holds for loops and for
//! uniform random access.

use crate::{
    access::Trace,
    miss_curve::{MissCurve, Point, Traffic},
    replacement::Replacement,
};

const MIB: u64 = 1 << 20;

/// The pager's reserve of free frames: the budget divided by `RESERVE_DIVISOR`, but at most
/// `RESERVE_MAX` bytes (`cache/evict.rs` of the pager).
const RESERVE_DIVISOR: u64 = 16;
const RESERVE_MAX: u64 = 64 * MIB;

/// The maximum size of the prefetched, unused pages: the budget divided by `PREFETCHED_DIVISOR`,
/// but at most `PREFETCHED_MAX` bytes. It is at least `PREFETCHED_MIN` bytes, or the budget divided
/// by `PREFETCHED_MIN_DIVISOR` if that is less (`cache/prefetch_queue.rs` of the pager).
const PREFETCHED_DIVISOR: u64 = 16;
const PREFETCHED_MIN: u64 = 16 * MIB;
const PREFETCHED_MIN_DIVISOR: u64 = 8;
const PREFETCHED_MAX: u64 = 128 * MIB;

/// Mean size of the prefetched, unused pages, as a fraction of their maximum size
/// ([`PREFETCHED_DIVISOR`]). It is below 1, because a stream prefetches up to the maximum, and then
/// uses some of these pages before it prefetches again.
const PREFETCHED_PART: f64 = 0.5;

/// Number of points that [`curve_of_runs`] adds to a curve, at budgets between the largest budget
/// of the runs and the footprint.
const STEPS: u64 = 32;

/// Returns the size of the used part of a budget if the footprint does not fit, bytes: the budget,
/// minus the reserve of free frames, minus prefetched pages that are not used yet. `demand_share`
/// is the share of demand reads (reads of pages that were not prefetched) among all reads.
///
/// The size rises with the budget.
pub fn used_bytes(budget_bytes: u64, demand_share: f64) -> u64 {
    let reserve = (budget_bytes / RESERVE_DIVISOR).min(RESERVE_MAX);
    let prefetched_max = (budget_bytes / PREFETCHED_DIVISOR)
        .max(PREFETCHED_MIN.min(budget_bytes / PREFETCHED_MIN_DIVISOR))
        .min(PREFETCHED_MAX);
    let prefetched = PREFETCHED_PART * (1.0 - demand_share.clamp(0.0, 1.0)) * prefetched_max as f64;
    budget_bytes - reserve - prefetched as u64
}

/// Returns the bytes of the footprint that do not fit: the footprint minus [`used_bytes`]; 0 once
/// the footprint is at most the budget.
pub fn missing_bytes(footprint_bytes: u64, budget_bytes: u64, demand_share: f64) -> u64 {
    match budget_bytes < footprint_bytes {
        true => footprint_bytes - used_bytes(budget_bytes, demand_share),
        false => 0,
    }
}

/// Returns the miss curve through the traffic of runs. Between the budgets of two runs, the traffic
/// is interpolated. Between the largest budget and the footprint, it is proportional to
/// [`missing_bytes`].
pub fn curve_of_runs(footprint_bytes: u64, runs: &[Point], demand_share: f64) -> MissCurve {
    let mut points = runs.to_vec();
    let missing = |budget| missing_bytes(footprint_bytes, budget, demand_share) as f64;
    if let Some(last) = runs.iter().max_by_key(|run| run.budget_bytes)
        && last.budget_bytes < footprint_bytes
    {
        let rest = footprint_bytes - 1 - last.budget_bytes;
        points.extend((1..=STEPS).map(|step| {
            let budget_bytes =
                last.budget_bytes + (rest as f64 * step as f64 / STEPS as f64) as u64;
            let traffic = last.traffic.times(missing(budget_bytes) / missing(last.budget_bytes));
            Point { budget_bytes, traffic }
        }));
    }
    MissCurve::of_points(footprint_bytes, points)
}

/// The share of random replacement in the pager's traffic, for reads and for writes: with 0 the
/// traffic is that of optimal replacement, with 1 that of random replacement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RandomShare {
    pub reads: f64,
    pub writes: f64,
}

/// The miss curves of optimal and of random replacement. The pager's traffic is between the two.
#[derive(Clone, Debug, PartialEq)]
pub struct PagerCurves {
    optimal: MissCurve,
    random: MissCurve,
    /// The share of demand reads (reads of pages that were not prefetched) among all reads of the
    /// run.
    demand_share: f64,
}

impl PagerCurves {
    /// Simulates a pass with both policies, at `steps` budgets up to the footprint, with a sample
    /// of about `sample` blocks. `demand_share` is the share of demand reads among all reads of the
    /// run.
    pub fn of_trace(trace: &Trace, steps: u32, sample: usize, demand_share: f64) -> Self {
        let curve = |policy| MissCurve::of_trace(trace, policy, steps, sample);
        let (optimal, random) = (curve(Replacement::Optimal), curve(Replacement::Random));
        Self { optimal, random, demand_share }
    }

    /// Returns the traffic of optimal and of random replacement if the cache has only the used part
    /// of the budget ([`used_bytes`]).
    fn bounds(&self, budget_bytes: u64) -> [Traffic; 2] {
        let used = used_bytes(budget_bytes, self.demand_share);
        [self.optimal.at(used), self.random.at(used)]
    }

    /// Converts the curves of a trace that has `rounds` rounds to the curves of one round.
    #[must_use]
    pub fn per_round(self, rounds: u32) -> Self {
        let share = 1.0 / f64::from(rounds.max(1));
        Self {
            optimal: self.optimal.with_traffic_times(share),
            random: self.random.with_traffic_times(share),
            ..self
        }
    }

    /// Returns the share of random replacement at which the weighted mean of the two curves equals
    /// the traffic of `run`, which is that of one pass. The share is clamped to the range from 0 to
    /// 1.
    pub fn share_of(&self, run: &Point) -> RandomShare {
        let [optimal, random] = self.bounds(run.budget_bytes);
        let share = |of: fn(&Traffic) -> f64| {
            let (least, most) = (of(&optimal), of(&random));
            match most > least {
                true => ((of(&run.traffic) - least) / (most - least)).clamp(0.0, 1.0),
                false => 0.0,
            }
        };
        RandomShare {
            reads: share(|traffic| traffic.read_bytes),
            writes: share(|traffic| traffic.written_bytes),
        }
    }

    /// Returns the pager's miss curve: at each budget the weighted mean of optimal and random
    /// replacement, where `share` is the weight of random replacement.
    pub fn curve(&self, share: RandomShare) -> MissCurve {
        let mix = |share: f64, optimal: f64, random: f64| optimal + share * (random - optimal);
        let footprint = self.optimal.footprint_bytes();
        let budgets = self.optimal.points().iter().map(|point| point.budget_bytes);
        let point = |budget_bytes| {
            let [optimal, random] = self.bounds(budget_bytes);
            let traffic = Traffic {
                read_bytes: mix(share.reads, optimal.read_bytes, random.read_bytes),
                written_bytes: mix(share.writes, optimal.written_bytes, random.written_bytes),
            };
            Point { budget_bytes, traffic }
        };
        let points = budgets.chain([footprint.saturating_sub(1)]).map(point);
        MissCurve::of_points(footprint, points.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Touch;
    use proptest::prelude::*;

    const BLOCK: u64 = 65536;

    fn curves(blocks: impl IntoIterator<Item = u32>) -> PagerCurves {
        let touch = |block| Touch { block, offset: 0, is_write: block % 2 == 0 };
        let touches = blocks.into_iter().map(touch).collect();
        PagerCurves::of_trace(&Trace { block_bytes: BLOCK, touches }, 16, 1000, 0.0)
    }

    fn run(curves: &PagerCurves, budget: u64, share: f64) -> Point {
        let share = RandomShare { reads: share, writes: share };
        let budget_bytes = budget * BLOCK;
        Point { budget_bytes, traffic: curves.curve(share).at(budget_bytes) }
    }

    #[test]
    fn the_share_of_a_run_is_found_again() {
        let loops = curves((0..3).flat_map(|_| 0..800));
        for share in [0.0, 0.3, 1.0] {
            let found = loops.share_of(&run(&loops, 400, share));
            assert!((found.reads - share).abs() < 0.02, "{share}: {found:?}");
            assert!((found.writes - share).abs() < 0.02, "{share}: {found:?}");
        }
    }

    #[test]
    fn a_run_outside_of_both_policies_is_one_of_them() {
        let loops = curves(0..800);
        let budget_bytes = 400 * BLOCK;
        let of = |bytes: f64| {
            let traffic = Traffic { read_bytes: bytes, written_bytes: bytes };
            loops.share_of(&Point { budget_bytes, traffic })
        };
        assert_eq!(of(0.0), RandomShare::default());
        assert_eq!(of(1e12), RandomShare { reads: 1.0, writes: 1.0 });
    }

    #[test]
    fn a_budget_just_below_the_footprint_has_the_traffic_of_its_used_part() {
        let loops = curves((0..3).flat_map(|_| 0..800));
        let curve = loops.curve(RandomShare { reads: 1.0, writes: 1.0 });
        let near = curve.at(799 * BLOCK).read_bytes / (700 * BLOCK) as f64;
        let used = loops.random.at(699 * BLOCK).read_bytes / (700 * BLOCK) as f64;
        assert!((near / used - 1.0).abs() < 0.02, "{near} and {used}");
        // About 700 of the 799 blocks of the budget are its used part. Even with optimal
        // replacement, each of the three passes therefore reads about 100 of the 800 blocks.
        let least = loops.curve(RandomShare::default()).at(799 * BLOCK).read_bytes;
        assert!((least / (300 * BLOCK) as f64 - 1.0).abs() < 0.05, "{least}");
        assert_eq!(loops.curve(RandomShare::default()).at(800 * BLOCK), Traffic::default());
    }

    #[test]
    fn the_used_part_is_without_the_reserve_and_half_of_the_prefetched_pages() {
        for (budget, reserve, prefetched) in
            [(64, 4, 4), (128, 8, 8), (256, 16, 8), (1024, 64, 32), (2048, 64, 64), (65536, 64, 64)]
        {
            assert_eq!(used_bytes(budget * MIB, 0.0), (budget - reserve - prefetched) * MIB);
            assert_eq!(used_bytes(budget * MIB, 1.0), (budget - reserve) * MIB, "on demand");
        }
    }

    #[test]
    fn the_traffic_of_a_run_falls_to_that_of_the_used_part_and_then_to_nothing() {
        let point = |budget: u64, read: f64| {
            let traffic = Traffic { read_bytes: read, written_bytes: read / 2.0 };
            Point { budget_bytes: budget * MIB, traffic }
        };
        // A loop over 128 MiB. The used parts of the budgets of 32, 64 and 96 MiB are 28, 56 and 84
        // MiB, and the loop reads the rest of the 128 MiB.
        let curve = curve_of_runs(128 * MIB, &[point(64, 72.0)], 0.0);
        for (budget, read) in [(32, 100.0), (64, 72.0), (96, 44.0), (127, 16.9)] {
            let found = curve.at(budget * MIB);
            assert!((found.read_bytes - read).abs() < 0.1, "{budget}: {found:?}");
            assert!((found.written_bytes - read / 2.0).abs() < 0.1, "{budget}: {found:?}");
        }
        assert_eq!(curve.at(128 * MIB), Traffic::default());
        // At budgets above those of the runs, the traffic follows from the run with the largest
        // budget.
        let curve = curve_of_runs(128 * MIB, &[point(96, 22.0), point(64, 72.0)], 0.0);
        assert!((curve.at(80 * MIB).read_bytes - 47.0).abs() < 0.1);
        assert!((curve.at(127 * MIB).read_bytes - 8.4).abs() < 0.1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn the_used_part_rises_with_the_budget(
            budget in 0_u64..1 << 36,
            more in 0_u64..1 << 30,
            demand in 0.0_f64..1.0,
        ) {
            prop_assert!(used_bytes(budget, demand) <= used_bytes(budget + more, demand) + 1);
            prop_assert!(used_bytes(budget, demand) <= budget);
        }

        #[test]
        fn traffic_never_rises_with_the_budget_and_ends_at_the_footprint(
            blocks in prop::collection::vec(0_u32..60, 1..300),
            share in 0.0_f64..1.0,
        ) {
            let curves = curves(blocks);
            let curve = curves.curve(RandomShare { reads: share, writes: 1.0 - share });
            let all: Vec<Traffic> = (0..=70).map(|blocks| curve.at(blocks * BLOCK)).collect();
            for pair in all.windows(2) {
                prop_assert!(pair[1].read_bytes <= pair[0].read_bytes + 1e-6);
                prop_assert!(pair[1].written_bytes <= pair[0].written_bytes + 1e-6);
            }
            prop_assert_eq!(curve.at(curve.footprint_bytes()), Traffic::default());
        }
    }
}
