//! `interleaf reproduce`.

use super::give;
use crate::{
    args::ReproduceArgs,
    document::{
        Document,
        reproduce::{ReproduceDocument, SCHEMA},
    },
    failure::Failure,
    output, render, study,
};

pub(super) fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    output::check_writable(args.output.output.as_deref())?;
    output::check_writable(args.report.as_deref())?;
    let studies = study::reproduce(&args.study)?;
    let document = ReproduceDocument { schema: SCHEMA.into(), studies };
    give(
        &args.output,
        &document,
        || render::reproduce::csv(&document),
        || render::reproduce::text(&document),
    )?;
    if let Some(target) = &args.report {
        output::file(target, &render::html::page(&Document::Reproduce(document)))?;
        output::message(&format!("the report is in {}", target.display()));
    }
    Ok(())
}
