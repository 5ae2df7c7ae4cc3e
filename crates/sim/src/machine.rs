//! Simulates a machine with page migration.
//!
//! Time advances in steps of at most one sample (200 ms); a step ends earlier when a workload
//! starts or ends, a phase begins, a device starts or stops its traffic, or an aggregation interval
//! of DAMON ends. Within a step, bandwidth and latency follow from the equilibrium of all running
//! tasks ([`interleaf_model::equilibrium`]) at the current placement of their pages. Pages migrate
//! between steps, at a limited bandwidth. The bytes of migrated pages are read traffic on the
//! source tier and write traffic on the target tier, and threads that touch a moving page stall.
//!
//! ```text
//! scenario -> tasks (threads, pages in groups, hotness) --shares--> equilibrium -> traffic, speed
//!                ^                                                                     |
//!             migrator <- decision <- policy <- control loop <- sample <- counters (with noise)
//! ```
//!
//! A policy observes the counters that a real machine has, with their noise, and hotness as DAMON
//! samples it, but never the exact state of the simulation.
//!
//! Example: the pages of 48 GiB are all on DRAM, and the target is 65:35. 18 GB move at 4 GB/s in
//! 4.5 s; meanwhile DRAM carries 4 GB/s more reads and CXL 4 GB/s more writes.

mod heat;
mod layout;
mod migrator;
mod noise;
mod outcome;
mod pages;
mod power;
pub mod scenario;
pub mod scenario_toml;
mod static_best;
mod task;
mod trial;

pub use outcome::{Outcome, PeriodRecord, Run, TaskOutcome};
pub use scenario::{Damon, Migration, Scenario, ScenarioError, Task, TrafficDevice};
pub use static_best::{StaticBest, StaticTask, static_best};
pub use trial::{PreparedScenario, Trial, with_curve_error};

use core::time::Duration;
use heat::Heat;
use interleaf_model::{
    curve::BACKGROUND_MAX,
    equilibrium::{Load, LoadEquilibrium, LoadTraffic, System},
    machine::{Decision, HeatBand, Layout, Machine, Order, Residency, Sample, TierMemory, Traffic},
    tier::Tier,
    units::LINE_BYTES,
};
use migrator::{MoveQueue, Steered};
use noise::Noise;
use pages::{Interleaving, Pages};
use std::convert::Infallible;
use task::{Placement, TaskState};

/// The tolerance with which the equilibrium of several tasks is solved, as a fraction of bandwidth:
/// far below the noise of the counters.
const TOLERANCE: f64 = 1e-6;

/// The upper bound of the fraction of time for which threads stall on migrating pages. Without a
/// bound, a high migration rate would stop all threads.
const STALL_MAX: f64 = 0.5;

/// The number of bands of hotness into which a sample divides the pages of a task.
const HEAT_BANDS: usize = 8;

/// A simulated machine with page migration.
pub struct SimMachine<'a> {
    scenario: &'a Scenario,
    layout: Layout,
    now_ns: u64,
    tasks: Vec<TaskState>,
    /// For each domain, the share of each tier in the pages that its tasks allocate at their start.
    start: Vec<Vec<f64>>,
    /// For each task: the target share of each tier, and the rule by which pages are assigned to
    /// tiers ([`Order`]); `None` for a task that is not steered, and before the first decision.
    targets: Vec<Option<(Vec<f64>, Order)>>,
    rate_limit_gbps: f64,
    queue: MoveQueue,
    /// Bytes that the migration rate has allowed since the queue of moves was last empty, less the
    /// bytes that have migrated. A page group migrates once this number reaches the bytes of the
    /// group.
    carried_bytes: f64,
    /// `limit_bytes` are the bytes of each tier that tasks may use, `used_bytes` the bytes of each
    /// tier that tasks use.
    limit_bytes: Vec<u64>,
    used_bytes: Vec<u64>,
    equilibrium: Solved<'a>,
    counters: Counters,
    counter_noise: Noise,
    heat_noise: Noise,
    next_aggregation_ns: u64,
    /// For each task, the bytes of its pages in each band of hotness, as DAMON sampled hotness in
    /// the last aggregation interval; `None` until the first aggregation interval of the task has
    /// ended.
    bands: Vec<Option<Vec<HeatBand>>>,
    energy_j: f64,
    moved_bytes: u64,
}

