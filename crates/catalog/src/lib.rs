//! Finds platforms, workloads, scenarios, configurations, cards and drives by name, or reads them
//! from a file.
//!
//! The files of the folders `platforms/`, `workloads/`, `scenarios/`, `configurations/`, `schemas/`
//! and `devices/drives/` are built into the program. A built-in file is found by its name, a user's
//! file of the same kind by its path. This crate reads the text of the files, and its errors list
//! the known names. The parsers are in `interleaf_model::format`, `interleaf_sim`, `interleaf_card`
//! and `interleaf_extend_forecast`. The sizes of files are limited: 64 MiB for TOML and CSV, 256
//! MiB for a record, 2 GiB for a trace.

#![forbid(unsafe_code)]

use include_dir::{Dir, File, include_dir};
use interleaf_card::{
    card::{self, Card},
    load::{Access, Group, Load, Stop},
    settings::Settings,
};
use interleaf_console::Failure;
use interleaf_extend_forecast::drive::{Drive, PAGE_BYTES, PageLatency};
use interleaf_linux::input;
use interleaf_model::{
    configuration::Configuration,
    curve::CurveError,
    demand::Demand,
    format::{configuration_toml, demand_toml, names::suggestion, parts_toml, platform_toml},
    parameters,
    parts::Parts,
    platform::Platform,
    units::{Bytes, Time},
};
use interleaf_sim::{
    dimm::device::DeviceError,
    machine::{
        Scenario, Task,
        scenario_toml::{self, DemandSource as ScenarioDemand, LoadedDemand},
    },
};
use std::{cell::RefCell, collections::BTreeMap, io, path::Path};

static PLATFORMS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../platforms");
static CONFIGURATIONS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../configurations");
static DRIVES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../devices/drives");
static SCENARIOS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../scenarios");
static SCHEMAS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../schemas");
static WORKLOADS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../workloads");

/// Returns the names of the built-in platforms.
pub fn platform_names() -> Vec<String> {
    names(&PLATFORMS)
}

/// Returns the names of the built-in workloads.
pub fn workload_names() -> Vec<String> {
    names(&WORKLOADS)
}

/// Returns the names of the built-in scenarios.
pub fn scenario_names() -> Vec<String> {
    let names = names(&SCENARIOS);
    // A file `NAME.demand.toml` is not a scenario, but a demand that a scenario names.
    names.into_iter().filter(|name| !name.ends_with(".demand")).collect()
}

/// Returns the JSON Schemas of all kinds of files and documents: pairs of name and text.
pub fn schemas() -> Vec<(String, &'static str)> {
    let file = |file: &'static File<'static>| {
        let name = file.path().file_stem()?.to_string_lossy().into_owned();
        Some((name, file.contents_utf8()?))
    };
    let mut schemas: Vec<_> = SCHEMAS.files().filter_map(file).collect();
    schemas.sort();
    schemas
}

/// Returns the text of the JSON Schema with the name `name`.
///
/// # Errors
/// If no schema has this name.
pub fn schema(name: &str) -> Result<&'static str, Failure> {
    let schemas = schemas();
    if let Some((_, text)) = schemas.iter().find(|(own, _)| own == name) {
        return Ok(text);
    }
    let names: Vec<String> = schemas.into_iter().map(|(name, _)| name).collect();
    let similar = suggestion(name, &names);
    let hint = format!("{similar}the schemas are {}", names.join(", "));
    Err(Failure::new(format!("there is no schema \"{name}\""), hint))
}

/// Returns the built-in recipes: pairs of the path (`recipes/NAME.toml`) and the text. A recipe
/// says how to install and run a real application (`interleaf_recipe`).
pub fn recipes() -> impl Iterator<Item = (String, &'static str)> {
    let files = WORKLOADS.get_dir("recipes").map(Dir::files).into_iter().flatten();
    files.filter_map(|file| Some((file.path().display().to_string(), file.contents_utf8()?)))
}

