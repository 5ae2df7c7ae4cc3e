//! Finds the phases of a run in its bandwidth over time.
//!
//! A run is partitioned into intervals of even bandwidth. The partition minimises the sum of
//! squared differences from the mean of each interval, plus a price for each cut between two
//! intervals. This is the optimal partition of Jackson et al. (2005), by dynamic programming. The
//! price of a cut is `3 s^2 ln n`, as in Schwarz's criterion (BIC) for a change with free position
//! and level; `s` is the noise between samples, and `n` the number of samples. The noise is
//! computed from the median of the differences between neighbouring samples, because a few jumps
//! between phases do not change the median. Neighbouring intervals whose bandwidths differ by less
//! than a tenth are one phase, however small the noise is. A run that alternates faster than the
//! sampling counts as even.
//!
//! Example: ten samples of 100 GB/s and ten of 20 GB/s are two intervals. They are still two with 5
//! GB/s of noise in each sample. 100 and 105 GB/s are one interval.

use crate::{demand::Phase, statistics};
use std::ops::Range;

/// Maximum number of intervals of even bandwidth. If a run has more intervals, the most similar
/// neighbours are merged.
pub const INTERVALS_MAX: usize = 16;

/// Neighbouring intervals are merged if the difference of their bandwidths is less than this
/// fraction of the larger bandwidth.
const ALIKE: f64 = 0.1;

/// The least noise between samples that is assumed, as a fraction of the mean bandwidth. Counters
/// vary by this fraction even under an even load.
const NOISE_LEAST: f64 = 0.02;

/// The median of the absolute difference of two draws from a normal distribution with standard
/// deviation 1.
const MEDIAN_DIFFERENCE: f64 = 0.953_873;

/// The factor in the price of a cut between two intervals: the price is this factor, times the
/// variance of the noise, times the logarithm of the number of samples.
const PRICE: f64 = 3.0;

/// The mean bandwidth over a span of time: one sample of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BandwidthReading {
    /// The duration of the span, s; above 0.
    pub span_s: f64,
    /// The mean bandwidth, GB/s.
    pub gbps: f64,
}

/// An interval of even bandwidth: consecutive readings.
#[derive(Clone, Debug, PartialEq)]
pub struct SteadyInterval {
    /// The readings of the interval, as a range of indices.
    pub readings: Range<usize>,
    /// Total duration of the readings, s.
    pub span_s: f64,
    /// Mean bandwidth over the interval, GB/s.
    pub gbps: f64,
}

/// Sums over the first n readings, for each n: of time, of bandwidth times time, and of squared
/// bandwidth times time. The sum over an interval is the difference of the sums at its two ends.
struct Sums {
    span: Vec<f64>,
    bytes: Vec<f64>,
    squares: Vec<f64>,
}

impl Sums {
    fn new(readings: &[BandwidthReading]) -> Self {
        let mut sums = Self { span: vec![0.0], bytes: vec![0.0], squares: vec![0.0] };
        for (at, BandwidthReading { span_s, gbps }) in readings.iter().enumerate() {
            sums.span.push(sums.span[at] + span_s);
            sums.bytes.push(sums.bytes[at] + span_s * gbps);
            sums.squares.push(sums.squares[at] + span_s * gbps * gbps);
        }
        sums
    }

    fn interval(&self, readings: Range<usize>) -> SteadyInterval {
        let span_s = self.span[readings.end] - self.span[readings.start];
        let gigabytes = self.bytes[readings.end] - self.bytes[readings.start];
        SteadyInterval { span_s, gbps: gigabytes / span_s, readings }
    }

    /// The sum of the squared differences between the bandwidths of `readings` and their mean,
    /// weighted by time: the cost of making `readings` one interval.
    fn cost(&self, readings: &Range<usize>) -> f64 {
        let of = |sums: &[f64]| sums[readings.end] - sums[readings.start];
        let (span, gigabytes, squares) = (of(&self.span), of(&self.bytes), of(&self.squares));
        (squares - gigabytes * gigabytes / span).max(0.0)
    }
}

/// Returns the intervals of even bandwidth in `readings`, in order and without gaps; empty if there
/// are no readings. The caller must leave out readings whose duration is 0 or whose bandwidth is
/// not a number.
pub fn steady_intervals(readings: &[BandwidthReading]) -> Vec<SteadyInterval> {
    if readings.is_empty() {
        return vec![];
    }
    let sums = Sums::new(readings);
    let mut ranges = partition(&sums, price(&sums, readings));
    merge(&sums, &mut ranges);
    ranges.into_iter().map(|range| sums.interval(range)).collect()
}

