//! The command line of `interleaf compare`.

use super::{OutputArgs, configuration::configuration, percent, quantity, seed, size, tune};
use clap::{Args, ValueEnum};
use interleaf_launch::compare::Configuration;
use interleaf_model::units::{Bytes, Percent, Time};
use regex_lite::Regex;
use std::{ffi::OsString, path::PathBuf};

/// The hint of error messages about missing options.
pub(super) const EXAMPLE: &str = "write for example interleaf compare before.json after.json, or \
     interleaf compare --a plain --b weights=3:1 -- ./solver input.dat";

/// Compares two records, on any machine; or configurations of a command, by runs on this machine.
///
/// With two records, prints the common points, those that differ by more than the noise of both,
/// and differences of machines and settings. Exit status 1: with --same, good points differ by more
/// than noise; 2: no point can be compared.
///
/// With --a and --b, runs the command under each configuration in turn, in rounds whose order
/// cancels a drift of the machine, until it is certain which configuration is faster, or that the
/// difference is below --min-difference. Intervals hold over all looks at the data. Settings are
/// restored after each run. Ctrl-C ends the comparison, and the rounds so far are reported.
///
/// A CONFIG is `plain`, or a list of settings:
///   weights=3:1 (nodes=0,2)         as `interleaf run --weights`
///   policy=guided                   as `interleaf run --policy`
///   dram=1GiB or 50% (store=/nvme)  as `interleaf extend`
///   threads=4                       OMP_NUM_THREADS and others; --threads of a workload
///   huge-pages=always|never         transparent huge pages
///   env:NAME=VALUE                  a variable of the environment
///   wrapper=taskset -c 0,2          a program that starts the command
///   name=LABEL                      the name in results
///
/// Examples:
///   interleaf compare before.json after.json
///   interleaf compare before.json after.json --same     in a script: exit status 1 on a difference
///   interleaf compare --a plain --b weights=3:1 -- ./solver input.dat
///   interleaf compare --a threads=1 --b threads=2 --c threads=4 --workload stream,fft
///   interleaf compare --a plain --b dram=1GiB,store=/nvme --time-limit 10min -- ./solver
///   interleaf compare --a plain --b huge-pages=never --metric 'Triad: +([0-9.]+)' \
///     --higher-is-better -o runs.json --report runs.html -- ./stream
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompareArgs {
    /// The first record, which `interleaf measure -o` wrote
    #[arg(value_name = "A", required_unless_present = "a")]
    pub(crate) first: Option<PathBuf>,
    /// The second record
    #[arg(value_name = "B", required_unless_present = "a")]
    pub(crate) second: Option<PathBuf>,
    /// Exit with status 1 on a difference beyond noise
    #[arg(long)]
    pub(crate) same: bool,
    #[command(flatten)]
    pub(crate) configurations: ConfigurationArgs,
    #[command(flatten)]
    pub(crate) runs: CompareRunsArgs,
    /// The command and its arguments, after `--`
    #[arg(value_name = "COMMAND", last = true, requires = "a")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Print Markdown in place of tables
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub(crate) markdown: bool,
}

/// The configurations.
#[derive(Debug, Args)]
pub(crate) struct ConfigurationArgs {
    /// The first configuration, with which the others are compared
    #[arg(long, value_name = "CONFIG", value_parser = configuration, requires = "b",
        conflicts_with_all = ["first", "second"])]
    pub(crate) a: Option<Configuration>,
    /// The second configuration
    #[arg(long, value_name = "CONFIG", value_parser = configuration, requires = "a")]
    pub(crate) b: Option<Configuration>,
    /// A third configuration; --d to --f are further ones
    #[arg(long, value_name = "CONFIG", value_parser = configuration, requires = "b")]
    pub(crate) c: Option<Configuration>,
    #[arg(long, value_name = "CONFIG", value_parser = configuration, requires = "c", hide = true)]
    pub(crate) d: Option<Configuration>,
    #[arg(long, value_name = "CONFIG", value_parser = configuration, requires = "d", hide = true)]
    pub(crate) e: Option<Configuration>,
    #[arg(long, value_name = "CONFIG", value_parser = configuration, requires = "e", hide = true)]
    pub(crate) f: Option<Configuration>,
}

