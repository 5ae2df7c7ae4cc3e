//! Measures the points of a campaign one after the other. Each point is saved in the record, with
//! the interference during its measurement, before the measurement of the next point starts.

mod curve;
mod histogram;

use crate::{
    counted::TrafficCounters,
    options::Options,
    setup::{NodeCpus, Setup, available_on},
    task::Task,
    weights,
};
use indicatif::ProgressBar;
use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    launch::command::Signals,
    place::{
        mempolicy::Policy,
        placement::{Means, Placement},
    },
    stop_flag::StopFlag,
};
use interleaf_measure::{
    backing::huge_bytes,
    bandwidth::{self, Windows},
    chase::{Chase, ChaseError},
    idle,
    interleave::{self, Method},
    isa::Isa,
    kernel::Kernel,
    pin,
    region::{Region, RegionError},
    spread::{Spread, spread},
    team::{Load, Team, TeamError},
    traffic::{Pattern, Traffic},
};
use interleaf_model::weights::Weights;
use interleaf_observe::interference::CpuCounters;
use interleaf_record::{
    measure::{
        CachesDocument, ContaminationDocument, LevelDocument, MeasureDocument, MeasuredPoint,
        PointKind,
    },
    rounded,
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Maximum length of a window. In each window, one sample of the bandwidth is measured.
const WINDOW: Duration = Duration::from_millis(20);

/// Maximum time for which the threads of a bandwidth measurement run unmeasured, before the first
/// window in which bandwidth is sampled.
const WARM_UP: Duration = Duration::from_millis(100);

pub enum CampaignEnd {
    /// The campaign was a dry run: no point was measured.
    DryRun,
    /// All points of the campaign were measured.
    Done,
    /// A signal stopped the measurement. The number is that of the signal.
    Signal(i32),
    /// An error stopped the measurement; the points that were measured before the error are valid.
    Failed(Failure),
}

/// The reason why the measurement stops before the campaign's last point.
pub(crate) enum Stop {
    Signal,
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(why: Failure) -> Self {
        Self::Failed(why)
    }
}

impl From<ChaseError> for Stop {
    fn from(why: ChaseError) -> Self {
        match why {
            ChaseError::Memory(why) => why.into(),
            ChaseError::Stopped => Self::Signal,
            why => Failure::new(why.to_string(), why.hint()).into(),
        }
    }
}

impl From<RegionError> for Stop {
    fn from(why: RegionError) -> Self {
        Failure::new(why.to_string(), why.hint()).into()
    }
}

impl From<TeamError> for Stop {
    fn from(why: TeamError) -> Self {
        Failure::new(why.to_string(), why.hint()).into()
    }
}

/// Runs the tasks of a campaign, and adds the points that they measure to the record.
pub(crate) struct Bench<'a> {
    setup: &'a Setup<'a>,
    signals: &'a Signals,
    /// The flag that is set when a signal arrives.
    stop: StopFlag,
    counted: &'a TrafficCounters,
    options: &'a Options,
    /// The mechanism that places pages by weights.
    method: Method,
    bar: ProgressBar,
}

/// The number of pages of the measured memory on each node, and the fraction of this memory on huge
/// pages (`None` if the kernel does not report it).
#[derive(Clone, Debug, Default)]
struct Backing {
    pages_by_node: BTreeMap<u32, u64>,
    huge_share: Option<f64>,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(
        setup: &'a Setup<'a>,
        signals: &'a Signals,
        counted: &'a TrafficCounters,
        options: &'a Options,
        method: Method,
    ) -> Self {
        let (stop, bar) = (signals.stop_flag(), output::progress(0, "measuring"));
        Self { setup, signals, stop, counted, options, method, bar }
    }

    /// Runs the tasks in order, until all are done, a signal arrives, or an error occurs.
    pub(crate) fn all(&self, tasks: &[Task], document: &mut MeasureDocument) -> CampaignEnd {
        self.bar.set_length(tasks.iter().map(Task::steps).sum());
        for task in tasks {
            self.bar.set_message(task.describe(self.setup));
            let from = self.bar.position();
            if let Err(stop) = self.task(task, document) {
                self.bar.finish_and_clear();
                return match stop {
                    Stop::Signal => CampaignEnd::Signal(self.signals.stopping_signal()),
                    Stop::Failed(why) => CampaignEnd::Failed(why),
                };
            }
            self.bar.set_position(from + task.steps());
        }
        self.bar.finish_and_clear();
        CampaignEnd::Done
    }

