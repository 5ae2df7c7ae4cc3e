//! `interleaf plan`: one demand on many configurations of a server, with cost and energy.

use super::{page, progress::Bar};
use crate::args::ServerPlanArgs;
use interleaf_console::{Failure, support};
use interleaf_job::{plan::PlanJob, predict::Traffic};
use interleaf_model::{configuration::Configuration, demand::Demand};
use interleaf_record::Document;

pub(super) fn run(args: &ServerPlanArgs) -> Result<(), Failure> {
    support::check_outputs(args.output.options(), args.report.as_deref())?;
    let demand: Demand;
    let traffic = match (&args.mix, &args.demand) {
        (Some(mix), _) => Traffic::Mix(*mix),
        (_, Some(name)) => {
            demand = interleaf_catalog::workload_or_demand(name)?;
            Traffic::Demand(&demand)
        }
        // clap requires one of the two.
        (None, None) => return Ok(()),
    };
    let parts = interleaf_catalog::parts(args.prices.as_deref())?;
    let job = PlanJob {
        traffic,
        configurations: configurations(&args.configuration)?,
        parts: &parts,
        is_example: args.prices.is_none(),
        baseline: args.baseline.clone(),
        footprint: args.footprint,
        threads: args.threads,
        goal: args.goal.into(),
        future: args.future,
        vary: f64::from(args.vary) / 100.0,
    };
    let document = job.run(&Bar::default())?;
    support::print_document(
        args.output.options(),
        &interleaf_record::json(&document),
        || interleaf_report::plan::csv(&document),
        || interleaf_report::plan::text(&document),
    )?;
    page::write(args.report.as_deref(), || Document::Plan(Box::new(document)))
}

/// The named configurations, or all.
fn configurations(names: &[String]) -> Result<Vec<Configuration>, Failure> {
    if names.is_empty() {
        return interleaf_catalog::configurations();
    }
    let mut all: Vec<Configuration> = vec![];
    for name in names {
        for one in interleaf_catalog::configurations_of(name)? {
            if all.iter().any(|other| other.name == one.name) {
                return Err(Failure::new(
                    format!("--configuration: {} is there twice", one.name),
                    "name each configuration once",
                ));
            }
            all.push(one);
        }
    }
    Ok(all)
}
