//! The configuration of the daemon, which is a TOML file. [`EXAMPLE`] has every key.

use core::time::Duration;
use interleaf_console::Failure;
use interleaf_linux::place::actuator::ActuatorKind;
use interleaf_model::{
    format::{FileError, names::suggestion, toml_text::TomlText},
    policy::PolicyKind,
    units::{Bandwidth, Time},
    weights::Weights,
};
use serde::Deserialize;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};
use toml::Spanned;

/// An example configuration, which has every key with its default and an explanation.
pub const EXAMPLE: &str = include_str!("example.toml");

const SCHEMA: &str = "interleaf.balance/1";

/// The shortest and the longest span, in seconds, of a sample (`SAMPLE_S`) and of a period
/// (`PERIOD_S`). Shorter samples would take too much CPU time. A further check refuses a sample
/// that is longer than the period.
const SAMPLE_S: [f64; 2] = [0.01, 60.0];
const PERIOD_S: [f64; 2] = [0.1, 3600.0];

/// The minimum number of samples in a period that is set by `--period`: if necessary, the option
/// shortens the samples. The period of a configuration file has no such minimum.
const SAMPLES_MIN: u32 = 10;

/// The longest process name that the kernel keeps, bytes (`TASK_COMM_LEN` without the final zero).
const NAME_BYTES: usize = 15;

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The pages that are steered. Default: the whole machine.
    pub scope: Scope,
    /// The processes and control groups whose pages are not migrated. An entry that begins with `/`
    /// is a control group and includes the groups below it; another entry is the name of processes
    /// and includes their descendants. Default: none.
    pub protected: Vec<String>,
    /// The policy that chooses the fraction of the pages on each tier. Default: dmi.
    pub policy: PolicyKind,
    /// The weights for the policy `static`. Default: none.
    pub weights: Option<Weights>,
    /// The error to return if the number of `weights` does not fit the machine. It has the position
    /// of the weights in the file; its `problem` is filled in later. `None` if no file has weights.
    pub(super) weights_error: Option<FileError>,
    /// The name or the file of a platform (the description of a server). The policy takes the
    /// latency-bandwidth curves of this platform as those of this machine. Default: none, so the
    /// policy uses the firmware's ratings of the nodes.
    pub platform: Option<String>,
    /// The time that a sample (a reading of the traffic counts) covers. Default: 200 ms.
    pub sample: Duration,
    /// The time between two decisions of the policy. Default: 6 s.
    pub period: Duration,
    /// The actuator, which is the mechanism that migrates pages. Default: auto.
    pub actuator: WantedActuator,
    /// The upper limit of the migration rate. Default: 2 GB/s.
    pub rate_limit: Bandwidth,
    /// True if the daemon may switch off kernel features that move pages or use DAMON: NUMA
    /// balancing and the kernel's DAMON modules. Default: false.
    pub stop_rivals: bool,
    /// Where the figures of bandwidth come from. Default: counters.
    pub source: SourceChoice,
    /// The group whose members may write to the feed (the socket for counts of traffic), by name or
    /// number. Default: none, so only the daemon's user may write to the feed.
    pub feed_group: Option<String>,
    /// The file to which the daemon writes the target weights after each period. Default: none.
    pub target: Option<PathBuf>,
    /// The address at which the daemon serves metrics. Default: none.
    pub metrics: Option<SocketAddr>,
    /// The path of the monitor socket. Default: `/run/interleaf/balance.sock`, or no socket if it
    /// cannot be opened there, for example because another daemon listens.
    pub monitor: Option<PathBuf>,
}

/// The pages that are steered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Machine,
    /// The processes of a control group, given by its path below the root of the hierarchy.
    Cgroup(String),
    Processes(Vec<String>),
}

