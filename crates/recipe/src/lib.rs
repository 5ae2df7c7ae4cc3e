//! Recipes: they describe how real applications are installed and run. A recipe has the packages,
//! the command, the relation between footprint and problem size, and the patterns that find the
//! results in the output.
//!
//! The recipes in `workloads/recipes/` are built in. A user can write further recipe files in any
//! folder ([`in_folder`]). This crate installs and starts nothing: [`Recipe::commands`] returns the
//! commands to run, and [`Recipe::outcome`] reads their output.

#![forbid(unsafe_code)]

mod outcome;

pub use outcome::{Figure, Outcome};

use interleaf_console::Failure;
use interleaf_model::format::{names::suggestion, toml_text::TomlText};
use regex_lite::Regex;
use serde::Deserialize;
use std::{collections::BTreeMap, fs, iter, path::Path};
use toml::Spanned;

/// The schema of recipe files.
const SCHEMA: &str = "interleaf.recipe/1";

/// The Python interpreter of a recipe that installs no Python packages.
pub const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// A recipe for an application. Its fields were checked: each pattern is a regular expression, no
/// file name contains a folder, and each placeholder of a command is known.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The position of the recipe's name in its file, for error messages: file, line and field.
    #[serde(skip)]
    pub place: String,
    /// The schema and its version: `interleaf.recipe/1`.
    schema: String,
    /// The name of the recipe.
    name: Spanned<String>,
    /// A description of the application in one line.
    pub does: String,
    /// Names of the packages of Debian and Ubuntu that the application needs.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Requirements of pip. They are installed in the recipe's own virtual environment.
    #[serde(default)]
    pub pip: Vec<String>,
    /// Requirements of pip that are installed without their dependencies, in the same virtual
    /// environment as `pip`.
    #[serde(default)]
    pub pip_alone: Vec<String>,
    /// Programs and files that the application needs; Python packages are not among them.
    #[serde(default)]
    pub programs: Vec<String>,
    /// Modules of the system's Python that the application imports.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Environment variables of the commands. Their values may have the placeholders of `command`.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Commands that run before the application and are not timed.
    #[serde(default)]
    prepare: Vec<Vec<String>>,
    /// The command of the application. It runs in a folder that has the recipe's files. `{n}`
    /// stands for the problem size, `{threads}` for the number of threads, `{python}` for the
    /// interpreter.
    command: Vec<String>,
    /// The function that computes the problem size from the number of items. The number of items is
    /// proportional to the footprint.
    #[serde(default)]
    scale: Scale,
    /// Bytes of memory that one item of the problem takes.
    bytes_per_item: f64,
    /// The exponent of the scale `power`: `{n}` is the number of items raised to this power.
    #[serde(default = "one")]
    power: f64,
    /// The smallest problem size that the application accepts.
    #[serde(default = "one")]
    least: f64,
    /// A regular expression. The result is capture group 1 of its last match in the output.
    result: String,
    /// The unit of the result.
    pub result_unit: String,
    /// The direction in which the result is better: higher or lower.
    pub better: Better,
    /// A regular expression. The checksum is capture group 1 of its last match in the output. The
    /// checksum is equal in every run of the same problem.
    check: String,
    /// The pattern of the message by which the application reports that it verified its result. A
    /// run without this message in its output fails.
    #[serde(default)]
    verified: Option<String>,
    /// Further figures that the application prints.
    #[serde(default, rename = "figure")]
    figures: Vec<FigurePattern>,
    /// Files that the commands read. They are created before the commands run.
    #[serde(default, rename = "file")]
    pub files: Vec<File>,
}

/// The function that computes the problem size from the number of items. The number of items is the
/// footprint divided by the bytes per item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// The number of items, raised to the exponent `power`.
    #[default]
    Power,
    /// The binary logarithm of the number of items, rounded down.
    Log2,
}

/// The direction in which a result is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    Higher,
    Lower,
}

impl Better {
    pub fn text(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
        }
    }
}

/// A figure that the application prints in addition to the result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FigurePattern {
    /// The name of the figure.
    name: String,
    /// A regular expression. The figure is capture group 1 of its last match in the output.
    pattern: String,
    /// The unit of the figure.
    unit: String,
}

