//! Makes the figures of the four comparisons in the slides on NVRAM cards: IOPS and latency, of
//! writes and of reads, by queue depth.

use super::{Access, CardResults, DEPTHS, DRAM, MRAM, Simulated};
use interleaf_record::figure::{Figure, Scale, Series, SeriesKind};

pub(super) fn all(results: &CardResults) -> Vec<Figure> {
    let iops = |point: &Simulated| 1e-3 * point.iops;
    let latency = |point: &Simulated| point.latency_us;
    vec![
        figure(results, Access::RandomWrite, "iops-write", "thousand IOPS", iops),
        figure(results, Access::RandomRead, "iops-read", "thousand IOPS", iops),
        figure(results, Access::RandomWrite, "latency-write", "mean latency, us", latency),
        figure(results, Access::RandomRead, "latency-read", "mean latency, us", latency),
    ]
}

fn figure(
    results: &CardResults,
    access: Access,
    id: &str,
    y_label: &str,
    of: fn(&Simulated) -> f64,
) -> Figure {
    let series = [DRAM, MRAM].into_iter().enumerate().map(|(group, card)| {
        let points = DEPTHS
            .into_iter()
            .filter_map(|depth| Some((f64::from(depth), of(results.of(card, access, depth)?))));
        Series::new(card, SeriesKind::Line, group, points)
    });
    let direction = if access == Access::RandomWrite { "writes" } else { "reads" };
    Figure {
        id: id.into(),
        title: format!("4 KB random {direction}"),
        x_label: "queue depth".into(),
        y_label: y_label.into(),
        y_from: 0.0,
        scale: Scale::LogX,
        categories: vec![],
        series: series.collect(),
        caption: "Both cards have the same link and controller.".into(),
    }
}
