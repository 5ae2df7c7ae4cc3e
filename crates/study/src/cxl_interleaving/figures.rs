//! Makes the figures of the study on weighted interleaving: published points and predicted lines.

use super::{
    Speedup,
    constants::{self, MlcPoint},
};
use interleaf_model::{
    platform::Platform,
    predict::{LoadPoint, saturating_load},
    weights::Weights,
};
use interleaf_record::figure::{Figure, Scale, Series, SeriesKind};

pub(super) fn all(
    platform: &Platform,
    points: &[MlcPoint],
    sweep: &[LoadPoint],
    speedups: &[Speedup],
) -> Vec<Figure> {
    vec![over_weights(platform, points), figure_4(sweep), workloads(speedups)]
}

/// Makes a figure of section IV.A of the white paper: bandwidth against the share of DRAM, for each
/// mix.
fn over_weights(platform: &Platform, points: &[MlcPoint]) -> Figure {
    let every: Vec<Weights> =
        (0..=50).filter_map(|step| Weights::new(vec![100 - 2 * step, 2 * step]).ok()).collect();
    let percent = |weights: &Weights| 100.0 * weights.shares()[0];
    let mut series = vec![];
    for (group, mix) in constants::mixes(points).into_iter().enumerate() {
        let prediction = saturating_load(platform, mix).predict(platform, &every);
        let line =
            prediction.rows.iter().map(|row| (percent(&row.weights), row.bandwidth_gbps.mean));
        series.push(Series::new(format!("{mix}, ours"), SeriesKind::Line, group, line));
        let own: Vec<&MlcPoint> = points.iter().filter(|point| point.mix == mix).collect();
        let published = own.iter().map(|point| (percent(&point.weights), point.published_gbps));
        let labels = own.iter().map(|point| point.weights.to_string()).collect();
        let published =
            Series::new(format!("{mix}, published"), SeriesKind::Points, group, published);
        series.push(published.with_labels(labels));
    }
    Figure {
        id: "mlc".into(),
        title: "Bandwidth against weights (section IV.A)".into(),
        y_from: 0.0,
        scale: Scale::Linear,
        x_label: "pages on DRAM, %".into(),
        y_label: "bandwidth, GB/s".into(),
        categories: vec![],
        series,
        caption: "Lines are computed from the two tiers on their own and two constants for the \
                  whole platform; points are MLC's, as published."
            .into(),
    }
}

/// Makes figure 4 of the white paper: latency against bandwidth, on DRAM only and with the best
/// weights.
fn figure_4(sweep: &[LoadPoint]) -> Figure {
    let labels = sweep.iter().map(|point| point.best_weights.to_string()).collect();
    Figure {
        id: "load".into(),
        title: "Latency against bandwidth, read-only (figure 4)".into(),
        y_from: 0.0,
        scale: Scale::Linear,
        x_label: "bandwidth, GB/s".into(),
        y_label: "latency, ns".into(),
        categories: vec![],
        series: vec![
            Series::new("DRAM only", SeriesKind::Line, 0, sweep.iter().map(|p| p.local)),
            Series::new("DRAM + CXL", SeriesKind::Line, 1, sweep.iter().map(|p| p.best))
                .with_labels(labels),
        ],
        caption: "Threads pause less and less from left to right. At each point stand the best of \
                  the figure's weights (9:1 to 5:2). The published figure is a picture without \
                  numbers; 9:1 at low and 3:1 at full load are read from its caption."
            .into(),
    }
}

/// Makes the figure of sections IV.B and IV.C of the white paper (its figure 5): the speed-up of
/// each workload.
fn workloads(speedups: &[Speedup]) -> Figure {
    let shown: Vec<&Speedup> =
        speedups.iter().filter(|speedup| speedup.weights.as_slice()[1] > 0).collect();
    let at = |speedup: &dyn Fn(&Speedup) -> f64| {
        shown.iter().enumerate().map(|(at, s)| (at as f64, speedup(s))).collect::<Vec<_>>()
    };
    let ours = at(&|speedup| speedup.ours.speedup.mean);
    let interval = shown.iter().map(|s| (s.ours.speedup.low, s.ours.speedup.high));
    Figure {
        id: "workloads".into(),
        title: "Speed-up over DRAM only (sections IV.B and IV.C)".into(),
        y_from: 0.0,
        scale: Scale::Linear,
        x_label: "workload and weights".into(),
        y_label: "speed-up".into(),
        categories: shown
            .iter()
            .map(|s| {
                format!("{} {}{}", s.workload, s.weights, if s.used_for_fit { " *" } else { "" })
            })
            .collect(),
        series: vec![
            Series::new("published", SeriesKind::Bars, 0, at(&|speedup| speedup.published)),
            Series::new("ours", SeriesKind::Bars, 1, ours).with_interval(interval),
        ],
        caption: "Bars marked * were used to infer how the workload behaves. Whiskers are the \
                  90 % intervals: behaviours that agree with the DRAM-only and 5:2 rows, and the \
                  error of the model."
            .into(),
    }
}