/// A file that is written to the folder of a run before the commands run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The name of the file.
    name: Spanned<String>,
    /// The text of the file. Placeholders in it are not replaced.
    pub text: String,
}

impl File {
    /// Returns the name of the file.
    pub fn name(&self) -> &str {
        self.name.get_ref()
    }
}

/// The commands of one run, with all placeholders replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commands {
    pub environment: Vec<(String, String)>,
    pub prepare: Vec<Vec<String>>,
    pub command: Vec<String>,
}

fn one() -> f64 {
    1.0
}

/// 10 MiB in KiB. Error messages state a least footprint above it in MiB, and others in KiB.
const FOOTPRINT_IN_KIB_MAX: f64 = 10.0 * 1024.0;

/// Environment variables that set the number of threads of common libraries.
const THREAD_VARIABLES: [&str; 4] =
    ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"];

/// The placeholders that commands and the values of environment variables may have.
const PLACEHOLDERS: [&str; 3] = ["{n}", "{threads}", "{python}"];

/// Parses all built-in recipes.
///
/// # Errors
/// If a field of a recipe is invalid. The error is about the first invalid field.
pub fn built_in() -> Result<Vec<Recipe>, Failure> {
    interleaf_catalog::recipes().map(|(name, text)| Recipe::parse(&name, text)).collect()
}

/// Parses the recipes `*.toml` in `folder`, in the order of their file names.
///
/// # Errors
/// If the folder or a file cannot be read, the folder has no recipe, a field is invalid, or two
/// recipes have the same name.
pub fn in_folder(folder: &Path) -> Result<Vec<Recipe>, Failure> {
    let hint = "name a folder with recipe files (*.toml)";
    let failed = |why: String| Failure::new(format!("{}: {why}", folder.display()), hint);
    let entries = fs::read_dir(folder).map_err(|why| failed(why.to_string()))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(|why| failed(why.to_string()))?;
    paths.retain(|path| path.extension().is_some_and(|it| it == "toml"));
    paths.sort();
    if paths.is_empty() {
        return Err(failed("it has no recipe".into()));
    }
    let recipes: Vec<Recipe> = paths.iter().map(|path| in_file(path)).collect::<Result<_, _>>()?;
    let mut places = BTreeMap::new();
    for recipe in &recipes {
        if let Some(first) = places.insert(recipe.name(), &recipe.place) {
            let (name, place) = (recipe.name(), &recipe.place);
            let problem = format!("{place}: \"{name}\" is also the name of a recipe in {first}");
            return Err(Failure::new(problem, "give each recipe its own name"));
        }
    }
    Ok(recipes)
}

/// Parses the recipe in the file `path`.
///
/// # Errors
/// If the file cannot be read, or if a field is invalid.
pub fn in_file(path: &Path) -> Result<Recipe, Failure> {
    let text = interleaf_catalog::text(path, "name a recipe file, as in workloads/recipes")?;
    Recipe::parse(&path.display().to_string(), &text)
}

/// Returns the recipes of `folder`, or the built-in recipes if `folder` is `None`.
///
/// # Errors
/// The errors of [`in_folder`].
pub fn all(folder: Option<&Path>) -> Result<Vec<Recipe>, Failure> {
    folder.map_or_else(built_in, in_folder)
}

/// Finds the recipe `name` among the recipes of `folder`, or among the built-in recipes if `folder`
/// is `None`. A name with a slash or with the suffix `.toml` is the path of a recipe file.
///
/// # Errors
/// The errors of [`all`], or of [`in_file`] for a file.
pub fn find(name: &str, folder: Option<&Path>) -> Result<Option<Recipe>, Failure> {
    if name.contains('/') || name.ends_with(".toml") {
        return in_file(Path::new(name)).map(Some);
    }
    Ok(all(folder)?.into_iter().find(|recipe| recipe.name() == name))
}

/// Returns the error that no recipe has the name `name`. Its hint lists the names of `recipes`.
pub fn unknown(name: &str, recipes: &[Recipe]) -> Failure {
    let names: Vec<&str> = recipes.iter().map(Recipe::name).collect();
    Failure::new(
        format!("there is no recipe \"{name}\""),
        format!(
            "{}write one of {}, or name a recipe file; built-in workloads need nothing",
            suggestion(name, &names),
            names.join(", ")
        ),
    )
}