    fn task(&self, task: &Task, document: &mut MeasureDocument) -> Result<(), Stop> {
        let cpus = |from: &usize| &self.setup.from[*from];
        match task {
            Task::Idle { from, memory } => self.idle(cpus(from), *memory, document),
            Task::Sweep { from, memory } => self.sweep(cpus(from), *memory, document),
            Task::Bandwidth { from, memory, traffic } => {
                let placement = on_node(*memory);
                let point = self.bandwidth(
                    cpus(from),
                    traffic,
                    &placement,
                    Method::Pages,
                    PointKind::Bandwidth,
                )?;
                self.add(document, MeasuredPoint { memory_node: Some(*memory), ..point })
            }
            Task::Loaded { from, memory, traffic, loads } => {
                let memory = curve::MeasuredMemory::node(*memory);
                self.curve(cpus(from), &memory, traffic, loads, document)
            }
            Task::Histogram { from, memory, traffic, loads } => {
                self.histograms(cpus(from), *memory, traffic, loads, document)
            }
            Task::Weights { from, weights, .. } => {
                self.weights(cpus(from), task, weights, self.method, document)
            }
        }
    }

    /// Adds a point to the record, and prints the point unless the option `quiet` is set. Saves the
    /// record if an output file is given. Returns [`Stop`] if a signal has arrived.
    fn add(&self, document: &mut MeasureDocument, point: MeasuredPoint) -> Result<(), Stop> {
        document.add(point);
        if let Some(point) = document.points.last().filter(|_| !self.options.quiet) {
            self.bar.suspend(|| {
                output::message(&format!("interleaf: {}", interleaf_report::measure::point(point)))
            });
        }
        if let Some(file) = &self.options.output {
            output::interim(file, &interleaf_record::json(document))?;
        }
        self.bar.inc(1);
        if self.stop.is_set() { Err(Stop::Signal) } else { Ok(()) }
    }

    /// Returns a point of the kind `kind` with the fields that points of all kinds have; its other
    /// fields have default values.
    fn point(&self, kind: PointKind, cpus: &NodeCpus, seen: &Backing) -> MeasuredPoint {
        MeasuredPoint {
            kind,
            cpu_node: cpus.node,
            nodes: seen.pages_by_node.keys().copied().collect(),
            pages_by_node: seen.pages_by_node.clone(),
            huge_share: seen.huge_share.map(rounded),
            ..MeasuredPoint::default()
        }
    }

    /// Runs `work`. Returns its result, the interference by other programs and the hypervisor
    /// during `work`, and the duration of `work`, s.
    fn watched<T>(
        &self,
        work: impl FnOnce() -> Result<T, Stop>,
    ) -> Result<(T, ContaminationDocument, f64), Stop> {
        let (before, began) =
            (CpuCounters::read(self.setup.root).map_err(system::read_failure)?, Instant::now());
        let done = work()?;
        let took = began.elapsed().as_secs_f64();
        let between =
            CpuCounters::read(self.setup.root).map_err(system::read_failure)?.since(&before, took);
        let contamination = ContaminationDocument {
            others_cpus: rounded(between.others),
            stolen_cpus: rounded(between.stolen),
            frequency_change: between.frequency_change.map(rounded),
        };
        Ok((done, contamination, rounded(took)))
    }

