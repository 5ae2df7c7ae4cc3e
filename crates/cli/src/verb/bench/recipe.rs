//! Installs the packages of a recipe's application, and runs the application at a footprint.

use super::run::write_document;
use crate::args::{BenchInstallArgs, BenchRunArgs};
use interleaf_console::{Failure, output, support, system};
use interleaf_launch::{
    counters::{Counters, Drive},
    signal_status,
    tree_end::wait_for_end,
};
use interleaf_linux::{
    launch::command::{Resources, Signals},
    place::mempolicy::Policy,
    root::Root,
};
use interleaf_model::format::shell_text;
use interleaf_recipe::{Outcome, Recipe, SYSTEM_PYTHON};
use interleaf_record::{
    bench::{BenchDocument, LoopDocument, SCHEMA},
    rounded,
};
use interleaf_workload::kind::Kind;
use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io::{self, Read as _, Seek as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus, Stdio},
    time::Duration,
};

/// The name of the file that marks a Python environment as complete. The file lists the installed
/// requirements.
const MARK: &str = "requirements";

/// Returns the folder with the Python environments of all recipes: the data folder of the XDG Base
/// Directory Specification, or `/var/lib` without a home.
fn environments() -> PathBuf {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let data = env::var_os("XDG_DATA_HOME").filter(|it| !it.is_empty()).map(PathBuf::from);
    data.or_else(home).unwrap_or_else(|| "/var/lib".into()).join("interleaf/recipes")
}

/// Returns the path of the Python interpreter of the recipe's own environment, or the system's.
fn python(recipe: &Recipe) -> PathBuf {
    match recipe.has_environment() {
        true => environments().join(recipe.name()).join("bin/python"),
        false => SYSTEM_PYTHON.into(),
    }
}

/// Returns a message about the first missing program, or about the first module that the system's
/// Python lacks. Returns `None` if nothing is missing.
fn missing_of_system(recipe: &Recipe) -> Option<String> {
    if let Some(program) = recipe.programs.iter().find(|name| !is_there(name)) {
        return Some(format!("there is no {program}"));
    }
    let module = recipe.modules.iter().find(|name| !is_module_there(name))?;
    Some(format!("{SYSTEM_PYTHON} has no module {module}"))
}

/// Returns a message about the first missing program or module, or about a recipe's Python
/// environment that is absent or out of date. Returns `None` if the application can run.
fn missing(recipe: &Recipe) -> Option<String> {
    missing_of_system(recipe).or_else(|| {
        let environment = environments().join(recipe.name());
        let installed = fs::read_to_string(environment.join(MARK)).unwrap_or_default();
        let is_complete = !recipe.has_environment() || installed == recipe.requirements();
        (!is_complete)
            .then(|| format!("its Python packages are not installed in {}", environment.display()))
    })
}

/// Finds the recipe `name`: a recipe's name, or the path of a recipe file.
pub(super) fn find(name: &str, folder: Option<&Path>) -> Result<Option<Recipe>, Failure> {
    let recipe = interleaf_recipe::find(name, folder)?;
    recipe.iter().try_for_each(check_name)?;
    Ok(recipe)
}

/// Rejects a recipe that has the name of a built-in workload: the results of the two could not be
/// told apart.
pub(super) fn check_name(recipe: &Recipe) -> Result<(), Failure> {
    match Kind::of(recipe.name()) {
        None => Ok(()),
        Some(_) => Err(Failure::new(
            format!("{}: \"{}\" is a built-in workload", recipe.place, recipe.name()),
            "give the recipe another name; `interleaf bench list` has the built-in workloads",
        )),
    }
}

