//! Runs sweeps of `interleaf simulate dimm`: memory modules or servers under loads.

use super::{
    Cases,
    lists::{count_checked, distinct, distinct_or_none, or_none, pick, product, seeds},
};
use crate::{
    dimm::{
        self, CHANNELS, CHANNELS_MAX, ControllerChoice, DimmJob, DimmSystem, ORDER_IN_MIX,
        OUTSTANDING_MAX, REQUESTS, REQUESTS_MAX, UNCORE_NS,
    },
    option::{self, LoadChoice, PATTERNS},
};
use interleaf_console::Failure;
use interleaf_model::{
    format::{FileError, toml_text::TomlText},
    mix::Mix,
};
use interleaf_record::{
    dimm::{DimmDocument, DimmPoint, LatencyDocument},
    rounded,
    sweep::{Column, dimm::COLUMNS},
};
use interleaf_sim::dimm::{
    closed_loop::Pattern,
    config::{Refresh, RowPolicy},
    device::{Device, Options},
};
use serde::Deserialize;
use std::{collections::BTreeMap, path::Path};
use toml::Spanned;

/// The schema of a sweep file of memory modules.
pub const SCHEMA: &str = "interleaf.sweep.dimm/1";

/// The fields of a sweep file of `interleaf simulate dimm`. They have the names of the options of
/// this command.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DimmSweepFile {
    /// The schema and its version: `interleaf.sweep.dimm/1`.
    schema: Spanned<String>,
    name: Option<Spanned<String>>,
    /// Modules: each is the name of a built-in module, a file with one module (`FILE`), or a module
    /// of a file with several (`FILE:NAME`).
    #[serde(default)]
    device: Vec<Spanned<String>>,
    /// Built-in servers. A file has either modules or servers.
    #[serde(default)]
    server: Vec<Spanned<String>>,
    /// Densities of the modules' DRAM devices: "16Gb".
    #[serde(default)]
    density: Vec<Spanned<String>>,
    /// Widths of the modules' DRAM devices: "x4".
    #[serde(default)]
    width: Vec<Spanned<String>>,
    /// Numbers of channels of the memory system, 1 to 64.
    #[serde(default)]
    channels: Vec<Spanned<i64>>,
    /// Orders in which lines are accessed: "stream", "random" or "hot-bank".
    #[serde(default)]
    pattern: Vec<Spanned<String>>,
    /// Maximum numbers of outstanding lines of a channel.
    #[serde(default)]
    outstanding: Vec<Spanned<i64>>,
    /// Round-trip latencies between a core and the controller, ns.
    #[serde(default)]
    uncore_ns: Vec<Spanned<f64>>,
    /// Row policies of the memory controller: "open", "closed" or "adaptive".
    #[serde(default)]
    row_policy: Vec<Spanned<String>>,
    /// Refresh modes: "all-bank", "same-bank" or "none".
    #[serde(default)]
    refresh: Vec<Spanned<String>>,
    /// Traffic mixes: "R", "W2", or a read share such as "0.62".
    #[serde(default)]
    mix: Vec<Spanned<String>>,
    /// Loads: "max", "sweep" or a bandwidth such as "150GB/s".
    #[serde(default)]
    load: Vec<Spanned<String>>,
    /// Numbers of lines that are accessed for each mix and load, summed over all channels.
    #[serde(default)]
    requests: Vec<Spanned<i64>>,
    /// Seeds of all randomness, unless `seeds` is given.
    #[serde(default)]
    seed: Vec<Spanned<i64>>,
    /// Number of seeds: the sweep uses the seeds 1 to this number.
    seeds: Option<Spanned<i64>>,
}

/// The lists of a sweep of memory modules; each combination of their values is a case.
pub struct DimmSweep {
    name: String,
    systems: Vec<System>,
    densities: Vec<Option<Spanned<String>>>,
    widths: Vec<Option<Spanned<String>>>,
    channels: Vec<Option<u32>>,
    patterns: Vec<Option<Pattern>>,
    outstanding: Vec<Option<u32>>,
    uncore_ns: Vec<Option<f64>>,
    row_policies: Vec<Option<RowPolicy>>,
    refreshes: Vec<Option<Spanned<Refresh>>>,
    mixes: Vec<Option<Spanned<Mix>>>,
    loads: Vec<Option<Spanned<LoadChoice>>>,
    requests: Vec<Option<Spanned<u64>>>,
    seeds: Vec<Option<u64>>,
    file: String,
    text: String,
}

