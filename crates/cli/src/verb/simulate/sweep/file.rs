//! Sweep files: lists, of which every combination is simulated.

use crate::{failure::Failure, library};
use interleaf_model::{
    format::{FileError, toml_text::TomlText},
    policy::PolicyKind,
    units::{Bandwidth, Bytes, Percent, Time},
};
use serde::Deserialize;
use std::{fmt, fs, path::Path};
use toml::Spanned;

pub(super) const SCHEMA: &str = "interleaf.sweep/1";

/// The most cases: far above what anybody waits for.
const CASES_MAX: usize = 10_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepFile {
    schema: Spanned<String>,
    name: Option<Spanned<String>>,
    duration: Option<Spanned<String>>,
    page_groups: Option<Spanned<i64>>,
    #[serde(default)]
    platform: Vec<Spanned<String>>,
    #[serde(default)]
    workload: Vec<Spanned<String>>,
    #[serde(default)]
    scenario: Vec<Spanned<String>>,
    #[serde(default)]
    threads: Vec<Spanned<i64>>,
    policy: Vec<Spanned<String>>,
    #[serde(default)]
    footprint: Vec<Spanned<String>>,
    #[serde(default)]
    counter_noise: Vec<Spanned<String>>,
    #[serde(default)]
    curve_error: Vec<Spanned<String>>,
    #[serde(default)]
    migration_rate: Vec<Spanned<String>>,
    #[serde(default)]
    seed: Vec<Spanned<u64>>,
    /// As many seeds, from 1.
    seeds: Option<Spanned<u64>>,
}

/// Lists, of which every combination is simulated.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sweep {
    pub(super) file: String,
    pub(super) name: String,
    pub(super) duration: Time,
    pub(super) page_groups: Option<usize>,
    platforms: Vec<Option<String>>,
    what: Vec<What>,
    policies: Vec<PolicyKind>,
    footprints: Vec<Option<Bytes>>,
    noises: Vec<Option<Percent>>,
    curve_errors: Vec<Percent>,
    rates: Vec<Option<Bandwidth>>,
    seeds: Vec<u64>,
    text: String,
}

/// What runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    /// A workload on its own.
    Workload {
        name: String,
        threads: Option<u32>,
    },
    Scenario(String),
}

/// One combination.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) number: usize,
    pub(super) platform: Option<String>,
    pub(super) what: What,
    pub(super) policy: PolicyKind,
    pub(super) footprint: Option<Bytes>,
    pub(super) counter_noise: Option<Percent>,
    pub(super) curve_error: Percent,
    pub(super) migration_rate: Option<Bandwidth>,
    pub(super) seed: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Workload { name, threads: Some(threads) } => {
                write!(f, "{name} with {threads} threads")?;
            }
            What::Workload { name, .. } | What::Scenario(name) => write!(f, "{name}")?,
        }
        if let Some(platform) = &self.platform {
            write!(f, " on {platform}")?;
        }
        write!(f, " under {}, seed {}", self.policy, self.seed)
    }
}

