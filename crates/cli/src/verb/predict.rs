//! `interleaf predict`: predicts bandwidth or speed-up at given weights of the memory tiers.

use super::{page, progress::Bar};
use crate::args::PredictArgs;
use interleaf_console::{Failure, support};
use interleaf_job::predict::{PredictJob, Traffic};
use interleaf_model::demand::Demand;
use interleaf_record::Document;

pub(super) fn run(args: &PredictArgs) -> Result<(), Failure> {
    support::check_outputs(args.output.output.as_deref(), args.report.as_deref(), &[])?;
    let platform = interleaf_catalog::platform(&args.platform)?;
    let demand: Demand;
    let traffic = match (&args.mix, &args.workload, &args.demand) {
        (Some(mix), ..) => Traffic::Mix(*mix),
        (_, Some(name), _) => {
            demand = interleaf_catalog::workload(name)?;
            Traffic::Demand(&demand)
        }
        (_, _, Some(path)) => {
            demand = interleaf_catalog::demand(path)?;
            Traffic::Demand(&demand)
        }
        // clap requires --mix, --workload or --demand, so this case does not occur.
        (None, None, None) => return Ok(()),
    };
    let job = PredictJob {
        platform: &platform,
        traffic,
        threads: args.threads,
        weights: args.weights.clone(),
        load: args.load,
    };
    let document = job.run(&Bar::default())?;
    let every_row = args.weights.is_some();
    support::print_document(
        args.output.options(),
        &interleaf_record::json(&document),
        || interleaf_report::predict::csv(&document),
        || interleaf_report::predict::text(&document, every_row),
    )?;
    support::warn_beside_csv(args.output.options(), &document.warnings);
    page::write(args.report.as_deref(), || Document::Predict(Box::new(document)))
}