impl Recipe {
    /// Parses and checks `text`, the text of the recipe file `label`.
    ///
    /// # Errors
    /// If a field is invalid. The error names the file, the line or field, the value, and the
    /// allowed values.
    pub fn parse(label: &str, text: &str) -> Result<Self, Failure> {
        let toml = TomlText::new(label, text);
        let mut recipe: Self = toml.read_as(SCHEMA)?;
        recipe.place = toml.place("name", &recipe.name);
        match recipe.check_fields() {
            Ok(()) => check_file_names(&toml, &recipe.files).map(|()| recipe),
            Err((field, why)) => {
                let hint = "see docs/recipes.md for the fields of a recipe";
                Err(toml.key_error(&field, &why, hint).into())
            }
        }
    }

    /// Returns the name of the recipe.
    pub fn name(&self) -> &str {
        self.name.get_ref()
    }

    /// Checks all fields of the recipe. The error is a pair: the path of the first invalid field
    /// (see [`TomlText::key_error`]), and a text about the problem.
    fn check_fields(&self) -> Result<(), (String, String)> {
        let wrong = |field: &str, why: String| Err((field.to_string(), why));
        if self.schema != SCHEMA {
            return wrong("schema", format!("\"{}\" is not {SCHEMA}", self.schema));
        }
        let is_plain = |text: &str| {
            let is_good = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
            !text.is_empty() && !text.starts_with('.') && text.chars().all(is_good)
        };
        if !is_plain(self.name()) {
            let why = "write letters, digits, \"-\", \"_\" and \".\" only";
            return wrong("name", format!("\"{}\" is not a plain name: {why}", self.name()));
        }
        for (at, name) in self.files.iter().map(File::name).enumerate() {
            if !is_plain(name) {
                let why = format!("\"{name}\" is not a plain file name");
                return wrong(&format!("file[{at}].name"), why);
            }
        }
        let numbers = [
            ("bytes_per_item", self.bytes_per_item, 1e-3, 1e15),
            ("power", self.power, 0.01, 10.0),
            ("least", self.least, 1.0, 1e15),
        ];
        for (field, value, least, most) in numbers {
            if !(least..=most).contains(&value) {
                return wrong(field, format!("{value} is not between {least} and {most}"));
            }
        }
        let prepare = self.prepare.iter().enumerate();
        let prepare = prepare.map(|(at, words)| (format!("prepare[{at}]"), words));
        let commands: Vec<(String, &Vec<String>)> =
            iter::once(("command".into(), &self.command)).chain(prepare).collect();
        if let Some((field, _)) = commands.iter().find(|(_, words)| words.is_empty()) {
            return wrong(field, "it is empty: write a program and its arguments".into());
        }
        let environment = self.environment.iter();
        let environment = environment.map(|(name, word)| (format!("environment.{name}"), word));
        let words =
            commands.iter().flat_map(|(field, words)| iter::repeat(field.clone()).zip(*words));
        let mut words = words.chain(environment);
        if !words.clone().any(|(_, word)| word.contains("{n}")) {
            return wrong("command", "it has no {n}: the footprint would change nothing".into());
        }
        if let Some((field, word)) = words.find(|(_, word)| has_unknown_placeholder(word)) {
            let known = PLACEHOLDERS.join(", ");
            return wrong(&field, format!("\"{word}\" has a placeholder that is none of {known}"));
        }
        let mut patterns =
            vec![("result".to_string(), &self.result), ("check".into(), &self.check)];
        for (at, figure) in self.figures.iter().enumerate() {
            for (key, text) in [("name", &figure.name), ("unit", &figure.unit)] {
                if text.is_empty() {
                    return wrong(&format!("figure[{at}].{key}"), "it is empty".into());
                }
            }
            patterns.push((format!("figure[{at}].pattern"), &figure.pattern));
        }
        for (field, pattern) in patterns {
            let regex = Regex::new(pattern)
                .map_err(|why| (field.clone(), format!("'{pattern}': {why}")))?;
            if regex.captures_len() < 2 {
                return wrong(&field, format!("'{pattern}' has no group (...) for the value"));
            }
        }
        if let Some(pattern) = &self.verified
            && let Err(why) = Regex::new(pattern)
        {
            return wrong("verified", format!("'{pattern}': {why}"));
        }
        Ok(())
    }

