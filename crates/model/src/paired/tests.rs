#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;
use proptest::prelude::*;
use rand_distr::{Distribution as _, StandardNormal};

const CONFIDENCE: f64 = 0.95;
const MIN_DIFFERENCE: f64 = 0.02;
const ROUNDS_MAX: usize = 40;

/// A machine whose runs take random times with noise, drift and disturbances.
struct Machine {
    random: Pcg64Mcg,
    /// Standard deviation of the logarithm of a run's time.
    noise: f64,
    /// The logarithm of the factor by which a run is slowed down, as a function of the 0-based
    /// index of the run.
    drift: fn(usize) -> f64,
    runs: usize,
    /// The probability that a run takes 50 % longer.
    disturbed: f64,
}

impl Machine {
    fn new(seed: u64, noise: f64) -> Self {
        Self { random: stream(seed, 7), noise, drift: |_| 0.0, runs: 0, disturbed: 0.0 }
    }

    /// Returns the time of the next run, for a program that takes `seconds` without noise.
    fn run(&mut self, seconds: f64) -> f64 {
        let noise: f64 = StandardNormal.sample(&mut self.random);
        let chance = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let disturbance = if chance < self.disturbed { 1.5 } else { 1.0 };
        let log = self.noise * noise + (self.drift)(self.runs);
        self.runs += 1;
        seconds * disturbance * libm::exp(log)
    }
}

/// Runs two programs in rounds on `machine`; without noise they take `seconds`. Each look of
/// `design` evaluates the rounds so far. The comparison ends at the first look with a conclusion.
/// Returns the judgement of the last look, and the number of rounds at this look.
fn compare(design: &Design, machine: &mut Machine, seconds: [f64; 2]) -> (Judgement, usize) {
    let mut times = [vec![], vec![]];
    let mut last = None;
    for round in 0..design.rounds_max() {
        for at in design.order(round, 2) {
            times[at].push(machine.run(seconds[at]));
        }
        if design.looks.contains(&(round + 1)) {
            let judged = design.judge(&[log_speedups(&times[0], &times[1])]).unwrap();
            last = Some((judged, round + 1));
            if judged.effect != Effect::Uncertain {
                break;
            }
        }
    }
    last.unwrap()
}

fn design(seed: u64) -> Design {
    Design::sequential(ROUNDS_MAX, CONFIDENCE, MIN_DIFFERENCE, seed)
}

/// Returns how many of 100 comparisons with different seeds report `effect`.
fn count(effect: Effect, mut one: impl FnMut(u64) -> (Judgement, usize)) -> usize {
    (1..=100).filter(|seed| one(*seed).0.effect == effect).count()
}

#[test]
fn looks_are_few_and_the_last_is_the_most_rounds() {
    let looks = |most| Design::sequential(most, CONFIDENCE, MIN_DIFFERENCE, 1).looks;
    for (most, expected) in [
        (3, vec![3]),
        (6, vec![6]),
        (10, vec![6, 10]),
        (40, vec![6, 10, 20, 40]),
        (50, vec![6, 10, 20, 40, 50]),
    ] {
        assert_eq!(looks(most), expected);
    }
    let design = design(1);
    for (rounds, confidence) in [(3, 0.995), (6, 0.995), (7, 0.98), (20, 0.9875), (40, 0.9875)] {
        assert!((design.confidence_after(rounds) - confidence).abs() < 1e-12, "{rounds}");
    }
    let errors: f64 = design.looks.iter().map(|look| 1.0 - design.confidence_after(*look)).sum();
    assert!((errors - 0.05).abs() < 1e-12, "{errors}");
    let fixed = Design::fixed(7, CONFIDENCE, 0.02, 1);
    assert!((fixed.confidence_after(7) - CONFIDENCE).abs() < 1e-12);
}

#[test]
fn a_program_does_not_differ_from_itself() {
    for noise in [0.002, 0.01] {
        let same = count(Effect::Same, |seed| {
            compare(&design(seed), &mut Machine::new(seed, noise), [1.0, 1.0])
        });
        assert!(same >= 95, "{same} of 100 with a noise of {noise}");
    }
}

#[test]
fn no_difference_is_invented_whatever_the_noise() {
    for (noise, disturbed) in [(0.001, 0.0), (0.05, 0.0), (0.2, 0.0), (0.01, 0.1)] {
        let invented = (1..=100).filter(|seed| {
            let mut machine = Machine { disturbed, ..Machine::new(*seed, noise) };
            let (judged, _) = compare(&design(*seed), &mut machine, [1.0, 1.0]);
            matches!(judged.effect, Effect::Faster | Effect::Slower)
        });
        let invented = invented.count();
        assert!(invented <= 5, "{invented} of 100 with {noise} and {disturbed}");
    }
}

