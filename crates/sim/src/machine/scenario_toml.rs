//! Reads scenarios from files: the tasks on a platform, their start times, and disturbances
//! (traffic of devices, memory that other programs hold).
//!
//! A file is read in two steps, because this crate opens no files. [`parse`] checks the file alone,
//! and returns a [`ScenarioFile`] with the name of the platform. The caller loads this platform.
//! [`ScenarioFile::build`] asks its caller for each demand, and checks the combination of scenario,
//! platform and demands: tier names, cores for threads, memory for pages. Errors of both steps name
//! the line or the field.

mod build;
mod read;
#[cfg(test)]
mod tests;

pub use read::parse;

use super::scenario::{Damon, Migration};
use interleaf_model::{
    demand::Demand,
    format::toml_text::TomlText,
    platform::Platform,
    units::{Bytes, Time},
};
use toml::Spanned;

/// The schema of a scenario file.
pub const SCHEMA: &str = "interleaf.scenario/1";

/// A parsed scenario: valid in itself, not yet combined with a platform.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// The name and the text of the file, from which later errors take line numbers.
    file: String,
    text: String,
    name: String,
    platform: Option<Spanned<String>>,
    duration: Option<Time>,
    page_groups: usize,
    counter_noise: f64,
    counts_latency: bool,
    seed: u64,
    migration: Migration,
    damon: Damon,
    /// The memory that other programs hold: the name of a tier, and the held bytes with their
    /// position in the text.
    held: Vec<(String, Spanned<Bytes>)>,
    workloads: Vec<WorkloadEntry>,
    devices: Vec<DeviceEntry>,
}

/// The source of a workload's demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemandSource<'a> {
    /// The name of a built-in workload.
    Workload(&'a str),
    /// The path of a demand file, relative to the scenario file.
    File(&'a str),
}

/// A demand loaded from its source.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedDemand {
    /// The demand on memory.
    pub demand: Demand,
    /// The platform on which the demand's runs were measured; `None` if it is the platform of the
    /// scenario.
    pub measured_on: Option<Platform>,
}

#[derive(Clone, Debug)]
struct WorkloadEntry {
    name: Option<Spanned<String>>,
    source: Spanned<OwnedSource>,
    threads: Option<Spanned<i64>>,
    footprint: Option<Spanned<Bytes>>,
    start: Time,
    runs: Option<u32>,
    work: Option<Spanned<f64>>,
    cycles: u32,
    domain: Option<Spanned<String>>,
    scope: Option<String>,
    steered: bool,
}

#[derive(Clone, Debug)]
enum OwnedSource {
    Workload(String),
    File(String),
}

#[derive(Clone, Debug)]
struct DeviceEntry {
    name: String,
    tier: Spanned<String>,
    domain: Option<Spanned<String>>,
    bandwidth_gbps: Spanned<f64>,
    read_share: f64,
    from: Time,
    to: Option<Time>,
}

impl ScenarioFile {
    /// Returns the name of the scenario.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the platform of the scenario, as a name or a path; `None` if the file names no
    /// platform.
    pub fn platform_name(&self) -> Option<&str> {
        self.platform.as_ref().map(|name| name.get_ref().as_str())
    }

    /// Returns the position in the file at which the platform is named, for errors about the
    /// platform.
    pub fn platform_place(&self) -> String {
        match &self.platform {
            Some(name) => self.toml().place("platform", name),
            None => format!("{}: platform", self.file),
        }
    }

    /// Returns the position in the file at which `source` is first named, for errors about its
    /// demand.
    pub fn demand_place(&self, source: DemandSource<'_>) -> String {
        let names = |entry: &&WorkloadEntry| entry.source.get_ref().as_source() == source;
        match self.workloads.iter().find(names) {
            Some(entry) => self.toml().place(entry.source.get_ref().key(), &entry.source),
            None => self.file.clone(),
        }
    }

    fn toml(&self) -> TomlText<'_> {
        TomlText::new(&self.file, &self.text)
    }

    /// Returns the default length of the simulation; `None` if the file has no `duration`.
    pub const fn duration(&self) -> Option<Time> {
        self.duration
    }
}

impl OwnedSource {
    fn as_source(&self) -> DemandSource<'_> {
        match self {
            Self::Workload(name) => DemandSource::Workload(name),
            Self::File(path) => DemandSource::File(path),
        }
    }

    /// Returns the key by which a scenario file names this source.
    const fn key(&self) -> &'static str {
        match self {
            Self::Workload(_) => "workload.workload",
            Self::File(_) => "workload.demand",
        }
    }
}
