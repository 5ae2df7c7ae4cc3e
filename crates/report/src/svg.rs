//! Figures as SVG pictures, for papers and pages.

use super::{colour, number};
use interleaf_record::figure::{Figure, Scale, Series, SeriesKind};
use plotters::{
    coord::{Shift, types::RangedCoordf64},
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

const SIZE: (u32, u32) = (960, 540);
const FONT: &str = "sans-serif";
const TEXT: i32 = 16;

/// The drawing area with the axes.
type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// The figure as SVG.
///
/// # Errors
/// A text that says why the figure cannot be drawn.
pub fn picture(figure: &Figure) -> Result<String, String> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    let drawn = draw(figure, &area).and_then(|()| area.present().map_err(|why| why.to_string()));
    drop(area);
    drawn.map_err(|why| format!("the figure {} cannot be drawn: {why}", figure.id))?;
    Ok(text)
}

fn draw(figure: &Figure, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), String> {
    let failed = |why: DrawingAreaErrorKind<std::io::Error>| why.to_string();
    area.fill(&WHITE).map_err(failed)?;
    let scale = figure.scale;
    let scaled: Vec<Series> = figure.series.iter().map(|series| positions(series, scale)).collect();
    let x: Vec<f64> = scaled.iter().flat_map(|series| &series.x).copied().collect();
    let y = |series: &Series| [&series.y[..], &series.low, &series.high].concat();
    let y: Vec<f64> = scaled.iter().flat_map(y).collect();
    let bars = !figure.categories.is_empty();
    if x.is_empty() {
        return Err("it has no points".into());
    }
    let (left, right) = (least(&x), most(&x));
    let pad = if bars { 0.6 } else { 0.01 * span(left, right) };
    let bottom = if scale.is_y_log() { least(&y) } else { figure.y_from };
    let height = if bars { 1.25 } else { 1.08 } * span(bottom, most(&y));
    let mut plane = ChartBuilder::on(area)
        .caption(&figure.title, (FONT, 22))
        .margin(12)
        .x_label_area_size(if bars { 150 } else { 46 })
        .y_label_area_size(62)
        .build_cartesian_2d(left - pad..right + pad, bottom..bottom + height)
        .map_err(failed)?;
    let plain = |at: &f64| match scale.is_x_log() {
        true => number(libm::pow(10.0, *at)),
        false => format!("{at:.0}"),
    };
    let style = TextStyle::from((FONT, TEXT).into_font());
    let mut mesh = plane.configure_mesh();
    let short = |at: &f64| match scale.is_y_log() {
        true => number(libm::pow(10.0, *at)),
        false if *at >= 10.0 => format!("{at:.0}"),
        false => format!("{at:.1}"),
    };
    mesh.light_line_style(TRANSPARENT)
        .y_label_formatter(&short)
        .y_desc(&figure.y_label)
        .axis_desc_style(style.clone())
        .y_label_style(style);
    if bars {
        mesh.x_labels(0).disable_x_mesh();
    } else {
        mesh.x_desc(&figure.x_label).x_label_formatter(&plain);
    }
    mesh.draw().map_err(failed)?;
    draw_names(&plane, area, &figure.categories)?;
    let of_kind = |kind| scaled.iter().filter(move |series| series.kind == kind);
    let groups = of_kind(SeriesKind::Bars).count();
    for (at, series) in of_kind(SeriesKind::Bars).enumerate() {
        draw_bars(&mut plane, series, at, groups)?;
    }
    for series in of_kind(SeriesKind::Line) {
        draw_line(&mut plane, series)?;
    }
    for series in of_kind(SeriesKind::Points) {
        draw_points(&mut plane, series)?;
    }
    plane
        .configure_series_labels()
        .position(if bars {
            SeriesLabelPosition::UpperRight
        } else {
            SeriesLabelPosition::LowerMiddle
        })
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font((FONT, TEXT - 2))
        .draw()
        .map_err(failed)
}

