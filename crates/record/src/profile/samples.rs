//! Samples of a run: sums over short times, so that several together are one over a longer time.

use interleaf_model::machine::Traffic;
use interleaf_observe::counters::topdown::CoreSlots;
use serde::{Deserialize, Serialize};

/// The most samples that are kept: of a run that is longer, two and two become one.
const SAMPLES_MAX: usize = 1024;

/// What happened in one span. What is null was not counted, which is not 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleDocument {
    /// When it ended, after the start of the command.
    pub time_s: f64,
    pub span_s: f64,
    /// The time that its traffic is of: of a recording that of then.
    pub counted_s: f64,
    /// The time that its CPU time and storage are of; 0 when processes were not looked at.
    pub looked_s: f64,
    /// By tier, over all sockets.
    pub tiers: Vec<TrafficDocument>,
    /// Of the command alone, all tiers, read and written together: where nothing counts tiers.
    pub command_bytes: Option<f64>,
    pub cpu_s: f64,
    pub threads: usize,
    pub threads_running: usize,
    /// At the end of it, or the most; null when it was not looked at.
    pub resident_bytes: Option<u64>,
    /// By tier; empty when it was not looked at.
    pub placement_bytes: Vec<u64>,
    pub anonymous_bytes: Vec<u64>,
    pub major_faults: u64,
    pub storage_read_bytes: Option<u64>,
    pub storage_written_bytes: Option<u64>,
    /// By what is metered.
    pub energy_j: Vec<Option<f64>>,
    pub slots: Option<SlotsDocument>,
    pub hidden_processes: usize,
}

/// Traffic of a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficDocument {
    pub read_bytes: Option<f64>,
    pub written_bytes: Option<f64>,
    /// Requests that began to wait, and how long all of them waited.
    pub inserts: Option<f64>,
    pub occupancy_ns: Option<f64>,
}

/// Slots of the command's threads, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SlotsDocument {
    pub all: Option<f64>,
    pub retiring: Option<f64>,
    pub bad_speculation: Option<f64>,
    pub frontend: Option<f64>,
    pub backend: Option<f64>,
    pub contention: Option<f64>,
    pub heavy: Option<f64>,
    pub mispredicts: Option<f64>,
    pub fetch_latency: Option<f64>,
    pub memory: Option<f64>,
    /// How long the counters should have counted, and did, over all threads.
    pub enabled_ns: f64,
    pub running_ns: f64,
}

/// Both, where both are known.
fn both(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? + b?)
}

/// What is known of either.
fn either<T: std::ops::Add<Output = T>>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

impl TrafficDocument {
    /// Adds the traffic of another domain with the same tier; what one of them does not count is
    /// left out, as counters do that have no such unit there.
    pub fn add(&mut self, more: &Traffic) {
        self.read_bytes = either(self.read_bytes, more.read_bytes);
        self.written_bytes = either(self.written_bytes, more.written_bytes);
        self.inserts = either(self.inserts, more.inserts);
        self.occupancy_ns = either(self.occupancy_ns, more.occupancy_ns);
    }

    /// Read and written; `None` when nothing is counted.
    pub fn bytes(&self) -> Option<f64> {
        either(self.read_bytes, self.written_bytes)
    }

    pub fn latency_ns(&self) -> Option<f64> {
        let inserts = self.inserts.filter(|inserts| *inserts > 0.0)?;
        Some(self.occupancy_ns? / inserts)
    }

    /// The traffic of two spans.
    fn and(self, next: Self) -> Self {
        Self {
            read_bytes: both(self.read_bytes, next.read_bytes),
            written_bytes: both(self.written_bytes, next.written_bytes),
            inserts: both(self.inserts, next.inserts),
            occupancy_ns: both(self.occupancy_ns, next.occupancy_ns),
        }
    }
}

impl From<CoreSlots> for SlotsDocument {
    fn from(slots: CoreSlots) -> Self {
        Self {
            all: slots.all,
            retiring: slots.retiring,
            bad_speculation: slots.bad_speculation,
            frontend: slots.frontend,
            backend: slots.backend,
            contention: slots.contention,
            heavy: slots.heavy,
            mispredicts: slots.mispredicts,
            fetch_latency: slots.fetch_latency,
            memory: slots.memory,
            enabled_ns: slots.enabled_ns,
            running_ns: slots.running_ns,
        }
    }
}

impl From<SlotsDocument> for CoreSlots {
    fn from(slots: SlotsDocument) -> Self {
        Self {
            all: slots.all,
            retiring: slots.retiring,
            bad_speculation: slots.bad_speculation,
            frontend: slots.frontend,
            backend: slots.backend,
            contention: slots.contention,
            heavy: slots.heavy,
            mispredicts: slots.mispredicts,
            fetch_latency: slots.fetch_latency,
            memory: slots.memory,
            enabled_ns: slots.enabled_ns,
            running_ns: slots.running_ns,
        }
    }
}

impl SampleDocument {
    /// CPUs that it used; `None` when it was not looked at.
    pub fn cpus(&self) -> Option<f64> {
        (self.looked_s > 0.0).then(|| self.cpu_s / self.looked_s)
    }

