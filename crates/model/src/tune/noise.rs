//! The noise of a search: how much the values of runs with the same weights differ.

use crate::statistics;

/// The weight of the expected noise, in degrees of freedom, when it is averaged with the noise of
/// the runs.
const EXPECTED_RUNS: usize = 2;

/// Quantiles of Student's t for a two-sided confidence interval of 0.9. Entry n is for n + 1
/// degrees of freedom.
const QUANTILES: [f64; 30] = [
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771,
    1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711, 1.708, 1.706,
    1.703, 1.701, 1.699, 1.697,
];

/// The noise of runs with the same weights, pooled over all weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Noise {
    /// Standard deviation of the logarithms of the values of runs with the same weights.
    pub(super) sigma: f64,
    degrees: usize,
}

impl Noise {
    /// Pools the noise of `groups` with the noise `expected`, which was assumed before the runs. A
    /// group has the logarithms of the values of runs with the same weights. The pooled noise is
    /// the mean of the variances, weighted by their degrees of freedom.
    pub(super) fn of<'a>(groups: impl Iterator<Item = &'a [f64]>, expected: f64) -> Self {
        let mut degrees = EXPECTED_RUNS;
        let mut squares = EXPECTED_RUNS as f64 * expected * expected;
        for logs in groups {
            let mean = statistics::mean(logs);
            degrees += logs.len() - 1;
            squares += logs.iter().map(|log| (log - mean) * (log - mean)).sum::<f64>();
        }
        Self { sigma: (squares / degrees as f64).sqrt(), degrees }
    }

    /// Half of the width of the confidence interval (0.9) of the difference between two means: of
    /// `some` runs, and of `others` runs.
    pub(super) fn half(&self, some: usize, others: usize) -> f64 {
        self.quantile() * self.sigma * (1.0 / some as f64 + 1.0 / others as f64).sqrt()
    }

    /// Half of the width of the confidence interval (0.9) of the mean of `runs` runs.
    pub(super) fn half_of_one(&self, runs: usize) -> f64 {
        self.quantile() * self.sigma / (runs as f64).sqrt()
    }

    fn quantile(&self) -> f64 {
        let tabled = QUANTILES.get(self.degrees - 1).copied();
        // For more degrees of freedom than the table has, the quantile is nearly that of the normal
        // distribution, 1.645. The difference is about 1.524 / degrees, the first term of the
        // expansion.
        tabled.unwrap_or(1.645 + 1.524 / self.degrees as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_pooled() {
        let none = Noise::of([&[0.5][..], &[0.7]].into_iter(), 0.01);
        assert!((none.sigma - 0.01).abs() < 1e-12, "as it is expected");
        let some = Noise::of([&[0.0, 0.2][..], &[1.0, 1.2]].into_iter(), 0.01);
        // Each of the two groups has a sum of squares of 2 * 0.1^2, and one degree of freedom. The
        // expected noise adds 2 * 0.01^2, and two degrees of freedom.
        assert!((some.sigma * some.sigma - 0.0402 / 4.0).abs() < 1e-12);
        assert!((some.half(1, 1) / some.half_of_one(1) - 2f64.sqrt()).abs() < 1e-12);
        assert_eq!(some.quantile(), 2.132);
    }

    #[test]
    fn the_table_goes_on_smoothly() {
        let at = |degrees| Noise { sigma: 1.0, degrees }.quantile();
        assert!(at(30) > at(31) && at(30) - at(31) < 0.005);
        assert!((at(120) - 1.658).abs() < 0.001, "as tables have it");
    }
}
