//! Runs sweeps of the simulated machine: workloads under policies.
//!
//! The Python package reads the same sweep files into its class `Design`. For this class,
//! [`super::arguments`] returns the values of each case as the texts in the file.

mod cases;

pub use cases::MachineCases;

use super::lists::{
    WithText, count_checked, distinct, distinct_or_none, or_none, pick, product, seeds, with_text,
};
use crate::{
    machine,
    option::{self, CURVE_ERROR_MAX, THREADS_MAX},
    predict::for_tiers,
};
use interleaf_console::Failure;
use interleaf_model::{
    format::{FileError, names::suggestion, toml_text::TomlText},
    policy::PolicyKind,
    units::{Bandwidth, Bytes, Percent, Time},
    weights::Weights,
};
use interleaf_sim::machine::{
    Scenario, ScenarioError,
    scenario::{BANDWIDTH_MAX_GBPS, DURATION_S, GROUPS_MAX, NOISE_MAX},
};
use serde::Deserialize;
use std::{collections::BTreeMap, fmt, path::Path};
use toml::Spanned;

/// The schema of a sweep file of machines.
pub const SCHEMA: &str = "interleaf.sweep/1";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepFile {
    /// The schema and its version: `interleaf.sweep/1`.
    schema: Spanned<String>,
    name: Option<Spanned<String>>,
    /// Simulated time of each case: "600s"; default: the time in the scenario file, or 600 s.
    duration: Option<Spanned<String>>,
    /// Number of page groups, the units of migration, in each simulation.
    page_groups: Option<Spanned<i64>>,
    /// Platforms, by built-in name or by file.
    #[serde(default)]
    platform: Vec<Spanned<String>>,
    /// Parameters of the tiers of each platform. The key is the name of a tier.
    #[serde(default)]
    tier: BTreeMap<String, TierLists>,
    /// Built-in workloads.
    #[serde(default)]
    workload: Vec<Spanned<String>>,
    /// Demand files. Their workloads are simulated in addition to those of `workload`.
    #[serde(default)]
    demand: Vec<Spanned<String>>,
    /// Scenarios, by built-in name or by file, in place of workloads.
    #[serde(default)]
    scenario: Vec<Spanned<String>>,
    /// Numbers of threads of the workloads.
    #[serde(default)]
    threads: Vec<Spanned<i64>>,
    /// Names of policies.
    policy: Vec<Spanned<String>>,
    /// Weights of the policy `static`: "65:35".
    #[serde(default)]
    weights: Vec<Spanned<String>>,
    /// Footprints: "16GiB".
    #[serde(default)]
    footprint: Vec<Spanned<String>>,
    /// Relative standard deviations of a counter reading: "2%".
    #[serde(default)]
    counter_noise: Vec<Spanned<String>>,
    /// Relative errors of the curves that the policy uses: "-20%".
    #[serde(default)]
    curve_error: Vec<Spanned<String>>,
    /// Highest migration rates: "4GB/s".
    #[serde(default)]
    migration_rate: Vec<Spanned<String>>,
    /// Seeds of all randomness, unless `seeds` is given; default: the seed of the scenario, or 1.
    #[serde(default)]
    seed: Vec<Spanned<i64>>,
    /// Number of seeds: the sweep uses the seeds 1 to this number.
    seeds: Option<Spanned<i64>>,
}

/// Lists of values for the parameters of a tier.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TierLists {
    /// Numbers of channels or expanders of the tier.
    #[serde(default)]
    count: Vec<Spanned<i64>>,
    /// Capacities of the tier: "512GiB".
    #[serde(default)]
    capacity: Vec<Spanned<String>>,
}

