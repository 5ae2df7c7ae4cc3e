//! `interleaf show`.

use crate::{
    args::ShowArgs,
    document::{self, show::ShowDocument},
    failure::Failure,
    library, output, render,
};

pub(super) fn run(args: &ShowArgs) -> Result<(), Failure> {
    let Some(name) = &args.platform else { return catalogue(args.json) };
    let platform = library::platform(name)?;
    let document = ShowDocument::new(&platform);
    if args.json {
        return output::data(&document::json(&document)?);
    }
    output::data(&render::show::text(&document))
}

/// What comes with the tool.
fn catalogue(json: bool) -> Result<(), Failure> {
    let (platforms, workloads) = (library::platform_names(), library::workload_names());
    let scenarios = library::scenario_names();
    if json {
        let document = serde_json::json!({
            "schema": document::show::SCHEMA,
            "platforms": platforms,
            "workloads": workloads,
            "scenarios": scenarios,
        });
        return output::data(&document::json(&document)?);
    }
    output::data(&format!(
        "platforms: {}\nworkloads: {}\nscenarios: {}\n\n\
         interleaf show --platform {}     its tiers, curves and constants\n\
         interleaf predict --platform {} --workload {}\n\
         interleaf simulate machine --scenario {} --policy dmi\n\
         interleaf --help                       all verbs\n",
        platforms.join(", "),
        workloads.join(", "),
        scenarios.join(", "),
        platforms.last().map_or("NAME", String::as_str),
        platforms.last().map_or("NAME", String::as_str),
        workloads.iter().find(|name| *name == "hpcg").map_or("NAME", String::as_str),
        scenarios.iter().find(|name| *name == "shifting-demand").map_or("NAME", String::as_str),
    ))
}
