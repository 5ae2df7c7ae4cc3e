//! Tests of the calibrator: with bandwidths from a given curve, with the log of the prototype, and
//! with noisy bandwidths.

use super::*;
use crate::tier::TierKind;
use proptest::prelude::*;

fn tiers() -> Vec<TierLayout> {
    let tier = |kind, rated_gbps, rated_latency_ns| TierLayout {
        name: "tier".into(),
        kind,
        capacity_bytes: 1 << 38,
        rated_gbps,
        rated_latency_ns,
    };
    vec![tier(TierKind::Dram, 556.0, 120.0), tier(TierKind::Cxl, 300.0, 250.0)]
}

fn both() -> [Calibrator; 2] {
    [DmiSettings::prototype, DmiSettings::documented]
        .map(|settings| Calibrator::new(tiers(), settings(&tiers())))
}

fn seen(bandwidth_gbps: f64, error_gbps: f64) -> Observation {
    Observation {
        time_s: 0.0,
        quiet: 30,
        bandwidth_gbps,
        mean_gbps: bandwidth_gbps,
        error_gbps,
        tiers: vec![],
        target: vec![],
        steered_bytes: None,
    }
}

/// Runs `policy` for `periods` periods, the first with all pages on the first tier. `gbps` is
/// called with a ratio (percent of the pages on the first tier), and returns the bandwidth and its
/// standard error, GB/s. Returns for each period the ratio that `policy` decides on, and its
/// verdict.
fn run(
    policy: &mut Calibrator,
    periods: usize,
    mut gbps: impl FnMut(f64) -> (f64, f64),
) -> Vec<(f64, Verdict)> {
    let mut ratio = 100.0;
    let period = |_| {
        let (bandwidth, error) = gbps(ratio);
        let verdict = policy.decide(&seen(bandwidth, error));
        ratio = 100.0 * verdict.shares[0];
        (ratio, verdict)
    };
    (0..periods).map(period).collect()
}

/// Interpolates linearly between `points`, and returns the value at `ratio`. The points are pairs
/// of a ratio and a value, from the highest ratio to the lowest.
fn between(points: &[(f64, f64)], ratio: f64) -> f64 {
    let pair = points.windows(2).find(|pair| ratio >= pair[1].0).expect("within the points");
    let ((high, a), (low, b)) = (pair[0], pair[1]);
    b + (a - b) * (ratio - low) / (high - low)
}

/// Returns the bandwidth of two tiers, GB/s, if the first has `ratio` percent of the pages. The
/// tiers have at most 409 and 225 GB/s. The curve is rounded at its maximum, where both saturate.
fn soft(ratio: f64) -> f64 {
    let part = |share: f64, gbps: f64| libm::pow(share / gbps, 12.0);
    libm::pow(part(ratio, 40_900.0) + part(100.0 - ratio, 22_500.0), -1.0 / 12.0)
}

/// Pairs of a ratio (percent of the pages on the first tier) and the bandwidth of a server at this
/// ratio, GB/s. Six of the bandwidths are from the log in the header of the module `dmi`. The
/// others are invented so that the maximum is at 65, where the search in that log comes to rest.
const SERVER: [(f64, f64); 12] = [
    (100.0, 409.0),
    (92.0, 441.0),
    (84.0, 483.0),
    (76.0, 515.0),
    (69.0, 558.0),
    (65.0, 592.0),
    (62.0, 587.0),
    (59.0, 574.0),
    (56.0, 560.0),
    (50.0, 520.0),
    (40.0, 430.0),
    (0.0, 240.0),
];