fn names(dir: &Dir<'_>) -> Vec<String> {
    let stem = |path: &Path| {
        let toml = path.extension().is_some_and(|extension| extension == "toml");
        path.file_stem().filter(|_| toml).map(|stem| stem.to_string_lossy().into_owned())
    };
    let mut names: Vec<_> = dir.files().filter_map(|file| stem(file.path())).collect();
    names.sort();
    names
}

/// The text of a platform file, and the texts of the curve files that it names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlatformSource {
    /// The name of the file for error messages. If the platform has parameters, they follow after a
    /// colon: `NAME:cxl.count=4`.
    pub label: String,
    /// The TOML text of the platform file.
    pub text: String,
    /// The text of each curve file, by the path that the platform file gives.
    pub curves: BTreeMap<String, String>,
}

impl PlatformSource {
    /// Parses the platform.
    ///
    /// # Errors
    /// If a field is invalid, or if a curve file is missing. The error is about the first of these.
    pub fn parse(&self) -> Result<Platform, Failure> {
        let missing = || "there is none".to_string();
        let curves = |path: &str| self.curves.get(path).cloned().ok_or_else(missing);
        let (label, parameters) = parameters::split(&self.label);
        with_parameters(platform_toml::parse(label, &self.text, &curves)?, parameters)
    }
}

fn with_parameters(platform: Platform, text: Option<&str>) -> Result<Platform, Failure> {
    let Some(text) = text else { return Ok(platform) };
    parameters::apply(&platform, text).map_err(|why| Failure::new(why.problem, why.hint))
}

/// Returns the built-in platform `name`, or the platform in the file with the path `name`.
/// Parameters may follow the name: `xeon6-cz122:cxl.count=4` ([`interleaf_model::parameters`]).
pub fn platform(name: &str) -> Result<Platform, Failure> {
    platform_and_source(name).map(|(platform, _)| platform)
}

/// Like [`platform`], but also returns the texts from which the platform was parsed.
pub fn platform_and_source(name: &str) -> Result<(Platform, PlatformSource), Failure> {
    let (name, parameters) = parameters::split(name);
    let read_curves = RefCell::new(BTreeMap::new());
    let recorded = |path: &str, text: Result<String, String>| {
        let text = text?;
        read_curves.borrow_mut().insert(path.to_string(), text.clone());
        Ok(text)
    };
    let (label, text, platform) = match embedded(&PLATFORMS, &format!("{name}.toml")) {
        Some(text) => {
            let curves = |path: &str| {
                let curves = embedded(&PLATFORMS, path).map(String::from);
                recorded(path, curves.ok_or_else(|| "there is none".to_string()))
            };
            let label = format!("{name}.toml");
            let platform = platform_toml::parse(&label, text, &curves)?;
            (label, text.to_string(), platform)
        }
        None => {
            let path = Path::new(name);
            let text = read(path, "platform", &platform_names())?;
            let curves = |relative: &str| {
                if let Some(text) = built_in_curves(relative) {
                    return recorded(relative, Ok(text.to_string()));
                }
                let path = path.parent().unwrap_or(Path::new("")).join(relative);
                let curves = read_text(&path).map_err(|why| match why {
                    TextError::Unread(why) => why.to_string(),
                    TextError::NotUtf8 { line } => format!("line {line} is {NOT_UTF8}"),
                });
                recorded(relative, curves)
            };
            let platform = platform_toml::parse(name, &text, &curves)?;
            (name.to_string(), text, platform)
        }
    };
    let label = parameters.map_or_else(|| label.clone(), |text| format!("{label}:{text}"));
    let source = PlatformSource { label, text, curves: read_curves.into_inner() };
    Ok((with_parameters(platform, parameters)?, source))
}

/// Returns the CSV text of the curves of a built-in platform's tier. `name` is `PLATFORM:TIER`.
fn built_in_curves(name: &str) -> Option<&'static str> {
    let (platform, tier) = name.split_once(':')?;
    embedded(&PLATFORMS, &format!("{platform}/{tier}.csv"))
}

