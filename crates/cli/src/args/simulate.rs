//! The command line of `interleaf simulate`.

use super::{LoadChoice, MachineArgs, OutputArgs, load, mix, seed};
use clap::{Args, Subcommand, ValueEnum};
use interleaf_model::mix::Mix;
use interleaf_sim::dimm::trace::Format;
use std::path::PathBuf;

/// Simulates what one does not own, or does not want to try on what one owns.
#[derive(Debug, Subcommand)]
pub(crate) enum Simulate {
    Machine(Box<MachineArgs>),
    Dimm(Box<DimmArgs>),
}

/// Simulates memory modules command by command, under the load of a server: how much they give, how
/// long each line takes, and what that costs in energy.
///
/// Cores have so many lines on their way and ask for the next as they come; --load holds them to
/// less. All channels together are loaded and reported on.
///
/// Examples:
///   interleaf simulate dimm --device rdimm-6400-2r --mix R,W2,W5
///   interleaf simulate dimm --device mrdimm-8800-4r --density 32Gb --load sweep
///   interleaf simulate dimm --device rdimm-6400-2r --load sweep --curves dram.csv
///   interleaf simulate dimm --device my.toml:my-module --load 150GB/s --pattern hot-bank
///   interleaf simulate dimm --device ddr4-3200-2r --channels 1 --trace requests.txt
///   interleaf simulate dimm --device mrdimm-8800-2r --mix W2 --command-trace commands.json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DimmArgs {
    /// A module by name, or a file (FILE:NAME where it has several); `list` for all there are
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) device: String,
    /// The density of its devices [default: 16Gb of DDR5]
    #[arg(long, value_name = "16Gb|24Gb|32Gb")]
    pub(crate) density: Option<String>,
    /// The width of its devices [default: x4 of DDR5]
    #[arg(long, value_name = "x4|x8")]
    pub(crate) width: Option<String>,
    /// Traffic mixes, named as MLC names them (R, W2, W5, W10, ...), or read shares (0.62)
    #[arg(long, value_name = "MIX", value_parser = mix, value_delimiter = ',', default_value = "R")]
    pub(crate) mix: Vec<Mix>,
    /// Each core its lines in order, any lines, or any lines of which one in ten is in one bank
    #[arg(long, value_name = "PATTERN", default_value = "stream")]
    pub(crate) pattern: PatternChoice,
    /// Demand on all channels: the highest bandwidth, a sweep up to it, or a bandwidth
    #[arg(long, value_parser = load, value_name = "max|sweep|150GB/s", default_value = "max")]
    pub(crate) load: LoadChoice,
    /// Channels, with a module each
    #[arg(long, value_name = "N", default_value_t = 12,
        value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) channels: u32,
    /// Lines that are read or written at each point, over all channels, after those that fill the
    /// queues; at least a refresh interval and each outstanding line once
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub(crate) requests: u64,
    /// Latency between a core and the controller, there and back, in ns
    #[arg(long, value_name = "NS", default_value_t = 65.0, value_parser = uncore)]
    pub(crate) uncore_ns: f64,
    /// Outstanding lines of each channel at most [default: 144 of each sub-channel, so 288 of
    /// DDR5, whatever the module's rate]
    #[arg(long, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) outstanding: Option<u32>,
    /// The seed of all randomness
    #[arg(long, value_name = "N", value_parser = seed, default_value = "1")]
    pub(crate) seed: u64,
    /// Say how long the simulation took, too; the document is then another each time
    #[arg(long)]
    pub(crate) timing: bool,
    /// Take requests from a file in place of a load: lines such as "12.5 R 0x1f40" (ns since the
    /// start, R or W, address), the compact form of them, or what Ramulator and DRAMsim3 read
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["mix", "pattern", "load", "requests", "curves"])]
    pub(crate) trace: Option<PathBuf>,
    /// Format of the trace [default: as its first line shows]
    #[arg(long, value_name = "text|binary|ramulator|dramsim3", requires = "trace")]
    pub(crate) trace_format: Option<Format>,
    /// Write the requests of the trace in the compact form, too
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub(crate) trace_out: Option<PathBuf>,
    /// Draw the first commands of the first channel for Perfetto or Chrome's trace viewer, too
    #[arg(long, value_name = "FILE.json")]
    pub(crate) command_trace: Option<PathBuf>,
    /// Write the points as curves that a platform can have (`curves = "FILE.csv"`), too
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) curves: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// In which order lines are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PatternChoice {
    Random,
    Stream,
    HotBank,
}

fn uncore(text: &str) -> Result<f64, String> {
    let ns = text.parse::<f64>().ok().filter(|ns| (0.0..=10_000.0).contains(ns));
    ns.ok_or_else(|| format!("\"{text}\" is no number of nanoseconds from 0 to 10000"))
}