#[test]
fn the_log_of_the_server() {
    for mut policy in both() {
        let log = run(&mut policy, 40, |ratio| (between(&SERVER, ratio), 0.0));
        let ratios: Vec<f64> = log.iter().map(|(ratio, _)| libm::round(*ratio)).collect();
        let start = [92.0, 84.0, 76.0, 69.0, 62.0, 56.0, 59.0, 62.0, 65.0, 68.0, 65.0];
        assert_eq!(ratios[..11], start);
        assert!(ratios[11..].iter().all(|ratio| *ratio == 65.0), "{ratios:?}");
        let actions: Vec<_> = log[..12].iter().map(|(_, verdict)| verdict.action).collect();
        assert_eq!(actions[..3], ["probe", "step", "step"]);
        assert_eq!(actions[5..], ["step", "back", "step", "step", "step", "revert", "hold"]);
        let reason = "bandwidth rose 7.8 % (409 to 441 GB/s): 8 points off the first tier";
        assert_eq!(log[1].1.reason, reason);
    }
}

#[test]
fn a_concave_curve() {
    let best = (0..=100).max_by(|a, b| soft(f64::from(*a)).total_cmp(&soft(f64::from(*b))));
    let best = f64::from(best.expect("not empty"));
    for mut policy in both() {
        let log = run(&mut policy, 14, |ratio| (soft(ratio), 0.0));
        let (ratio, last) = log.last().expect("14 periods");
        assert!((ratio - best).abs() <= 4.0, "{ratio} for {best}");
        assert!(["hold", "settle", "revert"].contains(&last.action), "{last:?}");
    }
}

#[test]
fn pages_that_bring_nothing_elsewhere_come_back() {
    // Memory is saturated, but every point (percent of the pages) that moves to the second tier
    // lowers the bandwidth: all pages must be on the first tier again after a few probes.
    for mut policy in both() {
        let log = run(&mut policy, 30, |ratio| (300.0 + ratio, 0.0));
        let ratios: Vec<f64> = log.iter().map(|(ratio, _)| libm::round(*ratio)).collect();
        assert_eq!(ratios[0], 92.0);
        assert!(ratios[8..].iter().all(|ratio| *ratio == 100.0), "{ratios:?}");
    }
}

#[test]
fn no_demand_brings_pages_back() {
    for mut policy in both() {
        run(&mut policy, 20, |ratio| (soft(ratio), 0.0));
        let log = run(&mut policy, 40, |_| (100.0, 0.0));
        let (ratio, last) = log.last().expect("40 periods");
        assert_eq!((*ratio, last.action), (100.0, "local"));
        // The demand rises again. The second search must be as fast as the first: it is near its
        // optimum of 65 after 14 periods.
        let log = run(&mut policy, 14, |ratio| (soft(ratio), 0.0));
        assert!((log[13].0 - 65.0).abs() <= 4.0);
    }
}

/// The demand falls, so pages return to the first tier. The demand rises again in the period in
/// which the last pages return. Asserts that a new search begins.
#[test]
fn demand_that_is_back_at_once_is_searched_for() {
    for mut policy in both() {
        run(&mut policy, 20, |ratio| (soft(ratio), 0.0));
        while policy.ratio < 100.0 {
            run(&mut policy, 1, |_| (100.0, 0.0));
        }
        let log = run(&mut policy, 20, |ratio| (soft(ratio), 0.0));
        assert_eq!((log[0].0, log[0].1.action), (92.0, "probe"));
        assert!((log[19].0 - 65.0).abs() <= 4.0, "{}", log[19].0);
    }
}

/// With all pages on the first tier the bandwidth is above the cutoff; at any other ratio it is
/// below the cutoff. Asserts that the calibrator does not repeat the step away from 100 for ever:
/// after 20 periods it stays at 100.
#[test]
fn a_step_below_the_cutoff_is_not_made_for_ever() {
    for mut policy in both() {
        let cutoff_gbps = policy.settings.cutoff_gbps;
        let curve = |ratio: f64| if ratio >= 100.0 { 1.2 } else { 0.8 } * cutoff_gbps;
        let log = run(&mut policy, 60, |ratio| (curve(ratio), 0.0));
        assert!(log[20..].iter().all(|(ratio, _)| *ratio == 100.0), "{log:?}");
    }
}