impl TierLists {
    /// Formats the values of each list as parameters of a platform that has the tier `tier`:
    /// `cxl.count=4`.
    fn parameters(&self, tier: &str) -> [Vec<Spanned<String>>; 2] {
        let count =
            |it: &Spanned<i64>| Spanned::new(it.span(), format!("{tier}.count={}", it.get_ref()));
        let capacity = |it: &Spanned<String>| {
            Spanned::new(it.span(), format!("{tier}.capacity={}", it.get_ref()))
        };
        [self.count.iter().map(count).collect(), self.capacity.iter().map(capacity).collect()]
    }
}

/// The lists of a sweep; each combination of their values is a case.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineSweep {
    file: String,
    pub name: String,
    /// Simulated time of each case; `None` for the scenario's time.
    pub duration: Option<WithText<Time>>,
    /// Number of page groups of each case; `None` for the scenario's number.
    pub page_groups: Option<usize>,
    platforms: Vec<Option<Spanned<String>>>,
    /// The values of the tables `tier`, as parameters of a platform: `cxl.count=4`.
    parameters: Vec<Spanned<String>>,
    loads: Vec<Load>,
    policies: Vec<PolicyChoice>,
    footprints: Vec<Option<Spanned<WithText<Bytes>>>>,
    noises: Vec<Option<WithText<Percent>>>,
    curve_errors: Vec<Option<WithText<Percent>>>,
    rates: Vec<Option<WithText<Bandwidth>>>,
    seeds: Vec<Option<u64>>,
    text: String,
}

/// The workloads of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// A workload that runs alone.
    Workload {
        /// The name of a built-in workload, or a demand file.
        name: Spanned<String>,
        /// True if `name` is the path of a demand file.
        is_file: bool,
        /// Number of threads. Default: the largest number of threads of the workload's measured
        /// runs with all pages on the first tier, but at most one thread for each core of the first
        /// domain.
        threads: Option<Spanned<u32>>,
    },
    /// A scenario, by built-in name or by file.
    Scenario(Spanned<String>),
}

/// A policy that the sweep file lists, with its weights.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyChoice {
    pub kind: PolicyKind,
    /// Weights of [`PolicyKind::Static`]. Default: the best static weights.
    pub weights: Option<Spanned<WithText<Weights>>>,
}

/// A case of the sweep: one value of each list. A quantity that the file does not list is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The 0-based number of the case.
    pub number: usize,
    /// The platform, by built-in name or by file.
    pub platform: Option<Spanned<String>>,
    /// The workload that runs alone in the case, or the scenario.
    pub load: Load,
    /// The policy with its weights.
    pub policy: PolicyChoice,
    /// The memory that the workload touches.
    pub footprint: Option<Spanned<WithText<Bytes>>>,
    /// Relative standard deviation of a counter reading.
    pub counter_noise: Option<WithText<Percent>>,
    /// Relative error of the curves that the policy uses.
    pub curve_error: Option<WithText<Percent>>,
    /// The highest migration rate.
    pub migration_rate: Option<WithText<Bandwidth>>,
    /// The seed of the random errors of counters and of hotness samples; `None` for the scenario's
    /// seed.
    pub seed: Option<u64>,
}

