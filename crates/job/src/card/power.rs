//! Simulates power failures of a card during a load.

use super::groups::{self, Group};
use interleaf_card::{
    card::Card,
    load::Outcome,
    power::{PowerFailure, PowerSweep, SweepOptions},
    power_run::{ObservedRun, observe, power_failures},
    settings::Settings,
};
use interleaf_console::Failure;
use interleaf_record::card::CardPowerFailure;
use rayon::prelude::*;

/// The moments at which the power fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moments {
    /// At one moment, in ns after the start of the measurement.
    At(u64),
    /// At this number of random moments in the run.
    Random(u32),
}

/// Checks that each group has writes that a power failure could lose, and that a given moment is
/// not after the end of the group's measurement.
///
/// # Errors
/// When a group has no writes, or when a given moment is after the end of the group's measurement.
pub(super) fn check_moments(moments: Option<Moments>, groups: &[Group]) -> Result<(), Failure> {
    let (option, moments) = match moments {
        Some(moments @ Moments::At(_)) => ("--power-fail-at", moments),
        Some(moments @ Moments::Random(_)) => ("--power-fail-sweep", moments),
        None => return Ok(()),
    };
    for group in groups {
        if !group.jobs.iter().any(|job| job.rw.has_writes()) {
            return Err(Failure::new(
                format!("{option}: {} has no writes that could be lost", group.jobs[0].rw.name()),
                "give a load with writes, such as --rw randwrite",
            ));
        }
        let runtime = group.jobs.iter().find_map(|job| job.runtime_ns);
        let runtime = runtime.unwrap_or(interleaf_card::fio::load::RUNTIME_NS);
        if let Moments::At(at) = moments
            && at > runtime
        {
            let ms = |ns: u64| ns as f64 * 1e-6;
            return Err(Failure::new(
                format!("{option}: {} ms is after the measurement of {} ms", ms(at), ms(runtime)),
                "give an earlier time, or a longer --runtime",
            ));
        }
    }
    Ok(())
}

/// Simulates the load of `group` once, and then, for each of the `moments` of this run, a power
/// failure at the moment. Returns the outcome of the load, and the combined result of all power
/// failures.
pub(super) fn simulated(
    card: &Card,
    group: &Group,
    moments: Moments,
) -> Result<(Outcome, CardPowerFailure), Failure> {
    let load = groups::load(&group.jobs, card)?;
    let ObservedRun { outcome, timeline } = observe(&load, card, &Settings::default())
        .map_err(|why| Failure::new(why.to_string(), why.hint))?;
    let failures = power_failures(card, &timeline, load.seed);
    let mut sweep = PowerSweep::empty();
    let at_s = match moments {
        Moments::At(ns) => {
            sweep.add(failures.at(load.ramp_fs + ns * 1_000_000, load.seed));
            Some(ns as f64 * 1e-9)
        }
        Moments::Random(count) => {
            let options = SweepOptions { moments: count.into(), seed: load.seed };
            let moments = options.moments_of(&failures);
            let results: Vec<PowerFailure> =
                moments.par_iter().map(|(at, seed)| failures.at(*at, *seed)).collect();
            results.into_iter().for_each(|failure| sweep.add(failure));
            None
        }
    };
    Ok((outcome, CardPowerFailure::new(card, &group.jobs, at_s, &sweep)))
}