/// Returns the built-in configurations of servers.
pub fn configurations() -> Result<Vec<Configuration>, Failure> {
    let mut all = vec![];
    for name in names(&CONFIGURATIONS) {
        let file = format!("{name}.toml");
        let text = embedded(&CONFIGURATIONS, &file).unwrap_or_default();
        all.extend(configuration_toml::parse(&format!("configurations/{file}"), text)?);
    }
    Ok(all)
}

/// Returns the built-in configuration `name`, or all configurations in the file with the path
/// `name`.
pub fn configurations_of(name: &str) -> Result<Vec<Configuration>, Failure> {
    let all = configurations()?;
    if let Some(found) = all.iter().find(|own| own.name == name) {
        return Ok(vec![found.clone()]);
    }
    let names: Vec<String> = all.into_iter().map(|own| own.name).collect();
    let text = read(Path::new(name), "configuration", &names)?;
    Ok(configuration_toml::parse(name, &text)?)
}

/// The example prices of the tool, `devices/prices/server.toml`. All of them are placeholders,
/// which a user replaces by real prices.
const EXAMPLE_PRICES: &str = include_str!("../../../devices/prices/server.toml");

/// Returns the parts and prices in the file `path`, or those of [`EXAMPLE_PRICES`] if `path` is
/// `None`.
pub fn parts(path: Option<&Path>) -> Result<Parts, Failure> {
    let Some(path) = path else {
        return Ok(parts_toml::parse("devices/prices/server.toml", EXAMPLE_PRICES)?);
    };
    let hint = "name a file of prices, such as a copy of devices/prices/server.toml";
    Ok(parts_toml::parse(&path.display().to_string(), &text(path, hint)?)?)
}

/// Returns the built-in card `name`, or the card in the file with the path `name`.
pub fn card(name: &str) -> Result<Card, Failure> {
    let of_device = |why: DeviceError| Failure::new(why.to_string(), why.hint());
    let is_file = Path::new(name).exists() || name.contains(['/', '.']);
    if !is_file {
        return card::by_name(name).map_err(of_device);
    }
    let hint = format!("name a card file, or one of {}", card::names().join(", "));
    card::in_file(name, &text(Path::new(name), &hint)?).map_err(of_device)
}

/// Returns the names of the built-in drives: the files of `devices/drives`, and the NVRAM cards.
pub fn drive_names() -> Vec<String> {
    [names(&DRIVES), card::names().into_iter().map(Into::into).collect()].concat()
}

/// Returns the built-in drive `name`, a drive that is as fast as the built-in card `name`, or the
/// drive in the file with the path `name`.
pub fn drive(name: &str) -> Result<Drive, Failure> {
    let names = drive_names();
    if let Some(text) = embedded(&DRIVES, &format!("{name}.toml")) {
        return Ok(Drive::parse(&format!("{name}.toml"), text)?);
    }
    if let Ok(card) = card::by_name(name) {
        return card_drive(&card);
    }
    let hint =
        format!("{}name a drive file, or one of {}", suggestion(name, &names), names.join(", "));
    Ok(Drive::parse(name, &text(Path::new(name), &hint)?)?)
}

/// The queue depths at which the latency of page reads from a card is simulated. A forecast
/// interpolates between these depths.
const CARD_DEPTHS: [u32; 4] = [1, 4, 16, 64];

/// The times of a simulated run of a card, fs: 4 ms that are measured, and before them a ramp time
/// of 1 ms, in which the queues fill.
const CARD_RUN_FS: [u64; 2] = [4_000_000_000_000, 1_000_000_000_000];

