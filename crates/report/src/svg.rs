//! Draws figures as SVG pictures: files for papers, and parts of pages.
//!
//! From the top, a picture has: title, label of the vertical axis, plot, label of the horizontal
//! axis, legend. Colours are attributes, so that a style sheet can override them: a page has light
//! and dark colours. The values of a point are in an element `title`, which browsers show on hover.

mod axis;
mod rows;

use super::{colour, number, table::escaped};
use axis::Axis;
use interleaf_record::figure::{Figure, Scale, Series, SeriesKind};
use std::{collections::BTreeSet, fmt::Write as _};

/// In SVG units: `TEXT` is the font size of texts, `TITLE` the font size of titles, and `LINE` the
/// height of a line of text.
const TEXT: f64 = 14.0;
const TITLE: f64 = 18.0;
const LINE: f64 = 20.0;

/// Mean width of a character as a fraction of the font size, rounded up, from which the width of a
/// text is estimated. A text with many wide letters is wider than its estimate.
const CHARACTER: f64 = 0.56;

const MARGIN: f64 = 16.0;

/// Approximate number of labels along the vertical axis.
const LABELS: usize = 5;

/// Labels and markers are drawn only for a series with at most this number of points.
const MARKED: usize = 45;

/// Maximum number of points of a series that show their values on hover.
const HINTS: usize = 60;

/// Dash patterns (`stroke-dasharray`) of lines. The lines that share a colour take the patterns in
/// this order.
const DASHES: [&str; 4] = ["", "7 4", "2 3", "9 3 2 3"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// The width for screens and paper.
    Wide,
    /// The width for telephones.
    Narrow,
}

impl Width {
    /// Returns the width of a picture and the height of its plot, SVG units.
    fn size(self) -> (f64, f64) {
        match self {
            Self::Wide => (960.0, 380.0),
            Self::Narrow => (440.0, 300.0),
        }
    }
}

/// Draws the figure as an SVG file.
///
/// # Errors
/// When the figure cannot be drawn. The error is a text with the reason.
pub fn picture(figure: &Figure) -> Result<String, String> {
    drawn(figure, Width::Wide, true)
}

/// Draws the figure as a part of a page, without background.
///
/// # Errors
/// When the figure cannot be drawn. The error is a text with the reason.
pub fn part(figure: &Figure, width: Width) -> Result<String, String> {
    drawn(figure, width, false)
}

fn drawn(figure: &Figure, width: Width, is_file: bool) -> Result<String, String> {
    let failed = |why: String| format!("the figure {} cannot be drawn: {why}", figure.id);
    let (across, down, body) = match figure.has_rows() {
        true => rows::drawn(figure, width).map_err(failed)?,
        false => {
            let sheet = Sheet::new(figure, width).map_err(failed)?;
            (sheet.width, sheet.height, sheet.body(figure))
        }
    };
    let size = if is_file {
        format!("width=\"{across:.0}\" height=\"{down:.0}\" ")
    } else {
        String::new()
    };
    let paper = if is_file { "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" } else { "" };
    Ok(format!(
        "<svg {size}viewBox=\"0 0 {across:.0} {down:.0}\" xmlns=\"http://www.w3.org/2000/svg\" \
         role=\"img\" aria-label=\"{}\" font-family=\"sans-serif\" font-size=\"{TEXT}\" \
         fill=\"#1b1b1b\">\n{paper}{body}</svg>\n",
        escaped(&figure.title),
    ))
}

/// Positions and sizes of the parts of a picture.
struct Sheet {
    width: f64,
    height: f64,
    title: Vec<String>,
    x: Axis,
    y: Axis,
    /// The series of the figure, with positions along the axes in place of values.
    series: Vec<Series>,
    names: Names,
    with_hints: bool,
}

/// The layout of the categories' names below the horizontal axis.
struct Names {
    is_turned: bool,
    height: f64,
}

