//! `interleaf reproduce`: compares published figures of studies with Interleaf's own figures.

mod imdt;

use super::{page, progress::Bar};
use crate::args::ReproduceArgs;
use interleaf_console::{Failure, support};
use interleaf_record::{
    Document,
    reproduce::{ReproduceDocument, SCHEMA},
};
use std::process::ExitCode;

/// Rejects the options that only the study of IMDT (Intel Memory Drive Technology) has, if `args`
/// names a different study. `--predicted` (no measurement) is accepted for every study: studies
/// other than IMDT measure nothing.
fn check_options(args: &ReproduceArgs) -> Result<(), Failure> {
    let options = [
        (args.quick, "--quick"),
        (args.dram.is_some(), "--dram"),
        (!args.workload.is_empty(), "--workload"),
    ];
    let imdt = interleaf_study::imdt::NAME;
    if args.study == imdt {
        return Ok(());
    }
    let why = format!("is an option of {imdt}, not of {}", args.study);
    support::reject_given(&options, &why, &format!("reproduce {imdt}"))
}

pub(super) fn run(args: &ReproduceArgs) -> Result<ExitCode, Failure> {
    support::check_outputs(args.output.output.as_deref(), args.report.as_deref(), &[])?;
    check_options(args)?;
    let mut signal = None;
    let mut studies = interleaf_study::reproduce(&args.study, &Bar::default())?;
    if args.study == interleaf_study::imdt::NAME && !args.predicted {
        for study in &mut studies {
            signal = imdt::measure(args, study)?;
        }
    }
    let document = ReproduceDocument { schema: SCHEMA.into(), studies };
    support::print_document(
        args.output.options(),
        &interleaf_record::json(&document),
        || interleaf_report::reproduce::csv(&document),
        || interleaf_report::reproduce::text(&document),
    )?;
    page::write(args.report.as_deref(), || Document::Reproduce(Box::new(document)))?;
    Ok(signal.map_or(ExitCode::SUCCESS, |signal| ExitCode::from(128 + signal as u8)))
}
