//! Parses a scenario file into a [`ScenarioFile`], and checks the file alone.

use super::{DeviceEntry, OwnedSource, SCHEMA, ScenarioFile, WorkloadEntry};
use crate::machine::scenario::{
    BANDWIDTH_MAX_GBPS, COUNTER_NOISE, DURATION_S, Damon, GROUPS_MAX, Migration, NOISE_MAX,
    PAGE_GROUPS,
};
use interleaf_model::{
    format::{FileError, toml_text::TomlText},
    units::{Bandwidth, Bytes, Percent, Time, UnitError},
};
use serde::Deserialize;
use std::{collections::BTreeMap, str::FromStr};
use toml::Spanned;

/// Maximum stall of a thread on a migrating page, s. Stalls take microseconds on servers, so a
/// stall above this limit is a typing error.
const STALL_MAX_S: f64 = 1.0;

/// The smallest and the largest page, bytes: a base page and the largest huge page of x86-64.
const PAGE_BYTES: [u64; 2] = [4 << 10, 1 << 30];

/// Minimum sampling and aggregation intervals, s. Shorter intervals would cost simulation time,
/// because each sample is simulated, and migration is planned after each aggregation. The defaults
/// of DAMON are 5 ms and 100 ms.
const SAMPLING_MIN_S: f64 = 1e-3;
const AGGREGATION_MIN_S: f64 = 0.1;

/// Maximum sampling or aggregation interval, s. Usual intervals are milliseconds to seconds, so an
/// interval above this limit is a typing error.
const INTERVAL_MAX_S: f64 = 3600.0;

/// Maximum number of samples of a region in an aggregation interval, because each sample is
/// simulated.
const SAMPLES_MAX: u64 = 1000;

/// Maximum number of regions: more regions take time without a gain in accuracy.
const REGIONS_MAX: i64 = 10_000;

/// Maximum number of runs, and of cycles of a run, because each takes at least one step of the
/// simulation.
const REPEATS_MAX: u32 = 100_000;