impl Sheet {
    fn new(figure: &Figure, width: Width) -> Result<Self, String> {
        let (across, plot) = width.size();
        let series: Vec<Series> =
            figure.series.iter().map(|series| positions(series, figure.scale)).collect();
        let [x, y, values] = ranges(figure, &series)?;
        let is_x_log = figure.scale.is_x_log();
        let has_whole_x = !is_x_log && series.iter().flat_map(|it| &it.x).all(|x| x.fract() == 0.0);
        let x = Axis::new(x, is_x_log)?.with_whole_values(has_whole_x);
        let y = Axis::new(y, figure.scale.is_y_log())?.with_labels_around(values, LABELS);
        let longest =
            y.ticks(LABELS).iter().map(|tick| text_width(&tick.label, TEXT)).fold(0.0, f64::max);
        let (left, right) = (longest.min(0.3 * across) + 14.0, across - MARGIN - 8.0);
        let slot = (right - left) / figure.categories.len().max(1) as f64;
        let names = Names::new(&figure.categories, slot);
        let title = title_lines(figure, across);
        let top = 12.0 + 24.0 * title.len() as f64 + LINE + 14.0;
        let legend = legend_rows(figure, across - 2.0 * MARGIN).len() as f64;
        let height = top + plot + names.height + LINE + 8.0 + LINE * legend + 10.0;
        Ok(Self {
            width: across,
            height,
            title,
            x: x.drawn_between(left, right),
            y: y.drawn_between(top + plot, top),
            series,
            names,
            with_hints: width == Width::Wide,
        })
    }

    fn body(&self, figure: &Figure) -> String {
        let mut svg = String::new();
        draw_title(&mut svg, &self.title);
        let width = self.width - 2.0 * MARGIN;
        let label = shortened(&figure.y_label, width, TEXT);
        put_text(&mut svg, (MARGIN, self.y.end() - 18.0), "class=\"label\"", &label);
        self.draw_axes(&mut svg, figure);
        let below = self.y.start() + self.names.height + LINE;
        let middle = 0.5 * (self.x.start() + self.x.end());
        let label = shortened(&figure.x_label, width, TEXT);
        put_text(&mut svg, (middle, below), "class=\"label\" text-anchor=\"middle\"", &label);
        let bars = self.series.iter().filter(|series| series.kind == SeriesKind::Bars).count();
        let mut bar = 0;
        let mut labels = vec![];
        for kind in [SeriesKind::Bars, SeriesKind::Line, SeriesKind::Points] {
            // The first series of points is drawn last, so that its points cover the points of the
            // other series.
            let is_point = |it: &&Series| it.kind == kind && kind == SeriesKind::Points;
            for series in self.series.iter().rev().filter(is_point) {
                let _ = writeln!(svg, "<g {}>", colour_of(series.group));
                self.draw_points(&mut svg, series);
                svg.push_str("</g>\n");
            }
            for (at, series) in self.series.iter().enumerate().filter(|(_, it)| it.kind == kind) {
                let _ = writeln!(svg, "<g {}>", colour_of(series.group));
                match kind {
                    SeriesKind::Bars => {
                        self.draw_bars(&mut svg, series, figure, [bar, bars]);
                        bar += 1;
                    }
                    SeriesKind::Line => {
                        self.draw_line(&mut svg, series, dash(&figure.series, at));
                        self.draw_labels(&mut svg, series, &mut labels);
                        self.draw_hints(&mut svg, series, &figure.series[at], figure.scale);
                    }
                    SeriesKind::Points => {
                        if names_points(series) {
                            self.draw_labels(&mut svg, series, &mut labels);
                        }
                        self.draw_hints(&mut svg, series, &figure.series[at], figure.scale);
                    }
                }
                svg.push_str("</g>\n");
            }
        }
        draw_legend(&mut svg, figure, self.width, below + LINE + 8.0);
        svg
    }

