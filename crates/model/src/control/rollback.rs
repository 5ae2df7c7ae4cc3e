//! Roll-back: a change of the shares that lowered the bandwidth is undone.
//!
//! A policy with curves that are wrong for this machine, or a policy that follows noise, can make a
//! program slower permanently. The control loop therefore compares the period after a change with
//! the period before it. If bandwidth fell by more than noise and the policy does not itself move
//! back towards the old shares, the control loop returns to them, and rejects the same change for
//! some time. The control loop cannot distinguish a harmful change from a load that ends at the
//! same time; such a wrong roll-back costs one period.

use crate::policy::{Observation, Verdict};

/// A change is rolled back if bandwidth fell by more than the fraction `LOST`, and by more than
/// `ERRORS` times the standard error of the loss. A smaller loss may be noise.
const LOST: f64 = 0.05;
const ERRORS: f64 = 3.0;

/// Shares (0 to 1) that differ by at most `SAME` count as equal, because the kernel's weights are
/// whole numbers, which cannot reproduce every share.
const SAME: f64 = 0.005;
/// After a roll-back, the guard refuses shares that differ from the rejected shares by at most this
/// value (0 to 1) on each tier.
const NEAR: f64 = 0.03;
/// The guard refuses the rejected change in the 19 observed periods after a roll-back, and accepts
/// it again in the 20th (`PERIODS`).
const PERIODS: usize = 20;
/// The guard refuses a rejected change only while the bandwidth is within this fraction of the
/// bandwidth before the change. A larger difference means that the load has changed, so the change
/// may be tried again.
const ALIKE: f64 = 0.1;

/// The state of the guard that rolls back harmful changes of a domain's shares.
#[derive(Default)]
pub(super) struct RollBack {
    before: Option<PeriodBefore>,
    rolled_back: Option<RolledBack>,
}

/// The target shares and the mean bandwidth of the period before a change, and the standard error
/// of that mean.
struct PeriodBefore {
    shares: Vec<f64>,
    gbps: f64,
    error_gbps: f64,
}

/// A change of the shares that was rolled back, and is rejected for some periods.
struct RolledBack {
    shares: Vec<f64>,
    /// The bandwidth before the rejected change, GB/s.
    better_gbps: f64,
    periods_left: usize,
}

impl RollBack {
    /// Returns the verdict that replaces `verdict`: a roll-back if the last change lowered the
    /// bandwidth, the current shares if `verdict` repeats a rejected change, otherwise `verdict`
    /// itself.
    pub(super) fn pass(&mut self, seen: &Observation, verdict: Verdict) -> Verdict {
        let verdict = match self.harmful_change(seen, &verdict) {
            Some(before) => {
                let reason = format!(
                    "{:.0} of {:.0} GB/s are left since the last change: it is taken back",
                    seen.mean_gbps, before.gbps
                );
                self.rolled_back = Some(RolledBack {
                    shares: seen.target.clone(),
                    better_gbps: before.gbps,
                    periods_left: PERIODS,
                });
                // `self.before` stays empty: otherwise the next call would compare the period after
                // the roll-back with the period of the harmful change.
                let shares = before.shares;
                let taken_back = Verdict::interleave(shares, "roll-back", reason);
                return Verdict { order: verdict.order, ..taken_back };
            }
            None => self.reject_repetition(seen, verdict),
        };
        self.before = Some(PeriodBefore {
            shares: seen.target.clone(),
            gbps: seen.mean_gbps,
            error_gbps: seen.error_gbps,
        });
        verdict
    }

    /// Returns the period before the last change if the change lowered the bandwidth by more than
    /// noise ([`LOST`], [`ERRORS`]), and if `verdict` does not move back towards the shares before
    /// the change.
    fn harmful_change(&mut self, seen: &Observation, verdict: &Verdict) -> Option<PeriodBefore> {
        let before = self.before.take()?;
        let changed = distance(&seen.target, &before.shares);
        let lost = before.gbps - seen.mean_gbps;
        let is_lost = lost > LOST * before.gbps
            && lost > ERRORS * libm::hypot(before.error_gbps, seen.error_gbps);
        let goes_back = distance(&verdict.shares, &before.shares) < changed - SAME;
        (changed > SAME && is_lost && !goes_back).then_some(before)
    }

