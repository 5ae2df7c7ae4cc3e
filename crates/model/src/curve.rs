//! Curves: loaded latency against bandwidth, for a tier and a traffic mix.
//!
//! The points of a curve are in the order of the offered load, not of the reached bandwidth: past
//! saturation a controller may have *less* bandwidth while the latency still rises, and the curve
//! bends back. The number of bytes in flight always rises with the load. By Little's law this
//! number is bandwidth times latency (1 GB/s times 1 ns is 1 byte):
//!
//! ```text
//! latency        .                 bandwidth
//!   ns          /                    GB/s      ______
//!              (   <- bends back              /      \____
//!             /                              /
//!   _________/                              /
//!   0     bandwidth  GB/s                   0     bytes in flight
//! ```
//!
//! A curve is therefore read as a function of the bytes in flight ([`Response`]). This function has
//! one value for each argument, on both sides of a bend, and saturation needs no special case: past
//! the last point the bandwidth stays constant, and the latency grows with the queue.
//!
//! Example: 128 cores with 48 outstanding lines of 64 bytes have 393 216 bytes in flight. On a tier
//! whose curve ends at fewer bytes in flight, with 556 GB/s, each line has a latency of 393 216 /
//! 556 = 707 ns.

use crate::{
    provenance::{Figure, Provenance},
    units::LINE_BYTES,
};

/// The highest valid bandwidth of a point, GB/s. A higher figure is a typing error, because no
/// memory has such a bandwidth.
pub const BANDWIDTH_LIMIT_GBPS: f64 = 1e6;

/// The highest valid latency of a point, ns: 1 s. A higher figure is a typing error, because no
/// memory is that slow.
pub const LATENCY_LIMIT_NS: f64 = 1e9;

/// The highest background traffic (of devices or of page migration) in the model, as a fraction of
/// a curve's maximum bandwidth. The remaining 5 % are left for programs, which would otherwise
/// stop.
pub const BACKGROUND_MAX: f64 = 0.95;

/// A point of a curve: the latency at one bandwidth.
#[derive(Clone, Debug, PartialEq)]
pub struct CurvePoint {
    /// Bandwidth of the tier, GB/s.
    pub bandwidth_gbps: f64,
    /// Latency of a cache line at this bandwidth, ns: from the miss in the core to the arrival of
    /// the data.
    pub latency_ns: f64,
    /// The provenance and the source of bandwidth and latency.
    pub figure: Figure,
}

impl CurvePoint {
    /// Bandwidth and latency of this point.
    pub const fn flow(&self) -> Flow {
        Flow { bandwidth_gbps: self.bandwidth_gbps, latency_ns: self.latency_ns }
    }

    /// Bytes in flight at this point, by Little's law.
    pub fn in_flight_bytes(&self) -> f64 {
        self.flow().in_flight_bytes()
    }
}

/// Loaded latency against bandwidth for one tier and one mix.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    points: Vec<CurvePoint>,
    response: Response,
}

/// The reason why points do not make a valid curve. Indices of points are 0-based.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CurveError {
    /// The curve has no points.
    #[error("a curve has at least one point")]
    Empty,
    /// A bandwidth is out of range.
    #[error("a bandwidth of {value:?} GB/s is not between 0 and {BANDWIDTH_LIMIT_GBPS}")]
    Bandwidth {
        /// The 0-based index of the point with this bandwidth.
        point: usize,
        /// The refused bandwidth of the point, GB/s.
        value: f64,
    },
    /// A latency is out of range.
    #[error("a latency of {value:?} ns is not above 0 and at most {LATENCY_LIMIT_NS}")]
    Latency {
        /// The 0-based index of the point with this latency.
        point: usize,
        /// The refused latency of the point, ns.
        value: f64,
    },
    /// No point has a bandwidth above 0.
    #[error("no point has a bandwidth above 0, so nothing says how much the tier carries")]
    NoBandwidth,
    /// The bytes in flight do not rise from one point to the next.
    #[error(
        "between {from} and {to} the bytes in flight (bandwidth x latency) do not rise, which \
         cannot be when the load does"
    )]
    LoadFalls {
        /// The 0-based index of the second of the two points.
        point: usize,
        /// The first of the two points, as text.
        from: String,
        /// The second of the two points, as text.
        to: String,
    },
}

