//! Simulated NVRAM cards under load, as `interleaf.simulate.card/1`.
//!
//! `interleaf simulate card` writes the document. It has a point for each card, job and queue
//! depth. A point has I/O operations per second (IOPS), bandwidth, and latencies with the names of
//! fio. The submission latency *slat* is from the call of the driver to the doorbell. The
//! completion latency *clat* is from the doorbell until the driver sees the completion. *lat* is
//! their sum.

mod figures;
mod latency;
mod power;

pub use latency::{IoLatencyDocument, LogHistogram, PERCENTILES};
pub use power::{CardPowerFailure, PowerFailureDocument};

use super::{
    check::{Check, Checked, in_order, invalid, not_empty, same_length},
    rounded,
};
use interleaf_card::{
    card::{Card, Durable},
    engine::Utilisation,
    fio::{Job, memory::MemoryOptions},
    load::{Bound, DirectionResult, Latencies, Outcome},
    memory_mode::MemoryOutcome,
    settings::Component,
};
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.simulate.card/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardDocument {
    pub schema: String,
    /// Settings of the simulated cards, in the order of the command line.
    pub cards: Vec<CardSettings>,
    pub seed: u64,
    pub points: Vec<CardPoint>,
    /// Sums over the power failures of all cards and loads, and the largest energy of a save; left
    /// out when no power failure was simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_failure: Option<PowerFailureDocument>,
    /// Results of the power failures of each card under each load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub power_failures: Vec<CardPowerFailure>,
    /// Limits of the validity of the numbers in this document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Number of requests of all points.
    pub ios: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<CardTiming>,
}

/// Settings of a simulated card, in the words of a data sheet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardSettings {
    pub name: String,
    pub capacity_bytes: u64,
    /// Link of the card: "PCIe Gen3 x8".
    pub link: String,
    /// Memory of the card: "1 channel of stt-mram-ddr3".
    pub memory: String,
    /// Event after which a write is durable: "saved to NAND" or "row precharged".
    pub durable: String,
}

/// Results of one job on one card at one queue depth. Most fields are columns of the report's
/// tables. Except for `directions`, the results are of reads and writes together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardPoint {
    pub card: String,
    /// Name of the job: its section in the job file; empty for a load of the command line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub job: String,
    /// Number of the job's group. Jobs that ran at the same time are in the same group.
    pub group: u32,
    /// fio's name of the access pattern: "randwrite".
    pub rw: String,
    pub bs_bytes: u64,
    /// Number of outstanding requests of each of the `numjobs` equal jobs.
    pub iodepth: u32,
    pub numjobs: u32,
    /// Requested rate, IOPS; null when the job issues requests as fast as it can.
    pub rate_iops: Option<u64>,
    /// Percentage of reads in a mixed pattern; left out for other patterns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rwmixread: Option<u32>,
    /// IOPS of reads and writes together.
    pub iops: f64,
    pub bandwidth_gbps: f64,
    pub ios: u64,
    pub measured_s: f64,
    pub slat_us: IoLatencyDocument,
    pub clat_us: IoLatencyDocument,
    pub lat_us: IoLatencyDocument,
    /// Histogram of the completion latency (clat).
    pub clat_histogram: LogHistogram,
    /// Results of the reads and of the writes in a mixed pattern; left out for other patterns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<DirectionDocument>,
    /// Components of the card and of the host, each with the fraction of time for which it is busy.
    pub utilisation: Vec<UtilisationDocument>,
    /// Component that limits the IOPS of the point.
    pub bound_by: String,
    /// Kind of access: "storage" (NVMe), "memory" (loads and stores of a processor) or "peer"
    /// (reads and writes by another PCIe device).
    #[serde(default = "storage")]
    pub access: String,
    /// Number of stores of a thread between two read-backs, which make the stores durable; left out
    /// without read-backs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fsync: Option<u32>,
    /// Latency of the read-backs; left out without read-backs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_us: Option<IoLatencyDocument>,
}

/// The value of the field `access` for NVMe commands, and the default of this field.
pub const STORAGE: &str = "storage";

fn storage() -> String {
    STORAGE.into()
}

/// The results that all jobs of a group have in common, because the jobs ran at the same time.
struct Shared<'a> {
    span_fs: u64,
    utilisation: &'a Utilisation,
    bound_by: Bound,
}

