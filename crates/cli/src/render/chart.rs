//! Figures as charts of characters.

use crate::document::figure::{Figure, SeriesKind};
use textplots::{Chart, LabelBuilder, LabelFormat, Plot, Shape};

const WIDTH: u32 = 120;
const HEIGHT: u32 = 48;

/// A figure with an axis of numbers, without its labels.
pub(crate) fn text(figure: &Figure) -> String {
    let points = |axis: fn(&crate::document::figure::Series) -> &Vec<f64>| {
        figure.series.iter().flat_map(move |series| axis(series).clone())
    };
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max);
    let (left, right) = (least(&mut points(|s| &s.x)), most(&mut points(|s| &s.x)));
    if left >= right {
        return String::new();
    }
    let top = most(&mut points(|s| &s.y));
    let shapes: Vec<(SeriesKind, Vec<(f32, f32)>)> = figure
        .series
        .iter()
        .map(|series| {
            let pairs = series.x.iter().zip(&series.y);
            (series.kind, pairs.map(|(x, y)| (*x as f32, *y as f32)).collect())
        })
        .collect();
    let shapes: Vec<Shape<'_>> = shapes
        .iter()
        .map(|(kind, points)| match kind {
            SeriesKind::Line => Shape::Lines(points),
            SeriesKind::Points | SeriesKind::Bars => Shape::Points(points),
        })
        .collect();
    let (from, to) = (figure.y_from as f32, (top + 0.05 * (top - figure.y_from)) as f32);
    let mut chart = Chart::new_with_y_range(WIDTH, HEIGHT, left as f32, right as f32, from, to);
    let mut chart =
        chart.x_label_format(LabelFormat::Custom(Box::new(|x| format!("{x:.0}")))).y_label_format(
            LabelFormat::Custom(Box::new(|y| format!("{y:.4}").chars().take(5).collect())),
        );
    for shape in &shapes {
        chart = chart.lineplot(shape);
    }
    chart.borders();
    chart.axis();
    chart.figures();
    let drawn: String =
        chart.to_string().lines().map(|line| format!("  {}\n", line.trim_end())).collect();
    format!("{}, against {}\n{drawn}", figure.y_label, figure.x_label)
}
