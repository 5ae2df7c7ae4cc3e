//! Finds the knee of a latency curve. The next load to measure is chosen so that few measurements
//! give the curve.
//!
//! The *knee* is the load beyond which 1 % more bandwidth costs more than 1 % more latency: the
//! maximum of bandwidth divided by latency (Kleinrock, "Power and deterministic rules of thumb",
//! 1979). This definition has no threshold, and points that are measured beyond saturation do not
//! change the knee. A queue with the idle latency L and the loaded latency `L / (1 - load)` has its
//! knee at half of the bandwidth:
//!
//! ```text
//! power = load (1 - load) / L,   largest at load = 1/2
//! ```
//!
//! The pause of the loading threads after each group of lines sets the load. The bandwidth of the
//! threads is about `1 / (a + b x pause)`, with two constants a and b. Its reciprocal is linear in
//! the pause, so the pause for a bandwidth is interpolated linearly in the reciprocal of the
//! bandwidth.

/// The fraction by which power (bandwidth divided by latency) must fall beyond the knee to confirm
/// the knee.
const POWER_FALLS: f64 = 0.05;

/// A point is measured between two measured pauses only if these differ by more than this time, ns,
/// and by more than the fraction [`PAUSE_STEP`] of the longer pause. A group of lines takes 100 ns
/// or more, so a change of the pause by 4 ns changes the bandwidth by at most 4 %.
const PAUSE_STEP_NS: f64 = 4.0;

/// Minimum difference of two pauses between which a point is measured, as a fraction of the longer
/// pause; see [`PAUSE_STEP_NS`].
const PAUSE_STEP: f64 = 0.05;

/// A measured point of the curve: bandwidth and latency under one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loaded {
    /// The pause of each loading thread after each group of lines, ns.
    pub pause_ns: f64,
    /// The bandwidth under this load, GB/s.
    pub bandwidth_gbps: f64,
    /// Latency under this load, ns.
    pub latency_ns: f64,
}

impl Loaded {
    /// Returns the power (Kleinrock): bandwidth divided by latency, which is highest at the knee.
    fn power(&self) -> f64 {
        self.bandwidth_gbps / self.latency_ns
    }

    fn is_one(&self) -> bool {
        let fine = |value: f64| value.is_finite() && value >= 0.0;
        fine(self.pause_ns)
            && fine(self.bandwidth_gbps)
            && fine(self.latency_ns - f64::MIN_POSITIVE)
    }
}

/// The required distances between the measured points of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resolution {
    /// The longest pause, at which there is almost no load, ns. Default: 8000.
    pub pause_max_ns: f64,
    /// The largest difference in bandwidth of neighbouring points, as a fraction of the largest
    /// bandwidth. Default: 0.15.
    pub apart: f64,
    /// The largest difference in bandwidth between the knee and a neighbouring point, as a fraction
    /// of the largest bandwidth. Default: 0.04.
    pub apart_at_knee: f64,
    /// The largest ratio of the latencies of neighbouring points. Default: 1.25.
    pub latency_ratio: f64,
    /// Maximum number of points. Default: 20.
    pub points_max: usize,
}

