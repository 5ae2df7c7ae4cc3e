//! Measures curves of loaded latency: a pointer chase measures the latency of memory while other
//! threads load the memory of the same nodes.

use super::{
    Backing, Bench, NodeCpus, Stop, off_by, on_node, pattern_name, pinned, with_latency, with_rate,
};
use crate::task::Loads;
use interleaf_console::Failure;
use interleaf_linux::{place::placement::Placement, stop_flag::StopFlag};
use interleaf_measure::{
    chase::Chase,
    clock::Clock,
    interleave::{self, Method},
    knee::{self, Knee, Loaded, Resolution},
    spread::{Spread, spread},
    team::Team,
    traffic::{LINE_BYTES, Traffic},
};
use interleaf_model::{units::Bandwidth, weights::Weights};
use interleaf_record::{
    measure::{KneeDocument, MeasureDocument, MeasuredPoint, PointKind},
    rounded,
    warning::Warning,
};
use std::{
    thread,
    time::{Duration, Instant},
};

/// `TRIES` is the maximum number of points that are measured to reach a requested bandwidth. A
/// bandwidth is reached if its relative error is at most `NEAR`.
const TRIES: usize = 6;
const NEAR: f64 = 0.02;

/// The maximum number of points of a curve whose loads are chosen automatically: `POINTS_MAX`, or
/// `QUICK_POINTS_MAX` with --quick.
const POINTS_MAX: usize = 20;
const QUICK_POINTS_MAX: usize = 8;

/// Maximum time for which the loading threads run after a change of their pause, before the
/// measurement begins.
const SETTLE: Duration = Duration::from_millis(50);

/// The memory on which a curve is measured, with the placement of its pages.
pub(crate) struct MeasuredMemory<'a> {
    pub(crate) placement: Placement,
    pub(crate) method: Method,
    /// The weights of interleaved memory; `None` for memory on one node.
    pub(crate) weights: Option<&'a Weights>,
}

impl MeasuredMemory<'_> {
    /// Describes the memory for a curve that is measured on one node.
    pub(crate) fn node(node: u32) -> Self {
        Self { placement: on_node(node), method: Method::Pages, weights: None }
    }

    fn knee(&self, traffic: &Traffic, knee: Knee) -> KneeDocument {
        let (bandwidth_gbps, why) = match knee {
            Knee::At { bandwidth_gbps, .. } => {
                (Some(rounded(bandwidth_gbps)), "bandwidth over latency is largest here")
            }
            Knee::Beyond { .. } => (None, "memory carries more than these threads ask for"),
        };
        KneeDocument {
            memory_node: self.memory_node(),
            weights: self.weights.map(|weights| weights.as_slice().to_vec()),
            mix: traffic.to_string(),
            bandwidth_gbps,
            why: why.into(),
        }
    }

    fn memory_node(&self) -> Option<u32> {
        match (&self.weights, &self.placement.nodes[..]) {
            (None, [(node, _)]) => Some(*node),
            _ => None,
        }
    }
}

/// The results at one load: the latency by the pointer chase, and the bandwidth of the loading
/// threads.
struct LoadResult {
    latency_ns: Spread,
    program_gbps: f64,
}