/// Returns the phases of a run: one phase for each of `intervals`. With fewer than two intervals
/// the bandwidth is even, so there are no phases.
pub fn phases(intervals: &[SteadyInterval]) -> Vec<Phase> {
    let whole: f64 = intervals.iter().map(|interval| interval.span_s).sum();
    if intervals.len() < 2 {
        return vec![];
    }
    let phase = |interval: &SteadyInterval| Phase {
        share_of_time: interval.span_s / whole,
        bandwidth_gbps: interval.gbps,
    };
    intervals.iter().map(phase).collect()
}

/// Returns the price of a cut between two intervals, in the unit of [`Sums::cost`].
fn price(sums: &Sums, readings: &[BandwidthReading]) -> f64 {
    let count = readings.len();
    let all = sums.interval(0..count);
    let differences = readings.windows(2).map(|pair| (pair[1].gbps - pair[0].gbps).abs()).collect();
    // With an even number of differences, the lower of the two middle ones is taken: the upper one
    // may be a jump between phases.
    let median = statistics::nearest_rank(&statistics::sorted(differences), 0.5).unwrap_or(0.0);
    let noise = (median / MEDIAN_DIFFERENCE).max(NOISE_LEAST * all.gbps);
    PRICE * noise * noise * libm::log(count.max(2) as f64) * all.span_s / count as f64
}

/// Returns the partition into intervals that has the lowest cost: the squared differences within
/// the intervals, plus `price` for each cut.
fn partition(sums: &Sums, price: f64) -> Vec<Range<usize>> {
    let count = sums.span.len() - 1;
    // Entry n is for the first n readings: the minimal cost of a partition, and the index of the
    // reading at which the partition's last interval starts. The cost of no readings is `-price`,
    // because there is no cut before the first interval.
    let mut least = vec![(-price, 0)];
    for end in 1..=count {
        let of = |start: usize| (least[start].0 + price + sums.cost(&(start..end)), start);
        let best = (0..end).map(of).min_by(|a, b| a.0.total_cmp(&b.0));
        least.push(best.unwrap_or((0.0, 0)));
    }
    let mut ranges = vec![];
    let mut end = count;
    while end > 0 {
        let start = least[end].1;
        ranges.push(start..end);
        end = start;
    }
    ranges.reverse();
    ranges
}