impl CurveError {
    /// The remedy that error messages print: what to write instead.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Empty | Self::NoBandwidth => "add a point with what the tier carries at most",
            Self::Bandwidth { .. } => "write GB/s, that is 10^9 bytes a second",
            Self::Latency { .. } => "write ns, from the core's miss to its data",
            Self::LoadFalls { .. } => {
                "write the points in the order of offered load: bandwidth may fall, but then the \
                 latency must rise by more"
            }
        }
    }

    /// The 0-based index of the point that is wrong; `None` if the whole curve is wrong.
    pub const fn point(&self) -> Option<usize> {
        match self {
            Self::Empty | Self::NoBandwidth => None,
            Self::Bandwidth { point, .. }
            | Self::Latency { point, .. }
            | Self::LoadFalls { point, .. } => Some(*point),
        }
    }
}

impl Curve {
    /// Builds a curve through `points` in order of offered load.
    ///
    /// The latency of the first point is also the idle latency, even if the bandwidth of this point
    /// is above 0.
    ///
    /// # Errors
    ///
    /// If there are no points, a value is out of range, no bandwidth is above 0, or the bytes in
    /// flight do not rise from point to point.
    pub fn new(points: Vec<CurvePoint>) -> Result<Self, CurveError> {
        for (at, point) in points.iter().enumerate() {
            if !(0.0..=BANDWIDTH_LIMIT_GBPS).contains(&point.bandwidth_gbps) {
                return Err(CurveError::Bandwidth { point: at, value: point.bandwidth_gbps });
            }
            if !(point.latency_ns > 0.0 && point.latency_ns <= LATENCY_LIMIT_NS) {
                return Err(CurveError::Latency { point: at, value: point.latency_ns });
            }
        }
        if points.is_empty() {
            return Err(CurveError::Empty);
        }
        if points.iter().all(|point| point.bandwidth_gbps == 0.0) {
            return Err(CurveError::NoBandwidth);
        }
        for (at, pair) in points.windows(2).enumerate() {
            if !load_rises(pair[0].flow(), pair[1].flow()) {
                let text = |point: &CurvePoint| {
                    format!("{} GB/s at {} ns", point.bandwidth_gbps, point.latency_ns)
                };
                let (from, to) = (text(&pair[0]), text(&pair[1]));
                return Err(CurveError::LoadFalls { point: at + 1, from, to });
            }
        }
        let response =
            Response::through(points.iter().map(|point| (point.bandwidth_gbps, point.latency_ns)));
        Ok(Self { points, response })
    }

    /// Builds a curve through measured points, which may be noisy and in any order. Sorts the
    /// points by the bytes in flight. Leaves out as few points as possible so that the load rises
    /// from point to point ([`rising_subset`]). Returns the curve and the number of points left
    /// out.
    ///
    /// # Errors
    /// If `points` is empty, or if among the kept points a value is out of range or no bandwidth is
    /// above 0.
    pub fn from_measured(mut points: Vec<CurvePoint>) -> Result<(Self, usize), CurveError> {
        let given = points.len();
        points.sort_by(|a, b| {
            a.in_flight_bytes()
                .total_cmp(&b.in_flight_bytes())
                .then(a.latency_ns.total_cmp(&b.latency_ns))
        });
        let flows: Vec<Flow> = points.iter().map(CurvePoint::flow).collect();
        let kept: Vec<CurvePoint> =
            rising_subset(&flows).into_iter().map(|at| points[at].clone()).collect();
        let left_out = given - kept.len();
        Ok((Self::new(kept)?, left_out))
    }

    /// The points, in the order of offered load.
    pub fn points(&self) -> &[CurvePoint] {
        &self.points
    }

    /// Latency without load, ns: the latency of the first point.
    pub fn idle_latency_ns(&self) -> f64 {
        self.points[0].latency_ns
    }

    /// The maximum bandwidth, GB/s. The last point of a curve that bends back has less.
    pub fn max_bandwidth_gbps(&self) -> f64 {
        self.response.max_bandwidth_gbps()
    }

    /// Returns the curve with all bandwidths multiplied by `factor`.
    ///
    /// # Errors
    ///
    /// If a bandwidth is then out of range.
    pub fn scaled(&self, factor: f64) -> Result<Self, CurveError> {
        let point = |point: &CurvePoint| CurvePoint {
            bandwidth_gbps: factor * point.bandwidth_gbps,
            ..point.clone()
        };
        Self::new(self.points.iter().map(point).collect())
    }

