//! Makes the figures of the study of Intel Memory Drive Technology: predicted by the planner for
//! the paper's machine, and measured on this machine. The published points are from the paper's
//! text, because its plots print no numbers.

use super::{
    DEGREE, DEGREES, PublishedEfficiency, RATIOS,
    hartree_fock::{self, HartreeFock, Times},
    node::Predicted,
    points::{Curve, MeasuredPoint, SEEN},
};
use interleaf_record::{
    bench_compare::BenchCompareDocument,
    figure::{Figure, Scale, Series, SeriesKind},
};

/// The paper's figures 3 to 5: the ID and the title of each figure, and the keys of its workloads.
const CURVES: [(&str, &str, &[&str]); 3] = [
    ("figure-3", "Efficiency of GEMM (figure 3)", &["gemm-tiled"]),
    ("figure-4", "Efficiency of LU and FFT (figure 4)", &["lu", "lu-plain", "lu-tiled", "fft-3d"]),
    ("figure-5", "Efficiency of applications (figure 5)", &["cholesky", "gas", "qft"]),
];

const FOOTPRINT: &str = "footprint / DRAM";
const EFFICIENCY: &str = "performance, of DRAM only";
const INTENSITY: &str = "operations per byte";

pub(super) fn all(
    predicted: &[Predicted],
    gamess: &HartreeFock,
    published: &[PublishedEfficiency],
) -> Vec<Figure> {
    let mut figures = vec![];
    for (key, streams) in [("polynomial-1", "one stream"), ("polynomial-2", "two streams")] {
        let Some(polynomial) = predicted.iter().find(|it| it.key == key) else { continue };
        figures.push(degrees(polynomial, streams, published));
    }
    figures.extend(CURVES.map(|(id, title, keys)| curves(predicted, id, title, keys, published)));
    figures.extend(stacks(gamess, published));
    figures.push(intensity(predicted));
    figures
}

fn figure(id: &str, title: &str, axes: [&str; 2], series: Vec<Series>) -> Figure {
    let [x_label, y_label] = axes.map(String::from);
    Figure {
        id: id.into(),
        title: title.into(),
        x_label,
        y_label,
        y_from: 0.0,
        scale: Scale::Linear,
        categories: vec![],
        series,
        caption: "By the planner, for the machine of the study, with random replacement. Points \
                  are the paper's figures."
            .into(),
    }
}

/// Returns the published efficiencies of a workload as points in the colour of `group`; `None` if
/// the paper states no efficiency of the workload.
fn paper(published: &[PublishedEfficiency], key: &str, group: usize) -> Option<Series> {
    let own: Vec<&PublishedEfficiency> = published.iter().filter(|row| row.key == key).collect();
    let points = own.iter().map(|row| (row.ratio, row.middle()));
    let series = Series::new(format!("{key}, paper"), SeriesKind::Points, group, points)
        .with_interval(own.iter().map(|row| (row.low, row.high)))
        .with_labels(own.iter().map(|row| row.words.clone()).collect());
    (!own.is_empty()).then_some(series)
}

/// Makes the paper's figure 2: efficiency by degree. The paper has a heat map; this figure has a
/// line for each footprint.
fn degrees(polynomial: &Predicted, streams: &str, published: &[PublishedEfficiency]) -> Figure {
    let mut series: Vec<Series> = RATIOS
        .iter()
        .enumerate()
        .map(|(group, ratio)| {
            let name = format!("{ratio} x DRAM");
            Series::new(name, SeriesKind::Line, group, polynomial.by_degree(*ratio))
        })
        .collect();
    for row in published.iter().filter(|row| row.key == polynomial.key) {
        let name = format!("{} x DRAM, paper", row.ratio);
        let point = (f64::from(DEGREE) / 4.0, row.middle());
        let point = Series::new(name, SeriesKind::Points, series.len(), [point]);
        series.push(point.with_interval([(row.low, row.high)]));
    }
    let id = format!("figure-2-{}", polynomial.key);
    let title = format!("Efficiency of polynomials, {streams} (figure 2)");
    Figure { scale: Scale::LogX, ..figure(&id, &title, [INTENSITY, EFFICIENCY], series) }
}

