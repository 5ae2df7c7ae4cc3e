//! A profile of an application, as `interleaf.measure/1` with an `app` object.
//!
//! `interleaf measure app` samples counters, processes, energy and storage while a command runs.
//! The document has the samples, their sum over the run ([`WholeDocument`]), and the phases:
//! intervals of even bandwidth. Null means "not counted", and not 0. `report` renders the document.
//! `measure app --demand` also writes a demand file, which `predict` and `simulate` read.

mod figures;
mod samples;

pub use samples::{SampleDocument, Samples, SlotsDocument, TrafficDocument};

use super::{
    TierKindName,
    check::{Check, Checked, in_order, same_length, same_length_or_empty},
    measure::MeasuredMachine,
    rounded,
};
use interleaf_model::phases::{BandwidthReading, SteadyInterval};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A profile of an application. `points` is always empty: only the other documents with this
/// schema, the measurements of machines, have points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileDocument {
    pub schema: String,
    pub machine: MeasuredMachine,
    #[serde(default)]
    pub points: Vec<serde_json::Value>,
    pub app: AppDocument,
}

/// The kind of a profile; always `app`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AppKind {
    App,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppDocument {
    pub kind: AppKind,
    pub command: Vec<String>,
    pub dry_run: bool,
    /// Exit code of the command; null while the command runs, when a signal ended it, and in a dry
    /// run.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Runtime of the command, s; null in a dry run.
    pub runtime_s: Option<f64>,
    /// Interval between two samples, s.
    pub every_s: f64,
    /// Number of CPUs of the machine.
    pub cpus: usize,
    /// Memory tiers, fastest first.
    pub tiers: Vec<ProfileTier>,
    /// Energy domains that are metered, in the order of the list `energy_j` of a sample.
    pub energy_domains: Vec<String>,
    /// Quantities of the profile, each with its source, or with the reason why it is missing.
    pub quantities: Vec<QuantityDocument>,
    /// Results over the whole run; null in a dry run.
    pub whole: Option<WholeDocument>,
    /// Phases of even bandwidth; empty when bandwidth is not counted. Their times exclude spans
    /// without counted traffic, so they may be earlier than `time_s` of the samples.
    pub phases: Vec<PhaseDocument>,
    /// Limits of the validity of the numbers in the profile.
    pub warnings: Vec<String>,
    /// Path of the demand file that was written with the record.
    pub demand_file: Option<String>,
    pub samples: Vec<SampleDocument>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileTier {
    pub name: String,
    pub kind: TierKindName,
    pub nodes: Vec<u32>,
}

/// A quantity of the profile. `what` is its source if it is available, and otherwise the reason why
/// it is missing. `remedy` is a hint how to get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuantityDocument {
    pub name: String,
    pub is_available: bool,
    pub what: String,
    pub remedy: Option<String>,
}

impl QuantityDocument {
    pub fn available(name: &str, what: impl Into<String>) -> Self {
        Self { name: name.into(), is_available: true, what: what.into(), remedy: None }
    }

    pub fn missing(name: &str, why: impl Into<String>, hint: impl Into<String>) -> Self {
        let (what, remedy) = (why.into(), Some(hint.into()));
        Self { name: name.into(), is_available: false, what, remedy }
    }
}

