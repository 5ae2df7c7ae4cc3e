//! A measurement of a machine's memory, as `interleaf.measure/1`.
//!
//! `interleaf measure` writes the document after each point. It has the machine, the settings, the
//! points, and the results that follow from the points: sizes of caches, knees of curves, best
//! weights. The quality of a point is `good`, or `noisy: ` with the reasons (spread of repetitions,
//! interference, frequency, caches, misplaced pages). `report` and `compare` read the document.
//! [`platform`] converts a measurement to a platform, and [`foreign`] converts between measurements
//! and the formats of MLC and Mess.

mod figures;
pub mod foreign;
mod machine;
pub mod platform;
mod quality;

pub use crate::weights_text;
pub use machine::MeasuredMachine;
pub use quality::Quality;

use super::{
    check::{Check, Checked, invalid, not_empty},
    distinct,
    run::{ChangedSetting, PutBackDocument},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const SCHEMA: &str = "interleaf.measure/1";

/// Minimum number of repetitions for an estimate of the spread by the quartiles.
const SPREAD_REPEATS_MIN: usize = 3;

/// A measurement of memory. It is one JSON object with 19 fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasureDocument {
    pub schema: String,
    /// Kind of the measurement: all, idle, bandwidth, loaded, histogram, matrix or interleave.
    pub what: String,
    pub quick: bool,
    pub dry_run: bool,
    pub machine: MeasuredMachine,
    /// Tool that made the measurement; left out when it was Interleaf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub settings: SettingsDocument,
    /// Points, in the order of measurement.
    pub points: Vec<MeasuredPoint>,
    /// Caches, found by pointer chases of increasing size; null without such chases.
    #[serde(default)]
    pub caches: Option<CachesDocument>,
    /// Knee of each loaded-latency curve.
    #[serde(default)]
    pub knees: Vec<KneeDocument>,
    /// Weights with the most bandwidth, for each mix.
    #[serde(default)]
    pub best_weights: Vec<MeasuredBest>,
    /// Weights with the lowest latency, for each load.
    #[serde(default)]
    pub best_by_load: Vec<LoadDocument>,
    /// Measurements that are planned; only in dry runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<String>,
    /// Kernel settings that the measurement changed, one entry for each written value.
    #[serde(default)]
    pub kernel_settings: Vec<ChangedSetting>,
    /// Outcome of restoring each of `kernel_settings`.
    #[serde(default)]
    pub put_back: Vec<PutBackDocument>,
    /// Differences between the measurement and the requested one, in words.
    #[serde(default)]
    pub notes: Vec<String>,
    pub stopped: MeasureStop,
    /// Reason for `stopped`, in words.
    pub stopped_because: String,
    pub quality: Quality,
}

/// The state of a measurement: more points follow, or it has ended for a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MeasureStop {
    /// More points follow.
    Running,
    /// Nothing was measured (`--dry-run`).
    #[serde(rename = "dry run")]
    DryRun,
    /// All points are measured.
    Done,
    /// A signal arrived.
    Signal,
    /// A point could not be measured.
    Failed,
}

/// The quantity that a point measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PointKind {
    /// Latency of a pointer chase without other traffic.
    #[default]
    Idle,
    /// Latency of a pointer chase without other traffic. Its memory may fit into caches.
    Cache,
    /// Bandwidth of threads that access memory as fast as they can.
    Bandwidth,
    /// Latency of a pointer chase while other threads make traffic.
    Loaded,
    /// Distribution of the latency of single accesses.
    Histogram,
    /// Bandwidth of memory whose pages are interleaved over nodes by weights.
    Interleave,
}

display_word!(PointKind);

/// Settings that all points of a measurement share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SettingsDocument {
    pub isa: String,
    /// Requested page size. `huge_share` of a point is the fraction of its memory that has huge
    /// pages.
    pub pages: String,
    pub buffer_bytes: u64,
    pub chase_bytes: u64,
    pub stride_bytes: u64,
    /// Size of the last-level cache of the CPU that runs the pointer chase, from sysfs. If several
    /// CPUs run pointer chases, it is their largest cache. Left out when sysfs has no cache sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_level_bytes: Option<u64>,
    /// Largest part of a last-level cache that a traffic thread can use, bytes, from sysfs; left
    /// out when sysfs has no cache sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_level_bytes_per_thread: Option<u64>,
    /// Default sizes of pointer chases and buffers are at least this many times the last-level
    /// cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_level_factor: Option<u64>,
    /// Measurement time of a point, s: the sum of all repetitions.
    pub duration_s: f64,
    pub repeats: u32,
    /// Statistic by which the value of a point is computed from its repetitions.
    pub statistic: String,
    pub seed: u64,
    /// Definition of the field `spread` of a point, in words.
    pub spread: String,
}

