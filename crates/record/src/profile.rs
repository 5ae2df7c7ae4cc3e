//! What a machine did while an application ran, as `interleaf.measure/1` with an `app`.

mod figures;
mod samples;

pub use samples::{SampleDocument, Samples, SlotsDocument, TrafficDocument};

use super::{
    check::{Check, Checked, in_order, same_length, same_length_or_empty},
    measure::MeasuredMachine,
    rounded,
};
use interleaf_model::phases::{Reading, Stretch};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The record of an application. Points, which the other measurements have, it has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileDocument {
    pub schema: String,
    pub machine: MeasuredMachine,
    #[serde(default)]
    pub points: Vec<serde_json::Value>,
    pub app: AppDocument,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppDocument {
    pub kind: String,
    pub command: Vec<String>,
    pub dry_run: bool,
    /// How the command ended; both null while it runs, and in a dry run.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// How long it ran; null in a dry run.
    pub runtime_s: Option<f64>,
    /// How often it was looked at.
    pub every_s: f64,
    /// CPUs that the machine has.
    pub cpus: usize,
    /// The fastest first.
    pub tiers: Vec<ProfileTier>,
    /// What is metered of energy, in the order of the samples'.
    pub energy_domains: Vec<String>,
    /// Each quantity: how it is had, or why not.
    pub quantities: Vec<QuantityDocument>,
    /// The run as a whole; null in a dry run.
    pub whole: Option<WholeDocument>,
    /// Stretches of even bandwidth, where it is counted; in the time that counters tell.
    pub phases: Vec<PhaseDocument>,
    /// What to mind of these figures.
    pub warnings: Vec<String>,
    /// The demand file that was written.
    pub demand_file: Option<String>,
    pub samples: Vec<SampleDocument>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileTier {
    pub name: String,
    /// dram or cxl.
    pub kind: String,
    pub nodes: Vec<u32>,
}

/// How a quantity is had, or why not and what to do about it.
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

    pub fn missing(name: &str, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (what, remedy) = (why.into(), Some(remedy.into()));
        Self { name: name.into(), is_available: false, what, remedy }
    }
}

/// The run as a whole. What is null was not counted, which is not 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WholeDocument {
    /// The time that bandwidth is of: of a recording that of then.
    pub counted_s: f64,
    pub bandwidth_gbps: Option<f64>,
    /// Of a sample, the most.
    pub bandwidth_max_gbps: Option<f64>,
    pub read_share: Option<f64>,
    pub tiers: Vec<TierWhole>,
    pub cpu_s: f64,
    pub cpus_used: f64,
    /// Threads that ran or waited for a CPU when it was looked at, the most.
    pub threads_running_max: usize,
    pub threads_max: usize,
    /// Resident memory of all processes at once, the most that was seen.
    pub resident_max_bytes: u64,
    pub resident_mean_bytes: Option<f64>,
    /// The most that one process had.
    pub process_resident_max_bytes: Option<u64>,
    pub major_faults: u64,
    pub storage_read_bytes: Option<u64>,
    pub storage_written_bytes: Option<u64>,
    pub energy: Vec<EnergyDocument>,
    pub topdown: Option<TopdownDocument>,
    /// CPUs that others used meanwhile.
    pub other_cpus_used: Option<f64>,
    /// CPUs that the host of a virtual machine took.
    pub stolen_cpus: Option<f64>,
    /// Processes that could not be looked at: those of other users, the most at once.
    pub hidden_processes: usize,
}

/// A tier in the run as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierWhole {
    pub bandwidth_gbps: Option<f64>,
    pub read_gbps: Option<f64>,
    pub written_gbps: Option<f64>,
    /// Of misses of the last cache, by the time that requests waited over their number.
    pub latency_ns: Option<f64>,
    /// When the command had the most memory.
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

/// Parts of the slots of the command's threads, 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopdownDocument {
    pub retiring: Option<f64>,
    pub bad_speculation: Option<f64>,
    pub frontend_bound: Option<f64>,
    pub backend_bound: Option<f64>,
    pub contention: Option<f64>,
    /// The second level: each part in two, whose sum is the part.
    pub second: BTreeMap<String, f64>,
    /// The part of the time in which the counters counted.
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

/// What is known of a run totals its samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunTotals {
    pub process_resident_max_bytes: Option<u64>,
    pub machine_busy_s: Option<f64>,
    pub stolen_s: Option<f64>,
}

impl AppDocument {
    /// Puts together what the samples tell of the run as a whole.
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
        let others = totals.machine_busy_s.map(|busy| of_time((busy - sum.cpu_s).max(0.0)));
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
            // One that ended between two looks may have had more than all that were seen.
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
            stolen_cpus: totals.stolen_s.map(of_time),
            hidden_processes: most(|sample| sample.hidden_processes),
        });
        self.phases = self.detect_phases();
    }

    /// Stretches of even bandwidth.
    fn detect_phases(&self) -> Vec<PhaseDocument> {
        let counted: Vec<&SampleDocument> =
            self.samples.iter().filter(|sample| sample.gbps().is_some()).collect();
        let reading = |sample: &&SampleDocument| Reading {
            span_s: sample.counted_s,
            gbps: sample.gbps().unwrap_or(0.0),
        };
        let readings: Vec<Reading> = counted.iter().map(reading).collect();
        let stretches = interleaf_model::phases::stretches(&readings);
        let whole: f64 = stretches.iter().map(|stretch| stretch.span_s).sum();
        let mut from_s = 0.0;
        let phase = |stretch: &Stretch| {
            let to_s = from_s + stretch.span_s;
            let samples = counted[stretch.readings.clone()].iter().copied().cloned();
            let sum = SampleDocument::sum(&samples.collect::<Vec<_>>());
            let phase = PhaseDocument {
                from_s: rounded(from_s),
                to_s: rounded(to_s),
                share_of_time: stretch.span_s / whole,
                bandwidth_gbps: rounded(stretch.gbps),
                read_share: sum.and_then(|sum| sum.read_share()).map(rounded),
            };
            from_s = to_s;
            phase
        };
        stretches.iter().map(phase).collect()
    }

    /// The part of the memory that was on the first tier, when there was the most.
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
