//! Makes the figures of the study on dynamic memory interleaving, from the simulated runs.

use super::{Experiment, POLICIES};
use interleaf_console::Failure;
use interleaf_model::policy::PolicyKind;
use interleaf_record::{
    figure::{Figure, Scale, Series, SeriesKind},
    simulate_machine::share_axis_from,
};
use interleaf_sim::machine::{Outcome, PeriodRecord};

/// Index of bwaves among the workloads. This workload has figures of its own, because the slides
/// show its run over time.
const BWAVES: usize = 2;

pub(super) fn all(alone: &[Experiment], shifting: &Experiment) -> Result<Vec<Figure>, Failure> {
    let bwaves = &alone[BWAVES];
    Ok(vec![
        policies(alone)?,
        ratio("bwaves-ratio", "Interleave ratio: bwaves", bwaves)?,
        migration(bwaves)?,
        ratio("shifting-ratio", "Interleave ratio: shifting demand", shifting)?,
        bandwidth(shifting)?,
    ])
}

/// Makes the figure of the speed-up of each workload that runs alone, under each policy.
fn policies(alone: &[Experiment]) -> Result<Figure, Failure> {
    let mut series = vec![];
    for (group, policy) in POLICIES.iter().enumerate() {
        let mut bars = vec![];
        for (x, experiment) in alone.iter().enumerate() {
            let speedup = experiment.outcome(*policy)?.tasks[0].speedup();
            bars.extend(speedup.map(|speedup| (x as f64, speedup)));
        }
        series.push(Series::new(policy.to_string(), SeriesKind::Bars, group, bars));
    }
    Ok(Figure {
        id: "policies".into(),
        title: "Single-workload performance, search included".into(),
        y_from: 0.0,
        scale: Scale::Linear,
        x_label: "workload, 119 threads".into(),
        y_label: "speed-up over all pages on DRAM".into(),
        categories: alone.iter().map(|experiment| experiment.scenario.name.clone()).collect(),
        series,
        caption: "The first three want bandwidth, the others low latency. Static has the best \
                  ratio for each."
            .into(),
    })
}

/// Makes a figure of two shares of the first tier over time, under two policies: the target share
/// of the pages, and the actual share of the accesses.
fn ratio(id: &str, title: &str, experiment: &Experiment) -> Result<Figure, Failure> {
    let mut series = vec![];
    for (group, policy) in [PolicyKind::Dmi, PolicyKind::Guided].into_iter().enumerate() {
        let outcome = experiment.outcome(policy)?;
        let reached = over_time(outcome, |period| 100.0 * period.reached[0]);
        let name = format!("{policy}: where the accesses go");
        series.push(Series::new(name, SeriesKind::Line, group, reached));
        let target = over_time(outcome, |period| 100.0 * period.target[0]);
        let reasons = outcome
            .periods
            .iter()
            .map(|period| format!("{}: {}", period.actions.join(", "), period.reasons.join("; ")));
        let name = format!("{policy}: target");
        let target = Series::new(name, SeriesKind::Points, group, target);
        series.push(target.with_labels(reasons.collect()));
    }
    let lowest = series.iter().flat_map(|series| &series.y).copied().fold(100.0, f64::min);
    Ok(Figure {
        id: id.into(),
        title: title.into(),
        y_from: share_axis_from(lowest),
        scale: Scale::Linear,
        x_label: "time, s".into(),
        y_label: "on DRAM, %".into(),
        categories: vec![],
        series,
        caption: "Each point is a decision; hover over it to read its reason.".into(),
    })
}

/// Makes the figure of the bytes that were migrated since the start of the run, under three
/// policies.
fn migration(experiment: &Experiment) -> Result<Figure, Failure> {
    let mut series = vec![];
    for (group, policy) in
        [PolicyKind::Dmi, PolicyKind::Colloid, PolicyKind::Guided].into_iter().enumerate()
    {
        let mut sum = 0.0;
        let moved = over_time(experiment.outcome(policy)?, |period| {
            sum += period.migrated_bytes as f64 * 1e-9;
            sum
        });
        series.push(Series::new(policy.to_string(), SeriesKind::Line, group, moved));
    }
    Ok(Figure {
        id: "bwaves-migration".into(),
        title: "Migration over time: bwaves".into(),
        y_from: 0.0,
        scale: Scale::Linear,
        x_label: "time, s".into(),
        y_label: "pages moved, GB".into(),
        categories: vec![],
        series,
        caption: "Bytes of pages that moved since the start.".into(),
    })
}

/// Makes the figure of the bandwidth of each tier over time under the policy `dmi`.
fn bandwidth(experiment: &Experiment) -> Result<Figure, Failure> {
    let outcome = experiment.outcome(PolicyKind::Dmi)?;
    let tiers = experiment.scenario.platform.tiers.iter().enumerate();
    let series = tiers.map(|(at, tier)| {
        let line = over_time(outcome, |period| period.tier_bandwidth_gbps[at]);
        Series::new(tier.name.clone(), SeriesKind::Line, at, line)
    });
    Ok(Figure {
        id: "shifting-bandwidth".into(),
        title: "Bandwidth under dmi: shifting demand".into(),
        y_from: 0.0,
        scale: Scale::Linear,
        x_label: "time, s".into(),
        y_label: "GB/s".into(),
        categories: vec![],
        series: series.collect(),
        caption: "As counted, with noise and the pages that move.".into(),
    })
}

fn over_time(outcome: &Outcome, mut value: impl FnMut(&PeriodRecord) -> f64) -> Vec<(f64, f64)> {
    outcome.periods.iter().map(|period| (period.time_s, value(period))).collect()
}
