//! Colloid: moves pages until the tiers' latencies are equal.
//!
//! The problem: the first tier is the fastest only while it is unloaded. Colloid compares the
//! loaded latencies, and moves hot pages to the tier that has the lower latency at the moment,
//! until the latencies are equal.
//!
//! Terms. *Inserts* I: requests that arrive at a tier per nanosecond. *Occupancy* O: the mean
//! number of outstanding requests at the tier. By Little's law the latency is L = O / I. Tier D is
//! the *default* tier, which is the first. A, the *alternate* tier, is all other tiers together. p
//! = I_D / (I_D + I_A) is the fraction of requests to D. If L_D > L_A, pages leave D (they are
//! demoted); otherwise pages return to D (they are promoted). Two rules give the amount, as a
//! change of p:
//!
//! - [`ClosedForm`], the default of the authors' code: Δp = p (1 − p) |L_D − L_A| / ((1 − p) L_D +
//!   p L_A). The rule has no memory.
//! - [`Watermark`], the rule of the paper: a binary search for p between two marks. The marks are
//!   the last values at which p was too low and too high; Δp is the distance of p from their
//!   middle.
//!
//! Example: p = 0.8, 300 ns on D and 200 ns on A. The numerator of the closed form is 0.8 · 0.2 ·
//! 100 = 16, its denominator 0.2 · 300 + 0.8 · 200 = 220, and Δp = 0.073: 7.3 percentage points
//! leave D. The marks of [`Watermark`] are 0 and 1 at first. As p is too high, the marks become 0
//! and 0.8. Their middle is 0.4, so Δp = 0.4.
//!
//! Differences from the source. Colloid decides every 10 ms and picks single pages by their
//! hotness. Here a policy decides once a period on the share of pages of each tier, so Δp is a
//! change of this share. A tier without requests has no O / I; its latency is assumed to be the
//! rated latency, its *floor*. With all requests on one tier, p (1 − p) is 0 and the closed form
//! would never move a page. Here it then moves one percentage point of the pages, so that the other
//! tier gets traffic to measure. A tier with less than a thousandth of the requests, which may come
//! from a stray process, counts as a tier without requests. Otherwise the closed form, with its
//! factor p (1 − p), would move only about a thousandth of the pages in each period.
//!
//! A limitation: the closed form does not know the slope of the curves, so it overshoots for ever
//! if both tiers are nearly saturated. Example: a demand of 140 GB/s on tiers of 100 and 60 GB/s,
//! whose latency grows to four times the idle latency. With the closed form the share of the first
//! tier oscillates between 64 and 71 %; with the watermark rule it converges to 68 %.
//!
//! Counters are averaged exponentially with α = 1/16 at each sample. Samples with migration are
//! included, because migration loads the tiers too. The averages start at 0: only their ratios are
//! used, in which the start cancels out.
//!
//! Source: Vuppalapati and Agarwal, "Tiered Memory Management: Access Latency is the Key!" (SOSP
//! '24), and its artifact for HeMem (`src/pebs.c`).

use super::{Observation, Policy, Reading, Verdict, shares_with_first};
use crate::machine::TierLayout;

/// The weight of the newest sample in the exponential averages of the counters.
const ALPHA: f64 = 1.0 / 16.0;

/// A tier that gets less than this fraction of all requests counts as a tier without requests.
const NO_REQUESTS: f64 = 0.001;

/// The least change of the first tier's share by the closed form if the latencies differ and one
/// tier counts as a tier without requests: one percentage point.
const ONE_POINT: f64 = 0.01;

/// [`Watermark`] treats two latencies as equal if they differ by less than this fraction of the
/// first tier's latency. The paper calls it δ.
const EQUAL: f64 = 0.05;

/// [`Watermark`] treats its two marks, the bounds of its binary search for p, as equal if they
/// differ by less than `MET`. The paper calls it ε.
const MET: f64 = 0.01;

/// Exponential averages of the counters of one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Queue {
    inserts_per_ns: f64,
    occupancy: f64,
}

/// The input of the closed form and of the watermark rule: the division of the requests between the
/// tiers, and the two latencies that the rules try to make equal.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Balance {
    /// The fraction of requests to the default (first) tier, 0 to 1.
    p: f64,
    default_ns: f64,
    alternate_ns: f64,
}

