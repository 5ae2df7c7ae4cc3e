//! Comparison of configurations by paired runs: the order of the runs, the confidence interval of
//! the speed-up, and the conclusion.
//!
//! A *round* runs each configuration once. Disturbances that last longer than a round cancel in the
//! ratio of two runs of one round. The mean of the ratio's logarithm over the rounds is the
//! logarithm of the geometric mean of the ratios ([`interval`]). Rounds come in pairs: a random
//! order, then its reverse (ABBA). Over such a pair, a linear drift of the machine adds as much to
//! configuration B as to A, and cancels in their ratio. If all runs of A came before all runs of B
//! (AABB), the drift would count as a difference.
//!
//! A comparison that evaluates growing data repeatedly reports a false difference more often than a
//! single evaluation ("look") does: with an interval of 95 % and ten looks about 19 % of the time
//! (Armitage, McPherson and Rowe, "Repeated Significance Tests on Accumulating Data", 1969).
//! Therefore looks are few and fixed beforehand, and divide the error (1 minus the confidence)
//! among them (Bonferroni). The first look has a tenth of the error, so it finds only large
//! differences. The second look has four tenths, and the other looks share the rest. Example: with
//! a confidence of 0.95 and looks after 6, 10, 20 and 40 rounds, the intervals of the looks have
//! the confidences 0.995, 0.98, 0.9875 and 0.9875. The sum of the errors is at most 0.05, however
//! the looks are correlated. A comparison that is interrupted between two looks is evaluated with
//! the confidence of the next look.
//!
//! ```text
//! interval of the speed-up, min_difference 2 %        answer
//! 0.992 to 1.006                                      no difference
//! 1.004 to 1.013                                      no difference that matters
//! 1.011 to 1.052                                      faster
//! 0.985 to 1.030                                      uncertain: another look, if one is left
//! ```
//!
//! The intervals of all looks cover the true ratio with at least the probability `confidence`.
//! Therefore, with a probability of at most `1 - confidence`, a true ratio of 1 is reported as a
//! difference, or a true difference of `min_difference` or more as no difference.

pub mod interval;

use crate::statistics;
use interval::{Interval, studentised};
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore as _, SeedableRng as _},
};

/// The numbers of rounds after which the first two looks are made. A look evaluates the rounds so
/// far, and may end the comparison. Each later look is after twice as many rounds as the previous
/// look; the last look is after the maximum number of rounds.
const FIRST_LOOKS: [usize; 2] = [6, 10];

/// The fractions of the allowed error (1 minus the confidence) that the first two looks, the
/// evaluations of the rounds so far, may use. Later looks share the rest of the error evenly. In a
/// design with only one or two looks, the fractions are scaled so that they sum to 1.
const PARTS: [f64; 2] = [0.1, 0.4];

/// Minimum number of rounds of a comparison. The standard deviation of only two rounds would be too
/// uncertain.
pub const ROUNDS_MIN: usize = 3;

/// The modified z-score above which a value is an outlier (Iglewicz and Hoaglin, "How to Detect and
/// Handle Outliers", 1993, section 3.3).
const OUTLIER_SCORE: f64 = 3.5;

/// The median absolute deviation of a normal distribution divided by its standard deviation.
const DEVIATION_OF_NORMAL: f64 = 0.6745;

/// Minimum number of values for a search for outliers: the median absolute deviation of fewer
/// values is too uncertain.
const OUTLIER_VALUES: usize = 5;

/// The design of a comparison, fixed before its first run.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// The rounds after which the comparison may stop, ascending; the last is the maximum number of
    /// rounds.
    pub looks: Vec<usize>,
    /// The minimum probability that the intervals of all looks cover the true ratio, such as 0.95.
    pub confidence: f64,
    /// The smallest difference of a ratio from 1 that matters, such as 0.02.
    pub min_difference: f64,
    /// The seed of the random orders of the rounds, and of the bootstrap's resamples.
    pub seed: u64,
}

/// The result of comparing a configuration (a way to run a program) with the first configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// The speed-up over the first configuration: the cost of the first configuration, divided by
    /// the cost of this configuration.
    pub speedup: Interval,
    /// The conclusion from the interval's position relative to 1 and to [`Design::min_difference`].
    pub effect: Effect,
}

/// The conclusion from comparing a configuration with the first configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The configuration is faster: the interval of its speed-up is above 1, and not wholly within
    /// `min_difference` of 1.
    Faster,
    /// The configuration is slower: the interval of its speed-up is below 1, and not wholly within
    /// `min_difference` of 1.
    Slower,
    /// No difference that matters: the whole interval of the speed-up is within `min_difference` of
    /// 1.
    Same,
    /// The interval of the speed-up contains 1, and a ratio more than `min_difference` away from 1.
    Uncertain,
}

impl Design {
    /// Creates a design that stops at the first look (evaluation of the rounds so far) with a
    /// conclusion, after `rounds_max` rounds at most.
    pub fn sequential(rounds_max: usize, confidence: f64, min_difference: f64, seed: u64) -> Self {
        let [first, second] = FIRST_LOOKS;
        let doubled = std::iter::successors(Some(second), |rounds| Some(2 * rounds));
        let earlier = std::iter::once(first).chain(doubled);
        let mut looks: Vec<usize> = earlier.take_while(|rounds| *rounds < rounds_max).collect();
        looks.push(rounds_max);
        Self { looks, confidence, min_difference, seed }
    }

