//! The traffic of the pager at every budget, from a trace and one run.
//!
//! The pager's traffic is between the traffic of two policies. For a detected loop the pager reads
//! hardly more than optimal replacement with nearly the whole budget. For other accesses the pager
//! reads as much as random replacement with the part of the budget that holds used pages. The
//! traffic of one run gives the share of each policy. The model assumes the same share at other
//! budgets:
//!
//! ```text
//! traffic(b) = (1 - share) optimal(b) + share random(7/8 b)
//! ```
//!
//! A worked example: at a budget of 24 MiB a pass reads 73 MiB with optimal and 126 MiB with random
//! replacement. The run has read 114 MiB, so the share is 0.77. At 36 MiB the two policies read 38
//! and 85 MiB, hence the pager reads 74 MiB.

use crate::{
    access::Trace,
    miss_curve::{MissCurve, Point, Traffic},
    replacement::Replacement,
};

/// The part of a budget that holds used pages, if the footprint does not fit and the accesses are
/// not a long loop. The pager keeps a sixteenth of the frames free for reads; another sixteenth
/// holds prefetched pages that are not used yet (`cache/evict.rs` and `cache/prefetch_queue.rs` of
/// the pager).
const fn used_part(budget_bytes: u64) -> u64 {
    budget_bytes / 8 * 7
}

/// The share of random replacement in the traffic of the pager: 0 is optimal replacement, 1 is
/// random replacement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RandomShare {
    pub reads: f64,
    pub writes: f64,
}

/// The miss curves of the two policies that bound the pager's traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct PagerCurves {
    optimal: MissCurve,
    random: MissCurve,
}

impl PagerCurves {
    /// Simulates a pass at `steps` budgets up to the footprint, with a sample of about `sample`
    /// blocks.
    pub fn of_trace(trace: &Trace, steps: u32, sample: usize) -> Self {
        let curve = |policy| MissCurve::of_trace(trace, policy, steps, sample);
        Self { optimal: curve(Replacement::Optimal), random: curve(Replacement::Random) }
    }

    /// Converts the curves of a trace of `rounds` rounds to the curves of one round.
    #[must_use]
    pub fn per_round(self, rounds: u32) -> Self {
        let share = 1.0 / f64::from(rounds.max(1));
        Self {
            optimal: self.optimal.with_traffic_times(share),
            random: self.random.with_traffic_times(share),
        }
    }

    /// The share at which the two curves give the traffic of `run`, a run of one pass. The share is
    /// clamped to 0 and 1.
    pub fn share_of(&self, run: &Point) -> RandomShare {
        let optimal = self.optimal.at(run.budget_bytes);
        let random = self.random.at(used_part(run.budget_bytes));
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

    /// The miss curve of the pager with this share. Once the footprint fits, the pager uses the
    /// whole budget, so the traffic falls to 0 in a step.
    pub fn curve(&self, share: RandomShare) -> MissCurve {
        let mix = |share: f64, optimal: f64, random: f64| optimal + share * (random - optimal);
        let footprint = self.optimal.footprint_bytes();
        let budgets = self.optimal.points().iter().map(|point| point.budget_bytes);
        let point = |budget_bytes| {
            let optimal = self.optimal.at(budget_bytes);
            let random = self.random.at(used_part(budget_bytes));
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
        PagerCurves::of_trace(&Trace { block_bytes: BLOCK, touches }, 16, 1000)
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
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

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
