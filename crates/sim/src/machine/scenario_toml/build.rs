//! Builds a [`Scenario`] from a [`ScenarioFile`], a platform and demands.

use super::{DemandSource, DeviceEntry, LoadedDemand, ScenarioFile, WorkloadEntry, read::twice};
use crate::machine::scenario::{Scenario, ScenarioError, Task, TrafficDevice};
use interleaf_model::{
    format::{FileError, toml_text::TomlText},
    mix::Mix,
    platform::Platform,
};
use toml::Spanned;

impl ScenarioFile {
    /// Builds the scenario on `platform`; `demands` loads the demand of a source.
    ///
    /// # Errors
    /// If `demands` fails: its first error, unchanged. If the file names a tier or a domain that
    /// the platform lacks, or exceeds the platform's resources: a [`FileError`].
    pub fn build<E: From<FileError>>(
        &self,
        platform: Platform,
        demands: &dyn Fn(DemandSource<'_>) -> Result<LoadedDemand, E>,
    ) -> Result<Scenario, E> {
        let toml = self.toml();
        let held_bytes = self.held_bytes(&toml, &platform)?;
        let devices = self.devices(&toml, &platform)?;
        // Errors that do not depend on a demand are found before a demand is loaded.
        let places: Vec<(usize, Option<u32>)> = self
            .workloads
            .iter()
            .map(|entry| entry.place(&toml, &platform))
            .collect::<Result<_, _>>()?;
        let mut tasks: Vec<Task> = vec![];
        for (entry, place) in self.workloads.iter().zip(places) {
            let loaded = demands(entry.source.get_ref().as_source())?;
            let task = entry.task(&platform, &loaded, place);
            if tasks.iter().any(|known| known.name == task.name) {
                let (field, value) = entry.at("workload.name", entry.name.as_ref());
                return Err(twice(&toml, &field, &value, &task.name).into());
            }
            tasks.push(task);
        }
        let scenario = Scenario {
            held_bytes,
            devices,
            migration: self.migration,
            damon: self.damon,
            page_groups: self.page_groups,
            counter_noise: self.counter_noise,
            counts_latency: self.counts_latency,
            seed: self.seed,
            ..Scenario::new(&self.name, platform, tasks)
        };
        scenario.check().map_err(|why| self.of_whole(&toml, &scenario, &why))?;
        Ok(scenario)
    }

    fn held_bytes(&self, toml: &TomlText<'_>, platform: &Platform) -> Result<Vec<u64>, FileError> {
        let mut bytes = vec![0; platform.tiers.len()];
        for (tier, held) in &self.held {
            let name = Spanned::new(held.span(), tier.clone());
            let at = named(toml, &format!("held.{tier}"), &name, "tier", &platform.tier_names())?;
            bytes[at] = held.get_ref().get();
        }
        Ok(bytes)
    }

    fn devices(
        &self,
        toml: &TomlText<'_>,
        platform: &Platform,
    ) -> Result<Vec<TrafficDevice>, FileError> {
        let device = |entry: &DeviceEntry| {
            let tier = named(toml, "device.tier", &entry.tier, "tier", &platform.tier_names())?;
            let domain = domain(toml, "device.domain", entry.domain.as_ref(), platform)?;
            let bandwidth_gbps = *entry.bandwidth_gbps.get_ref();
            let curves = &platform.tiers[tier].curves;
            let reads = curves.answer(&platform.domains[domain].name, Mix::READ).response;
            let most = reads.max_bandwidth_gbps();
            if bandwidth_gbps > most {
                let name = &platform.tiers[tier].name;
                let problem = format!("{bandwidth_gbps} GB/s is more than {name} carries");
                let hint = format!("write a bandwidth up to {most} GB/s");
                return Err(toml.error("device.bandwidth", &entry.bandwidth_gbps, problem, hint));
            }
            Ok(TrafficDevice {
                name: entry.name.clone(),
                tier,
                domain,
                bandwidth_gbps,
                read_share: entry.read_share,
                from_s: entry.from.seconds(),
                to_s: entry.to.map_or(f64::INFINITY, |to| to.seconds()),
            })
        };
        self.devices.iter().map(device).collect()
    }

    /// Converts `why`, an error of the scenario as a whole, into an error with a position in the
    /// file. The position is the entry that contributes most to the error, or the platform if no
    /// entry does.
    fn of_whole(&self, toml: &TomlText<'_>, scenario: &Scenario, why: &ScenarioError) -> FileError {
        let error = |at: Option<FieldSpan>| match at {
            Some((field, value)) => toml.error(&field, &value, why, why.hint()),
            None => toml.file_error("platform", &why.to_string(), why.hint()),
        };
        let entries = || self.workloads.iter().zip(&scenario.tasks);
        error(match why {
            ScenarioError::TooManyTiers { .. } => None,
            ScenarioError::TooShort { task, .. } | ScenarioError::TooLong { task, .. } => entries()
                .find(|(_, known)| known.name == *task)
                .map(|(entry, _)| entry.at("workload.work", entry.work.as_ref())),
            ScenarioError::HeldTooMuch { tier, .. } => {
                let held = self.held.iter().find(|(name, _)| name == tier);
                held.map(|(name, held)| (format!("held.{name}"), Spanned::new(held.span(), ())))
            }
            ScenarioError::TooLarge { .. } => entries()
                .max_by_key(|(_, task)| task.footprint_bytes)
                .map(|(entry, _)| entry.at("workload.footprint", entry.footprint.as_ref())),
            ScenarioError::TooManyThreads { at_s, domain, .. } => entries()
                .rfind(|(_, task)| {
                    task.start_s == *at_s && scenario.platform.domains[task.domain].name == *domain
                })
                .map(|(entry, _)| entry.at("workload.threads", entry.threads.as_ref())),
        })
    }
}

/// The name of a field, and the position of its value in the file.
type FieldSpan = (String, Spanned<()>);

impl WorkloadEntry {
    /// Returns the index of the domain of the workload's threads, and the number of threads; `None`
    /// in place of the number if the file has no `threads`, so that the default of the demand
    /// applies.
    fn place(
        &self,
        toml: &TomlText<'_>,
        platform: &Platform,
    ) -> Result<(usize, Option<u32>), FileError> {
        let at = domain(toml, "workload.domain", self.domain.as_ref(), platform)?;
        let cores = platform.domains[at].cores;
        let threads = self.threads.as_ref();
        let threads = threads.map(|n| toml.whole("workload.threads", n, 1..=cores)).transpose()?;
        Ok((at, threads))
    }