    /// Returns the curve with all latencies multiplied by `factor`.
    ///
    /// # Errors
    ///
    /// If a latency is then out of range.
    pub fn slowed(&self, factor: f64) -> Result<Self, CurveError> {
        let point = |point: &CurvePoint| CurvePoint {
            latency_ns: factor * point.latency_ns,
            ..point.clone()
        };
        Self::new(self.points.iter().map(point).collect())
    }

    /// The weakest provenance of any point.
    pub fn provenance(&self) -> Provenance {
        self.points.iter().map(|point| point.figure.provenance).max().unwrap_or(Provenance::Assumed)
    }

    /// The curve as a function of the bytes in flight.
    pub const fn response(&self) -> &Response {
        &self.response
    }
}

/// Largest ratio of the bytes in flight at two neighbouring points of a blend
/// ([`Response::blend`]). Between two points the blend is interpolated linearly, which deviates
/// from the exact weighted mean of both curves. The deviation grows with the ratio.
const BLEND_STEP: f64 = 4.0;

/// Returns the rising numbers `all` (bytes in flight), and further numbers between two neighbours
/// whose ratio exceeds [`BLEND_STEP`]. The further numbers divide the interval into steps of equal
/// ratio.
fn with_steps_between(all: &[f64]) -> Vec<f64> {
    let mut result = vec![];
    for (at, number) in all.iter().copied().enumerate() {
        let before = at.checked_sub(1).map_or(0.0, |before| all[before]);
        let ratio = if before > 0.0 { number / before } else { 1.0 };
        let steps = libm::ceil(libm::log(ratio) / libm::log(BLEND_STEP)).max(1.0);
        let further = 1..steps as u32;
        result.extend(further.map(|step| before * libm::pow(ratio, f64::from(step) / steps)));
        result.push(number);
    }
    result
}

/// True if the load can rise from `a` to `b` along a straight line in bandwidth and latency: the
/// bytes in flight are higher at `b` than at `a`, and never fall between them. Along this line the
/// bytes in flight (bandwidth times latency) are a parabola, whose slope is linear, so it suffices
/// that the slope is at least 0 at both ends.
fn load_rises(a: Flow, b: Flow) -> bool {
    let bandwidth = b.bandwidth_gbps - a.bandwidth_gbps;
    let latency = b.latency_ns - a.latency_ns;
    let slope = |at: Flow| at.bandwidth_gbps * latency + at.latency_ns * bandwidth;
    b.in_flight_bytes() > a.in_flight_bytes() && slope(a) >= 0.0 && slope(b) >= 0.0
}

/// Maximum distance, in indices, between two consecutive points that [`rising_subset`] keeps: at
/// most 511 points between them are left out as outliers. The limit keeps the running time short
/// for files with very many points.
const OUTLIERS_IN_A_ROW_MAX: usize = 512;

/// Returns the indices of the largest subset of `flows` that is a valid curve: the load rises
/// between neighbours (`load_rises`). `flows` are sorted by their bytes in flight. Among subsets of
/// the same size, the one with the lowest sum of latencies is taken, because any disturbance of a
/// measurement raises the latency.
///
/// The first point has no priority. A pointer chase alone has one line in flight at any latency, so
/// it always sorts first. With priority for the first point, a disturbed chase (441 ns at 0.15
/// GB/s) would exclude all good points after it (150 ns at 10 GB/s).
fn rising_subset(flows: &[Flow]) -> Vec<usize> {
    struct Chain {
        points: usize,
        latency_ns: f64,
        before: Option<usize>,
    }
    let is_better = |a: &Chain, b: &Chain| {
        a.points > b.points || a.points == b.points && a.latency_ns < b.latency_ns
    };
    // For each flow of `flows`, the best subset whose last point is this flow.
    let mut chains: Vec<Chain> = Vec::with_capacity(flows.len());
    for (at, flow) in flows.iter().enumerate() {
        let mut best = Chain { points: 1, latency_ns: flow.latency_ns, before: None };
        for before in at.saturating_sub(OUTLIERS_IN_A_ROW_MAX)..at {
            if !load_rises(flows[before], *flow) {
                continue;
            }
            let Chain { points, latency_ns, .. } = chains[before];
            let latency_ns = latency_ns + flow.latency_ns;
            let chain = Chain { points: points + 1, latency_ns, before: Some(before) };
            if is_better(&chain, &best) {
                best = chain;
            }
        }
        chains.push(best);
    }
    let last = (0..chains.len())
        .reduce(|best, at| if is_better(&chains[at], &chains[best]) { at } else { best });
    let mut kept: Vec<usize> = std::iter::successors(last, |at| chains[*at].before).collect();
    kept.reverse();
    kept
}