    fn draw_axes(&self, svg: &mut String, figure: &Figure) {
        let (left, right) = (self.x.start(), self.x.end());
        let (top, bottom) = (self.y.end(), self.y.start());
        svg.push_str("<g class=\"grid\" stroke=\"#e0e0e0\">");
        for tick in self.y.ticks(LABELS) {
            let y = self.y.at(tick.position);
            let _ = write!(svg, "<path d=\"M{left:.1} {y:.1}H{right:.1}\"/>");
        }
        svg.push_str("</g>\n<g text-anchor=\"end\">");
        for tick in self.y.ticks(LABELS) {
            put_text(svg, (left - 6.0, self.y.at(tick.position) + 5.0), "", &tick.label);
        }
        svg.push_str("</g>\n");
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" \
             stroke=\"#707070\"/>"
        );
        if figure.categories.is_empty() {
            let wanted = ((right - left) / 90.0) as usize;
            svg.push_str("<g text-anchor=\"middle\">");
            for tick in self.x.ticks(wanted.max(2)) {
                put_text(svg, (self.x.at(tick.position), bottom + 18.0), "", &tick.label);
            }
            svg.push_str("</g>\n");
            return;
        }
        for (at, name) in figure.categories.iter().enumerate() {
            let x = self.x.at(at as f64);
            if self.names.is_turned {
                let name = shortened(name, self.names.height - 12.0, TEXT);
                let turned = format!("transform=\"rotate(90 {:.1} {:.1})\"", x - 5.0, bottom + 8.0);
                put_text(svg, (x - 5.0, bottom + 8.0), &turned, &name);
            } else {
                put_text(svg, (x, bottom + 18.0), "text-anchor=\"middle\"", name);
            }
        }
    }

    fn draw_bars(
        &self,
        svg: &mut String,
        series: &Series,
        figure: &Figure,
        [bar, bars]: [usize; 2],
    ) {
        let slot = self.x.at(1.0) - self.x.at(0.0);
        let width = 0.8 * slot / bars as f64;
        let base = self.y.at(self.y.base());
        for (at, (x, y)) in pairs(series).enumerate() {
            let left = self.x.at(x) - 0.4 * slot + width * bar as f64;
            let end = self.y.at(y);
            let _ = write!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill=\"currentColor\">",
                end.min(base),
                0.92 * width,
                (end - base).abs(),
            );
            let name = figure.categories.get(x as usize).map_or("", String::as_str);
            let hint = format!("{}, {name}: {}", series.name, number(y));
            let _ = write!(svg, "<title>{}</title></rect>", escaped(&hint));
            self.draw_whisker(svg, left + 0.46 * width, series, at);
        }
    }

    /// Draws the interval of the point at the index `at` of `series`, if the series has intervals.
    fn draw_whisker(&self, svg: &mut String, x: f64, series: &Series, at: usize) {
        let (Some(low), Some(high)) = (series.low.get(at), series.high.get(at)) else { return };
        let (low, high, left) = (self.y.at(*low), self.y.at(*high), x - 3.0);
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{x:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}h6M{left:.1} \
             {high:.1}h6\" stroke=\"#444\" fill=\"none\"/>"
        );
    }

    fn draw_line(&self, svg: &mut String, series: &Series, dash: &str) {
        if !series.low.is_empty() {
            let low = series.x.iter().zip(&series.low);
            let high = series.x.iter().zip(&series.high).rev();
            let band = self.path(low.chain(high).map(|(x, y)| (*x, *y)));
            let _ = writeln!(svg, "<path d=\"{band}Z\" fill=\"currentColor\" opacity=\".15\"/>");
        }
        let dash =
            if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        let path = self.path(pairs(series));
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\" \
             stroke-linejoin=\"round\"{dash}/>"
        );
    }

    /// Returns the attribute `d` of an SVG path through `points`. Successive points with the same
    /// rounded coordinates are drawn once.
    fn path(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let (mut path, mut last) = (String::new(), String::new());
        for (x, y) in points {
            let point = format!("{:.1} {:.1}", self.x.at(x), self.y.at(y));
            if point != last {
                let _ = write!(path, "{}{point}", if path.is_empty() { "M" } else { "L" });
                last = point;
            }
        }
        path
    }

    fn draw_points(&self, svg: &mut String, series: &Series) {
        for (at, (x, y)) in pairs(series).enumerate() {
            let (x, y) = (self.x.at(x), self.y.at(y));
            self.draw_whisker(svg, x, series, at);
            let _ =
                write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"currentColor\"/>");
        }
        svg.push('\n');
    }

    /// Returns the boxes (left, top, right, bottom) in which a point's label can be drawn, the best
    /// box first: below right, below left, above right and above left of the point.
    fn places(&self, (x, y): (f64, f64), label: &str) -> Vec<[f64; 4]> {
        // Labels are often names of hardware parts, which have more wide letters than other texts.
        // Their estimated width is therefore increased by 10 %.
        let width = 1.1 * text_width(label, TEXT - 1.0);
        let [right, left] = [x + 6.0, x - 6.0 - width];
        let [below, above] = [y + 14.0, y - 8.0];
        let places = [(right, below), (left, below), (right, above), (left, above)];
        let is_within = |(left, bottom): &(f64, f64)| {
            *left >= self.x.start() && left + width <= self.width && bottom + 6.0 <= self.y.start()
        };
        let places = places.into_iter().filter(is_within);
        places.map(|(left, bottom)| [left, bottom - TEXT, left + width, bottom]).collect()
    }

    /// Draws the labels of a series with few points, and the markers of a line. A label that equals
    /// the label of the previous point is not drawn. `taken` has the boxes of the labels that are
    /// already drawn, which a new label must not cover. A label in a [`SeriesKind::Points`] series
    /// also avoids all points, if a free box allows it.
    fn draw_labels(&self, svg: &mut String, series: &Series, taken: &mut Vec<[f64; 4]>) {
        if series.x.len() > MARKED {
            return;
        }
        let points = self.series.iter().filter(|it| it.kind == SeriesKind::Points);
        let points: Vec<[f64; 4]> = points
            .flat_map(pairs)
            .map(|(x, y)| (self.x.at(x), self.y.at(y)))
            .map(|(x, y)| [x - 5.0, y - 5.0, x + 5.0, y + 5.0])
            .collect();
        for (at, (x, y)) in pairs(series).enumerate() {
            let (x, y) = (self.x.at(x), self.y.at(y));
            if series.kind == SeriesKind::Line {
                let _ = write!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"currentColor\"/>"
                );
            }
            let Some(label) = series.labels.get(at) else { continue };
            if at > 0 && series.labels[at - 1] == *label {
                continue;
            }
            let places = self.places((x, y), label);
            let is_free = |place: &&[f64; 4]| taken.iter().all(|it| !overlap(place, it));
            let place = match series.kind {
                SeriesKind::Points => {
                    let is_clear = |place: &&[f64; 4]| !points.iter().any(|it| overlap(place, it));
                    let clear = places.iter().filter(is_free).find(is_clear);
                    clear.or_else(|| places.iter().find(is_free))
                }
                _ => places.first().filter(is_free),
            };
            if let Some(place) = place.copied() {
                put_text(svg, (place[0], place[3]), "font-size=\"13\"", label);
                taken.push(place);
            }
        }
        svg.push('\n');
    }

    /// Draws invisible circles around points. A circle shows the values of its point on hover.
    /// `series` has the positions of the points, and `figure` has the values. A value without a
    /// position, such as 0 on a logarithmic axis, gets no circle.
    fn draw_hints(&self, svg: &mut String, series: &Series, figure: &Series, scale: Scale) {
        if !self.with_hints {
            return;
        }
        let stride = series.x.len().div_ceil(HINTS).max(1);
        svg.push_str("<g fill=\"none\" pointer-events=\"all\">");
        let values = pairs(figure).zip(placed(figure, scale));
        let values = values.filter_map(|(values, place)| place.map(|_| values));
        for (at, ((x, y), values)) in pairs(series).zip(values).enumerate().step_by(stride) {
            let label = series.labels.get(at).map_or(String::new(), |label| format!(" {label}"));
            let hint =
                format!("{}{label}: {} at {}", series.name, number(values.1), number(values.0));
            let _ = write!(
                svg,
                "<circle cx=\"{:.0}\" cy=\"{:.0}\" r=\"8\"><title>{}</title></circle>",
                self.x.at(x),
                self.y.at(y),
                escaped(&hint)
            );
        }
        svg.push_str("</g>\n");
    }
}