/// The bandwidth and the latency of the running tasks in equilibrium. The machine keeps this
/// solution until the running tasks, their phases, their shares of the tiers or the background
/// traffic change.
#[derive(Default)]
struct Solved<'a> {
    /// For each running task, its index in the scenario and the index of its current phase.
    running: Vec<(usize, usize)>,
    background_gbps: Vec<f64>,
    system: Option<System<'a>>,
    beside: Option<System<'a>>,
    flows: LoadTraffic,
    loads: Vec<Load>,
    /// The equilibrium of each entry of `running`.
    reached: Vec<LoadEquilibrium>,
}

/// The counters since the last sample: `traffic` has bytes and requests by domain and tier,
/// `moved_in` and `moved_out` the bytes that migrated to and from each tier.
#[derive(Clone, Debug, Default)]
struct Counters {
    traffic: Vec<Vec<Counted>>,
    moved_in: Vec<u64>,
    moved_out: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    read_bytes: f64,
    written_bytes: f64,
    inserts: f64,
    occupancy_ns: f64,
}

impl Counters {
    fn new(domains: usize, tiers: usize) -> Self {
        Self {
            traffic: vec![vec![Counted::default(); tiers]; domains],
            moved_in: vec![0; tiers],
            moved_out: vec![0; tiers],
        }
    }
}

impl<'a> SimMachine<'a> {
    /// Creates the machine of `scenario` at time 0. For each domain, `start` has the share of each
    /// tier in the pages that a task allocates. A share of 1 on the first tier means no
    /// interleaving.
    pub fn new(scenario: &'a Scenario, start: Vec<Vec<f64>>) -> Self {
        let layout = scenario.layout();
        let tiers = layout.tiers.len();
        Self {
            now_ns: 0,
            tasks: scenario.tasks.iter().map(|_| TaskState::new()).collect(),
            start,
            targets: vec![None; scenario.tasks.len()],
            rate_limit_gbps: scenario.migration.bandwidth_gbps,
            queue: MoveQueue::default(),
            carried_bytes: 0.0,
            limit_bytes: scenario.free_bytes(),
            used_bytes: vec![0; tiers],
            equilibrium: Solved::default(),
            counters: Counters::new(layout.domains.len(), tiers),
            counter_noise: Noise::new(scenario.seed, 0),
            heat_noise: Noise::new(scenario.seed, 1),
            next_aggregation_ns: scenario.damon.aggregation_ns,
            bands: vec![None; scenario.tasks.len()],
            energy_j: 0.0,
            moved_bytes: 0,
            scenario,
            layout,
        }
    }

    /// Creates a machine whose tasks have no pages ([`Placement::Fixed`]), so nothing migrates: the
    /// accesses of a task are divided among the tiers by the fixed `shares` of the task's domain. A
    /// `next_aggregation_ns` of `u64::MAX` marks such a machine.
    fn with_fixed(scenario: &'a Scenario, shares: Vec<Vec<f64>>) -> Self {
        let mut machine = Self::new(scenario, shares);
        machine.next_aggregation_ns = u64::MAX;
        machine
    }