/// The bandwidth of traffic to a tier, and the latency of each of its lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Bandwidth of the traffic, GB/s.
    pub bandwidth_gbps: f64,
    /// Latency of each line of the traffic, ns.
    pub latency_ns: f64,
}

impl Flow {
    /// Bytes in flight, by Little's law.
    pub fn in_flight_bytes(self) -> f64 {
        self.bandwidth_gbps * self.latency_ns
    }
}

/// A curve as a function of the bytes in flight. Between two points bandwidth and latency are
/// interpolated linearly.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Pairs of bandwidth (GB/s) and latency (ns), beginning with the idle point at bandwidth 0.
    points: Vec<(f64, f64)>,
    max_bandwidth_gbps: f64,
}

impl Response {
    fn through(points: impl Iterator<Item = (f64, f64)>) -> Self {
        let mut points: Vec<_> = points.collect();
        if points[0].0 > 0.0 {
            points.insert(0, (0.0, points[0].1));
        }
        let max_bandwidth_gbps = points.iter().map(|point| point.0).fold(0.0, f64::max);
        Self { points, max_bandwidth_gbps }
    }

    /// A response between `self` and `other`: for example, the response to a mix whose read share
    /// is between those of two measured mixes. The result has a point at the bytes in flight of
    /// each point of `self` and of `other`, and between points that are far apart
    /// ([`BLEND_STEP`]). Its bandwidth at these points is the weighted mean of the bandwidths of
    /// `self` and `other` at the same bytes in flight. The weight of `self` is `share` (0 to 1),
    /// that of `other` is `1 - share`.
    pub fn blend(&self, share: f64, other: &Self) -> Self {
        if share >= 1.0 {
            return self.clone();
        }
        if share <= 0.0 {
            return other.clone();
        }
        let mut in_flight: Vec<f64> =
            self.points.iter().chain(&other.points).map(|(x, latency)| x * latency).collect();
        in_flight.sort_by(f64::total_cmp);
        in_flight.dedup_by(|a, b| (*a - *b).abs() <= 1e-9 * b.abs());
        let in_flight = with_steps_between(&in_flight);
        let idle = share * (1.0 / self.points[0].1) + (1.0 - share) * (1.0 / other.points[0].1);
        let point = |bytes: f64| {
            if bytes == 0.0 {
                return (0.0, 1.0 / idle);
            }
            let bandwidth = share * self.at(bytes).bandwidth_gbps
                + (1.0 - share) * other.at(bytes).bandwidth_gbps;
            (bandwidth, bytes / bandwidth)
        };
        Self::through(in_flight.into_iter().map(point))
    }

    /// The response that programs get beside `background_gbps` GB/s of background traffic.
    /// Background traffic, such as that of a device, keeps its bandwidth at any latency, so its
    /// bandwidth is subtracted from the bandwidth of each point. At most [`BACKGROUND_MAX`] of the
    /// maximum bandwidth is subtracted.
    pub fn beside(&self, background_gbps: f64) -> Self {
        if background_gbps <= 0.0 {
            return self.clone();
        }
        let taken = background_gbps.min(BACKGROUND_MAX * self.max_bandwidth_gbps);
        let idle_ns = self.at_bandwidth(taken).latency_ns;
        let mut last = Flow { bandwidth_gbps: 0.0, latency_ns: idle_ns };
        let mut points = vec![(0.0, idle_ns)];
        for &(bandwidth, latency_ns) in &self.points[1..] {
            let left = Flow { bandwidth_gbps: bandwidth - taken, latency_ns };
            if left.bandwidth_gbps > 0.0 && load_rises(last, left) {
                points.push((left.bandwidth_gbps, latency_ns));
                last = left;
            }
        }
        Self::through(points.into_iter())
    }