/// The name of an argument, and a function that returns the argument's text in a case (`None` if
/// the case has no such argument).
type Argument = (&'static str, fn(&Case) -> Option<String>);

/// The arguments in which cases may differ, named like the options of `interleaf simulate machine`.
const ARGUMENTS: [Argument; 12] = [
    ("platform", |case| case.platform.as_ref().map(|name| name.get_ref().clone())),
    ("workload", |case| match &case.load {
        Load::Workload { name, is_file: false, .. } => Some(name.get_ref().clone()),
        _ => None,
    }),
    ("demand", |case| match &case.load {
        Load::Workload { name, is_file: true, .. } => Some(name.get_ref().clone()),
        _ => None,
    }),
    ("threads", |case| match &case.load {
        Load::Workload { threads, .. } => threads.as_ref().map(|it| it.get_ref().to_string()),
        Load::Scenario(_) => None,
    }),
    ("scenario", |case| match &case.load {
        Load::Workload { .. } => None,
        Load::Scenario(name) => Some(name.get_ref().clone()),
    }),
    ("footprint", |case| case.footprint.as_ref().map(|size| size.get_ref().text.clone())),
    ("policy", |case| Some(case.policy.kind.to_string())),
    ("weights", |case| case.policy.weights.as_ref().map(|it| it.get_ref().text.clone())),
    ("counter_noise", |case| case.counter_noise.as_ref().map(|it| it.text.clone())),
    ("curve_error", |case| case.curve_error.as_ref().map(|it| it.text.clone())),
    ("migration_rate", |case| case.migration_rate.as_ref().map(|it| it.text.clone())),
    ("seed", |case| case.seed.map(|seed| seed.to_string())),
];

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.load {
            Load::Workload { name, threads: Some(threads), .. } => {
                write!(f, "{} with {} threads", name.get_ref(), threads.get_ref())?;
            }
            Load::Workload { name, .. } | Load::Scenario(name) => f.write_str(name.get_ref())?,
        }
        match &self.platform {
            Some(platform) => write!(f, " on {}", platform.get_ref()),
            None => Ok(()),
        }
    }
}

