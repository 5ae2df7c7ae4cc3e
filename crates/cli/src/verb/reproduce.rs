//! `interleaf reproduce`.

use super::{check_targets, give};
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
    check_targets(&args.output, args.report.as_deref())?;
    let studies = study::reproduce(&args.study)?;
    let document = ReproduceDocument { schema: SCHEMA.into(), studies };
    give(
        &args.output,
        &document,
        || render::reproduce::csv(&document),
        || render::reproduce::text(&document),
    )?;
    if let Some(target) = &args.report {
        output::file(target, &render::html::page(&Document::Reproduce(Box::new(document))))?;
        output::message(&format!("the report is in {}", target.display()));
    }
    Ok(())
}
