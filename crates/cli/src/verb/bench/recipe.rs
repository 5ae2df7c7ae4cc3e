//! Recipes of real applications, as data: installation, command, scaling with the footprint, and
//! the patterns of the result in the output.

use super::process::Drive;
use crate::args::{BenchInstallArgs, BenchRunArgs};
use interleaf_console::{Failure, output};
use interleaf_linux::{launch::command::Signals, place::mempolicy::Policy, root::Root};
use interleaf_model::format::names::suggestion;
use interleaf_record::{
    bench::{BenchDocument, SCHEMA},
    rounded,
};
use regex_lite::Regex;
use serde::Deserialize;
use std::{
    env,
    ffi::OsString,
    fs,
    io::{Read as _, Seek as _},
    path::Path,
    process::{Command, ExitCode},
    time::Duration,
};

/// The schema of recipe files.
const RECIPE: &str = "interleaf.recipe/1";

/// Interval between checks for the end of the application.
const LOOK: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recipe {
    schema: String,
    pub(crate) name: String,
    pub(crate) does: String,
    /// Package names of Debian and Ubuntu.
    packages: Vec<String>,
    /// Programs and files that the application needs.
    programs: Vec<String>,
    /// The command, run in a folder with the files; `{n}` stands for the problem size.
    command: Vec<String>,
    /// `{n}` is the footprint divided by this value, ...
    bytes_per_item: f64,
    /// ... raised to this power.
    power: f64,
    /// Regular expression; the result is the first group of its last match in the output.
    result: String,
    pub(crate) result_unit: String,
    /// Regular expression of the checksum, which must be equal in every run.
    check: String,
    file: Vec<File>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    text: String,
}

/// Parses all built-in recipes.
pub(crate) fn all() -> Result<Vec<Recipe>, Failure> {
    interleaf_catalog::recipes().map(|(name, text)| parse(&name, text)).collect()
}

fn parse(name: &str, text: &str) -> Result<Recipe, Failure> {
    let wrong = |why: String| Failure::new(format!("{name}: {why}"), "report it");
    let recipe: Recipe = toml::from_str(text).map_err(|why| wrong(why.to_string()))?;
    if recipe.schema != RECIPE {
        return Err(wrong(format!("schema: \"{}\" is not {RECIPE}", recipe.schema)));
    }
    Ok(recipe)
}

/// Finds the recipe with this name.
pub(super) fn find(name: &str) -> Result<Option<Recipe>, Failure> {
    Ok(all()?.into_iter().find(|recipe| recipe.name == name))
}

pub(super) fn install(args: &BenchInstallArgs) -> Result<ExitCode, Failure> {
    let recipes = all()?;
    let Some(recipe) = recipes.iter().find(|recipe| recipe.name == args.name) else {
        let names: Vec<&str> = recipes.iter().map(|recipe| recipe.name.as_str()).collect();
        return Err(Failure::new(
            format!("there is no recipe \"{}\"", args.name),
            format!(
                "{}write one of {}; workloads of our own need nothing",
                suggestion(&args.name, &names),
                names.join(", ")
            ),
        ));
    };
    let words = [&["install".to_string(), "-y".into()], &recipe.packages[..]].concat();
    if args.dry_run {
        output::data(&format!("apt-get {}\n", words.join(" ")))?;
        return Ok(ExitCode::SUCCESS);
    }
    let hint = format!("install {} by the means of your system", recipe.packages.join(", "));
    match Command::new("apt-get").args(&words).status() {
        Ok(status) if status.success() => Ok(ExitCode::SUCCESS),
        Ok(status) => Err(Failure::new(format!("apt-get ended with {status}"), hint)),
        Err(why) => Err(Failure::new(format!("apt-get cannot be run: {why}"), hint)),
    }
}

