//! Determines the metric and the resources of one run of a comparison.

use super::{CompareOptions, Compared, Quantity};
use crate::log;
use interleaf_linux::launch::command::Resources;
use interleaf_record::{
    bench::BenchDocument,
    compare_runs::{ComparedRun, WALL_TIME},
    rounded,
};
use std::{fs, path::Path, time::Duration};

/// Units of time. A metric in one of these units is better if it is lower.
const UNITS_OF_TIME: [&str; 4] = ["s", "ms", "us", "ns"];

/// The unit of a metric, and its direction: true if a higher metric is better.
pub(super) struct FoundMetric {
    pub(super) unit: String,
    pub(super) higher_is_better: bool,
}

/// Returns the name of the metric of the workload `compared`.
pub(super) fn metric(options: &CompareOptions, compared: &Compared) -> String {
    match (&options.metric, compared) {
        (Some(metric), _) => metric.to_string(),
        (None, Compared::Command(_)) => match options.quantity {
            Quantity::WallTime => WALL_TIME.into(),
            Quantity::CpuTime => "CPU time".into(),
            Quantity::Memory => "peak memory".into(),
        },
        (None, Compared::Bench { .. }) => "its own metric".into(),
    }
}

/// True if a higher metric is better for the workload `compared`.
pub(super) fn higher_is_better(options: &CompareOptions, compared: &Compared) -> bool {
    match (&options.metric, compared) {
        (Some(_), _) => options.higher_is_better,
        (None, Compared::Command(_)) => false,
        (None, Compared::Bench { rate_unit, .. }) => is_rate(rate_unit),
    }
}

/// True if `unit`, the unit of a result of `interleaf bench`, is that of a rate and not of a time.
fn is_rate(unit: &str) -> bool {
    !UNITS_OF_TIME.contains(&unit)
}

/// Returns the unit of the metric of the workload `compared` before its first run; empty if it is
/// unknown.
pub(super) fn unit<'a>(options: &CompareOptions, compared: &'a Compared) -> &'a str {
    match (&options.metric, compared) {
        (None, Compared::Bench { rate_unit, .. }) => rate_unit,
        (None, Compared::Command(_)) => match options.quantity {
            Quantity::WallTime | Quantity::CpuTime => "s",
            Quantity::Memory => "MiB",
        },
        (Some(_), _) => "",
    }
}

/// The failure of a run whose metric is peak memory if the kernel's figure may be the peak of this
/// process instead of the command's ([`Resources::resident_max`]).
const UNKNOWN_PEAK: &str = "its peak memory is not known, because it is below that of interleaf";

/// Returns the document of a run: the resources that the command used, and the metric that
/// `quantity` selects. A metric must be above 0, so a measured time of 0 s is recorded as 1e-9 s.
///
/// # Errors
/// When the metric is peak memory, and it is not known.
pub(super) fn run(
    quantity: Quantity,
    elapsed: Duration,
    used: &Resources,
) -> Result<ComparedRun, String> {
    let seconds = |time: Duration| rounded(time.as_secs_f64());
    let value = match quantity {
        Quantity::WallTime => elapsed.as_secs_f64(),
        Quantity::CpuTime => (used.user + used.system).as_secs_f64(),
        Quantity::Memory => used.resident_max.ok_or(UNKNOWN_PEAK)? as f64 / f64::from(1 << 20),
    };
    Ok(ComparedRun {
        value: rounded(value.max(1e-9)),
        wall_s: seconds(elapsed),
        user_s: seconds(used.user),
        system_s: seconds(used.system),
        resident_max_bytes: used.resident_max,
        minor_faults: used.minor_faults,
        major_faults: used.major_faults,
        read_bytes: used.read,
        written_bytes: used.written,
        ..ComparedRun::default()
    })
}

/// Sets the metric of `run`: with `--metric` from the run's output `text`, and for a workload of
/// `interleaf bench` from its record. Otherwise keeps the metric that the function [`run`] has set.
/// Returns the unit and the direction of the metric.
///
/// # Errors
/// When the output or the record has no metric above 0.
pub(super) fn measure(
    options: &CompareOptions,
    compared: &Compared,
    text: &str,
    record: &Path,
    run: &mut ComparedRun,
) -> Result<FoundMetric, String> {
    let higher_is_better = higher_is_better(options, compared);
    if let Some(metric) = &options.metric {
        run.value = log::number(metric, text)?;
        return Ok(FoundMetric { unit: String::new(), higher_is_better });
    }
    if let Compared::Command(_) = compared {
        return Ok(FoundMetric { unit: unit(options, compared).into(), higher_is_better });
    }
    let record = fs::read_to_string(record).map_err(|why| format!("left no record: {why}"))?;
    let bench: BenchDocument =
        serde_json::from_str(&record).map_err(|why| format!("left no record: {why}"))?;
    if !(bench.rate.is_finite() && bench.rate > 0.0) {
        return Err(format!("has a result of {} {}, not above 0", bench.rate, bench.rate_unit));
    }
    run.value = bench.rate;
    run.checksum = Some(bench.checksum);
    let higher_is_better = is_rate(&bench.rate_unit);
    Ok(FoundMetric { unit: bench.rate_unit, higher_is_better })
}
