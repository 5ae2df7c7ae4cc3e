//! A measurement campaign plans the points of a measurement on a machine, measures them in order,
//! and records them.
//!
//! ```text
//! Options, machine -> Setup -> tasks -> engine -> points -> record, saved after each point
//! ```
//!
//! The crate `interleaf_measure` measures single points, and keeps no record. This crate decides
//! which points a subject ([`Measurement`]) needs on the machine, sets the kernel's weights for
//! interleaved memory, measures the points one by one, and keeps a [`MeasureDocument`].

#![forbid(unsafe_code)]

mod counted;
mod engine;
mod options;
mod setup;
mod task;
mod tasks;
mod weights;

pub use engine::CampaignEnd;
pub use options::{
    ChaseOptions, InterleaveOptions, LoadOptions, Measurement, Options, TrafficOptions,
};

use counted::TrafficCounters;
use engine::Bench;
use interleaf_console::{Failure, output, system};
use interleaf_launch::restore::report_restored;
use interleaf_linux::{launch::command::Signals, root::Root};
use interleaf_measure::interleave::Method;
use interleaf_record::measure::{MeasureDocument, MeasureStop};
use setup::Setup;

/// Runs the campaign that `options` describe, on the machine whose files are below `root`. Returns
/// the record, and the reason why the measurement ended.
///
/// # Errors
/// When the options do not fit the machine. An error during the measurement is returned as
/// [`CampaignEnd::Failed`], and the record has the points that were measured before the error.
pub fn run(options: &Options, root: &Root) -> Result<(MeasureDocument, CampaignEnd), Failure> {
    let setup = Setup::new(root, options)?;
    let mut document = setup.document();
    let tasks = tasks::plan(&setup, options)?;
    document.notes.extend(setup.warnings.iter().map(ToString::to_string));
    let mut method = Method::Pages;
    if let Some(requested) = &options.interleave {
        let (found, warning) = weights::method(&setup, requested.method, options.dry_run)?;
        document.notes.extend(warning.map(|warning| warning.to_string()));
        method = found;
    }
    if options.dry_run {
        document.dry_run = true;
        document.stop(MeasureStop::DryRun, "nothing was measured");
        document.plan = tasks.iter().map(|task| task.describe(&setup)).collect();
        document.kernel_settings = weights::needed_settings(&setup, &tasks, method)?;
        return Ok((document, CampaignEnd::DryRun));
    }
    let (counted, note) = TrafficCounters::find(options.replay.as_deref(), root, &setup.machine)?;
    document.notes.push(note);
    for warning in setup.warnings.iter().filter(|_| !options.quiet) {
        output::message(&format!("interleaf: {warning}"));
    }
    let signals = Signals::hold().map_err(system::signal_failure)?;
    let end = Bench::new(&setup, &signals, &counted, options, method).all(&tasks, &mut document);
    match &end {
        CampaignEnd::DryRun | CampaignEnd::Done => {
            document.stop(MeasureStop::Done, "all was measured")
        }
        CampaignEnd::Signal(number) => {
            document.stop(MeasureStop::Signal, format!("signal {number} came"))
        }
        CampaignEnd::Failed(_) => document.stop(MeasureStop::Failed, "an error came"),
    }
    report_restored(options.quiet, &document.put_back);
    Ok((document, end))
}