impl Balance {
    fn demote(&self) -> bool {
        self.default_ns > self.alternate_ns
    }
}

/// The state that both rules (closed form and watermark) need: averaged counters and the placement.
#[derive(Clone, Debug, PartialEq)]
struct Tiers {
    layout: Vec<TierLayout>,
    queues: Vec<Queue>,
    counted: bool,
    /// The share of pages on the default (first) tier, 0 to 1.
    share: f64,
}

impl Tiers {
    fn new(layout: Vec<TierLayout>) -> Self {
        let queues = vec![Queue::default(); layout.len()];
        Self { layout, queues, counted: false, share: 1.0 }
    }

    fn shares(&self) -> Vec<f64> {
        shares_with_first(100.0 * self.share, &self.layout)
    }

    fn watch(&mut self, reading: &Reading) {
        let counted = |tier: &super::TierReading| {
            let (inserts_per_ns, occupancy) = (tier.inserts_per_ns?, tier.occupancy?);
            let valid = |count: f64| count.is_finite() && count >= 0.0;
            (valid(inserts_per_ns) && valid(occupancy))
                .then_some(Queue { inserts_per_ns, occupancy })
        };
        // A sample without the counters of one tier is ignored as a whole: the counters of the
        // other tiers alone would shift p, the first tier's fraction of all requests.
        let counts: Option<Vec<Queue>> = reading.tiers.iter().map(counted).collect();
        let Some(counts) = counts.filter(|counts| counts.len() == self.queues.len()) else {
            return;
        };
        self.counted = true;
        for (queue, new) in self.queues.iter_mut().zip(counts) {
            queue.inserts_per_ns += ALPHA * (new.inserts_per_ns - queue.inserts_per_ns);
            queue.occupancy += ALPHA * (new.occupancy - queue.occupancy);
        }
    }

    /// Returns the division of the requests, and the latencies of the default tier and of the
    /// alternate tiers together. If one of these figures is unknown, returns the reason.
    fn balance(&self) -> Result<Balance, &'static str> {
        let [default, alternates @ ..] = self.queues.as_slice() else {
            return Err("there is no tier");
        };
        if alternates.is_empty() {
            return Err("there is only one tier");
        }
        if !self.counted {
            return Err("the requests that wait are not counted here, so latency is not known");
        }
        let mut alternate = Queue::default();
        for queue in alternates {
            alternate.inserts_per_ns += queue.inserts_per_ns;
            alternate.occupancy += queue.occupancy;
        }
        let all = default.inserts_per_ns + alternate.inserts_per_ns;
        if all <= 0.0 {
            return Err("no tier gets requests");
        }
        let p = default.inserts_per_ns / all;
        let latency = |queue: &Queue, part: f64, floor: f64| {
            if part < NO_REQUESTS { floor } else { queue.occupancy / queue.inserts_per_ns }
        };
        // A tier without requests has its rated latency, the floor. The floor of all alternate
        // tiers together is the mean of their rated latencies, weighted by their shares of the
        // pages.
        let others = shares_with_first(0.0, &self.layout);
        let floors = others.iter().zip(&self.layout);
        let floor: f64 = floors.map(|(share, tier)| share * tier.rated_latency_ns).sum();
        Ok(Balance {
            p,
            default_ns: latency(default, p, self.layout[0].rated_latency_ns),
            alternate_ns: latency(&alternate, 1.0 - p, floor),
        })
    }

    /// Moves the fraction `dp` of all pages: off the first tier if its latency is above the latency
    /// of the other tiers, otherwise onto the first tier.
    fn shift(&mut self, dp: f64, balance: &Balance) -> Verdict {
        let before = self.share;
        let signed = if balance.demote() { -dp } else { dp };
        self.share = (before + signed).clamp(0.0, 1.0);
        let points = 100.0 * (self.share - before);
        let (default, alternate, p) = (balance.default_ns, balance.alternate_ns, balance.p);
        let state = format!(
            "{default:.0} ns on the first tier, {alternate:.0} ns on the others, {:.0} % of the \
             requests on the first",
            100.0 * p
        );
        let (action, what) = match points {
            points if points < 0.0 => ("demote", format!("{:.1} points leave it", -points)),
            points if points > 0.0 => ("promote", format!("{points:.1} points come back")),
            _ => ("hold", "nothing to move".to_owned()),
        };
        Verdict::interleave(self.shares(), action, format!("{state}: {what}"))
    }

    fn hold(&self, why: impl Into<String>) -> Verdict {
        Verdict::interleave(self.shares(), "hold", why)
    }
}

