//! The command line of `interleaf tune`.

use super::{percent, rate, weights};
use clap::Args;
use interleaf_model::{
    units::{Bandwidth, Percent},
    weights::Weights,
};
use regex_lite::Regex;
use std::{ffi::OsString, path::PathBuf};

/// Finds the best static weights for a command on this machine in few runs: with all pages on the
/// first tier, then with weights proposed by rated bandwidths or curves, then with weights that may
/// be better still. Runs are repeated until differences can be told from noise. Kernel settings are
/// restored after each run. Exit status 1: no weights are better than all pages on the first tier
/// by more than --min-gain.
///
/// With more than two tiers, the tiers after the first divide the rest in the proposed ratio.
///
/// Examples:
///   interleaf tune -- ./solver input.dat
///   interleaf tune --warm-up 1 --runs 12 --min-gain 1% -o tune.json -- ./solver input.dat
///   interleaf tune --metric 'Triad: +([0-9.]+)' --higher-is-better -- ./stream
///   interleaf tune --weights 3:1,2:1,1:1 --nodes 0,2 -- ./solver input.dat
///   interleaf tune --platform xeon6-cz122 --dry-run -- ./solver input.dat
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct TuneArgs {
    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required = true)]
    pub(crate) command: Vec<OsString>,
    /// Run only these weights, and all pages on the first tier for comparison
    #[arg(long, value_name = "3:1,2:1", value_parser = weights, value_delimiter = ',')]
    pub(crate) weights: Vec<Weights>,
    /// The nodes to spread pages over, the fastest first, as numactl takes them: 0,2 or 0-3,!2
    /// [default: those of the tiers]
    #[arg(long, value_name = "NODES")]
    pub(crate) nodes: Option<String>,
    /// A platform whose curves propose the first weights, by name or as a file [default: the
    /// firmware's ratings of the nodes]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) platform: Option<String>,
    /// Maximum number of runs, without warm-up runs
    #[arg(long, value_name = "N", value_parser = runs, default_value = "8")]
    pub(crate) runs: usize,
    /// Smallest improvement that makes weights worthwhile
    #[arg(
        long,
        value_name = "PERCENT",
        alias = "worth",
        value_parser = min_gain,
        default_value = "2%"
    )]
    pub(crate) min_gain: Percent,
    /// Compare a number that the command prints: the first group of the last match of this pattern
    /// [default: the runtime of the command]
    #[arg(long, value_name = "REGEX", value_parser = metric)]
    pub(crate) metric: Option<Regex>,
    /// A higher number is better
    #[arg(long, requires = "metric")]
    pub(crate) higher_is_better: bool,
    /// Warm-up runs, which are not measured: they fill caches
    #[arg(long, value_name = "N", value_parser = warm_up, default_value = "0")]
    pub(crate) warm_up: usize,
    /// Highest migration rate, on a kernel without weighted interleaving
    #[arg(long, value_name = "BANDWIDTH", value_parser = rate, default_value = "4GB/s")]
    pub(crate) migration_rate: Bandwidth,
    /// Change nothing; print the first run and its kernel settings
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print only the result and errors
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// Print a JSON document (interleaf.tune/1)
    #[arg(long)]
    pub(crate) json: bool,
    /// Record the JSON document in FILE, rewritten after each run
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Append the output of the command to FILE [default: stderr]
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

fn runs(text: &str) -> Result<usize, String> {
    let runs = text.parse().ok().filter(|runs| (3..=1000).contains(runs));
    runs.ok_or_else(|| "it is not a whole number from 3 to 1000: write one such as 8".into())
}

pub(super) fn warm_up(text: &str) -> Result<usize, String> {
    let runs = text.parse().ok().filter(|runs| (0..=100).contains(runs));
    runs.ok_or_else(|| "it is not a whole number from 0 to 100: write one such as 1".into())
}

fn min_gain(text: &str) -> Result<Percent, String> {
    percent(text, [0.1, 50.0], "2%")
}

pub(super) fn metric(text: &str) -> Result<Regex, String> {
    let hint = "write a regular expression such as 'Triad: +([0-9.]+)'";
    Regex::new(text).map_err(|why| format!("it is not a regular expression ({why}): {hint}"))
}
