//! `interleaf reproduce`.

use crate::{
    args::ReproduceArgs,
    document::{
        self, Document,
        reproduce::{ReproduceDocument, SCHEMA},
    },
    failure::Failure,
    output, render, study, support,
};

pub(super) fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    support::check_outputs(args.output.options(), args.report.as_deref())?;
    let studies = study::reproduce(&args.study)?;
    let document = ReproduceDocument { schema: SCHEMA.into(), studies };
    support::print_document(
        args.output.options(),
        &document::json(&document),
        || render::reproduce::csv(&document),
        || render::reproduce::text(&document),
    )?;
    if let Some(target) = &args.report {
        output::file(target, &render::html::page(&Document::Reproduce(Box::new(document))))?;
        output::message(&format!("the report is in {}", target.display()));
    }
    Ok(())
}