/// The memory system of a case.
enum System {
    /// Modules, by a built-in name or as a device file.
    Device(Spanned<String>),
    /// A built-in server.
    Server(Spanned<String>),
}

/// A case: one value of each list. The value of an option that the sweep file does not list is
/// `None`.
struct DimmCase<'a> {
    /// The index of the combination of module, density and width; it selects the device in
    /// `DimmCases`.
    module: usize,
    system: &'a System,
    density: Option<&'a Spanned<String>>,
    width: Option<&'a Spanned<String>>,
    channels: Option<u32>,
    pattern: Option<Pattern>,
    outstanding: Option<u32>,
    uncore_ns: Option<f64>,
    row_policy: Option<RowPolicy>,
    refresh: Option<&'a Spanned<Refresh>>,
    mix: Option<&'a Spanned<Mix>>,
    load: Option<&'a Spanned<LoadChoice>>,
    requests: Option<&'a Spanned<u64>>,
    seed: u64,
}

/// The cases of a sweep. Its modules have been read, and its loads checked.
pub struct DimmCases {
    sweep: DimmSweep,
    /// For each combination of module, density and width, the device; `None` for a server.
    devices: Vec<Option<Device>>,
    /// Notes on cases that have too few requests for an accurate bandwidth. There is at most one
    /// note for each number of requests in the file; if the file lists no number, one for each
    /// module or server. The note is for the case that needs the most requests.
    notes: Vec<String>,
}