/// Makes one of the paper's figures 3 to 5: the efficiency of the workloads `keys` by footprint.
fn curves(
    predicted: &[Predicted],
    id: &str,
    title: &str,
    keys: &[&str],
    published: &[PublishedEfficiency],
) -> Figure {
    let chosen = keys.iter().filter_map(|key| predicted.iter().find(|it| it.key == *key));
    let series = chosen.enumerate().flat_map(|(group, it)| {
        let line = Series::new(it.key.clone(), SeriesKind::Line, group, it.by_ratio(DEGREE));
        [Some(line), paper(published, &it.key, group)].into_iter().flatten()
    });
    figure(id, title, [FOOTPRINT, EFFICIENCY], series.collect())
}

/// Makes the paper's figure 6: seconds (A) and efficiency (B) of Hartree-Fock, by footprint.
fn stacks(gamess: &HartreeFock, published: &[PublishedEfficiency]) -> [Figure; 2] {
    let times = RATIOS.map(|ratio| (ratio, gamess.times(ratio)));
    let line = |name: &str, group: usize, of: fn(&Times) -> f64| {
        let points = times.iter().map(|(ratio, times)| (*ratio, of(times)));
        Series::new(name, SeriesKind::Line, group, points)
    };
    let seconds = vec![
        line("direct", 0, |it| it.direct),
        line("integrals in memory, DRAM only", 1, |it| it.in_core),
        line("integrals in memory, with drives", 2, |it| it.extended[0]),
    ];
    let mut gains = vec![
        line("in memory, of in memory with DRAM only", 0, |it| it.in_core / it.extended[0]),
        line("in memory, of direct with DRAM only", 1, |it| it.direct / it.extended[0]),
    ];
    gains.extend(paper(published, hartree_fock::KEY, 0));
    gains.extend(paper(published, hartree_fock::AGAINST_DIRECT, 1));
    let (a, b) = ("Time of Hartree-Fock (figure 6 A)", "Efficiency of Hartree-Fock (figure 6 B)");
    [
        figure("figure-6-a", a, [FOOTPRINT, "time of ten iterations, s"], seconds),
        figure("figure-6-b", b, [FOOTPRINT, "performance, of DRAM only"], gains),
    ]
}

/// Makes the paper's figure 7: bandwidth of DRAM by arithmetic intensity (operations per byte).
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
    let axes = [INTENSITY, "bandwidth of DRAM, GB/s"];
    let caption = "By the planner, for the machine of the study. The paper: about 80 GB/s up to 16 \
                   operations per byte, compute-bound from 64, and at most 10 GB/s with drives.";
    Figure {
        scale: Scale::LogXy,
        caption: caption.into(),
        ..figure("figure-7", "Bandwidth by arithmetic intensity (figure 7)", axes, series)
    }
}

/// Makes the figures of a comparison run on this machine: the efficiency of polynomials by degree,
/// the efficiency of each other workload by footprint, and the bandwidth of polynomials.
pub(super) fn measured(
    document: &BenchCompareDocument,
    curves: &[Curve],
    published: &[PublishedEfficiency],
) -> Vec<Figure> {
    let polynomials: Vec<&Curve> = curves.iter().filter(|it| it.intensity.is_some()).collect();
    let mut figures = vec![];
    if polynomials.len() > 1 {
        figures.push(measured_degrees(document, &polynomials));
        figures.push(measured_intensity(document, &polynomials));
    }
    let others = curves.iter().filter(|it| it.intensity.is_none());
    figures.extend(others.map(|curve| measured_curve(document, curve, published)));
    figures
}

fn of_machine(
    document: &BenchCompareDocument,
    id: &str,
    title: &str,
    axes: [&str; 2],
    series: Vec<Series>,
) -> Figure {
    let threads = document.threads;
    let plural = if threads == 1 { "" } else { "s" };
    let id = format!("measured-{id}-{threads}");
    let title = format!("{title}, this machine, {threads} thread{plural}");
    let caption = "Measured on this machine. Points are the paper's figures, for its machine.";
    Figure { caption: caption.into(), ..figure(&id, &title, axes, series) }
}