impl Default for Resolution {
    fn default() -> Self {
        Self {
            pause_max_ns: 8000.0,
            apart: 0.15,
            apart_at_knee: 0.04,
            latency_ratio: 1.25,
            points_max: 20,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Knee {
    /// The position of the knee.
    At {
        bandwidth_gbps: f64,
        /// Latency at the knee, ns.
        latency_ns: f64,
        /// The bandwidths of the neighbouring points, GB/s: the knee lies between them.
        between_gbps: (f64, f64),
    },
    /// The curve has no knee up to the largest load: the loading threads do not saturate the
    /// memory.
    Beyond {
        /// The largest bandwidth, GB/s.
        bandwidth_gbps: f64,
        /// Latency at the largest bandwidth, ns.
        latency_ns: f64,
    },
}

/// Returns the pause to measure next, ns: first no pause, then the longest pause, then a pause in
/// the largest gap between two points. Returns `None` if the points are as close as `resolution`
/// requires, if the pauses of the points are too similar to measure between them, or if `points`
/// has `points_max` points. An invalid point counts as measured, but its values are ignored.
pub fn next(points: &[Loaded], resolution: &Resolution) -> Option<f64> {
    let rising = by_load(points);
    if points.len() >= resolution.points_max {
        return None;
    }
    let has = |pause: f64| points.iter().any(|point| point.pause_ns == pause);
    if let Some(end) = [0.0, resolution.pause_max_ns].into_iter().find(|pause| !has(*pause)) {
        return Some(end);
    }
    let most = rising.iter().map(|point| point.bandwidth_gbps).fold(0.0, f64::max);
    let best = strongest(&rising)?;
    // Returns the larger of the gap in bandwidth and the gap in latency between the point with the
    // index `at` and the next point, each as a multiple of the allowed gap.
    let excess = |at: usize| {
        let (a, b) = (rising[at], rising[at + 1]);
        let at_knee = at == best || at + 1 == best;
        let may = if at_knee { resolution.apart_at_knee } else { resolution.apart };
        let apart = (b.bandwidth_gbps - a.bandwidth_gbps).abs() / most / may;
        let slower = (b.latency_ns / a.latency_ns).ln().abs() / resolution.latency_ratio.ln();
        apart.max(slower)
    };
    let pairs = (0..rising.len().saturating_sub(1)).map(|at| (at, excess(at)));
    let far = pairs.filter(|(at, excess)| *excess > 1.0 && can_part(rising[*at], rising[at + 1]));
    let (at, _) = far.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(middle(rising[at], rising[at + 1]))
}

/// Returns the knee of the curve through `points`; `None` if no point has a bandwidth above 0.
pub fn knee(points: &[Loaded]) -> Option<Knee> {
    let rising = by_load(points);
    let best = strongest(&rising)?;
    let Loaded { bandwidth_gbps, latency_ns, .. } = rising[best];
    // The power (bandwidth / latency) must fall by more than `POWER_FALLS` beyond its maximum. A
    // smaller fall may be noise.
    let falls = |point: &Loaded| point.power() < (1.0 - POWER_FALLS) * rising[best].power();
    if !rising[best + 1..].iter().any(falls) {
        return Some(Knee::Beyond { bandwidth_gbps, latency_ns });
    }
    let at = |at: usize| rising[at].bandwidth_gbps;
    let between_gbps = (at(best.saturating_sub(1)), at((best + 1).min(rising.len() - 1)));
    Some(Knee::At { bandwidth_gbps, latency_ns, between_gbps })
}

/// Returns the pause with which the threads reach a bandwidth of `target_gbps`, ns. The pause is
/// interpolated between the neighbouring points with less and with more bandwidth. If no point has
/// less bandwidth, the pause is extrapolated from the two points with the least load. Returns
/// `None` if no point has this bandwidth or more, if there are fewer than two points, or if
/// bandwidth does not rise between the two points.
pub fn pause_for(points: &[Loaded], target_gbps: f64) -> Option<f64> {
    let rising: Vec<Loaded> =
        by_load(points).into_iter().filter(|point| point.bandwidth_gbps > 0.0).collect();
    let above = rising.iter().position(|point| point.bandwidth_gbps >= target_gbps)?;
    let at = above.saturating_sub(1).min(rising.len().checked_sub(2)?);
    let pause = pause_between(rising[at], rising[at + 1], target_gbps)?;
    Some(pause.clamp(0.0, 1e9))
}

/// Returns the valid points, sorted by their load: the longest pause first.
fn by_load(points: &[Loaded]) -> Vec<Loaded> {
    let mut rising: Vec<Loaded> = points.iter().filter(|point| point.is_one()).copied().collect();
    rising.sort_by(|a, b| {
        b.pause_ns.total_cmp(&a.pause_ns).then(a.bandwidth_gbps.total_cmp(&b.bandwidth_gbps))
    });
    rising
}

/// Returns the index of the point with the largest power (bandwidth divided by latency); `None` if
/// no point has a bandwidth above 0.
fn strongest(rising: &[Loaded]) -> Option<usize> {
    let all = rising.iter().enumerate().filter(|(_, point)| point.bandwidth_gbps > 0.0);
    all.max_by(|a, b| a.1.power().total_cmp(&b.1.power())).map(|(at, _)| at)
}

/// True if the pauses of two points differ enough to measure a point between them.
fn can_part(a: Loaded, b: Loaded) -> bool {
    a.pause_ns - b.pause_ns > PAUSE_STEP_NS.max(PAUSE_STEP * a.pause_ns)
}

/// Returns the pause to measure between two points: the pause for the mean of their bandwidths, or
/// the geometric mean of their pauses if the bandwidth does not rise.
fn middle(a: Loaded, b: Loaded) -> f64 {
    let half = f64::midpoint(a.bandwidth_gbps, b.bandwidth_gbps);
    let (longest, shortest) = (a.pause_ns, b.pause_ns);
    // The new pause keeps a distance from both measured pauses, so that the three points differ by
    // more than noise.
    let margin = 0.1 * (longest - shortest);
    let by_bandwidth = pause_between(a, b, half);
    let by_pause = ((longest + 1.0) * (shortest + 1.0)).sqrt() - 1.0;
    by_bandwidth.unwrap_or(by_pause).clamp(shortest + margin, longest - margin)
}

/// Returns the pause for a bandwidth of `gbps`, interpolated between the points `a` and `b`,
/// linearly in the reciprocal of the bandwidth. Returns `None` if the bandwidth does not rise from
/// `a` to `b`.
fn pause_between(a: Loaded, b: Loaded, gbps: f64) -> Option<f64> {
    let slope = 1.0 / b.bandwidth_gbps - 1.0 / a.bandwidth_gbps;
    let pause =
        a.pause_ns + (b.pause_ns - a.pause_ns) * (1.0 / gbps - 1.0 / a.bandwidth_gbps) / slope;
    (slope < 0.0 && pause.is_finite()).then_some(pause)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use interleaf_model::{
        curve::{Curve, CurvePoint},
        format::curve_csv,
        provenance::Figure,
    };
    use proptest::prelude::*;

    /// Bytes in flight of all threads: 64 threads with groups of 32 lines of 64 bytes.
    const GROUPS_BYTES: f64 = 64.0 * 32.0 * 64.0;

    /// Returns a simulated measurement on a tier with `curve`: each thread requests a group of
    /// lines, waits for it, pauses, and requests the next group.
    fn of_curve(curve: &Curve) -> impl Fn(f64) -> Loaded + '_ {
        |pause_ns| {
            let flow = curve.response().with_pause(GROUPS_BYTES, pause_ns);
            Loaded { pause_ns, bandwidth_gbps: flow.bandwidth_gbps, latency_ns: flow.latency_ns }
        }
    }

    /// Returns a curve through 995 points of a formula. `latency_ns` gives the latency at a load,
    /// which is a fraction of `most_gbps`.
    fn formula(most_gbps: f64, latency_ns: impl Fn(f64) -> f64) -> Curve {
        let point = |step: i32| {
            let load = f64::from(step) / 1000.0;
            let figure = Figure::assumed("a formula");
            CurvePoint { bandwidth_gbps: load * most_gbps, latency_ns: latency_ns(load), figure }
        };
        Curve::new((0..995).map(point).collect()).unwrap()
    }

    /// Measures points until `next` returns no further pause.
    fn all(measure: impl Fn(f64) -> Loaded, resolution: &Resolution) -> Vec<Loaded> {
        let mut points = vec![];
        while let Some(pause) = next(&points, resolution) {
            assert!((0.0..=resolution.pause_max_ns).contains(&pause), "{pause}");
            points.push(measure(pause));
            assert!(points.len() <= resolution.points_max, "{points:?}");
        }
        points
    }

    /// Returns the bandwidth at the knee, GB/s, found by an exhaustive search over many loads.
    fn true_knee(curve: &Curve) -> f64 {
        let flow = |step: i32| curve.response().at(200.0 * f64::from(step));
        let strength = |step: &i32| flow(*step).bandwidth_gbps / flow(*step).latency_ns;
        let best = (1..20_000).max_by(|a, b| strength(a).total_cmp(&strength(b))).unwrap();
        flow(best).bandwidth_gbps
    }

    #[test]
    fn queues_bend_where_theory_says() {
        // Two queues with random arrivals. The first queue has random service times (M/M/1), and
        // its knee at half of the bandwidth. The second queue has a constant service time (M/D/1):
        // its latency is 1 + load / 2(1 - load) times the idle latency, and its power is largest at
        // a load of 2 - sqrt 2. The knee that is found must be within 5 GB/s of these loads.
        let random = formula(100.0, |load| 100.0 / (1.0 - load));
        let even = formula(100.0, |load| 100.0 * (1.0 + load / 2.0 / (1.0 - load)));
        for (curve, at) in [(random, 50.0), (even, 100.0 * (2.0 - 2_f64.sqrt()))] {
            let points = all(of_curve(&curve), &Resolution::default());
            let Some(Knee::At { bandwidth_gbps, between_gbps, .. }) = knee(&points) else {
                panic!("{points:?}")
            };
            assert!((bandwidth_gbps - at).abs() < 5.0, "{bandwidth_gbps} for {at}: {points:?}");
            assert!(between_gbps.0 <= at && at <= between_gbps.1, "{between_gbps:?} {at}");
        }
    }

    #[test]
    fn recorded_curves_bend_where_their_points_say() {
        let texts = [
            include_str!("../../../platforms/xeon6-cz122/dram.csv"),
            include_str!("../../../platforms/xeon6-cz122/cxl.csv"),
            include_str!("../../../platforms/gnr120-cz122/dram.csv"),
            include_str!("../../../platforms/gnr120-cz122/cxl.csv"),
        ];
        for text in texts {
            for of_mix in curve_csv::parse("a.csv", text, &[]).unwrap().iter() {
                let curve = &of_mix.curve;
                let points = all(of_curve(curve), &Resolution::default());
                let Some(Knee::At { bandwidth_gbps, .. }) = knee(&points) else {
                    panic!("{points:?}")
                };
                let (at, most) = (true_knee(curve), curve.max_bandwidth_gbps());
                let off = (bandwidth_gbps - at).abs() / most;
                assert!(off < 0.05, "{}: {bandwidth_gbps} for {at} of {most}", of_mix.mix);
            }
        }
    }

    #[test]
    fn a_memory_that_is_not_saturated_has_no_knee_yet() {
        let measure = |pause_ns: f64| {
            let bandwidth_gbps = 2048.0 / (200.0 + pause_ns);
            Loaded { pause_ns, bandwidth_gbps, latency_ns: 130.0 + bandwidth_gbps }
        };
        let points = all(measure, &Resolution::default());
        let beyond = Knee::Beyond { bandwidth_gbps: 10.24, latency_ns: 140.24 };
        assert_eq!(knee(&points), Some(beyond));
        assert!(points.len() <= 15, "{}", points.len());
        assert_eq!((knee(&[]), knee(&[measure(f64::NAN)])), (None, None));
    }

    #[test]
    fn points_have_the_resolution() {
        let curve = formula(100.0, |load| 100.0 / (1.0 - load));
        let resolution = Resolution { points_max: 100, ..Resolution::default() };
        let points = by_load(&all(of_curve(&curve), &resolution));
        let most = points.iter().map(|point| point.bandwidth_gbps).fold(0.0, f64::max);
        for pair in points.windows(2) {
            assert!(pair[1].bandwidth_gbps - pair[0].bandwidth_gbps <= 0.15 * most, "{points:?}");
            assert!(pair[1].latency_ns <= 1.25 * pair[0].latency_ns, "{points:?}");
        }
        assert!(points.len() < 30, "{}", points.len());
    }

    #[test]
    fn a_target_is_reached() {
        let curve = formula(100.0, |load| 100.0 / (1.0 - load));
        let measure = of_curve(&curve);
        let mut points = vec![measure(0.0), measure(8000.0)];
        for _ in 0..6 {
            let pause = pause_for(&points, 60.0).unwrap();
            points.push(measure(pause));
        }
        let reached = points.last().unwrap().bandwidth_gbps;
        assert!((reached - 60.0).abs() < 0.6, "{reached}");
        assert_eq!(pause_for(&points, 100.0), None, "more than there is");
        assert_eq!(pause_for(&[], 1.0), None);
    }

    proptest! {
        #[test]
        fn noise_neither_runs_away_nor_hides_the_knee(
            noise in prop::collection::vec(-0.02..0.02_f64, 100), most in 5.0..400.0_f64,
        ) {
            let curve = formula(most, |load| 100.0 / (1.0 - load));
            let exact = of_curve(&curve);
            let count = std::cell::Cell::new(0);
            let measure = |pause_ns: f64| {
                count.set(count.get() + 1);
                let mut point = exact(pause_ns);
                point.latency_ns *= 1.0 + noise[count.get() % 100];
                point.bandwidth_gbps *= 1.0 + noise[(count.get() + 50) % 100] / 2.0;
                point
            };
            // If the maximum bandwidth is only a few GB/s, [`GROUPS_BYTES`] in flight load the tier
            // even at the longest default pause. This test therefore sets a longer maximum pause.
            let resolution = Resolution { pause_max_ns: 1e6, ..Resolution::default() };
            let points = all(measure, &resolution);
            let found = knee(&points);
            let Some(Knee::At { bandwidth_gbps, .. }) = found else { panic!("{found:?}") };
            prop_assert!((bandwidth_gbps / most - 0.5).abs() < 0.2, "{found:?} of {most}");
        }

        #[test]
        fn any_points_are_accepted(
            points in prop::collection::vec((0.0..9e3_f64, -1.0..1e3_f64, -1.0..1e4_f64), 0..20),
            target in -1.0..1e3_f64,
        ) {
            let points: Vec<Loaded> = points.into_iter()
                .map(|(pause_ns, bandwidth_gbps, latency_ns)| {
                    Loaded { pause_ns, bandwidth_gbps, latency_ns }
                })
                .collect();
            let pause = next(&points, &Resolution::default());
            prop_assert!(pause.is_none_or(|pause| (0.0..=9e3).contains(&pause)), "{pause:?}");
            let _ = (knee(&points), pause_for(&points, target));
        }
    }
}