/// One measured point. The point is one JSON object whose 26 fields cover all kinds of points.
/// Those that do not apply to its kind are null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPoint {
    pub kind: PointKind,
    pub cpu_node: u32,
    /// Node of the memory; null when the memory is on several nodes.
    pub memory_node: Option<u32>,
    /// Nodes that have pages of the measured memory.
    pub nodes: Vec<u32>,
    pub mix: Option<String>,
    /// Read share of the bytes at the memory controller, 0 to 1.
    pub read_share: Option<f64>,
    /// Order of the accesses: sequential or random. For a pointer chase: tlb-local or random.
    pub pattern: String,
    /// Kernel (timed loop) that made the traffic.
    pub kernel: Option<String>,
    pub weights: Option<Vec<u16>>,
    /// Number of threads that make the traffic.
    pub threads: u32,
    /// Pause of each traffic thread after 32 cache lines, ns, for the kinds loaded and histogram;
    /// null without traffic.
    pub delay_ns: Option<f64>,
    /// Bandwidth of the program's own loads and stores, GB/s.
    pub program_gbps: Option<f64>,
    /// Bandwidth at the memory controller, GB/s, computed from `program_gbps` and the mix.
    pub modelled_gbps: Option<f64>,
    /// Bandwidth at the memory controller, GB/s, from the controller's hardware counters.
    pub measured_gbps: Option<f64>,
    pub latency_ns: Option<f64>,
    /// Distance of the quartiles of the repetitions, divided by their median. It has no meaning
    /// with fewer than [`SPREAD_REPEATS_MIN`] repetitions.
    pub spread: f64,
    pub repeats: usize,
    /// Size of the pointer chase, bytes, for the kinds idle, cache and histogram. For the other
    /// kinds, the size of all buffers of one traffic thread, bytes.
    pub memory_bytes: u64,
    /// Fraction of the measured memory that fits into the last-level caches of the measuring CPUs,
    /// from sysfs. Left out when sysfs has no cache sizes, and when the caches are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cacheable_share: Option<f64>,
    /// Fraction of the measured memory in huge pages; null when the kernel does not report it.
    pub huge_share: Option<f64>,
    /// Number of base pages on each node; empty when the kernel does not report it.
    #[serde(default)]
    pub pages_by_node: BTreeMap<u32, u64>,
    /// Fraction of the pages that are on other nodes than the requested weights demand.
    pub off_by: Option<f64>,
    pub histogram: Option<HistogramDocument>,
    pub contamination: ContaminationDocument,
    pub took_s: f64,
    pub quality: Quality,
}

/// Interference by other programs and by the hypervisor while a point was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContaminationDocument {
    /// Mean number of CPUs that other programs used.
    pub others_cpus: f64,
    /// Mean number of CPUs that the hypervisor took (steal time).
    pub stolen_cpus: f64,
    /// Relative change of the core frequency, a fraction; null without cpufreq.
    pub frequency_change: Option<f64>,
}

/// The distribution of the latency of single accesses. The cost of reading the clock is subtracted
/// from each latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistogramDocument {
    pub samples: u64,
    /// Cost of reading the clock, ns. It is subtracted from the latency of each access.
    pub timer_ns: f64,
    /// Latency of a pointer chase in the same memory, ns. It is measured alternately with the
    /// single accesses.
    pub chase_ns: f64,
    /// Number of tagged accesses. An access is tagged if an interrupt, a CPU migration, a context
    /// switch or steal time fell into it, or if it took longer than any memory access can take.
    pub tagged: u64,
    /// Number of tagged accesses by reason.
    pub tags: BTreeMap<String, u64>,
    /// Latency of all accesses, ns.
    pub raw: SpreadDocument,
    /// Latency of the accesses that are not tagged, ns.
    pub filtered: SpreadDocument,
    /// Number of untagged accesses by latency. `histogram_8ns[i]` counts those from 8i to below
    /// 8(i+1) ns, and the last element also all longer ones.
    pub histogram_8ns: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpreadDocument {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub p99_99: f64,
    pub p99_999: f64,
    pub p99_9999: f64,
    pub max: f64,
}

