//! `interleaf show`.

use crate::{
    args::ShowArgs,
    document::{self, machine::MachineDocument, show::ShowDocument},
    failure::Failure,
    library, output, render,
};
use interleaf_linux::machine::topology::Machine;
use std::path::Path;

/// The platform that is the list of all.
const LIST: &str = "list";

pub(super) fn run(args: &ShowArgs, root: Option<&Path>) -> Result<(), Failure> {
    let Some(name) = &args.platform else { return machine(args, root) };
    if name == LIST {
        return catalogue(args.json);
    }
    let platform = library::platform(name)?;
    let document = ShowDocument::new(&platform);
    if args.json {
        return output::data(&document::json(&document)?);
    }
    output::data(&render::show::text(&document))
}

/// The machine that this runs on, or a captured one.
fn machine(args: &ShowArgs, root: Option<&Path>) -> Result<(), Failure> {
    let root = super::root(root)?;
    let machine = Machine::read(&root).map_err(super::unread)?;
    let document = MachineDocument::new(&machine);
    if args.json {
        return output::data(&document::json(&document)?);
    }
    let mut text = render::machine::text(&document);
    if machine.memory_nodes().len() < 2 {
        text += "\nAll memory is on one node: there is nothing to interleave here. What other \
                 machines would give:\n\n";
        text += &catalogue_text();
    }
    output::data(&text)
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
    output::data(&catalogue_text())
}

fn catalogue_text() -> String {
    let (platforms, workloads) = (library::platform_names(), library::workload_names());
    let scenarios = library::scenario_names();
    format!(
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
    )
}
