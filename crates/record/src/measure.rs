//! A measurement, as `interleaf.measure/1`: the machine, how it was measured, each point with how
//! good it is, and what follows from them.

mod figures;
pub mod foreign;
mod machine;
pub mod platform;

pub use crate::weights_text;
pub use machine::MeasuredMachine;

use super::{
    check::{Check, Checked, invalid, not_empty},
    run::{ChangedSetting, PutBackDocument},
};
use interleaf_measure::idle;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const SCHEMA: &str = "interleaf.measure/1";

/// More of these than this make a point noisy: the spread of its repeats, and the change of the
/// frequency, as a part.
const SPREAD_MAX: f64 = 0.05;
/// The quartiles of fewer repeats than these say nothing of how much a further one would differ.
const SPREAD_REPEATS_MIN: usize = 3;
/// Processors that others kept busy or the host took away, for each that was used.
const OTHERS_MAX: f64 = 0.1;
/// Pages that are not where the weights want them, as a part of all.
const OFF_MAX: f64 = 0.01;
/// The part of the memory that the last-level caches may hold: more, and it is they that are
/// measured.
const CACHEABLE_MAX: f64 = 1.0 / idle::LAST_LEVEL_FACTOR as f64;

/// A record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasureDocument {
    pub schema: String,
    /// all, idle, bandwidth, loaded, histogram, matrix or interleave.
    pub what: String,
    pub quick: bool,
    pub dry_run: bool,
    pub machine: MeasuredMachine,
    /// The tool that measured, where it was another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub settings: SettingsDocument,
    /// In the order in which they were measured.
    pub points: Vec<MeasuredPoint>,
    /// What a sweep of sizes says of the caches; absent without one.
    #[serde(default)]
    pub caches: Option<CachesDocument>,
    /// Where curves bend.
    #[serde(default)]
    pub knees: Vec<KneeDocument>,
    /// The best weights of each mix.
    #[serde(default)]
    pub best_weights: Vec<MeasuredBest>,
    /// The best weights at each load.
    #[serde(default)]
    pub best_by_load: Vec<LoadDocument>,
    /// What would be measured; only of a dry run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<String>,
    /// Settings of the kernel that are changed meanwhile; a setting stands here for each value.
    #[serde(default)]
    pub kernel_settings: Vec<ChangedSetting>,
    /// What became of them.
    #[serde(default)]
    pub put_back: Vec<PutBackDocument>,
    /// What could not be measured as asked, and what was done in place of it.
    #[serde(default)]
    pub notes: Vec<String>,
    /// dry run, running, done, signal or failed.
    pub stopped: String,
    /// The same in words.
    pub stopped_because: String,
    /// good, or noisy: why.
    pub quality: String,
}

/// How everything was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SettingsDocument {
    pub isa: String,
    /// The pages that were asked for; a point says how many it got.
    pub pages: String,
    pub buffer_bytes: u64,
    pub chase_bytes: u64,
    pub stride_bytes: u64,
    /// The last-level cache of the CPU that chases, and the least part of one that a thread has to
    /// itself, as the kernel tells: sizes that were not asked for are at least
    /// `last_level_factor` times as large. Absent where the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_level_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_level_bytes_per_thread: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_level_factor: Option<u64>,
    /// Of a point, all repeats together.
    pub duration_s: f64,
    pub repeats: u32,
    /// What of the repeats is told.
    pub statistic: String,
    pub seed: u64,
    /// What a spread is.
    pub spread: String,
}

/// What was measured at one setting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPoint {
    /// idle, cache, bandwidth, loaded, histogram or interleave.
    pub kind: String,
    pub cpu_node: u32,
    /// Absent where pages are on several.
    pub memory_node: Option<u32>,
    /// Those that have pages.
    pub nodes: Vec<u32>,
    pub mix: Option<String>,
    /// The part of a controller's bytes that are reads.
    pub read_share: Option<f64>,
    /// sequential or random; of a chase tlb-local or random.
    pub pattern: String,
    /// The loop that made the traffic.
    pub kernel: Option<String>,
    pub weights: Option<Vec<u16>>,
    /// Those that load the memory.
    pub threads: u32,
    /// How long each of them paused after 32 lines; absent where there was no load.
    pub delay_ns: Option<f64>,
    /// What the program loaded and stored.
    pub program_gbps: Option<f64>,
    /// What a controller sees of it by the table of mixes.
    pub modelled_gbps: Option<f64>,
    /// What counters saw.
    pub measured_gbps: Option<f64>,
    pub latency_ns: Option<f64>,
    /// The distance of the quartiles of the repeats, as a part of their median; it says nothing
    /// where there are fewer than [`SPREAD_REPEATS_MIN`].
    pub spread: f64,
    pub repeats: usize,
    /// Of a chase its whole memory; else that of each buffer of each thread.
    pub memory_bytes: u64,
    /// The part of it that the last-level caches of its CPUs can hold, as the kernel tells of them;
    /// absent where it does not, and of a sweep of sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cacheable_share: Option<f64>,
    /// The part of it that is in huge pages; absent where the kernel does not say.
    pub huge_share: Option<f64>,
    /// Pages of the smallest size on each node; empty where the kernel does not say.
    #[serde(default)]
    pub pages_by_node: BTreeMap<u32, u64>,
    /// The part of the pages that is not where the weights want it.
    pub off_by: Option<f64>,
    pub histogram: Option<HistogramDocument>,
    pub contamination: ContaminationDocument,
    pub took_s: f64,
    /// good, or noisy: why.
    pub quality: String,
}

