//! The command line of `interleaf run`.

use super::{pid, rate, time, weights};
use clap::{ArgGroup, Args};
use interleaf_model::{
    units::{Bandwidth, Time},
    weights::Weights,
};
use std::{ffi::OsString, path::PathBuf};

/// The hint of error messages about missing options.
pub(super) const EXAMPLE: &str =
    "write for example interleaf run --weights 3:1 -- ./solver input.dat";

/// Runs a command and its descendants with their pages spread over the memory nodes, or spreads the
/// pages of a running program. Kernel settings are restored when the command ends, however it ends.
/// Reports memory that is not placed as requested, and the reason. Exits with the status of the
/// command, or with 128 plus the number of its signal. Signals go to the command; signals that are
/// ignored at the start, as under nohup, stay ignored.
///
/// With --policy, pages are migrated during the run, as by `interleaf balance`, but only those of
/// the command and its descendants.
///
/// Weights are for the tiers of the machine, the fastest first, or for its nodes
/// (`interleaf show`).
///
/// Examples:
///   interleaf run --weights 3:1 -- ./solver input.dat
///   interleaf run --weights 3:1 --nodes 0,2 --dry-run -- ./solver input.dat
///   mpirun -np 64 interleaf run --weights 3:1 -- ./solver     (mpirun resets the policy)
///   interleaf run --weights 60:40 --pid 4242
///   interleaf run --policy dmi -- ./solver input.dat
///   interleaf run --restore
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(group = ArgGroup::new("target").required(true).args(["command", "pid", "restore"]))]
pub(crate) struct RunArgs {
    /// Pages on each tier, or each node, in one round
    #[arg(long, value_name = "3:1", value_parser = weights,
        required_unless_present_any = ["restore", "policy"])]
    pub(crate) weights: Option<Weights>,
    /// The nodes that the weights are for, in their order, as numactl takes them: 0,2 or 0-3,!2 or
    /// +0-1 or all [default: those of the tiers]
    #[arg(long, value_name = "NODES", requires = "weights")]
    pub(crate) nodes: Option<String>,
    /// Policy that places the pages, in place of weights
    #[arg(long, value_name = "POLICY", value_parser = super::policy_name(),
        conflicts_with_all = ["weights", "pid"])]
    pub(crate) policy: Option<String>,
    /// With --policy, read bandwidth from a socket that programs write to, in place of counters
    #[arg(long, value_name = "SOCKET", requires = "policy", conflicts_with = "weights")]
    pub(crate) feed: Option<PathBuf>,
    /// With --policy, the period of decisions [default: 6s]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "policy",
        conflicts_with = "weights")]
    pub(crate) period: Option<Time>,
    /// With --policy, the method of page migration [default: the best available]
    #[arg(long, value_name = "auto|vaddr|pages", requires = "policy", conflicts_with = "weights")]
    pub(crate) way: Option<String>,
    /// With --policy, a platform whose curves the policy uses, by name or as a file [default: the
    /// firmware's ratings of the nodes]
    #[arg(long, value_name = "NAME|FILE", requires = "policy", conflicts_with = "weights")]
    pub(crate) platform: Option<String>,
    /// With --policy, switch off other features that move pages or use DAMON during the run
    #[arg(long, requires = "policy", conflicts_with = "weights")]
    pub(crate) stop_rivals: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
    /// A running process: its pages are migrated, and those of its descendants
    #[arg(long, value_name = "PID", value_parser = pid, value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,
    /// Highest migration rate
    #[arg(long, value_name = "BANDWIDTH", value_parser = rate, default_value = "4GB/s")]
    pub(crate) migration_rate: Bandwidth,
    /// Restore the settings that a killed process has left changed, and do nothing else
    #[arg(long, conflicts_with_all = ["weights", "policy", "output"])]
    pub(crate) restore: bool,
    /// Change nothing; print the planned actions, and the settings that would be restored
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print only errors
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// With --pid, --dry-run or --restore, print a JSON document (interleaf.run/1)
    #[arg(long)]
    pub(crate) json: bool,
    /// Record the JSON document in FILE
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE.html", conflicts_with = "restore")]
    pub(crate) report: Option<PathBuf>,
}