impl DimmSweep {
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
        let read: DimmSweepFile = toml.read_as(SCHEMA)?;
        toml.schema(&read.schema, SCHEMA)?;
        all_distinct(&toml, &read)?;
        let systems = systems(&toml, &read)?;
        let whole = |field: &'static str, most: u32| {
            let toml = &toml;
            move |value: &Spanned<i64>| toml.whole(field, value, 1..=most)
        };
        let sweep = Self {
            name: match &read.name {
                Some(name) => toml.said("name", name)?,
                None => "sweep".into(),
            },
            systems,
            densities: or_none(&read.density, |density| Ok(density.clone()))?,
            widths: or_none(&read.width, |width| Ok(width.clone()))?,
            channels: or_none(&read.channels, whole("channels", CHANNELS_MAX))?,
            patterns: or_none(&read.pattern, |name| {
                parsed(&toml, "pattern", name, option::pattern).map(Spanned::into_inner)
            })?,
            outstanding: or_none(&read.outstanding, whole("outstanding", OUTSTANDING_MAX))?,
            uncore_ns: or_none(&read.uncore_ns, |ns| {
                let parsed = option::uncore(&ns.get_ref().to_string());
                parsed.map_err(|why| refused(&toml, "uncore_ns", ns, &why))
            })?,
            row_policies: or_none(&read.row_policy, |name| {
                parsed(&toml, "row_policy", name, option::row_policy).map(Spanned::into_inner)
            })?,
            refreshes: or_none(&read.refresh, |name| {
                parsed(&toml, "refresh", name, option::refresh)
            })?,
            mixes: distinct_or_none(&toml, "mix", &read.mix, |mix| {
                parsed(&toml, "mix", mix, mix_without_order)
            })?,
            loads: distinct_or_none(&toml, "load", &read.load, |load| {
                parsed(&toml, "load", load, option::load)
            })?,
            requests: or_none(&read.requests, |requests| {
                let count = toml.whole("requests", requests, 1..=REQUESTS_MAX)?;
                Ok(Spanned::new(requests.span(), count))
            })?,
            seeds: seeds(&toml, &read.seed, read.seeds.as_ref())?,
            file: file.into(),
            text: text.into(),
        };
        count_checked(&toml, sweep.count(), read.seeds.as_ref(), ("schema", &read.schema))?;
        Ok(sweep)
    }

    fn count(&self) -> usize {
        let of_system = [self.systems.len(), self.densities.len(), self.widths.len()];
        let of_memory = [self.channels.len(), self.patterns.len(), self.outstanding.len()];
        let of_controller = [self.row_policies.len(), self.refreshes.len()];
        let of_load = [self.uncore_ns.len(), self.mixes.len(), self.loads.len()];
        let others = [self.requests.len(), self.seeds.len()];
        product([&of_system[..], &of_memory, &of_controller, &of_load, &others].concat())
    }

    /// Returns the case with the 0-based index `number`. From one number to the next, the seed
    /// varies fastest.
    fn case(&self, number: usize) -> DimmCase<'_> {
        let mut pick = pick(number);
        let seed = self.seeds[pick(self.seeds.len())].unwrap_or(1);
        let requests = self.requests[pick(self.requests.len())].as_ref();
        let load = self.loads[pick(self.loads.len())].as_ref();
        let mix = self.mixes[pick(self.mixes.len())].as_ref();
        let refresh = self.refreshes[pick(self.refreshes.len())].as_ref();
        let row_policy = self.row_policies[pick(self.row_policies.len())];
        let uncore_ns = self.uncore_ns[pick(self.uncore_ns.len())];
        let outstanding = self.outstanding[pick(self.outstanding.len())];
        let pattern = self.patterns[pick(self.patterns.len())];
        let channels = self.channels[pick(self.channels.len())];
        let (width, density) = (pick(self.widths.len()), pick(self.densities.len()));
        let system = pick(self.systems.len());
        DimmCase {
            module: (system * self.densities.len() + density) * self.widths.len() + width,
            system: &self.systems[system],
            density: self.densities[density].as_ref(),
            width: self.widths[width].as_ref(),
            channels,
            pattern,
            outstanding,
            uncore_ns,
            row_policy,
            refresh,
            mix,
            load,
            requests,
            seed,
        }
    }

    /// Returns the arguments that the file lists, each with the text of its value in each case.
    pub(super) fn arguments(&self) -> Vec<super::Argument> {
        let cases: Vec<DimmCase<'_>> = (0..self.count()).map(|number| self.case(number)).collect();
        let listed =
            ARGUMENTS.map(|(name, text)| (name, cases.iter().map(text).collect::<Vec<_>>()));
        listed.into_iter().filter(|(_, texts)| texts.iter().any(Option::is_some)).collect()
    }

    /// Reads each module, and checks each memory system with its load, so that an invalid module or
    /// load stops the sweep before the first simulation.
    ///
    /// # Errors
    /// When a module or server is unknown, a file is invalid, a load is too low, or the requests
    /// are fewer than a load needs.
    pub fn checked(self) -> Result<DimmCases, Failure> {
        let of_modules = self.count() / self.modules();
        let device = |module: usize| self.device(&self.case(module * of_modules));
        let devices: Result<_, Failure> = (0..self.modules()).map(device).collect();
        let mut cases = DimmCases { devices: devices?, sweep: self, notes: vec![] };
        // Checks only the cases with the first seed and the first mix, because the number of
        // requests that a load needs depends neither on the seed nor on the mix.
        let mut notes: BTreeMap<String, (u64, String)> = BTreeMap::new();
        let first = cases.sweep.mixes.first().map(Option::as_ref);
        for number in (0..cases.sweep.count()).step_by(cases.sweep.seeds.len()) {
            let case = cases.sweep.case(number);
            if first.is_some_and(|mix| mix != case.mix) {
                continue;
            }
            let place = match case.requests {
                Some(requests) => cases.sweep.place("requests", requests),
                None => case.system.place(&cases.sweep),
            };
            let job = cases.job(&case).map_err(|why| match case.refresh {
                Some(refresh) => why.within(&cases.sweep.place("refresh", refresh)),
                None => why,
            })?;
            job.check_load().map_err(|why| match case.load {
                Some(load) => why.within(&cases.sweep.place("load", load)),
                None => why,
            })?;
            let found = job.check().map_err(|why| why.within(&place))?;
            for (steady, note) in found {
                let known = notes.entry(place.clone()).or_insert((0, String::new()));
                if steady > known.0 {
                    *known = (steady, note);
                }
            }
        }
        cases.notes =
            notes.into_iter().map(|(place, (_, note))| format!("{place}: {note}")).collect();
        Ok(cases)
    }

    /// Returns the number of combinations of module, density and width.
    fn modules(&self) -> usize {
        product([self.systems.len(), self.densities.len(), self.widths.len()])
    }

    /// Returns the module of a case; `None` for a server.
    fn device(&self, case: &DimmCase<'_>) -> Result<Option<Device>, Failure> {
        match case.system {
            System::Device(name) => {
                let of = |density: Option<&Spanned<String>>, width: Option<&Spanned<String>>| {
                    let text = |value: &Spanned<String>| value.get_ref().clone();
                    let options = Options { density: density.map(text), width: width.map(text) };
                    dimm::device(name.get_ref(), &options)
                };
                let place = || match (case.density, case.width) {
                    (Some(density), _)
                        if of(None, None).is_ok() && of(case.density, None).is_err() =>
                    {
                        self.place("density", density)
                    }
                    (_, Some(width)) if of(case.density, None).is_ok() => {
                        self.place("width", width)
                    }
                    _ => case.system.place(self),
                };
                of(case.density, case.width).map(Some).map_err(|why| why.within(&place()))
            }
            System::Server(name) => {
                dimm::server(name.get_ref(), Pattern::Stream, ControllerChoice::default(), 1)
                    .map_err(|why| why.within(&case.system.place(self)))?;
                Ok(None)
            }
        }
    }

    /// Formats the position of a value of `field` in the sweep file, for errors.
    fn place<T>(&self, field: &str, value: &Spanned<T>) -> String {
        TomlText::new(&self.file, &self.text).place(field, value)
    }
}