impl Bench<'_> {
    /// Splits `cpus`: the first CPU runs the pointer chase, the other CPUs load the memory.
    pub(crate) fn divided<'c>(&self, cpus: &'c NodeCpus) -> Result<(u32, &'c [u32]), Stop> {
        match &cpus.cpus[..] {
            [chases, load @ ..] if !load.is_empty() => Ok((*chases, load)),
            _ => Err(Failure::new(
                "latency under load needs two CPUs: one chases, the others load",
                "name more with --cpus, or leave --threads out",
            )
            .into()),
        }
    }

    /// Returns a point with the fields that all points of a curve share; its other fields have
    /// default values.
    fn base(&self, cpus: &NodeCpus, memory: &MeasuredMemory<'_>, seen: &Backing) -> MeasuredPoint {
        MeasuredPoint {
            memory_node: memory.memory_node(),
            weights: memory.weights.map(|weights| weights.as_slice().to_vec()),
            pattern: pattern_name(self.setup.pattern).into(),
            memory_bytes: self.setup.buffer as u64,
            off_by: off_by(seen, &memory.placement),
            ..self.point(PointKind::Loaded, cpus, seen)
        }
    }

    /// Measures a curve of loaded latency, with one point for each load, and adds the points to the
    /// record.
    pub(crate) fn curve(
        &self,
        cpus: &NodeCpus,
        memory: &MeasuredMemory<'_>,
        traffic: &Traffic,
        loads: &Loads,
        document: &mut MeasureDocument,
    ) -> Result<(), Stop> {
        let (chases, load) = self.divided(cpus)?;
        let (setup, options, stop) = (self.setup, self.options(), &self.stop);
        let chased =
            interleave::region(options.bytes, setup.pages, &memory.placement, memory.method)?;
        let mut chase = Chase::new(chased, options.local())?;
        let (placement, method) = (&memory.placement, memory.method);
        let regions =
            interleave::regions(load.len(), setup.buffer, setup.pages, placement, method)?;
        let seen = self.backing(regions.iter().chain([chase.region()]));
        let kernel = self.kernel(traffic).map(|kernel| kernel.to_string());
        let shares = [setup.chase_cacheable(chases), setup.buffers_cacheable(load)];
        let cacheable_share = shares.into_iter().flatten().reduce(f64::max).map(rounded);
        let base = MeasuredPoint { kernel, cacheable_share, ..self.base(cpus, memory, &seen) };
        pinned(chases, || Ok(chase.warm_while(&mut || !stop.is_set())?))?;
        let mut points: Vec<Loaded> = vec![];
        let mut measure = |team: Option<(&Team, Duration)>, points: &mut Vec<Loaded>| {
            let (span, repeats) = (setup.span, setup.repeats);
            let at_load = || at_load(&mut chase, team.map(|it| it.0), span, repeats, stop);
            let counted = || self.counted.during(|| pinned(chases, at_load));
            let ((found, measured_gbps), contamination, took_s) = self.watched(|| Ok(counted()))?;
            let found = found?;
            // The chase reads a line per latency: its GB/s are added to those of the threads.
            let chased = LINE_BYTES as f64 / found.latency_ns.median.max(1e-3);
            let median = found.program_gbps + chased;
            points.push(Loaded {
                pause_ns: team.map_or(f64::NAN, |(_, pause)| pause.as_nanos() as f64),
                bandwidth_gbps: median,
                latency_ns: found.latency_ns.median,
            });
            let rate = Spread { median, relative: 0.0, count: 1 };
            let point = MeasuredPoint { contamination, took_s, ..base.clone() };
            let point = with_latency(with_rate(point, traffic, load.len(), rate), found.latency_ns);
            let modelled_gbps =
                Some(rounded(found.program_gbps * traffic.controller_factor() + chased));
            let delay_ns = team.map(|(_, delay)| delay.as_nanos() as f64);
            self.add(document, MeasuredPoint { delay_ns, modelled_gbps, measured_gbps, ..point })
        };
        // Measure the first point before the loading threads start: only the chase then runs.
        measure(None, &mut points)?;
        let team = Team::start_in(&self.load(load, traffic), regions)?;
        let mut at = |pause: Duration, points: &mut Vec<Loaded>| {
            team.set_delay(pause);
            thread::sleep(SETTLE.min(setup.span));
            measure(Some((&team, pause)), points)
        };
        points.clear();
        let mut warnings = vec![];
        match loads {
            Loads::Found => {
                let points_max = if setup.quick { QUICK_POINTS_MAX } else { POINTS_MAX };
                let resolution = Resolution { points_max, ..Resolution::default() };
                while let Some(pause) = knee::next(&points, &resolution) {
                    at(nanoseconds(pause), &mut points)?;
                }
            }
            Loads::Delays(delays) => {
                for pause in delays {
                    at(*pause, &mut points)?;
                }
            }
            Loads::Rates(rates) => {
                for pause in [0.0, Resolution::default().pause_max_ns] {
                    at(nanoseconds(pause), &mut points)?;
                }
                warnings = reach_all(rates, &mut points, &mut at)?;
            }
        }
        team.stop()?;
        document.notes.extend(warnings.iter().map(ToString::to_string));
        document.knees.extend(knee::knee(&points).map(|it| memory.knee(traffic, it)));
        Ok(())
    }
}

/// A function that measures a point with a given pause of the loading threads. It gets the pause
/// and the list of points, and appends the new point to the list.
type MeasureAtPause<'a> = dyn FnMut(Duration, &mut Vec<Loaded>) -> Result<(), Stop> + 'a;

/// Calls [`reach`] for each of the bandwidths `rates`. Returns the warnings about bandwidths that
/// were not reached.
fn reach_all(
    rates: &[Bandwidth],
    points: &mut Vec<Loaded>,
    at: &mut MeasureAtPause<'_>,
) -> Result<Vec<Warning>, Stop> {
    let mut warnings = vec![];
    for rate in rates {
        warnings.extend(reach(rate.gbps(), points, at)?);
    }
    Ok(warnings)
}

