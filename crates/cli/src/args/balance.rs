//! The command line of `interleaf balance`.

use super::{policy_name, threads, time};
use clap::Args;
use interleaf_model::units::Time;
use std::{net::SocketAddr, path::PathBuf};

/// Options that exclude `--monitor`.
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

/// Observes how much bandwidth the tiers give, decides where pages should go, and moves them, until
/// it is stopped; then what it changed in the kernel is put back. Each period is a line: what was
/// counted, the target and in brackets what is reached, and why.
///
/// Examples:
///   interleaf balance --example-config > balance.toml
///   interleaf balance --config balance.toml --dry-run    what would be set up and written
///   interleaf balance --config balance.toml --advise     what would be gained, and what moved
///   interleaf balance --platform gnr120-cz122            on a machine that one need not own
///   interleaf balance --policy guided --process solver
///   interleaf balance --monitor                          watch the one that runs
///   interleaf balance --restore                          after a kill
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct BalanceArgs {
    /// A configuration [default: the one that --example-config prints]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print a configuration with every key, its default and what it is for
    #[arg(long)]
    pub(crate) example_config: bool,
    /// Policy that places the pages, in place of the configured one
    #[arg(long, value_name = "POLICY", value_parser = policy_name())]
    pub(crate) policy: Option<String>,
    /// Steer the processes of this name, in place of what the configuration says
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) process: Vec<String>,
    /// Read bandwidth from a socket that programs write to, in place of counters
    #[arg(long, value_name = "SOCKET")]
    pub(crate) feed: Option<PathBuf>,
    /// Read bandwidth from a recording (docs/counters.md), in place of counters
    #[arg(long, value_name = "FILE", conflicts_with = "feed")]
    pub(crate) replay: Option<PathBuf>,
    /// The platform whose curves the policy and --advise believe, by name or as a file, in place of
    /// what the configuration says [default: what the firmware rates the nodes at]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) curves: Option<String>,
    /// Simulate this platform, by name or as a file, and do it there: this machine is left alone
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = [
        "root", "process", "feed", "replay", "curves", "way", "stop_rivals", "dry_run", "advise",
        "restore",
    ])]
    pub(crate) platform: Option<String>,
    /// With --platform, what runs there [default: cloverleaf]
    #[arg(long, value_name = "NAME", requires = "platform")]
    pub(crate) workload: Option<String>,
    /// With --platform, its threads [default: the most that its runs had, at most the cores of a
    /// socket]
    #[arg(long, value_name = "N", value_parser = threads, requires = "platform")]
    pub(crate) threads: Option<u32>,
    /// The span after which the policy decides, in place of what the configuration says
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) period: Option<Time>,
    /// Way in which pages move, in place of the configured one
    #[arg(long, value_name = "auto|vaddr|paddr|quota|pages")]
    pub(crate) way: Option<String>,
    /// Switch off what else moves pages or holds DAMON while it runs
    #[arg(long)]
    pub(crate) stop_rivals: bool,
    /// Stop after a while [default: never; with --advise when it knows, with --platform 300s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) duration: Option<Time>,
    /// Only say what would be set up, and print every write
    #[arg(long, conflicts_with = "advise")]
    pub(crate) dry_run: bool,
    /// Observe, and say what would be done, what that gains and how much would move, but change
    /// nothing
    #[arg(long)]
    pub(crate) advise: bool,
    /// Serve metrics for Prometheus there, in place of what the configuration says
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Watch one that runs, at its socket: live on a terminal, a line for each period elsewhere
    #[arg(long, value_name = "SOCKET", require_equals = true, conflicts_with_all = ALONE)]
    pub(crate) monitor: Option<Option<PathBuf>>,
    /// Put back what a process that was killed has left, and do nothing else
    #[arg(long, conflicts_with = "advise")]
    pub(crate) restore: bool,
    /// Print a JSON document a period (interleaf.balance/1), one a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Record the JSON documents in FILE, behind what is there
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