/// Results over the whole run. They are one JSON object with 20 fields. Null means "not counted",
/// and not 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WholeDocument {
    /// Time in which traffic was counted, s. For a replayed recording, it is the time that the
    /// readings of the recording cover.
    pub counted_s: f64,
    pub bandwidth_gbps: Option<f64>,
    /// Highest bandwidth of a sample, GB/s.
    pub bandwidth_max_gbps: Option<f64>,
    pub read_share: Option<f64>,
    pub tiers: Vec<TierWhole>,
    pub cpu_s: f64,
    pub cpus_used: f64,
    /// Largest number of runnable threads in any sample.
    pub threads_running_max: usize,
    pub threads_max: usize,
    /// Peak of the resident memory of all processes of the command together.
    pub resident_max_bytes: u64,
    pub resident_mean_bytes: Option<f64>,
    /// Peak of the resident memory of the largest process.
    pub process_resident_max_bytes: Option<u64>,
    pub major_faults: u64,
    pub storage_read_bytes: Option<u64>,
    pub storage_written_bytes: Option<u64>,
    pub energy: Vec<EnergyDocument>,
    pub topdown: Option<TopdownDocument>,
    /// Mean number of CPUs that other programs used; 0 when their CPU time is below the resolution
    /// of the kernel's counters, some ticks of 10 ms.
    pub other_cpus_used: Option<f64>,
    /// Mean number of CPUs that the hypervisor took (steal time); 0 below the same resolution as in
    /// `other_cpus_used`.
    pub stolen_cpus: Option<f64>,
    /// Largest number of processes in any sample that could not be read, because they belong to
    /// other users.
    pub hidden_processes: usize,
}

/// The results of one tier over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierWhole {
    pub bandwidth_gbps: Option<f64>,
    pub read_gbps: Option<f64>,
    pub written_gbps: Option<f64>,
    /// Mean latency of last-level cache misses, ns: the occupancy of the tier's queue divided by
    /// the number of requests.
    pub latency_ns: Option<f64>,
    /// The command's memory on the tier at the moment when the command had the most memory.
    pub resident_bytes: Option<u64>,
    pub anonymous_bytes: Option<u64>,
    pub resident_share: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnergyDocument {
    pub domain: String,
    pub energy_j: f64,
    pub power_w: f64,
}

/// Top-down breakdown of the issue slots of the command's threads, as fractions from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopdownDocument {
    pub retiring: Option<f64>,
    pub bad_speculation: Option<f64>,
    pub frontend_bound: Option<f64>,
    pub backend_bound: Option<f64>,
    pub contention: Option<f64>,
    /// Second level of the breakdown. It splits each category of the first level, except
    /// `contention`, in two, such as `backend_bound` into `memory_bound` and `core_bound`.
    pub second: BTreeMap<String, f64>,
    /// Fraction of the time in which the counters were on the PMU, 0 to 1: below 1 when they were
    /// multiplexed.
    pub counted_share: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseDocument {
    pub from_s: f64,
    pub to_s: f64,
    pub share_of_time: f64,
    pub bandwidth_gbps: f64,
    pub read_share: Option<f64>,
}

impl Check for ProfileDocument {
    fn check(&self) -> Checked {
        let (tiers, domains) = (self.app.tiers.len(), self.app.energy_domains.len());
        if let Some(whole) = &self.app.whole {
            same_length_or_empty("app.whole.tiers", whole.tiers.len(), tiers, "app.tiers")?;
        }
        for (at, phase) in self.app.phases.iter().enumerate() {
            in_order(format!("app.phases[{at}]"), [phase.from_s, phase.to_s])?;
        }
        for (at, sample) in self.app.samples.iter().enumerate() {
            let field = format!("app.samples[{at}]");
            same_length(format!("{field}.tiers"), sample.tiers.len(), tiers, "app.tiers")?;
            let energy = sample.energy_j.len();
            same_length(format!("{field}.energy_j"), energy, domains, "app.energy_domains")?;
            for (name, found) in [
                ("placement_bytes", sample.placement_bytes.len()),
                ("anonymous_bytes", sample.anonymous_bytes.len()),
            ] {
                same_length_or_empty(format!("{field}.{name}"), found, tiers, "app.tiers")?;
            }
        }
        Ok(())
    }
}