pub(super) fn install(args: &BenchInstallArgs) -> Result<ExitCode, Failure> {
    let folder = args.recipes.as_deref();
    let Some(recipe) = find(&args.name, folder)? else {
        return Err(interleaf_recipe::unknown(&args.name, &interleaf_recipe::all(folder)?));
    };
    let environment = environments().join(recipe.name());
    let words = |words: &[&str]| words.iter().map(|it| (*it).to_string()).collect::<Vec<_>>();
    let pip = environment.join("bin/pip").display().to_string();
    let pip = words(&[&pip, "install", "--disable-pip-version-check"]);
    let mut commands = vec![];
    if !recipe.packages.is_empty() {
        commands.push([&words(&["apt-get", "install", "-y"]), &recipe.packages[..]].concat());
    }
    if recipe.has_environment() {
        let place = environment.display().to_string();
        commands.push(words(&[SYSTEM_PYTHON, "-m", "venv", "--clear", &place]));
    }
    if !recipe.pip.is_empty() {
        commands.push([&pip[..], &recipe.pip].concat());
    }
    if !recipe.pip_alone.is_empty() {
        commands.push([&pip[..], &words(&["--no-deps"]), &recipe.pip_alone].concat());
    }
    if args.dry_run {
        let lines: String = commands.iter().map(|it| shell_text::command(it) + "\n").collect();
        output::data(&lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    if missing(&recipe).is_none() {
        output::message(&format!("{} is installed", recipe.name()));
        return Ok(ExitCode::SUCCESS);
    }
    for command in &commands {
        install_step(&recipe, command)?;
    }
    if recipe.has_environment() {
        let mark = environment.join(MARK);
        fs::write(&mark, recipe.requirements()).map_err(|why| {
            Failure::new(format!("{}: {why}", mark.display()), "see that there is room")
        })?;
    }
    match missing(&recipe) {
        None => Ok(ExitCode::SUCCESS),
        Some(what) => Err(Failure::new(
            format!("{}: after the installation {what}", recipe.name()),
            "see whether its packages have other names on this system",
        )),
    }
}

/// Runs one command of the installation. The command that installs system packages is skipped if
/// all programs and modules of the recipe exist, so that a user without privileges can install the
/// Python packages.
fn install_step(recipe: &Recipe, command: &[String]) -> Result<(), Failure> {
    let [program, arguments @ ..] = command else { return Ok(()) };
    let is_apt = program == "apt-get";
    let needs_system = !recipe.programs.is_empty() || !recipe.modules.is_empty();
    if is_apt && needs_system && missing_of_system(recipe).is_none() {
        return Ok(());
    }
    let hint = match is_apt {
        true => format!(
            "run apt-get update first, as root; elsewhere install {} by the means of your system",
            recipe.packages.join(", ")
        ),
        false => "see its messages above; apt-get install python3-venv if that is missing".into(),
    };
    match Command::new(program).args(arguments).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(format!("{program} ended with {status}"), hint)),
        Err(why) => Err(Failure::new(format!("{program} cannot be run: {why}"), hint)),
    }
}

/// Rejects the options that only the built-in workloads have.
fn check_options(args: &BenchRunArgs) -> Result<(), Failure> {
    let own = [
        (args.trace.is_some(), "--trace"),
        (args.rounds.is_some(), "--rounds"),
        (args.seconds.is_some(), "--seconds"),
        (args.warm_up.is_some(), "--warm-up"),
        (args.memory.is_some(), "--memory"),
        (args.advice.is_some(), "--advice"),
        (args.only.is_some(), "--loop"),
        (args.stride.is_some(), "--stride"),
        (args.write, "--write"),
        (args.tile.is_some(), "--tile"),
        (args.degree.is_some(), "--degree"),
        (args.graph.is_some(), "--graph"),
        (args.seed.is_some(), "--seed"),
        (args.no_verify, "--no-verify"),
    ];
    let why = format!("is for built-in workloads, and {} is a recipe", args.workload);
    support::reject_given(&own, &why, "name a built-in workload: `interleaf bench list`")
}

/// Returns the `interleaf bench install` command for the recipe of `args`. Hints name this command.
fn install_command(args: &BenchRunArgs) -> String {
    let folder = args.recipes.as_ref().map(|folder| folder.display().to_string());
    let folder = folder.map(|folder| format!(" --recipes {}", shell_text::word(&folder)));
    format!(
        "interleaf bench install {}{}",
        shell_text::word(&args.workload),
        folder.unwrap_or_default()
    )
}

/// Runs the application of a recipe, and writes the document with its result.
pub(super) fn run(recipe: &Recipe, args: &BenchRunArgs) -> Result<ExitCode, Failure> {
    check_options(args)?;
    support::check_outputs(args.output.as_deref(), args.report.as_deref(), &[])?;
    if let Some(what) = missing(recipe) {
        return Err(Failure::new(format!("{}: {what}", recipe.name()), install_command(args)));
    }
    let items = recipe.items(args.footprint.get())?;
    let root = Root::live();
    let drive = args.drive.as_deref().map(|folder| Drive::find(&root, folder)).transpose()?;
    let failed = |why: io::Error| {
        Failure::new(format!("{}: {why}", recipe.name()), "see that there is room in /tmp")
    };
    let folder = tempfile::tempdir().map_err(failed)?;
    for file in &recipe.files {
        fs::write(folder.path().join(file.name()), &file.text).map_err(failed)?;
    }
    let python = python(recipe).display().to_string();
    let commands = recipe.commands(items, args.threads, &python);
    let said = tempfile::tempfile().map_err(failed)?;
    let signals = Signals::hold().map_err(failed)?;
    let application = Application {
        recipe,
        args,
        root: &root,
        folder: folder.path(),
        said: &said,
        signals: &signals,
    };
    for words in &commands.prepare {
        if let CommandEnd::Signal(number) = application.run(words, &commands.environment)? {
            return Ok(stopped(recipe, number));
        }
    }
    let now = || Counters::now(&root, drive.as_ref(), None);
    let before = now();
    let used = match application.run(&commands.command, &commands.environment)? {
        CommandEnd::Done(used) => used,
        CommandEnd::Signal(number) => return Ok(stopped(recipe, number)),
    };
    let since = now() - before;
    let outcome = recipe.outcome(&text_of(&said).map_err(failed)?)?;
    let mut document = document(recipe, args, outcome, &used);
    document.drive = drive.as_ref().map(|drive| drive.document(since.drive));
    write_document(args, &document)?;
    Ok(ExitCode::SUCCESS)
}