    /// Counts the pages of `regions` on each node, and computes the fraction of the regions' bytes
    /// on huge pages. A field that the kernel does not report is left empty.
    fn backing<'r>(&self, regions: impl IntoIterator<Item = &'r Region>) -> Backing {
        let mut seen = Backing::default();
        let (mut huge, mut bytes, mut is_known) = (0, 0, true);
        for region in regions {
            for (node, pages) in region.pages_by_node().unwrap_or_default() {
                *seen.pages_by_node.entry(node).or_default() += pages;
            }
            let start = region.start() as usize;
            let of = huge_bytes(self.setup.root, start, region.bytes()).ok().flatten();
            is_known &= of.is_some();
            (huge, bytes) = (huge + of.unwrap_or(0), bytes + region.bytes());
        }
        seen.huge_share = (is_known && bytes > 0).then(|| huge as f64 / bytes as f64);
        seen
    }

    /// Returns the options of the pointer chases, from the setup of the campaign.
    fn options(&self) -> idle::ChaseOptions {
        let setup = self.setup;
        idle::ChaseOptions {
            bytes: setup.chase,
            stride: setup.stride,
            pages: setup.pages,
            seed: setup.seed,
            repeats: setup.repeats,
            span: setup.span / setup.repeats as u32,
            ..idle::ChaseOptions::default()
        }
    }

    fn idle(
        &self,
        cpus: &NodeCpus,
        memory: u32,
        document: &mut MeasureDocument,
    ) -> Result<(), Stop> {
        let options = self.options();
        for (order, shape) in [("tlb-local", options.local()), ("random", options.random())] {
            let (clock, stop) = (self.setup.clock, &self.stop);
            let work = || {
                let placement = on_node(memory);
                let region =
                    interleave::region(options.bytes, options.pages, &placement, Method::Pages)?;
                let mut chase = Chase::new(region, shape)?;
                let found = idle::latency(&mut chase, clock, &options, &mut |_| !stop.is_set())?;
                Ok::<_, Stop>((found, chase))
            };
            let ((found, chase), contamination, took_s) =
                self.watched(|| pinned(cpus.cpus[0], work))?;
            let seen = self.backing([chase.region()]);
            let point = MeasuredPoint {
                memory_node: Some(memory),
                pattern: order.into(),
                memory_bytes: options.bytes as u64,
                cacheable_share: self.setup.chase_cacheable(cpus.cpus[0]).map(rounded),
                contamination,
                took_s,
                ..self.point(PointKind::Idle, cpus, &seen)
            };
            self.add(document, with_latency(point, found.ns))?;
        }
        Ok(())
    }

    fn sweep(
        &self,
        cpus: &NodeCpus,
        memory: u32,
        document: &mut MeasureDocument,
    ) -> Result<(), Stop> {
        let setup = self.setup;
        let claimed = setup.hardware.last_level_of(cpus.cpus[0]).map(|cache| cache.bytes);
        let free = (available_on(setup.root, memory)?.bytes / 2) as usize;
        let largest = idle::largest_size(claimed).min(free);
        let largest = if setup.quick { largest.min(setup.chase) } else { largest };
        let policy = Policy::Bind([memory].into_iter().collect());
        let options = idle::ChaseOptions { policy, ..self.options() };
        let (clock, stop, bar) = (setup.clock, &self.stop, &self.bar);
        let mut proceed = |_| {
            bar.tick();
            !stop.is_set()
        };
        let sweep = || Ok(idle::sweep(clock, &options, largest, &mut proceed)?);
        let (found, contamination, took_s) = self.watched(|| pinned(cpus.cpus[0], sweep))?;
        let level = |(at, level): (usize, &interleaf_measure::levels::Level)| LevelDocument {
            level: at as u32 + 1,
            bytes: level.reaches_bytes as u64,
            latency_ns: rounded(level.latency_ns),
        };
        let levels: Vec<LevelDocument> =
            found.levels.caches.iter().enumerate().map(level).collect();
        if let (Some(last), Some(miss_ns)) = (levels.last(), found.levels.miss_ns) {
            document.caches = Some(CachesDocument {
                last_level_bytes: last.bytes,
                told_bytes: claimed,
                memory_latency_ns: rounded(miss_ns),
                levels,
            });
        }
        let each = took_s / found.visited.len().max(1) as f64;
        for visited in &found.visited {
            let point = MeasuredPoint {
                memory_node: Some(memory),
                pattern: "tlb-local".into(),
                memory_bytes: visited.bytes as u64,
                latency_ns: Some(rounded(visited.latency_ns)),
                repeats: 1,
                contamination,
                took_s: rounded(each),
                ..self.point(PointKind::Cache, cpus, &Backing::default())
            };
            document.add(point);
        }
        let Some(last) = document.points.pop() else { return Ok(()) };
        self.add(document, last)
    }

    /// Returns the fastest known kernel of loads and stores for the mix `traffic`. If the setup
    /// names an instruction set, the kernel uses this instruction set.
    fn kernel(&self, traffic: &Traffic) -> Option<Kernel> {
        match self.setup.isa {
            Some(isa) => Kernel::best(isa, traffic),
            None => Kernel::best_here(traffic),
        }
    }

    /// Returns the settings of a team of loading threads: one thread on each of `cpus`, and all
    /// with the traffic `traffic`.
    fn load(&self, cpus: &[u32], traffic: &Traffic) -> Load {
        let setup = self.setup;
        let kernel = self.kernel(traffic);
        let isa = setup.isa.or(kernel.map(|kernel| kernel.isa));
        Load {
            traffic: *traffic,
            pattern: setup.pattern,
            isa: isa.unwrap_or_else(|| Isa::available()[0]),
            kernel,
            cpus: cpus.to_vec(),
            bytes: setup.buffer,
            pages: setup.pages,
            policy: Policy::Default,
            seed: setup.seed,
            delay: Duration::ZERO,
        }
    }

    /// Measures the bandwidth of one mix of loads and stores, on memory whose pages are placed by
    /// `placement`. `method` is the mechanism that places the pages, `kind` the kind of the
    /// returned point.
    fn bandwidth(
        &self,
        cpus: &NodeCpus,
        traffic: &Traffic,
        placement: &Placement,
        method: Method,
        kind: PointKind,
    ) -> Result<MeasuredPoint, Stop> {
        let setup = self.setup;
        let load = self.load(&cpus.cpus, traffic);
        let repeats = setup.repeats;
        let window = WINDOW.min(setup.span / repeats as u32);
        let each = (setup.span / repeats as u32).div_duration_f64(window).round().max(1.0) as usize;
        let warm_up = WARM_UP.min(setup.span / 2);
        let windows = Windows { warm_up, window, count: repeats * each };
        let work = || {
            let regions =
                interleave::regions(cpus.cpus.len(), setup.buffer, setup.pages, placement, method)?;
            let seen = self.backing(&regions);
            let team = Team::start_in(&load, regions)?;
            let mut proceed = || !self.stop.is_set();
            let watch = || bandwidth::watch(&team, &windows, &mut proceed);
            let (found, measured_gbps) = self.counted.during(watch);
            team.stop()?;
            Ok(((found.ok_or(Stop::Signal)?, measured_gbps), seen))
        };
        let (((windows, measured_gbps), seen), contamination, took_s) = self.watched(work)?;
        let median = |chunk: &[f64]| spread(chunk).map_or(0.0, |it| it.median);
        let medians: Vec<f64> = windows.chunks(each).map(median).collect();
        let rate = spread(&medians).unwrap_or(NOTHING);
        let point = MeasuredPoint {
            pattern: pattern_name(setup.pattern).into(),
            kernel: self.kernel(traffic).map(|kernel| kernel.to_string()),
            memory_bytes: setup.buffer as u64,
            cacheable_share: setup.buffers_cacheable(&cpus.cpus).map(rounded),
            off_by: off_by(&seen, placement),
            measured_gbps,
            contamination,
            took_s,
            ..self.point(kind, cpus, &seen)
        };
        Ok(with_rate(point, traffic, cpus.cpus.len(), rate))
    }

    /// Measures the bandwidth of each mix on memory that is interleaved by `weights`. If the task
    /// has loads, also measures the loaded latency.
    fn weights(
        &self,
        cpus: &NodeCpus,
        task: &Task,
        weights: &Weights,
        method: Method,
        document: &mut MeasureDocument,
    ) -> Result<(), Stop> {
        let Task::Weights { mixes, loads, .. } = task else { return Ok(()) };
        let placement = weights::placement(self.setup, weights)?;
        let mut put_back = std::mem::take(&mut document.put_back);
        let done = weights::with_weights(self.setup, &placement, method, &mut put_back, || {
            for traffic in mixes {
                let point =
                    self.bandwidth(cpus, traffic, &placement, method, PointKind::Interleave)?;
                let weights = Some(weights.as_slice().to_vec());
                self.add(document, MeasuredPoint { weights, ..point })?;
            }
            if let (Some(loads), Some(traffic)) = (loads, mixes.first()) {
                let memory = curve::MeasuredMemory {
                    placement: placement.clone(),
                    method,
                    weights: Some(weights),
                };
                self.curve(cpus, &memory, traffic, loads, document)?;
            }
            Ok(())
        });
        document.put_back = put_back;
        done
    }
}

