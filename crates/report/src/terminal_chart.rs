//! Draws figures as charts for a terminal, with coloured braille characters. Letters replace the
//! braille characters on a terminal with ASCII only, and for several series on a terminal without
//! colours. Pipes and files get tables without charts.

use super::{
    screen::{self, Screen},
    short_number,
};
use interleaf_record::figure::{Figure, Scale, Series, SeriesKind};
use ratatui::{
    buffer::{Buffer, Cell},
    layout::Rect,
    style::{Color, Style},
    symbols::Marker,
    widgets::{Axis, Chart, Dataset, GraphType, Widget as _},
};

/// `WIDTH_MAX` is the largest width of a chart with its axes and labels, in characters. `HEIGHT` is
/// the height of each chart, in lines.
const WIDTH_MAX: u16 = 100;
const HEIGHT: u16 = 16;

/// Number of labels along each axis, including the labels at both ends.
const LABELS: usize = 3;

/// Colours of series, as indices of the 16 terminal colours. These colours are readable on black
/// and on white.
const COLOURS: [u8; 6] = [4, 1, 2, 5, 6, 3];

/// Draws a figure with numeric axes as text, without the labels of points. The text is empty if an
/// axis has no range, if the terminal is narrower than 32 characters, or if the output is a pipe or
/// a file.
pub fn text(figure: &Figure) -> String {
    drawn_on(figure, screen::current())
}

fn drawn_on(figure: &Figure, screen: Screen) -> String {
    let Some(width) = screen.width.filter(|_| screen.has_charts) else { return String::new() };
    let width = u16::try_from(width.saturating_sub(2)).unwrap_or(WIDTH_MAX).min(WIDTH_MAX);
    let area = Rect::new(0, 0, width, HEIGHT);
    let scale = figure.scale;
    let points: Vec<Vec<(f64, f64)>> =
        figure.series.iter().map(|series| drawn(series, scale)).collect();
    let all = || points.iter().flatten();
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max);
    let from = least(&mut all().map(|point| point.0));
    let from = if scale.is_x_from_zero() { from.min(0.0) } else { from };
    let x = [from, most(&mut all().map(|point| point.0))];
    let top = most(&mut all().map(|point| point.1));
    let bottom = match scale.is_y_log() {
        true => least(&mut all().map(|point| point.1)),
        false => figure.y_from,
    };
    let y = [bottom, top + 0.05 * (top - bottom)];
    if x[0] >= x[1] || y[0] >= y[1] || width < 30 {
        return String::new();
    }
    let datasets = figure.series.iter().zip(&points).enumerate().map(|(at, (series, points))| {
        let kind = match series.kind {
            SeriesKind::Line => GraphType::Line,
            SeriesKind::Points | SeriesKind::Bars => GraphType::Scatter,
        };
        // The chart is drawn with the index of a series in place of its colour. `Pen` later
        // replaces the index by a colour or a letter.
        let style = Style::new().fg(Color::Indexed(at as u8));
        Dataset::default().marker(Marker::Braille).graph_type(kind).style(style).data(points)
    });
    let mut buffer = Buffer::empty(area);
    Chart::new(datasets.collect())
        .x_axis(axis(x, scale.is_x_log()))
        .y_axis(axis(y, scale.is_y_log()))
        .render(area, &mut buffer);
    let pen = Pen { screen, series: figure.series.len() };
    let row = |y: u16| {
        let row: String = (0..area.width).map(|x| pen.character(&buffer[(x, y)])).collect();
        format!("  {}\n", row.trim_end())
    };
    let drawn: String = (0..area.height).map(row).collect();
    let legend = pen.legend(figure);
    format!("{}, against {}\n{legend}{drawn}", figure.y_label, figure.x_label)
}

/// The terminal and the number of series, which determine the characters of a chart.
struct Pen {
    screen: Screen,
    series: usize,
}

impl Pen {
    /// True if letters, or `*` for a single series, replace the braille characters.
    fn has_letters(&self) -> bool {
        !self.screen.has_unicode || (self.series > 1 && !self.screen.has_colour)
    }

    fn mark(&self, series: usize) -> char {
        let letter = u8::try_from(series % 26).unwrap_or(0);
        if self.series > 1 { char::from(b'a' + letter) } else { '*' }
    }

    fn coloured(&self, series: usize, text: &str) -> String {
        match self.screen.has_colour && self.series > 1 {
            true => format!("\u{1b}[3{}m{text}\u{1b}[0m", COLOURS[series % COLOURS.len()]),
            false => text.to_string(),
        }
    }

    fn character(&self, cell: &Cell) -> String {
        let symbol = cell.symbol();
        let series = match cell.fg {
            Color::Indexed(series) => usize::from(series),
            _ => 0,
        };
        let first = symbol.chars().next().unwrap_or(' ');
        match first {
            '\u{2800}' => " ".into(),
            '\u{2801}'..='\u{28ff}' if self.has_letters() => {
                self.coloured(series, &self.mark(series).to_string())
            }
            '\u{2801}'..='\u{28ff}' => self.coloured(series, symbol),
            '│' if !self.screen.has_unicode => "|".into(),
            '─' if !self.screen.has_unicode => "-".into(),
            '└' if !self.screen.has_unicode => "+".into(),
            _ => symbol.into(),
        }
    }

