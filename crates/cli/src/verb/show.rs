//! `interleaf show`: describes the memory of this machine or a platform, or lists built-in names.

use crate::args::ShowArgs;
use interleaf_console::{Failure, output, system};
use interleaf_linux::machine::topology::Machine;
use interleaf_record::{show::ShowDocument, show_machine::MachineDocument};
use std::path::Path;

/// The argument that requests a list of all names, in place of a platform's or a schema's name.
const LIST: &str = "list";

pub(super) fn run(args: &ShowArgs, root: Option<&Path>) -> Result<(), Failure> {
    if let Some(name) = &args.schema {
        return schema(name);
    }
    let Some(name) = &args.platform else { return machine(args, root) };
    if name == LIST {
        return catalogue(args.json);
    }
    let platform = interleaf_catalog::platform(name)?;
    let document = ShowDocument::new(&platform);
    if args.json {
        return output::data(&interleaf_record::json(&document));
    }
    output::text(&interleaf_report::show::text(&document))
}

/// Prints the JSON Schema `name`. If `name` is `LIST`, prints the name and title of each schema.
fn schema(name: &str) -> Result<(), Failure> {
    if name != LIST {
        return output::data(interleaf_catalog::schema(name)?);
    }
    let title = |text: &str| {
        let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        value["title"].as_str().unwrap_or_default().to_string()
    };
    let line = |(name, text): (String, &str)| format!("{name:20} {}\n", title(text));
    output::data(&interleaf_catalog::schemas().into_iter().map(line).collect::<String>())
}

/// Prints the memory of this machine, or of a captured machine.
fn machine(args: &ShowArgs, root: Option<&Path>) -> Result<(), Failure> {
    let root = system::open_root(root)?;
    let machine = Machine::read(&root).map_err(system::read_failure)?;
    let document = MachineDocument::new(&machine);
    if args.json {
        return output::data(&interleaf_record::json(&document));
    }
    let mut text = interleaf_report::show_machine::text(&document);
    if machine.memory_nodes().len() < 2 {
        text += "\nAll memory is on one node: there is nothing to interleave here. Predictions \
             for other machines:\n\n";
        text += &catalogue_text();
    }
    output::text(&text)
}

/// Prints the names of the built-in platforms, workloads and scenarios.
fn catalogue(json: bool) -> Result<(), Failure> {
    let (platforms, workloads) =
        (interleaf_catalog::platform_names(), interleaf_catalog::workload_names());
    let scenarios = interleaf_catalog::scenario_names();
    if json {
        let document = serde_json::json!({
            "schema": interleaf_record::show::SCHEMA,
            "platforms": platforms,
            "workloads": workloads,
            "scenarios": scenarios,
        });
        return output::data(&interleaf_record::json(&document));
    }
    output::text(&catalogue_text())
}

fn catalogue_text() -> String {
    interleaf_report::show::catalogue(
        &interleaf_catalog::platform_names(),
        &interleaf_catalog::workload_names(),
        &interleaf_catalog::scenario_names(),
    )
}
