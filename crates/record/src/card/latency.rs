//! Latencies of I/O operations, summarised as fio does.

use crate::{
    check::{Checked, invalid},
    rounded,
};
use interleaf_card::load::Latencies;
use serde::{Deserialize, Serialize};

/// Latency, us: minimum, mean, standard deviation, percentiles and maximum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IoLatencyDocument {
    pub min: f64,
    pub mean: f64,
    pub stddev: f64,
    pub p1: f64,
    pub p5: f64,
    pub p10: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub p99_99: f64,
    pub p99_999: f64,
    pub p99_9999: f64,
    pub max: f64,
}

/// The percentiles of a [`IoLatencyDocument`], as pairs of (fio's name, fraction of the I/Os).
pub const PERCENTILES: [(&str, f64); 11] = [
    ("1.00", 0.01),
    ("5.00", 0.05),
    ("10.00", 0.1),
    ("50.00", 0.5),
    ("90.00", 0.9),
    ("95.00", 0.95),
    ("99.00", 0.99),
    ("99.90", 0.999),
    ("99.99", 0.9999),
    ("99.999", 0.99999),
    ("99.9999", 0.999999),
];

impl IoLatencyDocument {
    pub fn new(latencies: &Latencies) -> Self {
        let us = |ns: f64| rounded(1e-3 * ns);
        let part = |part: f64| match latencies.count() {
            0 => 0.0,
            _ => us(latencies.percentile_ns(100.0 * part) as f64),
        };
        let [p1, p5, p10, p50, p90, p95, p99, p99_9, p99_99, p99_999, p99_9999] =
            PERCENTILES.map(|(_, fraction)| part(fraction));
        Self {
            min: us(latencies.min_ns() as f64),
            mean: us(latencies.mean_ns()),
            stddev: us(latencies.deviation_ns()),
            p1,
            p5,
            p10,
            p50,
            p90,
            p95,
            p99,
            p99_9,
            p99_99,
            p99_999,
            p99_9999,
            max: us(latencies.max_ns() as f64),
        }
    }

    /// Returns the percentiles of this document as pairs of (name, latency). [`PERCENTILES`] has
    /// the names, such as `99.90`.
    pub fn percentiles(&self) -> impl Iterator<Item = (&'static str, f64)> {
        PERCENTILES.iter().map(|(name, _)| *name).zip(self.values())
    }

    fn values(&self) -> [f64; 11] {
        [
            self.p1,
            self.p5,
            self.p10,
            self.p50,
            self.p90,
            self.p95,
            self.p99,
            self.p99_9,
            self.p99_99,
            self.p99_999,
            self.p99_9999,
        ]
    }

    /// Returns pairs of (latency, fraction of the I/Os that take at least this long), by rising
    /// latency. `ios` is the number of I/Os. Leaves out a percentile if at most one I/O takes
    /// longer.
    pub fn slower_than(&self, ios: u64) -> Vec<(f64, f64)> {
        let least = 1.0 / ios.max(1) as f64;
        let parts = PERCENTILES.iter().map(|(_, fraction)| 1.0 - fraction);
        let inner = self.values().into_iter().zip(parts).filter(|(_, part)| *part > least);
        [(self.min, 1.0)].into_iter().chain(inner).chain([(self.max, least)]).collect()
    }

    /// Checks that the percentiles rise from the minimum to the maximum. `field` is the path of
    /// this object in the document.
    ///
    /// # Errors
    /// The first percentile that is below the one before it, or is not a number.
    pub(super) fn check(&self, field: &str) -> Checked {
        let mut low = self.min;
        for (name, value) in self.percentiles().chain([("max", self.max)]) {
            if value < low || value.is_nan() {
                let problem = format!("{value} is below {low}, the percentile before it");
                return invalid(format!("{field}.{}", key(name)), problem);
            }
            low = value;
        }
        Ok(())
    }
}

/// Returns the key of a percentile in a document, such as `p99_9` for the name `99.90`. The key of
/// the name `max` is `max`.
fn key(name: &str) -> String {
    match name.split_once('.') {
        None => name.into(),
        Some((whole, part)) => match part.trim_end_matches('0') {
            "" => format!("p{whole}"),
            part => format!("p{whole}_{part}"),
        },
    }
}

/// A histogram of latencies. The bins have equal widths on a logarithmic scale.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogHistogram {
    /// Lower end of each bin, us. Empty bins are left out.
    pub from_us: Vec<f64>,
    pub counts: Vec<u64>,
}

/// `FIRST_NS` is the upper end of the first bin, ns. `RATIO` is the ratio of the upper ends of
/// neighbouring bins. Each bin is 5 % wide, and 330 bins reach from 100 ns to 1 s.
const FIRST_NS: u64 = 100;
const RATIO: f64 = 1.05;

impl LogHistogram {
    pub fn new(latencies: &Latencies) -> Self {
        let mut histogram = Self::default();
        let mut from_ns = latencies.min_ns();
        for (end_ns, count) in latencies.bins(FIRST_NS, RATIO) {
            if count > 0 {
                histogram.from_us.push(rounded(1e-3 * from_ns as f64));
                histogram.counts.push(count);
            }
            from_ns = end_ns.max(from_ns);
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_of_slower_ios_falls_from_one_to_the_slowest() {
        let latency = IoLatencyDocument {
            min: 1.0,
            mean: 5.0,
            stddev: 0.0,
            p1: 2.0,
            p5: 3.0,
            p10: 4.0,
            p50: 5.0,
            p90: 6.0,
            p95: 7.0,
            p99: 8.0,
            p99_9: 9.0,
            p99_99: 9.0,
            p99_999: 9.0,
            p99_9999: 9.0,
            max: 9.0,
        };
        let curve = latency.slower_than(200);
        // 0.1 % of 200 I/Os are less than one I/O, so the 99.9th percentile is left out.
        assert_eq!((curve[0], curve[8]), ((1.0, 1.0), (9.0, 0.005)));
        assert_eq!((curve.len(), curve[4]), (9, (5.0, 0.5)));
        assert!(curve.is_sorted_by(|a, b| a.0 <= b.0 && a.1 > b.1), "{curve:?}");
    }
}
