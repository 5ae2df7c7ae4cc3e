//! Draws figures that have a row for each category: points along a horizontal axis of values, with
//! their intervals and a line at zero. Long names are above the rows, other names are beside them.

use super::{
    LINE, MARGIN, TEXT, Width, axis::Axis, colour_of, draw_legend, draw_title, legend_rows, pairs,
    put_text, shortened, text_width, title_lines, wrapped,
};
use crate::{number, table::escaped};
use interleaf_record::figure::{Figure, Series};
use std::fmt::Write as _;

/// Height of the part of a row that has the points, SVG units.
const POINT: f64 = 20.0;

/// Space below a row, SVG units.
const GAP: f64 = 6.0;

/// Distance between the lines of a wrapped name, SVG units.
const NAME: f64 = 17.0;

/// The largest fraction of the picture's width that names beside the rows may take.
const NAMES_MAX: f64 = 0.5;

/// A row: the lines of its name, and its coordinates.
struct Row {
    name: Vec<String>,
    top: f64,
    /// The y coordinate of the points of the row.
    middle: f64,
}

/// Positions and sizes of the parts of a picture with rows.
struct Rows {
    width: f64,
    title: Vec<String>,
    rows: Vec<Row>,
    /// True if names are above their rows.
    is_above: bool,
    x: Axis,
    /// Approximate number of labels along the axis.
    labels: usize,
    top: f64,
    bottom: f64,
    with_hints: bool,
}

/// Draws the figure. Returns the width, the height and the SVG elements of the picture.
///
/// # Errors
/// When the figure cannot be drawn. The error is a text with the reason.
pub(super) fn drawn(figure: &Figure, width: Width) -> Result<(f64, f64, String), String> {
    let rows = Rows::new(figure, width)?;
    let below = rows.bottom + LINE;
    let mut svg = String::new();
    draw_title(&mut svg, &rows.title);
    rows.draw_axis(&mut svg);
    rows.draw_names(&mut svg);
    for series in &figure.series {
        rows.draw_points(&mut svg, series, figure);
    }
    let room = rows.width - 2.0 * MARGIN;
    let label = shortened(&figure.y_label, room, TEXT);
    let middle = 0.5 * (rows.x.start() + rows.x.end());
    // This position keeps both ends of a long label within the picture.
    let half = 0.5 * text_width(&label, TEXT);
    let middle = middle.min(rows.width - MARGIN - half).max(MARGIN + half);
    put_text(&mut svg, (middle, below + LINE), "class=\"label\" text-anchor=\"middle\"", &label);
    draw_legend(&mut svg, figure, rows.width, below + 2.0 * LINE + 8.0);
    let legend = LINE * legend_rows(figure, room).len() as f64;
    Ok((rows.width, below + LINE + 8.0 + legend + 10.0, svg))
}

impl Rows {
    fn new(figure: &Figure, width: Width) -> Result<Self, String> {
        let (across, _) = width.size();
        let ends = figure.series.iter().flat_map(|it| [&it.y, &it.low, &it.high]).flatten();
        let (least, most) =
            ends.fold((0.0_f64, 0.0_f64), |(least, most), end| (least.min(*end), most.max(*end)));
        let names = figure.categories.iter().map(|name| text_width(name, TEXT));
        let longest = names.fold(0.0, f64::max);
        let is_above = longest > NAMES_MAX * across;
        let left = if is_above { MARGIN + 8.0 } else { MARGIN + longest + 16.0 };
        let right = across - MARGIN - 8.0;
        let title = title_lines(figure, across);
        let top = 12.0 + 24.0 * title.len() as f64 + 8.0;
        let mut bottom = top;
        let row = |name: &String| {
            let room = across - 2.0 * MARGIN;
            // The name is wrapped between words; only a word that is longer than the row is cut.
            let name = if is_above { wrapped(name, room, TEXT) } else { vec![name.clone()] };
            let above = if is_above { NAME * name.len() as f64 } else { 0.0 };
            let row = Row { name, top: bottom, middle: bottom + above + 0.5 * POINT };
            bottom += above + POINT + GAP;
            row
        };
        let rows = figure.categories.iter().map(row).collect();
        // A label of the axis is up to about 90 SVG units wide.
        let labels = (((right - left) / 90.0) as usize).max(2);
        let x = Axis::new([least, most], false)?.with_labels_around([least, most], labels);
        let x = x.drawn_between(left, right);
        let with_hints = width == Width::Wide;
        Ok(Self { width: across, title, rows, is_above, x, labels, top, bottom, with_hints })
    }