const NOTHING: Spread = Spread { median: 0.0, relative: 0.0, count: 0 };

/// Runs `work` in a thread that is bound to the CPU `cpu`.
fn pinned<T: Send>(cpu: u32, work: impl FnOnce() -> Result<T, Stop> + Send) -> Result<T, Stop> {
    pin::on(Some(cpu), work).map_err(|why| {
        let hint = "name CPUs that this process may use with --cpus";
        Failure::new(format!("CPU {cpu}: {why}"), hint)
    })?
}

/// Returns the placement that puts all pages on the node `node`.
fn on_node(node: u32) -> Placement {
    Placement { nodes: vec![(node, 1)], means: Means::Interleave }
}

fn off_by(seen: &Backing, placement: &Placement) -> Option<f64> {
    let pages = &seen.pages_by_node;
    (!pages.is_empty()).then(|| rounded(interleave::off_by(pages, &placement.nodes)))
}

fn pattern_name(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Sequential => "sequential",
        Pattern::Random => "random",
    }
}

fn with_latency(point: MeasuredPoint, ns: Spread) -> MeasuredPoint {
    MeasuredPoint {
        latency_ns: Some(rounded(ns.median)),
        spread: rounded(ns.relative),
        repeats: ns.count,
        ..point
    }
}

fn with_rate(
    point: MeasuredPoint,
    traffic: &Traffic,
    threads: usize,
    rate: Spread,
) -> MeasuredPoint {
    MeasuredPoint {
        mix: Some(traffic.to_string()),
        read_share: traffic.mix().ok().map(|mix| rounded(mix.read_share())),
        threads: threads as u32,
        program_gbps: Some(rounded(rate.median)),
        modelled_gbps: Some(rounded(rate.median * traffic.controller_factor())),
        spread: rounded(rate.relative),
        repeats: rate.count,
        ..point
    }
}