#[test]
fn a_slowdown_of_three_percent_is_found_in_ten_rounds() {
    let mut in_ten = 0;
    for seed in 1..=100 {
        let (judged, rounds) = compare(&design(seed), &mut Machine::new(seed, 0.01), [1.0, 1.03]);
        in_ten += usize::from(judged.effect == Effect::Slower && rounds <= 10);
    }
    assert!(in_ten >= 95, "{in_ten} of 100");
}

#[test]
fn the_interval_covers_the_true_ratio() {
    for (rounds, disturbed) in [(6, 0.0), (10, 0.0), (20, 0.1)] {
        let covered = (1..=400).filter(|seed| {
            let design = Design::fixed(rounds, CONFIDENCE, MIN_DIFFERENCE, *seed);
            let mut machine = Machine { disturbed, ..Machine::new(*seed, 0.01) };
            let speedup = compare(&design, &mut machine, [1.0, 1.25]).0.speedup;
            (speedup.low..=speedup.high).contains(&0.8)
        });
        let covered = covered.count();
        assert!(covered >= 372, "{covered} of 400 with {rounds} rounds, {disturbed}");
    }
}

/// Compares two equal programs A and B with all runs of A before all runs of B.
fn one_after_the_other(machine: &mut Machine, rounds: usize, seed: u64) -> (Judgement, usize) {
    let first: Vec<f64> = (0..rounds).map(|_| machine.run(1.0)).collect();
    let second: Vec<f64> = (0..rounds).map(|_| machine.run(1.0)).collect();
    let design = Design::fixed(rounds, CONFIDENCE, MIN_DIFFERENCE, seed);
    (design.judge(&[log_speedups(&first, &second)]).unwrap(), rounds)
}

#[test]
fn a_drift_deceives_runs_one_after_the_other_and_not_rounds() {
    const ROUNDS: usize = 20;
    let drifts: [fn(usize) -> f64; 2] = [
        // A linear drift: each run takes 0.2 % longer than the previous one, 8 % over 40 runs.
        |run| 0.002 * run as f64,
        // A step of 6 % after half of the runs, as if another program ran on the machine from then
        // on.
        |run| if run < ROUNDS { 0.0 } else { 0.06 },
    ];
    for drift in drifts {
        let machine = |seed| Machine { drift, ..Machine::new(seed, 0.01) };
        let deceived =
            count(Effect::Slower, |seed| one_after_the_other(&mut machine(seed), ROUNDS, seed));
        assert!(deceived >= 95, "AABB: {deceived} of 100");
        let fixed = |seed| Design::fixed(ROUNDS, CONFIDENCE, MIN_DIFFERENCE, seed);
        let same =
            count(Effect::Same, |seed| compare(&fixed(seed), &mut machine(seed), [1.0, 1.0]));
        assert!(same >= 95, "ABBA: {same} of 100");
    }
}

#[test]
fn pairs_of_rounds_have_reverse_orders() {
    let design = design(3);
    let mut first_is_first = 0;
    for pair in 0..200 {
        let mut order = design.order(2 * pair, 3);
        first_is_first += usize::from(order[0] == 0);
        order.reverse();
        assert_eq!(design.order(2 * pair + 1, 3), order);
    }
    // A random order begins with the first of the three configurations with a probability of a
    // third: about 67 times in 200 orders, with a standard deviation of 6.7.
    assert!((40..=93).contains(&first_is_first), "{first_is_first}");
}

#[test]
fn a_mean_over_workloads_has_the_error_of_each() {
    let design = Design::fixed(6, CONFIDENCE, MIN_DIFFERENCE, 1);
    let exact = vec![libm::log(1.21); 6];
    let noisy: Vec<f64> = [0.01, -0.01, 0.02, -0.02, 0.015, -0.015].to_vec();
    let judged = design.judge(&[exact.clone(), noisy.clone()]).unwrap();
    assert!((judged.speedup.mean - 1.1).abs() < 1e-9, "{judged:?}");
    let alone = design.judge(&[noisy]).unwrap().speedup;
    assert!((half_width(judged.speedup) / half_width(alone) - 0.5).abs() < 1e-6);
    let point = design.judge(&[exact]).unwrap();
    assert_eq!((point.effect, point.speedup.low), (Effect::Faster, point.speedup.high));
    assert_eq!(design.judge(&[vec![0.0; 2]]), None);
    assert_eq!(design.judge(&[]), None);
}