/// Simulates the NVRAM card `card`, and returns a drive that is as fast. It has the card's rates of
/// 64 KiB transfers at a queue depth of 32, and its latency of page reads at each of `CARD_DEPTHS`.
fn card_drive(card: &Card) -> Result<Drive, Failure> {
    let run = |access: Access, block_bytes: u32, depth: u32| {
        let group = Group { access, block_bytes, depth, ..Group::default() };
        let [runtime_fs, ramp_fs] = CARD_RUN_FS;
        let load = Load { groups: vec![group], ramp_fs, stop: Stop::Time(runtime_fs), seed: 1 };
        load.run(card, &Settings::default(), &mut ())
            .map_err(|why| Failure::new(why.to_string(), why.hint))
    };
    let rate = |access| {
        let bytes = 1 << 16;
        Ok::<f64, Failure>(run(access, bytes, 32)?.iops() * f64::from(bytes))
    };
    let page = |depth: u32| {
        let outcome = run(Access::RandomRead, PAGE_BYTES as u32, depth)?;
        Ok(PageLatency { depth: f64::from(depth), seconds: 1e-9 * outcome.mean_ns() })
    };
    let source = format!("simulated: devices/cards/{}.toml", card.name);
    Ok(Drive {
        name: card.name.clone(),
        does: format!("the NVRAM card {} as a drive", card.name),
        read_rate: rate(Access::Read)?,
        write_rate: rate(Access::Write)?,
        both_rate: rate(Access::Mixed)?,
        pages: CARD_DEPTHS.into_iter().map(page).collect::<Result<_, Failure>>()?,
        is_of_run: false,
        sources: vec![("all".into(), source)],
    })
}

/// Returns the platform on which the runs of `demand` were measured: the platform that `demand`
/// names, or `asked` if it names none. Fails if an interleaved run of `demand` does not have one
/// weight for each tier of this platform, or if the bandwidth of a local run is impossible on it.
pub fn measured_on(asked: &Platform, demand: &Demand) -> Result<Platform, Failure> {
    let measured_on = match &demand.platform {
        Some(name) if *name != asked.name => {
            let at = |why: Failure| why.within(&format!("{}: platform", demand.name));
            platform(name).map_err(at)?
        }
        _ => asked.clone(),
    };
    for run in &demand.interleaved {
        run.weights.clone().for_tiers(&measured_on.tier_names()).map_err(|why| {
            let problem = format!("{}: {why}", run.weights_place);
            Failure::new(problem, format!("write one weight for each tier of {}", measured_on.name))
        })?;
    }
    let check = demand_toml::bandwidth_check(demand, &measured_on);
    demand.local.iter().try_for_each(move |run| {
        run.bandwidth_gbps.map_or(Ok(()), &check).map_err(|(problem, hint)| {
            Failure::new(format!("{}: {problem}", run.bandwidth_place), hint)
        })
    })?;
    Ok(measured_on)
}

/// The text of a demand file, not parsed yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DemandSource {
    /// The name of the file, for error messages.
    pub label: String,
    /// The TOML text of the demand file.
    pub text: String,
}

impl DemandSource {
    /// Parses the demand.
    ///
    /// # Errors
    /// If a field is invalid. The error is about the first invalid field.
    pub fn parse(&self) -> Result<Demand, Failure> {
        Ok(demand_toml::parse(&self.label, &self.text)?)
    }
}

/// Returns the built-in workload `name`.
pub fn workload(name: &str) -> Result<Demand, Failure> {
    workload_source(name)?.parse()
}

/// Returns the text of the built-in workload `name`.
pub fn workload_source(name: &str) -> Result<DemandSource, Failure> {
    let Some(text) = embedded(&WORKLOADS, &format!("{name}.toml")) else {
        let problem = format!("there is no workload \"{name}\"");
        let first = match Path::new(name).is_file() {
            true => format!("it is a file: write --demand {name}; "),
            false => suggestion(name, &workload_names()),
        };
        let hint = format!(
            "{first}the workloads are {}; any other is described in a demand file",
            workload_names().join(", ")
        );
        return Err(Failure::new(problem, hint));
    };
    Ok(DemandSource { label: format!("{name}.toml"), text: text.to_string() })
}

/// Returns the built-in workload `name`, or the demand in the file with the path `name`.
pub fn workload_or_demand(name: &str) -> Result<Demand, Failure> {
    let is_file = Path::new(name).exists() || name == "-" || name.contains(['/', '.']);
    if is_file { demand(Path::new(name)) } else { workload(name) }
}