impl System {
    fn name(&self) -> &str {
        match self {
            Self::Device(name) | Self::Server(name) => name.get_ref(),
        }
    }

    fn place(&self, sweep: &DimmSweep) -> String {
        match self {
            Self::Device(name) => sweep.place("device", name),
            Self::Server(name) => sweep.place("server", name),
        }
    }
}

impl DimmCases {
    fn job(&self, case: &DimmCase<'_>) -> Result<DimmJob, Failure> {
        let pattern = case.pattern.unwrap_or(Pattern::Stream);
        let refresh = case.refresh.map(|refresh| *refresh.get_ref());
        let controller = ControllerChoice { row_policy: case.row_policy, refresh };
        let (setup, server) = match &self.devices[case.module] {
            None => {
                let name = case.system.name();
                (dimm::server(name, pattern, controller, case.seed)?, Some(name.to_string()))
            }
            Some(device) => {
                let system = DimmSystem {
                    device: device.clone(),
                    channels: case.channels.unwrap_or(CHANNELS),
                    pattern,
                    outstanding: case.outstanding,
                    uncore_ns: case.uncore_ns.unwrap_or(UNCORE_NS),
                    controller,
                    seed: case.seed,
                };
                (system.setup()?, None)
            }
        };
        Ok(DimmJob {
            setup,
            device: if server.is_some() { String::new() } else { case.system.name().into() },
            server,
            mixes: vec![case.mix.map_or(Mix::READ, |mix| *mix.get_ref())],
            load: case.load.map_or(LoadChoice::Max, |load| *load.get_ref()),
            requests: case.requests.map_or(REQUESTS, |requests| *requests.get_ref()),
        })
    }
}

impl Cases for DimmCases {
    fn name(&self) -> &str {
        &self.sweep.name
    }