impl MachineSweep {
    /// Reads a sweep file.
    ///
    /// # Errors
    /// When the file cannot be read, a field is invalid, or there are too many cases.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let file = path.display().to_string();
        Ok(Self::parse(&file, &super::file_of(path, SCHEMA)?)?)
    }

    fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        let toml = TomlText::new(file, text);
        let read: SweepFile = toml.read_as(SCHEMA)?;
        toml.schema(&read.schema, SCHEMA)?;
        all_distinct(&toml, &read)?;
        let parameters = read.tier.iter().flat_map(|(tier, lists)| lists.parameters(tier));
        let sweep = Self {
            file: file.into(),
            name: match &read.name {
                Some(name) => toml.said("name", name)?,
                None => "sweep".into(),
            },
            duration: match &read.duration {
                Some(span) => Some(duration(&toml, span)?),
                None => None,
            },
            page_groups: match &read.page_groups {
                Some(groups) => Some(toml.whole("page_groups", groups, 1..=GROUPS_MAX)?),
                None => None,
            },
            platforms: platforms(&toml, &read)?,
            parameters: parameters.flatten().collect(),
            loads: loads(&toml, &read)?,
            policies: policies(&toml, &read)?,
            footprints: footprints(&toml, &read)?,
            noises: distinct_or_none(&toml, "counter_noise", &read.counter_noise, |noise| {
                within(&toml, "counter_noise", noise, 0.0, NOISE_MAX)
            })?,
            curve_errors: distinct_or_none(&toml, "curve_error", &read.curve_error, |error| {
                within(&toml, "curve_error", error, -CURVE_ERROR_MAX, CURVE_ERROR_MAX)
            })?,
            rates: distinct_or_none(&toml, "migration_rate", &read.migration_rate, |rate| {
                bandwidth(&toml, rate)
            })?,
            seeds: seeds(&toml, &read.seed, read.seeds.as_ref())?,
            text: text.into(),
        };
        if let (Some(first), false) = (
            read.curve_error.first(),
            sweep.policies.iter().any(|policy| machine::uses_curves(policy.kind)),
        ) {
            let problem = "no policy of this file uses curves";
            let hint = "add guided to policy, or leave it out";
            return Err(toml.error("curve_error", first, problem, hint));
        }
        count_checked(&toml, sweep.count(), read.seeds.as_ref(), ("policy", &read.policy[0]))?;
        Ok(sweep)
    }

    /// Returns the number of cases.
    pub fn count(&self) -> usize {
        self.base_cases().saturating_mul(self.cases_of_base_case())
    }

    /// Returns the number of base cases. A base case is a combination of platform, footprint and
    /// workload. All cases of a base case have the same best static weights.
    pub fn base_cases(&self) -> usize {
        product([self.platforms.len(), self.loads.len(), self.footprints.len()])
    }

    fn cases_of_base_case(&self) -> usize {
        let inner = [self.policies.len(), self.noises.len(), self.curve_errors.len()];
        product(inner.into_iter().chain([self.rates.len(), self.seeds.len()]))
    }

    /// Returns the index of the base case of `case`. The cases of a base case have adjacent
    /// numbers, because platform, workload and footprint vary slowest in [`Self::case`].
    pub fn base_case(&self, case: usize) -> usize {
        case / self.cases_of_base_case()
    }

    /// Returns the index of the first case of a base case.
    pub fn first_case_of(&self, base_case: usize) -> usize {
        base_case * self.cases_of_base_case()
    }

    /// Returns the case with the 0-based index `number`. From one number to the next, the seed
    /// varies fastest.
    pub fn case(&self, number: usize) -> Case {
        let mut pick = pick(number);
        Case {
            number,
            seed: self.seeds[pick(self.seeds.len())],
            migration_rate: self.rates[pick(self.rates.len())].clone(),
            curve_error: self.curve_errors[pick(self.curve_errors.len())].clone(),
            counter_noise: self.noises[pick(self.noises.len())].clone(),
            policy: self.policies[pick(self.policies.len())].clone(),
            footprint: self.footprints[pick(self.footprints.len())].clone(),
            load: self.loads[pick(self.loads.len())].clone(),
            platform: self.platforms[pick(self.platforms.len())].clone(),
        }
    }

    /// Returns the arguments that the file lists, each with the text of its value in each case. The
    /// last arguments are the duration and the number of page groups, which are equal in all cases.
    pub(super) fn arguments(&self) -> Vec<super::Argument> {
        let cases: Vec<Case> = (0..self.count()).map(|number| self.case(number)).collect();
        let listed = ARGUMENTS.map(|(name, text)| (name, cases.iter().map(text).collect()));
        let duration = self.duration.as_ref().map(|duration| duration.text.clone());
        let groups = self.page_groups.map(|groups| groups.to_string());
        let constant = [("duration", duration), ("page_groups", groups)]
            .map(|(name, text)| (name, vec![text; cases.len()]));
        let given = |(_, texts): &(&str, Vec<Option<String>>)| texts.iter().any(Option::is_some);
        listed.into_iter().chain(constant).filter(given).collect()
    }

    /// Formats the position of `value` of `field` in the sweep file, for errors.
    pub fn place<T>(&self, field: &str, value: &Spanned<T>) -> String {
        TomlText::new(&self.file, &self.text).place(field, value)
    }

    /// Formats the position in the sweep file that the error names if `platform` cannot be read.
    /// This is the position of the value in `tier` that the platform does not accept, or, if there
    /// is no such value, the position of the platform's name.
    fn place_of_platform(&self, platform: &Spanned<String>) -> String {
        let wrong = platform.get_ref().split_once(':').and_then(|(name, parameters)| {
            interleaf_catalog::platform(name).ok()?;
            let is_wrong = |parameter: &&Spanned<String>| {
                parameters.split(',').any(|it| it == parameter.get_ref())
                    && interleaf_catalog::platform(&format!("{name}:{}", parameter.get_ref()))
                        .is_err()
            };
            self.parameters.iter().find(is_wrong)
        });
        let key =
            |it: &Spanned<String>| it.get_ref().split('=').next().map(|it| format!("tier.{it}"));
        match wrong.and_then(|it| Some((it, key(it)?))) {
            Some((parameter, key)) => self.place(&key, parameter),
            None => self.place("platform", platform),
        }
    }

    /// Checks that all weights of the file match the tiers of `scenario`.
    ///
    /// # Errors
    /// When the number of weights differs from the number of tiers.
    pub fn check_weights(&self, scenario: &Scenario) -> Result<(), Failure> {
        let given = self.policies.iter().filter_map(|policy| policy.weights.as_ref());
        for weights in given {
            let on = format!("on {}", scenario.platform.name);
            points(&weights.get_ref().value, scenario)
                .map_err(|why| why.within(&on).within(&self.place("weights", weights)))?;
        }
        Ok(())
    }

    /// Formats the position in the sweep file of the value of `case` that causes the error `why`.
    pub fn place_of(&self, case: &Case, why: &ScenarioError) -> String {
        match (why, &case.load, &case.footprint) {
            (
                ScenarioError::TooManyThreads { .. },
                Load::Workload { threads: Some(threads), .. },
                _,
            ) => self.place("threads", threads),
            (ScenarioError::TooLarge { .. }, _, Some(size)) => self.place("footprint", size),
            (_, Load::Workload { name, is_file, .. }, _) => self.place(field_of(*is_file), name),
            (_, Load::Scenario(name), _) => self.place("scenario", name),
        }
    }
}

