//! The command line of `interleaf simulate card`.

use super::{OutputArgs, seed, within};
use clap::{Args, Subcommand, ValueEnum};
use interleaf_card::{
    fio::{
        self, FioOptions,
        load::{RAMP_NS, RUNTIME_NS},
        value::{self, Depths, Size},
    },
    load::Access,
    memory_test::{Algorithm, FaultSyntax, InjectedFault},
};
use interleaf_model::units::{Bandwidth, Percent};
use std::path::PathBuf;

/// Simulates NVRAM cards: the NVMe driver, the PCIe link, the controller and each command to the
/// memory, under a load that options of fio describe. Several cards are compared side by side.
///
/// The options of a load are those of fio; a fio job file can have them, too. Sizes and times are
/// written as in fio: 4k, 1m, 4096; 500ms, 1s. A job file with an option that is not modelled is
/// refused.
///
/// Examples:
///   interleaf simulate card --card flashtec-dram --rw randwrite
///   interleaf simulate card --card flashtec-dram,all-mram --rw randread --iodepth 1..256
///   interleaf simulate card --card all-mram --rw randrw --rwmixread 70 --numjobs 4 --iodepth 32
///   interleaf simulate card --card my-card.toml jobs.fio -o card.json --report card.html
///   interleaf simulate card --card all-mram --rw randwrite --power-fail-sweep 1000
///   interleaf simulate card --card all-mram --access memory --rw randwrite --fsync 1
///   interleaf simulate card --card all-mram --serve /tmp/card.sock
///   interleaf simulate card test --card all-mram --pattern BADC0FFE --start 0x80 --stop 0x84
///   interleaf simulate card cost --card flashtec-dram,all-mram --prices prices.toml
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct CardArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<CardVerb>,
    #[command(flatten)]
    pub(crate) load: CardLoadArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CardVerb {
    Test(CardTestArgs),
    Cost(CardCostArgs),
}

/// The hint of the error message if a required option of `verb` is missing.
pub(crate) fn hint(verb: &str) -> &'static str {
    match verb {
        "interleaf simulate card test" => {
            "write for example interleaf simulate card test --card all-mram"
        }
        "interleaf simulate card cost" => {
            "write for example interleaf simulate card cost --card flashtec-dram,all-mram"
        }
        _ => "write for example interleaf simulate card --card all-mram --rw randread",
    }
}

/// Options of a simulated load.
#[derive(Debug, Args)]
pub(crate) struct CardLoadArgs {
    /// fio job files, whose options those of the command line replace; jobs run at the same time,
    /// up to one with `stonewall`
    #[arg(value_name = "JOBFILE")]
    pub(crate) jobs: Vec<PathBuf>,
    /// A fio job file, as an option
    #[arg(long, value_name = "FILE", conflicts_with = "jobs")]
    pub(crate) job: Vec<PathBuf>,
    /// A card by name, or a card file; several are compared; `list` lists all cards
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',', required = true)]
    pub(crate) card: Vec<String>,
    /// Access to the card: by NVMe commands (storage), by loads and stores of a processor to the
    /// BAR (memory), or by another PCIe device that reads and writes the BAR (peer) [default:
    /// storage]
    #[arg(long, value_name = "ACCESS")]
    pub(crate) access: Option<AccessChoice>,
    #[command(flatten)]
    pub(crate) fio: FioArgs,
    /// With --access memory or peer, a thread makes its stores durable after every N of them, by a
    /// read-back [default: never]
    #[arg(long, value_name = "N", value_parser = within(1, 1_000_000_u32, 1))]
    pub(crate) fsync: Option<u32>,
    /// Let the power fail at this time of the measurement, and read back every acknowledged write
    #[arg(long, value_name = "TIME", value_parser = value::time,
        conflicts_with = "power_fail_sweep")]
    pub(crate) power_fail_at: Option<u64>,
    /// Let the power fail at N random moments, and read back every acknowledged write of each
    #[arg(long, value_name = "N", value_parser = within(1, 1_000_000_u32, 1000))]
    pub(crate) power_fail_sweep: Option<u32>,
    /// Serve the card to a virtual machine on this socket, for QEMU's vfio-user-pci device
    #[arg(long, value_name = "SOCKET", conflicts_with_all = [
        "jobs", "job", "access", "fsync", "rw", "bs", "iodepth", "numjobs", "rate_iops",
        "rwmixread", "ramp_time", "runtime", "size", "direct", "norandommap", "seed",
        "power_fail_at", "power_fail_sweep", "timing", "report", "curves", "json", "csv", "output",
    ])]
    pub(crate) serve: Option<PathBuf>,
    /// With --serve, the duration of an I/O: none, or that of the model by the clock of this
    /// machine (real) or of the guest (guest, with a plugin of QEMU: docs/cards.md) [default: none]
    #[arg(long, value_name = "LATENCY", requires = "serve")]
    pub(crate) latency: Option<LatencyChoice>,
    /// With --latency real or guest, a factor on the durations of the model, because an emulated
    /// processor is slower than a real one [default: 1]
    #[arg(long, value_name = "N", requires = "latency",
        value_parser = within(1, 1_000_000_u32, 20))]
    pub(crate) slow_down: Option<u32>,
    /// With --serve, the file that keeps the card's content [default: memory, lost at the end]
    #[arg(long, value_name = "FILE", requires = "serve")]
    pub(crate) contents: Option<PathBuf>,
    /// Also write the curves of the card, for a tier of a platform (`curves = "FILE.csv"`)
    #[arg(long, alias = "curve", value_name = "FILE.csv")]
    pub(crate) curves: Option<PathBuf>,
    /// Also report the duration of the simulation; the document then differs from run to run
    #[arg(long)]
    pub(crate) timing: bool,
    /// Also write the report, with figures of all cards, as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The options of fio. With a job file they replace those of every job.
