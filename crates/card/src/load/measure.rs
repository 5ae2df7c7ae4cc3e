//! Records the measurements of a load: latencies, rates and the bottleneck.

use crate::{
    engine::{Usage, Utilisation},
    settings::Component,
};
use hdrhistogram::Histogram;

const FS_PER_NS: u64 = 1_000_000;
/// Maximum latency that the histogram distinguishes, ns (1000 s). The histogram counts longer
/// latencies as 1000 s; mean, minimum and maximum stay exact.
const NS_MAX: u64 = 1_000_000_000_000;
/// Number of significant decimal digits of percentiles.
const DIGITS: u8 = 3;

/// Latencies of one kind (fio's slat, clat or lat): count, mean, percentiles within 0.1 %, and the
/// exact minimum and maximum.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        // The constructor refuses only invalid bounds. These bounds are valid, because low >= 1,
        // high >= 2 * low, and there are at most 5 digits.
        let histogram = Histogram::new_with_bounds(1, NS_MAX, DIGITS);
        let histogram = histogram.unwrap_or_else(|_| unreachable!("the bounds are valid"));
        Self { histogram, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl Latencies {
    #[inline]
    pub(crate) fn record(&mut self, fs: u64) {
        let ns = fs / FS_PER_NS;
        self.histogram.saturating_record(ns);
        self.sum_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds the latencies of `other` to `self`.
    pub fn add(&mut self, other: &Self) {
        // The addition cannot fail, because both histograms have the same bounds.
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok(), "{added:?}");
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Returns the number of recorded latencies.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the mean of the latencies, ns; 0 if no latency was recorded.
    pub fn mean_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum_ns as f64 / self.count() as f64 }
    }

    /// Returns the standard deviation of the latencies, ns.
    pub fn deviation_ns(&self) -> f64 {
        self.histogram.stdev()
    }

    /// Returns the smallest latency, ns; 0 if no latency was recorded.
    pub fn min_ns(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.min_ns }
    }

    /// Returns the largest latency, ns; 0 if no latency was recorded.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Returns the latency that `percent` (0 to 100) of all latencies do not exceed, ns.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        self.histogram.value_at_percentile(percent).clamp(self.min_ns(), self.max_ns)
    }

    /// Counts the latencies in bins whose ends grow by the factor `ratio`, for a logarithmic axis.
    /// Returns the exclusive end of each bin in ns, and its count. The first bin ends at
    /// `first_ns`; the last bin contains the largest latency.
    pub fn bins(&self, first_ns: u64, ratio: f64) -> Vec<(u64, u64)> {
        if self.count() == 0 {
            return vec![];
        }
        let log = self.histogram.iter_log(first_ns.max(1), ratio.max(1.01));
        log.map(|bin| (bin.value_iterated_to() + 1, bin.count_since_last_iteration())).collect()
    }
}

/// The measurements of the reads, of the writes, or of all reads and writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionResult {
    /// The number of I/Os that completed during the measurement.
    pub ios: u64,
    /// The number of bytes that the counted I/Os transferred.
    pub bytes: u64,
    /// Rate during the measurement, I/Os per second.
    pub iops: f64,
    /// Rate during the measurement, bytes per second.
    pub bytes_per_s: f64,
    /// Submission latency: from the thread's decision to the doorbell.
    pub slat: Latencies,
    /// Completion latency: from the doorbell to the completion in the host.
    pub clat: Latencies,
    /// Total latency: the sum of the submission latency and the completion latency.
    pub lat: Latencies,
}

impl DirectionResult {
    /// Returns the mean total latency (fio's `lat`) of all I/Os of two directions, ns.
    pub(crate) fn mean_ns(both: [&Self; 2]) -> f64 {
        let [ios, sum] = both.into_iter().fold([0.0, 0.0], |[ios, sum], of| {
            [ios + of.ios as f64, sum + of.lat.mean_ns() * of.ios as f64]
        });
        sum / f64::max(ios, 1.0)
    }

    /// Adds the measurements of `other`, which must be of the same span of time, because rates are
    /// added.
    pub fn add(&mut self, other: &Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.iops += other.iops;
        self.bytes_per_s += other.bytes_per_s;
        self.slat.add(&other.slat);
        self.clat.add(&other.clat);
        self.lat.add(&other.lat);
    }

    pub(crate) fn rate(&mut self, span_fs: u64) {
        let seconds = span_fs.max(1) as f64 / 1e15;
        self.iops = self.ios as f64 / seconds;
        self.bytes_per_s = self.bytes as f64 / seconds;
    }
}

/// The cause that limits the number of I/Os per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A saturated component limits the rate.
    Component(Component),
    /// The latency limits the rate: more outstanding I/Os would give more I/Os per second.
    Depth,
    /// The load itself limits the rate (`rate_iops`).
    Rate,
}

impl Bound {
    /// Returns the name of the bound in JSON records: a component's name, or `depth`, or `rate`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Component(component) => component.name(),
            Self::Depth => "depth",
            Self::Rate => "rate",
        }
    }
}

/// The measurements of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The measurements of all reads.
    pub read: DirectionResult,
    /// The measurements of all writes.
    pub write: DirectionResult,
    /// For each group, in the order of the load: the measurements of its reads, and of its writes.
    pub groups: Vec<[DirectionResult; 2]>,
    /// The time of the measurement: the run without its ramp time, fs.
    pub span_fs: u64,
    /// The time from the start of the ramp time to the end of the run, fs.
    pub end_fs: u64,
    /// The mean number of outstanding I/Os during the measurement.
    pub outstanding: f64,
    /// The number of I/Os submitted in the whole run.
    pub submitted: u64,
    /// The number of I/Os completed in the whole run.
    pub completed: u64,
    /// The utilisation of each component during the measurement.
    pub utilisation: Utilisation,
    /// The cause that limits the number of I/Os per second.
    pub bound_by: Bound,
    /// The engine's counters at the start and at the end of the measurement.
    pub usage: [Usage; 2],
    /// The number of events that the engine handled in the whole run.
    pub events: u64,
}

impl Outcome {
    /// Returns the rate of all reads and writes, I/Os per second.
    pub fn iops(&self) -> f64 {
        self.read.iops + self.write.iops
    }

    /// Returns the mean total latency (fio's `lat`) of all reads and writes, ns.
    pub fn mean_ns(&self) -> f64 {
        DirectionResult::mean_ns([&self.read, &self.write])
    }
}
