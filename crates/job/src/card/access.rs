//! Simulates loads and stores to the BAR of a card, by a processor (`memory`) or by another device
//! (`peer`).

use super::{CardJob, Moments, groups};
use interleaf_card::{
    card::Card,
    fio::{
        Job,
        memory::{self, MemoryOptions},
    },
    memory_mode::MemoryOutcome,
    settings::Settings,
};
use interleaf_console::Failure;

/// Returns the options of loads and stores to the BAR; `None` for a job that uses NVMe.
///
/// # Errors
/// When an option has no meaning for the kind of access (`--access`). The error names the first
/// such option.
pub(super) fn memory_options(job: &CardJob) -> Result<Option<MemoryOptions>, Failure> {
    let Some(initiator) = job.initiator else {
        return match job.fsync {
            None => Ok(None),
            Some(_) => Err(Failure::new(
                "--fsync: FLUSH is not modelled in a load of --access storage",
                "leave --fsync out, or give --access memory",
            )),
        };
    };
    let name = initiator.name();
    for (is_given, option) in [
        (!job.files.is_empty(), "a job file"),
        (job.options.rate_iops.is_some(), "--rate-iops"),
        (job.is_direct, "--direct"),
        (matches!(job.power_failures, Some(Moments::At(_))), "--power-fail-at"),
        (matches!(job.power_failures, Some(Moments::Random(_))), "--power-fail-sweep"),
    ] {
        if is_given {
            let problem = format!("{option} cannot be used with --access {name}");
            return Err(Failure::new(problem, "leave one of the two out"));
        }
    }
    if job.for_curves && job.fsync.is_some() {
        return Err(Failure::new(
            "--curves: read-backs are no points of a curve, and cannot be used with it",
            "leave --fsync out",
        ));
    }
    Ok(Some(MemoryOptions { initiator, fsync: job.fsync }))
}

/// Simulates a fio job of loads and stores to the BAR.
pub(super) fn simulated(
    card: &Card,
    job: &Job,
    options: &MemoryOptions,
) -> Result<MemoryOutcome, Failure> {
    let load = memory::load(job, options, card).map_err(groups::of_option)?;
    load.run(card, &Settings::default()).map_err(|why| {
        let problem = format!("--{why}");
        Failure::new(problem, why.hint)
    })
}
