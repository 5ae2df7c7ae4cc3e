//! Policies whose shares never change.
//!
//! They are the baselines of every comparison: all pages on the first tier, as Linux places them by
//! default; static shares; and the shares of Linux's weighted interleaving
//! (`weighted_interleave/auto`), which Linux derives from the rated bandwidth of each node since
//! 6.16.
//!
//! The kernel rounds the weights, so its arithmetic is reproduced to the bit. Example: for 500 and
//! 200 GB/s, 32 · 500 / 700 = 22.86 and 32 · 200 / 700 = 9.14 of 32 pages are truncated to the
//! weights 22:9, which have no common divisor.
//!
//! Source: `reduce_interleave_weights` in `mm/mempolicy.c` of Linux 6.16.

use super::{Observation, Policy, Verdict};
use crate::{machine::TierLayout, weights::gcd};

/// The nominal sum of the weights, before the kernel divides them by their greatest common divisor.
/// The kernel's source calls it `weightiness`.
const ROUND_PAGES: u32 = 32;

/// A policy that keeps its shares.
#[derive(Clone, Debug, PartialEq)]
pub struct Fixed {
    shares: Vec<f64>,
    reason: String,
}

impl Fixed {
    /// Creates the policy that keeps all pages on the first of `tiers` tiers.
    pub fn local(tiers: usize) -> Self {
        let shares = first_only(tiers);
        Self { shares, reason: "all pages stay on the first tier".into() }
    }

    /// Creates the policy with static shares, one for each tier. They are scaled to sum to 1, so
    /// `[65.0, 35.0]` equals `[0.65, 0.35]`. If they cannot be scaled (a share is negative or not
    /// finite, or the sum is 0), all pages are on the first tier.
    pub fn at(shares: Vec<f64>) -> Self {
        let valid = shares.iter().all(|share| share.is_finite() && *share >= 0.0);
        let sum: f64 = shares.iter().sum();
        if !valid || sum <= 0.0 || !sum.is_finite() {
            return Self::local(shares.len());
        }
        let shares = shares.iter().map(|share| share / sum).collect();
        Self { shares, reason: "the shares are static".into() }
    }

    /// Creates the policy with the automatic weights of Linux 6.16, which the kernel computes from
    /// the rated bandwidths of the tiers.
    pub fn bandwidth(tiers: &[TierLayout]) -> Self {
        // The rating of an unrated node is NaN. The cast turns NaN into 0, and too large values
        // into the maximum of `u32`.
        let mbps = |tier: &TierLayout| libm::round(tier.rated_gbps * 1000.0) as u32;
        let weights = kernel_weights(&tiers.iter().map(mbps).collect::<Vec<_>>());
        let text = weights.iter().map(u8::to_string).collect::<Vec<_>>().join(":");
        let reason = format!("the weights are {text}, as Linux derives them from rated bandwidth");
        Self { reason, ..Self::at(weights.into_iter().map(f64::from).collect()) }
    }
}

impl Policy for Fixed {
    fn start(&self) -> Vec<f64> {
        self.shares.clone()
    }

    fn decide(&mut self, _seen: &Observation) -> Verdict {
        Verdict::interleave(self.shares.clone(), "hold", self.reason.as_str())
    }
}

/// Returns the automatic weights of Linux 6.16, 1 to 32 pages in a round, without a common divisor.
/// `bandwidths_mbps` are the rated bandwidths of the nodes, MB/s; 0 for a node that the firmware
/// does not rate.
///
/// A node gets its fraction of 32 pages, truncated, but at least one page. As in the kernel, the
/// product of 32 and the bandwidth has 32 bits: it wraps for bandwidths above 134 TB/s.
pub fn kernel_weights(bandwidths_mbps: &[u32]) -> Vec<u8> {
    let sum: u64 = bandwidths_mbps.iter().copied().map(u64::from).sum();
    let weight = |bandwidth: &u32| {
        let scaled = u64::from(bandwidth.wrapping_mul(ROUND_PAGES));
        // The quotient is at least 1 because `scaled` exceeds the sum, and at most 32 because the
        // sum includes `bandwidth`.
        if *bandwidth != 0 && sum < scaled { (scaled / sum) as u8 } else { 1 }
    };
    let weights: Vec<u8> = bandwidths_mbps.iter().map(weight).collect();
    let divisor = weights.iter().copied().fold(0, gcd).max(1);
    weights.into_iter().map(|weight| weight / divisor).collect()
}