/// A line of a figure: the name of the line, and a function that returns the value of the line at a
/// measured point.
type Line = (&'static str, fn(&MeasuredPoint) -> Option<f64>);

fn measured_curve(
    document: &BenchCompareDocument,
    curve: &Curve,
    published: &[PublishedEfficiency],
) -> Figure {
    let line = |group: usize, (name, of): Line| {
        let points = curve.points.iter().filter_map(|it| Some((it.ratio, of(it)?)));
        Series::new(name, SeriesKind::Line, group, points)
    };
    let lines: [Line; 4] = [
        ("pager", |it| it.pager),
        ("swap", |it| it.swap),
        ("mapped file", |it| it.mmap),
        ("planner, from the run at 2", |it| it.planned),
    ];
    let mut series: Vec<Series> =
        lines.into_iter().enumerate().map(|(at, of)| line(at, of)).collect();
    series.retain(|series| !series.x.is_empty());
    series.extend(paper(published, &curve.pattern, lines.len()));
    let found = CURVES.iter().find(|(_, _, keys)| keys.contains(&curve.pattern.as_str()));
    let place = match found {
        Some((id, ..)) => id.replace('-', " "),
        None => "section 5.1.1".into(),
    };
    let title = format!("Efficiency of {} ({place})", curve.pattern);
    of_machine(document, &curve.pattern, &title, ["footprint / budget", EFFICIENCY], series)
}

/// Makes the paper's figure 2, measured on this machine: the efficiency of polynomials by degree,
/// with a line for each footprint.
fn measured_degrees(document: &BenchCompareDocument, polynomials: &[&Curve]) -> Figure {
    let mut ratios: Vec<f64> =
        polynomials.iter().flat_map(|it| it.points.iter().map(|point| point.ratio)).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.dedup();
    let series = ratios.iter().enumerate().map(|(group, ratio)| {
        let points = polynomials.iter().filter_map(|it| {
            let point = it.points.iter().find(|point| point.ratio == *ratio)?;
            Some((it.intensity?, point.pager?))
        });
        Series::new(format!("{ratio} x budget"), SeriesKind::Line, group, points)
    });
    let title = "Efficiency of polynomials, two streams (figure 2)";
    let axes = [INTENSITY, EFFICIENCY];
    let figure = of_machine(document, "figure-2", title, axes, series.collect());
    Figure { scale: Scale::LogX, ..figure }
}

/// Makes the paper's figure 7, measured on this machine: the bandwidth of the array, for reads and
/// writes together, against arithmetic intensity.
fn measured_intensity(document: &BenchCompareDocument, polynomials: &[&Curve]) -> Figure {
    let point = |it: &Curve| it.points.iter().find(|point| point.ratio == SEEN).cloned();
    // A rate in GFLOP/s divided by the operations per byte is the bandwidth of the array in GB/s.
    // The factor 2 counts the reads and the writes of the array.
    let dram = polynomials.iter().filter_map(|it| {
        let intensity = it.intensity?;
        Some((intensity, 2.0 * point(it)?.dram? / intensity))
    });
    let pager = polynomials.iter().filter_map(|it| {
        let (intensity, point) = (it.intensity?, point(it)?);
        Some((intensity, 2.0 * point.dram? * point.pager? / intensity))
    });
    let series = vec![
        Series::new("DRAM only", SeriesKind::Line, 0, dram),
        Series::new(format!("pager, {SEEN} x budget"), SeriesKind::Line, 1, pager),
    ];
    let title = "Bandwidth by arithmetic intensity (figure 7)";
    let axes = [INTENSITY, "bandwidth of the arrays, GB/s"];
    let caption = "Measured on this machine: polynomials that read and write each element.";
    let figure = of_machine(document, "figure-7", title, axes, series);
    Figure { scale: Scale::LogXy, caption: caption.into(), ..figure }
}