    /// Formats the names of the series in lines that fit the width of the terminal; empty for a
    /// single series.
    fn legend(&self, figure: &Figure) -> String {
        if self.series < 2 {
            return String::new();
        }
        let width = self.screen.width.unwrap_or(usize::from(WIDTH_MAX));
        let (mut text, mut column) = (String::new(), 0);
        for (at, series) in figure.series.iter().enumerate() {
            let mark = if self.has_letters() { self.mark(at).to_string() } else { "──".into() };
            let length = mark.chars().count() + 1 + series.name.chars().count() + 3;
            if column > 0 && column + length > width {
                text.push('\n');
                column = 0;
            }
            text += if column == 0 { "  " } else { "   " };
            text += &format!("{} {}", self.coloured(at, &mark), series.name);
            column += length;
        }
        text + "\n"
    }
}

/// Returns the positions of the points of a series. A point at or below 0 has no position on a
/// logarithmic axis, and is left out.
fn drawn(series: &Series, scale: Scale) -> Vec<(f64, f64)> {
    let points = series.x.iter().copied().zip(series.y.iter().copied());
    points.filter_map(|point| scale.position(point)).collect()
}

fn axis(bounds: [f64; 2], is_log: bool) -> Axis<'static> {
    let [from, to] = bounds;
    let label = |at: usize| {
        let position = from + (to - from) * at as f64 / (LABELS - 1) as f64;
        short_number(if is_log { libm::pow(10.0, position) } else { position })
    };
    Axis::default().bounds(bounds).labels((0..LABELS).map(label).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: Screen =
        Screen { width: Some(72), has_charts: true, has_colour: false, has_unicode: true };

    fn figure(lines: &[&[(f64, f64)]]) -> Figure {
        let series = lines.iter().enumerate().map(|(at, points)| {
            Series::new(["dram", "cxl"][at], SeriesKind::Line, at, points.iter().copied())
        });
        Figure {
            id: "a".into(),
            title: "title".into(),
            x_label: "load, GB/s".into(),
            y_label: "latency, ns".into(),
            y_from: 0.0,
            scale: Scale::Linear,
            categories: vec![],
            series: series.collect(),
            caption: String::new(),
        }
    }

    const LINE: &[(f64, f64)] = &[(0.0, 100.0), (40.0, 120.0), (50.0, 400.0)];

    #[test]
    fn a_chart_has_its_line_and_the_ends_of_its_axes() {
        let text = drawn_on(&figure(&[LINE]), WIDE);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "latency, ns, against load, GB/s");
        assert_eq!(lines.len(), 1 + usize::from(HEIGHT), "{text}");
        assert!(lines[1].contains("420"), "the most, and a little room: {text}");
        let last = lines[lines.len() - 1];
        assert!(last.contains("25") && last.ends_with("50"), "{text}");
        let braille = |c: char| ('\u{2801}'..='\u{28ff}').contains(&c);
        assert!(text.chars().filter(|c| braille(*c)).count() > 40, "{text}");
    }

    #[test]
    fn lines_are_told_apart_by_colour_or_letter() {
        let two = figure(&[LINE, &[(0.0, 200.0), (50.0, 300.0)]]);
        let plain = drawn_on(&two, WIDE);
        assert!(plain.contains("\n  a dram   b cxl\n"), "{plain}");
        assert!(plain.matches('a').count() > 20 && plain.matches('b').count() > 20, "{plain}");
        let ascii = drawn_on(&two, Screen { has_unicode: false, ..WIDE });
        assert!(ascii.is_ascii() && ascii.contains('|'), "{ascii}");
        let coloured = drawn_on(&two, Screen { has_colour: true, ..WIDE });
        assert!(coloured.contains("\u{1b}[34m──\u{1b}[0m dram"), "{coloured}");
        let narrow = drawn_on(&two, Screen { width: Some(40), ..WIDE });
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
        assert_eq!(drawn_on(&two, Screen::default()), "", "a pipe has no chart");
    }

    #[test]
    fn logarithmic_axes_have_values_at_their_ends() {
        let points: &[(f64, f64)] = &[(1.0, 1.0), (16.0, 0.01), (256.0, 0.0), (256.0, 0.0001)];
        let text = drawn_on(&Figure { scale: Scale::LogXy, ..figure(&[points]) }, WIDE);
        let last = text.lines().last().unwrap_or_default().trim_end();
        assert!(last.contains("16") && last.ends_with("256"), "{text}");
        assert!(text.contains("0.0001"), "{text}");
    }

    #[test]
    fn without_points_there_is_no_chart() {
        let empty: [&[(f64, f64)]; 4] =
            [&[], &[(1.0, 1.0)], &[(f64::NAN, 1.0), (2.0, f64::NAN)], &[(0.0, 0.0), (1.0, 0.0)]];
        for points in empty {
            assert_eq!(drawn_on(&figure(&[points]), WIDE), "", "{points:?}");
        }
    }
}