    /// The maximum bandwidth, GB/s.
    pub const fn max_bandwidth_gbps(&self) -> f64 {
        self.max_bandwidth_gbps
    }

    /// Latency without load, ns.
    pub fn idle_latency_ns(&self) -> f64 {
        self.points[0].1
    }

    /// The lowest latency of the curve, ns. If the latency first falls with the load, the lowest
    /// latency is below the idle latency.
    pub fn least_latency_ns(&self) -> f64 {
        self.points.iter().map(|(_, latency_ns)| *latency_ns).fold(f64::INFINITY, f64::min)
    }

    /// Bytes in flight at the last point. More bytes in flight give no more bandwidth.
    pub fn saturating_bytes(&self) -> f64 {
        let (bandwidth, latency) = self.points[self.points.len() - 1];
        bandwidth * latency
    }

    /// The bandwidth and the latency of traffic that has `bytes` in flight.
    pub fn at(&self, bytes: f64) -> Flow {
        self.with_pause(bytes, 0.0)
    }

    /// The flow (bandwidth and latency) of a closed loop: lines of `bytes` bytes in total are
    /// either in flight or pause for `pause_ns` after their arrival, before the next line is
    /// requested. The flow satisfies `bandwidth x (latency + pause) = bytes`.
    pub fn with_pause(&self, bytes: f64, pause_ns: f64) -> Flow {
        self.with_pause_from(&mut 1, bytes, pause_ns)
    }

    /// Like [`Self::with_pause`], but begins the search along the points of the curve at the index
    /// `next` (at least 1), and sets `next` to the index at which the search ends. With the same
    /// pause, a later search for more bytes can begin there, because it cannot end at an earlier
    /// point.
    fn with_pause_from(&self, next: &mut usize, bytes: f64, pause_ns: f64) -> Flow {
        let circulating = |point: (f64, f64)| point.0 * (point.1 + pause_ns);
        let mut a = self.points[*next - 1];
        while let Some(&b) = self.points.get(*next) {
            if circulating(b) >= bytes {
                let way = way_between(a, b, pause_ns, bytes - circulating(a));
                return Flow {
                    bandwidth_gbps: a.0 + way * (b.0 - a.0),
                    latency_ns: a.1 + way * (b.1 - a.1),
                };
            }
            a = b;
            *next += 1;
        }
        Flow { bandwidth_gbps: a.0, latency_ns: bytes / a.0 - pause_ns }
    }

    /// The flow of threads that repeat rounds: in each round they request `bytes` in total, wait
    /// for them, and compute on them for `compute_ns`.
    ///
    /// Of compute time and latency, let `max` be the longer and `min` the shorter. `overlap` is the
    /// hidden fraction of `min`: a round takes `max + (1 - overlap) x min`. 0 is no overlap, 1 is
    /// perfect overlap.
    pub fn closed_loop(&self, bytes: f64, compute_ns: f64, overlap: f64) -> Flow {
        self.closed_loops(compute_ns, overlap)(bytes)
    }

    /// Returns a function that computes [`Self::closed_loop`] for rising numbers of bytes. It is
    /// faster than single calls of `closed_loop`, because each search begins at the point where the
    /// previous search ended.
    pub fn closed_loops(&self, compute_ns: f64, overlap: f64) -> impl FnMut(f64) -> Flow {
        let exposed = 1.0 - overlap;
        let (mut next, mut next_computing) = (1, 1);
        move |bytes| {
            let waiting = self.with_pause_from(&mut next, bytes, exposed * compute_ns);
            if waiting.latency_ns >= compute_ns {
                return waiting;
            }
            if exposed * bytes < LINE_BYTES * f64::EPSILON {
                // The overlap is perfect and the compute time exceeds the latency, so the compute
                // time alone determines the bandwidth.
                return self.at_bandwidth(bytes / compute_ns);
            }
            // The compute time exceeds the latency, so the time in which the threads request
            // `bytes` once (a round) is `compute_ns + exposed x latency` = `exposed x (latency +
            // compute_ns / exposed)`. The bandwidth is therefore that of `bytes / exposed` in
            // flight with a pause of `compute_ns / exposed`.
            self.with_pause_from(&mut next_computing, bytes / exposed, compute_ns / exposed)
        }
    }

