//! Latency under load: a chase on one CPU, while threads on other CPUs load memory.
//!
//! The threads run all the time; only their pause after each group of lines changes from point to
//! point. There are three plans for the pauses: a list, such as MLC's injection delays; bandwidths
//! to reach; or an adaptive choice that shows the curve and its knee with few points.
//!
//! The reported bandwidth is that of the memory controller. It is computed from the loads and
//! stores of the threads by the table of [`Traffic`], with one more line for each load of the
//! chase. The bandwidth of the program is reported as well.

use crate::{
    chase::{Chase, ChaseError, Slices},
    clock::Clock,
    histogram::{self, Histogram},
    idle,
    kernel::Checksums,
    knee::{self, Knee, Loaded, Resolution},
    point::{Binding, Kind, Pattern, Point, Rate},
    spread::{Spread, spread},
    team::{Load, Team, TeamError},
    traffic::{LINE_BYTES, Traffic},
};
use interleaf_linux::root::Root;
use interleaf_model::{
    curve::{Curve, CurveError, CurvePoint},
    provenance::Figure,
};
use std::{
    thread,
    time::{Duration, Instant},
};

/// MLC's injection delays: the list of its `--loaded_latency`, in cycles. MLC's work between two
/// delays is not public. Here a delay is this number of ticks of the time-stamp counter after each
/// group of lines.
pub const MLC_DELAYS: [u64; 19] = [
    0, 2, 8, 15, 50, 100, 200, 300, 400, 500, 700, 1000, 1300, 1700, 2500, 3500, 5000, 9000, 20000,
];

/// Minimum length of a window. A point is measured in one or more windows. Each window gives a
/// bandwidth, and a latency: the median over the slices of the chase, 2 ms each. A window is
/// extended if too few of its slices are undisturbed.
const WINDOW: Duration = Duration::from_millis(10);

/// The relative tolerance of a requested bandwidth.
const TARGET_NEAR: f64 = 0.02;

/// The maximum number of tries for a requested bandwidth.
const TARGET_TRIES: usize = 6;

#[derive(Clone, Debug)]
pub struct LoadedOptions {
    /// The options of the chase. The idle latency is measured for `repeats` times their `span`.
    pub chase: idle::ChaseOptions,
    /// The threads that load the memory.
    pub load: Load,
    /// The wait after each change of the threads' pause (between groups of lines), so that all
    /// threads use the new pause before the measurement begins.
    pub settle: Duration,
    /// The duration of the measurement of each point.
    pub span: Duration,
}

/// The loads to measure.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// The given pauses, in the given order.
    Pauses(Vec<Duration>),
    /// The given bandwidths at the controller, GB/s: a pause is searched for each of them.
    Targets(Vec<f64>),
    /// Pauses chosen to show the curve and its knee.
    Adaptive(Resolution),
}

#[derive(Debug, thiserror::Error)]
pub enum LoadedError {
    #[error(transparent)]
    Chase(#[from] ChaseError),
    #[error(transparent)]
    Team(#[from] TeamError),
    /// A bandwidth that these threads do not reach.
    #[error("{target_gbps} GB/s are more than these threads reach, {most_gbps:.1} GB/s")]
    Target {
        /// The bandwidth that was requested, GB/s.
        target_gbps: f64,
        /// The largest bandwidth measured so far at the controller, with that of the chase, GB/s.
        most_gbps: f64,
    },
}

impl LoadedError {
    pub fn hint(&self) -> String {
        match self {
            Self::Chase(why) => why.hint(),
            Self::Team(why) => why.hint(),
            Self::Target { .. } => "ask for less, or load from more CPUs".into(),
        }
    }
}

/// The measurement under one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The pause of threads after each group of lines.
    pub pause: Duration,
    /// Bandwidth of the program's loads and stores, GB/s, without the chase.
    pub rate: Rate,
    /// The bandwidth of the program in each window, GB/s. On a busy machine, the best window is one
    /// in which all threads ran.
    pub windows_gbps: Vec<f64>,
    /// Bandwidth at the controller by the table of [`Traffic`], including the loads of the chase,
    /// GB/s.
    pub controller_gbps: f64,
    pub latency: Slices,
    /// The median of the latencies in all windows (`WINDOW`) of the measurement, ns, and their
    /// spread.
    pub latency_ns: Spread,
    /// Duration of the measurement.
    pub took: Duration,
}

impl Step {
    /// The step as a point for the search of the knee.
    pub const fn loaded(&self) -> Loaded {
        Loaded {
            pause_ns: self.pause.as_nanos() as f64,
            bandwidth_gbps: self.controller_gbps,
            latency_ns: self.latency.median_ns,
        }
    }