    /// Bandwidth of all tiers; `None` when nothing is counted.
    pub fn gbps(&self) -> Option<f64> {
        let of_tiers = self.tiers.iter().map(TrafficDocument::bytes).fold(None, either);
        let bytes = of_tiers.or(self.command_bytes)?;
        (self.counted_s > 0.0).then(|| bytes / self.counted_s / 1e9)
    }

    /// The part of the bytes that are reads; `None` when they are not counted apart.
    pub fn read_share(&self) -> Option<f64> {
        let sum = |of: fn(&TrafficDocument) -> Option<f64>| {
            self.tiers.iter().map(of).fold(None, either::<f64>)
        };
        let (read, written) = (sum(|it| it.read_bytes)?, sum(|it| it.written_bytes)?);
        (read + written > 0.0).then(|| read / (read + written))
    }

    /// Whether any traffic is counted.
    fn counts(&self) -> bool {
        let of_tiers = self.tiers.iter().any(|tier| *tier != TrafficDocument::default());
        self.counted_s > 0.0 && (of_tiers || self.command_bytes.is_some())
    }

    /// This and the one behind it.
    pub fn and(self, next: Self) -> Self {
        // What one of the two did not count at all is that of the other.
        let (tiers, command_bytes, counted_s) = match (self.counts(), next.counts()) {
            (true, false) => (self.tiers, self.command_bytes, self.counted_s),
            (false, true) => (next.tiers, next.command_bytes, next.counted_s),
            _ => {
                let pairs = self.tiers.into_iter().zip(next.tiers);
                let tiers = pairs.map(|(one, other)| one.and(other)).collect();
                let command_bytes = both(self.command_bytes, next.command_bytes);
                (tiers, command_bytes, self.counted_s + next.counted_s)
            }
        };
        let slots = match (self.slots, next.slots) {
            (Some(a), Some(b)) => Some(CoreSlots::from(a).and(b.into()).into()),
            (a, b) => a.or(b),
        };
        let fuller = |a: &[u64], b: &[u64]| a.iter().sum::<u64>() > b.iter().sum::<u64>();
        let (placement_bytes, anonymous_bytes) =
            match fuller(&self.placement_bytes, &next.placement_bytes) {
                true => (self.placement_bytes, self.anonymous_bytes),
                false => (next.placement_bytes, next.anonymous_bytes),
            };
        let energy = self.energy_j.into_iter().zip(next.energy_j);
        Self {
            time_s: next.time_s,
            span_s: self.span_s + next.span_s,
            counted_s,
            looked_s: self.looked_s + next.looked_s,
            tiers,
            command_bytes,
            cpu_s: self.cpu_s + next.cpu_s,
            threads: self.threads.max(next.threads),
            threads_running: self.threads_running.max(next.threads_running),
            resident_bytes: self.resident_bytes.max(next.resident_bytes),
            placement_bytes,
            anonymous_bytes,
            major_faults: self.major_faults + next.major_faults,
            storage_read_bytes: either(self.storage_read_bytes, next.storage_read_bytes),
            storage_written_bytes: either(self.storage_written_bytes, next.storage_written_bytes),
            energy_j: energy.map(|(a, b)| both(a, b)).collect(),
            slots,
            hidden_processes: self.hidden_processes.max(next.hidden_processes),
        }
    }

    /// All of them together; `None` of none.
    pub fn sum(samples: &[Self]) -> Option<Self> {
        samples.iter().cloned().reduce(Self::and)
    }

    /// Resident memory over time; `None` when it was never looked at.
    pub fn mean_resident_bytes(samples: &[Self]) -> Option<f64> {
        let looked = || samples.iter().filter_map(|it| Some((it.span_s, it.resident_bytes?)));
        let span: f64 = looked().map(|(span_s, _)| span_s).sum();
        (span > 0.0).then(|| looked().map(|(span_s, it)| span_s * it as f64).sum::<f64>() / span)
    }
}

/// The samples of a run, however long it is.
#[derive(Clone, Debug)]
pub struct Samples {
    list: Vec<SampleDocument>,
    /// How many make one that is kept.
    each: usize,
    /// Of the last one that is kept, how many it has.
    last: usize,
}

impl Samples {
    pub fn new() -> Self {
        Self { list: vec![], each: 1, last: 0 }
    }

    pub fn push(&mut self, sample: SampleDocument) {
        if self.last > 0 && self.last < self.each {
            if let Some(last) = self.list.pop() {
                self.list.push(last.and(sample));
            }
            self.last += 1;
            return;
        }
        if self.list.len() == SAMPLES_MAX {
            let mut old = std::mem::take(&mut self.list).into_iter();
            while let Some(first) = old.next() {
                self.list.push(match old.next() {
                    Some(second) => first.and(second),
                    None => first,
                });
            }
            self.each *= 2;
        }
        self.list.push(sample);
        self.last = 1;
    }

    pub fn list(&self) -> &[SampleDocument] {
        &self.list
    }
}