impl Names {
    fn new(names: &[String], slot: f64) -> Self {
        let widths = names.iter().map(|name| text_width(name, TEXT));
        let longest = widths.fold(0.0, f64::max);
        let is_turned = longest + 8.0 > slot;
        let height = if is_turned { longest.min(220.0) + 12.0 } else { LINE };
        Self { is_turned, height: if names.is_empty() { LINE } else { height } }
    }
}

/// Returns the range of the horizontal axis, the range of the vertical axis, and the range that the
/// values cover along the vertical axis.
fn ranges(figure: &Figure, series: &[Series]) -> Result<[[f64; 2]; 3], String> {
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let x: Vec<f64> = series.iter().flat_map(|series| &series.x).copied().collect();
    let y = |series: &Series| [&series.y[..], &series.low, &series.high].concat();
    let y: Vec<f64> = series.iter().flat_map(y).collect();
    if x.is_empty() {
        return Err("it has no points".into());
    }
    let across = match figure.categories.len() {
        0 => {
            let (from, to) = (least(&x), most(&x));
            let pad = 0.01 * (to - from);
            match figure.scale.is_x_from_zero() {
                true => [from.min(0.0), to.max(0.0) + pad],
                false => [from - pad, to + pad],
            }
        }
        names => [-0.6, names as f64 - 0.4],
    };
    let bottom = if figure.scale.is_y_log() { least(&y) } else { figure.y_from.min(least(&y)) };
    Ok([across, [bottom, most(&y).max(bottom)], [least(&y), most(&y)]])
}

