//! The command line of `interleaf simulate`.

use super::{CardArgs, MachineArgs, OutputArgs};
use clap::{Args, Subcommand, ValueEnum};
use interleaf_job::{
    dimm,
    option::{LoadChoice, load, mix, refresh, row_policy, seed, uncore, within},
};
use interleaf_model::mix::Mix;
use interleaf_sim::dimm::{
    config::{Refresh, RowPolicy},
    trace::Format,
};
use std::path::PathBuf;

/// Simulates a machine under a policy, memory modules, or NVRAM cards.
#[derive(Debug, Subcommand)]
pub(crate) enum Simulate {
    Machine(Box<MachineArgs>),
    Dimm(Box<DimmArgs>),
    Card(Box<CardArgs>),
}

/// Simulates memory modules command by command, under the load of a server: bandwidth, latency and
/// energy.
///
/// Cores keep a constant number of lines outstanding, and request the next line when one arrives;
/// --load limits their rate. All channels are loaded and reported together.
///
/// Examples:
///   interleaf simulate dimm --device rdimm-6400-2r --mix R,W2,W5
///   interleaf simulate dimm --device mrdimm-8800-4r --density 32Gb --load sweep
///   interleaf simulate dimm --device rdimm-6400-2r --load sweep --curves dram.csv
///   interleaf simulate dimm --device my.toml:my-module --load 150GB/s --pattern hot-bank
///   interleaf simulate dimm --sweep modules.toml -o modules.csv --report modules.html
///   interleaf simulate dimm --device ddr4-3200-2r --channels 1 --trace requests.txt
///   interleaf simulate dimm --device mrdimm-8800-2r --mix W2 --command-trace commands.json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DimmArgs {
    /// A module by name, or a file (FILE:NAME if it has several), which can inherit from another
    /// (docs/simulate-dimm.md); `list` lists all modules
    #[arg(long, value_name = "NAME|FILE", required_unless_present_any = ["server", "sweep"])]
    pub(crate) device: Option<String>,
    /// A server by name, in place of --device: sets the modules, the channels, the cores with their
    /// outstanding lines, the uncore latency, and the bandwidth of the fabric between cores and
    /// memory controllers; `list` lists all servers
    #[arg(long, value_name = "NAME", conflicts_with_all =
        ["device", "density", "width", "channels", "uncore_ns", "outstanding"])]
    pub(crate) server: Option<String>,
    /// A sweep file: simulates every combination of its lists of these options, on all cores, and
    /// writes CSV (docs/simulate-dimm.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device", "server", "density", "width",
        "mix", "pattern", "load", "channels", "requests", "uncore_ns", "outstanding", "row_policy",
        "refresh", "seed", "timing", "trace", "command_trace", "curves", "json", "csv"])]
    pub(crate) sweep: Option<PathBuf>,
    /// With --sweep, also write the rows as Parquet
    #[arg(long, value_name = "FILE.parquet")]
    pub(crate) parquet: Option<PathBuf>,
    /// The density of the module's DRAM devices [default: 16Gb for DDR5]
    #[arg(long, value_name = "16Gb|24Gb|32Gb")]
    pub(crate) density: Option<String>,
    /// The width of the module's DRAM devices [default: x4 for DDR5]
    #[arg(long, value_name = "x4|x8|x16")]
    pub(crate) width: Option<String>,
    /// Traffic mixes, named as MLC names them (R, W2, W5, W10, ...), or read shares (0.62)
    #[arg(long, value_name = "MIX", value_parser = mix, value_delimiter = ',', default_value = "R")]
    pub(crate) mix: Vec<Mix>,
    /// Order of lines: in sequence by each core (stream), random, or random with one line in ten in
    /// one bank (hot-bank)
    #[arg(long, value_name = "PATTERN", default_value = "stream")]
    pub(crate) pattern: PatternChoice,
    /// Load on all channels: the highest bandwidth, a sweep up to it, or a bandwidth
    #[arg(long, value_parser = load, value_name = "max|sweep|150GB/s", default_value = "max")]
    pub(crate) load: LoadChoice,
    /// Number of channels, with a module each
    #[arg(long, value_name = "N", default_value_t = dimm::CHANNELS,
        value_parser = within(1, dimm::CHANNELS_MAX, dimm::CHANNELS))]
    pub(crate) channels: u32,
    /// Lines that are read or written at each point on all channels, after those that fill the
    /// queues; the minimum covers a refresh interval and the outstanding lines
    #[arg(long, value_name = "N", default_value_t = dimm::REQUESTS,
        value_parser = within(1, dimm::REQUESTS_MAX, dimm::REQUESTS))]
    pub(crate) requests: u64,
    /// Round-trip latency between a core and the controller, in ns
    #[arg(long, value_name = "NS", default_value_t = dimm::UNCORE_NS, value_parser = uncore)]
    pub(crate) uncore_ns: f64,
    /// Maximum number of outstanding lines of each channel [default: 144 for each sub-channel, so
    /// 288 for DDR5, at any rate of the module]
    #[arg(long, value_name = "N", value_parser = within(1, dimm::OUTSTANDING_MAX, 288))]
    pub(crate) outstanding: Option<u32>,
    /// When the memory controller closes a row that no request waits for [default: adaptive]
    #[arg(long, value_name = "open|closed|adaptive", value_parser = row_policy)]
    pub(crate) row_policy: Option<RowPolicy>,
    /// Refresh of all banks of a rank at once, or of one bank of each group (DDR5), or none, for
    /// comparison [default: all-bank]
    #[arg(long, value_name = "all-bank|same-bank|none", value_parser = refresh)]
    pub(crate) refresh: Option<Refresh>,
    /// The seed of all randomness
    #[arg(long, value_name = "N", value_parser = seed, default_value = "1")]
    pub(crate) seed: u64,
    /// Also report the duration of the simulation; the document then differs from run to run
    #[arg(long)]
    pub(crate) timing: bool,
    /// Take requests from a file in place of a load: lines such as "12.5 R 0x1f40" (ns since the
    /// start, R or W, address), their compact form, or a trace of Ramulator or DRAMsim3
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["mix", "pattern", "load", "requests", "curves"])]
    pub(crate) trace: Option<PathBuf>,
    /// Format of the trace [default: detected from its first line]
    #[arg(long, value_name = "text|binary|ramulator|dramsim3", requires = "trace")]
    pub(crate) trace_format: Option<Format>,
    /// Also write the requests of the trace in the compact form
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub(crate) trace_out: Option<PathBuf>,
    /// Also write the first commands of the first channel, for Perfetto or Chrome's trace viewer
    #[arg(long, value_name = "FILE.json")]
    pub(crate) command_trace: Option<PathBuf>,
    /// Also write the points as curves, for a tier of a platform (`curves = "FILE.csv"`)
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) curves: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

/// The order of requested lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PatternChoice {
    Random,
    Stream,
    HotBank,
}
