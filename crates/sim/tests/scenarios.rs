//! Checks that the scenario files of the repository, and the example of the manual, can be built.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_model::{
    format::{FileError, demand_toml, platform_toml},
    platform::Platform,
};
use interleaf_sim::machine::scenario_toml::{DemandSource, LoadedDemand, parse};
use std::fs;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");

/// Returns the text of a file of the repository.
fn text(path: &str) -> String {
    fs::read_to_string(format!("{ROOT}{path}")).unwrap_or_else(|why| panic!("{path}: {why}"))
}

fn platform(name: &str) -> Platform {
    let path = format!("platforms/{name}.toml");
    platform_toml::parse(&path, &text(&path), &|curves| Ok(text(&format!("platforms/{curves}"))))
        .unwrap()
}

#[test]
fn the_scenarios_of_the_repository_are_in_order() {
    let files = fs::read_dir(format!("{ROOT}scenarios")).unwrap();
    let names: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter_map(|file| file.strip_suffix(".toml").map(String::from))
        .filter(|name| !name.ends_with(".demand"))
        .collect();
    assert!(names.len() >= 4, "{names:?}");
    for name in &names {
        let path = format!("scenarios/{name}.toml");
        let file = parse(&path, &text(&path)).unwrap();
        assert_eq!(file.name(), name);
        assert!(file.duration().is_some(), "{name}");
        let asked = file.platform_name().unwrap();
        let demands = |source: DemandSource<'_>| {
            let path = match source {
                DemandSource::Workload(name) => format!("workloads/{name}.toml"),
                DemandSource::File(file) => format!("scenarios/{file}"),
            };
            let demand = demand_toml::parse(&path, &text(&path))?;
            let elsewhere = demand.platform.as_deref().filter(|other| *other != asked);
            let measured_on = elsewhere.map(platform);
            Ok::<_, FileError>(LoadedDemand { demand, measured_on })
        };
        let scenario = file.build(platform(asked), &demands).unwrap();
        assert!(!scenario.tasks.is_empty() && scenario.page_groups > 0, "{name}");
    }
}

#[test]
fn the_example_of_the_manual_is_in_order() {
    let manual = text("docs/files.md");
    let (_, section) = manual.split_once("## A scenario\n").unwrap();
    let (_, example) = section.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let parsed = parse("docs/files.md", example).map(|file| file.name().to_string());
    assert_eq!(parsed, Ok("mine".into()));
}