/// The closed form of the authors' code: a formula gives the change Δp of the first tier's share,
/// without memory of earlier periods.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedForm {
    tiers: Tiers,
}

impl ClosedForm {
    /// Creates the policy for `tiers`, the fastest first. The policy starts with all pages on the
    /// first tier.
    pub fn new(tiers: Vec<TierLayout>) -> Self {
        Self { tiers: Tiers::new(tiers) }
    }
}

impl Policy for ClosedForm {
    fn start(&self) -> Vec<f64> {
        shares_with_first(100.0, &self.tiers.layout)
    }

    fn watch(&mut self, reading: &Reading) {
        self.tiers.watch(reading);
    }

    fn decide(&mut self, _seen: &Observation) -> Verdict {
        let balance = match self.tiers.balance() {
            Ok(balance) => balance,
            Err(why) => return self.tiers.hold(why),
        };
        let Balance { p, default_ns, alternate_ns } = balance;
        let weighed = (1.0 - p) * default_ns + p * alternate_ns;
        let difference = (default_ns - alternate_ns).abs();
        let mut dp = if weighed > 0.0 { p * (1.0 - p) * difference / weighed } else { 0.0 };
        if difference > 0.0 && p.min(1.0 - p) < NO_REQUESTS {
            dp = dp.max(ONE_POINT);
        }
        self.tiers.shift(dp, &balance)
    }
}

/// The watermark rule of the paper: a binary search between two marks for p, the fraction of
/// requests to the first tier, at which the latencies are equal.
#[derive(Clone, Debug, PartialEq)]
pub struct Watermark {
    tiers: Tiers,
    /// The lower mark: the last fraction p of requests to the first tier that was too low, or 0.
    low: f64,
    /// The upper mark: the last fraction p of requests to the first tier that was too high, or 1.
    high: f64,
}

impl Watermark {
    /// Creates the policy for `tiers`, the fastest first. The policy starts with all pages on the
    /// first tier.
    pub fn new(tiers: Vec<TierLayout>) -> Self {
        Self { tiers: Tiers::new(tiers), low: 0.0, high: 1.0 }
    }
}

impl Policy for Watermark {
    fn start(&self) -> Vec<f64> {
        shares_with_first(100.0, &self.tiers.layout)
    }

    fn watch(&mut self, reading: &Reading) {
        self.tiers.watch(reading);
    }

