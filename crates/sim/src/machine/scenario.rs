//! Defines a scenario: a platform, the tasks on it, and the settings of page migration and of
//! hotness sampling.

use interleaf_model::{
    demand::{Demand, Hotness, Metric},
    platform::Platform,
    predict::{Forecast, Program, RunFit},
    units::{Bytes, Time},
};

/// Maximum number of page groups of a scenario; more groups would not make the result more
/// accurate.
pub const GROUPS_MAX: usize = 1 << 22;

/// Default number of page groups: 1 % of the pages are 655 groups.
pub const PAGE_GROUPS: usize = 1 << 16;

/// Minimum and maximum length of a simulation, s. A length of more than a day is a typing error.
pub const DURATION_S: [f64; 2] = [1e-3, 86_400.0];

/// Maximum bandwidth of migration or of a device, GB/s: far above any machine.
pub const BANDWIDTH_MAX_GBPS: f64 = 1e5;

/// Maximum standard deviation of a counter reading, as a fraction of the reading.
pub const NOISE_MAX: f64 = 0.5;

const TIERS_MAX: usize = 16;

/// The first number is the minimum length, in s, of a cycle through the phases: a cycle takes at
/// least one step of the simulation, so shorter cycles would be slow to simulate. The second number
/// is the maximum length, in s, of a run: three years.
const RUN_S: [f64; 2] = [1e-3, 1e8];

/// Default footprint of a demand: 32 GiB (assumed).
pub const FOOTPRINT_BYTES: u64 = 32 << 30;

/// Default standard deviation of a counter reading, as a fraction of the reading: on busy servers,
/// bandwidth readings over 200 ms vary by about 2 % (assumed).
pub const COUNTER_NOISE: f64 = 0.02;

/// A scenario of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The name of the scenario.
    pub name: String,
    /// The platform of the simulated machine.
    pub platform: Platform,
    /// The tasks; at least one.
    pub tasks: Vec<Task>,
    /// Devices with their own memory traffic.
    pub devices: Vec<TrafficDevice>,
    /// Bytes of each tier that other programs occupy permanently.
    pub held_bytes: Vec<u64>,
    /// The bandwidth of page migration, and the stall that a migrating page causes.
    pub migration: Migration,
    /// The intervals and the numbers of regions of DAMON's hotness sampling.
    pub damon: Damon,
    /// The number of page groups of all tasks together. All pages of a group are on the same tier.
    pub page_groups: usize,
    /// Standard deviation of a counter reading, as a fraction of the reading.
    pub counter_noise: f64,
    /// True if the machine counts requests to a tier and their latency.
    pub counts_latency: bool,
    /// The seed of all randomness: errors of counter readings, and errors of hotness sampling.
    pub seed: u64,
}

/// A workload that runs in a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// The name, unique in the scenario.
    pub name: String,
    /// The phases and the memory behaviour of the task's threads.
    pub program: Program,
    /// The measured runs of the demand, each with the result that the model forecasts for it.
    pub fits: Vec<RunFit>,
    /// The number of threads, all of them in `domain`.
    pub threads: u32,
    /// The unit of the result of a run: seconds, or work per time.
    pub metric: Metric,
    /// Memory that the task touches, bytes.
    pub footprint_bytes: u64,
    /// The distribution of accesses over the pages.
    pub hotness: Hotness,
    /// Reads as a fraction of the bytes of the task's traffic, 0 to 1.
    pub read_share: f64,
    /// True if lines are read in random order.
    pub random: bool,
    /// The index of the domain (a socket or a sub-NUMA cluster) on which the threads run.
    pub domain: usize,
    /// The control group of the task.
    pub scope: String,
    /// True if the pages of the task may be migrated.
    pub steered: bool,
    /// Start time of the first run, s.
    pub start_s: f64,
    /// The number of runs; `None` for endless runs.
    pub runs: Option<u32>,
    /// The length of a run of the task, as a multiple of a run of its demand.
    pub work: f64,
    /// The number of cycles through the phases in a run.
    pub cycles: u32,
}

impl Task {
    /// Creates a task of `threads` threads with the workload of `demand` on `platform`. The runs of
    /// the demand were measured on `measured_on`. The task is in the first domain, and repeats its
    /// run without end from time 0.
    pub fn new(platform: &Platform, measured_on: &Platform, demand: &Demand, threads: u32) -> Self {
        let forecast = Forecast::new(platform, measured_on, demand);
        Self {
            name: demand.name.clone(),
            fits: forecast.fits(),
            program: forecast.in_domain(0).program(f64::from(threads)),
            threads,
            metric: demand.metric.clone(),
            footprint_bytes: demand.footprint.map_or(FOOTPRINT_BYTES, |bytes| bytes.get()),
            hotness: demand.hotness,
            read_share: demand.mix.read_share(),
            random: demand.mix.random(),
            domain: 0,
            scope: demand.name.clone(),
            steered: true,
            start_s: 0.0,
            runs: None,
            work: 1.0,
            cycles: 1,
        }
    }

