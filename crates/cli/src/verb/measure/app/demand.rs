//! Converts a profile of a command (`measure app`) to a demand file, the input of a prediction.

use crate::args::AppArgs;
use interleaf_console::{Failure, output};
use interleaf_model::{
    demand::{Demand, Hotness, LocalRun, Metric, Phase},
    format::{demand_toml, toml_text::check_line},
    mix::Mix,
    provenance::{Figure, Provenance},
    units::Bytes,
};
use interleaf_record::measure_app::{AppDocument, PhaseDocument, ProfileDocument};
use std::path::Path;

/// Minimum share of the command's memory on the first tier. If the share is lower, no demand is
/// written: a demand describes runs with all pages on the first tier.
const LOCAL_LEAST: f64 = 0.95;

/// The read share, and its range, that are assumed if reads and writes were not counted. The range
/// includes most programs.
const READ_SHARE: f64 = 0.75;
const READ_SHARE_RANGE: (f64, f64) = (0.5, 1.0);

/// Minimum bandwidth of a phase, GB/s. The bandwidth of an idle phase is raised to this value,
/// because a demand file requires a positive bandwidth.
const GBPS_LEAST: f64 = 0.001;

/// Writes the demand of the profiled run to the file `path`. `arrived_signal` is the signal that
/// ended the run, if any.
pub(super) fn write(
    path: &Path,
    args: &AppArgs,
    document: &mut ProfileDocument,
    arrived_signal: Option<i32>,
) -> Result<(), Failure> {
    let demand = demand(args, document, arrived_signal)?;
    output::file(path, &(head(document) + &demand_toml::text(&demand)))?;
    document.app.demand_file = Some(path.display().to_string());
    Ok(())
}

/// Returns the TOML comments at the head of the demand file: the origin of its figures, its
/// assumptions, and the run's warnings.
fn head(document: &ProfileDocument) -> String {
    let app = &document.app;
    let whole = app.whole.clone().unwrap_or_default();
    let mut lines = vec![format!("{}, once, by `interleaf measure app`.", app.command.join(" "))];
    if whole.bandwidth_gbps.is_none() {
        lines.push(
            "Bandwidth was not counted: bandwidth_gbps of [[local]] and [[phase]] are".into(),
        );
        lines.push("left out, and the read share is between what most programs have.".into());
    } else {
        if whole.read_share.is_none() {
            lines.push(
                "Reads and writes were not counted apart: most programs' are between.".into(),
            );
        }
        lines
            .push("Counters do not tell whether stores are non-temporal: add nontemporal =".into());
        lines.push("true to mix if they are.".into());
    }
    if app.first_tier_share().is_none() {
        lines.push("Where its pages were was not seen: all of them should have been on".into());
        lines.push("the first tier.".into());
    }
    lines.extend(app.warnings.iter().map(|warning| format!("Warning: {warning}.")));
    lines.push("Hotness was not measured: without [hotness] all pages are equally hot.".into());
    lines.push("[[local]] runs with other threads make a prediction more certain.".into());
    // Each line becomes one TOML comment. Replace line breaks, which an argument of the command may
    // contain: they would end the comment.
    let text: String = lines
        .iter()
        .map(|line| line.replace(['\n', '\r'], " "))
        .map(|line| format!("# {line}\n"))
        .collect();
    text + "\n"
}