/// Returns the series with positions along the axes in place of values. On a logarithmic axis, a
/// position is the logarithm of the value. If an axis is logarithmic, intervals are left out.
fn positions(series: &Series, scale: Scale) -> Series {
    if !scale.is_x_log() && !scale.is_y_log() {
        return series.clone();
    }
    let points: Vec<Option<(f64, f64)>> = placed(series, scale).collect();
    let labels = series.labels.iter().zip(&points).filter(|(_, point)| point.is_some());
    let labels = labels.map(|(label, _)| label.clone()).collect();
    let (x, y) = points.into_iter().flatten().unzip();
    Series { x, y, low: vec![], high: vec![], labels, ..series.clone() }
}

/// Returns the position of each point of a series along the axes. On a logarithmic axis, a point
/// whose value has no logarithm has no position.
fn placed(series: &Series, scale: Scale) -> impl Iterator<Item = Option<(f64, f64)>> {
    pairs(series).map(move |point| match scale.is_x_log() || scale.is_y_log() {
        true => scale.position(point),
        false => Some(point),
    })
}

/// True if each point has a label that no other point of the series has, such as the name of a
/// configuration.
fn names_points(series: &Series) -> bool {
    let distinct: BTreeSet<&String> = series.labels.iter().collect();
    !distinct.is_empty() && distinct.len() == series.x.len()
}

fn pairs(series: &Series) -> impl Iterator<Item = (f64, f64)> {
    series.x.iter().copied().zip(series.y.iter().copied())
}

/// True if two boxes (left, top, right, bottom) have a common part.
fn overlap(a: &[f64; 4], b: &[f64; 4]) -> bool {
    a[0] <= b[2] && b[0] <= a[2] && a[1] <= b[3] && b[1] <= a[3]
}

/// Returns the attributes `class` and `color` of a group of series.
fn colour_of(group: usize) -> String {
    format!("class=\"s{}\" color=\"{}\"", group % super::PALETTE.len(), colour(group))
}