    /// Returns the number of bytes of migrated pages so far.
    pub const fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }

    /// Returns the energy of the whole machine so far, J; 0 on a platform without power figures.
    pub const fn energy_j(&self) -> f64 {
        self.energy_j
    }

    /// Returns the share of each tier in the accesses of the steered tasks (the tasks whose pages
    /// the policy may migrate): the mean over these tasks, weighted by their threads. `None` while
    /// no steered task runs.
    pub fn reached_shares(&self) -> Option<Vec<f64>> {
        self.reached_shares_of(|_| true)
    }

    /// Like [`Self::reached_shares`], for the steered tasks of one domain; `None` while no steered
    /// task of this domain runs.
    pub fn reached_shares_in(&self, domain: usize) -> Option<Vec<f64>> {
        self.reached_shares_of(|task| task.domain == domain)
    }

    fn reached_shares_of(&self, chosen: impl Fn(&Task) -> bool) -> Option<Vec<f64>> {
        let mut sum = vec![0.0; self.layout.tiers.len()];
        for (state, task) in self.tasks.iter().zip(&self.scenario.tasks) {
            if !task.steered || !chosen(task) {
                continue;
            }
            if let Some(shares) = shares(&state.memory) {
                let weight = f64::from(task.threads);
                sum.iter_mut().zip(&shares).for_each(|(sum, share)| *sum += weight * share);
            }
        }
        let all: f64 = sum.iter().sum();
        (all > 0.0).then(|| sum.iter().map(|part| part / all).collect())
    }

    fn has_ended(&self) -> bool {
        self.tasks.iter().all(TaskState::has_ended)
    }

    /// Simulates the next `span_ns` nanoseconds.
    fn advance(&mut self, span_ns: u64) {
        let end = self.now_ns + span_ns;
        while self.now_ns < end {
            self.start_tasks();
            self.solve();
            let step = self.step(end - self.now_ns);
            self.count(step);
            self.now_ns += step;
            self.work(step);
            self.migrate(step);
            if self.now_ns >= self.next_aggregation_ns {
                self.aggregate();
            }
        }
        self.start_tasks();
    }

    fn free_bytes(&self, tier: usize) -> u64 {
        self.limit_bytes[tier].saturating_sub(self.used_bytes[tier])
    }

    /// Starts the tasks that are due, and allocates their memory.
    fn start_tasks(&mut self) {
        for at in 0..self.tasks.len() {
            let task = &self.scenario.tasks[at];
            let state = &self.tasks[at];
            if state.is_running() || state.has_ended() || ns(task.start_s) > self.now_ns {
                continue;
            }
            let shares = self.start[task.domain].clone();
            let memory = if self.next_aggregation_ns == u64::MAX {
                Placement::Fixed(shares)
            } else {
                let groups = task::groups(self.scenario)[at];
                let pages = self.allocate(at, groups, &shares);
                let heat = Heat::new(pages.groups(), &self.scenario.damon);
                Placement::Paged(Box::new(pages), heat)
            };
            self.tasks[at].start(memory, self.now_ns);
        }
    }

    /// Allocates the page groups of a task by `shares`, as on first touch. If the tier of a group
    /// is full, the group goes to the first local tier with free memory (a local tier is reached
    /// without crossing a socket link), otherwise to the first of all tiers with free memory.
    fn allocate(&mut self, at: usize, groups: usize, shares: &[f64]) -> Pages {
        let task = &self.scenario.tasks[at];
        let tiers = self.layout.tiers.len();
        let near = &self.layout.domains[task.domain].tiers;
        let mut pages = Pages::new(task.footprint_bytes, groups, task.hotness, tiers);
        let interleaving = Interleaving::new(shares);
        for group in 0..pages.groups() {
            let bytes = pages.group_bytes(group);
            let wanted = interleaving.tier(group);
            let order = std::iter::once(wanted).chain(near.iter().copied()).chain(0..tiers);
            let room = |tier: &usize| self.free_bytes(*tier) >= bytes;
            // `Scenario::check` has made sure that the bytes of all tasks together fit into the
            // tiers. But a group may be larger than the free memory of each single tier. The last
            // tier then takes the group and is overcommitted.
            let tier = order.clone().find(room).unwrap_or(tiers - 1);
            self.used_bytes[tier] += bytes;
            pages.assign(group, tier);
        }
        pages
    }

    /// Solves the equilibrium of the running tasks, if the tasks, their pages or the background
    /// traffic have changed.
    fn solve(&mut self) {
        let scenario = self.scenario;
        let running: Vec<(usize, usize)> = (0..self.tasks.len())
            .filter(|at| self.tasks[*at].is_running())
            .map(|at| (at, self.tasks[at].phase(&scenario.tasks[at]).0))
            .collect();
        let background_gbps = self.background_gbps();
        let load = |(at, phase): &(usize, usize)| {
            let task = &scenario.tasks[*at];
            let shares = shares(&self.tasks[*at].memory).unwrap_or_default();
            task.program.load(*phase, task.domain, shares)
        };
        let loads: Vec<Load> = running.iter().map(load).collect();
        let solved = &mut self.equilibrium;
        if solved.running.len() != running.len()
            || solved.running.iter().zip(&running).any(|(a, b)| a.0 != b.0)
        {
            *solved = Solved::default();
        }
        let same_place = solved.background_gbps == background_gbps && solved.system.is_some();
        if same_place && solved.loads == loads {
            return;
        }
        solved.running = running;
        if loads.is_empty() {
            // Keep the background traffic: power depends on it even while no task runs.
            *solved = Solved { background_gbps, ..Solved::default() };
            return;
        }
        let system = solved.system.get_or_insert_with(|| System::new(&scenario.platform, &loads));
        if !same_place {
            let quiet = background_gbps.iter().all(|gbps| *gbps == 0.0);
            solved.beside = (!quiet).then(|| system.beside(&loads, &background_gbps));
            solved.background_gbps = background_gbps;
        }
        let system = solved.beside.as_ref().unwrap_or(system);
        solved.reached = system.solve_from(&loads, &mut solved.flows, TOLERANCE);
        solved.loads = loads;
    }

    /// Returns the traffic on each tier that the tasks do not cause, GB/s: DMA of the active
    /// devices, and migration.
    fn background_gbps(&self) -> Vec<f64> {
        let mut gbps = vec![0.0; self.layout.tiers.len()];
        for device in self.devices() {
            gbps[device.tier] += device.bandwidth_gbps;
        }
        if let Some((from, to)) = self.moving() {
            let migrated = migration_gbps(&self.layout, self.rate_limit_gbps, from, to);
            gbps[from] += migrated;
            gbps[to] += migrated;
        }
        gbps
    }

    fn devices(&self) -> impl Iterator<Item = &'a TrafficDevice> {
        let now_ns = self.now_ns;
        let active =
            move |device: &&TrafficDevice| ns(device.from_s) <= now_ns && now_ns < ns(device.to_s);
        self.scenario.devices.iter().filter(active)
    }

    /// Returns the source tier and the target tier of the page group that migrates now; `None` if
    /// no page group migrates.
    fn moving(&self) -> Option<(usize, usize)> {
        let step = self.queue.first()?;
        match &self.tasks[step.task].memory {
            Placement::Paged(pages, _) => Some((pages.tier(step.group), step.to)),
            _ => None,
        }
    }

    /// Returns the fraction of time for which threads stall on migrating pages, at most
    /// [`STALL_MAX`].
    fn stall(&self) -> f64 {
        let Some((from, to)) = self.moving() else { return 0.0 };
        let migration = &self.scenario.migration;
        let gbps = migration_gbps(&self.layout, self.rate_limit_gbps, from, to);
        let pages_per_ns = gbps / migration.page_bytes as f64;
        let running = &self.equilibrium.running;
        let threads: f64 =
            running.iter().map(|(at, _)| f64::from(self.scenario.tasks[*at].threads)).sum();
        (pages_per_ns * migration.stall_ns / threads.max(1.0)).min(STALL_MAX)
    }

    /// Returns the speed of the task at index `entry` of `equilibrium.running`, divided by the
    /// speed that the task has when it runs alone on the machine with all pages on the first tier.
    fn speed(&self, entry: usize) -> f64 {
        let (at, phase) = self.equilibrium.running[entry];
        let program = &self.scenario.tasks[at].program;
        let gbps = self.equilibrium.reached[entry].bandwidth_gbps;
        program.speed(phase, gbps) * (1.0 - self.stall())
    }

    /// Returns the time until the next event in ns, at least 1 and at most `limit_ns`. Events are
    /// the start and the end of a task, of a phase and of the traffic of a device, and the end of
    /// an aggregation interval of DAMON.
    fn step(&self, limit_ns: u64) -> u64 {
        let mut step = limit_ns;
        let mut until = |at_ns: u64| {
            if at_ns > self.now_ns {
                step = step.min(at_ns - self.now_ns);
            }
        };
        for (task, state) in self.scenario.tasks.iter().zip(&self.tasks) {
            if !state.is_running() && !state.has_ended() {
                until(ns(task.start_s));
            }
        }
        for device in &self.scenario.devices {
            until(ns(device.from_s));
            until(ns(device.to_s));
        }
        until(self.next_aggregation_ns);
        for (entry, (at, _)) in self.equilibrium.running.iter().enumerate() {
            let task = &self.scenario.tasks[*at];
            let (_, left) = self.tasks[*at].phase(task);
            let left_ns = left * task.local_runtime_s() * 1e9 / self.speed(entry).max(1e-9);
            until(self.now_ns.saturating_add((left_ns.ceil() as u64).max(1)));
        }
        step.max(1)
    }

    /// Adds the traffic of a step of `step_ns` nanoseconds to the counters.
    fn count(&mut self, step_ns: u64) {
        let span = step_ns as f64;
        let slowed = 1.0 - self.stall();
        let counted_part = self.counted_part();
        let counters = &mut self.counters.traffic;
        for ((at, _), reached) in self.equilibrium.running.iter().zip(&self.equilibrium.reached) {
            let task = &self.scenario.tasks[*at];
            let tiers = reached.tier_bandwidth_gbps.iter().zip(&reached.tier_latency_ns);
            let tiers = tiers.zip(&counted_part);
            for (counted, ((gbps, latency_ns), part)) in counters[task.domain].iter_mut().zip(tiers)
            {
                let bytes = gbps * span * slowed;
                counted.read_bytes += task.read_share * bytes;
                counted.written_bytes += (1.0 - task.read_share) * bytes;
                counted.inserts += bytes / LINE_BYTES;
                counted.occupancy_ns += bytes / LINE_BYTES * latency_ns * part;
            }
        }
        let now_ns = self.now_ns;
        for device in &self.scenario.devices {
            if ns(device.from_s) <= now_ns && now_ns < ns(device.to_s) {
                let bytes = device.bandwidth_gbps * span;
                let counted = &mut counters[device.domain][device.tier];
                counted.read_bytes += device.read_share * bytes;
                counted.written_bytes += (1.0 - device.read_share) * bytes;
            }
        }
        self.count_energy(step_ns);
    }

    /// Returns, for each tier, the fraction of its outstanding reads that its queue counters count.
    /// The fraction is below 1 if more reads are outstanding than the counters can count
    /// (`reads_max`).
    fn counted_part(&self) -> Vec<f64> {
        let tiers = &self.scenario.platform.tiers;
        let mut reads = vec![0.0; tiers.len()];
        for ((at, _), reached) in self.equilibrium.running.iter().zip(&self.equilibrium.reached) {
            let read_share = self.scenario.tasks[*at].read_share;
            let tiers = reached.tier_bandwidth_gbps.iter().zip(&reached.tier_latency_ns);
            for (reads, (gbps, latency_ns)) in reads.iter_mut().zip(tiers) {
                *reads += read_share * gbps / LINE_BYTES * latency_ns;
            }
        }
        let part = |(tier, reads): (&Tier, f64)| match &tier.queue_counters {
            Some(counters) if reads > counters.reads_max => counters.reads_max / reads,
            _ => 1.0,
        };
        tiers.iter().zip(reads).map(part).collect()
    }

    /// Adds the energy of the whole machine in `step_ns` nanoseconds, on a platform with power
    /// figures.
    fn count_energy(&mut self, step_ns: u64) {
        if let Some(watts) = power::watts(self) {
            self.energy_j += watts * step_ns as f64 * 1e-9;
        }
    }

    /// Adds to each running task the work that it did in the step that has just ended. If the last
    /// run of a task has ended, frees the task's pages and plans migration again.
    fn work(&mut self, step_ns: u64) {
        let running = self.equilibrium.running.clone();
        let seconds = step_ns as f64 * 1e-9;
        for (entry, (at, _)) in running.into_iter().enumerate() {
            let speed = self.speed(entry);
            let energy_j = power::task_watts(self, entry).unwrap_or(0.0) * seconds;
            let task = &self.scenario.tasks[at];
            let before: Option<Vec<u64>> = match &self.tasks[at].memory {
                Placement::Paged(pages, _) => Some(pages.bytes_on().to_vec()),
                _ => None,
            };
            self.tasks[at].advance(task, speed, step_ns, self.now_ns, energy_j);
            if let (true, Some(bytes)) = (self.tasks[at].has_ended(), before) {
                self.used_bytes.iter_mut().zip(bytes).for_each(|(used, bytes)| *used -= bytes);
                self.plan();
            }
        }
    }

    /// Migrates queued page groups, as many as the migration rate allows in the step that has just
    /// ended. Drops a move if the group is on the target tier already, or if the target tier would
    /// have less free memory than its reserve. If the two tiers of a move carry only 1/n of the
    /// migration rate, the move takes n times its bytes from `carried_bytes`.
    fn migrate(&mut self, step_ns: u64) {
        self.carried_bytes += self.rate_limit_gbps * step_ns as f64;
        while let Some(step) = self.queue.first() {
            let Placement::Paged(pages, _) = &mut self.tasks[step.task].memory else {
                self.queue.pop();
                continue;
            };
            let (from, bytes) = (pages.tier(step.group), pages.group_bytes(step.group));
            let free = self.limit_bytes[step.to].saturating_sub(self.used_bytes[step.to]);
            if from == step.to || free < reserve(&self.layout, step.to) + bytes {
                self.queue.pop();
                continue;
            }
            let limit_gbps = self.rate_limit_gbps;
            let gbps = migration_gbps(&self.layout, limit_gbps, from, step.to);
            let slowed = if gbps < limit_gbps { limit_gbps / gbps } else { 1.0 };
            if self.carried_bytes < bytes as f64 * slowed {
                break;
            }
            pages.assign(step.group, step.to);
            self.queue.pop();
            self.carried_bytes -= bytes as f64 * slowed;
            self.used_bytes[from] -= bytes;
            self.used_bytes[step.to] += bytes;
            self.counters.moved_out[from] += bytes;
            self.counters.moved_in[step.to] += bytes;
            self.moved_bytes += bytes;
            let domain = self.scenario.tasks[step.task].domain;
            self.counters.traffic[domain][from].read_bytes += bytes as f64;
            self.counters.traffic[domain][step.to].written_bytes += bytes as f64;
        }
        if self.queue.first().is_none() {
            // The queue of moves is empty. The bytes that the migration rate still allows expire,
            // so that a later migration does not begin above the migration rate.
            self.carried_bytes = 0.0;
        }
    }

    /// Ends an aggregation interval of DAMON, and plans migration by the hotness samples of the
    /// interval.
    fn aggregate(&mut self) {
        let damon = &self.scenario.damon;
        self.next_aggregation_ns += damon.aggregation_ns;
        for (entry, (at, _)) in self.equilibrium.running.iter().enumerate() {
            let task = &self.scenario.tasks[*at];
            let Placement::Paged(pages, heat) = &mut self.tasks[*at].memory else { continue };
            // A visit sets the accessed bit of a page, and transfers `visit_bytes`. A sequential
            // pattern reads all lines of a page in one visit; a random pattern reads one line in
            // each visit.
            let visit_bytes =
                if task.random { LINE_BYTES } else { self.scenario.migration.page_bytes as f64 };
            let sampled_bytes =
                self.equilibrium.reached[entry].bandwidth_gbps * damon.sampling_ns as f64;
            let group_bytes = pages.bytes() as f64 / pages.groups() as f64;
            let group_pages = (group_bytes / self.scenario.migration.page_bytes as f64).max(1.0);
            let visits = |share: f64| sampled_bytes * share / group_pages / visit_bytes;
            heat.aggregate(damon, pages, &mut self.heat_noise, visits);
            self.bands[*at] = Some(bands(pages, heat, damon));
        }
        self.plan();
    }

    /// Plans the next migrations of page groups by the target shares and the sampled hotness.
    fn plan(&mut self) {
        let tasks: Vec<Steered<'_>> = self
            .tasks
            .iter()
            .enumerate()
            .filter_map(|(at, state)| match &state.memory {
                Placement::Paged(pages, heat) => {
                    let target = self.targets[at].as_ref();
                    let target = target.map(|(shares, order)| (shares.as_slice(), *order));
                    let near = &self.layout.domains[self.scenario.tasks[at].domain].tiers;
                    let steered = self.scenario.tasks[at].steered;
                    Some(Steered { task: at, pages, heat, near, steered, target })
                }
                _ => None,
            })
            .collect();
        let capacity: Vec<u64> = self.layout.tiers.iter().map(|tier| tier.capacity_bytes).collect();
        let free: Vec<u64> = (0..capacity.len()).map(|tier| self.free_bytes(tier)).collect();
        self.queue.plan(&tasks, &self.scenario.damon, &free, &capacity);
    }

    /// Reads the counters, with noise, and resets them.
    fn sample(&mut self, span: Duration) -> Sample {
        let tiers = self.layout.tiers.len();
        let empty = Counters::new(self.layout.domains.len(), tiers);
        let counters = std::mem::replace(&mut self.counters, empty);
        let (spread, counts_latency) = (self.scenario.counter_noise, self.scenario.counts_latency);
        let noise = &mut self.counter_noise;
        let mut read = |counted: &Counted| {
            // The random errors of the four counters are independent of each other.
            let [a, b, c, d] = [(); 4].map(|()| noise.factor(spread));
            Traffic {
                read_bytes: Some(a * counted.read_bytes),
                written_bytes: Some(b * counted.written_bytes),
                inserts: counts_latency.then_some(c * counted.inserts),
                occupancy_ns: counts_latency.then_some(d * counted.occupancy_ns),
            }
        };
        let traffic = counters.traffic.iter().map(|row| row.iter().map(&mut read).collect());
        let traffic = traffic.collect();
        let tier_memory = (0..tiers).map(|tier| TierMemory {
            used_bytes: Some(self.layout.tiers[tier].capacity_bytes - self.free_bytes(tier)),
            free_bytes: Some(self.free_bytes(tier)),
            migrated_in_bytes: Some(counters.moved_in[tier]),
            migrated_out_bytes: Some(counters.moved_out[tier]),
        });
        Sample {
            span,
            traffic,
            tier_memory: tier_memory.collect(),
            scopes: (0..self.tasks.len()).map(|at| self.residency(at)).collect(),
        }
    }

    fn residency(&self, at: usize) -> Residency {
        let Placement::Paged(pages, _) = &self.tasks[at].memory else {
            let none = vec![0; self.layout.tiers.len()];
            return Residency { used_bytes: Some(none), heat: None };
        };
        Residency { used_bytes: Some(pages.bytes_on().to_vec()), heat: self.bands[at].clone() }
    }
}