impl ConfigurationArgs {
    /// The configurations of the options `--a` to `--f`, in this order.
    pub(crate) fn all(&self) -> Vec<Configuration> {
        let all = [&self.a, &self.b, &self.c, &self.d, &self.e, &self.f];
        all.into_iter().flatten().cloned().collect()
    }
}

/// How configurations are run.
#[derive(Debug, Args)]
pub(crate) struct CompareRunsArgs {
    /// In place of a command, workloads and recipes of `interleaf bench`, by their own metrics
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "a",
        conflicts_with_all = ["command", "metric"])]
    pub(crate) workload: Vec<String>,
    /// Footprint of the workloads [default: 512MiB]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "workload")]
    pub(crate) footprint: Option<Bytes>,
    /// Compare a number that the command prints: the first group of the last match of this pattern
    /// [default: the wall time]
    #[arg(long, value_name = "REGEX", value_parser = tune::metric, requires = "a")]
    pub(crate) metric: Option<Regex>,
    /// A higher number is better
    #[arg(long, requires = "metric")]
    pub(crate) higher_is_better: bool,
    /// Compare this quantity of the command [default: wall]
    #[arg(long, value_name = "QUANTITY", value_enum, requires = "a",
        conflicts_with_all = ["metric", "workload"])]
    pub(crate) quantity: Option<QuantityChoice>,
    /// Exactly this number of rounds; each runs every configuration once
    #[arg(long, value_name = "N", value_parser = rounds, requires = "a",
        conflicts_with = "max_rounds")]
    pub(crate) rounds: Option<usize>,
    /// Maximum number of rounds [default: 40]; the comparison ends after 6, 10, 20, ... rounds if
    /// the answer is certain
    #[arg(long, value_name = "N", value_parser = rounds, requires = "a")]
    pub(crate) max_rounds: Option<usize>,
    /// Start no round after this time; several workloads share it evenly
    #[arg(long, value_name = "TIME", value_parser = time_limit, requires = "a")]
    pub(crate) time_limit: Option<Time>,
    /// Probability that an interval covers the true ratio at all looks [default: 95%]
    #[arg(long, value_name = "PERCENT", requires = "a",
        value_parser = |text: &str| percent(text, [50.0, 99.9], "95%"))]
    pub(crate) confidence: Option<Percent>,
    /// Difference below which configurations count as equal [default: 2%]
    #[arg(long, value_name = "PERCENT", requires = "a",
        value_parser = |text: &str| percent(text, [0.01, 50.0], "2%"))]
    pub(crate) min_difference: Option<Percent>,
    /// Runs of each configuration before the first round [default: 1]
    #[arg(long, alias = "warmup", value_name = "N", value_parser = tune::warm_up, requires = "a")]
    pub(crate) warm_up: Option<usize>,
    /// Seed of the order of the runs, and of the intervals [default: 1]
    #[arg(long, value_name = "N", value_parser = seed, requires = "a")]
    pub(crate) seed: Option<u64>,
    /// Run nothing; print the commands
    #[arg(long, requires = "a")]
    pub(crate) dry_run: bool,
    /// Print only the result and errors
    #[arg(long, short = 'q', requires = "a")]
    pub(crate) quiet: bool,
    /// Append the output of the commands to FILE [default: stderr]
    #[arg(long, value_name = "FILE", requires = "a")]
    pub(crate) log: Option<PathBuf>,
    /// Also write the result as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

/// A quantity of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QuantityChoice {
    /// Time from start to end
    Wall,
    /// CPU time of all processes: less noise where other programs run
    Cpu,
    /// Peak resident memory of the largest process
    Memory,
}

fn rounds(text: &str) -> Result<usize, String> {
    let rounds = text.parse().ok().filter(|rounds| (3..=1000).contains(rounds));
    rounds.ok_or_else(|| "it is not a whole number from 3 to 1000: write one such as 10".into())
}

fn time_limit(text: &str) -> Result<Time, String> {
    quantity(text, "600s")
}
