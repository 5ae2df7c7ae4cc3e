//! The command line of `interleaf balance`.

use super::{PolicyParser, threads, time};
use clap::Args;
use interleaf_model::units::Time;
use std::{net::SocketAddr, path::PathBuf};

/// Options that cannot be combined with `--monitor`.
const ALONE: [&str; 16] = [
    "config",
    "restore",
    "dry_run",
    "advise",
    "policy",
    "metrics",
    "output",
    "process",
    "feed",
    "replay",
    "curves",
    "platform",
    "period",
    "way",
    "stop_rivals",
    "duration",
];

/// Measures the bandwidth of the tiers, decides on the placement of pages, and migrates them, until
/// it is stopped; then all changed kernel settings are restored. Prints a line for each period:
/// counters, the target placement, the actual placement in brackets, and the reason.
///
/// Examples:
///   interleaf balance --example-config > balance.toml
///   interleaf balance --config balance.toml --dry-run    print the setup and every write
///   interleaf balance --config balance.toml --advise     print the gain and the memory to migrate
///   interleaf balance --platform gnr120-cz122            on a simulated machine
///   interleaf balance --policy guided --process solver
///   interleaf balance --monitor                          watch the running daemon
///   interleaf balance --restore                          restore settings after a kill
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct BalanceArgs {
    /// A configuration file [default: the configuration that --example-config prints]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print a configuration with every key, its default and its purpose
    #[arg(long)]
    pub(crate) example_config: bool,
    /// Policy that places the pages, in place of the configured one; exec:COMMAND needs --advise
    #[arg(long, value_name = "POLICY", value_parser = PolicyParser)]
    pub(crate) policy: Option<String>,
    /// Steer the processes of this name, in place of the configured ones
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) process: Vec<String>,
    /// Read bandwidth from a socket that programs write to, in place of counters
    #[arg(long, value_name = "SOCKET")]
    pub(crate) feed: Option<PathBuf>,
    /// Read bandwidth from a recording (docs/counters.md), in place of counters
    #[arg(long, value_name = "FILE", conflicts_with = "feed")]
    pub(crate) replay: Option<PathBuf>,
    /// The platform whose curves the policy and --advise use, by name or as a file, in place of the
    /// configured one [default: the firmware's ratings of the nodes]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) curves: Option<String>,
    /// Run on a simulation of this platform, by name or as a file, and change nothing on this
    /// machine
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = [
        "root", "process", "feed", "replay", "curves", "way", "stop_rivals", "dry_run", "advise",
        "restore",
    ])]
    pub(crate) platform: Option<String>,
    /// With --platform, the simulated workload [default: cloverleaf]
    #[arg(long, value_name = "NAME", requires = "platform")]
    pub(crate) workload: Option<String>,
    /// With --platform, the number of threads [default: that of the workload's largest run, at most
    /// the cores of a socket]
    #[arg(long, value_name = "N", value_parser = threads, requires = "platform")]
    pub(crate) threads: Option<u32>,
    /// The period of the policy's decisions, in place of the configured one
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) period: Option<Time>,
    /// Method of page migration, in place of the configured one
    #[arg(long, value_name = "auto|vaddr|paddr|quota|pages")]
    pub(crate) way: Option<String>,
    /// While running, switch off other features that move pages or use DAMON
    #[arg(long)]
    pub(crate) stop_rivals: bool,
    /// Stop after this time [default: never; with --advise when the advice is certain, with
    /// --platform 300s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) duration: Option<Time>,
    /// Change nothing; print the setup and every write
    #[arg(long, conflicts_with = "advise")]
    pub(crate) dry_run: bool,
    /// Change nothing; measure, and print the proposed placement, its gain, and the memory to
    /// migrate
    #[arg(long)]
    pub(crate) advise: bool,
    /// Serve metrics for Prometheus at this address, in place of the configured one
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Watch a running `interleaf balance` through its socket: live on a terminal, else a line for
    /// each period
    #[arg(long, value_name = "SOCKET", require_equals = true, conflicts_with_all = ALONE)]
    pub(crate) monitor: Option<Option<PathBuf>>,
    /// Restore the settings that a killed process has left changed, and do nothing else
    #[arg(long, conflicts_with = "advise")]
    pub(crate) restore: bool,
    /// Print a JSON document (interleaf.balance/1) for each period, each on a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Append the JSON documents to FILE
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
