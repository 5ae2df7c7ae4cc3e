//! The runs of `interleaf reproduce imdt` on this machine: the workloads of the study of Intel
//! Memory Drive Technology (IMDT) on DRAM, the pager, swap and mapped files, at several footprints
//! and numbers of threads.

use crate::{
    args::{BenchCompareArgs, OutputArgs, ReproduceArgs, STUDY_STORE},
    comparison::pattern::{PATTERNS, STUDY_WORKLOADS},
    verb::bench::compare,
};
use interleaf_console::{Failure, output};
use interleaf_launch::extend;
use interleaf_model::units::{Bytes, Time};
use interleaf_record::reproduce::StudyDocument;
use interleaf_study::imdt::{MeasuredRun, with_measured};
use std::{
    path::Path,
    slice,
    time::{Duration, Instant},
};

/// The DRAM budget of each run, bytes. `QUICK_DRAM` is the budget with `--quick`.
const DRAM: u64 = 256 << 20;
const QUICK_DRAM: u64 = 24 << 20;

/// Footprints as multiples of the budget, in the order of the runs. Twice the budget comes first:
/// the predictions for the other footprints are based on the runs at this footprint.
const RATIOS: [f64; 6] = [2.0, 0.25, 0.5, 1.0, 1.5, 4.0];
const QUICK_RATIOS: [f64; 4] = [2.0, 0.5, 4.0, 1.5];

/// With `--quick`, only the first `QUICK` workloads of [`STUDY_WORKLOADS`] run.
const QUICK: usize = 7;

/// Numbers of threads, as multiples of this machine's CPUs. The published study also doubles the
/// threads twice: it has 22, 44 and 88 threads on two sockets of 22 cores.
const THREADS: [u32; 3] = [1, 2, 4];

/// Time limit of all runs together: half a day. When it expires, the current run is ended, and no
/// other run begins. `QUICK_DEADLINE` is the limit with `--quick`.
const DEADLINE: Duration = Duration::from_secs(12 * 3600);
const QUICK_DEADLINE: Duration = Duration::from_secs(150);

/// Time limit of a single run, s. `QUICK_LIMIT_S` is the limit with `--quick`.
const LIMIT_S: f64 = 600.0;
const QUICK_LIMIT_S: f64 = 10.0;

/// Measures this machine, and adds the results to `study`. If the machine cannot be measured, adds
/// a remark with the reason. Returns the signal that ended the measurement, if any.
///
/// # Errors
/// When a result is wrong, or a store that the user named cannot be measured.
pub(super) fn measure(
    args: &ReproduceArgs,
    study: &mut StudyDocument,
) -> Result<Option<i32>, Failure> {
    let deadline = Instant::now() + if args.quick { QUICK_DEADLINE } else { DEADLINE };
    let drive = match extend::measured_drive(slice::from_ref(&args.store), false) {
        Err(why) if args.store != Path::new(STUDY_STORE) => return Err(why),
        drive => drive,
    };
    let measured =
        drive.and_then(|drive| Ok((drive, compare::comparisons(&comparisons(args), deadline)?)));
    let (drive, found) = match measured {
        Ok(measured) => measured,
        Err(why) => {
            output::message(&format!("this machine is not measured: {why}"));
            study.remarks.push(format!("this machine was not measured: {why}"));
            return Ok(None);
        }
    };
    if let Some(document) = found.documents.iter().find(|document| document.has_wrong_result()) {
        let rows = document.rows.iter().filter(|row| row.rate.is_some() && !row.verified);
        let names: Vec<String> =
            rows.map(|row| format!("{} on {}", row.pattern, row.way)).collect();
        return Err(Failure::new(format!("wrong results: {}", names.join(", ")), "report it"));
    }
    let settings = |name: &str| {
        let pattern = PATTERNS.iter().find(|pattern| pattern.name == name)?;
        Some((pattern.kind, pattern.setting(0)))
    };
    let runs: Vec<MeasuredRun<'_>> = found
        .documents
        .iter()
        .map(|document| MeasuredRun { document, settings: &settings, drive: &drive })
        .collect();
    with_measured(study, &runs)?;
    study.remarks.extend(found.signal.map(|signal| {
        format!("signal {signal} ended the runs on this machine: its tables are not complete")
    }));
    if !found.left_out.is_empty() {
        study.remarks.push(format!(
            "left out, for the time was over (threads in brackets): {}",
            found.left_out.join(", ")
        ));
    }
    Ok(found.signal)
}

/// Returns the arguments of `bench compare`: one element for each number of threads.
fn comparisons(args: &ReproduceArgs) -> Vec<BenchCompareArgs> {
    let cores = std::thread::available_parallelism().map_or(1, |it| it.get() as u32);
    let threads = match args.quick {
        true => vec![1],
        false => THREADS.map(|times| times * cores).to_vec(),
    };
    // `swap` and `mmap` need a control group with a memory limit, and `swap` needs a swap file.
    // Only root can create them.
    let ways: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["dram", "pager", "swap", "mmap"],
        false => &["dram", "pager"],
    };
    let workloads: Vec<String> = STUDY_WORKLOADS
        .iter()
        .take(if args.quick { QUICK } else { STUDY_WORKLOADS.len() })
        .map(ToString::to_string)
        .collect();
    let workloads = if args.workload.is_empty() { workloads } else { args.workload.clone() };
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    let comparison = |threads: u32| BenchCompareArgs {
        store: args.store.clone(),
        dram: args.dram.unwrap_or(Bytes::new(if args.quick { QUICK_DRAM } else { DRAM })),
        workload: workloads.clone(),
        ratio: if args.quick { QUICK_RATIOS.to_vec() } else { RATIOS.to_vec() },
        rounds: if args.quick { 1 } else { 3 },
        ways: words(ways),
        threads,
        slack: Bytes::new(16 << 20),
        limit: Time::from_seconds(if args.quick { QUICK_LIMIT_S } else { LIMIT_S }),
        by: None,
        no_drive: true,
        output: OutputArgs { json: false, csv: false, output: None },
        report: None,
    };
    threads.into_iter().map(comparison).collect()
}