/// The longest run of a workload, as a multiple of the run in the demand of the workload.
const WORK_MAX: f64 = 1000.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioToml {
    /// The schema and its version: `interleaf.scenario/1`.
    schema: Spanned<String>,
    /// The name of the scenario.
    name: Spanned<String>,
    /// The platform, by name or as a file.
    platform: Option<Spanned<String>>,
    /// Simulated time: "600s".
    duration: Option<Spanned<String>>,
    /// Number of page groups of all workloads together; all pages of a group are on one tier.
    page_groups: Option<Spanned<i64>>,
    /// Relative standard deviation of a counter reading: "2%".
    counter_noise: Option<Spanned<String>>,
    /// True if the machine counts requests and their waiting time; default: true.
    counts_latency: Option<bool>,
    /// The seed of all randomness; default: 1.
    seed: Option<Spanned<i64>>,
    /// Rate and cost of page migration.
    #[serde(default)]
    migration: MigrationFile,
    /// Intervals and regions of hotness sampling by DAMON.
    #[serde(default)]
    damon: DamonFile,
    /// Memory that other programs occupy on a tier; the key is the name of the tier.
    #[serde(default)]
    held: BTreeMap<String, Spanned<String>>,
    /// Workloads of the scenario.
    #[serde(default)]
    workload: Vec<WorkloadFile>,
    /// PCIe devices that access memory.
    #[serde(default)]
    device: Vec<DeviceFile>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MigrationFile {
    /// The highest migration rate: "4GB/s".
    rate: Option<Spanned<String>>,
    /// Delay of a thread that accesses a migrating page: "2us".
    stall: Option<Spanned<String>>,
    /// Size of a page: "4KiB".
    page: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DamonFile {
    /// Time between samples: "200ms".
    sampling: Option<Spanned<String>>,
    /// Time of an aggregation, in which the samples of a region are counted: "3s".
    aggregation: Option<Spanned<String>>,
    /// Minimum and maximum number of regions of a workload.
    regions: Option<Spanned<Vec<i64>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadFile {
    /// The name of the workload, unique in the scenario; default: the name of the demand.
    name: Option<Spanned<String>>,
    /// A built-in workload; each entry has either `workload` or `demand`.
    workload: Option<Spanned<String>>,
    /// A demand file, relative to this file; each entry has either `workload` or `demand`.
    demand: Option<Spanned<String>>,
    /// Number of threads; default: the threads of the demand's largest run, at most the cores of
    /// the domain.
    threads: Option<Spanned<i64>>,
    /// Memory that the workload touches; default: the footprint of the demand.
    footprint: Option<Spanned<String>>,
    /// Start time of the workload: "0s".
    start: Option<Spanned<String>>,
    /// Number of runs; default: the workload repeats until the end of the simulation.
    runs: Option<Spanned<i64>>,
    /// Length of a run as a multiple of the run in the demand; default: 1.
    work: Option<Spanned<f64>>,
    /// Number of passes of a run through the phases of the demand; default: 1.
    cycles: Option<Spanned<i64>>,
    /// The domain of the workload's threads; default: the first domain.
    domain: Option<Spanned<String>>,
    /// The control group of the workload; default: the name of the workload.
    scope: Option<Spanned<String>>,
    /// True if the pages of the workload may be migrated; default: true.
    steered: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceFile {
    /// The name of the device.
    name: Spanned<String>,
    /// The tier of the device's buffers.
    tier: Spanned<String>,
    /// The domain whose counters include the device's traffic; default: the first domain.
    domain: Option<Spanned<String>>,
    /// Bandwidth of the device's reads and writes together: "40GB/s".
    bandwidth: Spanned<String>,
    /// Reads as a fraction of the bytes, 0 to 1.
    read_share: Spanned<f64>,
    /// Start time of the device's traffic; default: "0s".
    from: Option<Spanned<String>>,
    /// End time of the device's traffic; default: the end of the simulation.
    to: Option<Spanned<String>>,
}

/// Reads the scenario in `text`.
///
/// # Errors
/// If the text is not a scenario file, or has a value that no platform allows.
pub fn parse(file: &str, text: &str) -> Result<ScenarioFile, FileError> {
    let toml = TomlText::new(file, text);
    let read: ScenarioToml = toml.read_as(SCHEMA)?;
    toml.schema(&read.schema, SCHEMA)?;
    let held = |(tier, held): (&String, &Spanned<String>)| {
        let bytes: Bytes = toml.quantity(&format!("held.{tier}"), held)?;
        Ok((tier.clone(), at(held, bytes)))
    };
    Ok(ScenarioFile {
        name: toml.said("name", &read.name)?,
        platform: optional(&read.platform, |name| Ok(at(name, toml.said("platform", name)?)))?,
        duration: optional(&read.duration, |span| duration(&toml, span))?,
        page_groups: optional(&read.page_groups, |count| {
            toml.whole("page_groups", count, 1..=GROUPS_MAX)
        })?
        .unwrap_or(PAGE_GROUPS),
        counter_noise: optional(&read.counter_noise, |noise| counter_noise(&toml, noise))?
            .unwrap_or(COUNTER_NOISE),
        counts_latency: read.counts_latency.unwrap_or(true),
        seed: optional(&read.seed, |seed| toml.whole("seed", seed, 0..=i64::MAX as u64))?
            .unwrap_or(1),
        migration: migration(&toml, &read.migration)?,
        damon: damon(&toml, &read.damon)?,
        held: read.held.iter().map(held).collect::<Result<_, FileError>>()?,
        workloads: workloads(&toml, &read.workload)?,
        devices: devices(&toml, &read.device)?,
        file: file.into(),
        text: text.into(),
    })
}

fn migration(toml: &TomlText<'_>, read: &MigrationFile) -> Result<Migration, FileError> {
    let default = Migration::default();
    let rate = optional(&read.rate, |rate| bandwidth(toml, "migration.rate", rate))?;
    let stall = optional(&read.stall, |stall| {
        within(toml, "migration.stall", stall, Time::seconds, [0.0, STALL_MAX_S], ["0s", "1s"])
    })?;
    let page = optional(&read.page, |page| {
        let [low, high] = PAGE_BYTES.map(|bytes| bytes as f64);
        let bytes = |page: Bytes| page.get() as f64;
        within(toml, "migration.page", page, bytes, [low, high], ["4KiB", "1GiB"])
    })?;
    Ok(Migration {
        bandwidth_gbps: rate.unwrap_or(default.bandwidth_gbps),
        stall_ns: stall.map_or(default.stall_ns, |stall| stall.seconds() * 1e9),
        page_bytes: page.map_or(default.page_bytes, Bytes::get),
    })
}

fn damon(toml: &TomlText<'_>, read: &DamonFile) -> Result<Damon, FileError> {
    let default = Damon::default();
    let sampling_ns = optional(&read.sampling, |span| {
        let range = [SAMPLING_MIN_S, INTERVAL_MAX_S];
        within(toml, "damon.sampling", span, Time::seconds, range, ["1ms", "1h"])
    })?
    .map_or(default.sampling_ns, Time::nanoseconds);
    let aggregation_ns = optional(&read.aggregation, |span| {
        let range = [AGGREGATION_MIN_S, INTERVAL_MAX_S];
        within(toml, "damon.aggregation", span, Time::seconds, range, ["100ms", "1h"])
    })?
    .map_or(default.aggregation_ns, Time::nanoseconds);
    if !(1..=SAMPLES_MAX).contains(&(aggregation_ns / sampling_ns)) {
        let [aggregation, sampling] =
            [aggregation_ns, sampling_ns].map(|ns| Time::from_seconds(ns as f64 * 1e-9));
        let less = aggregation_ns < sampling_ns;
        let than = if less { "shorter than" } else { "more than 1000 times" };
        let problem = format!("aggregation = {aggregation} is {than} sampling = {sampling}");
        let hint = "count accesses over 1 to 1000 sampling intervals; 10 to 20 are usual";
        // The default intervals are valid together, so at least one of the two intervals is from
        // the file. The error names the field of that interval.
        let field = if read.aggregation.is_some() { "damon.aggregation" } else { "damon.sampling" };
        return Err(match read.aggregation.as_ref().or(read.sampling.as_ref()) {
            Some(value) => toml.error(field, value, problem, hint),
            None => toml.file_error(field, &problem, hint),
        });
    }
    let [regions_min, regions_max] =
        optional(&read.regions, |regions| match regions.get_ref()[..] {
            [low, high] if 1 <= low && low <= high && high <= REGIONS_MAX => {
                Ok([low as usize, high as usize])
            }
            _ => {
                let given = regions.get_ref();
                let problem = format!("{given:?} is not 1 <= least <= most <= {REGIONS_MAX}");
                let hint = "write how many at least and at most, such as [10, 1000]";
                Err(toml.error("damon.regions", regions, problem, hint))
            }
        })?
        .unwrap_or([default.regions_min, default.regions_max]);
    Ok(Damon { sampling_ns, aggregation_ns, regions_min, regions_max })
}

fn workloads(toml: &TomlText<'_>, read: &[WorkloadFile]) -> Result<Vec<WorkloadEntry>, FileError> {
    if read.is_empty() {
        let hint = "add a [[workload]] with workload = \"lbm\", or demand = \"FILE\"";
        return Err(toml.file_error("workload", "there is none", hint));
    }
    let entries = read.iter().enumerate().map(|(index, read)| workload(toml, index, read));
    entries.collect()
}

fn workload(
    toml: &TomlText<'_>,
    index: usize,
    read: &WorkloadFile,
) -> Result<WorkloadEntry, FileError> {
    let said = |field: &str, value: &Option<Spanned<String>>| {
        optional(value, |value| Ok(at(value, toml.said(field, value)?)))
    };
    let repeats = |field: &str, value: &Option<Spanned<i64>>| {
        optional(value, |value| toml.whole(field, value, 1..=REPEATS_MAX))
    };
    let footprint = optional(&read.footprint, |value| {
        let bytes: Bytes = toml.quantity("workload.footprint", value)?;
        if bytes.get() == 0 {
            let hint = "write the memory that it touches, such as \"32GiB\"";
            return Err(toml.error("workload.footprint", value, "it is zero", hint));
        }
        Ok(at(value, bytes))
    })?;
    Ok(WorkloadEntry {
        name: said("workload.name", &read.name)?,
        source: source(toml, index, read)?,
        threads: read.threads.clone(),
        footprint,
        start: optional(&read.start, |start| moment(toml, "workload.start", start))?
            .unwrap_or(Time::from_seconds(0.0)),
        runs: repeats("workload.runs", &read.runs)?,
        work: optional(&read.work, |work| {
            Ok(at(work, toml.positive("workload.work", work, WORK_MAX)?))
        })?,
        cycles: repeats("workload.cycles", &read.cycles)?.unwrap_or(1),
        domain: read.domain.clone(),
        scope: said("workload.scope", &read.scope)?.map(Spanned::into_inner),
        steered: read.steered.unwrap_or(true),
    })
}

/// Returns the demand source of the workload `read`, which is entry `index` of the list
/// `[[workload]]`.
fn source(
    toml: &TomlText<'_>,
    index: usize,
    read: &WorkloadFile,
) -> Result<Spanned<OwnedSource>, FileError> {
    match (&read.workload, &read.demand) {
        (Some(name), None) => {
            Ok(at(name, OwnedSource::Workload(toml.said("workload.workload", name)?)))
        }
        (None, Some(path)) => Ok(at(path, OwnedSource::File(toml.said("workload.demand", path)?))),
        (Some(_), Some(path)) => {
            let problem = "it has a workload already";
            let hint = "give either workload = \"NAME\" or demand = \"FILE\"";
            Err(toml.error("workload.demand", path, problem, hint))
        }
        (None, None) => {
            let hint = "add workload = \"lbm\" (one that comes with the tool) or demand = \"FILE\"";
            let problem = "it has neither workload nor demand";
            Err(match &read.name {
                Some(name) => toml.error("workload", name, problem, hint),
                None => toml.file_error(&format!("[[workload]] {}", index + 1), problem, hint),
            })
        }
    }
}

fn devices(toml: &TomlText<'_>, read: &[DeviceFile]) -> Result<Vec<DeviceEntry>, FileError> {
    let mut devices: Vec<DeviceEntry> = vec![];
    for read in read {
        let name = toml.said("device.name", &read.name)?;
        if devices.iter().any(|known| known.name == name) {
            return Err(twice(toml, "device.name", &read.name, &name));
        }
        let from = optional(&read.from, |from| moment(toml, "device.from", from))?
            .unwrap_or(Time::from_seconds(0.0));
        let to = optional(&read.to, |value| {
            let to = moment(toml, "device.to", value)?;
            if to <= from {
                let problem = format!("{to} is not after from = {from}");
                let hint = "let it end after it begins, or leave it out: then it goes on";
                return Err(toml.error("device.to", value, problem, hint));
            }
            Ok(to)
        })?;
        devices.push(DeviceEntry {
            name,
            tier: read.tier.clone(),
            domain: read.domain.clone(),
            bandwidth_gbps: at(
                &read.bandwidth,
                bandwidth(toml, "device.bandwidth", &read.bandwidth)?,
            ),
            read_share: toml.part("device.read_share", &read.read_share)?,
            from,
            to,
        });
    }
    Ok(devices)
}

/// Returns the error for a second entry with the same name.
pub(super) fn twice<T>(
    toml: &TomlText<'_>,
    field: &str,
    value: &Spanned<T>,
    name: &str,
) -> FileError {
    let hint = "give each a name of its own";
    toml.error(field, value, format!("\"{name}\" is there twice"), hint)
}

fn duration(toml: &TomlText<'_>, value: &Spanned<String>) -> Result<Time, FileError> {
    within(toml, "duration", value, Time::seconds, DURATION_S, ["1ms", "24h"])
}

fn moment(toml: &TomlText<'_>, field: &str, value: &Spanned<String>) -> Result<Time, FileError> {
    within(toml, field, value, Time::seconds, [0.0, DURATION_S[1]], ["0s", "24h"])
}

fn counter_noise(toml: &TomlText<'_>, value: &Spanned<String>) -> Result<f64, FileError> {
    within(toml, "counter_noise", value, Percent::fraction, [0.0, NOISE_MAX], ["0%", "50%"])
        .map(Percent::fraction)
}

/// Reads a bandwidth, which must be above zero, in GB/s.
fn bandwidth(toml: &TomlText<'_>, field: &str, value: &Spanned<String>) -> Result<f64, FileError> {
    let bandwidth: Bandwidth = toml.quantity(field, value)?;
    if bandwidth.gbps() > 0.0 && bandwidth.gbps() <= BANDWIDTH_MAX_GBPS {
        return Ok(bandwidth.gbps());
    }
    let problem = format!("\"{}\" is not above 0 and at most 100 TB/s", value.get_ref());
    Err(toml.error(field, value, problem, "write a bandwidth such as \"4GB/s\""))
}

/// Reads the quantity in `value`, and checks that `number`, applied to the quantity, is within
/// `range`. `shown` has the limits of `range` as texts for the error.
fn within<T: FromStr<Err = UnitError> + Copy>(
    toml: &TomlText<'_>,
    field: &str,
    value: &Spanned<String>,
    number: impl Fn(T) -> f64,
    range: [f64; 2],
    shown: [&str; 2],
) -> Result<T, FileError> {
    let quantity: T = toml.quantity(field, value)?;
    if (range[0]..=range[1]).contains(&number(quantity)) {
        return Ok(quantity);
    }
    let [low, high] = shown;
    let problem = format!("\"{}\" is not between {low} and {high}", value.get_ref());
    Err(toml.error(field, value, problem, format!("write {low} to {high}")))
}

fn optional<T, U>(
    value: &Option<T>,
    read: impl FnOnce(&T) -> Result<U, FileError>,
) -> Result<Option<U>, FileError> {
    value.as_ref().map(read).transpose()
}

/// Wraps `new` with the position that `value` has in the file.
fn at<T, U>(value: &Spanned<T>, new: U) -> Spanned<U> {
    Spanned::new(value.span(), new)
}
