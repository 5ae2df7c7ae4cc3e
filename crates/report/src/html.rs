//! A self-contained HTML page: it includes the script (plotly.js) that draws the figures.

use super::{
    bench_compare, card, colour, compare, compare_runs, dimm, measure, predict, profile, reproduce,
    simulate, table::escaped,
};
use interleaf_record::{
    Document,
    figure::{Figure, Series, SeriesKind},
};
use plotly::{
    Bar, Layout, Plot, Scatter,
    color::NamedColor,
    common::{ErrorData, ErrorType, Fill, Line, Marker, MarkerSymbol, Mode, Position, Title},
    layout::{Axis, AxisType, BarMode, Legend, Margin},
};

const STYLE: &str = "\
:root { color-scheme: light }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1b1b; background: #fff }
h1 { font-size: 1.6rem } h2 { margin-top: 2.5rem } h3 { margin-top: 2rem }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px }
th, td { padding: .2rem .8rem; text-align: left; border-bottom: 1px solid #ddd }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums }
summary { cursor: pointer; padding: .3rem 0 }
figure { margin: 1.5rem 0 } figcaption { color: #555 }
.plot { width: 100%; height: 30rem }
.source { color: #555 }
";

/// The page of a document.
pub fn page(document: &Document) -> String {
    let (title, body) = contents(document);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n{script}\n</head>\n<body>\n<h1>{title}</h1>\n{body}\
         <p class=\"source\">Made by interleaf {version}.</p>\n</body>\n</html>\n",
        title = escaped(&title),
        script = script(),
        version = env!("CARGO_PKG_VERSION"),
    )
}

/// The title of the page of a document, as plain text, and the HTML below it.
pub fn contents(document: &Document) -> (String, String) {
    match document {
        Document::Predict(document) => {
            let title = format!("{} on {}", document.workload, document.platform);
            let figures = drawn(&document.figures(), "");
            let provenance = escaped(&predict::provenance(document));
            let tables = predict::html_tables(document);
            (title, format!("{figures}<p class=\"source\">{provenance}</p>\n{tables}"))
        }
        Document::Machine(document) => {
            let title = simulate::title(document);
            let figures = drawn(&document.figures(), "");
            let verdict = escaped(&simulate::verdict(document));
            let tables = simulate::html_tables(document);
            (title, format!("<p><b>{verdict}</b></p>\n{figures}{tables}"))
        }
        Document::Dimm(document) => {
            let figures = drawn(&document.figures(), "");
            (dimm::title(document), format!("{figures}{}", dimm::html_tables(document)))
        }
        Document::Card(document) => {
            let verdict = escaped(&card::verdict(document));
            let figures = drawn(&document.figures(), "");
            let tables = card::html_tables(document);
            (card::title(document), format!("<p><b>{verdict}</b></p>\n{figures}{tables}"))
        }
        Document::Measure(document) => {
            let findings = measure::findings(document);
            let findings = findings.iter().map(|line| format!("<li>{}</li>\n", escaped(line)));
            let findings: String = findings.collect();
            let figures = drawn(&document.figures(), "");
            let tables = measure::html_tables(document);
            (measure::title(document), format!("<ul>\n{findings}</ul>\n{figures}{tables}"))
        }
        Document::Compare(document) => {
            let title = format!("{} and {}", document.first.name, document.second.name);
            (title, compare::html(document))
        }
        Document::CompareRuns(document) => {
            let figures = drawn(&document.figures(), "");
            (compare_runs::title(document), compare_runs::html(document, &figures))
        }
        Document::Profile(document) => {
            let figures = drawn(&document.figures(), "");
            (profile::title(document), profile::html(document, &figures))
        }
        Document::Bench(document) => {
            let figures = drawn(&document.figures(), "");
            (bench_compare::title(document), bench_compare::html(document, &figures))
        }
        Document::Reproduce(document) => {
            let studies = document.studies.iter().map(|study| {
                format!(
                    "<h2>{}</h2>\n<p class=\"source\">{}</p>\n{}{}",
                    escaped(&study.title),
                    escaped(&study.source),
                    drawn(&study.figures, &study.name),
                    reproduce::html_tables(study),
                )
            });
            ("Published and ours".to_string(), studies.collect())
        }
    }
}

/// The script that draws the plots. The library also provides a script for formulas, which figures
/// do not have.
fn script() -> String {
    let sources = Plot::offline_js_sources();
    let end = "</script>";
    match sources.find(end) {
        Some(at) => sources[..at + end.len()].to_string(),
        None => sources,
    }
}

fn drawn(figures: &[Figure], prefix: &str) -> String {
    let one = |figure: &Figure| {
        let id = format!("{prefix}-{}", figure.id);
        format!(
            "<figure>\n<div class=\"plot\">{}</div>\n<figcaption>{}</figcaption>\n</figure>\n",
            plot(figure).to_inline_html(Some(&id)),
            escaped(&figure.caption),
        )
    };
    figures.iter().map(one).collect()
}

fn plot(figure: &Figure) -> Plot {
    let mut plot = Plot::new();
    for series in &figure.series {
        match series.kind {
            SeriesKind::Line => {
                if !series.low.is_empty() {
                    band(&mut plot, series);
                }
                plot.add_trace(line(series));
            }
            SeriesKind::Points => plot.add_trace(points(series)),
            SeriesKind::Bars => plot.add_trace(bars(series, &figure.categories)),
        }
    }
    let axis = |label: &str, is_log: bool| {
        let axis = Axis::new().title(Title::from(label)).zero_line(false).grid_color("#e5e5e5");
        if is_log { axis.type_(AxisType::Log) } else { axis }
    };
    let layout = Layout::new()
        .title(Title::from(figure.title.as_str()))
        .x_axis(axis(&figure.x_label, figure.scale.is_x_log()).auto_margin(true))
        .y_axis(axis(&figure.y_label, figure.scale.is_y_log()))
        .bar_mode(BarMode::Group)
        .legend(Legend::new())
        .plot_background_color(NamedColor::White)
        .margin(Margin::new().top(60).right(20))
        .auto_size(true);
    plot.set_layout(layout);
    plot
}

/// The band between the low and high ends of a series, behind its line.
fn band(plot: &mut Plot, series: &Series) {
    let edge = |y: &Vec<f64>| {
        Scatter::new(series.x.clone(), y.clone())
            .mode(Mode::Lines)
            .line(Line::new().width(0.0).color(colour(series.group)))
            .show_legend(false)
            .hover_info(plotly::common::HoverInfo::Skip)
    };
    plot.add_trace(edge(&series.low));
    let shade = format!("{}22", colour(series.group));
    plot.add_trace(edge(&series.high).fill(Fill::ToNextY).fill_color(shade));
}

fn line(series: &Series) -> Box<Scatter<f64, f64>> {
    let labelled = !series.labels.is_empty() && series.x.len() <= 45;
    let trace = Scatter::new(series.x.clone(), series.y.clone())
        .name(&series.name)
        .mode(if labelled { Mode::LinesMarkers } else { Mode::Lines })
        .line(Line::new().color(colour(series.group)))
        .marker(Marker::new().size(5));
    if !labelled {
        return trace;
    }
    // Show a label where it changes; the tooltip of each point has its own label.
    let changes = |at: usize| at == 0 || series.labels[at] != series.labels[at - 1];
    let texts = series.labels.iter().enumerate();
    let texts = texts.map(|(at, label)| if changes(at) { label.clone() } else { String::new() });
    trace
        .mode(Mode::LinesMarkersText)
        .text_array(texts.collect())
        .text_position(Position::BottomRight)
        .hover_text_array(series.labels.clone())
}

fn points(series: &Series) -> Box<Scatter<f64, f64>> {
    let marker = Marker::new().size(9).color(colour(series.group)).symbol(MarkerSymbol::Circle);
    let trace = Scatter::new(series.x.clone(), series.y.clone())
        .name(&series.name)
        .mode(Mode::Markers)
        .marker(marker);
    if series.labels.is_empty() { trace } else { trace.hover_text_array(series.labels.clone()) }
}

fn bars(series: &Series, categories: &[String]) -> Box<Bar<String, f64>> {
    let names = series.x.iter().filter_map(|at| categories.get(*at as usize).cloned()).collect();
    let trace = Bar::new(names, series.y.clone())
        .name(&series.name)
        .marker(Marker::new().color(colour(series.group)));
    if series.low.is_empty() {
        return trace;
    }
    let distance = |ends: &[f64]| ends.iter().zip(&series.y).map(|(a, b)| (a - b).abs()).collect();
    let whiskers = ErrorData::new(ErrorType::Data)
        .array(distance(&series.high))
        .array_minus(distance(&series.low));
    trace.error_y(whiskers)
}