    /// True if the recipe installs Python packages. They are installed in a virtual environment.
    pub fn has_environment(&self) -> bool {
        !self.pip.is_empty() || !self.pip_alone.is_empty()
    }

    /// Returns the requirements of pip, one on each line. This text is also written to the file
    /// that marks a virtual environment as complete. If the requirements change, the texts differ,
    /// and the environment counts as incomplete.
    pub fn requirements(&self) -> String {
        let alone = self.pip_alone.iter().map(|it| format!("{it} # without dependencies\n"));
        self.pip.iter().map(|it| format!("{it}\n")).chain(alone).collect()
    }

    /// Returns the problem size for a footprint of `footprint_bytes` bytes.
    ///
    /// # Errors
    /// If the footprint is too small for the application.
    pub fn items(&self, footprint_bytes: u64) -> Result<f64, Failure> {
        let items = footprint_bytes as f64 / self.bytes_per_item;
        let size = match self.scale {
            Scale::Power => items.powf(self.power).round(),
            Scale::Log2 => (items.log2() + 1e-9).floor(),
        };
        if size >= self.least {
            return Ok(size);
        }
        let least = match self.scale {
            Scale::Power => (self.least - 0.5).powf(self.power.recip()),
            Scale::Log2 => self.least.exp2(),
        };
        let kib = (least * self.bytes_per_item / 1024.0).ceil();
        let least = match kib <= FOOTPRINT_IN_KIB_MAX {
            true => format!("{kib:.0}KiB"),
            false => format!("{:.0}MiB", (kib / 1024.0).ceil()),
        };
        Err(Failure::new(
            format!("{}: the footprint of {footprint_bytes} bytes is too small", self.name),
            format!("give --footprint {least} or more"),
        ))
    }

    /// Returns the commands of a run with the problem size `items`, with `threads` threads and with
    /// the Python interpreter `python`.
    pub fn commands(&self, items: f64, threads: u32, python: &str) -> Commands {
        let fill = |word: &String| {
            let word = word.replace("{n}", &format!("{items:.0}"));
            word.replace("{threads}", &threads.to_string()).replace("{python}", python)
        };
        let fill_all = |words: &Vec<String>| words.iter().map(fill).collect::<Vec<_>>();
        let libraries = THREAD_VARIABLES.map(|name| (name.to_string(), threads.to_string()));
        let own = self.environment.iter().map(|(name, value)| (name.clone(), fill(value)));
        Commands {
            environment: libraries.into_iter().chain(own).collect(),
            prepare: self.prepare.iter().map(fill_all).collect(),
            command: fill_all(&self.command),
        }
    }
}

/// Checks that no two files of a recipe have the same name: the second would overwrite the first.
fn check_file_names(toml: &TomlText<'_>, files: &[File]) -> Result<(), Failure> {
    let mut first = BTreeMap::new();
    for File { name, .. } in files {
        if let Some(earlier) = first.insert(name.get_ref(), name) {
            let problem = format!(
                "two files have the name \"{}\"; the other is in {}",
                name.get_ref(),
                toml.place("file.name", earlier)
            );
            return Err(toml
                .error("file.name", name, problem, "give each file its own name")
                .into());
        }
    }
    Ok(())
}

/// True if `word` has a text in braces that looks like a placeholder, but is not in PLACEHOLDERS.
fn has_unknown_placeholder(word: &str) -> bool {
    let rest = PLACEHOLDERS.iter().fold(word.to_string(), |rest, known| rest.replace(known, ""));
    rest.match_indices('{').any(|(at, _)| {
        let inside = rest[at + 1..].split_once('}').map(|(inside, _)| inside);
        inside.is_some_and(|it| !it.is_empty() && it.chars().all(|it| it.is_ascii_lowercase()))
    })
}

#[cfg(test)]
mod tests;
