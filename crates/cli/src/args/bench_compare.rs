//! The command line of `interleaf bench compare`.

use super::{OutputArgs, dram_size, quantity, size, threads, within};
use crate::comparison::{memory_kind::MEMORY_KINDS, pattern::PATTERNS};
use clap::{Args, builder::PossibleValuesParser};
use interleaf_model::units::{Bytes, Time};
use std::path::PathBuf;

/// Runs patterns in turn on DRAM, on the pager, on swap and on mapped files, all with the same
/// budget of DRAM and the same drive, and compares them with DRAM. A control group limits swap and
/// mapped files to the memory that the pager used; the group and the swap file need root.
/// Afterwards, also after Ctrl-C, everything is removed or restored. With -o the record is written
/// after every round.
///
/// Examples:
///   sudo interleaf bench compare --store /nvme --dram 512MiB --workload stream
///   sudo interleaf bench compare --store /nvme --ratio 0.5,1,1.1,2,4 --rounds 5 -o all.json
///   interleaf bench compare --store /nvme --ways dram,pager --workload stream,fft
///   interleaf report all.json -o all.html
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct BenchCompareArgs {
    /// A folder on the drive that extends DRAM; created files are removed afterwards
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// The budget of DRAM
    #[arg(long, value_name = "SIZE", value_parser = dram_size, default_value = "512MiB")]
    pub(crate) dram: Bytes,
    /// The patterns, or `all`
    #[arg(long, value_name = "LIST|all", value_delimiter = ',', default_value = "all",
        value_parser = patterns())]
    pub(crate) workload: Vec<String>,
    /// Footprints, as multiples of the budget
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2",
        value_parser = ratio)]
    pub(crate) ratio: Vec<f64>,
    /// Number of runs of each pattern in each way; medians are reported
    #[arg(long, value_name = "N", value_parser = within(1, 1000_u32, 5), default_value = "3")]
    pub(crate) rounds: u32,
    /// Kinds of memory to run the patterns on. In each round dram and pager run first, then the
    /// others; within both groups the order is that of LIST
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = ways(),
        default_value = "dram,pager,swap,swap-tuned,mmap")]
    pub(crate) ways: Vec<String>,
    /// Number of threads
    #[arg(long, value_name = "N", value_parser = threads, default_value = "1")]
    pub(crate) threads: u32,
    /// Memory of a group beyond the budget if the pager is not run or all data fits into the
    /// budget; otherwise the group has as much memory as the pager used
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "16MiB")]
    pub(crate) slack: Bytes,
    /// Time limit of a run, including its preparation
    #[arg(long, value_name = "TIME", value_parser = limit, default_value = "60s")]
    pub(crate) limit: Time,
    /// Start each run with this command, such as taskset or nice
    #[arg(long, value_name = "COMMAND")]
    pub(crate) by: Option<String>,
    /// Do not measure the drive itself
    #[arg(long)]
    pub(crate) no_drive: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

fn patterns() -> PossibleValuesParser {
    PossibleValuesParser::new(PATTERNS.iter().map(|pattern| pattern.name).chain(["all"]))
}

fn ways() -> PossibleValuesParser {
    PossibleValuesParser::new(MEMORY_KINDS.iter().map(|(name, _)| *name))
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio: &f64| (0.01..=1000.0).contains(ratio));
    ratio.ok_or_else(|| "it is not a number from 0.01 to 1000: write one such as 2".into())
}

fn limit(text: &str) -> Result<Time, String> {
    quantity(text, "60s")
}