/// Of these ratios, most are almost equal, and a resample of these alone has almost no standard
/// error. With ten rounds or more, the interval is limited to the range of the ratios.
#[test]
fn clusters_of_ratios_have_an_interval_within_their_range() {
    let ratio = |at: usize| 1.03 + if at % 5 == 4 { 0.005 } else { 1e-6 * at as f64 };
    let speedup = |rounds: usize| {
        let logs: Vec<f64> = (0..rounds).map(|at| libm::log(ratio(at))).collect();
        design(1).judge(&[logs.clone(), logs]).unwrap().speedup
    };
    let (few, many) = (speedup(6), speedup(12));
    assert!(few.low < 1.0, "{few:?}");
    assert!((1.029_999..1.031).contains(&many.low), "{many:?}");
    assert!((1.031..1.035_001).contains(&many.high), "{many:?}");
}

#[test]
fn differences_that_do_not_matter_are_none() {
    let answer = |low, high| design(1).effect(Interval { mean: 1.0, low, high });
    assert_eq!(answer(0.992, 1.006), Effect::Same);
    assert_eq!(answer(1.004, 1.013), Effect::Same);
    assert_eq!(answer(1.011, 1.052), Effect::Faster);
    assert_eq!(answer(0.95, 0.99), Effect::Slower);
    assert_eq!(answer(0.985, 1.030), Effect::Uncertain);
}

#[test]
fn outliers_are_found_by_the_median_deviation() {
    assert_eq!(outliers(&[1.0, 1.01, 0.99, 1.02, 2.0, 1.0]), [4]);
    assert_eq!(outliers(&[1.0, 1.01, 0.99, 9.0]), [] as [usize; 0], "too few to tell");
    assert_eq!(outliers(&[1.0, 1.0, 1.0, 1.0, 2.0]), [] as [usize; 0], "most are equal");
    assert!((geometric_mean(&[1.0, 4.0]) - 2.0).abs() < 1e-12);
    let e = libm::exp(1.0);
    assert!((noise(&[1.0, e, e * e]).unwrap() - 1.0).abs() < 1e-12 && noise(&[1.0]).is_none());
}

/// Returns half of the interval's width, as a logarithm of a ratio.
fn half_width(interval: Interval) -> f64 {
    libm::log(interval.high / interval.mean)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Asserts that for any rounds the mean is within its interval, and that mean and interval
    /// become their reciprocals if the two configurations are swapped.
    #[test]
    fn intervals_are_ordered_and_symmetric(
        logs in prop::collection::vec(-1.0..1.0f64, 4..30), seed in 0u64..100,
    ) {
        let design = design(seed);
        let swapped: Vec<f64> = logs.iter().map(|log| -log).collect();
        let (a, b) = (design.judge(&[logs]).unwrap(), design.judge(&[swapped]).unwrap());
        prop_assert!(a.speedup.low <= a.speedup.mean && a.speedup.mean <= a.speedup.high);
        prop_assert!((a.speedup.mean * b.speedup.mean - 1.0).abs() < 1e-9);
        // The same resamples give both intervals.
        prop_assert!((a.speedup.low * b.speedup.high - 1.0).abs() < 1e-6);
        prop_assert!((a.speedup.high * b.speedup.low - 1.0).abs() < 1e-6);
        prop_assert!(a.speedup.low > 0.0 && a.speedup.high.is_finite());
    }

    /// Asserts that the width of the interval and the outliers stay the same if all times are
    /// multiplied by a factor, as by a change of the unit.
    #[test]
    fn units_cancel(
        times in prop::collection::vec((0.1..10.0f64, 0.1..10.0f64), 4..20), unit in 0.001..1e3f64,
    ) {
        let (a, b): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
        let scaled = |times: &[f64]| times.iter().map(|time| time * unit).collect::<Vec<_>>();
        let one = design(1).judge(&[log_speedups(&a, &b)]).unwrap();
        let other = design(1).judge(&[log_speedups(&scaled(&a), &scaled(&b))]).unwrap();
        prop_assert!((half_width(one.speedup) / half_width(other.speedup) - 1.0).abs() < 1e-6);
        prop_assert_eq!(outliers(&a), outliers(&scaled(&a)));
    }
}