/// Results of a point's reads alone, or of its writes alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectionDocument {
    /// Direction of the requests: "read" or "write".
    pub direction: String,
    pub iops: f64,
    pub bandwidth_gbps: f64,
    pub ios: u64,
    pub slat_us: IoLatencyDocument,
    pub clat_us: IoLatencyDocument,
    pub lat_us: IoLatencyDocument,
}

impl DirectionDocument {
    fn new(direction: &str, result: &DirectionResult) -> Self {
        Self {
            direction: direction.into(),
            iops: rounded(result.iops),
            bandwidth_gbps: rounded(1e-9 * result.bytes_per_s),
            ios: result.ios,
            slat_us: IoLatencyDocument::new(&result.slat),
            clat_us: IoLatencyDocument::new(&result.clat),
            lat_us: IoLatencyDocument::new(&result.lat),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UtilisationDocument {
    pub component: String,
    pub busy_share: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardTiming {
    pub wall_s: f64,
    pub ios_per_s: f64,
}

impl Check for CardDocument {
    fn check(&self) -> Checked {
        not_empty("cards", self.cards.len())?;
        not_empty("points", self.points.len())?;
        for (at, point) in self.points.iter().enumerate() {
            let field = format!("points[{at}]");
            self.known(&field, &point.card)?;
            point.check(&field)?;
        }
        for (at, failure) in self.power_failures.iter().enumerate() {
            let field = format!("power_failures[{at}]");
            self.known(&field, &failure.card)?;
            let PowerFailureDocument { acknowledged_writes, lost_writes, .. } = failure.result;
            let writes = [lost_writes as f64, acknowledged_writes as f64];
            in_order(format!("{field}.lost_writes"), writes)?;
        }
        Ok(())
    }
}

impl CardDocument {
    pub fn new(cards: &[Card], seed: u64) -> Self {
        Self {
            schema: SCHEMA.into(),
            cards: cards.iter().map(CardSettings::new).collect(),
            seed,
            points: vec![],
            power_failure: None,
            power_failures: vec![],
            notes: vec![],
            ios: 0,
            timing: None,
        }
    }

    /// Adds a point for each job of a group. The jobs ran on `card` at the same time.
    pub fn add(&mut self, card: &Card, group: u32, jobs: &[Job], outcome: &Outcome) {
        self.ios += outcome.completed;
        let Outcome { span_fs, ref utilisation, bound_by, .. } = *outcome;
        let shared = Shared { span_fs, utilisation, bound_by };
        let points = jobs.iter().zip(&outcome.groups);
        let point = |(job, result)| CardPoint::new(card, group, job, result, &shared);
        self.points.extend(points.map(point));
    }

    /// Adds the point of a job of loads and stores in the card's memory window on PCIe (BAR). A
    /// processor or another PCIe device initiates the accesses.
    pub fn add_memory(
        &mut self,
        card: &Card,
        group: u32,
        job: &Job,
        words: &MemoryOptions,
        outcome: &MemoryOutcome,
    ) {
        self.ios += outcome.completed;
        let MemoryOutcome { span_fs, ref utilisation, bound_by, .. } = *outcome;
        let shared = Shared { span_fs, utilisation, bound_by };
        let results = [outcome.loads.clone(), outcome.stores.clone()];
        self.points.push(CardPoint {
            access: words.initiator.name().into(),
            fsync: words.fsync,
            sync_us: words.fsync.map(|_| IoLatencyDocument::new(&outcome.persists)),
            ..CardPoint::new(card, group, job, &results, &shared)
        });
    }

    /// Checks that `card` is one of `cards`. `field` is the path of the point or power failure that
    /// names the card.
    fn known(&self, field: &str, card: &str) -> Checked {
        if self.cards.iter().any(|known| known.name == card) {
            return Ok(());
        }
        invalid(format!("{field}.card"), format!("{card:?} is not among the cards"))
    }

    /// Adds the results of a card's power failures, and updates the totals over all cards.
    pub fn add_power_failure(&mut self, failure: CardPowerFailure) {
        let sum = self.power_failure.get_or_insert(PowerFailureDocument {
            failures: 0,
            acknowledged_writes: 0,
            lost_writes: 0,
            torn_writes: 0,
            flush_energy_j: 0.0,
        });
        sum.failures += failure.result.failures;
        sum.acknowledged_writes += failure.result.acknowledged_writes;
        sum.lost_writes += failure.result.lost_writes;
        sum.torn_writes += failure.result.torn_writes;
        sum.flush_energy_j = sum.flush_energy_j.max(failure.result.flush_energy_j);
        self.power_failures.push(failure);
    }

    /// Returns the first point of each load, in the order of the document. Points that differ only
    /// in card and queue depth have the same load.
    pub fn loads(&self) -> Vec<&CardPoint> {
        let mut loads: Vec<&CardPoint> = vec![];
        for point in &self.points {
            if !loads.iter().any(|known| known.load() == point.load()) {
                loads.push(point);
            }
        }
        loads
    }
}

impl CardSettings {
    fn new(card: &Card) -> Self {
        let memory = &card.memory;
        let channels = if memory.channels == 1 { "channel" } else { "channels" };
        Self {
            name: card.name.clone(),
            capacity_bytes: memory.capacity,
            link: format!("PCIe Gen{} x{}", card.link.generation, card.link.lanes),
            memory: format!("{} {channels} of {}", memory.channels, memory.device.name),
            durable: match memory.durable {
                Durable::Save => "it is in the DRAM, which is saved to NAND".into(),
                Durable::Precharge => "its row is precharged".into(),
            },
        }
    }
}

impl CardPoint {
    fn new(
        card: &Card,
        group: u32,
        job: &Job,
        [read, write]: &[DirectionResult; 2],
        shared: &Shared,
    ) -> Self {
        let both = |of: fn(&DirectionResult) -> &Latencies| {
            let mut latencies = of(read).clone();
            latencies.add(of(write));
            latencies
        };
        let latency = |of| IoLatencyDocument::new(&both(of));
        let clat = both(|result| &result.clat);
        let is_mixed = job.rw.is_mixed();
        let directions = [("read", read), ("write", write)];
        let directions = directions.iter().filter(|_| is_mixed);
        let utilisation = Component::ALL.map(|component| UtilisationDocument {
            component: component.name().into(),
            busy_share: rounded(shared.utilisation.of(component)),
        });
        Self {
            card: card.name.clone(),
            job: job.name.clone(),
            group,
            rw: job.rw.name().into(),
            bs_bytes: job.bs.into(),
            iodepth: job.iodepth,
            numjobs: job.numjobs,
            rate_iops: job.rate_iops,
            rwmixread: is_mixed.then_some(job.rwmixread),
            iops: rounded(read.iops + write.iops),
            bandwidth_gbps: rounded(1e-9 * (read.bytes_per_s + write.bytes_per_s)),
            ios: read.ios + write.ios,
            measured_s: rounded(1e-15 * shared.span_fs as f64),
            slat_us: latency(|result| &result.slat),
            clat_us: IoLatencyDocument::new(&clat),
            lat_us: latency(|result| &result.lat),
            clat_histogram: LogHistogram::new(&clat),
            directions: directions.map(|(name, part)| DirectionDocument::new(name, part)).collect(),
            utilisation: utilisation.into(),
            bound_by: shared.bound_by.name().into(),
            access: storage(),
            fsync: None,
            sync_us: None,
        }
    }

    fn check(&self, field: &str) -> Checked {
        let part = |name: &str| format!("{field}.{name}");
        for (name, latency) in
            [("slat_us", &self.slat_us), ("clat_us", &self.clat_us), ("lat_us", &self.lat_us)]
        {
            latency.check(&part(name))?;
        }
        if let Some(sync) = &self.sync_us {
            sync.check(&part("sync_us"))?;
        }
        for (at, direction) in self.directions.iter().enumerate() {
            direction.clat_us.check(&part(&format!("directions[{at}].clat_us")))?;
        }
        let LogHistogram { from_us, counts } = &self.clat_histogram;
        same_length(part("clat_histogram.counts"), counts.len(), from_us.len(), "from_us")?;
        for (at, pair) in from_us.windows(2).enumerate() {
            in_order(part(&format!("clat_histogram.from_us[{at}]")), [pair[0], pair[1]])?;
        }
        Ok(())
    }

    /// Returns the fields of a point that identify its load. The card and the queue depth are not
    /// among them.
    pub fn load(&self) -> ([&str; 3], u64, u32, Option<u64>, [Option<u32>; 2]) {
        let names = [self.job.as_str(), &self.rw, &self.access];
        (names, self.bs_bytes, self.numjobs, self.rate_iops, [self.rwmixread, self.fsync])
    }
}