impl Machine for SimMachine<'_> {
    type Error = Infallible;

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn observe(&mut self, span: Duration) -> Result<Sample, Infallible> {
        self.advance(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        Ok(self.sample(span))
    }

    fn apply(&mut self, decision: &Decision) -> Result<(), Infallible> {
        let most = self.scenario.migration.bandwidth_gbps;
        self.rate_limit_gbps = most;
        for target in &decision.targets {
            if let Some(limit) = target.rate_limit_gbps {
                self.rate_limit_gbps = limit.min(most);
            }
            self.targets[target.scope] = Some((target.shares.clone(), target.order));
        }
        self.plan();
        Ok(())
    }
}

/// Returns the bytes of a task's pages on each tier, in [`HEAT_BANDS`] bands of hotness, the
/// hottest first.
fn bands(pages: &Pages, heat: &Heat, damon: &Damon) -> Vec<HeatBand> {
    let samples = heat::samples(damon);
    let looks_per_s = 1e9 / damon.sampling_ns as f64;
    let tiers = pages.bytes_on().len();
    let band = |band: usize| HeatBand {
        accesses_per_s: looks_per_s * (band as f64 + 0.5) / HEAT_BANDS as f64,
        bytes: vec![0; tiers],
    };
    let mut bands: Vec<HeatBand> = (0..HEAT_BANDS).rev().map(band).collect();
    for region in heat.regions() {
        let part = f64::from(region.accesses) / f64::from(samples + 1);
        let band = HEAT_BANDS - 1 - (part * HEAT_BANDS as f64) as usize;
        let within = pages.bytes_within(region.start, region.end);
        bands[band].bytes.iter_mut().zip(within).for_each(|(sum, bytes)| *sum += bytes);
    }
    bands
}