/// Reads the demand in the file `path`. If the demand names a platform, its runs must be possible
/// on this platform.
pub fn demand(path: &Path) -> Result<Demand, Failure> {
    let source = demand_source(path)?;
    let demand = source.parse()?;
    if let Some(name) = &demand.platform {
        let place = demand_toml::platform_place(&source.label, &source.text).unwrap_or_default();
        let measured_on = platform(name).map_err(|why| why.within(&place))?;
        demand_toml::check_runs(&source.label, &source.text, &demand, &measured_on)?;
    }
    Ok(demand)
}

/// Reads the text of the demand file `path`.
pub fn demand_source(path: &Path) -> Result<DemandSource, Failure> {
    let name = path.to_string_lossy();
    let hint = match embedded(&WORKLOADS, &format!("{name}.toml")) {
        Some(_) => format!("{name} is a workload of the tool: write --workload {name}"),
        None => "name a demand file, or use a workload that comes with the tool".into(),
    };
    Ok(DemandSource { label: path.display().to_string(), text: text(path, &hint)? })
}

/// Reads the text of the file `path`, or of stdin if `path` is `-`. If the file cannot be read, the
/// error has the remedy `hint`.
pub fn text(path: &Path, hint: &str) -> Result<String, Failure> {
    text_up_to(path, TEXT_MAX, hint)
}

/// Reads the text of a record (a JSON document of a command) like [`text`], but with the size limit
/// [`DOCUMENT_MAX`].
pub fn document(path: &Path, hint: &str) -> Result<String, Failure> {
    text_up_to(path, DOCUMENT_MAX, hint)
}

/// Reads a trace of memory requests, as bytes, from the file `path`, or from stdin if `path` is
/// `-`. The size limit is [`TRACE_MAX`]. If the file cannot be read, the error has the remedy
/// `hint`.
pub fn trace(path: &Path, hint: &str) -> Result<Vec<u8>, Failure> {
    read_input(path, TRACE_MAX).map_err(|why| read_failure(path, &why, hint))
}

fn text_up_to(path: &Path, limit: u64, hint: &str) -> Result<String, Failure> {
    let read = read_input(path, limit).map_err(TextError::Unread);
    read.and_then(decode_utf8).map_err(|why| match why {
        TextError::Unread(why) => read_failure(path, &why, hint),
        TextError::NotUtf8 { line } => encoding_failure(path, line),
    })
}

/// Reads the file `path`, or stdin if `path` is `-`.
fn read_input(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    match path == Path::new("-") {
        true => input::read_stdin(limit),
        false => input::read_file(path, limit),
    }
}

fn read_failure(path: &Path, why: &io::Error, hint: &str) -> Failure {
    Failure::new(format!("{}: {why}", path.display()), hint)
}

/// Returns the built-in scenario `name`, or the scenario in the file with the path `name`, and the
/// duration in the scenario file, if it has one. The scenario runs on the platform `asked`; if that
/// is `None`, on the platform that the scenario file names.
pub fn scenario(name: &str, asked: Option<Platform>) -> Result<(Scenario, Option<Time>), Failure> {
    let (label, text, files) = match embedded(&SCENARIOS, &format!("{name}.toml")) {
        Some(text) => (format!("{name}.toml"), text.to_string(), FileSource::BuiltIn),
        None => {
            let path = Path::new(name);
            let text = read(path, "scenario", &scenario_names())?;
            (name.to_string(), text, FileSource::Folder(path.parent().unwrap_or(Path::new(""))))
        }
    };
    let file = scenario_toml::parse(&label, &text)?;
    let platform = match (asked, file.platform_name()) {
        (Some(asked), _) => asked,
        (None, Some(own)) => {
            files.platform(own).map_err(|why| why.within(&file.platform_place()))?
        }
        (None, None) => {
            let hint = "add platform = \"NAME\" to it, or give --platform NAME";
            return Err(Failure::new(format!("{}: there is none", file.platform_place()), hint));
        }
    };
    let demands = |source: ScenarioDemand<'_>| {
        let loaded = || {
            let demand = match source {
                ScenarioDemand::Workload(name) => workload(name)?,
                ScenarioDemand::File(path) => files.demand(path)?,
            };
            let measured_on = Some(measured_on(&platform, &demand)?);
            Ok(LoadedDemand { demand, measured_on })
        };
        loaded().map_err(|why: Failure| why.within(&file.demand_place(source)))
    };
    let scenario = file.build::<Failure>(platform.clone(), &demands)?;
    Ok((scenario, file.duration()))
}