/// Runs an application. The time is the one that the application itself reports, without its start.
pub(super) fn run(recipe: &Recipe, args: &BenchRunArgs) -> Result<ExitCode, Failure> {
    output::check_writable(args.output.as_deref())?;
    if let Some(missing) = recipe.programs.iter().find(|name| !is_there(name)) {
        return Err(Failure::new(
            format!("{}: there is no {missing}", recipe.name),
            format!("interleaf bench install {}", recipe.name),
        ));
    }
    let root = Root::live();
    let drive = args.drive.as_deref().map(|folder| Drive::find(&root, folder)).transpose()?;
    let failed = |why: std::io::Error| {
        Failure::new(format!("{}: {why}", recipe.name), "see that there is room in /tmp")
    };
    let folder = tempfile::tempdir().map_err(failed)?;
    for file in &recipe.file {
        fs::write(folder.path().join(&file.name), &file.text).map_err(failed)?;
    }
    let items = (args.footprint.get() as f64 / recipe.bytes_per_item).powf(recipe.power);
    let words = recipe.command.iter().map(|it| it.replace("{n}", &format!("{items:.0}")));
    // Run the application in the folder of its files.
    let mut all: Vec<OsString> = vec!["-C".into(), folder.path().into()];
    all.extend(words.map(OsString::from));
    let mut said = tempfile::tempfile().map_err(failed)?;
    let signals = Signals::hold().map_err(failed)?;
    let before = drive.as_ref().map(|drive| drive.done(&root));
    let running = signals.start_into(Some(&said), &Policy::Default, &"env".into(), &all);
    let mut running = running
        .map_err(|why| Failure::new(why.to_string(), "see that it runs without this tool"))?;
    let status = loop {
        if let Some(status) = running.wait(LOOK).map_err(failed)? {
            break status;
        }
    };
    let after = drive.as_ref().map(|drive| drive.done(&root));
    let mut text = String::new();
    said.rewind().and_then(|()| said.read_to_string(&mut text)).map_err(failed)?;
    if !status.success() {
        output::message(&text);
        return Err(Failure::new(
            format!("{} ended with {status}", recipe.name),
            format!("interleaf bench install {}, if something is missing", recipe.name),
        ));
    }
    let mut document = document(recipe, args, &text, running.elapsed())?;
    let since = |(drive, (now, then)): (&Drive, _)| drive.document(now, then);
    document.drive = drive.as_ref().zip(after.zip(before)).map(since);
    let json = interleaf_record::json(&document);
    if let Some(target) = &args.output {
        output::file(target, &json)?;
    }
    let text = || interleaf_report::bench::text(&document);
    output::data(&if args.json { json } else { text() })?;
    Ok(ExitCode::SUCCESS)
}

/// Parses the output of an application. The result is not verified here: the checksum must equal
/// that of a run on DRAM.
fn document(
    recipe: &Recipe,
    args: &BenchRunArgs,
    text: &str,
    elapsed: Duration,
) -> Result<BenchDocument, Failure> {
    let found = |pattern: &str| {
        let regex = Regex::new(pattern).ok()?;
        let last = regex.captures_iter(text).last()?;
        last.get(1).map(|it| it.as_str().to_string())
    };
    let missing = |what: &str, pattern: &str| {
        let problem = format!("{}: what it printed has no {what} ({pattern})", recipe.name);
        Failure::new(problem, "see whether another version of it prints something else")
    };
    let value: Option<f64> = found(&recipe.result).and_then(|value| value.parse().ok());
    let value = value.ok_or_else(|| missing("result", &recipe.result))?;
    let check = found(&recipe.check).ok_or_else(|| missing("check", &recipe.check))?;
    let seconds = if recipe.result_unit == "s" { value } else { elapsed.as_secs_f64() };
    Ok(BenchDocument {
        schema: SCHEMA.into(),
        workload: recipe.name.clone(),
        footprint_bytes: args.footprint.get(),
        threads: 1,
        memory: "its own".into(),
        seconds: rounded(seconds),
        rate: rounded(value),
        rate_unit: recipe.result_unit.clone(),
        round_seconds: vec![rounded(seconds)],
        checksum: check,
        ..BenchDocument::default()
    })
}

/// True if the program exists: at its path, or in a folder of `PATH`.
fn is_there(name: &str) -> bool {
    if name.contains('/') {
        return Path::new(name).exists();
    }
    let paths = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&paths).any(|folder| folder.join(name).exists())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn each_recipe_is_complete() {
        let recipes = all().unwrap();
        assert!(recipes.len() >= 4, "{recipes:?}");
        for recipe in recipes {
            let name = &recipe.name;
            assert!(recipe.command.iter().any(|word| word.contains("{n}")), "{name}");
            assert!(!recipe.packages.is_empty() && !recipe.programs.is_empty(), "{name}");
            assert!(Regex::new(&recipe.result).is_ok() && Regex::new(&recipe.check).is_ok());
            assert!(recipe.bytes_per_item > 0.0 && recipe.power > 0.0, "{name}");
            for file in &recipe.file {
                assert!(recipe.command.contains(&file.name), "{name}: {}", file.name);
            }
        }
    }

    #[test]
    fn the_last_result_counts_and_a_missing_result_is_an_error() {
        let recipe = find("lammps").unwrap().unwrap();
        let args = crate::args::bench_run(&["lammps"]);
        let text =
            "Loop time of 1.5 on\n        20   0.7  -5.6   0  -4.62   0.1\nLoop time of 2.5 on";
        let document = document(&recipe, &args, text, Duration::ZERO).unwrap();
        assert_eq!((document.rate, document.checksum.as_str()), (2.5, "-4.62"));
        assert!(!document.verified);
        assert!(super::document(&recipe, &args, "nothing", Duration::ZERO).is_err());
    }
}
