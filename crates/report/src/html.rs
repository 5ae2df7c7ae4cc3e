//! Renders a document as a self-contained HTML page. Figures are SVG; the page loads no other file
//! and runs no script. It has light and dark colours, and a second set of narrow pictures for
//! telephones.

use super::{
    balance, bench, bench_compare, card, card_cost, card_test, compare_records, compare_runs, dimm,
    extend, measure, measure_app, origin,
    page::Page,
    plan, predict, reproduce, run, show, show_machine, simulate_machine,
    svg::{self, Width},
    sweep,
    table::escaped,
    tune,
};
use interleaf_record::{
    Document,
    figure::Figure,
    reproduce::{ReproduceDocument, StudyDocument},
};

const STYLE: &str = include_str!("html/page.css");

/// Renders the HTML page of a document.
pub fn page(document: &Document) -> String {
    let (title, body) = contents(document);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\
         {foot}</body>\n</html>\n",
        title = escaped(&title),
        foot = foot(document),
    )
}

/// Renders the foot of the page: the origin of the document, its schema, and the version of the
/// program that made the page.
fn foot(document: &Document) -> String {
    let facts = origin::facts(document);
    let facts = facts.iter().map(|(name, text)| format!("{name}: {}<br>\n", escaped(text)));
    let facts: String = facts.collect();
    let (version, schema) = (env!("CARGO_PKG_VERSION"), escaped(document.schema()));
    format!("<p class=\"source\">{facts}document: {schema}<br>\nMade by interleaf {version}.</p>\n")
}

fn warned(warnings: &[String]) -> String {
    warnings.iter().map(|text| format!("<p>Warning: {}</p>\n", escaped(text))).collect()
}

/// Returns the title of a document's page as plain text, and the HTML below the title.
pub fn contents(document: &Document) -> (String, String) {
    match document {
        Document::Predict(document) => {
            let title = predict::title(document);
            let figures = drawn(&document.figures(), "");
            let answer = escaped(&predict::verdict(document));
            let provenance = escaped(&predict::provenance(document));
            let tables = predict::html_tables(document);
            let warnings = warned(&document.warnings);
            let head = format!("<p class=\"answer\">{answer}</p>\n{warnings}");
            (title, format!("{head}{figures}<p class=\"source\">{provenance}</p>\n{tables}"))
        }
        Document::Plan(document) => {
            let figures = drawn(&document.figures(), "");
            (plan::title(document), plan::html(document, &figures))
        }
        Document::Machine(document) => {
            let title = format!("{}, simulated", simulate_machine::title(document));
            let figures = drawn(&document.figures(), "");
            let verdict = escaped(&simulate_machine::verdict(document));
            let tables = simulate_machine::html_tables(document);
            let head = format!("<p class=\"answer\">{verdict}</p>\n{}", warned(&document.warnings));
            (title, format!("{head}{figures}{tables}"))
        }
        Document::Dimm(document) => {
            let figures = drawn(&document.figures(), "");
            let answer = escaped(&dimm::verdict(document));
            let tables = dimm::html_tables(document);
            let body = format!("<p class=\"answer\">{answer}</p>\n{figures}{tables}");
            (dimm::title(document), body)
        }
        Document::Card(document) => {
            let verdict = escaped(&card::verdict(document));
            let figures = drawn(&document.figures(), "");
            let tables = card::html_tables(document);
            (card::title(document), format!("<p class=\"answer\">{verdict}</p>\n{figures}{tables}"))
        }
        Document::Measure(document) => {
            let figures = drawn(&document.figures(), "");
            (measure::title(document), measure::html(document, &figures))
        }
        Document::Compare(document) => {
            let figures = drawn(&document.figures(), "");
            (compare_records::title(document), compare_records::html(document, &figures))
        }
        Document::CompareRuns(document) => {
            let figures = drawn(&document.figures(), "");
            (compare_runs::title(document), compare_runs::html(document, &figures))
        }
        Document::Profile(document) => {
            let figures = drawn(&document.figures(), "");
            (measure_app::title(document), measure_app::html(document, &figures))
        }
        Document::Bench(document) => {
            let figures = drawn(&document.figures(), "");
            (bench_compare::title(document), bench_compare::html(document, &figures))
        }
        Document::BenchRun(it) => below_title(document, bench::page(it)),
        Document::Extend(it) => below_title(document, extend::page(it)),
        Document::ExtendForecast(it) => below_title(document, extend::forecast_page(it)),
        Document::ExtendPlan(it) => below_title(document, extend::plan_page(it)),
        Document::Tune(it) => below_title(document, tune::page(it)),
        Document::Run(it) => below_title(document, run::page(it)),
        Document::Balance(it) => below_title(document, balance::page(it)),
        Document::BalancePlan(it) => below_title(document, balance::plan_page(it)),
        Document::Advice(it) => below_title(document, balance::advice_page(it)),
        Document::CardTest(it) => below_title(document, card_test::page(it)),
        Document::CardCost(it) => below_title(document, card_cost::page(it)),
        Document::Doctor(it) => below_title(document, show_machine::doctor_page(it)),
        Document::ShowMachine(it) => below_title(document, show_machine::page(it)),
        Document::ShowPlatform(it) => below_title(document, show::page(it)),
        Document::Sweep(it) => below_title(document, sweep::page(it)),
        Document::DimmSweep(it) => below_title(document, sweep::dimm::page(it)),
        Document::Reproduce(it) => ("Published and ours".to_string(), studies(it)),
    }
}

/// Renders all studies as HTML, with a section for each study.
fn studies(document: &ReproduceDocument) -> String {
    let section = |study: &StudyDocument| {
        format!(
            "<h2>{}</h2>\n<p class=\"answer\">{}</p>\n<p class=\"source\">{}</p>\n{}{}",
            escaped(&study.title),
            escaped(&reproduce::verdict(study)),
            escaped(&study.source),
            drawn(&study.figures, &study.name),
            reproduce::html_tables(study),
        )
    };
    document.studies.iter().map(section).collect()
}

fn below_title(document: &Document, page: Page) -> (String, String) {
    let body = page.html(&drawn(&document.figures(), ""));
    (page.title, body)
}

fn drawn(figures: &[Figure], prefix: &str) -> String {
    let picture = |figure: &Figure, width: Width, class: &str| {
        let svg =
            svg::part(figure, width).unwrap_or_else(|why| format!("<p>{}</p>", escaped(&why)));
        format!("<div class=\"{class}\">{svg}</div>\n")
    };
    let one = |figure: &Figure| {
        format!(
            "<figure id=\"{prefix}-{}\">\n{}{}<figcaption>{}</figcaption>\n</figure>\n",
            escaped(&figure.id),
            picture(figure, Width::Wide, "wide"),
            picture(figure, Width::Narrow, "narrow"),
            escaped(&figure.caption),
        )
    };
    figures.iter().map(one).collect()
}
