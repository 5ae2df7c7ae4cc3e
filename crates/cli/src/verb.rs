//! The verbs.

mod balance;
mod bench;
mod compare;
mod doctor;
mod extend;
mod measure;
mod placed;
mod predict;
mod report;

mod reproduce;
mod restore;
mod run;
mod show;
mod simulate;
mod terminal;
mod tune;

pub(crate) use bench::{Ended as BenchEnded, PATTERNS, WAYS};
pub(crate) use placed::Ended;

use crate::{
    args::{Cli, OutputArgs, ShowArgs, Simulate, Verb},
    document,
    failure::Failure,
    output,
};
use interleaf_linux::root::{Root, RootError};
use serde::Serialize;
use std::{path::Path, process::ExitCode};

/// Does what the command line says.
pub(crate) fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let root = cli.root.as_deref();
    let done = match cli.verb {
        Some(Verb::Run(args)) => return run::run(&args, root),
        Some(Verb::Balance(args)) => return balance::start(&args, root),
        Some(Verb::Extend(args)) => return extend::run(&args, root),
        Some(Verb::Tune(args)) => return tune::run(&args, root),
        Some(Verb::Measure(args)) => return measure::run(&args, root),
        Some(Verb::Bench(bench)) => return bench::run(&bench),
        Some(Verb::Compare(args)) => return compare::run(&args),
        None => show::run(&ShowArgs::default(), root),
        Some(Verb::Show(args)) => show::run(&args, root),
        Some(Verb::Doctor(args)) => doctor::run(&args, root),
        Some(Verb::Predict(args)) => predict::run(&args),
        Some(Verb::Simulate(Simulate::Machine(args))) => simulate::machine(&args),
        Some(Verb::Simulate(Simulate::Dimm(args))) => simulate::dimm(&args),
        Some(Verb::Reproduce(args)) => reproduce::run(&args),
        Some(Verb::Report(args)) => report::run(&args),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Makes sure that what a verb makes can be written, before long work begins.
fn check_targets(options: &OutputArgs, report: Option<&Path>) -> Result<(), Failure> {
    output::check_writable(options.output.as_deref())?;
    output::check_writable(report)?;
    let (problem, hint) = match report {
        Some(report) if report == Path::new("-") => (
            "--report -: a page would follow what is printed on stdout".to_string(),
            "name a file, such as --report page.html",
        ),
        Some(report) if Some(report) == options.output.as_deref() => (
            format!("--report would overwrite {}, which -o writes", report.display()),
            "name two files: the document is JSON, the report HTML",
        ),
        Some(report) if !is_page(report) => (
            format!("--report {}: a report is a page of HTML", report.display()),
            "end the name with .html; `interleaf report` makes other formats of what -o records",
        ),
        _ => return Ok(()),
    };
    Err(Failure::new(problem, hint))
}

/// Whether a page of HTML can have this name: it ends with .html or .htm, or has no ending.
fn is_page(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    ending.is_none_or(|ending| ending == "html" || ending == "htm")
}

/// The root below which a machine is read: a captured one, or that of this machine.
fn root(captured: Option<&Path>) -> Result<Root, Failure> {
    let Some(folder) = captured else { return Ok(Root::live()) };
    let root = Root::captured(folder);
    // The second is all that a kernel without NUMA says of its memory.
    if root.has("/sys/devices/system/node") || root.has("/proc/meminfo") {
        return Ok(root);
    }
    Err(Failure::new(
        format!(
            "{}: there is no sys/devices/system/node in it, nor proc/meminfo",
            folder.display()
        ),
        "name a folder that `interleaf doctor --capture DIR` made",
    ))
}

fn unread(why: RootError) -> Failure {
    let hint = if why.is_permission() {
        "run it as root, or read a captured machine with --root DIR"
    } else if why.is_refused() {
        "capture the machine again: interleaf doctor --capture DIR"
    } else {
        "report it, with what `interleaf doctor --capture DIR` saves"
    };
    Failure::new(why.to_string(), hint)
}

/// Records and prints a document as the options of the verb say.
fn give(
    options: &OutputArgs,
    document: &impl Serialize,
    csv: impl FnOnce() -> String,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let json = document::json(document)?;
    if let Some(target) = &options.output {
        output::file(target, &json)?;
        if target.as_os_str() == "-" {
            return Ok(());
        }
    }
    if options.json {
        output::data(&json)
    } else if options.csv {
        output::data(&csv())
    } else {
        output::data(&text())
    }
}
