//! Miss curves: the bytes that a drive transfers in one pass of a program, as a function of the
//! budget of DRAM.
//!
//! A curve comes from a trace, whose sampled blocks are simulated in a scaled-down cache
//! ([`crate::shards`]), from the traffic of measured runs, or from both ([`crate::pager_curve`]).
//! Traffic never rises with the budget, and is 0 once the footprint fits. Between two points, the
//! traffic is interpolated linearly.

use crate::{
    access::{BlockTraffic, Trace},
    replacement::Replacement,
    shards::Sample,
};

/// Bytes that a drive transfers in one pass of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    pub read_bytes: f64,
    pub written_bytes: f64,
}

impl Traffic {
    /// Bytes read and written together.
    pub fn bytes(self) -> f64 {
        self.read_bytes + self.written_bytes
    }

    /// The traffic, multiplied by `factor`.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { read_bytes: self.read_bytes * factor, written_bytes: self.written_bytes * factor }
    }

    fn between(self, other: Self, share: f64) -> Self {
        let mix = |a: f64, b: f64| a + share * (b - a);
        Self {
            read_bytes: mix(self.read_bytes, other.read_bytes),
            written_bytes: mix(self.written_bytes, other.written_bytes),
        }
    }
}

/// A point of a miss curve: the traffic of one pass of the program over its data, with a budget of
/// `budget_bytes`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub budget_bytes: u64,
    pub traffic: Traffic,
}

/// The traffic of a pass as a function of the budget, up to the footprint.
#[derive(Clone, Debug, PartialEq)]
pub struct MissCurve {
    footprint_bytes: u64,
    /// The points in ascending order of the budget. The last point is at the footprint and has no
    /// traffic.
    points: Vec<Point>,
}

impl MissCurve {
    /// Simulates a pass with the replacement `policy` at `steps` budgets up to the footprint, with
    /// a sample of about `sample` blocks.
    pub fn of_trace(trace: &Trace, policy: Replacement, steps: u32, sample: usize) -> Self {
        let distinct = trace.distinct_blocks();
        let footprint_bytes = distinct as u64 * trace.block_bytes;
        let sample = Sample::new(&trace.touches, distinct, sample);
        let bytes = trace.block_bytes as f64 / sample.rate;
        let blocks = distinct as f64 * sample.rate;
        let point = |step: u32| {
            let share = f64::from(step) / f64::from(steps.max(1));
            let BlockTraffic { read, written } =
                policy.carried(&sample.touches, (share * blocks).round() as usize);
            let traffic =
                Traffic { read_bytes: read as f64 * bytes, written_bytes: written as f64 * bytes };
            Point { budget_bytes: (share * footprint_bytes as f64) as u64, traffic }
        };
        Self::new(footprint_bytes, (1..steps).map(point).collect())
    }

    /// Returns the curve through measured points. Below the smallest budget, the curve extends the
    /// line through the two points with the smallest budgets; one of them may be the footprint.
    pub fn of_points(footprint_bytes: u64, points: Vec<Point>) -> Self {
        let mut curve = Self::new(footprint_bytes, points);
        if let [first, second, ..] = curve.points[..] {
            let run = (second.budget_bytes - first.budget_bytes).max(1) as f64;
            let share = -(first.budget_bytes as f64) / run;
            let traffic = first.traffic.between(second.traffic, share);
            if first.budget_bytes > 0 {
                curve.points.insert(0, Point { budget_bytes: 0, traffic });
            }
        }
        curve
    }

    /// Returns this curve with the traffic at each budget multiplied by `factor`.
    #[must_use]
    pub fn with_traffic_times(mut self, factor: f64) -> Self {
        for Point { traffic, .. } in &mut self.points {
            *traffic = traffic.times(factor);
        }
        self
    }