/// Options that replace values of a configuration. An option that is `None` leaves the
/// configuration's value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overrides<'a> {
    pub policy: Option<&'a str>,
    pub period: Option<Time>,
    /// The socket to which other programs write counts of traffic.
    pub feed: Option<&'a Path>,
    /// The name of the actuator: auto, vaddr, paddr, quota or pages.
    pub actuator: Option<&'a str>,
    /// The name or the file of a platform. The policy takes the curves of this platform as those of
    /// this machine.
    pub curves: Option<&'a str>,
    /// True if kernel features that move pages or use DAMON may be switched off. False leaves the
    /// configuration's value.
    pub stop_rivals: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedActuator {
    /// The best actuator that the machine supports.
    Auto,
    Kind(ActuatorKind),
}

/// The highest migration rate, unless the configuration names another.
const RATE_LIMIT: &str = "2GB/s";

const AUTO: &str = "auto";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceChoice {
    /// The counters of this machine.
    Counters,
    /// A socket to which other programs write counts of traffic.
    Feed(PathBuf),
    /// A file with recorded traffic, which is replayed.
    Replay(PathBuf),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    schema: Spanned<String>,
    #[serde(default)]
    scope: ScopeTable,
    #[serde(default)]
    policy: PolicyTable,
    #[serde(default)]
    control: ControlTable,
    #[serde(default)]
    migration: MigrationTable,
    #[serde(default)]
    source: SourceTable,
    #[serde(default)]
    publish: PublishTable,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeTable {
    kind: Option<Spanned<String>>,
    cgroup: Option<Spanned<String>>,
    processes: Option<Spanned<Vec<String>>>,
    protected: Option<Spanned<Vec<String>>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyTable {
    name: Option<Spanned<String>>,
    weights: Option<Spanned<String>>,
    platform: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ControlTable {
    sample: Option<Spanned<String>>,
    period: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MigrationTable {
    way: Option<Spanned<String>>,
    rate_limit: Option<Spanned<String>>,
    #[serde(default)]
    stop_rivals: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceTable {
    kind: Option<Spanned<String>>,
    path: Option<PathBuf>,
    group: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishTable {
    target: Option<PathBuf>,
    metrics: Option<Spanned<String>>,
    monitor: Option<PathBuf>,
}

impl Config {
    /// Reads the configuration file at `path`.
    fn read(path: &Path) -> Result<Self, Failure> {
        let hint = "name a configuration; `interleaf balance --example-config` prints one";
        let text = interleaf_catalog::text(path, hint)?;
        Ok(Self::parse(&path.display().to_string(), &text)?)
    }

    fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        let toml = TomlText::new(file, text);
        let read: ConfigFile = toml.read_as(SCHEMA)?;
        toml.schema(&read.schema, SCHEMA)?;
        let control = &read.control;
        let config = Self {
            protected: protected(&toml, read.scope.protected.as_ref())?,
            scope: scope(&toml, read.scope)?,
            policy: policy(&toml, read.policy.name.as_ref())?,
            weights: weights(&toml, &read.policy)?,
            weights_error: read.policy.weights.as_ref().map(|weights| {
                let hint = "give one weight for each memory node, the fastest first";
                toml.error("weights", weights, "", hint)
            }),
            platform: platform(&toml, read.policy.platform.as_ref())?,
            sample: span(&toml, "sample", control.sample.as_ref(), 0.2, SAMPLE_S)?,
            period: span(&toml, "period", control.period.as_ref(), 6.0, PERIOD_S)?,
            actuator: actuator(&toml, read.migration.way.as_ref())?,
            rate_limit: rate_limit(&toml, read.migration.rate_limit.as_ref())?,
            stop_rivals: read.migration.stop_rivals,
            source: source(&toml, &read.source)?,
            feed_group: feed_group(&toml, &read.source)?,
            target: read.publish.target,
            metrics: metrics(&toml, read.publish.metrics.as_ref())?,
            monitor: read.publish.monitor,
        };
        if config.sample > config.period {
            let (problem, hint) =
                ("a sample is longer than a period", "make sample shorter, or period longer");
            return Err(match (&control.sample, &control.period) {
                (Some(sample), _) => toml.error("sample", sample, problem, hint),
                (None, Some(period)) => toml.error("period", period, problem, hint),
                (None, None) => toml.file_error("sample", problem, hint),
            });
        }
        Ok(config)
    }

    /// Reads the configuration in `file`; without a file, takes the default configuration. Then
    /// applies the overrides.
    ///
    /// # Errors
    /// When the file cannot be read, or a value is invalid.
    pub fn load(file: Option<&Path>, overrides: &Overrides<'_>) -> Result<Self, Failure> {
        let mut config = match file {
            Some(path) => Self::read(path)?,
            None => Self::default(),
        };
        config.overrule(overrides)?;
        Ok(config)
    }

    /// Sets the scope to the processes with these names. `option` is the command line option that
    /// gave the names, for the error message.
    ///
    /// # Errors
    /// When a name is not a possible process name.
    pub fn steer_processes(&mut self, names: &[String], option: &str) -> Result<(), Failure> {
        self.scope = Scope::Processes(names.to_vec());
        self.check_names(option)
    }

    /// Replaces values of the configuration by the options `by`.
    pub(super) fn overrule(&mut self, by: &Overrides<'_>) -> Result<(), Failure> {
        if let Some(policy) = by.policy {
            self.policy = policy.parse().map_err(|why: String| Failure::new(why, ""))?;
            if self.policy != PolicyKind::Static {
                self.weights = None;
            } else if self.weights.is_none() {
                return Err(Failure::new(
                    "--policy static: there are no weights",
                    "write name = \"static\" and weights = \"65:35\" in a configuration, or use \
                     `interleaf run --weights 65:35`",
                ));
            }
        }
        if let Some(path) = by.feed {
            self.source = SourceChoice::Feed(path.into());
        }
        if let Some(period) = by.period {
            let [least, most] = PERIOD_S;
            if !(least..=most).contains(&period.seconds()) {
                return Err(Failure::new(
                    format!("--period {period} is not between {least} s and {most} s"),
                    "write a time such as 6s",
                ));
            }
            self.period = Duration::from_secs_f64(period.seconds());
            self.sample = self.sample.min(self.period / SAMPLES_MIN);
        }
        if let Some(name) = by.actuator {
            self.actuator = wanted_actuator(name).ok_or_else(|| {
                let problem = format!("--way {name}: no actuator has this name");
                Failure::new(problem, "write one of auto, vaddr, paddr, quota, pages")
            })?;
        }
        if let Some(curves) = by.curves {
            self.platform = Some(curves.into());
        }
        self.stop_rivals |= by.stop_rivals;
        Ok(())
    }

    /// Returns the shares that the static weights give to the tiers whose names are `tiers`; `None`
    /// without weights.
    ///
    /// # Errors
    /// When the number of weights differs from that of the tiers.
    pub(super) fn fixed_shares(&self, tiers: &[&str]) -> Result<Option<Vec<f64>>, Failure> {
        let Some(weights) = self.weights.clone() else { return Ok(None) };
        let weights = weights.for_tiers(tiers).map_err(|why| match self.weights_error.clone() {
            Some(error) => Failure::from(FileError { problem: why.to_string(), ..error }),
            None => Failure::new(why.to_string(), ""),
        })?;
        Ok(Some(weights.shares()))
    }

    /// Checks that the names of the scope are possible process names. `field` is the field or the
    /// option that has the names, for the error message.
    pub(super) fn check_names(&self, field: &str) -> Result<(), Failure> {
        let Scope::Processes(names) = &self.scope else { return Ok(()) };
        match names.iter().find_map(|name| name_problem(name)) {
            None => Ok(()),
            Some((problem, hint)) => Err(Failure::new(format!("{field}: {problem}"), hint)),
        }
    }

    /// Returns true if the figures of bandwidth come from the counters of this machine.
    pub(super) fn is_counted_here(&self) -> bool {
        matches!(self.source, SourceChoice::Counters)
    }

    /// Returns true if the figures of bandwidth come from a recording, which is replayed without
    /// waits.
    pub(super) fn is_replayed(&self) -> bool {
        matches!(self.source, SourceChoice::Replay(_))
    }
}

impl Default for Config {
    fn default() -> Self {
        let schema = format!("schema = \"{SCHEMA}\"");
        Self::parse("default", &schema).unwrap_or_else(|why| panic!("a fault of ours: {why}"))
    }
}

fn scope(toml: &TomlText<'_>, table: ScopeTable) -> Result<Scope, FileError> {
    let kind = table.kind.as_ref().map_or("machine", |kind| kind.get_ref().as_str());
    let missing = |field: &str, example: &str| {
        let problem = format!("kind is {kind}, and {field} is missing");
        let hint = format!("add a line such as {example}");
        Err(match &table.kind {
            Some(kind) => toml.error("kind", kind, problem, hint),
            None => toml.file_error(field, &problem, &hint),
        })
    };
    let scope = match (kind, &table.cgroup, &table.processes) {
        ("machine", None, None) => Scope::Machine,
        ("cgroup", Some(path), None) => cgroup(toml, path)?,
        ("cgroup", None, _) => return missing("cgroup", "cgroup = \"/batch.slice\""),
        ("processes", None, Some(names)) if names.get_ref().is_empty() => {
            return Err(toml.error("processes", names, "it names no process", "name some"));
        }
        ("processes", None, Some(names)) => {
            if let Some((problem, hint)) = names.get_ref().iter().find_map(|it| name_problem(it)) {
                return Err(toml.error("processes", names, problem, hint));
            }
            Scope::Processes(names.get_ref().clone())
        }
        ("processes", _, None) => return missing("processes", "processes = [\"solver\"]"),
        ("machine" | "cgroup" | "processes", ..) => {
            let problem = format!("kind is {kind}, and something else is named too");
            let hint = "leave out the keys that do not go with the kind, or name another kind";
            return Err(match (&table.cgroup, &table.processes) {
                (Some(path), _) if kind != "cgroup" => toml.error("cgroup", path, problem, hint),
                (_, Some(names)) => toml.error("processes", names, problem, hint),
                _ => toml.file_error("scope", &problem, hint),
            });
        }
        (other, ..) => {
            let problem = format!("\"{other}\" is not a kind of scope");
            let kind = table.kind.as_ref().unwrap_or_else(|| unreachable!());
            return Err(toml.error("kind", kind, problem, "write machine, cgroup or processes"));
        }
    };
    Ok(scope)
}

fn protected(
    toml: &TomlText<'_>,
    names: Option<&Spanned<Vec<String>>>,
) -> Result<Vec<String>, FileError> {
    let Some(names) = names else { return Ok(vec![]) };
    let hint = "write the path of a group such as /system.slice, or the name of a process";
    let wrong = |entry: &String| match entry.starts_with('/') {
        true => no_group(entry).map(|problem| (problem, hint.into())),
        false => name_problem(entry),
    };
    match names.get_ref().iter().find_map(wrong) {
        Some((problem, hint)) => Err(toml.error("protected", names, problem, hint)),
        None => Ok(names.get_ref().clone()),
    }
}

/// Checks that the platform `name`, a name or a file, can be loaded. Returns `name`; `None` without
/// a name.
fn platform(
    toml: &TomlText<'_>,
    name: Option<&Spanned<String>>,
) -> Result<Option<String>, FileError> {
    let Some(name) = name else { return Ok(None) };
    match interleaf_catalog::platform(name.get_ref()) {
        Err(Failure::Error { problem, hint }) => Err(toml.error("platform", name, problem, hint)),
        _ => Ok(Some(name.get_ref().clone())),
    }
}

/// Checks the path of a control group, and returns its scope.
fn cgroup(toml: &TomlText<'_>, path: &Spanned<String>) -> Result<Scope, FileError> {
    let text = path.get_ref();
    if let Some(problem) = no_group(text) {
        let hint = "write a path such as /batch.slice, or kind = \"machine\" for all";
        return Err(toml.error("cgroup", path, problem, hint));
    }
    Ok(Scope::Cgroup(text.clone()))
}

/// Returns what is wrong with the path of a control group; `None` for a valid path.
fn no_group(path: &str) -> Option<String> {
    let is_none = path.trim_matches('/').is_empty() || path.split('/').any(|part| part == "..");
    is_none.then(|| format!("\"{path}\" is not a control group below the hierarchy's root"))
}

/// Returns what is wrong with an impossible process name, and a hint to the user; `None` for a
/// possible name.
fn name_problem(name: &str) -> Option<(String, String)> {
    if name.is_empty() {
        return Some(("a name is empty".into(), "write names as `ps -o comm` shows them".into()));
    }
    if let Some((_, file)) = name.rsplit_once('/') {
        let problem = format!("\"{name}\" is a path, and processes have names");
        return Some((problem, format!("write {file}, as `ps -o comm` shows it")));
    }
    let end = (0..=NAME_BYTES).rev().find(|end| name.is_char_boundary(*end))?;
    (name.len() > NAME_BYTES).then(|| {
        let problem = format!("\"{name}\" is longer than a process's name, {NAME_BYTES} bytes");
        (problem, format!("write {}, as the kernel keeps it", &name[..end]))
    })
}

fn policy(toml: &TomlText<'_>, name: Option<&Spanned<String>>) -> Result<PolicyKind, FileError> {
    let Some(name) = name else { return Ok(PolicyKind::Dmi) };
    let known: Vec<&str> = PolicyKind::ALL.iter().map(|(_, name, _)| *name).collect();
    name.get_ref().parse().map_err(|_| {
        let problem = format!("\"{}\" is not a policy", name.get_ref());
        let near = suggestion(name.get_ref(), &known);
        toml.error("name", name, problem, format!("{near}write one of {}", known.join(", ")))
    })
}

fn weights(toml: &TomlText<'_>, table: &PolicyTable) -> Result<Option<Weights>, FileError> {
    let is_static = table.name.as_ref().is_some_and(|name| name.get_ref() == "static");
    match &table.weights {
        None => match table.name.as_ref().filter(|_| is_static) {
            Some(name) => Err(toml.error(
                "name",
                name,
                "the policy is static, and has no weights",
                "add a line such as weights = \"65:35\"",
            )),
            None => Ok(None),
        },
        Some(weights) if !is_static => Err(toml.error(
            "weights",
            weights,
            "weights go with the policy static: others find their own",
            "leave them out, or write name = \"static\"",
        )),
        Some(weights) => weights.get_ref().parse().map(Some).map_err(
            |why: interleaf_model::weights::WeightsError| {
                toml.error("weights", weights, why, "write weights such as 65:35")
            },
        ),
    }
}

fn span(
    toml: &TomlText<'_>,
    field: &str,
    value: Option<&Spanned<String>>,
    default_s: f64,
    [least, most]: [f64; 2],
) -> Result<Duration, FileError> {
    let Some(value) = value else { return Ok(Duration::from_secs_f64(default_s)) };
    let time: Time = toml.quantity(field, value)?;
    if (least..=most).contains(&time.seconds()) {
        return Ok(Duration::from_secs_f64(time.seconds()));
    }
    let problem = format!("{} is not between {least} s and {most} s", value.get_ref());
    Err(toml.error(field, value, problem, format!("write a time such as {default_s}s")))
}

fn actuator(
    toml: &TomlText<'_>,
    value: Option<&Spanned<String>>,
) -> Result<WantedActuator, FileError> {
    let Some(value) = value else { return Ok(WantedActuator::Auto) };
    wanted_actuator(value.get_ref()).ok_or_else(|| {
        let problem = format!("\"{}\" names no actuator", value.get_ref());
        toml.error("way", value, problem, "write one of auto, vaddr, paddr, quota, pages")
    })
}

/// Parses the name of an actuator; `None` for an unknown name.
pub(super) fn wanted_actuator(name: &str) -> Option<WantedActuator> {
    match name {
        AUTO => Some(WantedActuator::Auto),
        name => ActuatorKind::named(name).map(WantedActuator::Kind),
    }
}

fn rate_limit(
    toml: &TomlText<'_>,
    value: Option<&Spanned<String>>,
) -> Result<Bandwidth, FileError> {
    let Some(value) = value else {
        return Ok(RATE_LIMIT.parse().expect("a bandwidth"));
    };
    let rate: Bandwidth = toml.quantity("rate_limit", value)?;
    if rate.gbps() > 0.0 {
        return Ok(rate);
    }
    let hint = "write a bandwidth such as 2GB/s";
    Err(toml.error("rate_limit", value, "at this rate no page moves", hint))
}

fn source(toml: &TomlText<'_>, table: &SourceTable) -> Result<SourceChoice, FileError> {
    let Some(kind) = &table.kind else { return Ok(SourceChoice::Counters) };
    match (kind.get_ref().as_str(), &table.path) {
        ("counters", None) => Ok(SourceChoice::Counters),
        ("feed", Some(path)) => Ok(SourceChoice::Feed(path.clone())),
        ("replay", Some(path)) => Ok(SourceChoice::Replay(path.clone())),
        ("feed" | "replay", None) => {
            let problem = format!("kind is {}, and path is missing", kind.get_ref());
            let hint = "add a line such as path = \"/run/interleaf/feed.sock\"";
            Err(toml.error("kind", kind, problem, hint))
        }
        ("counters", Some(_)) => {
            let hint = "leave path out, or write kind = \"feed\" or \"replay\"";
            Err(toml.error("kind", kind, "counters have no path", hint))
        }
        (other, _) => {
            let problem = format!("\"{other}\" is not a source");
            Err(toml.error("kind", kind, problem, "write counters, feed or replay"))
        }
    }
}

/// Returns the group whose members may write to the feed, if the table has one. Without a feed, the
/// table must not have a group.
fn feed_group(toml: &TomlText<'_>, table: &SourceTable) -> Result<Option<String>, FileError> {
    let Some(group) = &table.group else { return Ok(None) };
    if table.kind.as_ref().is_none_or(|kind| kind.get_ref() != "feed") {
        let hint = "leave group out, or write kind = \"feed\"";
        return Err(toml.error("group", group, "only a feed has a group", hint));
    }
    if group.get_ref().is_empty() {
        let hint = "write a group of /etc/group, such as group = \"interleaf\"";
        return Err(toml.error("group", group, "a group's name is empty", hint));
    }
    Ok(Some(group.get_ref().clone()))
}

fn metrics(
    toml: &TomlText<'_>,
    value: Option<&Spanned<String>>,
) -> Result<Option<SocketAddr>, FileError> {
    let Some(value) = value else { return Ok(None) };
    value.get_ref().parse().map(Some).map_err(|_| {
        let problem = format!("\"{}\" is not an address with a port", value.get_ref());
        toml.error("metrics", value, problem, "write one such as 127.0.0.1:9464")
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        let text = format!("schema = \"{SCHEMA}\"\n{text}");
        Config::parse("balance.toml", &text).map_err(|why| why.to_string())
    }

    #[test]
    fn the_example_is_the_default() {
        assert_eq!(Config::parse("example", EXAMPLE).unwrap(), Config::default());
    }

    /// The settings that [`EXAMPLE`] shows in comments are valid too.
    #[test]
    fn the_examples_in_the_example_are_taken() {
        let config = parse(
            "[scope]\nkind = \"processes\"\nprocesses = [\"solver\", \"java\"]\n\
             [policy]\nname = \"static\"\nweights = \"65:35\"\nplatform = \"gnr120-cz122\"\n\
             [source]\nkind = \"feed\"\npath = \"/run/interleaf/feed.sock\"\n\
             group = \"interleaf\"\n\
             [publish]\ntarget = \"/run/interleaf/target\"\nmetrics = \"127.0.0.1:9464\"\n",
        )
        .unwrap();
        assert_eq!(config.scope, Scope::Processes(vec!["solver".into(), "java".into()]));
        assert_eq!(config.weights.unwrap().as_slice(), [65, 35]);
        assert_eq!(config.source, SourceChoice::Feed("/run/interleaf/feed.sock".into()));
        assert_eq!(config.feed_group.as_deref(), Some("interleaf"));
        let cgroup = parse("[scope]\nkind = \"cgroup\"\ncgroup = \"/batch.slice\"\n").unwrap();
        assert_eq!(cgroup.scope, Scope::Cgroup("/batch.slice".into()));
    }

    #[test]
    fn invalid_values_are_named() {
        let table = [
            ("[scope]\nkind = \"all\"", "\"all\" is not a kind of scope"),
            ("[scope]\nkind = \"cgroup\"", "kind is cgroup, and cgroup is missing"),
            ("[scope]\ncgroup = \"/x\"", "kind is machine, and something else is named too"),
            ("[scope]\nkind = \"processes\"\nprocesses = []", "it names no process"),
            ("[policy]\nname = \"best\"", "\"best\" is not a policy"),
            ("[policy]\nname = \"static\"", "the policy is static, and has no weights"),
            ("[policy]\nweights = \"3:1\"", "weights go with the policy static"),
            ("[policy]\nname = \"static\"\nweights = \"3\"", ""),
            ("[control]\nsample = \"1ms\"", "1ms is not between 0.01 s and 60 s"),
            ("[control]\nsample = \"7s\"", "a sample is longer than a period"),
            ("[control]\nperiod = \"6\"", "\"6\" is not a time"),
            ("[migration]\nway = \"fast\"", "\"fast\" names no actuator"),
            ("[migration]\nrate_limit = \"0GB/s\"", "at this rate no page moves"),
            ("[source]\nkind = \"feed\"", "kind is feed, and path is missing"),
            ("[source]\nkind = \"pcm\"", "\"pcm\" is not a source"),
            ("[source]\nkind = \"counters\"\npath = \"/x\"", "counters have no path"),
            ("[source]\ngroup = \"x\"", "only a feed has a group"),
            ("[source]\nkind = \"feed\"\npath = \"/x\"\ngroup = \"\"", "name is empty"),
            ("[publish]\nmetrics = \"9464\"", "\"9464\" is not an address with a port"),
            ("[publish]\nmetric = \"9464\"", "metric"),
            ("[scope]\nprotected = [\"/\"]", "\"/\" is not a control group below"),
            ("[scope]\nprotected = [\"bin/sh\"]", "\"bin/sh\" is a path"),
            ("[scope]\nprotected = [\"/kept\", \"sh\"]", ""),
        ];
        for (text, expected) in table {
            match parse(text) {
                Err(why) => assert!(why.contains(expected), "{text}: {why}"),
                Ok(config) => assert!(expected.is_empty(), "{text}: {config:?}"),
            }
        }
    }

    /// The hint for an invalid protected group does not propose to steer the whole machine.
    #[test]
    fn the_hint_fits_the_field() {
        let hint = |lines: &str| {
            let text = format!("schema = \"{SCHEMA}\"\n[scope]\n{lines}\n");
            Config::parse("a.toml", &text).unwrap_err().hint
        };
        assert!(hint("protected = [\"/\"]").contains("the name of a process"));
        assert!(hint("kind = \"cgroup\"\ncgroup = \"/\"").contains("kind = \"machine\""));
    }
}