    /// Creates a design with a single look (evaluation of the rounds), after exactly `rounds`
    /// rounds.
    pub fn fixed(rounds: usize, confidence: f64, min_difference: f64, seed: u64) -> Self {
        Self { looks: vec![rounds], confidence, min_difference, seed }
    }

    /// Maximum number of rounds.
    pub fn rounds_max(&self) -> usize {
        self.looks.last().copied().unwrap_or(0)
    }

    /// Returns the order of the configurations in round `round` (0-based): a random order in an
    /// even round, and the reverse of it in the next round.
    pub fn order(&self, round: usize, configurations: usize) -> Vec<usize> {
        let mut random = stream(self.seed, (round / 2) as u64);
        let mut order: Vec<usize> = (0..configurations).collect();
        order.sort_by_cached_key(|_| random.next_u64());
        if round % 2 == 1 {
            order.reverse();
        }
        order
    }

    /// Returns the confidence of an interval that is computed after `rounds` rounds: that of the
    /// look (evaluation) after `rounds` rounds or, if there is none, of the next look.
    fn confidence_after(&self, rounds: usize) -> f64 {
        let last = self.looks.len().saturating_sub(1);
        let look = self.looks.iter().position(|look| rounds <= *look).unwrap_or(last);
        let later = self.looks.len().saturating_sub(PARTS.len());
        let part = |look: usize| match PARTS.get(look) {
            Some(part) => *part,
            None => (1.0 - PARTS.iter().sum::<f64>()) / later as f64,
        };
        let sum: f64 = (0..self.looks.len()).map(part).sum();
        1.0 - (1.0 - self.confidence) * part(look) / sum
    }

    /// Compares a configuration with the first configuration. `strata` has one list for each
    /// workload, with the logarithms of the speed-ups in the rounds of the workload. The judged
    /// speed-up is the geometric mean over the workloads. Returns `None` if a workload has fewer
    /// than [`ROUNDS_MIN`] rounds.
    pub fn judge(&self, strata: &[Vec<f64>]) -> Option<Judgement> {
        let least = strata.iter().map(Vec::len).min()?;
        if least < ROUNDS_MIN {
            return None;
        }
        let mut random = stream(self.seed, u64::MAX);
        let speedup = studentised(strata, self.confidence_after(least), &mut random);
        Some(Judgement { speedup, effect: self.effect(speedup) })
    }

    fn effect(&self, speedup: Interval) -> Effect {
        let matters = 1.0 + self.min_difference;
        match speedup {
            it if it.low >= 1.0 / matters && it.high <= matters => Effect::Same,
            it if it.low > 1.0 => Effect::Faster,
            it if it.high < 1.0 => Effect::Slower,
            _ => Effect::Uncertain,
        }
    }
}

/// Returns the generator of random stream `stream` for the seed `seed`. Different streams are
/// independent.
fn stream(seed: u64, stream: u64) -> Pcg64Mcg {
    let mut random =
        Pcg64Mcg::seed_from_u64(seed ^ stream.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    // The first value is skipped, because it is similar for seeds that differ little.
    random.next_u64();
    random
}

/// Returns the logarithm of the speed-up in each round. The speed-up is the cost of the first
/// configuration (`first`) divided by the cost of another configuration (`other`). Both lists have
/// one cost for each round; all costs are above 0.
pub fn log_speedups(first: &[f64], other: &[f64]) -> Vec<f64> {
    first.iter().zip(other).map(|(first, other)| libm::log(first / other)).collect()
}

/// Returns the geometric mean of `values`, which are above 0.
pub fn geometric_mean(values: &[f64]) -> f64 {
    let logs: Vec<f64> = values.iter().map(|value| libm::log(*value)).collect();
    libm::exp(statistics::mean(&logs))
}

/// Returns the standard deviation of the logarithms of `values`, which are above 0. It is nearly
/// the relative standard deviation of the values. `None` if there are fewer than two values.
pub fn noise(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = values.iter().map(|value| libm::log(*value)).collect();
    let mean = statistics::mean(&logs);
    let squares: f64 = logs.iter().map(|log| (log - mean) * (log - mean)).sum();
    (logs.len() > 1).then(|| (squares / (logs.len() - 1) as f64).sqrt())
}

/// Returns the indices of the outliers among `values`, which are above 0, by the median absolute
/// deviation of their logarithms. Fewer than five values, or values of which most are equal, have
/// no outliers.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    if values.len() < OUTLIER_VALUES {
        return vec![];
    }
    let median = |values: Vec<f64>| statistics::quantile(&statistics::sorted(values), 0.5);
    let logs: Vec<f64> = values.iter().map(|value| libm::log(*value)).collect();
    let middle = median(logs.clone());
    let deviation = median(logs.iter().map(|log| (log - middle).abs()).collect());
    let is_outlier = |log: f64| {
        deviation > 0.0 && DEVIATION_OF_NORMAL * (log - middle).abs() / deviation > OUTLIER_SCORE
    };
    (0..values.len()).filter(|at| is_outlier(logs[*at])).collect()
}

#[cfg(test)]
mod tests;
