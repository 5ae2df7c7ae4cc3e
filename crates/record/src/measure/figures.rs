//! Figures of a measurement: bandwidth, loaded-latency curves, weights, caches and histograms.

use super::{MeasureDocument, MeasuredPoint, PointKind, weights_text};
use crate::figure::{Figure, Series, SeriesKind};

impl MeasureDocument {
    /// Returns all figures for which the measurement has points.
    pub fn figures(&self) -> Vec<Figure> {
        let all = [
            self.bandwidth_figure(),
            self.curves_figure(),
            self.weights_figure(),
            self.best_weights_figure(),
            self.caches_figure(),
            self.histograms_figure(),
        ];
        all.into_iter().flatten().collect()
    }

    /// Returns a figure of the bandwidth: a group of bars for each mix. A group has a bar for each
    /// pair of CPU node and memory node, and for each choice of weights. Returns `None` for fewer
    /// than two mixes.
    fn bandwidth_figure(&self) -> Option<Figure> {
        let mut mixes: Vec<String> = vec![];
        let mut series: Vec<(String, Vec<(f64, f64)>)> = vec![];
        for point in self.points_of_kind(PointKind::Bandwidth) {
            let (Some(mix), Some(gbps)) = (&point.mix, point.program_gbps) else { continue };
            let at = mixes.iter().position(|known| known == mix).unwrap_or_else(|| {
                mixes.push(mix.clone());
                mixes.len() - 1
            });
            add_point(&mut series, place(point), (at as f64, gbps));
        }
        let figure = Figure::new("bandwidth", "Bandwidth by mix", "mix", "bandwidth, GB/s");
        let caption = "Loads and stores of the program; the controllers' traffic is higher if \
             stores read their lines first.";
        (mixes.len() > 1).then(|| Figure {
            categories: mixes,
            series: to_series(series, SeriesKind::Bars),
            caption: caption.into(),
            ..figure
        })
    }

    /// Returns a figure of latency against bandwidth: a line for each mix and each pair of CPU node
    /// and memory node. Returns `None` without loaded-latency points.
    fn curves_figure(&self) -> Option<Figure> {
        let mut series = vec![];
        for point in self.loaded() {
            let (Some(gbps), Some(ns)) = (point.program_gbps, point.latency_ns) else { continue };
            let mix = point.mix.as_deref().unwrap_or("");
            add_point(&mut series, format!("{mix}, {}", place(point)), (gbps, ns));
        }
        let figure = Figure::new("curves", "Latency under load", "bandwidth, GB/s", "latency, ns");
        let caption = "Each point is one load, from none to all that the threads can make; \
                       bandwidth may bend back when memory is saturated.";
        (!series.is_empty()).then(|| Figure {
            series: to_series(series, SeriesKind::Line),
            caption: caption.into(),
            ..figure
        })
    }

