//! Places the hottest pages on the fastest tier.
//!
//! The policy uses the tiers' capacity alone: the first tier is filled with the hottest pages, the
//! next tier with the next hottest, and so on. It therefore needs the *room* of each tier: the
//! tier's free memory, plus the tier's memory that steered scopes occupy already. It uses 98 % of
//! the room, which leaves memory for allocations of other programs and for arriving pages.
//!
//! Example: 44 GB of 100 GB of pages are on a first tier of 64 GB, where other programs occupy 20
//! GB. No memory of the tier is free, and its room is 44 GB. Therefore 0.98 · 44 = 43.1 GB of the
//! pages belong on the first tier: a share of 0.431.
//!
//! An observation has the target placement of the steered pages, not their actual placement. The
//! policy assumes that the pages are at their target, within the capacity of the tier. During a
//! migration, memory for pages that have not arrived yet is therefore counted twice: as free
//! memory, and as memory of steered pages. The share is then too high at first. Once the tier has
//! no free memory, the share falls by 2 % in each period, until some memory is free.
//!
//! Source: the common principle of HeMem, MEMTIS and TPP, which Colloid (SOSP '24) argues against.

use super::{Observation, Policy, Verdict, fixed::first_only};
use crate::machine::{Order, TierLayout};

/// The fraction of a tier's room that the policy uses. The room is the tier's free memory and the
/// memory of the tier that steered pages occupy. The kernel's own sample for tiered memory
/// (`samples/damon/mtier.c`) leaves only 0.3 to 0.5 % of the first node free; migration in units of
/// 2 MiB at several GB/s needs more free memory.
const USED: f64 = 0.98;

/// The policy keeps its shares if each of them would change by less than this fraction of the pages
/// (half a percentage point): such a change is not worth a migration.
const SAME: f64 = 0.005;

/// A policy that fills the tiers in order, with the hottest pages first.
#[derive(Clone, Debug, PartialEq)]
pub struct HotCold {
    tiers: Vec<TierLayout>,
    shares: Vec<f64>,
}

impl HotCold {
    /// Creates the policy for `tiers`, the fastest first.
    pub fn new(tiers: Vec<TierLayout>) -> Self {
        let shares = first_only(tiers.len());
        Self { tiers, shares }
    }

    /// Returns the bytes of steered pages that fit on tier `at`. `steered` is the number of bytes
    /// of all steered pages.
    fn room_bytes(&self, at: usize, steered: f64, seen: &Observation) -> f64 {
        let capacity = self.tiers[at].capacity_bytes as f64;
        let free = seen.tiers.get(at).and_then(|tier| tier.free_bytes);
        let Some(free) = free else { return USED * capacity };
        let ours = seen.target.get(at).map_or(0.0, |share| share * steered);
        USED * (free as f64 + ours).min(capacity)
    }

    /// Returns the shares with the tiers filled in order. Pages that fit on no tier are added to
    /// the share of the last tier.
    fn filled(&self, steered: f64, seen: &Observation) -> Vec<f64> {
        let last = self.tiers.len().saturating_sub(1);
        let mut left = 1.0;
        let share = |at: usize| {
            let room = self.room_bytes(at, steered, seen) / steered;
            let share = if at == last { left } else { f64::min(room, left) };
            left -= share;
            share
        };
        (0..self.tiers.len()).map(share).collect()
    }
}

impl Policy for HotCold {
    fn start(&self) -> Vec<f64> {
        first_only(self.tiers.len())
    }

