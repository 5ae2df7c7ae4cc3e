//! The command lines of the verbs that read records: `interleaf report` and `interleaf compare`.

use super::OutputArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Turns a document that was recorded with `-o FILE` into something to read. No machine is needed.
/// The output of Intel's MLC and the memory_curves.csv of the Mess benchmark are records too.
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

/// Puts two records side by side: each point that both have, whether they differ by more than the
/// noise of both, and what is not alike of machines and settings. No machine is needed. Exit status
/// 1: with --same, good points differ by more than noise; 2: no point can tell.
///
/// Examples:
///   interleaf compare before.json after.json
///   interleaf compare before.json after.json --same     in a script: is all as it was?
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
    /// One page with interactive plots that needs nothing else
    Html,
    /// Tables in Markdown
    Markdown,
    /// One table in CSV
    Csv,
    /// One figure as a picture
    Svg,
    /// Of a measurement: a platform for other verbs, FILE.toml with its curves beside it
    Platform,
    /// Of a measurement: its curves as the Mess benchmark has them
    Mess,
    /// Of a measurement: what Intel's MLC would have printed
    Mlc,
}