    fn count(&self) -> usize {
        self.sweep.count()
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn input(&self) -> Vec<String> {
        let devices = self.devices.iter().map(|device| format!("{device:?}"));
        std::iter::once(self.sweep.text.clone()).chain(devices).collect()
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn rows_of(&self, case: usize) -> usize {
        let case = self.sweep.case(case);
        case.load.map_or(1, |load| dimm::loads(*load.get_ref()))
    }

    fn prepare(&mut self, _cases: &[usize]) {}

    /// Simulates the case `number`, and returns a row for each of its loads.
    fn rows(&self, number: usize) -> Result<Vec<Vec<String>>, Failure> {
        let case = self.sweep.case(number);
        let job = self.job(&case)?;
        let document = job.run(&())?;
        Ok(rows(number, &case, &job, &document))
    }
}

/// Makes a row for each point of `document`, with the cells of [`COLUMNS`].
fn rows(
    number: usize,
    case: &DimmCase<'_>,
    job: &DimmJob,
    document: &DimmDocument,
) -> Vec<Vec<String>> {
    let optional = |value: Option<f64>| value.map_or(String::new(), decimal);
    let device = if job.server.is_some() { "" } else { case.system.name() };
    let outstanding = job.setup.outstanding as u64 * u64::from(job.setup.device.sub_channels);
    let row = |point: &DimmPoint| {
        let ns = |value: fn(&LatencyDocument) -> u64| {
            point.latency(value).map_or(String::new(), |ns| ns.to_string())
        };
        vec![
            number.to_string(),
            device.to_string(),
            document.device.clone(),
            job.server.clone().unwrap_or_default(),
            document.density.clone(),
            document.width.clone(),
            document.channels.to_string(),
            document.pattern.clone(),
            outstanding.to_string(),
            decimal(rounded(document.uncore_ns)),
            job.setup.controller.row_policy.name().to_string(),
            job.setup.controller.refresh.name().to_string(),
            job.requests.to_string(),
            document.seed.to_string(),
            point.mix.clone(),
            optional(point.offered_gbps),
            decimal(point.bandwidth_gbps),
            decimal(point.bus_utilisation),
            optional(point.latency(|it| it.mean)),
            ns(|it| it.p50),
            ns(|it| it.p99),
            ns(|it| it.p99_9),
            decimal(point.row_hit_rate),
            optional(point.power_w),
            optional(point.energy_pj_per_bit),
            optional(point.gbps_per_w),
        ]
    };
    document.points.iter().map(row).collect()
}

/// Formats `value` always with a decimal point. Without one, libraries that read the column may
/// take it for a column of integers.
fn decimal(value: f64) -> String {
    format!("{value:?}")
}

/// The name of an argument of `interleaf simulate dimm`, and a function that returns the argument's
/// text in a case (`None` if the file does not list the argument).
type Argument = (&'static str, fn(&DimmCase<'_>) -> Option<String>);

const ARGUMENTS: [Argument; 14] = [
    ("device", |case| match case.system {
        System::Device(name) => Some(name.get_ref().clone()),
        System::Server(_) => None,
    }),
    ("server", |case| match case.system {
        System::Device(_) => None,
        System::Server(name) => Some(name.get_ref().clone()),
    }),
    ("density", |case| case.density.map(|density| density.get_ref().clone())),
    ("width", |case| case.width.map(|width| width.get_ref().clone())),
    ("channels", |case| case.channels.map(|count| count.to_string())),
    ("pattern", |case| {
        let known = PATTERNS.iter().find(|(_, pattern)| Some(*pattern) == case.pattern);
        known.map(|(name, _)| (*name).to_string())
    }),
    ("outstanding", |case| case.outstanding.map(|lines| lines.to_string())),
    ("uncore_ns", |case| case.uncore_ns.map(|ns| ns.to_string())),
    ("row_policy", |case| case.row_policy.map(|policy| policy.name().into())),
    ("refresh", |case| case.refresh.map(|refresh| refresh.get_ref().name().into())),
    ("mix", |case| case.mix.map(|mix| mix.get_ref().to_string())),
    ("load", |case| {
        case.load.map(|load| match load.get_ref() {
            LoadChoice::Max => "max".into(),
            LoadChoice::Sweep => "sweep".into(),
            LoadChoice::At(bandwidth) => format!("{}GB/s", bandwidth.gbps()),
        })
    }),
    ("requests", |case| case.requests.map(|requests| requests.get_ref().to_string())),
    ("seed", |case| Some(case.seed.to_string())),
];

/// Returns the modules or the servers that the file lists.
fn systems(toml: &TomlText<'_>, read: &DimmSweepFile) -> Result<Vec<System>, FileError> {
    match (&read.device[..], &read.server[..]) {
        ([], []) => {
            let hint = "add device = [\"rdimm-6400-2r\"] or server = [\"sapphire-rapids-2r\"]";
            Err(toml.file_error("device", "there is no module to simulate", hint))
        }
        ([], servers) => {
            let has_own = [
                ("density", read.density.first().map(Spanned::span)),
                ("width", read.width.first().map(Spanned::span)),
                ("channels", read.channels.first().map(Spanned::span)),
                ("outstanding", read.outstanding.first().map(Spanned::span)),
                ("uncore_ns", read.uncore_ns.first().map(Spanned::span)),
            ];
            let listed = has_own.into_iter().find_map(|(name, span)| Some((name, span?)));
            if let Some((field, span)) = listed {
                let value = Spanned::new(span, ());
                let problem = format!("a server has its own {}", field.trim_end_matches("_ns"));
                let hint = "leave the list out, or list modules as device";
                return Err(toml.error(field, &value, problem, hint));
            }
            Ok(servers.iter().cloned().map(System::Server).collect())
        }
        (devices, []) => Ok(devices.iter().cloned().map(System::Device).collect()),
        ([..], [server, ..]) => {
            let hint = "list one of the two; the other in a sweep of its own";
            Err(toml.error("server", server, "there are both device and server", hint))
        }
    }
}

/// Checks that each list has distinct values.
fn all_distinct(toml: &TomlText<'_>, read: &DimmSweepFile) -> Result<(), FileError> {
    let texts = [
        ("device", &read.device),
        ("server", &read.server),
        ("density", &read.density),
        ("width", &read.width),
        ("pattern", &read.pattern),
        ("row_policy", &read.row_policy),
        ("refresh", &read.refresh),
    ];
    texts.iter().try_for_each(|(field, values)| distinct(toml, field, values))?;
    let numbers = [
        ("channels", &read.channels),
        ("outstanding", &read.outstanding),
        ("requests", &read.requests),
        ("seed", &read.seed),
    ];
    numbers.iter().try_for_each(|(field, values)| distinct(toml, field, values))?;
    let bits = |ns: &Spanned<f64>| Spanned::new(ns.span(), ns.get_ref().to_string());
    distinct(toml, "uncore_ns", &read.uncore_ns.iter().map(bits).collect::<Vec<_>>())
}

/// Parses a mix. Rejects a mix that names an order of the lines (`/random`), because the list
/// `pattern` gives the order.
fn mix_without_order(text: &str) -> Result<Mix, String> {
    let mix = option::mix(text)?;
    match mix.random() {
        false => Ok(mix),
        true => Err(format!(
            "{text}: {ORDER_IN_MIX}: write the mix without /random, and the pattern \"random\""
        )),
    }
}

/// Parses the text `value` of `field` in the sweep file. `parse` is a parser of options, whose
/// errors have the form `PROBLEM: write ALLOWED`.
fn parsed<T>(
    toml: &TomlText<'_>,
    field: &str,
    value: &Spanned<String>,
    parse: fn(&str) -> Result<T, String>,
) -> Result<Spanned<T>, FileError> {
    let parsed = parse(value.get_ref()).map_err(|why| refused(toml, field, value, &why))?;
    Ok(Spanned::new(value.span(), parsed))
}

/// Converts `why`, the error of a parser of options (`PROBLEM: write ALLOWED`), into an error of
/// the field `field` of the sweep file.
fn refused<T>(toml: &TomlText<'_>, field: &str, value: &Spanned<T>, why: &str) -> FileError {
    let (problem, hint) = why.split_once(": write ").unwrap_or((why, "another value"));
    toml.error(field, value, problem, format!("write {hint}"))
}
