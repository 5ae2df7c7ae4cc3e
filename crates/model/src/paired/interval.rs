//! Computes the confidence interval of a mean by the symmetric studentised bootstrap (bootstrap-t;
//! Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, section 12.5; Hall, "The
//! Bootstrap and Edgeworth Expansion", 1992, section 3.6).
//!
//! The values are resampled with replacement. Each resample gives the deviation of its mean,
//! divided by the standard error of the resample. The quantile of the absolute deviations replaces
//! the quantile of Student's t, so the noise need not be normal. The plain percentile bootstrap is
//! not used: its variance is divided by n instead of n - 1, so with few values its intervals are
//! too narrow (Hesterberg, "What Teachers Should Know About the Bootstrap", 2015, section 4.3).
//!
//! If the values are in narrow clusters, some resamples are from one cluster only. Their standard
//! error is far too small, and the interval is far too wide. Therefore the interval is limited to
//! the range of the values. Of n values of a symmetric distribution, all are on one side of its
//! mean with the probability 2^(1 - n): with n = 10, the mean is outside of the range with a
//! probability of 0.2 %. Logarithms of ratios are distributed symmetrically if both configurations
//! have the same noise. The limit applies where this probability is a small part of the error that
//! the confidence allows; the quantile has the rest of the error.

use rand_distr::{Distribution as _, Uniform};
use rand_pcg::Pcg64Mcg;

/// The number of resamples. With a confidence of 0.995, 25 of them have a deviation outside of the
/// interval.
const RESAMPLES: usize = 4_999;

/// The smallest valid standard error of a resample, as a fraction of the standard error of all
/// values. A smaller standard error is only a rounding error: the resample has equal values.
const DEGENERATE: f64 = 1e-6;

/// The largest half width of an interval of the logarithm of a ratio: the logarithm of 1e9. Without
/// this limit the exponential may overflow: if few values are in two clusters, a resample from one
/// cluster has a standard error of almost 0.
const HALF_MAX: f64 = 9.0 * std::f64::consts::LN_10;

/// The interval is limited to the range of the values if the probability that the mean is outside
/// of this range is at most this fraction of the allowed error (1 minus the confidence).
const RANGE_ERROR_MAX: f64 = 0.25;

/// The geometric mean of ratios, and the confidence interval of this mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The geometric mean of the ratios.
    pub mean: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// The mean of the workloads' means, and the standard error of this mean. Each stratum has the
/// values of one workload.
#[derive(Clone, Copy, Debug)]
struct Moments {
    mean: f64,
    error: f64,
}

/// Sums over the values of a stratum (one workload). The mean of the stratum is subtracted from
/// each value first, so that rounding loses no digits.
#[derive(Clone, Copy, Debug, Default)]
struct StratumSums {
    values: f64,
    squares: f64,
}

impl StratumSums {
    fn add(&mut self, value: f64) {
        self.values += value;
        self.squares += value * value;
    }

    /// Returns the mean of `count` values, and the square of its standard error.
    fn moments(&self, count: usize) -> (f64, f64) {
        let count = count as f64;
        let mean = self.values / count;
        let variance = (self.squares - count * mean * mean) / (count - 1.0);
        (mean, variance.max(0.0) / count)
    }
}

/// Computes the confidence interval of the geometric mean over the workloads. Each stratum has the
/// logarithms of the ratios of one workload, at least two. If all ratios of each workload are
/// equal, both ends of the interval are the mean.
pub(super) fn studentised(strata: &[Vec<f64>], confidence: f64, random: &mut Pcg64Mcg) -> Interval {
    let centres: Vec<f64> = strata.iter().map(|values| crate::statistics::mean(values)).collect();
    let centred: Vec<Vec<f64>> = strata
        .iter()
        .zip(&centres)
        .map(|(values, centre)| values.iter().map(|value| value - centre).collect())
        .collect();
    let mean = crate::statistics::mean(&centres);
    let error = moments(&centred, |_, at| at).error;
    let smallest = f64::EPSILON * (1.0 + mean.abs());
    let point = |log: f64| libm::exp(log);
    if error <= smallest {
        return Interval { mean: point(mean), low: point(mean), high: point(mean) };
    }
    let indices: Vec<Option<Uniform<u32>>> =
        strata.iter().map(|values| Uniform::new(0, values.len() as u32).ok()).collect();
    let mut deviations = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let resample = moments(&centred, |stratum, at| match indices[stratum] {
            Some(index) => index.sample(random) as usize,
            None => at,
        });
        // A resample of equal values is left out: its standard error, by which its deviation would
        // be divided, is 0.
        if resample.error > DEGENERATE * error {
            deviations.push((resample.mean / resample.error).abs());
        }
    }
    let range_error: f64 = strata.iter().map(|values| libm::exp2(1.0 - values.len() as f64)).sum();
    let is_limited = range_error <= RANGE_ERROR_MAX * (1.0 - confidence);
    let confidence = confidence + if is_limited { range_error } else { 0.0 };
    let deviations = crate::statistics::sorted(deviations);
    let half = match deviations.is_empty() {
        true => HALF_MAX,
        false => (crate::statistics::quantile(&deviations, confidence) * error).min(HALF_MAX),
    };
    let (mut low, mut high) = (mean - half, mean + half);
    if is_limited {
        low = low.max(mean_of_ends(strata, f64::min));
        high = high.min(mean_of_ends(strata, f64::max));
    }
    Interval { mean: point(mean), low: point(low), high: point(high) }
}

/// Returns the mean over all strata of the smallest or the largest value of a stratum.
fn mean_of_ends(strata: &[Vec<f64>], end: fn(f64, f64) -> f64) -> f64 {
    let ends: Vec<f64> =
        strata.iter().filter_map(|values| values.iter().copied().reduce(end)).collect();
    crate::statistics::mean(&ends)
}

/// Returns the moments of a resample of `strata`. `choose` is called with the index of a stratum
/// and the index of a value in it, and returns the index of the value that the resample has
/// instead. `strata` are centred: the mean of each stratum was subtracted.
fn moments(strata: &[Vec<f64>], mut choose: impl FnMut(usize, usize) -> usize) -> Moments {
    let (mut mean, mut square) = (0.0, 0.0);
    for (stratum, values) in strata.iter().enumerate() {
        let mut sums = StratumSums::default();
        for at in 0..values.len() {
            sums.add(values[choose(stratum, at)]);
        }
        let (centre, error) = sums.moments(values.len());
        mean += centre;
        square += error;
    }
    let count = strata.len() as f64;
    Moments { mean: mean / count, error: square.sqrt() / count }
}
