//! The command line of `interleaf measure`.

use super::{AppArgs, WeightsChoice, multiple, quantity, rate, seed, threads, weights_choice};
use clap::{Args, Subcommand, ValueEnum};
use interleaf_measure::{
    interleave::Method,
    isa::{Isa, IsaError},
    region::Pages,
    traffic::{ShareError, Traffic, TrafficError},
};
use interleaf_model::units::{Bandwidth, Bytes, Time};
use std::path::PathBuf;

/// Measures the memory of this machine: latency and bandwidth, idle and under load, of each node
/// and each mix of traffic, at the limit of the hardware. Without a subcommand, makes the usual
/// measurements of a server in at most three minutes: the matrix of nodes, idle latency of memory
/// and caches, bandwidth by mix, the curve of latency against load, and the distribution of
/// latencies.
///
/// The mixes are those of Intel's MLC: R reads, W2 is 2 reads to 1 write at the memory controller,
/// W5 is 1 to 1, W10 is 2 to 1 with non-temporal stores, and so on. Bandwidth is reported for the
/// program's loads and stores, and for the resulting traffic at the memory controller.
///
/// A record (-o) has the machine, the spread of repetitions, the activity of other programs, and a
/// verdict on its quality. The record is saved after every point. `interleaf report` turns a record
/// into pages and plots, `interleaf compare` compares two, and --export-curves writes a platform
/// for `interleaf predict --platform`.
///
/// Examples:
///   interleaf measure -o server.json                      the usual measurements
///   interleaf measure --quick                             the same in half a minute, coarser
///   interleaf measure bandwidth --mix R,W2,W5             three mixes
///   interleaf measure idle --pages small --stride 128B
///   interleaf measure matrix --mix W5
///   sudo interleaf measure interleave --weights 1:0,3:1,2:1 -o weights.json
///   interleaf measure loaded --export-curves server.toml  then: predict --platform server.toml
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true)]
pub(crate) struct MeasureArgs {
    #[command(subcommand)]
    pub(crate) measurement: Option<Measure>,
    #[command(flatten)]
    pub(crate) chase: ChaseArgs,
    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// The measurement.
#[derive(Debug, Subcommand)]
pub(crate) enum Measure {
    /// Idle latency: of a pointer chase within blocks that the TLB covers, of one over all memory,
    /// and of each cache by a sweep of sizes, which shows the actual size of the last-level cache
    Idle {
        #[command(flatten)]
        chase: ChaseArgs,
        #[command(flatten)]
        common: CommonArgs,
    },
    /// Bandwidth of each mix, of all threads together
    Bandwidth {
        #[command(flatten)]
        traffic: TrafficArgs,
        #[command(flatten)]
        common: CommonArgs,
    },
    /// Latency while other threads load the memory, from no load to the highest: the curve
    Loaded {
        #[command(flatten)]
        chase: ChaseArgs,
        #[command(flatten)]
        traffic: TrafficArgs,
        #[command(flatten)]
        load: LoadArgs,
        #[command(flatten)]
        common: CommonArgs,
    },
    /// Distribution of the latencies of single accesses, up to the longest
    Histogram {
        #[command(flatten)]
        chase: ChaseArgs,
        #[command(flatten)]
        traffic: TrafficArgs,
        #[command(flatten)]
        load: LoadArgs,
        #[command(flatten)]
        common: CommonArgs,
    },
    /// Latency and bandwidth from the CPUs of each node to the memory of each node
    Matrix {
        #[command(flatten)]
        chase: ChaseArgs,
        #[command(flatten)]
        traffic: TrafficArgs,
        #[command(flatten)]
        common: CommonArgs,
    },
    /// Bandwidth of each mix at each choice of weights, the best of them, and with --loads the
    /// curve of latency against load with the best weights on each point
    Interleave(InterleaveArgs),
    App(Box<AppArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct InterleaveArgs {
    /// Weights to try, for the tiers of the machine or for its nodes: a list such as 3:1,2:1, or
    /// `all` for each ratio of whole numbers up to 10 [default: 1:0,9:1,4:1,3:1,5:2,2:1,1:1,0:1]
    #[arg(long, value_parser = weights_choice, value_name = "all|LIST")]
    pub(crate) weights: Option<WeightsChoice>,
    /// Placement of pages: by the kernel's weights, which only root may set and which are
    /// restored, or page by page [default: the kernel's where they may be set]
    #[arg(long, value_enum)]
    pub(crate) way: Option<MethodChoice>,
    /// Also measure the curve of latency against load of the first mix for each choice of weights,
    /// and report the best weights at each load
    #[arg(long)]
    pub(crate) loads: bool,
    #[command(flatten)]
    pub(crate) chase: ChaseArgs,
    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MethodChoice {
    /// Weighted interleaving by the kernel, whose weights are set during the measurement
    Kernel,
    /// Page by page, by the thread that touches the page
    Pages,
}

impl From<MethodChoice> for Method {
    fn from(choice: MethodChoice) -> Self {
        match choice {
            MethodChoice::Kernel => Self::Kernel,
            MethodChoice::Pages => Self::Pages,
        }
    }
}

/// Options of latency.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ChaseArgs {
    /// Memory of the pointer chase [default: 200MB; 40MB with --quick]
    #[arg(long, value_name = "SIZE", value_parser = buffer)]
    pub(crate) chase: Option<Bytes>,
    /// Distance of neighbouring accesses in memory [default: 64B]
    #[arg(long, value_name = "SIZE",
        value_parser = multiple(Bytes::new(64), Bytes::new(1 << 20), "128B"))]
    pub(crate) stride: Option<Bytes>,
}

/// Options of the traffic.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TrafficArgs {
    /// Number of threads [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<u32>,
    /// Mixes as MLC names them, such as R,W2,W10, or `all` [default: all of them for bandwidth, R
    /// for a curve, R,W2,W5,W10 for interleave]
    #[arg(long, value_name = "R,W2|all", value_parser = mixes)]
    pub(crate) mix: Option<Mixes>,
    /// Mixes by the share of reads in the traffic of the memory controller, percent: a range in
    /// steps, or a list such as 50,75,100
    #[arg(long, value_name = "50..100/10", value_parser = read_shares, conflicts_with = "mix")]
    pub(crate) read_share: Option<Mixes>,
    /// Access lines in random order instead of sequentially
    #[arg(long)]
    pub(crate) random: bool,
    /// Memory of each thread for each buffer of its mix [default: 100MB; 40MB with --quick]
    #[arg(long, value_name = "SIZE", value_parser = buffer)]
    pub(crate) buffer: Option<Bytes>,
}