    /// The step as a point of a record.
    pub fn point(&self, binding: Binding, load: &Load) -> Point {
        Point {
            kind: Kind::Loaded,
            binding,
            traffic: Some((load.traffic, load.pattern)),
            threads: load.cpus.len() as u32,
            rate: Some(self.rate),
            latency_ns: Some(self.latency_ns),
            took: self.took,
        }
    }
}

/// A measured curve of latency over bandwidth.
#[derive(Clone, Debug)]
pub struct LoadSweep {
    /// The idle latency, measured before the loading threads started.
    pub idle: Slices,
    /// The measured loads, in the order of their measurement.
    pub steps: Vec<Step>,
    pub knee: Option<Knee>,
    /// The checksums of each thread.
    pub sums: Vec<Checksums>,
}

impl LoadSweep {
    /// The curve through the steps, made monotone, and the number of points that the curve leaves
    /// out as outliers. The steps themselves are unchanged.
    ///
    /// # Errors
    /// When the bandwidth or the latency of a step is outside the range of curves.
    pub fn curve(&self, figure: &Figure) -> Result<(Curve, usize), CurveError> {
        let steps: Vec<Loaded> = self.steps.iter().map(Step::loaded).collect();
        let point = |point: Loaded| CurvePoint {
            bandwidth_gbps: point.bandwidth_gbps,
            latency_ns: point.latency_ns,
            figure: figure.clone(),
        };
        let points = knee::monotone(self.idle.median_ns, &steps);
        Curve::from_measured(points.into_iter().map(point).collect())
    }
}

/// A chase, and the threads that load the memory meanwhile.
#[derive(Debug)]
pub struct LoadedChase {
    clock: Clock,
    options: LoadedOptions,
    chase: Chase,
    idle: Slices,
    team: Team,
}

impl LoadedChase {
    /// Measures the latency without load, then starts the threads. The calling thread runs the
    /// chase, and should stay on a CPU without a loading thread ([`crate::pin`]).
    ///
    /// # Errors
    /// When the memory cannot be mapped, or the threads cannot run on their CPUs.
    pub fn new(clock: Clock, options: LoadedOptions) -> Result<Self, LoadedError> {
        let mut chase = Chase::new(options.chase.region()?, options.chase.local())?;
        chase.warm()?;
        let span = options.chase.span * options.chase.repeats.max(1) as u32;
        let idle = chase.slices(clock, span)?;
        let team = Team::start(&options.load)?;
        Ok(Self { clock, options, chase, idle, team })
    }

    /// Measures bandwidth and latency while the threads load the memory with this pause.
    ///
    /// # Errors
    /// When the chase ends at a wrong line.
    pub fn at(&mut self, pause: Duration) -> Result<Step, LoadedError> {
        let began = Instant::now();
        self.load(pause);
        let end = Instant::now() + self.options.span;
        let (mut slices, mut rates, mut latencies) = (vec![], vec![], vec![]);
        while rates.is_empty() || Instant::now() < end {
            let first = slices.len();
            let before = (self.team.program_bytes(), Instant::now());
            self.chase.slice(self.clock, WINDOW, &mut slices)?;
            let bytes = self.team.program_bytes() - before.0;
            rates.push(bytes as f64 / before.1.elapsed().as_nanos() as f64);
            latencies.push(Slices::of(&slices[first..]).median_ns);
        }
        let none = Spread { median: 0.0, relative: 0.0, count: 0 };
        let latency = Slices::of(&slices);
        let controller_factor = self.options.load.traffic.controller_factor();
        let program_gbps = spread(&rates).unwrap_or(none);
        let of_chase = LINE_BYTES as f64 / latency.median_ns;
        Ok(Step {
            pause,
            rate: Rate { program_gbps, controller_factor, measured_gbps: None },
            windows_gbps: rates,
            controller_gbps: program_gbps.median * controller_factor + of_chase,
            latency,
            latency_ns: spread(&latencies).unwrap_or(none),
            took: began.elapsed(),
        })
    }

