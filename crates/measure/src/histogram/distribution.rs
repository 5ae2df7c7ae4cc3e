//! Counts a distribution of latencies: in linear bins for the body, and in bins of growing width
//! for the tail.

use hdrhistogram::Histogram;

/// Width of a linear bin, ns.
pub const BIN_NS: f64 = 8.0;

/// The number of linear bins, for latencies below 4096 ns. One further bin counts all longer
/// latencies.
pub const BINS: usize = 512;

/// The unit in which `hdrhistogram` counts latencies, ns: a hundredth of a ns is finer than the
/// step of any clock.
const UNIT_NS: f64 = 0.01;

/// The largest latency that is counted, ns: 10 s. Longer latencies are counted as this latency.
const LONGEST_NS: f64 = 1e10;

/// A histogram of latencies: the number of samples in each bin, and the sum and the percentiles of
/// all samples.
#[derive(Clone, Debug)]
pub struct Distribution {
    /// The number of samples in each bin of the width [`BIN_NS`]. The last bin counts all longer
    /// latencies.
    pub bins: Vec<u64>,
    /// The histogram from which percentiles are computed: all samples, with a relative precision of
    /// a thousandth.
    all: Option<Histogram<u64>>,
    sum_ns: f64,
    count: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        // The crate `hdrhistogram` accepts these bounds and this precision, so `all` is never
        // `None`.
        let all = Histogram::new_with_bounds(1, (LONGEST_NS / UNIT_NS) as u64, 3).ok();
        Self { bins: vec![0; BINS + 1], all, sum_ns: 0.0, count: 0 }
    }
}

impl Distribution {
    /// Counts a latency, ns.
    pub fn record(&mut self, latency_ns: f64) {
        let latency_ns = if latency_ns > 0.0 { latency_ns.min(LONGEST_NS) } else { 0.0 };
        self.bins[((latency_ns / BIN_NS) as usize).min(BINS)] += 1;
        if let Some(all) = &mut self.all {
            all.saturating_record((latency_ns / UNIT_NS).round() as u64);
        }
        self.sum_ns += latency_ns;
        self.count += 1;
    }

    /// Returns the number of samples.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean of the samples, ns; `None` without samples.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns / self.count as f64)
    }

    /// Returns the latency that `percent` % of the samples do not exceed, ns; `None` without
    /// samples.
    pub fn percentile_ns(&self, percent: f64) -> Option<f64> {
        let all = self.all.as_ref().filter(|_| self.count > 0)?;
        Some(all.value_at_percentile(percent) as f64 * UNIT_NS)
    }

    /// Returns the longest latency, ns, to a precision of a thousandth; `None` without samples.
    pub fn max_ns(&self) -> Option<f64> {
        let all = self.all.as_ref().filter(|_| self.count > 0)?;
        Some(all.max() as f64 * UNIT_NS)
    }

    /// Returns the fraction of the samples from `from_ns` to `to_ns`; 0 without samples.
    pub fn share_between(&self, from_ns: f64, to_ns: f64) -> f64 {
        let unit = |ns: f64| (ns / UNIT_NS).round() as u64;
        let between =
            self.all.as_ref().map_or(0, |all| all.count_between(unit(from_ns), unit(to_ns)));
        if self.count == 0 { 0.0 } else { between as f64 / self.count as f64 }
    }

    /// Returns the counts of all samples in fine bins, for output files: for each bin that is not
    /// empty, its upper bound, ns, and its count. A bin is at most a thousandth of its latency
    /// wide, or 0.01 ns.
    pub fn tail(&self) -> Vec<(f64, u64)> {
        let all = self.all.as_ref();
        let counted = all.into_iter().flat_map(|all| all.iter_recorded());
        counted
            .map(|value| (value.value_iterated_to() as f64 * UNIT_NS, value.count_at_value()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_of_a_million_shows() {
        let mut all = Distribution::default();
        assert_eq!((all.mean_ns(), all.percentile_ns(50.0), all.max_ns()), (None, None, None));
        (0..999_998).for_each(|_| all.record(100.0));
        all.record(5000.0);
        all.record(1e6);
        assert_eq!((all.bins[12], all.bins[BINS], all.count()), (999_998, 2, 1_000_000));
        let near =
            |percent: f64, ns: f64| (all.percentile_ns(percent).unwrap() / ns - 1.0).abs() < 2e-3;
        assert!(near(50.0, 100.0) && near(99.99, 100.0) && near(99.9999, 5000.0));
        assert!((all.max_ns().unwrap() / 1e6 - 1.0).abs() < 2e-3);
        assert_eq!(all.share_between(4000.0, 6000.0), 1e-6);
        assert_eq!(all.tail().iter().map(|(_, count)| count).sum::<u64>(), 1_000_000);
    }

    #[test]
    fn invalid_latencies_are_clamped() {
        let mut all = Distribution::default();
        for odd in [-5.0, 0.0, f64::INFINITY, f64::NAN, 1e300] {
            all.record(odd);
        }
        assert_eq!(all.count(), 5);
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_samples(
            mut samples in prop::collection::vec(1.0..1e7_f64, 1..300), percent in 1.0..100.0_f64,
        ) {
            let mut all = Distribution::default();
            samples.iter().for_each(|ns| all.record(*ns));
            samples.sort_by(f64::total_cmp);
            let rank = (percent / 100.0 * samples.len() as f64).ceil().max(1.0) as usize - 1;
            let found = all.percentile_ns(percent).unwrap();
            let neighbours = rank.saturating_sub(1)..=(rank + 1).min(samples.len() - 1);
            let near = |at: usize| (found - samples[at]).abs() <= 2e-3 * samples[at] + 0.01;
            prop_assert!(neighbours.into_iter().any(near), "{found} {rank} {samples:?}");
            let mean = samples.iter().sum::<f64>() / samples.len() as f64;
            prop_assert!((all.mean_ns().unwrap() / mean - 1.0).abs() < 1e-9);
        }
    }
}