#[derive(Debug, Args)]
pub(crate) struct FioArgs {
    /// Direction and order: read, write, rw, randread, randwrite, randrw
    #[arg(long, value_name = "PATTERN")]
    pub(crate) rw: Option<Access>,
    /// Block size, or bytes of a load or store: 8 to 4096 [default: 4k; 64 with --access memory]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) bs: Option<u32>,
    /// Outstanding requests of each job: a number, a list 1,2,4 or a doubling range 1..256
    /// [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) iodepth: Option<Depths>,
    /// Number of equal jobs, each with its own submission and completion queue [default: 1]
    #[arg(long, value_name = "N", value_parser = fio::jobs)]
    pub(crate) numjobs: Option<u32>,
    /// Maximum number of I/Os per second of each job [default: no limit]
    #[arg(long, value_name = "N", value_parser = fio::rate)]
    pub(crate) rate_iops: Option<u64>,
    /// Percentage of reads of rw and randrw [default: 50]
    #[arg(long, value_name = "N", value_parser = fio::percentage)]
    pub(crate) rwmixread: Option<u32>,
    /// Simulated time before the measurement
    #[arg(long, value_name = "TIME", value_parser = value::time,
        help = with_default("Simulated time before the measurement", RAMP_NS))]
    pub(crate) ramp_time: Option<u64>,
    /// Simulated time of the measurement
    #[arg(long, value_name = "TIME", value_parser = value::runtime,
        help = with_default("Simulated time of the measurement", RUNTIME_NS))]
    pub(crate) runtime: Option<u64>,
    /// Space on the card that the load uses: 512m or 50% [default: 100%]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Size>,
    /// I/O that bypasses the page cache, which is the default; 0 is refused
    #[arg(long, value_name = "1", value_parser = fio::direct, num_args = 0..=1,
        default_missing_value = "1")]
    pub(crate) direct: Option<()>,
    /// Random offsets may repeat before all blocks were used once
    #[arg(long)]
    pub(crate) norandommap: bool,
    /// The seed of all randomness [default: 1]
    #[arg(long, value_name = "N", value_parser = seed)]
    pub(crate) seed: Option<u64>,
}

fn bytes(text: &str) -> Result<u32, String> {
    value::size(text).map_err(|why| why.to_string())?;
    value::access(text).map_err(|_| {
        let allowed = "a multiple of 512 from 512 to 1m, or for a load or store a power of two \
                       from 8 to 4096";
        format!("{text} is the size of neither an I/O nor a load or store: write {allowed}")
    })
}

/// Appends a default time to a help text. `ns` is the time in ns, which the text shows in ms.
fn with_default(text: &str, ns: u64) -> String {
    format!("{text} [default: {}ms]", ns as f64 * 1e-6)
}

impl FioArgs {
    /// The options of fio that the user gave, except the queue depths.
    pub(crate) fn options(&self) -> FioOptions {
        FioOptions {
            rw: self.rw,
            bs: self.bs,
            numjobs: self.numjobs,
            rate_iops: self.rate_iops,
            rwmixread: self.rwmixread,
            ramp_ns: self.ramp_time,
            runtime_ns: self.runtime,
            size: self.size,
            norandommap: self.norandommap.then_some(true),
            seed: self.seed,
            ..FioOptions::default()
        }
    }
}

/// The access of a load to the card: by NVMe commands, by loads and stores of a processor to the
/// BAR, or by another PCIe device that reads and writes the BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessChoice {
    Storage,
    Memory,
    Peer,
}