    /// Samples the latency of single accesses while the threads load the memory with this pause.
    ///
    /// # Errors
    ///
    /// When the chase ends at a wrong line.
    pub fn histogram(
        &mut self,
        root: &Root,
        pause: Duration,
        options: &histogram::HistogramOptions,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Histogram, LoadedError> {
        self.load(pause);
        Ok(histogram::histogram(root, self.clock, &mut self.chase, options, progress)?)
    }

    /// Sets the pause of the threads, and waits for the time `settle`, in which all threads begin
    /// to use it.
    fn load(&self, pause: Duration) {
        self.team.set_delay(pause);
        thread::sleep(self.options.settle);
    }

    /// Stops the threads; returns the idle latency, and the checksums of each thread.
    ///
    /// # Errors
    /// When a thread has read or written wrong words.
    pub fn end(self) -> Result<(Slices, Vec<Checksums>), LoadedError> {
        Ok((self.idle, self.team.stop()?))
    }
}

/// Measures a curve. `report` is called with each step; the calling thread runs the chase, as in
/// [`LoadedChase::new`].
///
/// # Errors
/// When the curve cannot be measured, or a requested bandwidth is more than the threads reach.
pub fn sweep(
    clock: Clock,
    options: LoadedOptions,
    plan: &Plan,
    report: &mut dyn FnMut(&Step),
) -> Result<LoadSweep, LoadedError> {
    let mut chase = LoadedChase::new(clock, options)?;
    let steps = steps_of(plan, &mut |pause| {
        let step = chase.at(pause)?;
        report(&step);
        Ok(step)
    })?;
    let (idle, sums) = chase.end()?;
    let knee = knee::knee(&knee::monotone(idle.median_ns, &loaded(&steps)));
    Ok(LoadSweep { idle, steps, knee, sums })
}

/// A function that measures while the loading threads use the given pause.
type Measure<'a> = dyn FnMut(Duration) -> Result<Step, LoadedError> + 'a;

/// Measures the steps of a plan.
fn steps_of(plan: &Plan, measure: &mut Measure<'_>) -> Result<Vec<Step>, LoadedError> {
    let mut steps: Vec<Step> = vec![];
    match plan {
        Plan::Pauses(pauses) => {
            for pause in pauses {
                steps.push(measure(*pause)?);
            }
        }
        Plan::Adaptive(resolution) => {
            while let Some(pause) = knee::next(&loaded(&steps), resolution) {
                steps.push(measure(nanoseconds(pause))?);
            }
        }
        Plan::Targets(targets) => {
            let ends = [Duration::ZERO, nanoseconds(Resolution::default().pause_max_ns)];
            for pause in ends {
                steps.push(measure(pause)?);
            }
            for target in targets {
                reach(&mut steps, *target, measure)?;
            }
        }
    }
    Ok(steps)
}

/// Measures at interpolated pauses until a step reaches `target_gbps` within the fraction
/// [`TARGET_NEAR`], at most [`TARGET_TRIES`] times. Fails if no pause can be interpolated, because
/// the measured bandwidths are below the target.
fn reach(
    steps: &mut Vec<Step>,
    target_gbps: f64,
    measure: &mut Measure<'_>,
) -> Result<(), LoadedError> {
    for _ in 0..TARGET_TRIES {
        let points = loaded(steps);
        let Some(pause) = knee::pause_for(&points, target_gbps) else {
            let most_gbps = points.iter().map(|point| point.bandwidth_gbps).fold(0.0, f64::max);
            return Err(LoadedError::Target { target_gbps, most_gbps });
        };
        steps.push(measure(nanoseconds(pause))?);
        let reached = steps.last().map_or(0.0, |step| step.controller_gbps);
        if (reached / target_gbps - 1.0).abs() <= TARGET_NEAR {
            break;
        }
    }
    Ok(())
}

fn loaded(steps: &[Step]) -> Vec<Loaded> {
    steps.iter().map(Step::loaded).collect()
}

/// `pause` ns as a duration, limited to the range from 0 to 1 s.
fn nanoseconds(pause: f64) -> Duration {
    Duration::from_nanos(pause.clamp(0.0, 1e9).round() as u64)
}

/// A load of sequential reads by these CPUs, with the widest instruction set. Each CPU has 100 MB
/// of memory, as much as a thread of MLC.
pub fn reads(cpus: Vec<u32>, options: &idle::ChaseOptions) -> Option<Load> {
    let isa = crate::isa::Isa::available().pop()?;
    Some(Load {
        traffic: Traffic::READ,
        pattern: Pattern::Sequential,
        isa,
        kernel: None,
        cpus,
        bytes: 100_000_000,
        pages: options.pages,
        policy: options.policy.clone(),
        seed: options.seed,
        delay: Duration::ZERO,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn options() -> LoadedOptions {
        let chase =
            idle::ChaseOptions { bytes: 4 << 20, repeats: 1, span: MS(10), ..Default::default() };
        let load = Load { bytes: 4 << 20, ..reads(vec![0], &chase).unwrap() };
        LoadedOptions { chase, load, settle: MS(5), span: MS(15) }
    }

    #[test]
    fn each_plan_is_followed_and_reports_its_steps() {
        let clock = Clock::here();
        let resolution = Resolution { points_max: 5, ..Resolution::default() };
        let pauses = vec![MS(0), Duration::from_micros(50), MS(1)];
        for plan in [Plan::Pauses(pauses.clone()), Plan::Adaptive(resolution)] {
            let mut report = vec![];
            let sweep =
                sweep(clock, options(), &plan, &mut |step| report.push(step.pause)).unwrap();
            assert_eq!(report, sweep.steps.iter().map(|step| step.pause).collect::<Vec<_>>());
            assert!((2..=5).contains(&report.len()), "{report:?}");
            assert!(plan != Plan::Pauses(pauses.clone()) || report == pauses);
            assert!(sweep.sums[0].loaded > 0 && sweep.idle.median_ns > 0.0);
            for step in &sweep.steps {
                assert!(step.controller_gbps > step.rate.program_gbps.median, "with the chase's");
            }
            let (curve, left_out) = sweep.curve(&Figure::assumed("test")).unwrap();
            assert!(curve.points().len() + left_out == report.len() + 1, "the steps and idle");
        }
    }

    #[test]
    fn a_bandwidth_beyond_the_threads_is_refused() {
        let plan = Plan::Targets(vec![1e6]);
        let mut pauses = vec![];
        let why = sweep(Clock::here(), options(), &plan, &mut |step| pauses.push(step.pause));
        let why = why.unwrap_err();
        assert!(why.to_string().starts_with("1000000 GB/s are more than"), "{why}");
        assert!(!why.hint().is_empty());
        assert_eq!(pauses, [MS(0), Duration::from_micros(8)]);
    }

    /// The step of a simulated machine: a group of lines takes `latency_ns`, and the next group
    /// begins after the pause. Meanwhile the chase loads a line in each `latency_ns`.
    fn simulated(pause: Duration, latency_ns: f64) -> Step {
        let group_bytes = (crate::team::GROUP_LINES * LINE_BYTES) as f64;
        let program_gbps = group_bytes / (latency_ns + pause.as_nanos() as f64);
        let spread = |median: f64| Spread { median, relative: 0.0, count: 1 };
        Step {
            pause,
            rate: Rate {
                program_gbps: spread(program_gbps),
                controller_factor: 1.0,
                measured_gbps: None,
            },
            windows_gbps: vec![program_gbps],
            controller_gbps: program_gbps + LINE_BYTES as f64 / latency_ns,
            latency: Slices {
                median_ns: latency_ns,
                p5_ns: latency_ns,
                mean_ns: latency_ns,
                count: 1,
                disturbed: 0,
            },
            latency_ns: spread(latency_ns),
            took: WINDOW,
        }
    }

    /// Searches the pauses for several bandwidths on a simulated machine. Its latency rises with
    /// the load, so the first interpolated pauses miss the bandwidth, and the search needs several
    /// tries.
    #[test]
    fn a_bandwidth_is_approached() {
        let mut measure = |pause: Duration| {
            let queue_ns = 200.0 * (-(pause.as_nanos() as f64) / 500.0).exp();
            Ok::<_, LoadedError>(simulated(pause, 100.0 + queue_ns))
        };
        let most = measure(MS(0)).unwrap().controller_gbps;
        for share in [1.0, 0.9, 0.5, 0.25, 0.1] {
            let target = share * most;
            let steps = steps_of(&Plan::Targets(vec![target]), &mut measure).unwrap();
            let reached = steps.last().unwrap().controller_gbps;
            assert!((reached / target - 1.0).abs() <= TARGET_NEAR, "{target}: {steps:?}");
            assert!(steps.len() <= 2 + TARGET_TRIES, "{target}: {steps:?}");
        }
        // The chase alone already has more than a twentieth of the largest bandwidth, so no pause
        // reaches this target.
        let tried = steps_of(&Plan::Targets(vec![most / 20.0]), &mut measure).unwrap();
        assert_eq!(tried.len(), 2 + TARGET_TRIES);
        let beyond = steps_of(&Plan::Targets(vec![most / 2.0, 1.01 * most]), &mut measure);
        assert!(matches!(beyond, Err(LoadedError::Target { most_gbps, .. }) if most_gbps == most));
    }

    #[test]
    fn a_histogram_is_taken_under_load() {
        let mut chase = LoadedChase::new(Clock::here(), options()).unwrap();
        let few = histogram::HistogramOptions { samples: 10_000, delay: None };
        let found = chase.histogram(&Root::live(), MS(0), &few, &mut |_| ()).unwrap();
        assert_eq!(found.raw.count(), 10_000);
        let (_, sums) = chase.end().unwrap();
        assert!(sums[0].loaded > 0);
    }

    /// Traffic with read shares from 100 % down, in steps of `step` percent. Ordinary stores allow
    /// shares down to 50 %, non-temporal stores down to 0 %.
    fn by_read_share(step: u32, nontemporal: bool) -> Vec<Traffic> {
        let percents = (0..=100).rev().step_by(step.max(1) as usize);
        percents.map_while(|percent| Traffic::of_read_share(percent, nontemporal).ok()).collect()
    }

    /// The pauses of MLC's list, on a machine with this clock.
    fn mlc_pauses(clock: Clock) -> Vec<Duration> {
        MLC_DELAYS.iter().map(|ticks| Duration::from_nanos(clock.ns(*ticks) as u64)).collect()
    }

    #[test]
    fn read_shares_go_down_in_steps() {
        let names = |step, nontemporal| -> Vec<String> {
            by_read_share(step, nontemporal).iter().map(Traffic::to_string).collect()
        };
        assert_eq!(names(20, false), ["100%", "80%", "60%"]);
        assert_eq!(names(25, true), ["100%nt", "75%nt", "50%nt", "25%nt", "0%nt"]);
        assert_eq!((names(2, false).len(), names(0, true).len()), (26, 101));
        assert_eq!(mlc_pauses(Clock { ticks_per_ns: 2.0 })[18], Duration::from_micros(10));
    }
}