/// Tries to reach the bandwidth `target_gbps`: measures points at pauses that are interpolated
/// between the measured points. Stops when a point has the target bandwidth, after [`TRIES`]
/// points, or when the interpolation gives no new pause. It gives none if the chase alone has more
/// bandwidth than the target, or if noise changes the order of the points. Returns a warning with
/// the nearest bandwidth if no point has the target bandwidth.
fn reach(
    target_gbps: f64,
    points: &mut Vec<Loaded>,
    at: &mut MeasureAtPause<'_>,
) -> Result<Option<Warning>, Stop> {
    let most = points.iter().map(|point| point.bandwidth_gbps).fold(0.0, f64::max);
    if target_gbps > most {
        return Err(Failure::new(
            format!("--rate {target_gbps}GB/s is more than these threads reach, {most:.1} GB/s"),
            "ask for less, or load from more CPUs",
        )
        .into());
    }
    let off = |gbps: f64| (gbps / target_gbps - 1.0).abs();
    for _ in 0..TRIES {
        let pause = knee::pause_for(points, target_gbps).map(nanoseconds);
        let is_new =
            |pause: &Duration| points.iter().all(|it| it.pause_ns != pause.as_nanos() as f64);
        let Some(pause) = pause.filter(is_new) else { break };
        at(pause, points)?;
        if points.last().is_some_and(|point| off(point.bandwidth_gbps) <= NEAR) {
            return Ok(None);
        }
    }
    let reached = points.iter().map(|point| point.bandwidth_gbps);
    let nearest_gbps = reached.min_by(|a, b| off(*a).total_cmp(&off(*b))).unwrap_or(0.0);
    let warning = Warning::RateNotReached { target_gbps, nearest_gbps };
    Ok((off(nearest_gbps) > NEAR).then_some(warning))
}

fn nanoseconds(pause: f64) -> Duration {
    Duration::from_nanos(pause.clamp(0.0, 1e9).round() as u64)
}

/// Measures the chase's latency and the bandwidth of `team`'s threads, which load the memory
/// meanwhile. If `team` is `None`, only the chase runs. The measurement stops when `stop` is set.
fn at_load(
    chase: &mut Chase,
    team: Option<&Team>,
    span: Duration,
    repeats: usize,
    stop: &StopFlag,
) -> Result<LoadResult, Stop> {
    let (lines, began) = (team.map_or(0, Team::lines), Instant::now());
    let mut medians = vec![];
    for _ in 0..repeats {
        let mut proceed = || !stop.is_set();
        medians.push(chase.slices(Clock::here(), span / repeats as u32, &mut proceed)?.median_ns);
    }
    let bytes = (team.map_or(0, Team::lines) - lines) * LINE_BYTES;
    let program_gbps = bytes as f64 / began.elapsed().as_nanos() as f64;
    let latency_ns = spread(&medians).unwrap_or(super::NOTHING);
    Ok(LoadResult { latency_ns, program_gbps })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    /// The bandwidth of the chase alone, GB/s, which no pause of the loading threads reduces.
    const CHASE_GBPS: f64 = 0.7;

    fn measured(pause_ns: f64) -> Loaded {
        let bandwidth_gbps = CHASE_GBPS + 8192.0 / (200.0 + pause_ns);
        Loaded { pause_ns, bandwidth_gbps, latency_ns: 100.0 + bandwidth_gbps }
    }

    /// Tries to reach `target_gbps`, starting from the measured points `points`. Returns the
    /// warning and all points.
    fn reached(target_gbps: f64, mut points: Vec<Loaded>) -> (Option<Warning>, Vec<Loaded>) {
        let mut at = |pause: Duration, points: &mut Vec<Loaded>| {
            points.push(measured(pause.as_nanos() as f64));
            Ok(())
        };
        let Ok(warning) = reach(target_gbps, &mut points, &mut at) else {
            panic!("{target_gbps} GB/s ended the measurement")
        };
        (warning, points)
    }

    #[test]
    fn a_rate_is_reached_or_the_nearest_point_is_kept() {
        let ends = || vec![measured(0.0), measured(8000.0)];
        for target in [1.2, 5.0, 20.0] {
            let (warning, points) = reached(target, ends());
            let last = points.last().unwrap().bandwidth_gbps;
            assert!(warning.is_none() && (last / target - 1.0).abs() <= NEAR, "{last}, {target}");
        }
        // The target of 0.1 GB/s cannot be reached, because the chase alone has more bandwidth. The
        // nearest bandwidth must be that of the chase.
        let (warning, points) = reached(0.1, ends());
        let Some(Warning::RateNotReached { nearest_gbps, .. }) = warning else {
            panic!("{points:?}")
        };
        assert!(
            (nearest_gbps - CHASE_GBPS).abs() < 0.01 && points.len() <= 2 + TRIES,
            "{points:?}"
        );
        // In these points, noise gives the point with the longer pause the higher bandwidth. The
        // target cannot be reached, so no further point may be measured.
        let noisy = vec![measured(0.0), Loaded { bandwidth_gbps: 50.0, ..measured(8000.0) }];
        let expected = Warning::RateNotReached {
            target_gbps: 20.0,
            nearest_gbps: measured(0.0).bandwidth_gbps,
        };
        assert_eq!(reached(20.0, noisy.clone()), (Some(expected), noisy));
    }

    #[test]
    fn a_rate_above_the_measured_maximum_is_an_error() {
        let mut points = vec![measured(0.0), measured(8000.0)];
        let mut at = |_: Duration, _: &mut Vec<Loaded>| Ok(());
        let Err(Stop::Failed(why)) = reach(50.0, &mut points, &mut at) else {
            panic!("{points:?}")
        };
        let expected = "--rate 50GB/s is more than these threads reach, 41.7 GB/s";
        assert!(why.to_string().contains(expected), "{why}");
    }
}