impl TopdownDocument {
    fn new(slots: &SlotsDocument) -> Option<Self> {
        let all = slots.all.filter(|all| *all > 0.0)?;
        let part = |slots: Option<f64>| slots.map(|slots| rounded((slots / all).clamp(0.0, 1.0)));
        let pairs = [
            ("heavy_operations", "light_operations", slots.heavy, slots.retiring),
            ("branch_mispredicts", "machine_clears", slots.mispredicts, slots.bad_speculation),
            ("fetch_latency", "fetch_bandwidth", slots.fetch_latency, slots.frontend),
            ("memory_bound", "core_bound", slots.memory, slots.backend),
        ];
        let mut second = BTreeMap::new();
        for (name, rest, own, both) in pairs {
            if let (Some(own), Some(both)) = (own, both) {
                let own = own.min(both);
                second.insert(name.to_string(), rounded(own / all));
                second.insert(rest.to_string(), rounded((both - own) / all));
            }
        }
        let counted_share = match slots.enabled_ns {
            enabled if enabled > 0.0 => rounded((slots.running_ns / enabled).min(1.0)),
            _ => 1.0,
        };
        Some(Self {
            retiring: part(slots.retiring),
            bad_speculation: part(slots.bad_speculation),
            frontend_bound: part(slots.frontend),
            backend_bound: part(slots.backend),
            contention: part(slots.contention),
            second,
            counted_share,
        })
    }
}

/// The length of a tick, s. The kernel reports CPU time in ticks.
const TICK_S: f64 = 0.01;

/// The maximum error of the CPU time of a command with its descendants, ticks. (The machine's CPU
/// time has an error of one tick per CPU.)
const PROCESS_TICKS: f64 = 2.0;

/// Results over the whole run that do not come from the samples. `None` is a result that was not
/// counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunTotals {
    pub process_resident_max_bytes: Option<u64>,
    pub machine_busy_s: Option<f64>,
    pub stolen_s: Option<f64>,
}

impl AppDocument {
    /// Computes the phases, and the results over the whole run, from the samples and `totals`.
    pub fn summarise(&mut self, runtime_s: f64, totals: RunTotals) {
        self.runtime_s = Some(rounded(runtime_s));
        let Some(sum) = SampleDocument::sum(&self.samples) else {
            self.whole = Some(WholeDocument::default());
            return;
        };
        let samples = &self.samples;
        let of_time = |time_s: f64| rounded(time_s / runtime_s.max(1e-9));
        let most = |of: fn(&SampleDocument) -> usize| samples.iter().map(of).max().unwrap_or(0);
        let resident = samples.iter().filter_map(|sample| sample.resident_bytes).max();
        let fullest = samples.iter().filter(|sample| !sample.placement_bytes.is_empty());
        let fullest = fullest.max_by_key(|sample| sample.placement_bytes.iter().sum::<u64>());
        let tiers = 0..self.tiers.len();
        let energy = self.energy_domains.iter().zip(&sum.energy_j);
        let cpus = self.cpus.max(1) as f64;
        // Converts a CPU time of the run to a mean number of CPUs. A time within the error of the
        // kernel's ticks (one per CPU, and `PROCESS_TICKS` for the command) is 0: in a run of some
        // milliseconds, this error alone would be several CPUs.
        let mean_cpus = |time_s: f64| match time_s > TICK_S * (cpus + PROCESS_TICKS) {
            true => of_time(time_s).min(cpus),
            false => 0.0,
        };
        let others = totals.machine_busy_s.map(|busy| mean_cpus(busy - sum.cpu_s));
        let process = totals.process_resident_max_bytes;
        self.whole = Some(WholeDocument {
            counted_s: rounded(sum.counted_s),
            bandwidth_gbps: sum.gbps().map(rounded),
            bandwidth_max_gbps: samples
                .iter()
                .filter_map(SampleDocument::gbps)
                .max_by(f64::total_cmp)
                .map(rounded),
            read_share: sum.read_share().map(rounded),
            tiers: tiers.map(|at| TierWhole::new(&sum, fullest, at)).collect(),
            cpu_s: rounded(sum.cpu_s),
            cpus_used: of_time(sum.cpu_s),
            threads_running_max: most(|sample| sample.threads_running),
            threads_max: most(|sample| sample.threads),
            // A process that exited between two samples may have had more memory than any sample
            // shows. But the kernel remembers the peak of each process.
            resident_max_bytes: resident.max(process).unwrap_or(0),
            resident_mean_bytes: SampleDocument::mean_resident_bytes(samples).map(rounded),
            process_resident_max_bytes: process,
            major_faults: sum.major_faults,
            storage_read_bytes: sum.storage_read_bytes,
            storage_written_bytes: sum.storage_written_bytes,
            energy: energy
                .filter_map(|(domain, energy)| {
                    Some(EnergyDocument {
                        domain: domain.clone(),
                        energy_j: rounded((*energy)?),
                        power_w: rounded((*energy)? / sum.span_s),
                    })
                })
                .collect(),
            topdown: sum.slots.as_ref().and_then(TopdownDocument::new),
            other_cpus_used: others,
            stolen_cpus: totals.stolen_s.map(mean_cpus),
            hidden_processes: most(|sample| sample.hidden_processes),
        });
        self.phases = self.detect_phases();
    }