    fn decide(&mut self, seen: &Observation) -> Verdict {
        let steered = seen.steered_bytes.filter(|bytes| *bytes > 0).map(|bytes| bytes as f64);
        let shares = match steered {
            Some(steered) => self.filled(steered, seen),
            None => first_only(self.tiers.len()),
        };
        let near = |(old, new): (&f64, &f64)| (old - new).abs() < SAME;
        let hold = self.shares.iter().zip(&shares).all(near);
        if !hold {
            self.shares = shares;
        }
        let points = 100.0 * self.shares.first().copied().unwrap_or(1.0);
        let reason = match steered {
            None => "what the pages take is not known: all go to the first tier".into(),
            Some(bytes) if points >= 100.0 => {
                format!("all {:.1} GB fit on the first tier", bytes / 1e9)
            }
            Some(bytes) => {
                let (part, all) = (points / 100.0 * bytes / 1e9, bytes / 1e9);
                format!("the hottest {part:.1} of {all:.1} GB fit on the first tier")
            }
        };
        let (action, order) = (if hold { "hold" } else { "fill" }, Order::HottestFirst);
        Verdict { shares: self.shares.clone(), order, action, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{policy::TierObservation, tier::TierKind};

    const GB: u64 = 1_000_000_000;

    fn policy(capacities_gb: &[u64]) -> HotCold {
        let tier = |gb: &u64| TierLayout {
            name: "tier".into(),
            kind: TierKind::Dram,
            capacity_bytes: gb * GB,
            rated_gbps: 100.0,
            rated_latency_ns: 100.0,
        };
        HotCold::new(capacities_gb.iter().map(tier).collect())
    }

    fn seen(steered: Option<u64>, target: &[f64], free: &[Option<u64>]) -> Observation {
        let tier = |free: &Option<u64>| TierObservation {
            bandwidth_gbps: 10.0,
            read_share: None,
            latency_ns: None,
            free_bytes: *free,
        };
        Observation {
            time_s: 6.0,
            quiet: 30,
            bandwidth_gbps: 20.0,
            mean_gbps: 20.0,
            error_gbps: 0.0,
            tiers: free.iter().map(tier).collect(),
            target: target.to_vec(),
            steered_bytes: steered,
        }
    }

    fn shares(policy: &mut HotCold, seen: &Observation) -> Vec<f64> {
        let verdict = policy.decide(seen);
        assert_eq!(verdict.order, Order::HottestFirst);
        assert!((verdict.shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        verdict.shares.iter().map(|share| libm::round(share * 1e4) / 1e4).collect()
    }

    /// A test case: bytes of all steered pages, target shares, free bytes of each tier, and the
    /// expected shares.
    type Case<'a> = (Option<u64>, &'a [f64], &'a [Option<u64>], [f64; 3]);

    #[test]
    fn tiers_are_filled_in_order() {
        let none = [None, None, None];
        let cases: [Case<'_>; 6] = [
            // The number of steered bytes is unknown: all pages are on the first tier.
            (None, &[1.0, 0.0, 0.0], &none, [1.0, 0.0, 0.0]),
            (Some(0), &[1.0, 0.0, 0.0], &none, [1.0, 0.0, 0.0]),
            // All pages fit on the first tier.
            (Some(60 * GB), &[1.0, 0.0, 0.0], &none, [1.0, 0.0, 0.0]),
            // 62.72 of the 100 GB, which is 98 % of 64 GB, are on the first tier, the rest on the
            // second.
            (Some(100 * GB), &[1.0, 0.0, 0.0], &none, [0.6272, 0.3728, 0.0]),
            // Of 200 GB, 62.72 GB are on the first tier, 98 GB on the second, and the rest on the
            // third.
            (Some(200 * GB), &[1.0, 0.0, 0.0], &none, [0.3136, 0.49, 0.1964]),
            // The example of the module header: 44 of 100 GB of pages are on the first tier, which
            // has no free memory.
            (
                Some(100 * GB),
                &[0.44, 0.56, 0.0],
                &[Some(0), Some(40 * GB), None],
                [0.4312, 0.5688, 0.0],
            ),
        ];
        for (steered, target, free, expected) in cases {
            let mut policy = policy(&[64, 100, 100]);
            assert_eq!(policy.start(), [1.0, 0.0, 0.0]);
            assert_eq!(shares(&mut policy, &seen(steered, target, free)), expected, "{steered:?}");
        }
    }

    #[test]
    fn the_policy_settles_beside_other_programs() {
        // 100 GB of pages are steered, and other programs occupy 20 GB of the first tier of 64 GB.
        // Asserts that the policy comes to rest with 0.98 · 44 GB of the pages on the first tier.
        let mut policy = policy(&[64, 200]);
        let mut target = policy.start();
        let mut action = "";
        for _ in 0..40 {
            let first = (target[0] * 100.0).min(44.0);
            let free = [44.0 - first, 200.0 - (100.0 - first)];
            let free = free.map(|gb| Some((gb * 1e9) as u64));
            let verdict = policy.decide(&seen(Some(100 * GB), &target, &free));
            (target, action) = (verdict.shares, verdict.action);
        }
        assert!((target[0] - 0.431).abs() < 0.01, "{target:?}");
        assert_eq!(action, "hold");
    }
}
