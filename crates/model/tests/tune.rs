//! Tests of the search for the best weights on synthetic workloads: its regret and its number of
//! runs.

use interleaf_model::{
    tune::{Finding, Run, Search, Step, Stop, Why},
    weights::Weights,
};
use proptest::prelude::*;

/// A synthetic workload: its run time as a function of the share of its pages on the first tier.
#[derive(Clone, Copy, Debug)]
struct Workload {
    /// The share of pages on the first tier at which both tiers need the same time for their pages.
    fed: f64,
    /// The fraction of the run time that does not depend on memory.
    fixed: f64,
    /// The time that is added by the latency of the slow tier if all pages are on it, in the unit
    /// of the run time.
    late: f64,
    /// The exponent of the norm that combines the times of the two tiers. If it is infinite, the
    /// combined time is the time of the slower tier. The smaller it is, the rounder is the optimum.
    sharp: f64,
}

impl Workload {
    fn value(&self, share: f64) -> f64 {
        let power = |x: f64| libm::pow(x, self.sharp);
        let tiers = power(share / self.fed) + power((1.0 - share) / (1.0 - self.fed));
        self.fixed
            + (1.0 - self.fixed) * libm::pow(tiers, 1.0 / self.sharp)
            + self.late * (1.0 - share)
    }

    fn least(&self) -> f64 {
        let shares = (0..=10_000).map(|step| f64::from(step) / 10_000.0);
        shares.map(|share| self.value(share)).fold(f64::MAX, f64::min)
    }
}

/// A source of pseudo-random noise with a normal distribution. The field is the state of the
/// generator, at first the seed.
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(self.uniform())).sqrt();
        radius * libm::cos(2.0 * std::f64::consts::PI * self.uniform())
    }
}

fn search(proposal: &str) -> Search {
    let proposal = proposal.parse().expect("these are weights");
    Search { proposal, only: None, runs: 8, min_gain: 0.02, noise: 0.01 }
}

/// Runs a search to its end. `value` returns the run time at a share of pages on the first tier.
/// Returns the result of the search, and the runs.
fn found(search: &Search, value: &mut dyn FnMut(f64) -> f64) -> (Finding, Vec<Run>) {
    let mut runs = vec![];
    loop {
        match search.next(&runs) {
            Step::Run(weights, _) => {
                let value = value(weights.shares()[0]);
                runs.push(Run { weights, value });
                assert!(runs.len() <= search.runs, "{runs:?}");
            }
            Step::Done(finding) => return (finding, runs),
        }
    }
}

fn weights(runs: &[Run]) -> Vec<String> {
    runs.iter().map(|run| run.weights.to_string()).collect()
}

#[test]
fn three_to_one_on_a_machine_that_is_rated_otherwise() {
    let fed = |share: f64| f64::max(share / 0.75, (1.0 - share) / 0.25);
    let (finding, runs) = found(&search("22:9"), &mut |share| fed(share));
    assert_eq!(weights(&runs), ["1:0", "22:9", "5:9", "3:1", "3:1", "1:0"]);
    assert_eq!((finding.best.to_string(), finding.stop), ("3:1".into(), Stop::Settled));
    assert!(finding.is_better && (finding.speedup.mean - 4.0 / 3.0).abs() < 1e-9);
    assert!(finding.speedup.low > 1.3 && finding.speedup.high < 1.37, "{finding:?}");
}

#[test]
fn equal_run_times_end_the_search_early() {
    let (finding, runs) = found(&search("22:9"), &mut |_| 2.0);
    assert!(runs.len() <= 6, "{:?}", weights(&runs));
    assert_eq!(finding.best.to_string(), "1:0");
    assert!(!finding.is_better && finding.stop == Stop::Settled, "{finding:?}");
}

#[test]
fn a_workload_that_only_slows_down_stays_on_the_first_tier() {
    for late in [0.1, 0.3, 1.0, 5.0] {
        let (finding, runs) = found(&search("3:1"), &mut |share| 1.0 + late * (1.0 - share));
        assert_eq!(finding.best.to_string(), "1:0", "{:?}", weights(&runs));
        assert!(!finding.is_better && runs.len() <= 6, "{late}: {:?}", weights(&runs));
    }
}

#[test]
fn a_workload_that_only_speeds_up_leaves_the_first_tier() {
    let (finding, runs) = found(&search("3:1"), &mut |share| 1.0 + share);
    assert_eq!(finding.best.to_string(), "0:1", "{:?}", weights(&runs));
    assert!(finding.is_better && (finding.speedup.mean - 2.0).abs() < 1e-9);
}

