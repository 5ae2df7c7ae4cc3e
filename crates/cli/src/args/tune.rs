//! The command line of `interleaf tune`.

use super::{quantity, rate, weights};
use clap::Args;
use interleaf_model::{
    units::{Bandwidth, Percent},
    weights::Weights,
};
use regex_lite::Regex;
use std::{ffi::OsString, path::PathBuf};

/// Finds the best static weights for a command on this machine, in few runs of it: all on the first
/// tier, then as rated bandwidths or curves propose, then where something better may still be; and
/// again, until it is known whether what differs is noise. What has to be set in the kernel for a
/// run is put back after it. Exit status 1: no weights are better than all on the first tier by
/// more than --worth.
///
/// With more than two tiers, those behind the first share the rest as they are proposed to.
///
/// Examples:
///   interleaf tune -- ./solver input.dat
///   interleaf tune --warm-up 1 --runs 12 --worth 1% -o tune.json -- ./solver input.dat
///   interleaf tune --metric 'Triad: +([0-9.]+)' --higher-is-better -- ./stream
///   interleaf tune --weights 3:1,2:1,1:1 --nodes 0,2 -- ./solver input.dat
///   interleaf tune --platform xeon6-cz122 --dry-run -- ./solver input.dat
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct TuneArgs {
    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true
    )]
    pub(crate) command: Vec<OsString>,
    /// Only these weights, and all on the first tier to compare with
    #[arg(long, value_name = "3:1,2:1", value_parser = weights, value_delimiter = ',')]
    pub(crate) weights: Vec<Weights>,
    /// The nodes to spread pages over, the fastest first, as numactl takes them: 0,2 or 0-3,!2
    /// [default: those of the tiers]
    #[arg(long, value_name = "NODES")]
    pub(crate) nodes: Option<String>,
    /// A platform whose curves propose the first weights, by name or as a file [default: what the
    /// firmware rates the nodes at]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) platform: Option<String>,
    /// The most runs, those to warm up left aside
    #[arg(long, value_name = "N", value_parser = runs, default_value = "8")]
    pub(crate) runs: usize,
    /// By how much weights have to be better to count
    #[arg(long, value_name = "PERCENT", value_parser = worth, default_value = "2%")]
    pub(crate) worth: Percent,
    /// Compare a number that the command prints: of the last match of this pattern the first
    /// group [default: the time that the command takes]
    #[arg(long, value_name = "REGEX", value_parser = metric)]
    pub(crate) metric: Option<Regex>,
    /// The number is a rate, and more of it is better
    #[arg(long, requires = "metric")]
    pub(crate) higher_is_better: bool,
    /// Runs beforehand that do not count: they fill caches
    #[arg(long, value_name = "N", value_parser = warm_up, default_value = "0")]
    pub(crate) warm_up: usize,
    /// Highest migration rate, by a kernel without weighted interleaving
    #[arg(long, value_name = "BANDWIDTH", value_parser = rate, default_value = "4GB/s")]
    pub(crate) migration_rate: Bandwidth,
    /// Only say what would be run first, and what would be set for it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Say nothing but the result and what went wrong
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// Print a JSON document (interleaf.tune/1)
    #[arg(long)]
    pub(crate) json: bool,
    /// Record the JSON document in FILE, anew after each run
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Append what the command writes to FILE [default: it goes to stderr]
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

fn runs(text: &str) -> Result<usize, String> {
    let runs = text.parse().ok().filter(|runs| (3..=1000).contains(runs));
    runs.ok_or_else(|| "it is no whole number from 3 to 1000: write one such as 8".into())
}

fn warm_up(text: &str) -> Result<usize, String> {
    let runs = text.parse().ok().filter(|runs| (0..=100).contains(runs));
    runs.ok_or_else(|| "it is no whole number from 0 to 100: write one such as 1".into())
}

fn worth(text: &str) -> Result<Percent, String> {
    let worth: Percent = quantity(text, "2%")?;
    if (0.001..=0.5).contains(&worth.part()) {
        return Ok(worth);
    }
    Err(format!("{text} is not between 0.1% and 50%: write a percentage such as 2%"))
}

fn metric(text: &str) -> Result<Regex, String> {
    let hint = "write a regular expression such as 'Triad: +([0-9.]+)'";
    Regex::new(text).map_err(|why| format!("it is no regular expression ({why}): {hint}"))
}