    /// Returns a figure of bandwidth against the share of pages on the first node: a line for each
    /// mix.
    fn weights_figure(&self) -> Option<Figure> {
        let mut series: Vec<(String, Vec<(f64, f64)>)> = vec![];
        for point in self.points_of_kind(PointKind::Interleave) {
            let (Some(mix), Some(gbps)) = (&point.mix, point.program_gbps) else { continue };
            let Some(weights) = &point.weights else { continue };
            add_point(&mut series, mix.clone(), (100.0 * first_share(weights), gbps));
        }
        for (_, points) in &mut series {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        let x = "pages on the first node, %";
        let figure = Figure::new("weights", "Bandwidth by weights", x, "bandwidth, GB/s");
        (series.iter().any(|(_, points)| points.len() > 1)).then(|| Figure {
            series: to_series(series, SeriesKind::Line),
            caption: "Each point is one choice of weights.".into(),
            ..figure
        })
    }

    /// Returns a figure of the latency at each load, with the best weights and with all pages on
    /// the first node.
    fn best_weights_figure(&self) -> Option<Figure> {
        let loads = &self.best_by_load;
        let best = loads.iter().map(|it| (it.load_gbps, it.latency_ns));
        let labels = loads.iter().map(|it| weights_text(&it.weights)).collect();
        let first = loads.iter().filter_map(|it| Some((it.load_gbps, it.first_latency_ns?)));
        let series = vec![
            Series::new("all pages on the first node", SeriesKind::Line, 0, first),
            Series::new("the best weights", SeriesKind::Line, 1, best).with_labels(labels),
        ];
        let title = "Latency with the best weights at each load";
        let figure = Figure::new("best-weights", title, "bandwidth, GB/s", "latency, ns");
        let caption = "A label is the weights that have the least latency from there on.";
        (loads.len() > 1).then(|| Figure { series, caption: caption.into(), ..figure })
    }

    /// Returns a figure of a pointer chase's latency against the size of its memory. The horizontal
    /// axis is log2 of the size in KiB.
    fn caches_figure(&self) -> Option<Figure> {
        let points = self.points_of_kind(PointKind::Cache).filter_map(|point| {
            let kib = point.memory_bytes as f64 / 1024.0;
            Some((libm::log2(kib), point.latency_ns?))
        });
        let line = Series::new("one access", SeriesKind::Line, 0, points);
        let x = "memory that is chased through, log2 KiB";
        let figure = Figure::new("caches", "Latency by size", x, "latency, ns");
        let caption = "Steps are the caches: 5 is 32 KiB, 10 is 1 MiB, 15 is 32 MiB.";
        (line.x.len() > 1).then(|| Figure { series: vec![line], caption: caption.into(), ..figure })
    }

    /// Returns a figure of the distributions of the latency of single accesses.
    fn histograms_figure(&self) -> Option<Figure> {
        let mut series = vec![];
        for point in self.points_of_kind(PointKind::Histogram) {
            let Some(histogram) = &point.histogram else { continue };
            let total = histogram.histogram_8ns.iter().sum::<u64>().max(1) as f64;
            let load = point.program_gbps.filter(|gbps| *gbps > 0.0);
            let load = load.map_or("idle".into(), |gbps| format!("{gbps:.1} GB/s"));
            // The figure ends at the 99.9th percentile. The table has the bins beyond it.
            let (mut sum, mut points) = (0, vec![]);
            for (at, count) in histogram.histogram_8ns.iter().enumerate() {
                points.push((8.0 * at as f64, 100.0 * *count as f64 / total));
                sum += count;
                if sum as f64 >= 0.999 * total {
                    break;
                }
            }
            series.push((format!("{}, {load}", place(point)), points));
        }
        let y = "accesses, % in 8 ns";
        let figure = Figure::new("histogram", "Latency of single accesses", "latency, ns", y);
        (!series.is_empty()).then(|| Figure {
            series: to_series(series, SeriesKind::Line),
            caption: "Without accesses during which the thread was interrupted.".into(),
            ..figure
        })
    }
}

fn add_point(series: &mut Vec<(String, Vec<(f64, f64)>)>, name: String, point: (f64, f64)) {
    match series.iter_mut().find(|(known, _)| *known == name) {
        Some((_, points)) => points.push(point),
        None => series.push((name, vec![point])),
    }
}

fn to_series(series: Vec<(String, Vec<(f64, f64)>)>, kind: SeriesKind) -> Vec<Series> {
    let all = series.into_iter().enumerate();
    all.map(|(at, (name, points))| Series::new(name, kind, at, points)).collect()
}

/// Describes the placement of a point: its weights, or the nodes of its CPUs and of its memory.
fn place(point: &MeasuredPoint) -> String {
    match (&point.weights, point.memory_node) {
        (Some(weights), _) => weights_text(weights),
        (None, Some(node)) => format!("CPUs {} -> node {node}", point.cpu_node),
        (None, None) => format!("CPUs {}", point.cpu_node),
    }
}

fn first_share(weights: &[u16]) -> f64 {
    let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
    f64::from(weights.first().copied().unwrap_or(0)) / sum.max(1.0)
}
