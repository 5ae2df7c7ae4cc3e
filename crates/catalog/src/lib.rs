//! Platforms, workloads and scenarios by name or from a file.
//!
//! The files of the folders `platforms/`, `workloads/` and `scenarios/` are built into the program
//! and found by name; a path names a file of the same kind. `interleaf_model::format` and
//! `interleaf_sim` parse them; this crate reads their text, and its errors list the known names.
//! Sizes of files are limited: 64 MiB for TOML and CSV, 256 MiB for a record, 2 GiB for a trace.

#![forbid(unsafe_code)]

use include_dir::{Dir, include_dir};
use interleaf_console::Failure;
use interleaf_linux::input;
use interleaf_model::{
    curve::CurveError,
    demand::Demand,
    format::{demand_toml, platform_toml},
    platform::Platform,
    units::{Bytes, Time},
};
use interleaf_sim::machine::{
    Scenario, Task,
    scenario_toml::{self, DemandSource, LoadedDemand},
};
use std::{io, path::Path};

static PLATFORMS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../platforms");
static SCENARIOS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../scenarios");
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
    // Files `NAME.demand.toml` are demands of a scenario.
    names.into_iter().filter(|name| !name.ends_with(".demand")).collect()
}

/// Returns the file name and the text of each built-in recipe of an application.
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

/// Returns the built-in platform with this name, or the platform in this file.
pub fn platform(name: &str) -> Result<Platform, Failure> {
    if let Some(text) = embedded(&PLATFORMS, &format!("{name}.toml")) {
        let curves = |path: &str| {
            embedded(&PLATFORMS, path).map(String::from).ok_or_else(|| "there is none".to_string())
        };
        return Ok(platform_toml::parse(&format!("{name}.toml"), text, &curves)?);
    }
    let path = Path::new(name);
    let text = read(path, "platform", &platform_names())?;
    let curves = |relative: &str| {
        let path = path.parent().unwrap_or(Path::new("")).join(relative);
        read_text(&path).map_err(|why| match why {
            TextError::Unread(why) => why.to_string(),
            TextError::NotUtf8 { line } => format!("line {line} is {NOT_UTF8}"),
        })
    };
    Ok(platform_toml::parse(name, &text, &curves)?)
}

/// Returns the platform that the runs of `demand` were measured on: the named one, or else `asked`.
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
            let problem = format!("{}: interleaved.weights: {why}", demand.name);
            Failure::new(problem, format!("write one weight for each tier of {}", measured_on.name))
        })?;
    }
    Ok(measured_on)
}

/// Returns the built-in workload with this name.
pub fn workload(name: &str) -> Result<Demand, Failure> {
    let Some(text) = embedded(&WORKLOADS, &format!("{name}.toml")) else {
        let problem = format!("there is no workload \"{name}\"");
        let hint = format!(
            "the workloads are {}; any other is described in a demand file",
            workload_names().join(", ")
        );
        return Err(Failure::new(problem, hint));
    };
    Ok(demand_toml::parse(&format!("{name}.toml"), text)?)
}

/// Reads the demand in a file.
pub fn demand(path: &Path) -> Result<Demand, Failure> {
    let hint = "name a demand file, or use a workload that comes with the tool";
    Ok(demand_toml::parse(&path.display().to_string(), &text(path, hint)?)?)
}

/// Reads the text of the file at `path`, or of stdin for `-`. An error has the remedy `hint`.
pub fn text(path: &Path, hint: &str) -> Result<String, Failure> {
    text_up_to(path, TEXT_MAX, hint)
}

/// Reads a recorded document, like [`text`], with the limit for records.
pub fn document(path: &Path, hint: &str) -> Result<String, Failure> {
    text_up_to(path, DOCUMENT_MAX, hint)
}

/// Reads a trace of requests, like [`text`], with the limit for traces.
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

/// Reads a file, or stdin for `-`.
fn read_input(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    match path == Path::new("-") {
        true => input::read_stdin(limit),
        false => input::read_file(path, limit),
    }
}

fn read_failure(path: &Path, why: &io::Error, hint: &str) -> Failure {
    Failure::new(format!("{}: {why}", path.display()), hint)
}

/// Returns the built-in scenario with this name or the scenario in this file, and its duration if
/// set. The platform is `asked`, or else the one that the scenario names.
pub fn scenario(name: &str, asked: Option<&str>) -> Result<(Scenario, Option<Time>), Failure> {
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
        (Some(asked), _) => platform(asked)?,
        (None, Some(own)) => {
            files.platform(own).map_err(|why| why.within(&file.platform_place()))?
        }
        (None, None) => {
            let hint = "add platform = \"NAME\" to it, or give --platform NAME";
            return Err(Failure::new(format!("{}: there is none", file.platform_place()), hint));
        }
    };
    let demands = |source: DemandSource<'_>| {
        let loaded = || {
            let demand = match source {
                DemandSource::Workload(name) => workload(name)?,
                DemandSource::File(path) => files.demand(path)?,
            };
            let measured_on = Some(measured_on(&platform, &demand)?);
            Ok(LoadedDemand { demand, measured_on })
        };
        loaded().map_err(|why: Failure| why.within(&file.demand_place(source)))
    };
    let scenario = file.build::<Failure>(platform.clone(), &demands)?;
    Ok((scenario, file.duration()))
}

/// Returns a scenario of one built-in workload on a platform.
pub fn built_in_workload(
    platform: &str,
    name: &str,
    threads: Option<u32>,
) -> Result<Scenario, Failure> {
    let scenario = single_workload(&self::platform(platform)?, &workload(name)?, threads, None)?;
    scenario.check().map_err(|why| Failure::new(why.to_string(), why.hint()))?;
    Ok(scenario)
}

/// Returns a scenario of one workload. Defaults: the threads of its runs, at most one per core, and
/// the footprint of its demand.
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

/// Returns the failure for curves that are invalid with the requested `--curve-error`.
pub fn curve_failure(why: CurveError) -> Failure {
    Failure::new(format!("curves that are so wrong are none: {why}"), why.hint())
}

/// The source of the files that a scenario names.
enum FileSource<'a> {
    /// The built-in scenarios.
    BuiltIn,
    /// The folder of the scenario file.
    Folder(&'a Path),
}

impl FileSource<'_> {
    fn platform(&self, name: &str) -> Result<Platform, Failure> {
        match (self, embedded(&SCENARIOS, name)) {
            _ if platform_names().iter().any(|known| known == name) => platform(name),
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
        let problem = if path.components().count() == 1 && path.extension().is_none() {
            format!("there is no {what} \"{}\"", path.display())
        } else {
            format!("{}: {why}", path.display())
        };
        let hint = format!("the {what}s are {}; or name a {what} file", names.join(", "));
        Failure::new(problem, hint)
    })
}

/// Size limit of a platform, demand, scenario, sweep, configuration or device file, bytes.
const TEXT_MAX: u64 = 64 << 20;

/// Size limit of a recorded document, bytes.
const DOCUMENT_MAX: u64 = 256 << 20;

/// Size limit of a trace of requests, bytes.
const TRACE_MAX: u64 = 2 << 30;

const NOT_UTF8: &str = "not UTF-8 text";

/// The reason why the text of a file is unavailable.
enum TextError {
    /// The file cannot be read.
    Unread(io::Error),
    /// The first line that is not UTF-8.
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