/// The caches, found by pointer chases of increasing size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CachesDocument {
    pub levels: Vec<LevelDocument>,
    /// Measured size of the last-level cache, bytes. Larger pointer chases go to memory.
    /// `told_bytes` may differ: hypervisors often report another size to guests.
    pub last_level_bytes: u64,
    /// Size of the last-level cache according to sysfs, bytes.
    pub told_bytes: Option<u64>,
    pub memory_latency_ns: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelDocument {
    pub level: u32,
    /// Size of the largest pointer chase that fits into the cache, bytes.
    pub bytes: u64,
    pub latency_ns: f64,
}

/// The knee of a loaded-latency curve: beyond it, 1 % more bandwidth costs more than 1 % more
/// latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KneeDocument {
    pub memory_node: Option<u32>,
    pub weights: Option<Vec<u16>>,
    pub mix: String,
    /// Bandwidth at the knee, GB/s; null when no measured load reached the knee.
    pub bandwidth_gbps: Option<f64>,
    pub why: String,
}

/// The weights with the most bandwidth for one mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredBest {
    pub mix: String,
    pub weights: Vec<u16>,
    pub program_gbps: f64,
    /// Gain in bandwidth over all pages on the first node, as a fraction; null when that placement
    /// was not measured.
    pub gain: Option<f64>,
    /// True if `gain` exceeds the sum of the spreads of the two placements; null when one is
    /// unknown.
    pub beyond_spread: Option<bool>,
}

/// The weights with the lowest latency at the load `load_gbps`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadDocument {
    pub mix: String,
    pub load_gbps: f64,
    pub weights: Vec<u16>,
    pub latency_ns: f64,
    /// Latency with all pages on the first node, ns; null when the load exceeds that node's maximum
    /// bandwidth.
    pub first_latency_ns: Option<f64>,
}

impl Check for MeasureDocument {
    fn check(&self) -> Checked {
        for (at, point) in self.points.iter().enumerate() {
            let field = format!("points[{at}]");
            if let Some(weights) = &point.weights {
                not_empty(format!("{field}.weights"), weights.len())?;
            }
            if point.kind == PointKind::Cache && point.memory_bytes == 0 {
                return invalid(format!("{field}.memory_bytes"), "0 is not a size of a chase");
            }
            let Some(histogram) = &point.histogram else { continue };
            let (samples, tagged) = (histogram.samples, histogram.tagged);
            if tagged > samples {
                let problem = format!("{tagged} is more than the {samples} of samples");
                return invalid(format!("{field}.histogram.tagged"), problem);
            }
            let counted = histogram.histogram_8ns.iter().fold(0, |a: u64, b| a.saturating_add(*b));
            if counted > samples {
                let problem = format!("it counts {counted} accesses, and samples says {samples}");
                return invalid(format!("{field}.histogram.histogram_8ns"), problem);
            }
        }
        Ok(())
    }
}

impl MeasureDocument {
    pub fn new(what: &str, machine: MeasuredMachine, settings: SettingsDocument) -> Self {
        Self {
            schema: SCHEMA.into(),
            what: what.into(),
            quick: false,
            dry_run: false,
            machine,
            source: None,
            settings,
            points: vec![],
            caches: None,
            knees: vec![],
            best_weights: vec![],
            best_by_load: vec![],
            plan: vec![],
            kernel_settings: vec![],
            put_back: vec![],
            notes: vec![],
            stopped: MeasureStop::Running,
            stopped_because: "it runs".into(),
            quality: Quality::default(),
        }
    }

    /// Assesses the quality of a point, adds the point, and updates the results that follow from
    /// all points.
    pub fn add(&mut self, mut point: MeasuredPoint) {
        point.quality = point.assess();
        self.points.push(point);
        self.best_weights = self.best_by_mix();
        self.best_by_load = self.best_at_loads();
        self.quality = self.overall_quality();
    }

    pub fn stop(&mut self, stopped: MeasureStop, because: impl Into<String>) {
        self.stopped = stopped;
        self.stopped_because = because.into();
    }