/// Returns a scenario in which only the built-in workload `name` runs, on the platform `platform`.
/// `threads` has the same default as in `single_workload`.
pub fn built_in_workload(
    platform: &str,
    name: &str,
    threads: Option<u32>,
) -> Result<Scenario, Failure> {
    let scenario = single_workload(&self::platform(platform)?, &workload(name)?, threads, None)?;
    scenario.check().map_err(|why| Failure::new(why.to_string(), why.hint()))?;
    Ok(scenario)
}

/// Returns a scenario in which only the workload `demand` runs. By default, `footprint` is the
/// footprint of `demand`, and `threads` is the largest number of threads of the demand's measured
/// runs with all pages on the first tier, but at most the number of cores of the first domain.
pub fn single_workload(
    platform: &Platform,
    demand: &Demand,
    threads: Option<u32>,
    footprint: Option<Bytes>,
) -> Result<Scenario, Failure> {
    let measured_on = measured_on(platform, demand)?;
    let threads = threads.unwrap_or_else(|| demand.threads().min(platform.domains[0].cores));
    let mut task = Task::new(platform, &measured_on, demand, threads);
    if let Some(footprint) = footprint {
        task.footprint_bytes = footprint.get();
    }
    Ok(Scenario::new(&demand.name, platform.clone(), vec![task]))
}

/// Returns the failure for curves that are invalid after the option `--curve-error` has changed
/// them.
pub fn curve_failure(why: CurveError) -> Failure {
    Failure::new(format!("curves that are so wrong are none: {why}"), why.hint())
}

/// The location of the files that a scenario file names.
enum FileSource<'a> {
    /// The folder `scenarios/` that is built into the program.
    BuiltIn,
    /// The folder in which the scenario file is.
    Folder(&'a Path),
}

impl FileSource<'_> {
    fn platform(&self, name: &str) -> Result<Platform, Failure> {
        let (own, _) = parameters::split(name);
        match (self, embedded(&SCENARIOS, name)) {
            _ if platform_names().iter().any(|known| known == own) => platform(name),
            (Self::BuiltIn, Some(text)) => {
                let folder = Path::new(name).parent().unwrap_or(Path::new(""));
                let curves = |path: &str| {
                    let path = folder.join(path);
                    let text = embedded(&SCENARIOS, &path.to_string_lossy());
                    text.map(String::from).ok_or_else(|| "there is none".to_string())
                };
                Ok(platform_toml::parse(name, text, &curves)?)
            }
            (Self::Folder(folder), _) => platform(&folder.join(name).to_string_lossy()),
            (Self::BuiltIn, None) => platform(name),
        }
    }

    fn demand(&self, path: &str) -> Result<Demand, Failure> {
        match (self, embedded(&SCENARIOS, path)) {
            (Self::BuiltIn, Some(text)) => Ok(demand_toml::parse(path, text)?),
            (Self::Folder(folder), _) => demand(&folder.join(path)),
            (Self::BuiltIn, None) => demand(Path::new(path)),
        }
    }
}

fn embedded<'a>(dir: &'a Dir<'_>, path: &str) -> Option<&'a str> {
    dir.get_file(path).and_then(|file| file.contents_utf8())
}

fn read(path: &Path, what: &str, names: &[String]) -> Result<String, Failure> {
    read_text(path).map_err(|why| {
        let why = match why {
            TextError::Unread(why) => why,
            TextError::NotUtf8 { line } => return encoding_failure(path, line),
        };
        let is_name = path.components().count() <= 1 && path.extension().is_none();
        let problem = if is_name && why.kind() == io::ErrorKind::NotFound {
            format!("there is no {what} {path:?}")
        } else {
            format!("{}: {why}", path.display())
        };
        // `path` may be a name from a scenario file, joined with the folder of that file. Therefore
        // only the last component of `path` is compared with the known names.
        let name = path.file_name().unwrap_or(path.as_os_str());
        let similar = suggestion(&name.to_string_lossy(), names);
        let names = names.join(", ");
        let hint = format!("{similar}the {what}s are {names}; or name a {what} file");
        Failure::new(problem, hint)
    })
}

