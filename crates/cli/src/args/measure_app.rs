//! The command line of `interleaf measure app`.

use super::{quantity, threads};
use clap::Args;
use interleaf_model::{format::toml_text::check_line, units::Time};
use std::{ffi::OsString, path::PathBuf};

/// The hint of the error message `problem` about a missing option or command.
pub(super) fn hint(problem: &str) -> &'static str {
    match problem.contains("--demand") {
        true => "add --demand FILE, which it is for",
        false => "write for example interleaf measure app -- ./solver input.dat",
    }
}

/// Minimum and maximum interval between two samples of a command, s. Shorter intervals would slow
/// the command down.
const EVERY_S: [f64; 2] = [0.01, 60.0];

/// Parses the name of a workload.
///
/// # Errors
/// If the name could not be read back from a demand file.
fn name(text: &str) -> Result<String, String> {
    check_line(text).map_err(|(problem, hint)| format!("{problem}: {hint}"))?;
    Ok(text.into())
}

/// Records the machine while an application runs
///
/// Runs a command and reports the use of the machine during the run: bandwidth of DRAM and CXL over
/// time, read share and latency, pipeline slots of the cores (top-down analysis), energy, placement
/// of its pages, storage, memory and CPUs. Values that cannot be measured on this machine or by
/// this user are "not available", with the reason. No setting is changed. Exits with the status of
/// the command, or with 128 plus the number of its signal. Ctrl-C goes to the command; the samples
/// up to then are reported.
///
/// With --demand it writes a file that `interleaf predict --demand FILE` reads: profile on one
/// machine, predict for another.
///
/// Bandwidth, latency and energy are those of the whole machine: run nothing else. CPU time, slots,
/// memory and storage are those of the command and its descendants.
///
/// Examples:
///   interleaf measure app -- ./solver input.dat
///   interleaf measure app -o run.json -- ./solver     (then interleaf report run.json -o run.html)
///   interleaf measure app --dry-run -- ./solver       (values that can be measured here)
///   interleaf measure app --demand mine.toml -- numactl --membind 0 ./solver
///   interleaf predict --platform xeon6-cz122 --demand mine.toml
///   interleaf measure app -- interleaf run --weights 3:1 -- ./solver
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct AppArgs {
    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required = true)]
    pub(crate) command: Vec<OsString>,
    /// Time between two samples, 10ms to 60s
    #[arg(long, value_name = "TIME", value_parser = every, default_value = "200ms")]
    pub(crate) every: Time,
    /// Write the command's demand for memory to FILE, for `predict` and `simulate`; assumes that
    /// its pages were on the first tier
    #[arg(long, value_name = "FILE")]
    pub(crate) demand: Option<PathBuf>,
    /// With --demand, the number of working threads [default: the most that ran at the same time in
    /// a sample, at most the number of CPUs]
    #[arg(long, value_name = "N", value_parser = threads, requires = "demand")]
    pub(crate) threads: Option<u32>,
    /// With --demand, the platform of this machine, by name or as a file [default: the platform of
    /// a prediction is assumed to be this machine]
    #[arg(long, value_name = "NAME|FILE", requires = "demand")]
    pub(crate) platform: Option<String>,
    /// With --demand, the workload's name [default: that of the program]
    #[arg(long, value_name = "NAME", requires = "demand", value_parser = name)]
    pub(crate) name: Option<String>,
    /// Read bandwidth from a socket that programs write to, in place of counters
    #[arg(long, value_name = "SOCKET")]
    pub(crate) feed: Option<PathBuf>,
    /// Read bandwidth from a recording (docs/counters.md), one reading per sample, in place of
    /// counters
    #[arg(long, value_name = "FILE", conflicts_with = "feed")]
    pub(crate) replay: Option<PathBuf>,
    /// Record the counters in FILE, for --replay
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,
    /// Run nothing; print the values that could be measured, and why others could not
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print only errors
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// Print a JSON document (interleaf.measure/1); the command's output then goes to stderr
    #[arg(long)]
    pub(crate) json: bool,
    /// Record the JSON document in FILE, rewritten every few seconds
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

fn every(text: &str) -> Result<Time, String> {
    let time: Time = quantity(text, "200ms")?;
    let [least, most] = EVERY_S;
    if (least..=most).contains(&time.seconds()) {
        return Ok(time);
    }
    Err(format!("{text} is not between 10ms and 60s: write a time such as 200ms"))
}
