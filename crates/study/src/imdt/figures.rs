//! The figures of the study, as the planner computes them.

use super::{DEGREE, DEGREES, RATIOS, node::Predicted};
use interleaf_record::figure::{Figure, Scale, Series, SeriesKind};

/// Workloads of figure 3, figure 4, and figure 5.
const CURVES: [(&str, &str, &[&str]); 3] = [
    ("figure-3", "Efficiency of GEMM (figure 3)", &["gemm-tiled"]),
    ("figure-4", "Efficiency of LU and FFT (figure 4)", &["lu", "lu-plain", "lu-tiled", "fft-3d"]),
    ("figure-5", "Efficiency of applications (figure 5)", &["cholesky", "gas", "qft"]),
];

pub(super) fn all(predicted: &[Predicted]) -> Vec<Figure> {
    let mut figures = vec![];
    for (key, streams) in [("polynomial-1", "one stream"), ("polynomial-2", "two streams")] {
        let Some(polynomial) = predicted.iter().find(|it| it.key == key) else { continue };
        figures.push(degrees(polynomial, streams));
    }
    figures.extend(CURVES.map(|(id, title, keys)| curves(predicted, id, title, keys)));
    figures.push(intensity(predicted));
    figures
}

fn figure(id: String, title: String, x_label: &str, y_label: &str, series: Vec<Series>) -> Figure {
    Figure {
        id,
        title,
        x_label: x_label.into(),
        y_label: y_label.into(),
        y_from: 0.0,
        scale: Scale::Linear,
        categories: vec![],
        series,
        caption: "By the planner, for the machine of the study, with random replacement.".into(),
    }
}

/// Figure 2: a heat map in the paper, here a line for each footprint.
fn degrees(polynomial: &Predicted, streams: &str) -> Figure {
    let series = RATIOS.iter().enumerate().map(|(group, ratio)| {
        let name = format!("{ratio} x DRAM");
        Series::new(name, SeriesKind::Line, group, polynomial.by_degree(*ratio))
    });
    let id = format!("figure-2-{}", polynomial.key);
    let title = format!("Efficiency of polynomials, {streams} (figure 2)");
    let (x, y) = ("operations per byte", "performance, of DRAM only");
    Figure { scale: Scale::LogX, ..figure(id, title, x, y, series.collect()) }
}

/// Figures 3 to 5: efficiency by footprint.
fn curves(predicted: &[Predicted], id: &str, title: &str, keys: &[&str]) -> Figure {
    let chosen = keys.iter().filter_map(|key| predicted.iter().find(|it| it.key == *key));
    let series = chosen.enumerate().map(|(group, it)| {
        Series::new(it.key.clone(), SeriesKind::Line, group, it.by_ratio(DEGREE))
    });
    let (x, y) = ("footprint / DRAM", "performance, of DRAM only");
    figure(id.into(), title.into(), x, y, series.collect())
}

/// Figure 7: bandwidth of DRAM by arithmetic intensity.
fn intensity(predicted: &[Predicted]) -> Figure {
    let mut series = vec![];
    for key in ["polynomial-1", "polynomial-2"] {
        let Some(polynomial) = predicted.iter().find(|it| it.key == key) else { continue };
        for (at, memory) in ["DRAM only", "with drives, 2 x DRAM"].into_iter().enumerate() {
            let points = DEGREES
                .iter()
                .map(|degree| (f64::from(*degree) / 4.0, polynomial.bandwidth_gbps(*degree)[at]));
            let name = format!("{key}, {memory}");
            series.push(Series::new(name, SeriesKind::Line, series.len(), points));
        }
    }
    let title = "Bandwidth by arithmetic intensity (figure 7)".into();
    let (x, y) = ("operations per byte", "bandwidth of DRAM, GB/s");
    Figure { scale: Scale::LogXy, ..figure("figure-7".into(), title, x, y, series) }
}
