//! `interleaf bench`: lists, installs, runs and compares the workloads.

pub(super) mod compare;
mod recipe;
mod run;

use crate::args::{Bench, BenchListArgs};
use interleaf_console::{Failure, output};
use interleaf_model::format::names::suggestion;
use interleaf_recipe::Better;
use interleaf_record::bench::{EntryDocument, EntryKind, ListDocument};
use interleaf_workload::kind::Kind;
use std::process::ExitCode;

pub(super) fn run(bench: &Bench) -> Result<ExitCode, Failure> {
    match bench {
        Bench::List(args) => list(args).map(|()| ExitCode::SUCCESS),
        Bench::Run(args) => match recipe::find(&args.workload, args.recipes.as_deref())? {
            Some(recipe) => recipe::run(&recipe, args),
            None => run::run(args),
        },
        Bench::Install(args) => recipe::install(args),
        Bench::Compare(args) => compare::run(args),
    }
}

fn list(args: &BenchListArgs) -> Result<(), Failure> {
    let entry = |(name, kind, does): &(&str, Kind, &str)| EntryDocument {
        kind: EntryKind::BuiltIn,
        name: name.to_string(),
        does: does.to_string(),
        rate_unit: kind.unit().text().into(),
        better: Better::Higher.text().into(),
    };
    let mut workloads: Vec<EntryDocument> = Kind::ALL.iter().map(entry).collect();
    let recipes = interleaf_recipe::all(args.recipes.as_deref())?;
    recipes.iter().try_for_each(recipe::check_name)?;
    workloads.extend(recipes.into_iter().map(|recipe| EntryDocument {
        kind: EntryKind::Recipe,
        name: recipe.name().into(),
        does: recipe.does,
        rate_unit: recipe.result_unit,
        better: recipe.better.text().into(),
    }));
    let document = ListDocument { schema: "interleaf.bench.list/1".into(), workloads };
    match args.json {
        true => output::data(&interleaf_record::json(&document)),
        false => output::text(&interleaf_report::bench::list(&document)),
    }
}

/// Returns the unit of the result of a run of `name`, a built-in workload or a recipe.
pub(super) fn rate_unit(name: &str) -> Result<String, Failure> {
    let built_in = Kind::ALL.iter().map(|(name, kind, _)| (name.to_string(), kind.unit().text()));
    let recipes = interleaf_recipe::built_in()?;
    let recipes = recipes.iter().map(|it| (it.name().to_string(), it.result_unit.as_str()));
    let all: Vec<(String, &str)> = built_in.chain(recipes).collect();
    if let Some((_, unit)) = all.iter().find(|(known, _)| known == name) {
        return Ok((*unit).to_string());
    }
    let names: Vec<String> = all.into_iter().map(|(name, _)| name).collect();
    let hint = format!("{}write one of {}", suggestion(name, &names), names.join(", "));
    Err(Failure::new(format!("there is no workload \"{name}\""), hint))
}
