//! Tests that the JSON Schemas in `schemas/` equal the schemas that are generated from the source
//! code, and that the files of the source tree are valid under them.
//!
//! `INTERLEAF_SCHEMAS=overwrite cargo test -p interleaf --test schemas` rewrites the schemas.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod generate;
mod validate;

use generate::{Direction, Source};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};
use validate::problems;

/// The schemas of the files that `interleaf` reads, as triples of (schema, crate, struct that such
/// a file is parsed to).
const INPUTS: [(&str, &str, &str); 9] = [
    ("interleaf.configurations/1", "model", "ConfigurationsToml"),
    ("interleaf.demand/1", "model", "DemandFile"),
    ("interleaf.devices/1", "sim", "DeviceToml"),
    ("interleaf.parts/1", "model", "PartsToml"),
    ("interleaf.platform/1", "model", "PlatformFile"),
    ("interleaf.recipe/1", "recipe", "Recipe"),
    ("interleaf.scenario/1", "sim", "ScenarioToml"),
    ("interleaf.sweep.dimm/1", "job", "DimmSweepFile"),
    ("interleaf.sweep/1", "job", "SweepFile"),
];

/// The schemas of the documents that `interleaf` writes, as pairs of (schema, struct in the crate
/// `record`).
const DOCUMENTS: [(&str, &str); 22] = [
    ("interleaf.balance/1", "BalancePeriod"),
    ("interleaf.balance.advice/1", "SummaryDocument"),
    ("interleaf.balance.plan/1", "BalancePlanDocument"),
    ("interleaf.bench/1", "BenchDocument"),
    ("interleaf.bench.compare/1", "BenchCompareDocument"),
    ("interleaf.compare/1", "CompareDocument"),
    ("interleaf.compare.runs/1", "CompareRunsDocument"),
    ("interleaf.doctor/1", "DoctorDocument"),
    ("interleaf.extend/1", "ExtendDocument"),
    ("interleaf.extend.forecast/1", "ForecastDocument"),
    ("interleaf.extend.plan/1", "ExtendPlanDocument"),
    ("interleaf.measure/1", "MeasureDocument"),
    ("interleaf.plan/1", "PlanDocument"),
    ("interleaf.predict/1", "PredictDocument"),
    ("interleaf.reproduce/1", "ReproduceDocument"),
    ("interleaf.run/1", "RunDocument"),
    ("interleaf.simulate.card/1", "CardDocument"),
    ("interleaf.simulate.card.cost/1", "CardCostDocument"),
    ("interleaf.simulate.card.test/1", "CardTestDocument"),
    ("interleaf.simulate.dimm/1", "DimmDocument"),
    ("interleaf.simulate.machine/1", "SimulateDocument"),
    ("interleaf.tune/1", "TuneDocument"),
];

/// The struct of an application's profile. The documents of a profile and of a measured machine
/// have the same schema name, `interleaf.measure/1`.
const APPLICATION: &str = "ProfileDocument";

/// A generated JSON Schema, `value`. `name` is the stem of its file name, and the NAME in
/// `interleaf show --schema NAME`. `schema` is the text of the field `schema` in documents.
struct Named {
    name: String,
    schema: &'static str,
    value: Value,
}

impl Named {
    fn new(schema: &'static str, value: Value) -> Self {
        let name = schema.strip_prefix("interleaf.").unwrap().split('/').next().unwrap();
        Self { name: name.into(), schema, value }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All schemas, generated from the source code.
static ALL: LazyLock<Vec<Named>> = LazyLock::new(|| {
    let record = Source::read(&root(), "record");
    let mut sources: BTreeMap<&str, Source> = BTreeMap::new();
    let mut all = vec![];
    for (schema, package, name) in INPUTS {
        let source = sources.entry(package).or_insert_with(|| Source::read(&root(), package));
        all.push(Named::new(schema, source.schema(schema, name, Direction::Read)));
    }
    for (schema, name) in DOCUMENTS {
        all.push(Named::new(schema, record.schema(schema, name, Direction::Written)));
    }
    let schema = "interleaf.measure/1";
    let value = record.schema(schema, APPLICATION, Direction::Written);
    all.push(Named { name: "measure.app".into(), schema, value });
    all
});

/// Returns the schema that the field `schema` of a file or document names. A demand may lack this
/// field.
fn of_text(value: &Value) -> Option<&'static Named> {
    let schema = value.get("schema").map_or("interleaf.demand/1", |it| it.as_str().unwrap());
    let is_application = value.get("app").is_some();
    ALL.iter().find(|own| own.schema == schema && is_application == (own.name == "measure.app"))
}

#[test]
fn the_files_are_those_of_the_source() {
    let overwrite = std::env::var("INTERLEAF_SCHEMAS").is_ok_and(|value| value == "overwrite");
    let folder = root().join("schemas");
    let mut names = BTreeSet::new();
    for Named { name, value, .. } in &*ALL {
        let path = folder.join(format!("{name}.json"));
        names.insert(path.clone());
        let text = serde_json::to_string_pretty(value).unwrap() + "\n";
        if overwrite {
            fs::write(&path, &text).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        let remedy = "INTERLEAF_SCHEMAS=overwrite cargo test -p interleaf --test schemas";
        assert!(found == text, "{} differs from the source: {remedy}", path.display());
    }
    let found: BTreeSet<_> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(found, names, "files without a schema");
}

fn toml_files(folder: &str) -> Vec<PathBuf> {
    let entries = root().join(folder).read_dir().unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|it| it == "toml")).collect()
}