/// Who else was at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContaminationDocument {
    /// Processors that others kept busy, on average.
    pub others_cpus: f64,
    /// Processors that the host took away, on average.
    pub stolen_cpus: f64,
    /// Absent where the kernel does not say how fast processors run.
    pub frequency_change: Option<f64>,
}

/// How latencies of single accesses are spread, without what the timer costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistogramDocument {
    pub samples: u64,
    /// What reading the clock costs, which is taken off.
    pub timer_ns: f64,
    /// What a chase of the same memory says, measured in turn with the accesses.
    pub chase_ns: f64,
    /// Accesses during which the thread was interrupted, moved, switched or stolen from, or that
    /// took longer than any memory does.
    pub tagged: u64,
    /// The same by why.
    pub tags: BTreeMap<String, u64>,
    /// Of all accesses.
    pub raw: SpreadDocument,
    /// Without those that are tagged.
    pub filtered: SpreadDocument,
    /// `histogram_8ns[i]` counts accesses of 8i to 8(i+1) ns, without those that are tagged; the
    /// last one all that took longer.
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

/// What a sweep of sizes says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CachesDocument {
    pub levels: Vec<LevelDocument>,
    /// The size beyond which accesses go to memory, as measured: what guests are told of the last
    /// cache is often not true.
    pub last_level_bytes: u64,
    /// What the kernel says of it.
    pub told_bytes: Option<u64>,
    pub memory_latency_ns: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelDocument {
    pub level: u32,
    /// Up to this size it holds what is chased.
    pub bytes: u64,
    pub latency_ns: f64,
}

/// Where a curve bends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KneeDocument {
    pub memory_node: Option<u32>,
    pub weights: Option<Vec<u16>>,
    pub mix: String,
    /// Absent where the load does not reach one.
    pub bandwidth_gbps: Option<f64>,
    pub why: String,
}

/// The best weights of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredBest {
    pub mix: String,
    pub weights: Vec<u16>,
    pub program_gbps: f64,
    /// Against the first of the weights with all pages on the first node; absent without one.
    pub gain: Option<f64>,
    /// Whether that is more than the spreads of both; absent where one of them is unknown.
    pub beyond_spread: Option<bool>,
}

/// The best weights at a load: those with the least latency there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadDocument {
    pub mix: String,
    pub load_gbps: f64,
    pub weights: Vec<u16>,
    pub latency_ns: f64,
    /// With all pages on the first node; absent where that does not carry so much.
    pub first_latency_ns: Option<f64>,
}

impl Check for MeasureDocument {
    fn check(&self) -> Checked {
        for (at, point) in self.points.iter().enumerate() {
            let field = format!("points[{at}]");
            if let Some(weights) = &point.weights {
                not_empty(format!("{field}.weights"), weights.len())?;
            }
            if point.kind == "cache" && point.memory_bytes == 0 {
                return invalid(format!("{field}.memory_bytes"), "0 is no size of a chase");
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
            stopped: "running".into(),
            stopped_because: "it runs".into(),
            quality: String::new(),
        }
    }

    /// Takes in a point.
    pub fn add(&mut self, mut point: MeasuredPoint) {
        point.quality = point.assess();
        self.points.push(point);
        self.best_weights = self.best_by_mix();
        self.best_by_load = self.best_at_loads();
        self.quality = self.overall_quality();
    }

    pub fn stop(&mut self, stopped: &str, because: impl Into<String>) {
        self.stopped = stopped.into();
        self.stopped_because = because.into();
    }

    pub fn points_of_kind<'a>(
        &'a self,
        kind: &'a str,
    ) -> impl Iterator<Item = &'a MeasuredPoint> + 'a {
        self.points.iter().filter(move |point| point.kind == kind)
    }

    /// The points of curves, each curve in the order of its load.
    pub fn loaded(&self) -> Vec<&MeasuredPoint> {
        let mut points: Vec<&MeasuredPoint> = self.points_of_kind("loaded").collect();
        let curve = |point: &MeasuredPoint| {
            (point.cpu_node, point.memory_node, point.weights.clone(), point.mix.clone())
        };
        let mut curves = vec![];
        for point in &points {
            if !curves.contains(&curve(point)) {
                curves.push(curve(point));
            }
        }
        // Without a delay nobody loads at all.
        let delay = |point: &MeasuredPoint| point.delay_ns.unwrap_or(f64::INFINITY);
        points.sort_by(|a, b| {
            let at = |point| curves.iter().position(|known| *known == curve(point));
            at(a).cmp(&at(b)).then(delay(b).total_cmp(&delay(a)))
        });
        points
    }