    /// Returns the points of the kind `kind`, in the order of measurement.
    pub fn points_of_kind(&self, kind: PointKind) -> impl Iterator<Item = &MeasuredPoint> {
        self.points.iter().filter(move |point| point.kind == kind)
    }

    /// Returns the points of all loaded-latency curves, one curve after the other. The points of a
    /// curve are in the order of rising load.
    pub fn loaded(&self) -> Vec<&MeasuredPoint> {
        let mut points: Vec<&MeasuredPoint> = self.points_of_kind(PointKind::Loaded).collect();
        let curve = |point: &MeasuredPoint| {
            (point.cpu_node, point.memory_node, point.weights.clone(), point.mix.clone())
        };
        let curves = distinct(points.iter().map(|point| curve(point)));
        // A point without a delay has no load. Put it first in its curve, as if its delay were
        // infinite.
        let delay = |point: &MeasuredPoint| point.delay_ns.unwrap_or(f64::INFINITY);
        points.sort_by(|a, b| {
            let at = |point| curves.iter().position(|known| *known == curve(point));
            at(a).cmp(&at(b)).then(delay(b).total_cmp(&delay(a)))
        });
        points
    }

    /// Returns the quality of the whole measurement: noisy if more than a tenth of the points is
    /// not good.
    fn overall_quality(&self) -> Quality {
        let noisy = self.points.iter().filter(|point| point.quality != Quality::Good);
        let count = noisy.clone().count();
        if count * 10 <= self.points.len() {
            return Quality::Good;
        }
        let of = self.points.len();
        let why = |point: &'_ MeasuredPoint| match &point.quality {
            Quality::Noisy(reasons) => reasons.clone(),
            other => other.to_string(),
        };
        let mut whys: Vec<String> = noisy.map(why).collect();
        whys.sort_unstable();
        let most =
            whys.chunk_by(|a, b| reason_kind(a) == reason_kind(b)).max_by_key(|chunk| chunk.len());
        let most = most.map_or("", |chunk| &chunk[0]);
        Quality::Noisy(format!("{count} of {of} points are, most for this: {most}"))
    }

    fn best_by_mix(&self) -> Vec<MeasuredBest> {
        let mut best: Vec<MeasuredBest> = vec![];
        for point in self.points_of_kind(PointKind::Interleave) {
            let (Some(mix), Some(gbps)) = (&point.mix, point.program_gbps) else { continue };
            if best.iter().any(|best| best.mix == *mix) {
                continue;
            }
            let of_mix = || {
                self.points_of_kind(PointKind::Interleave).filter(|it| it.mix.as_ref() == Some(mix))
            };
            let value = |it: &&MeasuredPoint| it.program_gbps.unwrap_or(0.0);
            let top = of_mix().max_by(|a, b| value(a).total_cmp(&value(b))).unwrap_or(point);
            let first = of_mix().find(|it| it.weights.as_deref().is_some_and(is_first_node_only));
            let gain = first.map(|first| value(&top) / value(&first).max(1e-9) - 1.0);
            let noise = first.and_then(|it| Some(it.known_spread()? + top.known_spread()?));
            best.push(MeasuredBest {
                mix: mix.clone(),
                weights: top.weights.clone().unwrap_or_default(),
                program_gbps: top.program_gbps.unwrap_or(gbps),
                gain: gain.map(super::rounded),
                beyond_spread: gain.zip(noise).map(|(gain, noise)| gain > noise),
            });
        }
        best
    }

    /// Returns the weights with the lowest latency at each measured load. The latency of weights
    /// that were not measured at a load is interpolated between the loads at which they were
    /// measured.
    fn best_at_loads(&self) -> Vec<LoadDocument> {
        let mut curves: Vec<(Vec<u16>, Line)> = vec![];
        let mut mix = None;
        for point in self.points_of_kind(PointKind::Loaded) {
            let Some(weights) = &point.weights else { continue };
            let (Some(gbps), Some(ns)) = (point.program_gbps, point.latency_ns) else { continue };
            mix = mix.or(point.mix.clone());
            match curves.iter_mut().find(|(known, _)| known == weights) {
                Some((_, curve)) => curve.push((gbps, ns)),
                None => curves.push((weights.clone(), vec![(gbps, ns)])),
            }
        }
        if curves.len() < 2 {
            return vec![];
        }
        curves.iter_mut().for_each(|(_, curve)| curve.sort_by(|a, b| a.0.total_cmp(&b.0)));
        let mut loads: Vec<f64> =
            curves.iter().flat_map(|(_, curve)| curve.iter().map(|(gbps, _)| *gbps)).collect();
        loads.sort_by(f64::total_cmp);
        let first = curves.iter().find(|(weights, _)| is_first_node_only(weights));
        let best = |load: f64| {
            let latencies = curves
                .iter()
                .filter_map(|(weights, curve)| Some((weights, latency_at(curve, load)?)));
            let (weights, ns) = latencies.min_by(|a, b| a.1.total_cmp(&b.1))?;
            Some(LoadDocument {
                mix: mix.clone().unwrap_or_default(),
                load_gbps: super::rounded(load),
                weights: weights.clone(),
                latency_ns: super::rounded(ns),
                first_latency_ns: first
                    .and_then(|(_, curve)| latency_at(curve, load))
                    .map(super::rounded),
            })
        };
        loads.into_iter().filter_map(best).collect()
    }
}

