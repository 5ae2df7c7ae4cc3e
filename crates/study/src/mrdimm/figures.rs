//! Makes the figures of the study on MRDIMMs, from the simulated points.

use super::{DENSITIES, HIGH, LOADS, MIXES, MRDIMM, MRDIMM_4R, ModulePoint, RDIMM, Results};
use interleaf_record::figure::{Figure, Scale, Series, SeriesKind};

/// `BIN_NS` is the width of the bins of the latency histogram, and `END_NS` the end of its last
/// bin, ns.
const BIN_NS: usize = 8;
const END_NS: usize = 1200;

pub(super) fn all(results: &Results) -> Vec<Figure> {
    let mut figures: Vec<Figure> =
        DENSITIES.iter().map(|density| maxima(results, density)).collect();
    figures.extend([latency(results), histogram(results)]);
    figures
}

/// Makes one of figures 4 to 6 of the report: the maximum bandwidth by mix and module, for devices
/// of the density `density`.
fn maxima(results: &Results, density: &'static str) -> Figure {
    let devices = [RDIMM, MRDIMM, MRDIMM_4R];
    let series = devices.iter().enumerate().map(|(group, device)| {
        let of = |(at, mix): (usize, &&'static str)| {
            (at as f64, results.bandwidth(ModulePoint::new(device, density, mix)))
        };
        Series::new(*device, SeriesKind::Bars, group, MIXES.iter().enumerate().map(of))
    });
    Figure {
        id: format!("maxima-{}", density.to_lowercase()),
        title: format!("Maximum bandwidth by mix, devices of {density}"),
        y_from: 0.0,
        scale: Scale::Linear,
        x_label: "mix".into(),
        y_label: "GB/s".into(),
        categories: MIXES.map(String::from).into(),
        series: series.collect(),
        caption: "Twelve channels with a module each.".into(),
    }
}

/// Makes figure 7 of the report: loaded latency against bandwidth.
fn latency(results: &Results) -> Figure {
    let series = [RDIMM, MRDIMM, super::GEN2].into_iter().enumerate().map(|(group, device)| {
        let of = |load: &f64| {
            let point = ModulePoint::new(device, "32Gb", "R").at(*load);
            (results.bandwidth(point), results.latency(point))
        };
        Series::new(device, SeriesKind::Line, group, LOADS.iter().map(of))
    });
    Figure {
        id: "loaded-latency".into(),
        title: "Loaded latency, read-only, devices of 32 Gb".into(),
        y_from: 0.0,
        scale: Scale::Linear,
        x_label: "bandwidth, GB/s".into(),
        y_label: "latency, ns".into(),
        categories: vec![],
        series: series.collect(),
        caption: "Flat, then a gentle slope, then the queues fill.".into(),
    }
}

/// Makes figure 9 of the report: a histogram of the latencies of single cache lines at the load
/// `HIGH`.
fn histogram(results: &Results) -> Figure {
    let series = [RDIMM, MRDIMM].into_iter().enumerate().map(|(group, device)| {
        let point = ModulePoint::new(device, "32Gb", "R").at(HIGH);
        let (bins, count) = results.0.get(&point).map_or((vec![], 1), |(part, _)| {
            (part.latency.bins(BIN_NS, END_NS), part.latency.count().max(1))
        });
        let of =
            |(at, seen): (usize, u64)| ((at * BIN_NS) as f64, 100.0 * seen as f64 / count as f64);
        Series::new(device, SeriesKind::Line, group, bins.into_iter().enumerate().map(of))
    });
    Figure {
        id: "histogram".into(),
        title: format!("Latency of single lines at {HIGH} GB/s, read-only, devices of 32 Gb"),
        y_from: 0.0,
        scale: Scale::Linear,
        x_label: "latency, ns".into(),
        y_label: "% of lines in 8 ns".into(),
        categories: vec![],
        series: series.collect(),
        caption: "The last point is everything above.".into(),
    }
}
