//! The samples of a run of any length.
//!
//! A sample has sums over a span of time, so two neighbours can be merged into a sample of the
//! joint span. [`Samples`] limits the number of stored samples: when 1024 are stored, it merges all
//! pairs of neighbours. From then on, a stored sample merges twice as many raw samples (samples as
//! they were taken) as before. So a long run has 512 to 1024 stored samples.

use interleaf_model::machine::Traffic;
use interleaf_observe::counters::topdown::CoreSlots;
use serde::{Deserialize, Serialize};

/// Maximum number of stored samples. At this number, each pair of neighbours is merged.
const SAMPLES_MAX: usize = 1024;

/// The counts of one span of time. Null means "not counted", and not 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleDocument {
    /// End of the span, s from the start of the command.
    pub time_s: f64,
    pub span_s: f64,
    /// Time in which traffic was counted, s. For a replayed recording, it is the time that the
    /// readings of the recording cover.
    pub counted_s: f64,
    /// Time that the readings of CPU time and storage cover, s; 0 when the processes were not
    /// sampled.
    pub looked_s: f64,
    /// Traffic of each tier: the sum over all sockets.
    pub tiers: Vec<TrafficDocument>,
    /// Bytes that the command read and wrote on all tiers. Null when there is no such count, and
    /// when the tiers are counted separately.
    pub command_bytes: Option<f64>,
    pub cpu_s: f64,
    pub threads: usize,
    pub threads_running: usize,
    /// Resident memory of the command at the end of the span; null when not sampled. In a merged
    /// sample, it is the largest value.
    pub resident_bytes: Option<u64>,
    /// Resident memory of the command on each tier; empty when not sampled.
    pub placement_bytes: Vec<u64>,
    pub anonymous_bytes: Vec<u64>,
    pub major_faults: u64,
    pub storage_read_bytes: Option<u64>,
    pub storage_written_bytes: Option<u64>,
    /// Energy of each metered domain, J, in the order of `energy_domains`.
    pub energy_j: Vec<Option<f64>>,
    pub slots: Option<SlotsDocument>,
    pub hidden_processes: usize,
}

/// The traffic of one tier in the span of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficDocument {
    pub read_bytes: Option<f64>,
    pub written_bytes: Option<f64>,
    /// Number of requests that entered the tier's queue. The mean latency is `occupancy_ns` /
    /// `inserts`.
    pub inserts: Option<f64>,
    /// Time for which requests were in the tier's queue, ns: the sum over all requests.
    pub occupancy_ns: Option<f64>,
}

/// The issue slots of the command's threads, counted in each top-down category.
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
    /// Time for which the counters were enabled, ns: the sum over all threads.
    pub enabled_ns: f64,
    /// Time for which the counters were on the PMU, ns: the sum over all threads. It is less than
    /// `enabled_ns` when the counters are multiplexed.
    pub running_ns: f64,
}

/// Returns the sum of two counts, or `None` if one of them is unknown.
fn both(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? + b?)
}

/// Returns the sum of two counts. An unknown count is taken as 0; `None` if both are unknown.
fn either<T: std::ops::Add<Output = T>>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

impl TrafficDocument {
    /// Adds the traffic of another domain with the same tier. A count that is unknown for this
    /// domain is taken as 0.
    pub fn add(&mut self, more: &Traffic) {
        self.read_bytes = either(self.read_bytes, more.read_bytes);
        self.written_bytes = either(self.written_bytes, more.written_bytes);
        self.inserts = either(self.inserts, more.inserts);
        self.occupancy_ns = either(self.occupancy_ns, more.occupancy_ns);
    }

    /// Returns the bytes read and written, or `None` if neither is counted.
    pub fn bytes(&self) -> Option<f64> {
        either(self.read_bytes, self.written_bytes)
    }

    pub fn latency_ns(&self) -> Option<f64> {
        let inserts = self.inserts.filter(|inserts| *inserts > 0.0)?;
        Some(self.occupancy_ns? / inserts)
    }

    /// Returns the traffic of the tier in two spans together. A count that is unknown in one span
    /// is unknown in the result.
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
    /// Returns the mean number of CPUs that the command's processes used, or `None` if the
    /// processes were not sampled.
    pub fn cpus(&self) -> Option<f64> {
        (self.looked_s > 0.0).then(|| self.cpu_s / self.looked_s)
    }

    /// Returns the bandwidth of all tiers, GB/s, or `None` if no traffic was counted.
    pub fn gbps(&self) -> Option<f64> {
        let of_tiers = self.tiers.iter().map(TrafficDocument::bytes).fold(None, either);
        let bytes = of_tiers.or(self.command_bytes)?;
        (self.counted_s > 0.0).then(|| bytes / self.counted_s / 1e9)
    }

    /// Returns the fraction of reads in the bytes of all tiers, or `None` if reads and writes are
    /// not counted separately.
    pub fn read_share(&self) -> Option<f64> {
        let sum = |of: fn(&TrafficDocument) -> Option<f64>| {
            self.tiers.iter().map(of).fold(None, either::<f64>)
        };
        let (read, written) = (sum(|it| it.read_bytes)?, sum(|it| it.written_bytes)?);
        (read + written > 0.0).then(|| read / (read + written))
    }

    /// True if traffic was counted in a part of the span or in all of it.
    fn counts(&self) -> bool {
        let of_tiers = self.tiers.iter().any(|tier| *tier != TrafficDocument::default());
        self.counted_s > 0.0 && (of_tiers || self.command_bytes.is_some())
    }

    /// Merges this sample with `next`, the sample of the next span.
    pub fn and(self, next: Self) -> Self {
        // If only one of the samples has counted traffic, the merged sample has the traffic of that
        // sample.
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
            (Some(a), Some(b)) => Some(CoreSlots::from(a).plus(b.into()).into()),
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

    /// Merges all samples to one. Returns `None` if there are none.
    pub fn sum(samples: &[Self]) -> Option<Self> {
        samples.iter().cloned().reduce(Self::and)
    }

    /// Returns the mean resident memory, weighted by the spans of the samples, or `None` if the
    /// memory was never sampled.
    pub fn mean_resident_bytes(samples: &[Self]) -> Option<f64> {
        let resident = || samples.iter().filter_map(|it| Some((it.span_s, it.resident_bytes?)));
        let span: f64 = resident().map(|(span_s, _)| span_s).sum();
        (span > 0.0).then(|| resident().map(|(span_s, it)| span_s * it as f64).sum::<f64>() / span)
    }
}

/// The stored samples of a run: at most 1024, however long the run is.
#[derive(Clone, Debug)]
pub struct Samples {
    list: Vec<SampleDocument>,
    /// Number of raw samples that are merged into a complete stored sample.
    each: usize,
    /// Number of raw samples that the last stored sample has so far.
    last: usize,
}

impl Default for Samples {
    fn default() -> Self {
        Self { list: vec![], each: 1, last: 0 }
    }
}

impl Samples {
    pub fn new() -> Self {
        Self::default()
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