/// A curve: its points as pairs of (bandwidth in GB/s, latency in ns).
type Line = Vec<(f64, f64)>;

/// Returns the latency, ns, of `curve` at the load `load`, GB/s, by linear interpolation. Below the
/// curve's smallest bandwidth, it is the latency of the first point. Above the largest bandwidth,
/// it is `None`.
fn latency_at(curve: &[(f64, f64)], load: f64) -> Option<f64> {
    let above = curve.iter().position(|(gbps, _)| *gbps >= load)?;
    let (x1, y1) = curve[above];
    let (x0, y0) = if above == 0 { curve[0] } else { curve[above - 1] };
    let part = if x1 > x0 { (load - x0) / (x1 - x0) } else { 1.0 };
    Some(y0 + part * (y1 - y0))
}

fn is_first_node_only(weights: &[u16]) -> bool {
    weights.first().is_some_and(|first| *first > 0) && weights[1..].iter().all(|it| *it == 0)
}

/// Returns the first word of `why` that has only letters. It groups reasons for noise that differ
/// only in their numbers.
fn reason_kind(why: &str) -> &str {
    let mut words = why.split([' ', ',']).filter(|word| !word.is_empty());
    words.find(|word| word.chars().all(char::is_alphabetic)).unwrap_or(why)
}

impl MeasuredPoint {
    /// Returns the spread of the repetitions, as a fraction. Returns `None` if there are fewer than
    /// [`SPREAD_REPEATS_MIN`].
    pub fn known_spread(&self) -> Option<f64> {
        (self.repeats >= SPREAD_REPEATS_MIN).then_some(self.spread)
    }

    /// Describes the setting of the point, without its result: `compare` matches the points of two
    /// records by this text.
    pub fn setting(&self) -> String {
        let mut words = vec![self.kind.to_string(), format!("cpus of node {}", self.cpu_node)];
        match (&self.weights, self.memory_node) {
            (Some(weights), _) => words.push(format!("weights {}", weights_text(weights))),
            (None, Some(node)) => words.push(format!("memory of node {node}")),
            (None, None) => {}
        }
        words.extend(self.mix.clone());
        words.push(self.pattern.clone());
        if self.threads > 0 {
            words.push(format!("{} threads", self.threads));
        }
        words.extend(self.delay_ns.map(|delay| format!("delay {delay} ns")));
        if self.kind == PointKind::Cache {
            words.push(size_text(self.memory_bytes));
        }
        words.join(", ")
    }

    /// Returns the result of the point with its unit: the bandwidth for the kinds bandwidth and
    /// interleave, and otherwise the latency.
    pub fn value(&self) -> Option<(f64, &'static str)> {
        match self.kind {
            PointKind::Bandwidth | PointKind::Interleave => {
                self.program_gbps.map(|gbps| (gbps, "GB/s"))
            }
            _ => self.latency_ns.map(|ns| (ns, "ns")),
        }
    }
}

/// Formats a size as a whole number of the largest possible binary unit, or else of MB (10^6
/// bytes). If no unit gives a whole number, formats the size in a binary unit with one decimal.
pub fn size_text(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = units.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    if let Some((unit, name)) = whole {
        return format!("{} {name}", bytes / unit);
    }
    if bytes >= 1_000_000 && bytes.is_multiple_of(1_000_000) {
        return format!("{} MB", bytes / 1_000_000);
    }
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
pub mod tests;