/// Returns shares that put all pages on the first of `tiers` tiers.
pub(super) fn first_only(tiers: usize) -> Vec<f64> {
    (0..tiers).map(|tier| if tier == 0 { 1.0 } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{machine::Order, tier::TierKind};

    #[test]
    fn weights_as_the_kernel_has_them() {
        let cases: [(&[u32], &[u8]); 13] = [
            (&[], &[]),
            (&[500], &[1]),
            (&[0], &[1]),
            (&[500, 200], &[22, 9]),
            (&[500_000, 200_000], &[22, 9]),
            (&[100, 100], &[1, 1]),
            (&[300, 100], &[3, 1]),
            // A node without a rating still gets one page: 32:1.
            (&[100, 0], &[32, 1]),
            (&[0, 0], &[1, 1]),
            // 32 · 1 / 1001 is below one page, so the second node gets one page.
            (&[1000, 1], &[31, 1]),
            // The exact weights are 16, 10.67 and 5.33 of 32 pages.
            (&[300, 200, 100], &[16, 10, 5]),
            // The first node's 32 · 2^27 is 2^32, which wraps to 0. The second node's 32 · 1 is
            // below the sum. Each weight is therefore 1.
            (&[1 << 27, 1], &[1, 1]),
            // The first node's 32 · 130 · 2^20 wraps to 64 · 2^20. The second node's product is 64
            // · 2^20 as well. Both are below the sum of 132 · 2^20, so each weight is 1.
            (&[(128 << 20) + (2 << 20), 2 << 20], &[1, 1]),
        ];
        for (bandwidths, weights) in cases {
            assert_eq!(kernel_weights(bandwidths), weights, "{bandwidths:?}");
        }
    }

    #[test]
    fn wrapping_lowers_a_weight() {
        // The kernel's weight is 32 times the bandwidth, in 32 bits, divided by the sum of the
        // bandwidths; it is at least 1. 32 · 135,000,000 is 4,320,000,000, which wraps to
        // 25,032,704; 32 · 1,000,000 is 32,000,000. Both products are below the sum, 136,000,000,
        // so each weight is 1. Without wrapping the weights would be 31:1.
        assert_eq!(kernel_weights(&[135_000_000, 1_000_000]), [1, 1]);
        // 32 · 200,000,000 wraps to 2,105,032,704, which is 9.6 times the sum of 220,000,000: the
        // weight is 9. The second product, 640,000,000, is 2.9 times the sum: the weight is 2.
        assert_eq!(kernel_weights(&[200_000_000, 20_000_000]), [9, 2]);
    }

    fn tier(rated_gbps: f64) -> TierLayout {
        TierLayout {
            name: "tier".into(),
            kind: TierKind::Dram,
            capacity_bytes: 1 << 36,
            rated_gbps,
            rated_latency_ns: 100.0,
        }
    }

    #[test]
    fn shares() {
        assert_eq!(Fixed::local(3).start(), [1.0, 0.0, 0.0]);
        assert_eq!(Fixed::at(vec![3.0, 1.0]).start(), [0.75, 0.25]);
        for bad in [vec![0.0, 0.0], vec![-1.0, 2.0], vec![f64::NAN, 1.0], vec![f64::INFINITY; 2]] {
            assert_eq!(Fixed::at(bad).start(), [1.0, 0.0]);
        }
        assert_eq!(
            Fixed::bandwidth(&[tier(500.0), tier(200.0)]).start(),
            [22.0 / 31.0, 9.0 / 31.0]
        );
        // The policy rounds the bandwidths to whole MB/s first, here to 300 and 100.
        assert_eq!(Fixed::bandwidth(&[tier(0.3004), tier(0.0996)]).start(), [0.75, 0.25]);
    }

    #[test]
    fn a_fixed_policy_never_moves_pages() {
        let mut policy = Fixed::bandwidth(&[tier(500.0), tier(200.0)]);
        let seen = Observation {
            time_s: 6.0,
            quiet: 30,
            bandwidth_gbps: 400.0,
            mean_gbps: 390.0,
            error_gbps: 2.0,
            tiers: vec![],
            target: vec![0.5, 0.5],
            steered_bytes: None,
        };
        let verdict = policy.decide(&seen);
        assert_eq!((verdict.shares, verdict.order), (policy.start(), Order::Interleave));
        assert_eq!(verdict.action, "hold");
        assert!(verdict.reason.contains("22:9"), "{}", verdict.reason);
    }
}