    fn detect_phases(&self) -> Vec<PhaseDocument> {
        let counted: Vec<&SampleDocument> =
            self.samples.iter().filter(|sample| sample.gbps().is_some()).collect();
        let reading = |sample: &&SampleDocument| BandwidthReading {
            span_s: sample.counted_s,
            gbps: sample.gbps().unwrap_or(0.0),
        };
        let readings: Vec<BandwidthReading> = counted.iter().map(reading).collect();
        let intervals = interleaf_model::phases::steady_intervals(&readings);
        let whole: f64 = intervals.iter().map(|interval| interval.span_s).sum();
        let mut from_s = 0.0;
        let phase = |interval: &SteadyInterval| {
            let to_s = from_s + interval.span_s;
            let samples = counted[interval.readings.clone()].iter().copied().cloned();
            let sum = SampleDocument::sum(&samples.collect::<Vec<_>>());
            let phase = PhaseDocument {
                from_s: rounded(from_s),
                to_s: rounded(to_s),
                share_of_time: interval.span_s / whole,
                bandwidth_gbps: rounded(interval.gbps),
                read_share: sum.and_then(|sum| sum.read_share()).map(rounded),
            };
            from_s = to_s;
            phase
        };
        intervals.iter().map(phase).collect()
    }

    /// Returns the share of the command's memory on the first tier when the command had the most
    /// memory, or `None` if the placement was not sampled.
    pub fn first_tier_share(&self) -> Option<f64> {
        self.whole.as_ref()?.tiers.first()?.resident_share
    }
}

impl TierWhole {
    fn new(sum: &SampleDocument, fullest: Option<&SampleDocument>, at: usize) -> Self {
        let traffic = sum.tiers.get(at).copied().unwrap_or_default();
        let per_s = |bytes: Option<f64>| {
            let gbps = bytes.filter(|_| sum.counted_s > 0.0).map(|it| it / sum.counted_s / 1e9);
            gbps.map(rounded)
        };
        let placed = |of: fn(&SampleDocument) -> &Vec<u64>| {
            fullest.and_then(|sample| of(sample).get(at).copied())
        };
        let resident = placed(|sample| &sample.placement_bytes);
        let all: u64 = fullest.map_or(0, |sample| sample.placement_bytes.iter().sum());
        Self {
            bandwidth_gbps: per_s(traffic.bytes()),
            read_gbps: per_s(traffic.read_bytes),
            written_gbps: per_s(traffic.written_bytes),
            latency_ns: traffic.latency_ns().map(rounded),
            resident_bytes: resident,
            anonymous_bytes: placed(|sample| &sample.anonymous_bytes),
            resident_share: resident
                .filter(|_| all > 0)
                .map(|bytes| rounded(bytes as f64 / all as f64)),
        }
    }
}

#[cfg(test)]
mod tests;
