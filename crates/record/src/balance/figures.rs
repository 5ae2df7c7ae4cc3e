//! Figures of a policy's periods on a machine: shares, bandwidth and migrated bytes over time.

use super::BalancePeriod;
use crate::{
    distinct,
    figure::{Figure, Series, SeriesKind},
    simulate_machine::share_axis_from,
};

/// Returns the figures of `periods`, which are in order of time: for each domain the shares and the
/// bandwidth, and for the machine the migrated bytes.
pub fn figures(periods: &[BalancePeriod]) -> Vec<Figure> {
    let domains = distinct(periods.iter().map(|period| period.domain.as_str()));
    let of_domain = |(at, name): (usize, &&str)| {
        let own: Vec<&BalancePeriod> =
            periods.iter().filter(|period| period.domain == **name).collect();
        // The ID of a figure is part of a file name, and the name of a domain may have any
        // character. So the IDs have the position of the domain, counted from 1, and not its name.
        let (suffix, of) = match domains.len() {
            1 => (String::new(), String::new()),
            _ => (format!("-{}", at + 1), format!(" of {name}")),
        };
        [shares(&own, &suffix, &of), bandwidth(&own, &suffix, &of)]
    };
    let mut figures: Vec<Figure> =
        domains.iter().enumerate().flat_map(of_domain).flatten().collect();
    figures.extend(domains.first().and_then(|first| migration(periods, first)));
    figures
}

fn over_time(id: String, title: &str, y_label: &str) -> Figure {
    Figure::new(&id, title, "time, s", y_label)
}

/// Returns a figure of the target and the reached share of each node over time; `None` without
/// periods. Of two nodes, only the first is drawn, because the shares of both sum to 100 %.
fn shares(periods: &[&BalancePeriod], suffix: &str, of: &str) -> Option<Figure> {
    let nodes = &periods.first()?.nodes;
    let shown = if nodes.len() == 2 { 1 } else { nodes.len() };
    let mut series = vec![];
    for (at, node) in nodes.iter().enumerate().take(shown) {
        let reached = periods.iter().filter_map(|period| {
            let share = period.reached_share.as_ref()?.get(at)?;
            Some((period.time_s, 100.0 * share))
        });
        series.push(Series::new(format!("node{node}, reached"), SeriesKind::Line, at, reached));
        let decided = periods.iter().filter_map(|period| {
            let point = (period.time_s, f64::from(*period.target_weights.get(at)?));
            Some((point, format!("{}: {}", period.decision, period.reason)))
        });
        let (points, labels): (Vec<(f64, f64)>, Vec<String>) = decided.unzip();
        let group = if nodes.len() == 2 { at + 1 } else { at };
        let target = Series::new(format!("node{node}, target"), SeriesKind::Points, group, points);
        series.push(target.with_labels(labels));
    }
    series.retain(|series| !series.x.is_empty());
    let lowest = series.iter().flat_map(|series| &series.y).copied().fold(100.0, f64::min);
    let title = format!("Placement of the pages{of}");
    (!series.is_empty()).then(|| Figure {
        y_from: share_axis_from(lowest),
        series,
        caption: "Each point is a decision of the policy; the table of all periods has its reason."
            .into(),
        ..over_time(format!("shares{suffix}"), &title, "pages, %")
    })
}

fn bandwidth(periods: &[&BalancePeriod], suffix: &str, of: &str) -> Option<Figure> {
    let nodes = &periods.first()?.nodes;
    let mut series = vec![];
    for (at, node) in nodes.iter().enumerate() {
        let points = periods
            .iter()
            .filter_map(|period| Some((period.time_s, *period.tier_bandwidth_gbps.get(at)?)));
        series.push(Series::new(format!("node{node}"), SeriesKind::Line, at, points));
    }
    let all = periods.iter().filter_map(|period| Some((period.time_s, period.bandwidth_gbps?)));
    let all = Series::new("all nodes", SeriesKind::Line, nodes.len(), all);
    let is_counted = !all.x.is_empty();
    series.push(all);
    series.retain(|series| !series.x.is_empty());
    let title = format!("Bandwidth{of}");
    is_counted.then(|| Figure {
        series,
        caption: "Means of the periods, by the counters.".into(),
        ..over_time(format!("bandwidth{suffix}"), &title, "bandwidth, GB/s")
    })
}

/// Returns a figure of the bytes migrated since the start; `None` if none were migrated. The
/// periods of each domain have the migrated bytes of the whole machine, so only those of `domain`
/// are summed.
fn migration(periods: &[BalancePeriod], domain: &str) -> Option<Figure> {
    let mut sum = 0.0;
    let moved = periods.iter().filter(|period| period.domain == domain).map(|period| {
        sum += 1e-9 * period.migrated_bytes as f64;
        (period.time_s, sum)
    });
    let series = Series::new("migrated pages", SeriesKind::Line, 0, moved.collect::<Vec<_>>());
    (series.y.last().is_some_and(|sum| *sum > 0.0)).then(|| Figure {
        series: vec![series],
        caption: "Since the start, on the whole machine.".into(),
        ..over_time("migration".into(), "Migration", "migrated, GB")
    })
}