    fn new(footprint_bytes: u64, mut points: Vec<Point>) -> Self {
        points.retain(|point| point.budget_bytes < footprint_bytes);
        points.push(Point { budget_bytes: footprint_bytes, traffic: Traffic::default() });
        points.sort_by_key(|point| point.budget_bytes);
        points.dedup_by_key(|point| point.budget_bytes);
        let mut least = Traffic { read_bytes: f64::INFINITY, written_bytes: f64::INFINITY };
        for Point { traffic, .. } in &mut points {
            least.read_bytes = least.read_bytes.min(traffic.read_bytes);
            least.written_bytes = least.written_bytes.min(traffic.written_bytes);
            *traffic = least;
        }
        Self { footprint_bytes, points }
    }

    /// The memory that the pass touches, bytes.
    pub fn footprint_bytes(&self) -> u64 {
        self.footprint_bytes
    }

    /// The points, in ascending order of the budget.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns the traffic of a pass with a budget of `budget_bytes`.
    pub fn at(&self, budget_bytes: u64) -> Traffic {
        let after = self.points.partition_point(|point| point.budget_bytes <= budget_bytes);
        match (after.checked_sub(1).map(|at| self.points[at]), self.points.get(after)) {
            (Some(before), Some(after)) => {
                let run = (after.budget_bytes - before.budget_bytes) as f64;
                let share = (budget_bytes - before.budget_bytes) as f64 / run;
                before.traffic.between(after.traffic, share)
            }
            (Some(last), None) => last.traffic,
            (None, first) => first.map_or(Traffic::default(), |first| first.traffic),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Touch;
    use proptest::prelude::*;

    const BLOCK: u64 = 65536;

    fn trace(blocks: impl IntoIterator<Item = u32>) -> Trace {
        let touch = |block| Touch { block, offset: 0, is_write: block % 2 == 0 };
        Trace { block_bytes: BLOCK, touches: blocks.into_iter().map(touch).collect() }
    }

    #[test]
    fn a_sweep_reads_what_does_not_fit() {
        let sweep = trace(0..4000);
        let curve = MissCurve::of_trace(&sweep, Replacement::Optimal, 16, 1000);
        assert_eq!(curve.footprint_bytes(), 4000 * BLOCK);
        for eighth in 1..8 {
            let missing = (8 - eighth) as f64 / 8.0;
            let found = curve.at(eighth * 500 * BLOCK).read_bytes / (4000 * BLOCK) as f64;
            assert!((found - missing).abs() < 0.03, "{eighth}: {found} and {missing}");
        }
        assert_eq!(curve.at(4000 * BLOCK), Traffic::default());
        assert_eq!(curve.at(u64::MAX), Traffic::default());
    }

    #[test]
    fn one_measured_point_gives_a_line_to_the_footprint() {
        let traffic = Traffic { read_bytes: 500.0, written_bytes: 100.0 };
        let curve = MissCurve::of_points(1000, vec![Point { budget_bytes: 500, traffic }]);
        assert_eq!(curve.at(750), Traffic { read_bytes: 250.0, written_bytes: 50.0 });
        assert_eq!(curve.at(250), Traffic { read_bytes: 750.0, written_bytes: 150.0 });
        assert_eq!(curve.at(1000), Traffic::default());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn traffic_never_rises_with_the_budget(
            blocks in prop::collection::vec(0_u32..60, 1..300),
            sample in 20_usize..80,
        ) {
            let trace = trace(blocks);
            for (_, policy) in Replacement::ALL {
                let curve = MissCurve::of_trace(&trace, policy, 8, sample);
                let all: Vec<Traffic> =
                    (0..=70).map(|blocks| curve.at(blocks * BLOCK)).collect();
                for pair in all.windows(2) {
                    prop_assert!(pair[1].read_bytes <= pair[0].read_bytes + 1e-6);
                    prop_assert!(pair[1].written_bytes <= pair[0].written_bytes + 1e-6);
                }
                prop_assert_eq!(curve.at(trace.footprint_bytes()), Traffic::default());
            }
        }
    }
}
