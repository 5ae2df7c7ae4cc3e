//! `interleaf plan`: compares configurations of a server by speed, cost and energy for workloads.

use super::{page, progress::Bar};
use crate::args::ServerPlanArgs;
use interleaf_console::{Failure, support};
use interleaf_job::plan::{PlanJob, Planned, configurations, demand_shares};
use interleaf_record::Document;

pub(super) fn run(args: &ServerPlanArgs) -> Result<(), Failure> {
    support::check_outputs(args.output.output.as_deref(), args.report.as_deref(), &[])?;
    let demands = demand_shares(&args.demand)?;
    let planned = args.mix.map_or(Planned::Demands(&demands), Planned::Mix);
    let parts = interleaf_catalog::parts(args.prices.as_deref())?;
    let job = PlanJob {
        planned,
        configurations: configurations(&args.configuration)?,
        parts: &parts,
        baseline: args.baseline.clone(),
        footprint: args.footprint,
        threads: args.threads,
        goal: args.goal.into(),
        future: args.future,
        vary: args.vary,
    };
    let document = job.run(&Bar::default())?;
    support::print_document(
        args.output.options(),
        &interleaf_record::json(&document),
        || interleaf_report::plan::csv(&document),
        || interleaf_report::plan::text(&document),
    )?;
    support::warn_beside_csv(args.output.options(), &document.warnings);
    page::write(args.report.as_deref(), || Document::Plan(Box::new(document)))
}