impl Sweep {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let file = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|why| {
            let hint = "name a sweep file; docs/simulate.md shows one";
            Failure::new(format!("{file}: {why}"), hint)
        })?;
        Ok(Self::parse(&file, &text)?)
    }

    fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        let toml = TomlText::new(file, text);
        let read: SweepFile = toml.read()?;
        toml.schema(&read.schema, SCHEMA)?;
        let sweep = Self {
            file: file.into(),
            name: match &read.name {
                Some(name) => toml.said("name", name)?,
                None => "sweep".into(),
            },
            duration: match &read.duration {
                Some(duration) => toml.quantity("duration", duration)?,
                None => Time::from_seconds(super::super::DURATION_S),
            },
            page_groups: match &read.page_groups {
                Some(groups) => {
                    let most = interleaf_sim::machine::scenario::GROUPS_MAX as i64;
                    Some(in_range(&toml, "page_groups", groups, most)? as usize)
                }
                None => None,
            },
            platforms: or_none(&read.platform, |name| Ok(name.get_ref().clone()))?,
            what: what(&toml, &read)?,
            policies: policies(&toml, &read)?,
            footprints: or_none(&read.footprint, |size| toml.quantity("footprint", size))?,
            noises: or_none(&read.counter_noise, |noise| {
                within(&toml, "counter_noise", noise, 0.0, 0.5)
            })?,
            curve_errors: curve_errors(&toml, &read)?,
            rates: or_none(&read.migration_rate, |rate| toml.quantity("migration_rate", rate))?,
            seeds: seeds(&toml, &read)?,
            text: text.into(),
        };
        let cases = sweep.count();
        if cases == 0 || cases > CASES_MAX {
            let problem = format!("its lists make {cases} cases, not 1 to {CASES_MAX}");
            return Err(toml.file_error("policy", &problem, "make the lists shorter"));
        }
        Ok(sweep)
    }

    fn count(&self) -> usize {
        [
            self.platforms.len(),
            self.what.len(),
            self.policies.len(),
            self.footprints.len(),
            self.noises.len(),
            self.curve_errors.len(),
            self.rates.len(),
            self.seeds.len(),
        ]
        .into_iter()
        .fold(1, usize::saturating_mul)
    }

    /// Every combination, the seeds running fastest.
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases = vec![];
        for number in 0..self.count() {
            let mut rest = number;
            let mut pick = |length: usize| {
                let at = rest % length;
                rest /= length;
                at
            };
            let seed = self.seeds[pick(self.seeds.len())];
            let migration_rate = self.rates[pick(self.rates.len())];
            let curve_error = self.curve_errors[pick(self.curve_errors.len())];
            let counter_noise = self.noises[pick(self.noises.len())];
            let policy = self.policies[pick(self.policies.len())];
            let footprint = self.footprints[pick(self.footprints.len())];
            let what = self.what[pick(self.what.len())].clone();
            let platform = self.platforms[pick(self.platforms.len())].clone();
            cases.push(Case {
                number,
                platform,
                what,
                policy,
                footprint,
                counter_noise,
                curve_error,
                migration_rate,
                seed,
            });
        }
        cases
    }

    /// A number that changes when the sweep does (FNV-1a, 64 bits).
    pub(super) fn fingerprint(&self) -> u64 {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
    }

    /// An error about a field of the file.
    pub(super) fn failure(&self, field: &str, problem: &str, hint: &str) -> Failure {
        Failure::new(format!("{}: {field}: {problem}", self.file), hint)
    }
}

/// Each of `values`, or one `None` when there is none.
fn or_none<V, T>(
    values: &[V],
    read: impl Fn(&V) -> Result<T, FileError>,
) -> Result<Vec<Option<T>>, FileError> {
    if values.is_empty() {
        return Ok(vec![None]);
    }
    values.iter().map(|value| read(value).map(Some)).collect()
}

fn what(toml: &TomlText<'_>, read: &SweepFile) -> Result<Vec<What>, FileError> {
    let threads = or_none(&read.threads, |threads| {
        in_range(toml, "threads", threads, 65536).map(|threads| threads as u32)
    })?;
    let known = library::workload_names();
    let mut what = vec![];
    for name in &read.workload {
        if !known.contains(name.get_ref()) {
            let problem = format!("there is no workload \"{}\"", name.get_ref());
            let hint = format!("the workloads are {}", known.join(", "));
            return Err(toml.error("workload", name, problem, hint));
        }
        what.extend(
            threads
                .iter()
                .map(|threads| What::Workload { name: name.get_ref().clone(), threads: *threads }),
        );
    }
    what.extend(read.scenario.iter().map(|name| What::Scenario(name.get_ref().clone())));
    if what.is_empty() {
        let hint = "add workload = [\"cloverleaf\"], or scenario = [\"shifting-demand\"]";
        return Err(toml.file_error("workload", "there is nothing to run", hint));
    }
    Ok(what)
}

