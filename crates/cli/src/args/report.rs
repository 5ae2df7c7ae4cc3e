//! The command line of `interleaf report`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Renders a document that a command wrote, on any machine: with `-o FILE`, `extend --stats FILE`,
/// or `--json`. The output of Intel's MLC and the memory_curves.csv of the Mess benchmark are
/// records too.
///
/// Examples:
///   interleaf report server.json -o server.html
///   interleaf report mlc.txt -o server.toml       then: interleaf predict --platform server.toml
///   interleaf report server.json --format mess -o memory_curves.csv
///   interleaf report stats.json -o stats.html     of: interleaf extend --stats stats.json ...
///   interleaf doctor --json | interleaf report - -o doctor.html
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
    /// Output file (- is stdout; a platform needs a .toml or .csv)
    #[arg(short = 'o', long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// A self-contained page: the result, plots, tables
    Html,
    /// Tables in Markdown
    #[value(alias = "md")]
    Markdown,
    /// One table in CSV
    Csv,
    /// One figure as an image
    Svg,
    /// A platform for other verbs, from a measurement: FILE.toml with its curves beside it
    Platform,
    /// The curves of a measurement, in the format of the Mess benchmark
    Mess,
    /// A measurement as text, in the format of Intel's MLC
    Mlc,
}