    /// Returns `verdict`, or the current shares if `verdict` repeats a change that was rolled back.
    fn reject_repetition(&mut self, seen: &Observation, verdict: Verdict) -> Verdict {
        let Some(rolled_back) = &mut self.rolled_back else { return verdict };
        rolled_back.periods_left -= 1;
        let better = rolled_back.better_gbps;
        let is_alike = (seen.mean_gbps - better).abs() <= ALIKE * better;
        if rolled_back.periods_left == 0 || !is_alike {
            self.rolled_back = None;
            return verdict;
        }
        let is_tried = distance(&verdict.shares, &rolled_back.shares) <= NEAR;
        if !is_tried || distance(&seen.target, &rolled_back.shares) <= NEAR {
            return verdict;
        }
        let reason = format!("{}; but that was taken back before", verdict.reason);
        let order = verdict.order;
        Verdict { order, ..Verdict::interleave(seen.target.clone(), "hold", reason) }
    }
}

/// The largest absolute difference between the shares of a tier in `one` and in `other`, 0 to 1.
fn distance(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::TierObservation;

    fn seen(first: f64, gbps: f64) -> Observation {
        let tier = TierObservation {
            bandwidth_gbps: gbps,
            read_share: None,
            latency_ns: None,
            free_bytes: None,
        };
        Observation {
            time_s: 6.0,
            quiet: 30,
            bandwidth_gbps: gbps,
            mean_gbps: gbps,
            error_gbps: 2.0,
            tiers: vec![tier, tier],
            target: vec![first, 1.0 - first],
            steered_bytes: None,
        }
    }

    fn to(first: f64) -> Verdict {
        Verdict::interleave(vec![first, 1.0 - first], "step", "more")
    }

    #[test]
    fn a_worse_placement_is_rolled_back_once() {
        let mut guard = RollBack::default();
        assert_eq!(guard.pass(&seen(1.0, 400.0), to(0.5)), to(0.5));
        let back = guard.pass(&seen(0.5, 300.0), to(0.5));
        assert_eq!((back.action, back.shares), ("roll-back", vec![1.0, 0.0]));
        for _ in 1..PERIODS {
            let held = guard.pass(&seen(1.0, 410.0), to(0.52));
            assert_eq!((held.action, held.shares), ("hold", vec![1.0, 0.0]));
        }
        // In the 20th period (`PERIODS`) after the roll-back the guard accepts the rejected change.
        assert_eq!(guard.pass(&seen(1.0, 400.0), to(0.5)), to(0.5));
    }

    #[test]
    fn elsewhere_may_be_tried() {
        let mut guard = RollBack::default();
        guard.pass(&seen(1.0, 400.0), to(0.5));
        guard.pass(&seen(0.5, 300.0), to(0.5));
        assert_eq!(guard.pass(&seen(1.0, 400.0), to(0.8)), to(0.8));
    }

    #[test]
    fn another_load_may_try_again() {
        let mut guard = RollBack::default();
        guard.pass(&seen(1.0, 400.0), to(0.5));
        guard.pass(&seen(0.5, 300.0), to(0.5));
        assert_eq!(guard.pass(&seen(1.0, 200.0), to(0.5)), to(0.5));
    }

    #[test]
    fn noise_and_the_end_of_a_load_are_not_blamed_on_a_change() {
        let mut guard = RollBack::default();
        guard.pass(&seen(1.0, 400.0), to(0.9));
        // A loss of 4 % of the bandwidth is below [`LOST`]: no roll-back.
        assert_eq!(guard.pass(&seen(0.9, 384.0), to(0.8)), to(0.8));
        // The shares did not change, so a loss of bandwidth has another cause: no roll-back.
        let mut guard = RollBack::default();
        guard.pass(&seen(0.9, 400.0), to(0.9));
        assert_eq!(guard.pass(&seen(0.9, 100.0), to(1.0)), to(1.0));
        // A loss that is not above [`ERRORS`] standard errors: no roll-back.
        let noisy = |first, gbps| Observation { error_gbps: 30.0, ..seen(first, gbps) };
        let mut guard = RollBack::default();
        guard.pass(&noisy(1.0, 400.0), to(0.9));
        assert_eq!(guard.pass(&noisy(0.9, 300.0), to(0.8)), to(0.8));
    }

    #[test]
    fn a_policy_that_goes_back_is_left_alone() {
        let mut guard = RollBack::default();
        guard.pass(&seen(1.0, 400.0), to(0.8));
        assert_eq!(guard.pass(&seen(0.8, 300.0), to(0.9)), to(0.9));
    }
}