    fn task(
        &self,
        platform: &Platform,
        loaded: &LoadedDemand,
        (domain, threads): (usize, Option<u32>),
    ) -> Task {
        let cores = platform.domains[domain].cores;
        let threads = threads.unwrap_or_else(|| loaded.demand.threads().min(cores));
        let measured_on = loaded.measured_on.as_ref().unwrap_or(platform);
        let task = Task::new(platform, measured_on, &loaded.demand, threads);
        let name = self.name.as_ref().map_or(task.name, |name| name.get_ref().clone());
        Task {
            scope: self.scope.clone().unwrap_or_else(|| name.clone()),
            name,
            footprint_bytes: self
                .footprint
                .as_ref()
                .map_or(task.footprint_bytes, |bytes| bytes.get_ref().get()),
            start_s: self.start.seconds(),
            runs: self.runs,
            work: self.work.as_ref().map_or(1.0, |work| *work.get_ref()),
            cycles: self.cycles,
            domain,
            steered: self.steered,
            ..task
        }
    }

    /// Returns the position of `value` in the file; if `value` is `None`, the position of the
    /// workload's demand.
    fn at<T>(&self, field: &str, value: Option<&Spanned<T>>) -> FieldSpan {
        match value {
            Some(value) => (field.into(), Spanned::new(value.span(), ())),
            None => (self.source.get_ref().key().into(), Spanned::new(self.source.span(), ())),
        }
    }
}

/// Returns the index of the domain `name`; if `name` is `None`, the index of the first domain.
fn domain(
    toml: &TomlText<'_>,
    field: &str,
    name: Option<&Spanned<String>>,
    platform: &Platform,
) -> Result<usize, FileError> {
    let names: Vec<&str> = platform.domains.iter().map(|domain| domain.name.as_str()).collect();
    name.map_or(Ok(0), |name| named(toml, field, name, "domain", &names))
}

/// Returns the index of `name` among `names`. The error message calls a name of the list a `what`:
/// "tier" or "domain".
fn named(
    toml: &TomlText<'_>,
    field: &str,
    name: &Spanned<String>,
    what: &str,
    names: &[&str],
) -> Result<usize, FileError> {
    names.iter().position(|known| *known == name.get_ref()).ok_or_else(|| {
        let problem = format!("there is no {what} \"{}\"", name.get_ref());
        let hint = match names {
            [only] => format!("the only {what} of this platform is {only}"),
            _ => format!("the {what}s of this platform are {}", names.join(", ")),
        };
        toml.error(field, name, problem, hint)
    })
}
