//! The command line of `interleaf plan`.

use super::OutputArgs;
use clap::{ArgGroup, Args, ValueEnum};
use interleaf_job::option::{mix, size, threads, vary};
use interleaf_model::{mix::Mix, units::Bytes};
use interleaf_record::plan::Goal;
use std::path::PathBuf;

/// Compares configurations of a server for one demand or several, without the hardware: speed with
/// its interval, bandwidth, latency, power, energy, cost, capacity, the limit, the Pareto fronts of
/// speed against cost and energy, a recommendation, and the assumed figures that would change it.
///
/// `predict` answers for one platform, `plan` across platforms; `compare` measures.
///
/// Examples:
///   interleaf plan --demand hpcg
///   interleaf plan --demand hpcg=60%,cloverleaf=40%
///   interleaf plan --demand lbm --configuration rdimm-6400,mrdimm-8800 --goal energy
///   interleaf plan --demand mine.toml --footprint 1TiB --prices prices.toml --report plan.html
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(group = ArgGroup::new("planned").required(true).args(["demand", "mix"]))]
pub(crate) struct ServerPlanArgs {
    /// A workload that comes with the tool, or a demand file, as `interleaf measure app --demand`
    /// writes it; or several with shares of time, such as hpcg=60%,cloverleaf=40%
    ///
    /// A share is a part of the run time on the baseline, as a percentage or a fraction of 1.
    /// Shares add up to 100%; demands without a share have equal parts of the rest. The programs
    /// run one after the other, each with its own best weights, and --footprint and --threads are
    /// those of each.
    #[arg(long, value_name = "NAME|FILE", visible_alias = "workload")]
    pub(crate) demand: Vec<String>,
    /// A traffic mix at its highest bandwidth, named as MLC names it (R, W2, W5, W10, ...)
    #[arg(long, value_parser = mix, value_name = "MIX")]
    pub(crate) mix: Option<Mix>,
    /// Configurations by name, or files of configurations [default: all that come with the tool]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) configuration: Vec<String>,
    /// The configuration that the others are compared with [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,
    /// Prices and power of parts [default: placeholders, devices/prices/server.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Memory that each demand needs [default: the footprint of the demand, if it has one]
    #[arg(long, value_parser = size, value_name = "SIZE", conflicts_with = "mix")]
    pub(crate) footprint: Option<Bytes>,
    /// Number of threads [default: that of the demand's largest run, at most one for each core]
    #[arg(long, value_name = "N", value_parser = threads, conflicts_with = "mix")]
    pub(crate) threads: Option<u32>,
    /// The merit that decides the recommendation
    #[arg(long, value_enum, default_value = "value")]
    pub(crate) goal: GoalChoice,
    /// Also recommend configurations that are not on sale yet
    #[arg(long)]
    pub(crate) future: bool,
    /// Percentage by which each assumed figure is varied, from 1% to 90%
    #[arg(long, value_name = "PERCENT", default_value = "20%", value_parser = vary)]
    pub(crate) vary: f64,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GoalChoice {
    /// The least cost for the work
    Value,
    /// The highest speed
    Speed,
    /// The least energy for the work
    Energy,
    /// The least cost
    Cost,
}

impl From<GoalChoice> for Goal {
    fn from(choice: GoalChoice) -> Self {
        match choice {
            GoalChoice::Value => Self::Value,
            GoalChoice::Speed => Self::Speed,
            GoalChoice::Energy => Self::Energy,
            GoalChoice::Cost => Self::Cost,
        }
    }
}