/// Returns the dash pattern of the line at the index `at` of `series`. The n-th line of a colour
/// has the n-th pattern.
fn dash(series: &[Series], at: usize) -> &'static str {
    let is_alike =
        |it: &&Series| it.kind == SeriesKind::Line && colour(it.group) == colour(series[at].group);
    DASHES[series[..at].iter().filter(is_alike).count() % DASHES.len()]
}

/// Wraps the title of the figure into lines for a picture of the width `width`.
fn title_lines(figure: &Figure, width: f64) -> Vec<String> {
    wrapped(&figure.title, width - 2.0 * MARGIN, TITLE)
}

fn draw_title(svg: &mut String, lines: &[String]) {
    for (at, line) in lines.iter().enumerate() {
        let y = 26.0 + 24.0 * at as f64;
        put_text(svg, (MARGIN, y), &format!("font-size=\"{TITLE}\""), line);
    }
}

fn draw_legend(svg: &mut String, figure: &Figure, width: f64, top: f64) {
    for (row, entries) in legend_rows(figure, width - 2.0 * MARGIN).iter().enumerate() {
        let y = top + LINE * row as f64;
        for (at, x, name) in entries {
            let (series, x) = (&figure.series[*at], MARGIN + x);
            let _ = write!(svg, "<g {}>", colour_of(series.group));
            let middle = y - 5.0;
            let _ = match series.kind {
                SeriesKind::Line => write!(
                    svg,
                    "<path d=\"M{x:.1} {middle:.1}h24\" stroke=\"currentColor\" \
                     stroke-width=\"2\" stroke-dasharray=\"{}\"/>",
                    dash(&figure.series, *at)
                ),
                SeriesKind::Points => write!(
                    svg,
                    "<circle cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"5\" fill=\"currentColor\"/>",
                    x + 12.0
                ),
                SeriesKind::Bars => write!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"24\" height=\"12\" \
                     fill=\"currentColor\"/>",
                    middle - 6.0
                ),
            };
            svg.push_str("</g>");
            put_text(svg, (x + 30.0, y), "", name);
        }
    }
}

/// Returns the entries of the legend by row. An entry has the index of the series, the x
/// coordinate, and the name.
fn legend_rows(figure: &Figure, width: f64) -> Vec<Vec<(usize, f64, String)>> {
    let mut rows: Vec<Vec<(usize, f64, String)>> = vec![];
    let mut end = f64::INFINITY;
    for (at, series) in figure.series.iter().enumerate() {
        let name = shortened(&series.name, width - 30.0, TEXT);
        let needs = 30.0 + text_width(&name, TEXT) + 20.0;
        if end + needs - 20.0 > width {
            rows.push(vec![]);
            end = 0.0;
        }
        if let Some(row) = rows.last_mut() {
            row.push((at, end, name));
        }
        end += needs;
    }
    rows
}

fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * CHARACTER * size
}

/// Returns `text`, cut with an ellipsis if it is wider than `width` at the font size `size`.
fn shortened(text: &str, width: f64, size: f64) -> String {
    let fits = (width / (CHARACTER * size)).max(2.0) as usize;
    if text.chars().count() <= fits {
        return text.to_string();
    }
    text.chars().take(fits - 1).chain(['…']).collect()
}

/// Wraps `text` into lines of at most `width` at the font size `size`. Words after the third line
/// are left out.
fn wrapped(text: &str, width: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line, size) + text_width(word, size) + size < width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(shortened(word, width, size)),
        }
    }
    lines.truncate(3);
    lines
}