    /// How good the whole is: noisy where more than a tenth of its points are.
    fn overall_quality(&self) -> String {
        let noisy = self.points.iter().filter(|point| point.quality != "good");
        let count = noisy.clone().count();
        if count * 10 <= self.points.len() {
            return "good".into();
        }
        let of = self.points.len();
        let mut whys: Vec<&str> =
            noisy.map(|point| point.quality.trim_start_matches("noisy: ")).collect();
        whys.sort_unstable();
        let most =
            whys.chunk_by(|a, b| reason_kind(a) == reason_kind(b)).max_by_key(|chunk| chunk.len());
        let most = most.map_or("", |chunk| chunk[0]);
        format!("noisy: {count} of {of} points are, most for this: {most}")
    }

    fn best_by_mix(&self) -> Vec<MeasuredBest> {
        let mut best: Vec<MeasuredBest> = vec![];
        for point in self.points_of_kind("interleave") {
            let (Some(mix), Some(gbps)) = (&point.mix, point.program_gbps) else { continue };
            if best.iter().any(|best| best.mix == *mix) {
                continue;
            }
            let of_mix =
                || self.points_of_kind("interleave").filter(|it| it.mix.as_ref() == Some(mix));
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

    /// The best weights at each load: loads are those that were measured, and what a choice of
    /// weights has at another is between its neighbours.
    fn best_at_loads(&self) -> Vec<LoadDocument> {
        let mut curves: Vec<(Vec<u16>, Line)> = vec![];
        let mut mix = None;
        for point in self.points_of_kind("loaded") {
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

/// Bandwidths, GB/s, each with the latency there, ns.
type Line = Vec<(f64, f64)>;

/// The latency at a load, between neighbours in proportion; none beyond the most.
fn latency_at(curve: &[(f64, f64)], load: f64) -> Option<f64> {
    let above = curve.iter().position(|(gbps, _)| *gbps >= load)?;
    let (x1, y1) = curve[above];
    let (x0, y0) = if above == 0 { curve[0] } else { curve[above - 1] };
    let part = if x1 > x0 { (load - x0) / (x1 - x0) } else { 1.0 };
    Some(y0 + part * (y1 - y0))
}

/// Whether all pages are on the first node.
fn is_first_node_only(weights: &[u16]) -> bool {
    weights.first().is_some_and(|first| *first > 0) && weights[1..].iter().all(|it| *it == 0)
}

/// What a reason is about, without its numbers.
fn reason_kind(why: &str) -> &str {
    why.split([' ', ',']).find(|word| word.chars().all(char::is_alphabetic)).unwrap_or(why)
}

impl MeasuredPoint {
    /// Whether it can be trusted, and why not.
    fn assess(&self) -> String {
        let mut whys = vec![];
        let cpus = f64::from(self.threads.max(1));
        let contamination = &self.contamination;
        if self.spread > SPREAD_MAX {
            whys.push(format!("repeats spread by {:.0} %", 100.0 * self.spread));
        }
        // Time is counted in ticks, mostly of 10 ms: in a short point two of them are nothing.
        let ticks = 0.02 / self.took_s.max(0.01);
        if contamination.others_cpus > OTHERS_MAX * cpus + ticks {
            whys.push(format!("others kept {:.1} CPUs busy", contamination.others_cpus));
        }
        if contamination.stolen_cpus > OTHERS_MAX * cpus / 2.0 + ticks {
            whys.push(format!("the host took {:.2} CPUs away", contamination.stolen_cpus));
        }
        if let Some(change) = contamination.frequency_change.filter(|it| *it > SPREAD_MAX) {
            whys.push(format!("the frequency changed by {:.0} %", 100.0 * change));
        }
        if let Some(share) = self.cacheable_share.filter(|share| *share > CACHEABLE_MAX) {
            whys.push(match share < 1.0 {
                true => {
                    format!("the last-level cache can hold {:.0} % of the memory", 100.0 * share)
                }
                false => "the last-level cache can hold all of the memory".into(),
            });
        }
        if let Some(off) = self.off_by.filter(|off| *off > OFF_MAX) {
            whys.push(format!("pages are elsewhere, {:.0} % of them", 100.0 * off));
        }
        if whys.is_empty() { "good".into() } else { format!("noisy: {}", whys.join(", ")) }
    }

    /// The spread of its repeats; `None` where there are too few for one.
    pub fn known_spread(&self) -> Option<f64> {
        (self.repeats >= SPREAD_REPEATS_MIN).then_some(self.spread)
    }

    /// What it is of, without what was found: points of two records with the same are compared.
    pub fn setting(&self) -> String {
        let mut words = vec![self.kind.clone(), format!("cpus of node {}", self.cpu_node)];
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
        if self.kind == "cache" {
            words.push(size_text(self.memory_bytes));
        }
        words.join(", ")
    }

    /// What was found: the latency of what is about latency, else the bandwidth; and its unit.
    pub fn value(&self) -> Option<(f64, &'static str)> {
        match self.kind.as_str() {
            "bandwidth" | "interleave" => self.program_gbps.map(|gbps| (gbps, "GB/s")),
            _ => self.latency_ns.map(|ns| (ns, "ns")),
        }
    }
}

/// A size with the largest unit in which it is whole, or with one decimal.
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
