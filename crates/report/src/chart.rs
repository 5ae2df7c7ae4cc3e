//! Figures as charts for a terminal, drawn with braille characters.

use super::number;
use interleaf_record::figure::{Figure, Scale, Series, SeriesKind};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    symbols::Marker,
    widgets::{Axis, Chart, Dataset, GraphType, Widget as _},
};

/// Size of a chart with its axes and labels, in characters.
const AREA: Rect = Rect::new(0, 0, 70, 16);

/// Number of labels along each axis, ends included.
const LABELS: usize = 3;

/// A figure with numeric axes as text, without labels of points; empty without a range to draw.
pub fn text(figure: &Figure) -> String {
    let scale = figure.scale;
    let points: Vec<Vec<(f64, f64)>> =
        figure.series.iter().map(|series| drawn(series, scale)).collect();
    let all = || points.iter().flatten();
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max);
    let x = [least(&mut all().map(|point| point.0)), most(&mut all().map(|point| point.0))];
    let top = most(&mut all().map(|point| point.1));
    let bottom = match scale.is_y_log() {
        true => least(&mut all().map(|point| point.1)),
        false => figure.y_from,
    };
    let y = [bottom, top + 0.05 * (top - bottom)];
    if x[0] >= x[1] || y[0] >= y[1] {
        return String::new();
    }
    let datasets = figure.series.iter().zip(&points).map(|(series, points)| {
        let kind = match series.kind {
            SeriesKind::Line => GraphType::Line,
            SeriesKind::Points | SeriesKind::Bars => GraphType::Scatter,
        };
        Dataset::default().marker(Marker::Braille).graph_type(kind).data(points)
    });
    let mut buffer = Buffer::empty(AREA);
    Chart::new(datasets.collect())
        .x_axis(axis(x, scale.is_x_log()))
        .y_axis(axis(y, scale.is_y_log()))
        .render(AREA, &mut buffer);
    let row = |y: u16| {
        let row: String = (0..AREA.width).map(|x| buffer[(x, y)].symbol()).collect();
        format!("  {}\n", row.trim_end())
    };
    let drawn: String = (0..AREA.height).map(row).collect();
    format!("{}, against {}\n{drawn}", figure.y_label, figure.x_label)
}

/// The positions of the points of a series that can be drawn.
fn drawn(series: &Series, scale: Scale) -> Vec<(f64, f64)> {
    let points = series.x.iter().copied().zip(series.y.iter().copied());
    points.filter_map(|point| scale.position(point)).collect()
}

fn axis(bounds: [f64; 2], is_log: bool) -> Axis<'static> {
    let [from, to] = bounds;
    let label = |at: usize| {
        let position = from + (to - from) * at as f64 / (LABELS - 1) as f64;
        number(if is_log { libm::pow(10.0, position) } else { position })
    };
    Axis::default().bounds(bounds).labels((0..LABELS).map(label).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(points: &[(f64, f64)]) -> Figure {
        Figure {
            id: "a".into(),
            title: "title".into(),
            x_label: "load, GB/s".into(),
            y_label: "latency, ns".into(),
            y_from: 0.0,
            scale: Scale::Linear,
            categories: vec![],
            series: vec![Series::new("s", SeriesKind::Line, 0, points.iter().copied())],
            caption: String::new(),
        }
    }

    #[test]
    fn a_chart_has_its_line_and_the_ends_of_its_axes() {
        let text = text(&figure(&[(0.0, 100.0), (40.0, 120.0), (50.0, 400.0)]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "latency, ns, against load, GB/s");
        assert_eq!(lines.len(), 1 + usize::from(AREA.height), "{text}");
        assert!(lines[1].contains("420"), "the most, and a little room: {text}");
        let last = lines[lines.len() - 1];
        assert!(last.contains("25") && last.ends_with("50.00"), "{text}");
        let braille = |c: char| ('\u{2801}'..='\u{28ff}').contains(&c);
        assert!(text.chars().filter(|c| braille(*c)).count() > 40, "{text}");
    }

    #[test]
    fn logarithmic_axes_have_values_at_their_ends() {
        let points = [(1.0, 1.0), (16.0, 0.01), (256.0, 0.0), (256.0, 0.0001)];
        let text = text(&Figure { scale: Scale::LogXy, ..figure(&points) });
        let last = text.lines().last().unwrap_or_default().trim_end();
        assert!(last.contains("1.000") && last.contains("16.00"), "{text}");
        assert!(last.ends_with("256.0"), "{text}");
        assert!(text.contains("1.000e-4"), "{text}");
    }

    #[test]
    fn without_points_there_is_no_chart() {
        let empty: [&[(f64, f64)]; 4] =
            [&[], &[(1.0, 1.0)], &[(f64::NAN, 1.0), (2.0, f64::NAN)], &[(0.0, 0.0), (1.0, 0.0)]];
        for points in empty {
            assert_eq!(text(&figure(points)), "", "{points:?}");
        }
    }
}
