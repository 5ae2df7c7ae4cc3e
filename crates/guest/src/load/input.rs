//! Reads the platform and the demand of the program `load` from files.

use std::{fs, io, path::Path};

use interleaf_model::{
    demand::Demand,
    format::{demand_toml, platform_toml},
    platform::Platform,
};

/// Returns the platform (a server) of the file `platform`, the platform on which the demand (a
/// workload's requests to memory) was measured, and the demand. If the demand was measured on
/// another platform, the file of that platform is in the folder of the file `platform`.
///
/// # Errors
///
/// If a file cannot be read.
pub fn read(platform: &Path, demand: &Path) -> io::Result<(Platform, Platform, Demand)> {
    let requested = self::platform(platform)?;
    let demand = demand_toml::parse(&demand.display().to_string(), &text(demand)?)
        .map_err(io::Error::other)?;
    let measured_on = match &demand.platform {
        Some(name) if *name != requested.name => {
            self::platform(&platform.with_file_name(format!("{name}.toml")))?
        }
        _ => requested.clone(),
    };
    Ok((requested, measured_on, demand))
}

fn platform(path: &Path) -> io::Result<Platform> {
    let curves = |relative: &str| {
        let file = path.parent().unwrap_or(Path::new("")).join(relative);
        fs::read_to_string(file).map_err(|why| why.to_string())
    };
    platform_toml::parse(&path.display().to_string(), &text(path)?, &curves)
        .map_err(io::Error::other)
}

fn text(path: &Path) -> io::Result<String> {
    let named = |why: io::Error| io::Error::new(why.kind(), format!("{}: {why}", path.display()));
    fs::read_to_string(path).map_err(named)
}