/// The context of one run of a recipe, in which its commands are executed.
struct Application<'a> {
    recipe: &'a Recipe,
    args: &'a BenchRunArgs,
    root: &'a Root,
    /// The temporary folder that holds the recipe's files. Commands run in this folder.
    folder: &'a Path,
    /// The file that collects the output of all commands.
    said: &'a File,
    signals: &'a Signals,
}

/// The run time of a command that succeeded, and the resources that it used.
struct Used {
    elapsed: Duration,
    resources: Resources,
}

/// The way in which a command ended without failing.
enum CommandEnd {
    Done(Used),
    /// This signal arrived before or during the command.
    Signal(i32),
}

impl Application<'_> {
    /// Runs a command to its end. After a signal, the descendants of the command are ended too,
    /// because the folder with their files will be removed.
    fn run(&self, words: &[String], variables: &[(String, String)]) -> Result<CommandEnd, Failure> {
        if let Some(number) = self.signals.arrived_signal() {
            return Ok(CommandEnd::Signal(number));
        }
        // `env -C` starts the application in the folder with the run's files.
        let mut all: Vec<OsString> = vec!["-C".into(), self.folder.into()];
        all.extend(words.iter().map(OsString::from));
        let (output, program) = (Some(self.said), "env".into());
        let running = self.signals.start_into(output, variables, &Policy::Default, &program, &all);
        let mut running = running
            .map_err(|why| Failure::new(why.to_string(), "see that it runs without this tool"))?;
        wait_for_end(self.root, &mut running, || {});
        let resources = running.resources().map_err(system::wait_failure)?;
        let status = running.status().map_err(system::wait_failure)?;
        match running.arrived_signal() {
            Some(number) => Ok(CommandEnd::Signal(number)),
            None if status.success() => {
                Ok(CommandEnd::Done(Used { elapsed: running.elapsed(), resources }))
            }
            None => Err(ended(self.recipe, self.args, words, self.said, status)),
        }
    }
}

/// Prints that signal `number` ended the run of a recipe. Returns the exit status for this signal.
fn stopped(recipe: &Recipe, number: i32) -> ExitCode {
    output::message(&format!("{}: stopped: signal {number} came", recipe.name()));
    signal_status(number)
}

/// Reads the output of all commands from the file `said`.
fn text_of(mut said: &File) -> io::Result<String> {
    let mut bytes = vec![];
    said.rewind()?;
    said.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Prints the output of all commands so far, and returns the failure of the last command.
fn ended(
    recipe: &Recipe,
    args: &BenchRunArgs,
    words: &[String],
    said: &File,
    status: ExitStatus,
) -> Failure {
    output::message(&text_of(said).unwrap_or_default());
    let program = words.first().map_or("", String::as_str);
    let hint = format!("see its output above; {}", install_command(args));
    Failure::new(format!("{}: {program} ended with {status}", recipe.name()), hint)
}

/// Creates the document with the result of an application. If the result is a time in seconds, the
/// field `seconds` is the result, which excludes the start of the application. Otherwise it is the
/// run time of the command.
fn document(recipe: &Recipe, args: &BenchRunArgs, outcome: Outcome, used: &Used) -> BenchDocument {
    let is_time = recipe.result_unit == "s";
    let seconds = if is_time { outcome.value } else { used.elapsed.as_secs_f64() };
    let resources = &used.resources;
    let figures = outcome.figures.into_iter().map(|figure| LoopDocument {
        name: figure.name,
        seconds: rounded(seconds),
        rate: rounded(figure.value),
        rate_unit: figure.unit,
    });
    BenchDocument {
        schema: SCHEMA.into(),
        workload: recipe.name().into(),
        footprint_bytes: args.footprint.get(),
        threads: args.threads,
        memory: "its own".into(),
        seconds: rounded(seconds),
        rate: rounded(outcome.value),
        rate_unit: recipe.result_unit.clone(),
        round_seconds: vec![rounded(seconds)],
        checksum: outcome.checksum,
        verified: outcome.is_verified,
        cpu_s: rounded((resources.user + resources.system).as_secs_f64()),
        resident_max_bytes: resources.resident_max,
        major_faults: resources.major_faults,
        loops: figures.collect(),
        ..BenchDocument::default()
    }
}

/// True if the system's Python finds the module `name`. Avoids its import, which may take seconds.
fn is_module_there(name: &str) -> bool {
    let find =
        "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)";
    let mut python = Command::new(SYSTEM_PYTHON);
    let status = python.args(["-c", find, name]).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// True if the program `name` exists. With a slash, `name` is a path; otherwise it is searched for
/// in the folders of `PATH`.
fn is_there(name: &str) -> bool {
    if name.contains('/') {
        return Path::new(name).exists();
    }
    let paths = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&paths).any(|folder| folder.join(name).exists())
}