    /// The flow at `bandwidth_gbps` on the part of the curve before saturation. A bandwidth above
    /// the maximum gives the first point that has the maximum bandwidth.
    pub fn at_bandwidth(&self, bandwidth_gbps: f64) -> Flow {
        for pair in self.points.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            if b.0 >= bandwidth_gbps && b.0 > a.0 {
                let way = (bandwidth_gbps - a.0) / (b.0 - a.0);
                let latency_ns = a.1 + way * (b.1 - a.1);
                return Flow { bandwidth_gbps, latency_ns };
            }
        }
        let most = self.points.iter().find(|point| point.0 >= self.max_bandwidth_gbps);
        let &(bandwidth_gbps, latency_ns) = most.unwrap_or(&self.points[self.points.len() - 1]);
        Flow { bandwidth_gbps, latency_ns }
    }
}

/// Returns the position between the points `a` (at 0) and `b` (at 1), pairs of (bandwidth,
/// latency), at which bandwidth times (latency plus `pause_ns`) is higher than at `a` by `rise`.
/// The position is the root of a quadratic equation. The form 2c / (b + √(b² + 4ac)) of the root
/// avoids a difference of nearly equal numbers.
fn way_between(a: (f64, f64), b: (f64, f64), pause_ns: f64, rise: f64) -> f64 {
    let bandwidth = b.0 - a.0;
    let latency = b.1 - a.1;
    let square = bandwidth * latency;
    let linear = a.0 * latency + (a.1 + pause_ns) * bandwidth;
    let discriminant = (linear * linear + 4.0 * square * rise).max(0.0);
    let denominator = linear + discriminant.sqrt();
    if denominator > 0.0 { (2.0 * rise / denominator).clamp(0.0, 1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve(points: &[(f64, f64)]) -> Result<Curve, CurveError> {
        let point = |&(bandwidth_gbps, latency_ns)| CurvePoint {
            bandwidth_gbps,
            latency_ns,
            figure: Figure::assumed("test"),
        };
        Curve::new(points.iter().map(point).collect())
    }

    #[test]
    fn beside_background_traffic() {
        let all = curve(&[(0.0, 100.0), (400.0, 180.0), (500.0, 400.0), (480.0, 900.0)]).unwrap();
        let left = all.response().beside(200.0);
        assert_eq!(left.idle_latency_ns(), 140.0);
        assert_eq!(left.max_bandwidth_gbps(), 300.0);
        let flow = left.at_bandwidth(200.0);
        assert_eq!(flow.latency_ns, 180.0, "as the whole has it at 400");
        assert_eq!(all.response().beside(0.0), *all.response());
        assert!((all.response().beside(1e6).max_bandwidth_gbps() - 25.0).abs() < 1e-9);
    }

    #[test]
    fn impossible_curves() {
        type Points = &'static [(f64, f64)];
        let table: [(Points, Option<usize>); 9] = [
            (&[], None),
            (&[(0.0, 100.0)], None),
            (&[(-1.0, 100.0)], Some(0)),
            (&[(f64::NAN, 100.0)], Some(0)),
            (&[(10.0, 0.0)], Some(0)),
            (&[(10.0, f64::INFINITY)], Some(0)),
            (&[(0.0, 100.0), (2e6, 100.0)], Some(1)),
            (&[(0.0, 100.0), (100.0, 120.0), (50.0, 130.0)], Some(2)),
            (&[(0.0, 100.0), (100.0, 120.0), (100.0, 120.0)], Some(2)),
        ];
        for (points, at) in table {
            assert_eq!(curve(points).unwrap_err().point(), at, "{points:?}");
        }
    }

    #[test]
    fn a_curve_that_bends_back_keeps_its_maximum() {
        let bent = curve(&[(0.0, 100.0), (100.0, 150.0), (80.0, 400.0)]).unwrap();
        assert_eq!(bent.max_bandwidth_gbps(), 100.0);
        assert_eq!(bent.response().at(15_000.0).bandwidth_gbps, 100.0);
        assert_eq!(bent.response().at(32_000.0).bandwidth_gbps, 80.0);
        assert_eq!(bent.response().at(64_000.0), Flow { bandwidth_gbps: 80.0, latency_ns: 800.0 });
    }

    #[test]
    fn noise_is_left_out() {
        let noisy = [(50.0, 110.0), (0.0, 100.0), (30.0, 160.0), (100.0, 150.0)];
        let points = noisy.map(|(bandwidth_gbps, latency_ns)| CurvePoint {
            bandwidth_gbps,
            latency_ns,
            figure: Figure::assumed("test"),
        });
        let (curve, left_out) = Curve::from_measured(points.to_vec()).unwrap();
        assert_eq!((curve.points().len(), left_out), (3, 1));
    }

    #[test]
    fn a_disturbed_first_point_does_not_replace_the_curve() {
        // `alone` is a disturbed point: a pointer chase without other traffic, with 64 bytes in
        // flight. The points of `good` are undisturbed.
        let alone = (64.0 / 441.0, 441.0);
        let good = [(1.0, 150.0), (4.0, 152.0), (8.0, 160.0), (10.0, 210.0)];
        let made = |points: &[(f64, f64)]| {
            let point = |&(bandwidth_gbps, latency_ns): &(f64, f64)| CurvePoint {
                bandwidth_gbps,
                latency_ns,
                figure: Figure::assumed("test"),
            };
            Curve::from_measured(points.iter().map(point).collect()).unwrap()
        };
        let (curve, left_out) = made(&[&[alone], &good[..]].concat());
        assert_eq!((curve.idle_latency_ns(), left_out), (150.0, 1));
        assert_eq!(curve.points().len(), good.len());
        // The load does not rise from `alone` to the first point of `good`, so only one of the two
        // stays: the point with the lower latency, because a disturbance raises the latency.
        let (curve, left_out) = made(&[alone, good[0]]);
        assert_eq!((curve.idle_latency_ns(), left_out), (150.0, 1));
    }

    /// Generates random curves. Bandwidth and latency rise from point to point up to the last point
    /// but one. At the last point the curve bends back to 0.9 of the bandwidth at twice the
    /// latency.
    fn any_curve() -> impl Strategy<Value = Curve> {
        (50.0..500.0f64, prop::collection::vec((1.0..100.0f64, 0.0..50.0f64), 1..12)).prop_map(
            |(idle, steps)| {
                let (mut bandwidth, mut latency) = (0.0, idle);
                let mut points = vec![(0.0, idle)];
                for (more, later) in steps {
                    bandwidth += more;
                    latency += later;
                    points.push((bandwidth, latency));
                }
                points.push((bandwidth * 0.9, latency * 2.0));
                curve(&points).unwrap()
            },
        )
    }

    proptest! {
        #[test]
        fn littles_law_holds_everywhere(curve in any_curve(), bytes in 1.0..1e7f64) {
            let flow = curve.response().at(bytes);
            prop_assert!((flow.in_flight_bytes() / bytes - 1.0).abs() < 1e-9);
            prop_assert!(flow.latency_ns >= curve.idle_latency_ns() * (1.0 - 1e-12));
        }

        #[test]
        fn a_closed_loop_has_the_duration_of_its_formula(
            curve in any_curve(),
            bytes in 1.0..1e7f64,
            compute in 0.0..1e4f64,
            overlap in 0.0..=1.0f64,
        ) {
            let flow = curve.response().closed_loop(bytes, compute, overlap);
            let (long, short) = (flow.latency_ns.max(compute), flow.latency_ns.min(compute));
            let round = long + (1.0 - overlap) * short;
            prop_assert!((flow.bandwidth_gbps * round / bytes - 1.0).abs() < 1e-6);
        }

        #[test]
        fn a_blend_lies_between(
            a in any_curve(), b in any_curve(), share in 0.0..=1.0f64, bytes in 1.0..1e6f64,
        ) {
            let (a, b) = (a.response(), b.response());
            let x = a.blend(share, b).at(bytes).bandwidth_gbps;
            let ends = [a.at(bytes).bandwidth_gbps, b.at(bytes).bandwidth_gbps];
            // The blend is the exact weighted mean only at the bytes in flight of the points of
            // both curves. Between them it is a straight line, which may deviate slightly from the
            // weighted mean.
            let slack = 0.05 * ends[0].max(ends[1]);
            prop_assert!(x >= ends[0].min(ends[1]) - slack && x <= ends[0].max(ends[1]) + slack);
        }
    }
}