#[test]
fn more_demand_ends_the_rest() {
    // The first program has its highest bandwidth with all pages on the first tier; the program
    // after it needs both tiers. Of the two policies, the second has a dead band, so it reacts one
    // period later (`lag`).
    for (mut policy, lag) in both().into_iter().zip([0, 1]) {
        run(&mut policy, 20, |ratio| (200.0 + ratio, 0.0));
        let log = run(&mut policy, 40, |ratio| (soft(ratio), 3.0));
        assert!(log[..lag].iter().all(|(ratio, _)| *ratio == 100.0));
        assert_eq!(log[lag].1.action, "probe", "{:?}", log[lag]);
        let (ratio, last) = log.last().expect("40 periods");
        assert!((ratio - 65.0).abs() <= 6.0, "{ratio}");
        assert_eq!(last.action, "hold");
    }
}

/// The search is at rest with pages on both tiers. Asserts that the policy tries a lower ratio
/// (fewer pages on the first tier) after a rise of bandwidth, and a higher ratio after a fall.
#[test]
fn a_change_at_rest_is_probed_in_its_direction() {
    for (policy, lag) in both().into_iter().zip([0, 1]) {
        for (factor, points) in [(1.2, -RESEARCH_POINTS), (0.8, RESEARCH_POINTS)] {
            let mut policy = policy.clone();
            run(&mut policy, 30, |ratio| (soft(ratio), 0.5));
            let rest = policy.ratio;
            assert!((40.0..90.0).contains(&rest) && policy.step == 0.0, "{policy:?}");
            let log = run(&mut policy, lag + 1, |_| (factor * soft(rest), 0.5));
            assert!(log[..lag].iter().all(|(ratio, _)| (ratio - rest).abs() < 1e-9));
            let (ratio, verdict) = &log[lag];
            assert_eq!(verdict.action, "probe", "{verdict:?}");
            assert!((ratio - rest - points).abs() < 1e-9, "{factor}: {rest} to {ratio}");
        }
    }
}

/// The bandwidth is 400 GB/s at any ratio, with an error of 5 GB/s, so the effect of the step from
/// 100 to 92 % of the pages on the first tier is within the noise. Asserts that the calibrator
/// measures at 92 for three periods, and then takes half of the step back, to 96.
#[test]
fn half_a_step_is_taken_back_where_a_change_may_be_noise() {
    let [_, mut policy] = both();
    let log = run(&mut policy, 4, |_| (400.0, 5.0));
    let seen: Vec<(f64, &str)> =
        log.iter().map(|(ratio, verdict)| (libm::round(*ratio), verdict.action)).collect();
    assert_eq!(seen, [(92.0, "probe"), (92.0, "hold"), (92.0, "hold"), (96.0, "back")]);
}

#[test]
fn one_odd_period_is_ignored() {
    let [prototype, documented] = both();
    for (mut policy, moves) in [(prototype, true), (documented, false)] {
        let log = run(&mut policy, 20, |ratio| (soft(ratio), 2.0));
        let rest = log[19].0;
        for odd in [100.0, 400.0, 700.0] {
            let mut policy = policy.clone();
            let after = policy.decide(&seen(odd, 2.0));
            let moved = (100.0 * after.shares[0] - rest).abs() > 1.0;
            assert_eq!(moved, moves, "{odd}: {after:?}");
            let log = run(&mut policy, 3, |_| (soft(rest), 2.0));
            assert!(moves || log.iter().all(|(ratio, _)| (ratio - rest).abs() < 1e-9));
        }
    }
}