    /// Returns the duration of a run if the task is alone on the machine, with all pages on the
    /// first tier, s.
    pub fn local_runtime_s(&self) -> f64 {
        self.work * self.program.local_runtime_s
    }

    fn check(&self) -> Result<(), ScenarioError> {
        let run_s = self.local_runtime_s();
        let cycle_s = run_s / f64::from(self.cycles);
        let (task, cycle) = (self.name.clone(), Time::from_seconds(cycle_s));
        match RUN_S {
            [least, _] if cycle_s < least => Err(ScenarioError::TooShort { task, cycle }),
            [_, most] if run_s > most => Err(ScenarioError::TooLong { task, run_s }),
            _ => Ok(()),
        }
    }
}

/// A device with its own memory traffic: PCIe DMA.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficDevice {
    /// The name of the device, unique in the scenario.
    pub name: String,
    /// The index of the tier of the device's buffers.
    pub tier: usize,
    /// The index of the domain whose counters include the device's traffic.
    pub domain: usize,
    /// Bandwidth of the device's reads and writes together, GB/s.
    pub bandwidth_gbps: f64,
    /// Reads as a fraction of the bytes of the device's traffic, 0 to 1.
    pub read_share: f64,
    /// Start time of the device's traffic, s.
    pub from_s: f64,
    /// End time of the device's traffic, s.
    pub to_s: f64,
}

/// The bandwidth of page migration, the stall of threads on migrating pages, and the page size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Migration {
    /// Migration bandwidth, GB/s. Each byte is read on one tier and written on another tier.
    ///
    /// Default: 4 GB/s, a kernel thread that moves 4 KiB pages in about 1 us each (assumed).
    pub bandwidth_gbps: f64,
    /// Stall of a thread that touches a migrating page, ns. Default: 2000 (unmap, copy, TLB
    /// shootdown; assumed).
    pub stall_ns: f64,
    /// Bytes of a page. Default: 4096.
    pub page_bytes: u64,
}

impl Default for Migration {
    fn default() -> Self {
        Self { bandwidth_gbps: 4.0, stall_ns: 2000.0, page_bytes: 4096 }
    }
}

/// Hotness sampling by DAMON, which samples one page of each region in each sampling interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Damon {
    /// Interval between two samples of a region, ns. Default: 200 ms, as in the prototype of
    /// dynamic memory interleaving (DMI).
    pub sampling_ns: u64,
    /// Aggregation interval, over which the samples that found an access are counted, ns. Default:
    /// 3 s, as in the DMI prototype.
    pub aggregation_ns: u64,
    /// Minimum number of regions of a task. Default: 10, DAMON's default.
    pub regions_min: usize,
    /// Maximum number of regions of a task. Default: 1000, DAMON's default.
    pub regions_max: usize,
}

impl Default for Damon {
    fn default() -> Self {
        Self {
            sampling_ns: 200_000_000,
            aggregation_ns: 3_000_000_000,
            regions_min: 10,
            regions_max: 1000,
        }
    }
}

/// A scenario that cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScenarioError {
    /// The pages of tasks exceed the memory.
    #[error("{what} of {needed} do not fit into the {free} that the tiers have free")]
    TooLarge {
        /// The pages that do not fit, as text with the names of their tasks.
        what: String,
        /// The size of the pages, as text.
        needed: String,
        /// The free memory of the tiers, as text.
        free: String,
    },
    /// The platform has too many tiers.
    #[error("{platform} has {tiers} tiers; at most {TIERS_MAX} are simulated")]
    TooManyTiers {
        /// The name of the platform.
        platform: String,
        /// The number of tiers of the platform.
        tiers: usize,
    },
    /// A cycle through the phases of a task is too short.
    #[error("a cycle of a run of {task} takes {cycle}, less than {}", Time::from_seconds(RUN_S[0]))]
    TooShort {
        /// The name of the task.
        task: String,
        /// The length of a cycle through the phases.
        cycle: Time,
    },
    /// A run of a task is too long.
    #[error("a run of {task} takes {run_s:.0} s, more than {} s", RUN_S[1])]
    TooLong {
        /// The name of the task.
        task: String,
        /// The length of a run, s.
        run_s: f64,
    },
    /// The memory that other programs hold on a tier exceeds the capacity of the tier.
    #[error("{held} of {tier} are held, but it has {capacity}")]
    HeldTooMuch {
        /// The name of the tier.
        tier: String,
        /// The size of the held memory, as text.
        held: String,
        /// The capacity of the tier, as text.
        capacity: String,
    },
    /// More threads run in a domain at the same time than the domain has cores.
    #[error("at {at_s} s {threads} threads run in {domain}, which has {cores} cores")]
    TooManyThreads {
        /// The simulated time at which the threads run, s.
        at_s: f64,
        /// The number of threads at that time.
        threads: u32,
        /// The name of the domain.
        domain: String,
        /// The number of cores of the domain.
        cores: u32,
    },
}

