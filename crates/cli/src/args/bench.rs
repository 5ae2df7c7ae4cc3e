//! The command line of `interleaf bench`.

use super::{BenchCompareArgs, multiple, quantity, seed, size, threads, within};
use clap::{Args, Subcommand, builder::PossibleValuesParser};
use interleaf_model::units::{Bytes, Time};
use interleaf_workload::{PAGE, graph::Shape, memory::Hint, stream::Loop};
use std::path::PathBuf;

/// Runs the workloads of published studies of memory extended by storage.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    List(BenchListArgs),
    Run(Box<BenchRunArgs>),
    Install(BenchInstallArgs),
    Compare(BenchCompareArgs),
}

/// Lists the workloads, and the recipes of applications.
#[derive(Debug, Args)]
pub(crate) struct BenchListArgs {
    /// List the recipes of this folder in place of the built-in ones
    #[arg(long, value_name = "DIR")]
    pub(crate) recipes: Option<PathBuf>,
    /// Print a JSON document (interleaf.bench.list/1)
    #[arg(long)]
    pub(crate) json: bool,
}

/// Installs what the recipe of an application needs: packages with apt-get, and Python packages
/// with pip in a virtual environment of the recipe (~/.local/share/interleaf/recipes/NAME).
///
/// Examples:
///   interleaf bench install faiss
///   interleaf bench install llama --dry-run
///   interleaf bench install ./my-application.toml
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct BenchInstallArgs {
    /// The recipe (`interleaf bench list` lists them), or a recipe file
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Find the recipe in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) recipes: Option<PathBuf>,
    /// Only print the commands
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Runs a workload, checks its results, and reports its speed. Filling the arrays is not measured.
/// The arrays are allocated with the ordinary allocator, so that `interleaf extend` extends their
/// memory. The application of a recipe has only --footprint, --threads, --drive, and the options of
/// the output.
///
/// Examples:
///   interleaf bench run stream --footprint 512MiB
///   interleaf bench run random --write --footprint 4GiB --threads 2
///   interleaf extend --dram 256MiB --store /nvme -- interleaf bench run fft --footprint 512MiB
///   interleaf bench run seq --footprint 1GiB --memory file:/nvme --advice sequential
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct BenchRunArgs {
    /// The workload, the recipe of an application (`interleaf bench list` lists them), or a recipe
    /// file
    #[arg(value_name = "NAME")]
    pub(crate) workload: String,
    /// Find recipes in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) recipes: Option<PathBuf>,
    /// Total size of all arrays
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "512MiB")]
    pub(crate) footprint: Bytes,
    /// Number of threads
    #[arg(long, value_name = "N", value_parser = threads, default_value = "1")]
    pub(crate) threads: u32,
    /// Minimum number of measured rounds [default: 3]
    #[arg(long, value_name = "N", value_parser = within(1, 1_000_000_u32, 3))]
    pub(crate) rounds: Option<u32>,
    /// Run more rounds until this time has passed
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) seconds: Option<Time>,
    /// Rounds before the measurement [default: 0]
    #[arg(long, value_name = "N", value_parser = within(0, 1_000_000_u32, 1))]
    pub(crate) warm_up: Option<u32>,
    /// Memory of the arrays: the ordinary allocator, mappings of their own, or mapped unnamed files
    /// in a folder [default: heap]
    #[arg(long, value_name = "heap|mmap|file:DIR", value_parser = place)]
    pub(crate) memory: Option<ArrayMemory>,
    /// With --memory mmap or file:DIR, the advice to the kernel (madvise) [default: normal]
    #[arg(long, value_name = "ADVICE", value_parser = hints())]
    pub(crate) advice: Option<String>,
    /// With stream: a single loop [default: triad is measured, and the other loops run once
    /// afterwards]
    #[arg(long = "loop", value_name = "LOOP", value_parser = loops())]
    pub(crate) only: Option<String>,
    /// With stride: distance from one access to the next, whole pages of 4KiB [default: 64KiB]
    #[arg(long, value_name = "SIZE",
        value_parser = multiple(Bytes::new(PAGE as u64), Bytes::new(1 << 40), "64KiB"))]
    pub(crate) stride: Option<Bytes>,
    /// With random and polynomial: modify the elements
    #[arg(long)]
    pub(crate) write: bool,
    /// With gemm-tiled and lu-tiled: rows and columns of a tile [default: 512]
    #[arg(long, value_name = "N", value_parser = within(8, 65_536_u32, 512))]
    pub(crate) tile: Option<u32>,
    /// With polynomial: its degree; the arithmetic intensity is degree / 4 operations per byte
    /// [default: 64]
    #[arg(long, value_name = "N", value_parser = within(0, 1_000_000_u32, 64))]
    pub(crate) degree: Option<u32>,
    /// With bfs, sssp, pr, cc, bc and tc: the distribution of edges [default: kronecker]
    #[arg(long, value_name = "SHAPE", value_parser = shapes())]
    pub(crate) graph: Option<String>,
    /// With random: seed of the sequence; with graphs: seed of the edges and sources [default: 1]
    #[arg(long, value_name = "N", value_parser = seed)]
    pub(crate) seed: Option<u64>,
    /// Do not check the results
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Also count the reads and writes of the drive under this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) drive: Option<PathBuf>,
    /// Run nothing: write the blocks of memory that a round accesses to FILE, for `extend --plan`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "output", "drive", "report"])]
    pub(crate) trace: Option<PathBuf>,
    /// Print a JSON document (interleaf.bench/1)
    #[arg(long)]
    pub(crate) json: bool,
    /// Record the JSON document in FILE
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

/// The kind of memory of the arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArrayMemory {
    Heap,
    Mapping,
    File(PathBuf),
}

fn place(text: &str) -> Result<ArrayMemory, String> {
    match (text, text.strip_prefix("file:")) {
        ("heap", _) => Ok(ArrayMemory::Heap),
        ("mmap", _) => Ok(ArrayMemory::Mapping),
        (_, Some(folder)) if !folder.is_empty() => Ok(ArrayMemory::File(folder.into())),
        _ => Err("it is not a place for arrays: write heap, mmap or file:DIR".into()),
    }
}

fn hints() -> PossibleValuesParser {
    PossibleValuesParser::new(Hint::ALL.iter().map(|(name, _)| *name))
}

fn shapes() -> PossibleValuesParser {
    PossibleValuesParser::new(Shape::ALL.iter().map(|(name, _)| *name))
}

fn loops() -> PossibleValuesParser {
    PossibleValuesParser::new(Loop::ALL.iter().map(|(name, _)| *name))
}

fn seconds(text: &str) -> Result<Time, String> {
    quantity(text, "10s")
}