/// Returns the bandwidth of migration from tier `from` to tier `to`, GB/s: `limit_gbps`, but at
/// most the fraction [`BACKGROUND_MAX`] of the rated bandwidth of each of the two tiers.
fn migration_gbps(layout: &Layout, limit_gbps: f64, from: usize, to: usize) -> f64 {
    let most = layout.tiers[from].rated_gbps.min(layout.tiers[to].rated_gbps);
    limit_gbps.min(BACKGROUND_MAX * most)
}

/// Returns the reserve of `tier`, bytes: migration to `tier` leaves this much memory free for
/// allocations. Demotion of cold pages from `tier` stops at the same amount of free memory. Pages
/// of the last tier cannot be demoted, so the last tier has no reserve.
fn reserve(layout: &Layout, tier: usize) -> u64 {
    let last = tier + 1 == layout.tiers.len();
    let part = if last { 0.0 } else { migrator::DEMOTE_UP_TO };
    (part * layout.tiers[tier].capacity_bytes as f64) as u64
}

/// Returns the share of each tier in a task's accesses; `None` if the task does not run.
fn shares(memory: &Placement) -> Option<Vec<f64>> {
    match memory {
        Placement::None => None,
        Placement::Fixed(shares) => Some(shares.clone()),
        Placement::Paged(pages, _) => Some(pages.access_shares()),
    }
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