#[test]
fn the_files_of_the_tree_keep_their_schemas() {
    let folders = [
        "platforms",
        "workloads",
        "workloads/recipes",
        "scenarios",
        "configurations",
        "devices",
        "devices/prices",
    ];
    let mut checked = BTreeSet::new();
    let sweeps = ["sweep", "sweep-dimm"].map(|kind| {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad-input");
        tests.join(format!("{kind}.in/good.toml"))
    });
    for path in folders.into_iter().flat_map(toml_files).chain(sweeps) {
        let value: toml::Value = toml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let value = serde_json::to_value(value).unwrap();
        let Some(own) = of_text(&value) else { continue };
        assert_eq!(problems(&own.value, &value), Vec::<String>::new(), "{}", path.display());
        checked.insert(own.schema);
    }
    for (schema, ..) in INPUTS {
        assert!(checked.contains(schema), "no file of {schema} was checked");
    }
}

#[test]
fn the_documents_of_the_tests_keep_their_schemas() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents");
    let mut checked = 0;
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        // The rows of a sweep are CSV, and have no schema.
        if path.extension().is_some_and(|it| it == "csv") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        // A record of `balance` has one document per line.
        for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
            let value = value.unwrap();
            // No JSON Schema is generated for this schema name, because the documents of a machine
            // and of a platform differ, but both have this name.
            if value["schema"] == "interleaf.show/1" {
                continue;
            }
            let own = of_text(&value).unwrap();
            assert_eq!(problems(&own.value, &value), Vec::<String>::new(), "{}", path.display());
            checked += 1;
        }
    }
    assert!(checked >= 30, "{checked} documents");
}

#[test]
fn mistakes_in_a_file_break_its_schema() {
    let schema = &ALL.iter().find(|own| own.name == "platform").unwrap().value;
    let text = fs::read_to_string(root().join("platforms/xeon6-cz122.toml")).unwrap();
    let good = serde_json::to_value(toml::from_str::<toml::Value>(&text).unwrap()).unwrap();
    assert_eq!(problems(schema, &good), Vec::<String>::new());
    for (place, value, problem) in [
        ("/schema", json!("interleaf.platform/2"), "/schema: not interleaf.platform/1"),
        ("/cpu/cores", json!("many"), "/cpu/cores: no integer"),
        ("/tier/0/kind", json!("ddr"), "/tier/0/kind: not one of"),
        ("/tier/1", json!({}), "/tier/1: no name"),
        ("/cpu", json!({"kores": 3}), "/cpu: unknown kores"),
        ("/tier", json!(3), "/tier: no array"),
    ] {
        let mut wrong = good.clone();
        *wrong.pointer_mut(place).unwrap() = value;
        let found = problems(schema, &wrong);
        assert!(found.iter().any(|it| it.contains(problem)), "{place}: {found:?}");
    }
}

#[test]
fn show_prints_each_schema() {
    let show = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
        command.args(["show", "--schema", name]).output().unwrap()
    };
    let list = String::from_utf8(show("list").stdout).unwrap();
    for Named { name, schema, value } in &*ALL {
        let output = show(name);
        assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), *value, "{name}");
        let in_list = |line: &str| line.split_whitespace().eq([name.as_str(), *schema]);
        assert!(list.lines().any(in_list), "{name} is not in {list}");
    }
    let output = show("platfrm");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("did you mean platform?"), "{said}");
}
