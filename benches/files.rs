//! Reads the platforms and workloads of the source tree, for the benchmarks.

use interleaf_model::{
    demand::Demand,
    format::{demand_toml, platform_toml},
    platform::Platform,
};
use std::{fs, path::Path};

fn read(path: &str) -> Result<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))
}

/// Reads `platforms/NAME.toml` from the source tree.
pub(crate) fn platform(name: &str) -> Platform {
    let file = format!("platforms/{name}.toml");
    let text = read(&file).expect("the platform is in the source tree");
    let curves = |relative: &str| read(&format!("platforms/{relative}"));
    platform_toml::parse(&file, &text, &curves).expect("the platform is well-formed")
}

/// Reads `workloads/NAME.toml` from the source tree.
pub(crate) fn workload(name: &str) -> Demand {
    let file = format!("workloads/{name}.toml");
    let text = read(&file).expect("the workload is in the source tree");
    demand_toml::parse(&file, &text).expect("the workload is well-formed")
}