fn put_text(svg: &mut String, (x, y): (f64, f64), attributes: &str, text: &str) {
    let space = if attributes.is_empty() { "" } else { " " };
    let _ =
        write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\"{space}{attributes}>{}</text>", escaped(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(series: Vec<Series>, categories: &[&str]) -> Figure {
        Figure {
            id: "a".into(),
            title: "Loaded latency of both tiers, <measured> & predicted, with all mixes".into(),
            x_label: "load, GB/s".into(),
            y_label: "latency, ns".into(),
            y_from: 0.0,
            scale: Scale::Linear,
            categories: categories.iter().map(ToString::to_string).collect(),
            series,
            caption: String::new(),
        }
    }

    fn line(name: &str, group: usize) -> Series {
        Series::new(name, SeriesKind::Line, group, [(0.0, 100.0), (40.0, 120.0), (50.0, 400.0)])
    }

    /// Returns the x coordinates of all texts and circles.
    fn places(svg: &str) -> Vec<f64> {
        let of = |key: &str| {
            let parts = svg.split(key).skip(1).map(|rest| rest.split('"').next());
            parts.filter_map(|part| part?.parse::<f64>().ok()).collect::<Vec<_>>()
        };
        [of("<text x=\""), of(" cx=\"")].concat()
    }

    #[test]
    fn nothing_is_drawn_outside_of_either_width() {
        let figure = figure(vec![line("local", 0), line("a name of some length", 1)], &[]);
        for width in [Width::Wide, Width::Narrow] {
            let svg = part(&figure, width).unwrap_or_else(|why| panic!("{why}"));
            let end = width.size().0;
            let places = places(&svg);
            assert!(places.len() > 10 && places.iter().all(|x| (0.0..=end).contains(x)), "{svg}");
            assert!(svg.contains("&lt;measured&gt; &amp;"), "{svg}");
        }
    }

    #[test]
    fn a_point_has_its_values_and_lines_of_one_colour_differ() {
        let labelled = line("mixes", 0).with_labels(vec!["1:1".into(), "1:1".into(), "2:1".into()]);
        let svg = picture(&figure(vec![labelled, line("other", 7)], &[])).unwrap_or_default();
        assert!(svg.contains("<title>mixes 2:1: 400.0 at 50.00</title>"), "{svg}");
        assert_eq!(
            svg.matches(">1:1</text>").count(),
            1,
            "a label is drawn where it changes: {svg}"
        );
        assert_eq!(svg.matches("stroke-dasharray=\"7 4\"").count(), 2, "line and legend: {svg}");
    }

    #[test]
    fn bars_start_at_zero_and_have_their_interval() {
        let bars = Series::new("ours", SeriesKind::Bars, 0, [(0.0, 1.0), (1.0, 2.0)])
            .with_interval([(0.5, 1.5), (1.5, 2.5)]);
        let names = ["a", "a name that is too long to be drawn in the narrow space below its bar"];
        let svg = picture(&figure(vec![bars], &names)).unwrap_or_default();
        assert_eq!(svg.matches("h6M").count(), 2, "{svg}");
        assert!(svg.contains("rotate(90") && svg.contains("ours, a: 1.000"), "{svg}");
    }

    #[test]
    fn a_horizontal_axis_from_zero_has_its_label() {
        let prices = [(21_000.0, 1.0), (38_000.0, 1.4)];
        let points = Series::new("s", SeriesKind::Points, 0, prices);
        let of = |scale| picture(&Figure { scale, ..figure(vec![points.clone()], &[]) });
        let zeros = |scale| of(scale).unwrap_or_default().matches(">0</text>").count();
        assert_eq!((zeros(Scale::Linear), zeros(Scale::LinearFromZero)), (0, 1));
    }

    #[test]
    fn hints_have_the_values_beside_points_that_a_logarithmic_axis_leaves_out() {
        let points =
            Series::new("s", SeriesKind::Points, 0, [(0.0, 1.0), (10.0, 2.0), (100.0, 3.0)]);
        let figure = Figure { scale: Scale::LogX, ..figure(vec![points], &[]) };
        let svg = picture(&figure).unwrap_or_default();
        let hints: Vec<&str> = svg.split("<title>").skip(1).collect();
        assert_eq!(hints.len(), 2, "{svg}");
        assert!(
            hints[0].starts_with("s: 2.000 at 10.00") && hints[1].starts_with("s: 3.000 at 100.0")
        );
    }

    #[test]
    fn a_figure_without_points_is_refused() {
        let empty = figure(vec![Series::new("s", SeriesKind::Line, 0, [])], &[]);
        assert!(picture(&empty).unwrap_err().ends_with("it has no points"));
    }
}