/// Merges neighbouring intervals of similar bandwidth ([`ALIKE`]). While more than
/// [`INTERVALS_MAX`] intervals are left, merges the neighbours that add the least cost.
fn merge(sums: &Sums, ranges: &mut Vec<Range<usize>>) {
    loop {
        let joined = |pair: &[Range<usize>]| pair[0].start..pair[1].end;
        let added = |pair: &[Range<usize>]| {
            sums.cost(&joined(pair)) - sums.cost(&pair[0]) - sums.cost(&pair[1])
        };
        let is_alike = |pair: &[Range<usize>]| {
            let [a, b] = [0, 1].map(|at| sums.interval(pair[at].clone()).gbps);
            (a - b).abs() < ALIKE * a.max(b)
        };
        let too_many = ranges.len() > INTERVALS_MAX;
        let pairs = ranges.windows(2).enumerate();
        let candidates = pairs.filter(|(_, pair)| too_many || is_alike(pair));
        let least = candidates.min_by(|(_, a), (_, b)| added(a).total_cmp(&added(b)));
        let Some((at, pair)) = least else { return };
        let both = joined(pair);
        ranges.splice(at..at + 2, [both]);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    /// Creates readings of 200 ms each.
    fn readings(gbps: impl IntoIterator<Item = f64>) -> Vec<BandwidthReading> {
        gbps.into_iter().map(|gbps| BandwidthReading { span_s: 0.2, gbps }).collect()
    }

    fn ranges(gbps: impl IntoIterator<Item = f64>) -> Vec<(usize, usize)> {
        let found = steady_intervals(&readings(gbps)).into_iter();
        found.map(|interval| (interval.readings.start, interval.readings.end)).collect()
    }

    fn level(count: usize, gbps: f64) -> Vec<f64> {
        vec![gbps; count]
    }

    /// Returns deterministic noise between -1 and 1, by a hash that spreads bits.
    fn noise(at: usize, seed: u64) -> f64 {
        let mut bits = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    #[test]
    fn steps_are_found_where_they_are() {
        assert_eq!(ranges(level(30, 100.0)), [(0, 30)]);
        assert_eq!(ranges([level(10, 100.0), level(10, 20.0)].concat()), [(0, 10), (10, 20)]);
        let three = [level(5, 1.0), level(40, 300.0), level(5, 150.0)].concat();
        assert_eq!(ranges(three), [(0, 5), (5, 45), (45, 50)]);
        assert_eq!(ranges([level(20, 100.0), level(20, 105.0)].concat()), [(0, 40)], "alike");
        assert_eq!(ranges([7.0]), [(0, 1)]);
        assert_eq!(ranges(level(8, 0.0)), [(0, 8)]);
        assert!(steady_intervals(&[]).is_empty());
    }

    #[test]
    fn a_cycle_keeps_the_order_of_its_phases() {
        let cycle = [level(10, 400.0), level(10, 50.0)].concat();
        assert_eq!(ranges(cycle.repeat(3)).len(), 6);
        let many = ranges(cycle.repeat(30));
        assert!(many.len() <= INTERVALS_MAX, "{many:?}");
    }

    #[test]
    fn to_and_fro_faster_than_samples_is_even() {
        assert_eq!(ranges([100.0, 20.0].repeat(30)), [(0, 60)]);
    }

    #[test]
    fn noise_is_no_phase_and_hides_none() {
        for seed in 0..200 {
            let noisy = |at: usize| if at < 60 { 100.0 } else { 60.0 } + 8.0 * noise(at, seed);
            let found = steady_intervals(&readings((0..120).map(noisy)));
            assert_eq!(found.len(), 2, "{seed}: {found:?}");
            assert!(found[0].readings.end.abs_diff(60) <= 1, "{seed}: {found:?}");
            let even = ranges((0..120).map(|at| 80.0 + 8.0 * noise(at, seed)));
            assert_eq!(even, [(0, 120)], "{seed}");
        }
    }

    #[test]
    fn long_readings_weigh_more() {
        let readings = [
            BandwidthReading { span_s: 3.0, gbps: 100.0 },
            BandwidthReading { span_s: 1.0, gbps: 20.0 },
            BandwidthReading { span_s: 1.0, gbps: 20.0 },
        ];
        let found = phases(&steady_intervals(&readings));
        let expected = [(0.6, 100.0), (0.4, 20.0)];
        let expected =
            expected.map(|(share_of_time, gbps)| Phase { share_of_time, bandwidth_gbps: gbps });
        assert_eq!(found, expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Asserts for any readings that the intervals cover all of them, and that there are at
        /// most [`INTERVALS_MAX`] intervals.
        #[test]
        fn stretches_are_the_whole(
            all in prop::collection::vec((0.001f64..10.0, 0.0f64..1000.0), 1..80),
        ) {
            let reading = |&(span_s, gbps): &(f64, f64)| BandwidthReading { span_s, gbps };
            let readings: Vec<BandwidthReading> = all.iter().map(reading).collect();
            let found = steady_intervals(&readings);
            prop_assert!((1..=INTERVALS_MAX).contains(&found.len()));
            let mut next = 0;
            for interval in &found {
                prop_assert_eq!(interval.readings.start, next);
                next = interval.readings.end;
            }
            prop_assert_eq!(next, readings.len());
            let bytes = |parts: &[(f64, f64)]| parts.iter().map(|(s, gbps)| s * gbps).sum::<f64>();
            let parts: Vec<(f64, f64)> = found.iter().map(|it| (it.span_s, it.gbps)).collect();
            prop_assert!((bytes(&parts) - bytes(&all)).abs() < 1e-6 * (1.0 + bytes(&all)));
            let phases = phases(&found);
            let shares: f64 = phases.iter().map(|phase| phase.share_of_time).sum();
            prop_assert!(phases.is_empty() || (shares - 1.0).abs() < 1e-9);
        }

        /// Asserts that the intervals stay the same if all bandwidths are multiplied by a factor,
        /// as by a change of the unit.
        #[test]
        fn a_scale_changes_nothing(
            all in prop::collection::vec(0.0f64..1000.0, 1..60), power in -6i32..6,
        ) {
            // The scale is a power of two, so that the multiplication does not round.
            let scale = f64::from(1 << (power + 6)) / 64.0;
            let scaled = ranges(all.iter().map(|gbps| gbps * scale));
            prop_assert_eq!(ranges(all.iter().copied()), scaled);
        }
    }
}