fn policies(toml: &TomlText<'_>, read: &SweepFile) -> Result<Vec<PolicyKind>, FileError> {
    let names: Vec<&str> = PolicyKind::ALL.iter().map(|(_, name, _)| *name).collect();
    let policy = |name: &Spanned<String>| {
        let problem = || format!("there is no policy \"{}\"", name.get_ref());
        let parsed: Result<PolicyKind, String> = name.get_ref().parse();
        parsed.map_err(|_| {
            toml.error("policy", name, problem(), format!("write some of {}", names.join(", ")))
        })
    };
    read.policy.iter().map(policy).collect()
}

fn curve_errors(toml: &TomlText<'_>, read: &SweepFile) -> Result<Vec<Percent>, FileError> {
    let errors = or_none(&read.curve_error, |error| within(toml, "curve_error", error, -0.9, 0.9))?;
    Ok(errors.into_iter().map(|error| error.unwrap_or(Percent::ZERO)).collect())
}

fn seeds(toml: &TomlText<'_>, read: &SweepFile) -> Result<Vec<u64>, FileError> {
    match (&read.seeds, read.seed.is_empty()) {
        (None, true) => Ok(vec![1]),
        (None, false) => Ok(read.seed.iter().map(|seed| *seed.get_ref()).collect()),
        (Some(count), true) if (1..=CASES_MAX as u64).contains(count.get_ref()) => {
            Ok((1..=*count.get_ref()).collect())
        }
        (Some(count), true) => {
            let problem = format!("{} is not between 1 and {CASES_MAX}", count.get_ref());
            Err(toml.error("seeds", count, problem, "write how many seeds, such as 300"))
        }
        (Some(count), false) => {
            let problem = "there are both seed and seeds";
            Err(toml.error("seeds", count, problem, "give a list of seeds, or how many"))
        }
    }
}

fn within(
    toml: &TomlText<'_>,
    field: &str,
    value: &Spanned<String>,
    low: f64,
    high: f64,
) -> Result<Percent, FileError> {
    let percent: Percent = toml.quantity(field, value)?;
    if (low..=high).contains(&percent.part()) {
        return Ok(percent);
    }
    let (low, high) = (100.0 * low, 100.0 * high);
    let problem = format!("{percent} is not between {low}% and {high}%");
    Err(toml.error(field, value, problem, "write a percentage in that range, such as \"2%\""))
}

fn in_range(
    toml: &TomlText<'_>,
    field: &str,
    value: &Spanned<i64>,
    most: i64,
) -> Result<i64, FileError> {
    if (1..=most).contains(value.get_ref()) {
        return Ok(*value.get_ref());
    }
    let problem = format!("{} is not between 1 and {most}", value.get_ref());
    Err(toml.error(field, value, problem, format!("write a whole number from 1 to {most}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn every_combination_once() {
        let text = "schema = \"interleaf.sweep/1\"\nplatform = [\"gnr120-cz122\"]\n\
                    workload = [\"lbm\", \"stream\"]\nthreads = [30, 119]\n\
                    policy = [\"dmi\", \"guided\"]\ncurve_error = [\"-20%\", \"20%\"]\nseeds = 3\n";
        let sweep = Sweep::parse("sweep.toml", text).unwrap();
        let cases = sweep.cases();
        assert_eq!(cases.len(), 2 * 2 * 2 * 2 * 3);
        let mut texts: Vec<String> =
            cases.iter().map(|case| format!("{:?}", Case { number: 0, ..case.clone() })).collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), cases.len());
        assert_eq!((cases[0].seed, cases[1].seed, cases[3].seed), (1, 2, 1));
        assert!(cases.iter().enumerate().all(|(at, case)| case.number == at));
    }
}