impl ScenarioError {
    /// Returns the remedy: how to change the scenario so that the error does not occur.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "make the footprint smaller, or take a platform with more",
            Self::TooManyTiers { .. } => "leave tiers out, or make one of those that are alike",
            Self::TooShort { .. } => {
                "correct the runtime of its demand, or give it fewer cycles or more work: \
                 work = 1000.0 is that of 1000 runs"
            }
            Self::TooLong { .. } => "correct the runtime of its demand, or give it less work",
            Self::HeldTooMuch { .. } => "hold less of the tier than its capacity",
            Self::TooManyThreads { .. } => {
                "give the workloads that overlap fewer threads, or start one after the other ends"
            }
        }
    }
}

impl Scenario {
    /// Creates a scenario of `tasks` on `platform`, with defaults for all other fields.
    pub fn new(name: &str, platform: Platform, tasks: Vec<Task>) -> Self {
        Self {
            name: name.into(),
            held_bytes: vec![0; platform.tiers.len()],
            platform,
            tasks,
            devices: vec![],
            migration: Migration::default(),
            damon: Damon::default(),
            page_groups: PAGE_GROUPS,
            counter_noise: COUNTER_NOISE,
            counts_latency: true,
            seed: 1,
        }
    }

    /// Checks the scenario as a whole.
    ///
    /// # Errors
    ///
    /// If the platform has too many tiers, a run has an invalid length, the held memory exceeds a
    /// tier, the pages do not fit into the tiers, or at the start of a task more threads run in a
    /// domain than it has cores.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let tiers = self.platform.tiers.len();
        if tiers > TIERS_MAX {
            let platform = self.platform.name.clone();
            return Err(ScenarioError::TooManyTiers { platform, tiers });
        }
        self.tasks.iter().try_for_each(Task::check)?;
        self.check_memory()?;
        self.check_cores()
    }

    fn check_memory(&self) -> Result<(), ScenarioError> {
        let text = |bytes: u64| Bytes::new(bytes).to_string();
        for (tier, held) in self.platform.tiers.iter().zip(&self.held_bytes) {
            if *held > tier.capacity.get() {
                return Err(ScenarioError::HeldTooMuch {
                    tier: tier.name.clone(),
                    held: text(*held),
                    capacity: tier.capacity.to_string(),
                });
            }
        }
        let free_bytes = self.free_bytes().into_iter().fold(0, u64::saturating_add);
        let footprints = self.tasks.iter().map(|task| task.footprint_bytes);
        let needed_bytes = footprints.fold(0, u64::saturating_add);
        if needed_bytes > free_bytes {
            let names: Vec<&str> = self.tasks.iter().map(|task| task.name.as_str()).collect();
            let what = format!("the pages of {}", names.join(" and "));
            let (mut needed, mut free) = (text(needed_bytes), text(free_bytes));
            // If the two sizes differ by less than 1 %, their rounded texts could be equal, so both
            // sizes are written in bytes.
            if needed_bytes - free_bytes < free_bytes / 100 {
                (needed, free) = (format!("{needed_bytes} B"), format!("{free_bytes} B"));
            }
            return Err(ScenarioError::TooLarge { what, needed, free });
        }
        Ok(())
    }

    fn check_cores(&self) -> Result<(), ScenarioError> {
        for (at, domain) in self.platform.domains.iter().enumerate() {
            let own = || self.tasks.iter().filter(|task| task.domain == at);
            // At each start of a task, add the threads of the tasks that start at this time and of
            // the endless tasks that started earlier. Earlier tasks with a limited number of runs
            // are left out, because they may have ended.
            for starting in own() {
                let runs = |task: &&Task| {
                    task.start_s == starting.start_s
                        || task.start_s < starting.start_s && task.runs.is_none()
                };
                let threads = own().filter(runs).map(|task| task.threads);
                let threads = threads.fold(0, u32::saturating_add);
                if threads > domain.cores {
                    return Err(ScenarioError::TooManyThreads {
                        at_s: starting.start_s,
                        threads,
                        domain: domain.name.clone(),
                        cores: domain.cores,
                    });
                }
            }
        }
        Ok(())
    }

    /// Returns the bytes of each tier that tasks may use: the capacity minus the held bytes.
    pub fn free_bytes(&self) -> Vec<u64> {
        let tiers = self.platform.tiers.iter().zip(&self.held_bytes);
        tiers.map(|(tier, held)| tier.capacity.get().saturating_sub(*held)).collect()
    }
}