/// Size limit of a platform, demand, scenario, sweep, configuration or device file, bytes.
const TEXT_MAX: u64 = 64 << 20;

/// Size limit of a record (a JSON document of a command), bytes.
const DOCUMENT_MAX: u64 = 256 << 20;

/// Size limit of a trace of requests, bytes.
const TRACE_MAX: u64 = 2 << 30;

const NOT_UTF8: &str = "not UTF-8 text";

/// The reason why a file has no text to return.
enum TextError {
    /// The file cannot be read.
    Unread(io::Error),
    /// A line of the file is not UTF-8. `line` is the first such line, 1-based.
    NotUtf8 { line: usize },
}

fn read_text(path: &Path) -> Result<String, TextError> {
    input::read_file(path, TEXT_MAX).map_err(TextError::Unread).and_then(decode_utf8)
}

fn decode_utf8(bytes: Vec<u8>) -> Result<String, TextError> {
    String::from_utf8(bytes).map_err(|why| {
        let good = &why.as_bytes()[..why.utf8_error().valid_up_to()];
        TextError::NotUtf8 { line: good.iter().filter(|byte| **byte == b'\n').count() + 1 }
    })
}

fn encoding_failure(path: &Path, line: usize) -> Failure {
    let problem = format!("{}:{line}: this is {NOT_UTF8}", path.display());
    Failure::new(problem, "save the file as UTF-8, or name another one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_built_in_drive_is_valid_and_has_its_name() {
        for name in names(&DRIVES) {
            let found = drive(&name).map(|drive| (drive.name, drive.sources.len()));
            assert!(matches!(&found, Ok((own, 4..)) if *own == name), "{name}: {found:?}");
        }
        let why = drive("no-such-drive").expect_err("it does not exist").to_string();
        assert!(why.contains("no-such-drive"), "{why}");
    }

    #[test]
    fn platforms_carry_the_bandwidths_of_the_built_in_workloads() {
        for name in workload_names() {
            let source = workload_source(&name).expect("it is built in");
            let demand = source.parse().expect("it is valid");
            let Some(on) = &demand.platform else { continue };
            let on = platform(on).expect("it is built in");
            let found = demand_toml::check_runs(&name, &source.text, &demand, &on);
            assert_eq!(found, Ok(()));
        }
    }

    #[test]
    fn a_bandwidth_that_the_platform_cannot_carry_is_an_error() {
        let source = workload_source("lbm").expect("it is built in");
        let demand = source.parse().expect("it is valid");
        let on = platform("gnr120-cz122").expect("it is built in");
        for (gbps, hint) in [("365300.0", "not MB/s: 365.3"), ("900.0", "correct it")] {
            let text = source.text.replace("= 365.3", &format!("= {gbps}"));
            let why = demand_toml::check_runs("lbm.toml", &text, &demand, &on);
            let why = why.expect_err("it is too high");
            assert_eq!(why.line, Some(19));
            assert!(why.hint.contains(hint), "{why:?}");
        }
    }

    #[test]
    fn a_scenario_names_a_built_in_platform_with_parameters() {
        for folder in ["", ".", "scen", "/tmp"] {
            let source = FileSource::Folder(Path::new(folder));
            let found = source.platform("xeon6-cz122:cxl.count=4").expect(folder);
            assert_eq!(Some(found), platform("xeon6-cz122:cxl.count=4").ok());
        }
    }

    #[test]
    fn a_card_is_a_drive_whose_latency_rises_with_the_queue() {
        let drive = drive("all-mram").expect("it is built in");
        let rises = drive.pages.windows(2).all(|it| it[0].seconds < it[1].seconds);
        assert!(drive.read_rate > 1e9 && rises, "{drive:?}");
    }
}