/// Options of the load.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LoadArgs {
    /// Pauses of the loading threads after each 32 lines, such as 10us,1us,200ns,0ns [default:
    /// chosen during the measurement to show the knee]
    #[arg(long, value_name = "TIME,TIME", value_parser = delay, value_delimiter = ',',
        conflicts_with = "rate")]
    pub(crate) delays: Vec<Time>,
    /// Loads as bandwidths of the program, such as 5GB/s,20GB/s
    #[arg(long, value_name = "BANDWIDTH", value_parser = rate, value_delimiter = ',')]
    pub(crate) rate: Vec<Bandwidth>,
}

/// Options of all measurements: nodes, CPUs, time, output.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CommonArgs {
    /// The CPUs to use, as numactl takes them: 0-3,!2 or +0-1 or all [default: those of --cpu-node]
    #[arg(long, value_name = "CPUS", conflicts_with = "cpu_node")]
    pub(crate) cpus: Option<String>,
    /// The node whose CPUs are used [default: the first node with CPUs; for matrix all]
    #[arg(long, value_name = "N")]
    pub(crate) cpu_node: Option<u32>,
    /// The nodes whose memory is measured, as numactl takes them: 0,2 or 0-3,!2 or all [default:
    /// the nearest; for matrix and interleave all]
    #[arg(long, value_name = "NODES")]
    pub(crate) nodes: Option<String>,
    /// The instruction set of loads and stores: sse2, avx2, avx512, neon, sve [default: the fastest
    /// of this machine]
    #[arg(long, value_name = "ISA", value_parser = isa)]
    pub(crate) isa: Option<Isa>,
    /// Page size: small, transparent huge pages where available, or reserved huge pages (hugetlbfs)
    /// [default: huge]
    #[arg(long, value_enum)]
    pub(crate) pages: Option<PagesChoice>,
    /// Time of a point, over all its repetitions [default: 1s; 100ms with --quick]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Time>,
    /// Number of repetitions of each point in this time [default: 3]
    #[arg(long, value_name = "N", value_parser = repeat)]
    pub(crate) repeat: Option<u32>,
    /// The seed of all random orders
    #[arg(long, value_name = "N", value_parser = seed, default_value = "1")]
    pub(crate) seed: u64,
    /// A coarser measurement, in at most half a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// Take bandwidth from a recording (docs/counters.md), two readings per point, in place of the
    /// machine's counters
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
    /// Change nothing; print the planned measurements and kernel settings
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write the curves as a platform, FILE.toml with FILE.csv beside it, or as the CSV alone
    #[arg(long, value_name = "FILE.toml|FILE.csv")]
    pub(crate) export_curves: Option<PathBuf>,
    /// Print only the result and errors
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// Print a JSON document (interleaf.measure/1)
    #[arg(long)]
    pub(crate) json: bool,
    /// Record the JSON document in FILE, rewritten after each point
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PagesChoice {
    /// The base pages of the kernel, 4 KiB on x86
    Small,
    /// Transparent huge pages, where available
    Huge,
    /// Reserved huge pages (hugetlbfs)
    Reserved,
}