impl PolicyChoice {
    /// Returns the policy's weights in the sweep file, one number for each tier of `scenario`;
    /// `None` if the file has no weights for the policy.
    ///
    /// # Errors
    /// When the number of weights differs from the number of tiers.
    pub fn points(&self, scenario: &Scenario) -> Result<Option<Vec<u16>>, Failure> {
        let weights = self.weights.as_ref();
        weights.map(|weights| points(&weights.get_ref().value, scenario)).transpose()
    }
}

fn points(weights: &Weights, scenario: &Scenario) -> Result<Vec<u16>, Failure> {
    let names: Vec<&str> = scenario.platform.tiers.iter().map(|tier| tier.name.as_str()).collect();
    Ok(for_tiers(weights, &names)?.as_slice().to_vec())
}

/// Returns the name of the field of a sweep file that lists demand files (if `is_file`), or
/// built-in workloads.
const fn field_of(is_file: bool) -> &'static str {
    if is_file { "demand" } else { "workload" }
}

/// Returns each platform with every combination of the parameters of its tiers: `NAME:cxl.count=4`.
fn platforms(
    toml: &TomlText<'_>,
    read: &SweepFile,
) -> Result<Vec<Option<Spanned<String>>>, FileError> {
    let mut parameters: Vec<String> = vec![String::new()];
    for (tier, lists) in &read.tier {
        distinct(toml, &format!("tier.{tier}.count"), &lists.count)?;
        let capacity = format!("tier.{tier}.capacity");
        // The highest allowed count depends on the platform, so it is checked when the platform is
        // loaded.
        for count in &lists.count {
            toml.whole(&format!("tier.{tier}.count"), count, 1..=u32::MAX)?;
        }
        distinct_or_none(toml, &capacity, &lists.capacity, |size| toml.size(&capacity, size))?;
        for values in lists.parameters(tier).iter().filter(|values| !values.is_empty()) {
            let one = |before: &String| {
                let separator = if before.is_empty() { "" } else { "," };
                let texts = values.iter().map(Spanned::get_ref);
                texts.map(|text| format!("{before}{separator}{text}")).collect::<Vec<_>>()
            };
            parameters = parameters.iter().flat_map(one).collect();
        }
    }
    if let (Some((tier, _)), []) = (read.tier.iter().next(), &read.platform[..]) {
        let problem = format!("tier.{tier}: there is no platform that has it");
        return Err(toml.file_error("platform", &problem, "add platform = [\"NAME\"]"));
    }
    let with_parameters = |name: &Spanned<String>| {
        let all = parameters.iter().map(|text| match text.is_empty() {
            true => name.clone(),
            false => Spanned::new(name.span(), format!("{}:{text}", name.get_ref())),
        });
        all.map(Some).collect::<Vec<_>>()
    };
    match read.platform.is_empty() {
        true => Ok(vec![None]),
        false => Ok(read.platform.iter().flat_map(with_parameters).collect()),
    }
}