    fn decide(&mut self, _seen: &Observation) -> Verdict {
        let balance = match self.tiers.balance() {
            Ok(balance) => balance,
            Err(why) => return self.tiers.hold(why),
        };
        let Balance { p, default_ns, alternate_ns } = balance;
        if (default_ns - alternate_ns).abs() < EQUAL * default_ns {
            let why = format!(
                "{default_ns:.0} and {alternate_ns:.0} ns are equal within {:.0} %",
                100.0 * EQUAL
            );
            return self.tiers.hold(why);
        }
        if balance.demote() {
            self.high = p;
            // The fraction p of requests to the first tier is too high, so p is the upper mark. If
            // the lower mark is not below p, the program has changed since that mark was set, so
            // the mark is reset. The other branch does the same for a p that is too low.
            if self.low >= self.high {
                self.low = 0.0;
            }
        } else {
            self.low = p;
            if self.high <= self.low {
                self.high = 1.0;
            }
        }
        // If the marks are closer than `MET` and the latencies still differ, the p of equal
        // latencies is not between the marks. Then the mark towards which p moves is reset as well:
        // for a demotion (a lower p), the lower mark.
        if (self.high - self.low).abs() < MET {
            if balance.demote() {
                self.low = 0.0;
            } else {
                self.high = 1.0;
            }
        }
        let dp = ((self.low + self.high) / 2.0 - p).abs();
        self.tiers.shift(dp, &balance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{policy::TierReading, tier::TierKind};
    use proptest::prelude::*;

    fn tiers(latencies_ns: &[f64]) -> Vec<TierLayout> {
        let tier = |latency: &f64| TierLayout {
            name: "tier".into(),
            kind: TierKind::Dram,
            capacity_bytes: 1 << 38,
            rated_gbps: 100.0,
            rated_latency_ns: *latency,
        };
        latencies_ns.iter().map(tier).collect()
    }

    fn both(latencies_ns: &[f64]) -> [Box<dyn Policy>; 2] {
        let tiers = || tiers(latencies_ns);
        [Box::new(ClosedForm::new(tiers())), Box::new(Watermark::new(tiers()))]
    }

    /// Creates a reading from a pair for each tier: inserts per nanosecond, and latency in ns.
    fn reading(tiers: &[(f64, f64)]) -> Reading {
        let tier = |(inserts, latency): &(f64, f64)| TierReading {
            bandwidth_gbps: 64.0 * inserts,
            inserts_per_ns: Some(*inserts),
            occupancy: Some(inserts * latency),
        };
        Reading { tiers: tiers.iter().map(tier).collect(), migrating: false }
    }

    fn seen() -> Observation {
        Observation {
            time_s: 0.0,
            quiet: 30,
            bandwidth_gbps: 100.0,
            mean_gbps: 100.0,
            error_gbps: 1.0,
            tiers: vec![],
            target: vec![],
            steered_bytes: None,
        }
    }

    /// Gives `policy` 30 equal samples, and returns its verdict at the end of the period. `tiers`
    /// has a pair for each tier: inserts per nanosecond, and latency in ns.
    fn period(policy: &mut dyn Policy, tiers: &[(f64, f64)]) -> Verdict {
        for _ in 0..30 {
            policy.watch(&reading(tiers));
        }
        policy.decide(&seen())
    }

    #[test]
    fn the_example_of_the_header() {
        for (mut policy, first) in both(&[100.0, 200.0]).into_iter().zip([1.0 - 16.0 / 220.0, 0.6])
        {
            let verdict = period(&mut *policy, &[(0.8, 300.0), (0.2, 200.0)]);
            assert!((verdict.shares[0] - first).abs() < 1e-9, "{verdict:?}");
            assert_eq!(verdict.action, "demote");
        }
    }

    #[test]
    fn all_requests_on_one_tier() {
        // All requests go to the first tier, whose latency is above the rated latency of the second
        // tier. The closed form demotes one percentage point. The watermark rule demotes half of
        // the pages, because its marks are 0 and 1.
        for (mut policy, first) in both(&[100.0, 200.0]).into_iter().zip([0.99, 0.5]) {
            let verdict = period(&mut *policy, &[(1.0, 300.0), (0.0, 0.0)]);
            assert!((verdict.shares[0] - first).abs() < 1e-9, "{verdict:?}");
        }
        // All requests go to the first tier, whose latency is below the rated latency of the second
        // tier: neither rule moves a page.
        for mut policy in both(&[100.0, 200.0]) {
            let verdict = period(&mut *policy, &[(1.0, 150.0), (0.0, 0.0)]);
            assert_eq!((verdict.shares, verdict.action), (vec![1.0, 0.0], "hold"));
        }
    }

    #[test]
    fn other_tiers_count_together() {
        let mut policy = ClosedForm::new(tiers(&[100.0, 200.0, 300.0]));
        // The two alternate tiers get 0.1 requests per ns each, at 150 ns and at 250 ns. The closed
        // form must treat them like one tier with 0.2 requests per ns at 200 ns.
        let verdict = period(&mut policy, &[(0.8, 300.0), (0.1, 150.0), (0.1, 250.0)]);
        let away = 16.0 / 220.0;
        for (share, expected) in verdict.shares.iter().zip([1.0 - away, away / 2.0, away / 2.0]) {
            assert!((share - expected).abs() < 1e-9, "{verdict:?}");
        }
    }

    #[test]
    fn missing_counters_hold_the_placement() {
        let uncounted = TierReading { bandwidth_gbps: 9.0, inserts_per_ns: None, occupancy: None };
        for mut policy in both(&[100.0, 200.0]) {
            policy.watch(&Reading { tiers: vec![uncounted; 2], migrating: false });
            let verdict = policy.decide(&seen());
            assert_eq!((verdict.shares, verdict.action), (vec![1.0, 0.0], "hold"));
            assert!(verdict.reason.contains("not counted"), "{}", verdict.reason);
            let verdict = period(&mut *policy, &[(0.0, 0.0), (0.0, 0.0)]);
            assert!(verdict.reason.contains("no tier gets requests"), "{}", verdict.reason);
        }
        for count in 0..2 {
            for mut policy in both(&[100.0, 200.0][..count]) {
                assert_eq!(policy.decide(&seen()).shares, vec![1.0; count]);
            }
        }
    }

    /// Returns the latency, ns, of a tier whose traffic is the fraction `part` of its bandwidth. At
    /// a fraction of 1 it is four times the idle latency. Above 1.2 it is constant, because
    /// outstanding requests are limited.
    fn loaded_ns(idle_ns: f64, part: f64) -> f64 {
        idle_ns * (1.0 + 3.0 * libm::pow(part.min(1.2), 6.0))
    }

    /// Runs `policy` with a demand of `gbps` on two tiers of 100 and 60 GB/s. All pages are equally
    /// hot. Returns for each period a tuple: the latency of the first tier, the latency of the
    /// second tier, and the share of pages on the first tier.
    fn on_two_tiers(policy: &mut dyn Policy, gbps: f64) -> Vec<(f64, f64, f64)> {
        let mut first = 1.0;
        let step = |_| {
            let (near, far) = (first * gbps, (1.0 - first) * gbps);
            let (near_ns, far_ns) = (loaded_ns(100.0, near / 100.0), loaded_ns(200.0, far / 60.0));
            let at = (near_ns, far_ns, first);
            first = period(policy, &[(near / 64.0, near_ns), (far / 64.0, far_ns)]).shares[0];
            at
        };
        (0..40).map(step).collect()
    }

    #[test]
    fn latencies_become_equal() {
        for gbps in [85.0, 100.0, 120.0] {
            for mut policy in both(&[100.0, 200.0]) {
                let log = on_two_tiers(&mut *policy, gbps);
                for (near_ns, far_ns, first) in &log[30..] {
                    let apart = (near_ns / far_ns - 1.0).abs();
                    assert!(apart < 0.08, "{gbps} GB/s: {near_ns}, {far_ns} ns at {first}");
                }
            }
        }
    }

    #[test]
    fn near_full_the_closed_form_swings() {
        let [mut closed, mut marks] = both(&[100.0, 200.0]);
        let firsts = |log: &[(f64, f64, f64)]| {
            let firsts = log[20..].iter().map(|(_, _, first)| *first);
            (firsts.clone().fold(1.0, f64::min), firsts.fold(0.0, f64::max))
        };
        let (low, high) = firsts(&on_two_tiers(&mut *closed, 140.0));
        assert!((low - 0.64).abs() < 0.01 && (high - 0.71).abs() < 0.01, "{low} to {high}");
        let (low, high) = firsts(&on_two_tiers(&mut *marks, 140.0));
        assert_eq!(low, high);
        assert!((low - 0.68).abs() < 0.01, "{low}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn a_constant_does_not_oscillate(
            near in (prop_oneof![Just(0.0), 0.0..5.0], 50.0..2000.0),
            far in (prop_oneof![Just(0.0), 0.0..5.0], 50.0..2000.0),
        ) {
            for mut policy in both(&[100.0, 200.0]) {
                let mut first = vec![1.0];
                for _ in 0..60 {
                    let verdict = period(&mut *policy, &[near, far]);
                    prop_assert!(verdict.shares.iter().all(|share| (0.0..=1.0).contains(share)));
                    prop_assert!((verdict.shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                    first.push(verdict.shares[0]);
                }
                let falls = first.windows(2).all(|pair| pair[1] <= pair[0] + 1e-12);
                let rises = first.windows(2).all(|pair| pair[1] >= pair[0] - 1e-12);
                prop_assert!(falls || rises, "{:?}", first);
            }
        }
    }
}