#[test]
fn one_tier_or_none() {
    for count in 0..2 {
        let mut policy =
            Calibrator::new(tiers()[..count].to_vec(), DmiSettings::documented(&tiers()));
        assert_eq!(policy.decide(&seen(400.0, 0.0)).shares, vec![1.0; count]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_constant_brings_rest(gbps in 0.0..800.0, error in 0.0..40.0) {
        for mut policy in both() {
            let log = run(&mut policy, 60, |_| (gbps, error));
            prop_assert!(log[20..].iter().all(|(ratio, _)| *ratio == log[20].0));
        }
    }

    #[test]
    fn one_summit_brings_rest(
        summit in 0.0..100.0,
        top in 100.0..900.0,
        (left, right) in (0.0..8.0, 0.0..8.0),
        (power_left, power_right) in (0.3..3.0, 0.3..3.0),
        error in prop_oneof![Just(0.0), 0.0..20.0],
    ) {
        let curve = |ratio: f64| {
            let away: f64 = (ratio - summit) / 100.0;
            let (slope, power) =
                if away < 0.0 { (left, power_left) } else { (right, power_right) };
            top / (1.0 + slope * libm::pow(away.abs(), power))
        };
        for mut policy in both() {
            let log = run(&mut policy, 130, |ratio| (curve(ratio), error));
            for (ratio, verdict) in &log {
                prop_assert!((0.0..=100.0).contains(ratio));
                prop_assert!((verdict.shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            }
            prop_assert!(log[110..].iter().all(|(ratio, _)| *ratio == log[110].0));
        }
    }
}

/// A source of normally distributed numbers (SplitMix64, then Box and Muller). The fields are the
/// state of the generator, and the relative standard deviation of the samples.
struct Noise(u64, f64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform()));
        radius * libm::cos(2.0 * core::f64::consts::PI * self.uniform())
    }

    /// Returns the 90th percentile of 30 samples that scatter around `gbps`, and the standard error
    /// of their mean.
    fn period(&mut self, gbps: f64) -> (f64, f64) {
        let mut samples: [f64; 30] = std::array::from_fn(|_| gbps * (1.0 + self.1 * self.normal()));
        samples.sort_by(f64::total_cmp);
        let mean = samples.iter().sum::<f64>() / 30.0;
        let squares: f64 = samples.iter().map(|x| (x - mean) * (x - mean)).sum();
        (samples[26], libm::sqrt(squares / 29.0 / 30.0))
    }
}

/// Runs `policy` with 300 seeds for 100 periods each, with samples whose relative standard
/// deviation is `scatter`. Returns the fraction of periods after the end of the first search that
/// are more than 3 points away from the ratio found by it, and the mean bandwidth of all periods.
fn unrest(policy: &Calibrator, scatter: f64) -> (f64, f64) {
    let (mut rested, mut away, mut carried) = (0, 0, 0.0);
    for seed in 0..300 {
        let mut noise = Noise(seed, scatter);
        let log = run(&mut policy.clone(), 100, |ratio| noise.period(soft(ratio)));
        carried += log.iter().map(|(ratio, _)| soft(*ratio)).sum::<f64>() / 100.0;
        let rests = |(_, verdict): &(f64, Verdict)| ["settle", "revert"].contains(&verdict.action);
        let Some(at) = log.iter().position(rests) else { continue };
        rested += log.len() - at - 1;
        away += log[at + 1..].iter().filter(|(ratio, _)| (ratio - log[at].0).abs() > 3.0).count();
    }
    assert!(rested > 300 * 60, "{rested}");
    (away as f64 / rested as f64, carried / 300.0)
}

#[test]
fn noise_does_not_move_it() {
    for (scatter, prototype_away) in [(0.05, 0.02), (0.1, 0.4)] {
        let [prototype, documented] = both().map(|policy| unrest(&policy, scatter));
        assert!(documented.0 < 0.01, "{scatter}: {documented:?}");
        assert!(prototype.0 > prototype_away, "{scatter}: {prototype:?}");
        assert!(documented.1 > prototype.1, "{scatter}: {documented:?} {prototype:?}");
    }
}
