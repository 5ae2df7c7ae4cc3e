//! `capture SERIES TOPOLOGY FOLDER`: boots a kernel of the series on a topology of this crate, runs
//! `interleaf doctor --capture` in the guest, and saves the captured machine as a new folder for
//! `interleaf --root`.
//!
//! `crates/vm/captures` creates all captured machines of `tests/machines/` with this program.

use std::{
    env,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use interleaf_vm::{
    Boot, Outcome, Series, Topology, boot, capture,
    outcome::{Record, StepRecord},
    program::{self, StaticPrograms},
};

/// The folder in the guest in which `interleaf doctor --capture` saves the captured machine.
const FOLDER: &str = "/tmp/capture";

/// A problem, and the remedy for it.
struct Failure(String, String);

impl Failure {
    fn new(problem: impl ToString, hint: impl ToString) -> Self {
        Self(problem.to_string(), hint.to_string())
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match run(&args) {
        Ok(done) => {
            // A failure to write to stdout cannot be reported anywhere.
            let _ = writeln!(io::stdout(), "{done}");
            ExitCode::SUCCESS
        }
        Err(Failure(problem, hint)) => {
            let _ = writeln!(io::stderr(), "error: {problem}\n\nhint: {hint}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String]) -> Result<String, Failure> {
    let [series, topology, target] = args else {
        let problem = format!("{} arguments, where there are three", args.len());
        return Err(Failure::new(problem, "write capture 6.12 three-tiers FOLDER"));
    };
    let which = "kernels are those of `crates/vm/kernels`: 6.1, 6.12, 6.17, newest";
    let series: Series = series.parse().map_err(|why| Failure::new(why, which))?;
    let files = "crates/vm/topologies/ has a file of each";
    let machine = Topology::named(topology).map_err(|why| Failure::new(why, files))?;
    let target = Path::new(target);
    // Checks `target` before the boot, because the boot takes minutes. After the boot,
    // `capture::unpack` also fails if the folder exists.
    if target.exists() {
        return Err(Failure::new(
            format!("{} is there already", target.display()),
            "name a folder that is not there yet, or remove it",
        ));
    }
    if let Some(outcome) = boot::missing(series) {
        return Err(Failure::new(outcome, "docs/vm-tests.md says how to get kernels and QEMU"));
    }
    let record = captured(series, &machine)?;
    let lines = step(&record, &format!("dump {FOLDER}"))?.output.iter();
    let lines: Vec<String> = lines.filter(|line| !of_this_boot(line)).cloned().collect();
    capture::unpack(&lines, target).map_err(|why| {
        let problem = format!("{}: {why}", target.display());
        Failure::new(problem, "name a folder in one that is there and may be written to")
    })?;
    let release = record.release.as_deref().unwrap_or("unknown");
    Ok(format!("Linux {release} on {topology} is in {}", target.display()))
}

/// Returns true for lines of `/proc/cpuinfo` with the speed of the emulated processor. The speed
/// differs from boot to boot, and no reader of a captured machine uses it.
fn of_this_boot(line: &str) -> bool {
    ["cpu MHz", "bogomips"].iter().any(|key| {
        let rest = line.strip_prefix("proc/cpuinfo: ");
        rest.is_some_and(|rest| rest.starts_with(key))
    })
}

/// Boots a guest that captures its machine and prints the captured files.
fn captured(series: Series, machine: &Topology) -> Result<Record, Failure> {
    let not_built = |why: io::Error| {
        Failure::new(why, "a static program needs libc.a: apt-get install libc6-dev")
    };
    let folder = program::folder().map_err(not_built)?;
    let StaticPrograms { guest, interleaf } = program::build(&folder).map_err(not_built)?;
    let steps = format!("run interleaf doctor --capture {FOLDER}\ndump {FOLDER}\n");
    let programs = vec![("interleaf", interleaf.as_path())];
    let boot = Boot { programs, ..Boot::new(series, machine, &guest, &steps) };
    let again = "try it again: an emulated kernel crashes now and then";
    match boot.run().map_err(|why| Failure::new(why, "is the disk full?"))? {
        Outcome::Completed(record) => {
            step(&record, &format!("run interleaf doctor --capture {FOLDER}"))?;
            Ok(record)
        }
        outcome => Err(Failure::new(outcome, again)),
    }
}

/// Returns the report of the step `text`. A step that failed, or that the guest did not begin, is
/// an error.
fn step<'a>(record: &'a Record, text: &str) -> Result<&'a StepRecord, Failure> {
    let taken = record.step(text).filter(|taken| taken.succeeded());
    taken.ok_or_else(|| {
        Failure::new(
            format!("in the guest: {text} failed\n{record}"),
            "correct the reported \
             problem first",
        )
    })
}