/// Checks that no list of names or numbers repeats a value. Otherwise the cases of the repeated
/// value would be counted twice.
fn all_distinct(toml: &TomlText<'_>, read: &SweepFile) -> Result<(), FileError> {
    distinct(toml, "platform", &read.platform)?;
    distinct(toml, "workload", &read.workload)?;
    distinct(toml, "demand", &read.demand)?;
    distinct(toml, "scenario", &read.scenario)?;
    distinct(toml, "threads", &read.threads)?;
    distinct(toml, "policy", &read.policy)?;
    distinct(toml, "seed", &read.seed)
}

fn loads(toml: &TomlText<'_>, read: &SweepFile) -> Result<Vec<Load>, FileError> {
    let threads = or_none(&read.threads, |threads| {
        let count = toml.whole("threads", threads, 1..=THREADS_MAX)?;
        Ok(Spanned::new(threads.span(), count))
    })?;
    let built_in = read.workload.iter().map(|name| (name, false));
    let alone: Vec<(&Spanned<String>, bool)> =
        built_in.chain(read.demand.iter().map(|name| (name, true))).collect();
    if let (Some(threads), true) = (read.threads.first(), alone.is_empty()) {
        let problem = "there is no workload that they are for";
        let hint = "leave them out, or change them in the scenario file";
        return Err(toml.error("threads", threads, problem, hint));
    }
    let known = interleaf_catalog::workload_names();
    let mut loads = vec![];
    for (name, is_file) in alone {
        if !is_file && !known.contains(name.get_ref()) {
            let problem = format!("there is no workload \"{}\"", name.get_ref());
            let similar = suggestion(name.get_ref(), &known);
            let hint = format!(
                "{similar}the workloads are {}; a demand file is in the list demand",
                known.join(", ")
            );
            return Err(toml.error("workload", name, problem, hint));
        }
        let with = |threads: &Option<Spanned<u32>>| Load::Workload {
            name: name.clone(),
            is_file,
            threads: threads.clone(),
        };
        loads.extend(threads.iter().map(with));
    }
    loads.extend(read.scenario.iter().map(|name| Load::Scenario(name.clone())));
    if loads.is_empty() {
        let hint = "add workload = [\"cloverleaf\"], demand = [\"FILE\"] or scenario = \
                    [\"shifting-demand\"]";
        return Err(toml.file_error("workload", "there is nothing to run", hint));
    }
    Ok(loads)
}

fn policies(toml: &TomlText<'_>, read: &SweepFile) -> Result<Vec<PolicyChoice>, FileError> {
    let names: Vec<&str> = PolicyKind::ALL.iter().map(|(_, name, _)| *name).collect();
    let hint = format!("write some of {}", names.join(", "));
    if read.policy.is_empty() {
        return Err(toml.file_error("policy", "there is none", &hint));
    }
    let weights =
        distinct_or_none(toml, "weights", &read.weights, |written| weights(toml, written))?;
    let mut choices = vec![];
    for name in &read.policy {
        let parsed: Result<PolicyKind, String> = name.get_ref().parse();
        let problem = || format!("there is no policy \"{}\"", name.get_ref());
        let hint = || suggestion(name.get_ref(), &names) + &hint;
        let kind = parsed.map_err(|_| toml.error("policy", name, problem(), hint()))?;
        let of_kind = if kind == PolicyKind::Static { weights.as_slice() } else { &[None] };
        choices
            .extend(of_kind.iter().map(|weights| PolicyChoice { kind, weights: weights.clone() }));
    }
    let is_static = choices.iter().any(|choice| choice.kind == PolicyKind::Static);
    if let (Some(first), false) = (read.weights.first(), is_static) {
        let problem = "no policy of this file has weights";
        return Err(toml.error(
            "weights",
            first,
            problem,
            "add static to policy, or leave them out",
        ));
    }
    Ok(choices)
}