#[test]
fn only_listed_weights_are_run() {
    let list = ["3:1", "1:1"].map(|text| text.parse::<Weights>().expect("these are weights"));
    let search = Search { only: Some(list.to_vec()), ..search("3:1") };
    let (finding, runs) = found(&search, &mut |share| 2.0 - share);
    assert_eq!(weights(&runs), ["1:0", "3:1", "1:1", "1:0"]);
    assert_eq!(finding.best.to_string(), "1:0");
}

#[test]
fn tiers_behind_the_first_share_as_proposed() {
    let fed = |share: f64| f64::max(share / 0.5, (1.0 - share) / 0.5);
    let (finding, runs) = found(&search("4:2:1"), &mut |share| fed(share));
    let others = |run: &Run| (run.weights.as_slice()[1], run.weights.as_slice()[2]);
    assert!(runs.iter().all(|run| others(run).0 == 2 * others(run).1), "{:?}", weights(&runs));
    assert_eq!(finding.best.to_string(), "3:2:1");
}

#[test]
fn the_first_steps_say_why() {
    let search = search("3:1");
    let run = |weights: &str, value| Run { weights: weights.parse().expect("weights"), value };
    let first = Weights::first_tier(2);
    assert_eq!(search.next(&[]), Step::Run(first, Why::First));
    let one = [run("1:0", 1.0)];
    assert_eq!(search.next(&one), Step::Run(search.proposal.clone(), Why::Proposed));
    let Step::Run(_, Why::Promising(part)) = search.next(&[run("1:0", 1.0), run("3:1", 1.0)])
    else {
        panic!("there may be something better between");
    };
    assert!((part - 0.2).abs() < 0.01, "{part}");
    assert_eq!(search.finding_so_far(&[]), None);
    assert!(search.finding_so_far(&one).is_some_and(|finding| !finding.is_better));
}

/// Returns the regrets of the search for 200 random workloads: the run time with the weights that
/// it finds, divided by the optimum, minus 1. `noise` is the standard deviation of the logarithm of
/// a run time.
fn regrets(noise: f64) -> Vec<f64> {
    let mut random = Noise(7);
    (0..200)
        .map(|_| {
            let workload = Workload {
                fed: 0.5 + 0.4 * random.uniform(),
                fixed: 0.8 * random.uniform(),
                late: 0.3 * random.uniform(),
                sharp: libm::exp(libm::log(2.0) + random.uniform() * libm::log(32.0)),
            };
            let proposed = (workload.fed + 0.1 * random.normal()).clamp(0.4, 0.95);
            let proposal = Weights::percent(&[proposed, 1.0 - proposed]);
            let search = search(&proposal.to_string());
            let (finding, _) = found(&search, &mut |share| {
                workload.value(share) * libm::exp(noise * random.normal())
            });
            workload.value(finding.best.shares()[0]) / workload.least() - 1.0
        })
        .collect()
}

#[test]
fn most_are_within_two_percent() {
    // Each case: the noise of a run, the least fraction of workloads whose regret must be at most 2
    // %, and the highest mean regret.
    for (noise, part, mean) in [
        (0.0, 1.0, 0.008),
        (0.005, 0.97, 0.01),
        (0.01, 0.95, 0.01),
        (0.02, 0.8, 0.012),
        (0.05, 0.6, 0.03),
    ] {
        let regrets = regrets(noise);
        let within = regrets.iter().filter(|regret| **regret <= 0.02).count();
        let within = within as f64 / regrets.len() as f64;
        let sum: f64 = regrets.iter().sum();
        let regret = sum / regrets.len() as f64;
        assert!(within >= part && regret <= mean, "{noise}: {within} {regret}");
    }
}

proptest! {
    /// Asserts for runs without noise that the result is always within 2 % of the optimum, in at
    /// most 8 runs.
    #[test]
    fn the_optimum_is_found_without_noise(
        fed in 0.5..0.95f64,
        fixed in 0.0..0.9f64,
        late in 0.0..0.5f64,
        sharp in 2.0..60.0f64,
        proposed in 50u16..95,
    ) {
        let workload = Workload { fed, fixed, late, sharp };
        let search = search(&format!("{proposed}:{}", 100 - proposed));
        let (finding, runs) = found(&search, &mut |share| workload.value(share));
        let regret = workload.value(finding.best.shares()[0]) / workload.least() - 1.0;
        prop_assert!(regret <= 0.02, "{regret}: {:?}", weights(&runs));
    }
}
