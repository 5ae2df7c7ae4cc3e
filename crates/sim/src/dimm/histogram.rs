//! Counts latencies in a histogram with a bin for each nanosecond up to a limit.

/// The lower end of the last bin, ns: the bin has all latencies of this number of ns or more.
pub const LIMIT_NS: usize = 16_384;

/// Counts of latencies, one for each nanosecond up to [`LIMIT_NS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; LIMIT_NS + 1], count: 0, sum_ns: 0, max_ns: 0 }
    }
}

impl Histogram {
    /// Adds a latency of `ns` nanoseconds to the histogram.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.counts[(ns as usize).min(LIMIT_NS)] += 1;
        self.count += 1;
        self.sum_ns += ns;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (own, count) in self.counts.iter_mut().zip(&other.counts) {
            *own += count;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Returns the number of latencies that were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the longest latency, ns.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Returns the mean latency, ns; 0 if no latency was recorded.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }

    /// Returns a percentile of the latencies, ns: the fraction `part` (0 to 1) of all latencies
    /// does not exceed the percentile.
    pub fn percentile_ns(&self, part: f64) -> u64 {
        let wanted = (part * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (ns, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return if ns == LIMIT_NS { self.max_ns } else { ns as u64 };
            }
        }
        self.max_ns
    }

    /// Returns the fraction of latencies below `ns` ns, 0 to 1.
    pub fn part_below(&self, ns: usize) -> f64 {
        let below: u64 = self.counts[..ns.min(LIMIT_NS)].iter().sum();
        if self.count == 0 { 0.0 } else { below as f64 / self.count as f64 }
    }

    /// Returns the counts in bins of `width` ns up to `limit` ns, and in one last bin for longer
    /// latencies.
    pub fn bins(&self, width: usize, limit: usize) -> Vec<u64> {
        let limit = limit.min(LIMIT_NS);
        let mut bins: Vec<u64> =
            self.counts[..limit].chunks(width).map(|chunk| chunk.iter().sum()).collect();
        bins.push(self.counts[limit..].iter().sum());
        bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_bins() {
        let mut histogram = Histogram::default();
        (1..=100).for_each(|ns| histogram.record(ns));
        histogram.record(1_000_000);
        assert_eq!(histogram.percentile_ns(0.5), 51);
        assert_eq!(histogram.percentile_ns(1.0), 1_000_000);
        assert_eq!(histogram.bins(8, 24), [7, 8, 8, 78]);
        assert_eq!((histogram.count(), histogram.max_ns()), (101, 1_000_000));
        assert!((histogram.part_below(51) - 50.0 / 101.0).abs() < 1e-12);
        let mut twice = histogram.clone();
        twice.add(&histogram);
        assert_eq!((twice.mean_ns(), twice.count()), (histogram.mean_ns(), 202));
        assert_eq!(Histogram::default().mean_ns(), 0.0);
    }
}