    fn draw_axis(&self, svg: &mut String) {
        let bottom = self.bottom;
        let ticks = self.x.ticks(self.labels);
        svg.push_str("<g class=\"grid\" stroke=\"#e0e0e0\">");
        for tick in &ticks {
            let _ = write!(svg, "<path d=\"{}\"/>", self.upright(tick.position));
        }
        svg.push_str("</g>\n<g text-anchor=\"middle\">");
        for tick in &ticks {
            put_text(svg, (self.x.at(tick.position), bottom + 18.0), "", &tick.label);
        }
        let (zero, left, right) = (self.upright(0.0), self.x.start(), self.x.end());
        let _ = writeln!(
            svg,
            "</g>\n<path class=\"axis\" d=\"{zero}M{left:.1} {bottom:.1}H{right:.1}\" \
             fill=\"none\" stroke=\"#707070\"/>"
        );
    }

    /// Returns the path of a vertical line at `value`. Names above the rows interrupt the line.
    fn upright(&self, value: f64) -> String {
        let x = self.x.at(value);
        if !self.is_above {
            return format!("M{x:.1} {:.1}V{:.1}", self.top, self.bottom);
        }
        let half = 0.5 * POINT;
        let part = |row: &Row| format!("M{x:.1} {:.1}V{:.1}", row.middle - half, row.middle + half);
        self.rows.iter().map(part).collect()
    }

    fn draw_names(&self, svg: &mut String) {
        for row in &self.rows {
            for (at, line) in row.name.iter().enumerate() {
                let y = match self.is_above {
                    true => row.top + 13.0 + NAME * at as f64,
                    false => row.middle + 5.0,
                };
                put_text(svg, (MARGIN, y), "", line);
            }
        }
        svg.push('\n');
    }

    fn draw_points(&self, svg: &mut String, series: &Series, figure: &Figure) {
        let _ = writeln!(svg, "<g {}>", colour_of(series.group));
        for (at, (category, value)) in pairs(series).enumerate() {
            let Some(row) = self.rows.get(category as usize) else { continue };
            let (x, y) = (self.x.at(value), row.middle);
            let interval = series.low.get(at).zip(series.high.get(at));
            let mut hint = format!(
                "{}, {}: {}",
                series.name,
                figure.categories[category as usize],
                number(value)
            );
            if let Some((low, high)) = interval {
                let (from, to, cap) = (self.x.at(*low), self.x.at(*high), y - 4.0);
                let _ = write!(
                    svg,
                    "<path d=\"M{from:.1} {y:.1}H{to:.1}M{from:.1} {cap:.1}v8M{to:.1} \
                     {cap:.1}v8\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\"/>"
                );
                let _ = write!(hint, " ({} to {})", number(*low), number(*high));
            }
            let title = match self.with_hints {
                true => format!("<title>{}</title>", escaped(&hint)),
                false => String::new(),
            };
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"currentColor\">{title}</circle>"
            );
        }
        svg.push_str("</g>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::{CHARACTER, part};
    use interleaf_record::figure::SeriesKind;

    fn figure(names: &[&str]) -> Figure {
        let points = (0..names.len()).map(|at| (at as f64, 3.0 - 4.0 * at as f64));
        let ends = (0..names.len()).map(|at| (2.0 - 4.0 * at as f64, 4.0 - 4.0 * at as f64));
        let series = Series::new("better", SeriesKind::Points, 0, points).with_interval(ends);
        Figure {
            categories: names.iter().map(ToString::to_string).collect(),
            series: vec![series],
            ..Figure::new("a", "Bandwidth", "point", "difference of bandwidth, %")
        }
    }

    #[test]
    fn each_category_has_a_row_with_its_name_and_its_interval() {
        let svg = part(&figure(&["R", "2:1"]), Width::Wide).unwrap_or_default();
        assert_eq!(svg.matches("v8M").count(), 2, "{svg}");
        assert!(svg.contains("<title>better, 2:1: -1.000 (-2.000 to 0)</title>"), "{svg}");
        assert!(svg.contains(">R</text>") && svg.contains(">0</text>"), "{svg}");
    }

    #[test]
    fn long_names_are_above_their_rows_and_not_cut() {
        let name = "bandwidth, cpus of node 0, memory of node 0, R, sequential, 2 threads";
        let rows = |width| Rows::new(&figure(&[name, "R"]), width);
        let Ok(narrow) = rows(Width::Narrow) else { panic!("it can be drawn") };
        assert!(narrow.is_above);
        assert_eq!((narrow.rows[0].name.len(), narrow.rows[0].name.join(" ")), (2, name.into()));
        assert!(narrow.rows[0].middle > narrow.rows[0].top + 2.0 * NAME);
        let widest = narrow.rows[0].name.iter().map(String::len).max().unwrap_or(0) as f64;
        assert!(widest * CHARACTER * TEXT < 440.0 - MARGIN);
    }
}
