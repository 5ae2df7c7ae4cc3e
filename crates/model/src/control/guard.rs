//! Guards: limits on the decisions of every policy.
//!
//! *Free memory.* Pages must fit on their target tier: the free memory of a tier, less a reserve,
//! limits the growth of its share. If a tier is full, Linux puts a page on another tier, or
//! reclaims memory, and the decided share would not be reached.
//!
//! *Over-interleaving.* An overloaded CXL tier is not only slow itself: its requests fill queues
//! that DRAM needs too. DRAM can lose most of its bandwidth in this way (MIKU, arXiv 2503.17864,
//! measured a loss of 81 %). A policy that observes only the total bandwidth may keep the overload
//! for a period or more. The guard therefore undoes half of the last change of the shares at once
//! if four conditions hold: the change raised a tier's share; the latency of this tier is far above
//! its idle latency and far above the latency of the first tier; the total bandwidth has fallen;
//! and the policy's new verdict does not itself undo half of the rise.

use super::rollback::RollBack;
use crate::{
    machine::{Order, TierLayout},
    policy::{Observation, Verdict},
};

/// The fraction of a tier's capacity (0 to 1) that stays free for allocations during a migration.
/// Linux begins to reclaim memory at its low watermark, which is below 1 % on large nodes.
const RESERVE: f64 = 0.02;

/// A tier other than the first is overloaded if its latency is above `OVER_IDLE` times its rated
/// idle latency, and also above [`OVER_FIRST`] times the latency of the first tier.
const OVER_IDLE: f64 = 4.0;
/// A tier other than the first is overloaded only if its latency is above `OVER_FIRST` times the
/// latency of the first tier. See [`OVER_IDLE`].
const OVER_FIRST: f64 = 2.0;
/// A fraction, 0 to 1. The guard against overload acts only if the total bandwidth fell by at least
/// this fraction since the previous observation. A smaller loss may be noise.
const LOST: f64 = 0.05;

/// The state of the guards (limits on a policy's decisions) of one domain.
pub(super) struct Guards {
    tiers: Vec<TierLayout>,
    order: Order,
    /// The target shares and the mean total bandwidth (GB/s) of the previous observation; `None`
    /// before the first observation.
    before: Option<(Vec<f64>, f64)>,
    roll_back: RollBack,
}

impl Guards {
    pub(super) fn new(tiers: Vec<TierLayout>) -> Self {
        Self { tiers, order: Order::Interleave, before: None, roll_back: RollBack::default() }
    }

    /// The order of the last verdict: the rule that says which pages of a scope go to which tier.
    pub(super) const fn order(&self) -> Order {
        self.order
    }

    /// Applies all guards to `verdict`, the policy's decision after the observation `seen`. Keeps
    /// the target and the bandwidth of `seen` for the comparison with the next observation.
    pub(super) fn pass(&mut self, seen: &Observation, verdict: Verdict) -> Verdict {
        let verdict = self.against_overload(seen, verdict);
        let verdict = self.roll_back.pass(seen, verdict);
        let verdict = self.against_overflow(seen, verdict);
        self.before = Some((seen.target.clone(), seen.mean_gbps));
        self.order = verdict.order;
        verdict
    }

    fn against_overload(&self, seen: &Observation, verdict: Verdict) -> Verdict {
        let Some((shares, gbps)) = &self.before else { return verdict };
        if seen.mean_gbps > (1.0 - LOST) * gbps {
            return verdict;
        }
        let Some(first_ns) = seen.tiers[0].latency_ns else { return verdict };
        let overloaded = (1..self.tiers.len()).find(|tier| {
            let rated_ns = self.tiers[*tier].rated_latency_ns;
            let late = |ns: f64| ns > OVER_IDLE * rated_ns && ns > OVER_FIRST * first_ns;
            let went_up = seen.target[*tier] > shares[*tier];
            let stays_up = verdict.shares[*tier] > 0.5 * (seen.target[*tier] + shares[*tier]);
            went_up && stays_up && seen.tiers[*tier].latency_ns.is_some_and(late)
        });
        let Some(tier) = overloaded else { return verdict };
        let half = seen.target.iter().zip(shares).map(|(now, before)| 0.5 * (now + before));
        let reason = format!(
            "{} is overloaded ({:.0} ns) and {:.0} of {gbps:.0} GB/s are left: half of the way \
             back",
            self.tiers[tier].name,
            seen.tiers[tier].latency_ns.unwrap_or(0.0),
            seen.mean_gbps,
        );
        Verdict { order: verdict.order, ..Verdict::interleave(half.collect(), "guard", reason) }
    }