/// The latency of an I/O of a guest: none, or the model's by the clock of the host or of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LatencyChoice {
    None,
    Real,
    Guest,
}

/// Tests the memory of cards as a board's test program does.
///
/// An algorithm writes and reads back, and may cut the power between the two. Injected faults show
/// which algorithm finds which fault.
///
/// Exit status 1: a read returned another value than was written.
///
/// Examples:
///   interleaf simulate card test --card all-mram --start 0x80 --stop 0x80 --pattern BADC0FFE
///   interleaf simulate card test --card all-mram --algorithm march-c- --stop 0xfffc --cycles 10
///   interleaf simulate card test --card all-mram --algorithm mats+ --stop 0xfffc
///     --fault coupling-inversion:0x80.3/0x100.3=up
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CardTestArgs {
    /// A card by name, or a card file; several are compared
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',', required = true)]
    pub(crate) card: Vec<String>,
    /// The test: pattern, walking-ones, mats+, march-c-, address-in-address, checkerboard or random
    #[arg(long, value_name = "NAME", default_value = "pattern")]
    pub(crate) algorithm: Algorithm,
    /// Address of the first 32-bit word: decimal, or hexadecimal with 0x
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = address)]
    pub(crate) start: u64,
    /// Address of the last word [default: that of the first]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) stop: Option<u64>,
    /// The word that the algorithm `pattern` writes, hexadecimal [default: BADC0FFE]
    #[arg(long, value_name = "WORD", value_parser = word)]
    pub(crate) pattern: Option<u32>,
    /// Number of times that the algorithm is run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within(1, u64::MAX, 10))]
    pub(crate) cycles: u64,
    /// Write zero to all words first
    #[arg(long)]
    pub(crate) init: bool,
    /// Log every operation
    #[arg(long)]
    pub(crate) debug: bool,
    /// A fault to inject, such as stuck-at:0x80.3=1 (bit 3 of the word at 0x80); may be repeated
    #[arg(long, value_name = "FAULT", value_parser = fault)]
    pub(crate) fault: Vec<InjectedFault>,
    /// The seed of all randomness
    #[arg(long, value_name = "N", value_parser = seed, default_value = "1")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn address(text: &str) -> Result<u64, String> {
    let address = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    address
        .ok_or_else(|| format!("\"{text}\" is not an address: write a number such as 128 or 0x80"))
}

fn word(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u32::from_str_radix(digits, 16)
        .map_err(|_| format!("\"{text}\" is not a word: write up to 8 hexadecimal digits"))
}

fn fault(text: &str) -> Result<InjectedFault, String> {
    text.parse().map_err(|why: FaultSyntax| format!("{}: {}", why.problem, why.hint))
}

/// Compares energy, endurance and price of cards.
///
/// Prints one table: energy of an I/O and of a save, power without I/O, endurance, and price by the
/// prices of a file. No load is simulated.
///
/// Examples:
///   interleaf simulate card cost --card flashtec-dram,all-mram
///   interleaf simulate card cost --example-prices > prices.toml
///   interleaf simulate card cost --card flashtec-dram,all-mram --prices prices.toml
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CardCostArgs {
    /// A card by name, or a card file; several are compared
    #[arg(
        long,
        value_name = "NAME|FILE",
        value_delimiter = ',',
        required_unless_present = "example_prices"
    )]
    pub(crate) card: Vec<String>,
    /// A file with prices of memory, NAND and other parts, each with its source and date
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Print an example of a file of prices
    #[arg(long, exclusive = true)]
    pub(crate) example_prices: bool,
    /// Bytes of an I/O
    #[arg(long, value_name = "SIZE", value_parser = value::block, default_value = "4k")]
    pub(crate) bs: u32,
    /// Bytes written per second, for the endurance
    #[arg(long, value_name = "BANDWIDTH", value_parser = super::rate, default_value = "100MB/s")]
    pub(crate) write_rate: Bandwidth,
    /// Share of the writes that go to a small area of the card, such as a log; 0% for none
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "90%")]
    pub(crate) hot_share: Percent,
    /// The size of this area
    #[arg(long, value_name = "SIZE", value_parser = hot_size, default_value = "1m")]
    pub(crate) hot_size: u64,
    /// Power failures per year, for the life of the NAND
    #[arg(long, value_name = "N", default_value_t = 12,
        value_parser = within(1, 1_000_000_u32, 12))]
    pub(crate) power_failures: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn share(text: &str) -> Result<Percent, String> {
    super::percent(text, [0.0, 100.0], "90%")
}

fn hot_size(text: &str) -> Result<u64, String> {
    match value::size(text) {
        Ok(0) => Err("no writes go to a size of 0: write a size such as 1m".into()),
        size => size.map_err(|why| why.to_string()),
    }
}
