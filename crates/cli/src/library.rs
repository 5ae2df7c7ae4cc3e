//! Platforms and workloads by name (those that come with the tool) or by file.

use crate::failure::Failure;
use include_dir::{Dir, include_dir};
use interleaf_model::{
    demand::Demand,
    format::{demand_toml, platform_toml},
    platform::Platform,
};
use std::{fs, path::Path};

static PLATFORMS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../platforms");
static WORKLOADS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../workloads");

/// The names of the platforms that come with the tool.
pub(crate) fn platform_names() -> Vec<String> {
    names(&PLATFORMS)
}

/// The names of the workloads that come with the tool.
pub(crate) fn workload_names() -> Vec<String> {
    names(&WORKLOADS)
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

/// The platform with this name, or in this file.
pub(crate) fn platform(name: &str) -> Result<Platform, Failure> {
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
        fs::read_to_string(&path).map_err(|why| why.to_string())
    };
    Ok(platform_toml::parse(name, &text, &curves)?)
}

/// The workload with this name that comes with the tool.
pub(crate) fn workload(name: &str) -> Result<Demand, Failure> {
    let Some(text) = embedded(&WORKLOADS, &format!("{name}.toml")) else {
        let problem = format!("there is no workload \"{name}\"");
        let hint = format!(
            "the workloads are {}; a demand file is given with --demand FILE",
            workload_names().join(", ")
        );
        return Err(Failure::new(problem, hint));
    };
    Ok(demand_toml::parse(&format!("{name}.toml"), text)?)
}

/// The demand in a file.
pub(crate) fn demand(path: &Path) -> Result<Demand, Failure> {
    let text = fs::read_to_string(path).map_err(|why| {
        let hint = "name a demand file, or one of the workloads with --workload NAME";
        Failure::new(format!("{}: {why}", path.display()), hint)
    })?;
    Ok(demand_toml::parse(&path.display().to_string(), &text)?)
}

fn embedded<'a>(dir: &'a Dir<'_>, path: &str) -> Option<&'a str> {
    dir.get_file(path).and_then(|file| file.contents_utf8())
}

fn read(path: &Path, what: &str, names: &[String]) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|why| {
        let problem = if path.components().count() == 1 && path.extension().is_none() {
            format!("there is no {what} \"{}\"", path.display())
        } else {
            format!("{}: {why}", path.display())
        };
        let hint = format!("the {what}s are {}; or name a {what} file", names.join(", "));
        Failure::new(problem, hint)
    })
}