    /// Cuts each share whose pages do not fit into the free memory of its tier, and adds the excess
    /// to tiers with room, in the order of the tiers. If all tiers together have too little room,
    /// the current target stays.
    fn against_overflow(&self, seen: &Observation, verdict: Verdict) -> Verdict {
        let Some(steered) = seen.steered_bytes.filter(|bytes| *bytes > 0) else { return verdict };
        // For each tier the largest share that fits: the tier's present target share, plus its free
        // memory (without the reserve) as a fraction of the steered bytes.
        let room: Vec<f64> = self
            .tiers
            .iter()
            .zip(&seen.tiers)
            .zip(&seen.target)
            .map(|((tier, seen), share)| {
                let Some(free) = seen.free_bytes else { return f64::INFINITY };
                let reserve = RESERVE * tier.capacity_bytes as f64;
                share + ((free as f64 - reserve) / steered as f64).max(0.0)
            })
            .collect();
        let Some(full) = (0..room.len()).find(|tier| verdict.shares[*tier] > room[*tier] + 1e-9)
        else {
            return verdict;
        };
        let mut shares: Vec<f64> =
            verdict.shares.iter().zip(&room).map(|(share, room)| share.min(*room)).collect();
        let mut homeless = 1.0 - shares.iter().sum::<f64>();
        for (share, room) in shares.iter_mut().zip(&room) {
            let more = homeless.min(room - *share).max(0.0);
            *share += more;
            homeless -= more;
        }
        // Some pages fit on no tier, so the target stays as it is.
        if homeless > 1e-9 {
            shares.clone_from(&seen.target);
        }
        let reason = format!(
            "{}; but {} has room for {:.0} % only",
            verdict.reason,
            self.tiers[full].name,
            100.0 * room[full]
        );
        Verdict { shares, reason, ..verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{policy::TierObservation, tier::TierKind};

    fn tiers() -> Vec<TierLayout> {
        [("dram", TierKind::Dram, 500.0, 120.0), ("cxl", TierKind::Cxl, 240.0, 215.0)]
            .map(|(name, kind, rated_gbps, rated_latency_ns)| TierLayout {
                name: name.into(),
                kind,
                capacity_bytes: 100 << 30,
                rated_gbps,
                rated_latency_ns,
            })
            .to_vec()
    }

    fn seen(target: [f64; 2], gbps: f64, latency_ns: [f64; 2], free_gib: [u64; 2]) -> Observation {
        let tier = |at: usize| TierObservation {
            bandwidth_gbps: gbps * target[at],
            read_share: Some(0.7),
            latency_ns: Some(latency_ns[at]),
            free_bytes: Some(free_gib[at] << 30),
        };
        Observation {
            time_s: 6.0,
            quiet: 30,
            bandwidth_gbps: gbps,
            mean_gbps: gbps,
            error_gbps: 1.0,
            tiers: vec![tier(0), tier(1)],
            target: target.to_vec(),
            steered_bytes: Some(50 << 30),
        }
    }

    fn to(shares: [f64; 2]) -> Verdict {
        Verdict::interleave(shares.to_vec(), "step", "more")
    }

    #[test]
    fn pages_fit_where_they_are_sent() {
        let mut guards = Guards::new(tiers());
        let now = seen([1.0, 0.0], 400.0, [300.0, 215.0], [40, 12]);
        assert_eq!(guards.pass(&now, to([0.9, 0.1])), to([0.9, 0.1]));
        // The second tier has 12 GiB free, of which 2 GiB are the reserve. The remaining 10 GiB are
        // a fifth of the 50 GiB that are steered, so a share of 0.4 must be cut to 0.2.
        let cut = guards.pass(&now, to([0.6, 0.4]));
        assert!((cut.shares[1] - 0.2).abs() < 1e-9 && (cut.shares[0] - 0.8).abs() < 1e-9);
        assert_eq!(cut.reason, "more; but cxl has room for 20 % only");
    }

    #[test]
    fn pages_without_room_stay() {
        let mut guards = Guards::new(tiers());
        let now = seen([0.5, 0.5], 400.0, [300.0, 215.0], [0, 0]);
        assert_eq!(guards.pass(&now, to([0.4, 0.6])).shares, [0.5, 0.5]);
    }

    #[test]
    fn the_share_of_an_overloaded_tier_is_reduced() {
        let mut guards = Guards::new(tiers());
        guards.pass(&seen([0.7, 0.3], 500.0, [300.0, 300.0], [90, 90]), to([0.5, 0.5]));
        let now = seen([0.5, 0.5], 300.0, [150.0, 1200.0], [90, 90]);
        let guarded = guards.pass(&now, to([0.45, 0.55]));
        assert_eq!(guarded.action, "guard");
        assert!((guarded.shares[0] - 0.6).abs() < 1e-9);
    }

    #[test]
    fn a_policy_that_goes_back_is_left_alone() {
        let mut guards = Guards::new(tiers());
        guards.pass(&seen([0.7, 0.3], 500.0, [300.0, 300.0], [90, 90]), to([0.5, 0.5]));
        let now = seen([0.5, 0.5], 300.0, [150.0, 1200.0], [90, 90]);
        assert_eq!(guards.pass(&now, to([0.7, 0.3])), to([0.7, 0.3]));
    }
}