impl From<PagesChoice> for Pages {
    fn from(choice: PagesChoice) -> Self {
        match choice {
            PagesChoice::Small => Self::Small,
            PagesChoice::Huge => Self::Huge,
            PagesChoice::Reserved => Self::Reserved,
        }
    }
}

/// A list of traffic mixes, each given by its name or by its read share.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mixes(pub(crate) Vec<Traffic>);

/// Minimum size of a buffer, bytes. A smaller buffer would fit into a first-level cache.
const BUFFER_MIN: u64 = 64 << 10;
/// Maximum size of a buffer, bytes: far above the memory of any machine.
const BUFFER_MAX: u64 = 1 << 50;

fn buffer(text: &str) -> Result<Bytes, String> {
    let size: Bytes = quantity(text, "100MB")?;
    if (BUFFER_MIN..=BUFFER_MAX).contains(&size.get()) {
        return Ok(size);
    }
    Err(format!("{text} is not between 64KiB and 1PiB: write a size such as 100MB"))
}

fn duration(text: &str) -> Result<Time, String> {
    let time: Time = quantity(text, "1s")?;
    if (1e-3..=3600.0).contains(&time.seconds()) {
        return Ok(time);
    }
    Err(format!("{text} is not between 1ms and 1h: write a time such as 1s"))
}

fn repeat(text: &str) -> Result<u32, String> {
    let repeat = text.parse().ok().filter(|repeat| (1..=1000).contains(repeat));
    repeat.ok_or_else(|| "it is not a whole number from 1 to 1000: write one such as 3".into())
}

fn delay(text: &str) -> Result<Time, String> {
    let time: Time = quantity(text, "200ns")?;
    if time.seconds() <= 1.0 {
        return Ok(time);
    }
    Err(format!("{text} is more than a second: write a time such as 200ns"))
}

fn isa(text: &str) -> Result<Isa, String> {
    let found: Result<Isa, IsaError> = text.parse().and_then(Isa::here);
    found.map_err(|why| format!("{why}: write one that is there; {}", IsaError::hint()))
}