fn weights(
    toml: &TomlText<'_>,
    value: &Spanned<String>,
) -> Result<Spanned<WithText<Weights>>, FileError> {
    let parsed = option::weights(value.get_ref()).map_err(|why| {
        let (problem, hint) = why.split_once(": write ").unwrap_or((&why, "weights such as 3:1"));
        toml.error("weights", value, problem, format!("write {hint}"))
    })?;
    Ok(Spanned::new(value.span(), with_text(parsed, value)))
}

fn footprints(
    toml: &TomlText<'_>,
    read: &SweepFile,
) -> Result<Vec<Option<Spanned<WithText<Bytes>>>>, FileError> {
    if let (Some(size), false) = (read.footprint.first(), read.scenario.is_empty()) {
        let problem = "a scenario has its own workloads, with footprints of their own";
        let hint = "leave it out, or change it in the scenario file";
        return Err(toml.error("footprint", size, problem, hint));
    }
    distinct_or_none(toml, "footprint", &read.footprint, |value| {
        let size: Bytes = toml.quantity("footprint", value)?;
        if size.get() == 0 {
            let hint = "write the memory that it touches, such as \"32GiB\"";
            return Err(toml.error("footprint", value, "it is zero", hint));
        }
        Ok(Spanned::new(value.span(), with_text(size, value)))
    })
}

fn duration(toml: &TomlText<'_>, value: &Spanned<String>) -> Result<WithText<Time>, FileError> {
    let span: Time = toml.quantity("duration", value)?;
    if (DURATION_S[0]..=DURATION_S[1]).contains(&span.seconds()) {
        return Ok(with_text(span, value));
    }
    let problem = format!("\"{}\" is not between 1ms and 24h", value.get_ref());
    Err(toml.error("duration", value, problem, "write a time such as \"600s\""))
}

/// Parses a migration rate, above 0 and at most 100 TB/s.
fn bandwidth(
    toml: &TomlText<'_>,
    value: &Spanned<String>,
) -> Result<WithText<Bandwidth>, FileError> {
    let rate: Bandwidth = toml.quantity("migration_rate", value)?;
    if rate.gbps() > 0.0 && rate.gbps() <= BANDWIDTH_MAX_GBPS {
        return Ok(with_text(rate, value));
    }
    let problem = format!("\"{}\" is not above 0 and at most 100 TB/s", value.get_ref());
    Err(toml.error("migration_rate", value, problem, "write a bandwidth such as \"4GB/s\""))
}

fn within(
    toml: &TomlText<'_>,
    field: &str,
    value: &Spanned<String>,
    low: f64,
    high: f64,
) -> Result<WithText<Percent>, FileError> {
    let percent: Percent = toml.quantity(field, value)?;
    if (low..=high).contains(&percent.fraction()) {
        return Ok(with_text(percent, value));
    }
    let (low, high) = (100.0 * low, 100.0 * high);
    let problem = format!("{percent} is not between {low}% and {high}%");
    Err(toml.error(field, value, problem, "write a percentage in that range, such as \"2%\""))
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
        let sweep = MachineSweep::parse("sweep.toml", text).unwrap();
        let cases: Vec<Case> = (0..sweep.count()).map(|number| sweep.case(number)).collect();
        assert_eq!(cases.len(), 2 * 2 * 2 * 2 * 3);
        let mut texts: Vec<String> =
            cases.iter().map(|case| format!("{:?}", Case { number: 0, ..case.clone() })).collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), cases.len());
        assert_eq!([0, 1, 3].map(|at| cases[at].seed), [Some(1), Some(2), Some(1)]);
        assert!(cases.iter().enumerate().all(|(at, case)| case.number == at));
        // The cases of a base case have the same workload and platform.
        for case in &cases {
            let first = sweep.case(sweep.first_case_of(sweep.base_case(case.number)));
            assert_eq!((&first.load, &first.platform), (&case.load, &case.platform));
        }
    }
}