/// The series at the positions of its points along the axes; an interval is not drawn along a
/// logarithmic axis.
fn positions(series: &Series, scale: Scale) -> Series {
    if scale == Scale::Linear {
        return series.clone();
    }
    let points: Vec<Option<(f64, f64)>> = pairs(series).map(|at| scale.position(at)).collect();
    let labels = series.labels.iter().zip(&points).filter(|(_, point)| point.is_some());
    let labels = labels.map(|(label, _)| label.clone()).collect();
    let (x, y) = points.into_iter().flatten().unzip();
    Series { x, y, low: vec![], high: vec![], labels, ..series.clone() }
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The length of an axis, at least 10^-6 of its ends: on a shorter axis the step between marks is
/// lost in rounding, and the plotting library would loop forever.
fn span(from: f64, to: f64) -> f64 {
    (to - from).max(1e-6 * from.abs().max(to.abs())).max(1e-9)
}

/// Names under the bars, rotated to start at the axis. The library would centre them on the axis.
fn draw_names(
    plane: &Plane<'_, '_>,
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    names: &[String],
) -> Result<(), String> {
    let turned = TextStyle::from((FONT, TEXT - 2).into_font().transform(FontTransform::Rotate90))
        .pos(Pos::new(HPos::Left, VPos::Center));
    for (at, name) in names.iter().enumerate() {
        let (x, y) = plane.backend_coord(&(at as f64, 0.0));
        let text = Text::new(name.clone(), (x, y + 8), turned.clone());
        area.draw(&text).map_err(|why| why.to_string())?;
    }
    Ok(())
}

fn rgb(group: usize) -> RGBColor {
    let part = |at: usize| u8::from_str_radix(&colour(group)[at..at + 2], 16).unwrap_or(0);
    RGBColor(part(1), part(3), part(5))
}

fn pairs(series: &Series) -> impl Iterator<Item = (f64, f64)> {
    series.x.iter().copied().zip(series.y.iter().copied())
}

fn draw_line(plane: &mut Plane<'_, '_>, series: &Series) -> Result<(), String> {
    let colour = rgb(series.group);
    if !series.low.is_empty() {
        let lower = series.x.iter().copied().zip(series.low.iter().copied());
        let upper = series.x.iter().copied().zip(series.high.iter().copied()).rev();
        let edge: Vec<(f64, f64)> = lower.chain(upper).collect();
        let shade = Polygon::new(edge, colour.mix(0.13));
        plane.draw_series([shade]).map_err(|why| why.to_string())?;
    }
    let drawn = plane.draw_series(LineSeries::new(pairs(series), colour.stroke_width(2)));
    let key = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2));
    drawn.map_err(|why| why.to_string())?.label(&series.name).legend(key);
    // Show a label where it changes.
    let mut last = "";
    for (point, label) in pairs(series).zip(&series.labels) {
        if label != last {
            let text = Text::new(label.clone(), point, (FONT, TEXT - 3).into_font().color(&colour));
            let mark = Circle::new(point, 3, colour.filled());
            plane.draw_series([text]).map_err(|why| why.to_string())?;
            plane.draw_series([mark]).map_err(|why| why.to_string())?;
            last = label;
        }
    }
    Ok(())
}

fn draw_points(plane: &mut Plane<'_, '_>, series: &Series) -> Result<(), String> {
    let colour = rgb(series.group);
    let marks = pairs(series).map(|point| Circle::new(point, 5, colour.filled()));
    let drawn = plane.draw_series(marks).map_err(|why| why.to_string())?;
    let key = move |(x, y)| Circle::new((x + 9, y), 5, colour.filled());
    drawn.label(&series.name).legend(key);
    Ok(())
}

fn draw_bars(
    plane: &mut Plane<'_, '_>,
    series: &Series,
    at: usize,
    groups: usize,
) -> Result<(), String> {
    let colour = rgb(series.group);
    let width = 0.8 / groups as f64;
    let left = |x: f64| x - 0.4 + width * at as f64;
    let bars = pairs(series).map(|(x, y)| {
        Rectangle::new([(left(x), 0.0), (left(x) + 0.92 * width, y)], colour.filled())
    });
    let drawn = plane.draw_series(bars).map_err(|why| why.to_string())?;
    let key = move |(x, y)| Rectangle::new([(x, y - 6), (x + 14, y + 6)], colour.filled());
    drawn.label(&series.name).legend(key);
    let whiskers =
        series.x.iter().zip(series.low.iter().zip(&series.high)).map(|(x, (low, high))| {
            let middle = left(*x) + 0.46 * width;
            PathElement::new([(middle, *low), (middle, *high)], BLACK.stroke_width(1))
        });
    plane.draw_series(whiskers).map_err(|why| why.to_string())?;
    Ok(())
}