fn mixes(text: &str) -> Result<Mixes, String> {
    if text == "all" {
        return Ok(Mixes(Traffic::all()));
    }
    let list = text.split(',').map(|name| name.trim().parse());
    let list: Result<Vec<Traffic>, TrafficError> = list.collect();
    list.map(Mixes).map_err(|why| match why {
        TrafficError::Share(why) => {
            format!("{why}: write a part of reads from 50% to 100%, or from 0%nt to 100%nt")
        }
        TrafficError::Mix(why) => {
            let names: Vec<String> = Traffic::all().iter().map(Traffic::to_string).collect();
            let names = names.join(", ");
            format!("{why}: write some of {names}, a part of reads such as 70%, or all")
        }
    })
}

/// Parses read shares in percent: a range with a step, `50..100/10`, or a list, `50,75,100`.
fn read_shares(text: &str) -> Result<Mixes, String> {
    let wrong = || {
        format!(
            "\"{text}\" is neither a range such as 50..100/10 nor a list such as 50,75,100 of \
             percents from 50 to 100: write one of them"
        )
    };
    let number = |text: &str| text.trim().trim_end_matches('%').parse::<u32>().ok();
    let shares: Vec<u32> = match text.split_once("..") {
        Some((from, rest)) => {
            let (to, step) = rest.split_once('/').unwrap_or((rest, "10"));
            let all = (number(from), number(to), number(step).filter(|step| *step > 0));
            let (Some(from), Some(to), Some(step)) = all else { return Err(wrong()) };
            (from..=to).step_by(step as usize).collect()
        }
        None => text.split(',').map(number).collect::<Option<Vec<u32>>>().ok_or_else(wrong)?,
    };
    let mixes: Result<Vec<Traffic>, ShareError> = shares.into_iter().map(of_share).collect();
    let mixes = mixes.map_err(|why| format!("{why}: write percents from 50 to 100"))?;
    if mixes.is_empty() { Err(wrong()) } else { Ok(Mixes(mixes)) }
}

/// The traffic with `percent` percent of reads among the bytes that the memory controller
/// transfers. If a named mix of MLC has the same loads and stores, the result is this mix.
fn of_share(percent: u32) -> Result<Traffic, ShareError> {
    let exact = Traffic::of_read_share(percent, false)?;
    let same = |it: &Traffic| {
        let of = |it: &Traffic| (it.loads, it.stores, it.nontemporal, it.read_buffers);
        of(it) == of(&exact)
    };
    Ok(Traffic::all().into_iter().find(same).unwrap_or(exact))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn shares_come_in_steps_or_as_a_list() {
        let of = |text| {
            let mixes = read_shares(text)?.0;
            let share = |it: &Traffic| (100.0 * it.mix().unwrap().read_share()).round() as u32;
            Ok(mixes.iter().map(share).collect())
        };
        let good: [(&str, &[u32]); 4] = [
            ("50..100/10", &[50, 60, 70, 80, 90, 100]),
            ("50..100/25", &[50, 75, 100]),
            ("90..100", &[90, 100]),
            ("50,75%,100", &[50, 75, 100]),
        ];
        for (text, shares) in good {
            assert_eq!(of(text), Ok::<Vec<u32>, String>(shares.to_vec()), "{text}");
        }
        let why = of("40..100/10").unwrap_err();
        assert!(why.starts_with("no traffic has 40 % reads: there is 50 to 100 %"), "{why}");
        assert!(why.ends_with(": write percents from 50 to 100"), "{why}");
        for bad in ["", "40..100/10", "50..101/1", "50..100/0", "100..50/10", "x", "50,,60"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn mixes_have_names() {
        assert_eq!(mixes("all").unwrap().0.len(), 13);
        assert_eq!(mixes("r, W10").unwrap().0[1].to_string(), "W10");
        let why = mixes("R,30%").unwrap_err();
        assert!(why.contains("stores past the caches from 0 %: write a part"), "{why}");
        assert!(mixes("W1").unwrap_err().contains(": write some of R, W2"));
    }
}