fn demand(
    args: &AppArgs,
    document: &ProfileDocument,
    arrived_signal: Option<i32>,
) -> Result<Demand, Failure> {
    let app = &document.app;
    let (Some(whole), Some(runtime_s)) = (&app.whole, app.runtime_s) else {
        return Err(Failure::new("the command did not run", "see why"));
    };
    if app.exit_code != Some(0) && arrived_signal.is_none() {
        return Err(Failure::new(
            "no demand is written: the command failed, so this run says little of it",
            "mend the command, or end it with Ctrl-C when enough was seen",
        ));
    }
    if let Some(share) = app.first_tier_share().filter(|share| *share < LOCAL_LEAST) {
        let (first, percent) = (&app.tiers[0], 100.0 * share);
        let nodes: Vec<String> = first.nodes.iter().map(u32::to_string).collect();
        return Err(Failure::new(
            format!(
                "no demand is written: only {percent:.1} % of the command's memory was on {}, and \
                 a demand is of a run with all of it there",
                first.name
            ),
            format!("run it as numactl --membind {} COMMAND, as the command", nodes.join(",")),
        ));
    }
    let counted = whole.bandwidth_gbps.filter(|gbps| *gbps > 0.0);
    let share = whole.read_share.filter(|_| counted.is_some());
    let mix = Mix::new(share.unwrap_or(READ_SHARE), false)
        .map_err(|why| Failure::new(why.to_string(), "report it, with the record of -o"))?;
    let seen = whole.threads_running_max.clamp(1, app.cpus.max(1)) as u32;
    let local = LocalRun {
        threads: args.threads.unwrap_or(seen),
        result: runtime_s.max(1e-6),
        bandwidth_gbps: counted.map(|gbps| gbps.max(GBPS_LEAST)),
        bandwidth_place: String::new(),
        series: String::new(),
    };
    Ok(Demand {
        name: args.name.clone().unwrap_or_else(|| program(app)),
        figure: Figure { provenance: Provenance::Measured, source: source(document) },
        platform: args.platform.clone(),
        mix,
        read_share_range: share.map_or(READ_SHARE_RANGE, |share| (share, share)),
        footprint: Some(whole.resident_max_bytes).filter(|it| *it > 0).map(Bytes::new),
        outstanding_lines_per_thread: None,
        metric: Metric::Runtime,
        local: vec![local],
        interleaved: vec![],
        hotness: Hotness::Uniform,
        phases: phases(&app.phases),
    })
}

/// Converts the phases of a profile to the phases of a demand; a single phase is left out. The
/// share of time of a phase is rounded to millionths. The last phase gets the rest, because a
/// demand file requires that the shares sum to 1.
fn phases(found: &[PhaseDocument]) -> Vec<Phase> {
    const WHOLE: f64 = 1e6;
    if found.len() < 2 {
        return vec![];
    }
    let mut left = WHOLE;
    let last = found.len() - 1;
    let phases = found.iter().enumerate().map(|(at, phase)| {
        let millionths = (phase.share_of_time * WHOLE).round().min(left);
        let millionths = if at == last { left } else { millionths };
        left -= millionths;
        let bandwidth_gbps = phase.bandwidth_gbps.max(GBPS_LEAST);
        Phase { share_of_time: millionths / WHOLE, bandwidth_gbps }
    });
    phases.collect()
}

/// Returns the file name of the program that the command runs.
fn program(app: &AppDocument) -> String {
    let first = app.command.first().map(String::as_str).unwrap_or_default();
    let name = Path::new(first).file_name().map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| check_line(name).is_ok()).unwrap_or_else(|| "command".into())
}

/// Returns the origin of the demand's figures in words: the CPU and the kernel.
fn source(document: &ProfileDocument) -> String {
    let machine = &document.machine;
    let parts = [machine.cpu.clone(), machine.kernel.clone().map(|it| format!("Linux {it}"))];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("a run under interleaf measure app on {}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A demand file accepts the phases of any profile, because their shares of time sum to 1.
        #[test]
        fn shares_sum_to_1(parts in prop::collection::vec(0.001f64..1.0, 2..16)) {
            let sum: f64 = parts.iter().sum();
            let phase = |part: &f64| PhaseDocument {
                from_s: 0.0,
                to_s: 1.0,
                share_of_time: part / sum,
                bandwidth_gbps: 0.0,
                read_share: None,
            };
            let found: Vec<PhaseDocument> = parts.iter().map(phase).collect();
            let demand = Demand {
                name: "a name".into(),
                figure: Figure::assumed("a test"),
                platform: None,
                mix: Mix::READ,
                read_share_range: (1.0, 1.0),
                footprint: None,
                outstanding_lines_per_thread: None,
                metric: Metric::Runtime,
                local: vec![LocalRun {
                    threads: 1,
                    result: 1.0,
                    bandwidth_gbps: None,
                    bandwidth_place: String::new(),
                    series: String::new(),
                }],
                interleaved: vec![],
                hotness: Hotness::Uniform,
                phases: phases(&found),
            };
            let read = demand_toml::parse("demand.toml", &demand_toml::text(&demand));
            prop_assert_eq!(read, Ok(demand));
        }
    }
}
