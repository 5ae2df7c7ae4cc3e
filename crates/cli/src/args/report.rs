//! The command lines of the verbs that read records: `interleaf report` and `interleaf compare`.

use super::OutputArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Renders a document that was recorded with `-o FILE`, on any machine. The output of Intel's MLC
/// and the memory_curves.csv of the Mess benchmark are records too.
///
/// Examples:
///   interleaf report server.json -o server.html
///   interleaf report mlc.txt -o server.toml       then: interleaf predict --platform server.toml
///   interleaf report server.json --format mess -o memory_curves.csv
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ReportArgs {
    /// The recorded document, or - for stdin
    #[arg(value_name = "RECORD")]
    pub(crate) record: PathBuf,
    /// Format of the report [default: by the ending of the output file; html without one]
    #[arg(long, value_enum)]
    pub(crate) format: Option<ReportFormat>,
    /// With svg, which figure: its number or its id [default: 1]
    #[arg(long, value_name = "N|ID")]
    pub(crate) figure: Option<String>,
    /// Output file (- is stdout)
    #[arg(short = 'o', long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,
}

/// Compares two records, on any machine: the common points, those that differ by more than the
/// noise of both, and differences of machines and settings. Exit status 1: with --same, good points
/// differ by more than noise; 2: no point can be compared.
///
/// Examples:
///   interleaf compare before.json after.json
///   interleaf compare before.json after.json --same     in a script: exit status 1 on a difference
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompareArgs {
    /// The first record, which `interleaf measure -o` wrote
    #[arg(value_name = "A")]
    pub(crate) first: PathBuf,
    /// The second record
    #[arg(value_name = "B")]
    pub(crate) second: PathBuf,
    /// Exit with status 1 where a point differs by more than the spreads
    #[arg(long)]
    pub(crate) same: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// A self-contained page with interactive plots
    Html,
    /// Tables in Markdown
    Markdown,
    /// One table in CSV
    Csv,
    /// One figure as an image
    Svg,
    /// Of a measurement: a platform for other verbs, FILE.toml with its curves beside it
    Platform,
    /// Of a measurement: its curves in the format of the Mess benchmark
    Mess,
    /// Of a measurement: text in the format of Intel's MLC
    Mlc,
}
