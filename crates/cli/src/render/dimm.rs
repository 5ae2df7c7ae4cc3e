//! `interleaf.simulate.dimm/1` as text and CSV, and as the curves of a platform.

use super::{chart, number, table::Table};
use crate::document::{
    dimm::{DimmDocument, PointDocument},
    figure::{Figure, Series, SeriesKind},
};

pub(crate) fn text(document: &DimmDocument) -> String {
    let mut text = format!(
        "{} x {} ({} devices of {}), {} GB/s at most\n{} pattern, {} lines on their way, uncore {} \
         ns; latency is of reads, from the core's miss to its data\n\n",
        document.channels,
        document.device,
        document.width,
        document.density,
        number(document.peak_gbps),
        document.pattern,
        document.outstanding,
        number(document.uncore_ns),
    );
    let mut table = Table::new(&[
        "mix", "offered", "GB/s", "of peak", "mean ns", "p50", "p80", "p99", "p99.9", "max",
        "row hits", "W", "pJ/bit", "GB/s/W",
    ]);
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    let optional = |value: Option<f64>, none: &str| value.map_or(none.to_string(), number);
    for point in &document.points {
        let latency = &point.latency_ns;
        table.row([
            point.mix.clone(),
            optional(point.offered_gbps, "max"),
            number(point.bandwidth_gbps),
            percent(point.bus_utilisation),
            number(latency.mean),
            latency.p50.to_string(),
            latency.p80.to_string(),
            latency.p99.to_string(),
            latency.p99_9.to_string(),
            latency.max.to_string(),
            percent(point.row_hit_rate),
            optional(point.power_w, ""),
            optional(point.energy_pj_per_bit, ""),
            optional(point.gbps_per_w, ""),
        ]);
    }
    text += &table.text();
    if document.points.iter().any(|point| point.offered_gbps.is_some()) {
        let chart = chart::text(&curves(document));
        if !chart.is_empty() {
            text += &format!("\n{chart}");
        }
    }
    if let Some(timing) = &document.timing {
        text += &format!(
            "\n{} s, {} million requests a second\n",
            number(timing.wall_s),
            number(timing.requests_per_s * 1e-6)
        );
    }
    text
}

/// Latency against bandwidth.
fn curves(document: &DimmDocument) -> Figure {
    let mut mixes: Vec<&str> = document.points.iter().map(|point| point.mix.as_str()).collect();
    mixes.dedup();
    let series = mixes.into_iter().enumerate().map(|(group, mix)| {
        let points = document.points.iter().filter(|point| point.mix == mix);
        let points = points.map(|point| (point.bandwidth_gbps, point.latency_ns.mean));
        Series::new(mix, SeriesKind::Line, group, points)
    });
    Figure {
        id: "loaded-latency".into(),
        title: format!("loaded latency of {}", document.device),
        x_label: "bandwidth, GB/s".into(),
        y_label: "latency, ns".into(),
        y_from: 0.0,
        categories: vec![],
        series: series.collect(),
        caption: String::new(),
    }
}

/// One row for each point.
pub(crate) fn csv(document: &DimmDocument) -> String {
    let mut table = Table::new(&[
        "device",
        "density",
        "width",
        "channels",
        "mix",
        "offered_gbps",
        "bandwidth_gbps",
        "bus_utilisation",
        "latency_mean_ns",
        "latency_p50_ns",
        "latency_p80_ns",
        "latency_p99_ns",
        "latency_p99_9_ns",
        "latency_max_ns",
        "below_204ns",
        "row_hit_rate",
        "power_w",
        "energy_pj_per_bit",
        "gbps_per_w",
        "gbps_per_data_pin",
    ]);
    let optional = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for point in &document.points {
        let latency = &point.latency_ns;
        table.row([
            document.device.clone(),
            document.density.clone(),
            document.width.clone(),
            document.channels.to_string(),
            point.mix.clone(),
            optional(point.offered_gbps),
            point.bandwidth_gbps.to_string(),
            point.bus_utilisation.to_string(),
            latency.mean.to_string(),
            latency.p50.to_string(),
            latency.p80.to_string(),
            latency.p99.to_string(),
            latency.p99_9.to_string(),
            latency.max.to_string(),
            latency.below_204ns.to_string(),
            point.row_hit_rate.to_string(),
            optional(point.power_w),
            optional(point.energy_pj_per_bit),
            optional(point.gbps_per_w),
            point.gbps_per_data_pin.to_string(),
        ]);
    }
    table.csv()
}

/// The file of curves that a tier of a platform can have.
pub(crate) fn curves_csv(document: &DimmDocument) -> String {
    let mut table = Table::new(&["mix", "bandwidth_gbps", "latency_ns", "provenance", "source"]);
    let source = format!(
        "interleaf simulate dimm --device {} --density {} --width {} --channels {}",
        document.device, document.density, document.width, document.channels
    );
    let row = |point: &PointDocument| {
        [
            point.mix.clone(),
            point.bandwidth_gbps.to_string(),
            point.latency_ns.mean.to_string(),
            "simulated".to_string(),
            source.clone(),
        ]
    };
    let (mut mix, mut held) = ("", 0.0);
    for point in &document.points {
        // More that is asked for beyond the maximum is noise: a curve ends there.
        let in_flight = point.bandwidth_gbps * point.latency_ns.mean;
        if point.mix != mix || in_flight > 1.01 * held {
            table.row(row(point));
            (mix, held) = (&point.mix, in_flight);
        }
    }
    table.csv()
}
