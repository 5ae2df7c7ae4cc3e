//! Renders predicted bandwidth, latency and speed-up by weights (`interleaf.predict/1`) as text,
//! Markdown, HTML and CSV.

use super::{
    number,
    page::counted,
    screen::{Meaning, painted},
    table::{Table, csv_number, escaped},
    terminal_chart,
};
use interleaf_model::weights::Weights;
use interleaf_record::{
    ProvenanceDocument,
    predict::{LoadPointDocument, PredictDocument, PredictRow, weights_text},
};

/// Pairs of weights (first tier, second tier) whose rows are shown by default, on a platform with
/// two tiers.
const SHOWN: [[u16; 2]; 10] =
    [[1, 0], [9, 1], [5, 1], [4, 1], [3, 1], [5, 2], [2, 1], [3, 2], [1, 1], [0, 1]];

/// Maximum number of rows of a document for which a table shows every row, even without `--weights
/// all`.
const ROWS_MAX: usize = 32;

/// Renders the document as text for a terminal.
pub fn text(document: &PredictDocument, every_row: bool) -> String {
    let shown = shown_rows(document, every_row);
    let mut text = format!(
        "{}\n\n{} (weights {})\n\n{}\n",
        painted(Meaning::Answer, &verdict(document)),
        title(document),
        document.tiers.join(":"),
        table(document, &shown).text()
    );
    if let Some(ratios) = document.ratios_tried {
        text += &format!(
            "{ratios} ratios were tried; each row is the best of its set of tiers; --weights all \
             shows each\n"
        );
    } else if shown.len() < document.rows.len() {
        text += &format!("{} ratios were tried; --weights all shows each\n", document.rows.len());
    }
    for note in notes(document).lines() {
        text += &format!("{note}\n");
    }
    for warning in warnings(document).lines() {
        text += &format!("{}\n", painted(Meaning::Doubtful, warning));
    }
    text += &format!("{}\n", provenance(document));
    if !document.load_curve.is_empty() {
        text += &format!(
            "\nhow the best weights move with the load\n\n{}",
            load_table(document).text()
        );
    }
    let charts = document.figures();
    let charts = charts.iter().map(terminal_chart::text).filter(|chart| !chart.is_empty());
    text += &charts.map(|chart| format!("\n{chart}")).collect::<String>();
    text
}

pub fn markdown(document: &PredictDocument) -> String {
    let all: Vec<&PredictRow> = document.rows.iter().collect();
    let mut text = format!(
        "# {}\n\n{}\n\n{}\n",
        title(document),
        verdict(document),
        table(document, &all).markdown()
    );
    text += &warnings(document);
    text += &format!("\n{}\n", provenance(document));
    if !document.load_curve.is_empty() {
        text += &format!(
            "\n## How the best weights move with the load\n\n{}",
            load_table(document).markdown()
        );
    }
    text
}

/// Returns the title of the document: the workload, the platform, and the number of threads.
pub fn title(document: &PredictDocument) -> String {
    format!("{} on {}, {}, predicted", document.workload, document.platform, threads(document))
}

/// Formats the number of threads, and on several domains also the number in each domain.
fn threads(document: &PredictDocument) -> String {
    let domains = document.domain_threads.iter();
    let domains: Vec<String> =
        domains.map(|own| format!("{} in {}", own.threads, own.domain)).collect();
    let threads = counted(document.threads, "thread");
    match domains.is_empty() {
        true => threads,
        false => format!("{threads}: {}", domains.join(", ")),
    }
}

/// Columns of CSV that have values only in the rows of a sweep of loads.
const LOAD_COLUMNS: [&str; 3] = ["pause_ns", "first_tier_bandwidth_gbps", "first_tier_latency_ns"];

/// Renders the document as CSV, with a row for each choice of weights, and with every field. If the
/// document has a sweep of loads, [`LOAD_COLUMNS`] follow, and a row with the best weights for each
/// load.
pub fn csv(document: &PredictDocument) -> String {
    let mut header: Vec<String> = vec!["weights".into()];
    for (what, unit) in [("share", ""), ("bandwidth", "_gbps"), ("latency", "_ns")] {
        header.extend(document.tiers.iter().map(|tier| format!("{tier}_{what}{unit}")));
    }
    let rest = [
        "bandwidth_gbps",
        "bandwidth_low_gbps",
        "bandwidth_high_gbps",
        "latency_ns",
        "runtime_s",
        "rate",
        "speedup",
        "speedup_low",
        "speedup_high",
        "fits",
        "extrapolated",
        "notes",
    ];
    header.extend(rest.map(String::from));
    if !document.load_curve.is_empty() {
        header.extend(LOAD_COLUMNS.map(String::from));
    }
    let mut table = Table::with_header(header.clone());
    for row in &document.rows {
        let mut cells = vec![weights_text(&row.weights)];
        for values in [&row.tier_share, &row.tier_bandwidth_gbps, &row.tier_latency_ns] {
            cells.extend(values.iter().map(f64::to_string));
        }
        cells.extend([
            row.bandwidth_gbps.to_string(),
            row.bandwidth_interval_gbps[0].to_string(),
            row.bandwidth_interval_gbps[1].to_string(),
            row.latency_ns.to_string(),
            csv_number(row.runtime_s),
            csv_number(row.rate),
            row.speedup.to_string(),
            row.speedup_interval[0].to_string(),
            row.speedup_interval[1].to_string(),
            row.fits.to_string(),
            row.extrapolated.to_string(),
            row.notes.join("; "),
        ]);
        cells.resize(header.len(), String::new());
        table.row(cells);
    }
    for point in &document.load_curve {
        table.row(header.iter().map(|column| load_cell(point, column)));
    }
    table.csv()
}

/// Returns the cell of `column` in the row of CSV for a load. It is empty for a quantity that is
/// not computed at each load.
fn load_cell(point: &LoadPointDocument, column: &str) -> String {
    match column {
        "weights" => weights_text(&point.best_weights),
        "bandwidth_gbps" => point.best_bandwidth_gbps.to_string(),
        "latency_ns" => point.best_latency_ns.to_string(),
        "pause_ns" => point.pause_ns.to_string(),
        "first_tier_bandwidth_gbps" => point.first_tier_bandwidth_gbps.to_string(),
        "first_tier_latency_ns" => point.first_tier_latency_ns.to_string(),
        _ => String::new(),
    }
}

/// Renders the tables of the document as HTML: the shown rows, then all rows if some are not shown,
/// and the best weights by load if the document has them.
pub fn html_tables(document: &PredictDocument) -> String {
    let all: Vec<&PredictRow> = document.rows.iter().collect();
    let shown: Vec<&PredictRow> = shown_rows(document, false);
    let mut html = format!(
        "<h2>Choices of weights, {}</h2>\n{}",
        escaped(&document.tiers.join(":")),
        table(document, &shown).html()
    );
    if shown.len() < all.len() {
        html += &format!(
            "<details><summary>all {} ratios</summary>\n{}</details>\n",
            all.len(),
            table(document, &all).html()
        );
    }
    if !document.load_curve.is_empty() {
        html += "<h3>How the best weights move with the load</h3>\n";
        html += &load_table(document).html();
    }
    html
}

/// Returns all rows if `every_row` is set or the document has at most `ROWS_MAX` rows, otherwise
/// the rows that `is_shown` selects.
fn shown_rows(document: &PredictDocument, every_row: bool) -> Vec<&PredictRow> {
    let few = every_row || document.rows.len() <= ROWS_MAX;
    document.rows.iter().filter(|row| few || is_shown(document, row)).collect()
}

fn is_shown(document: &PredictDocument, row: &PredictRow) -> bool {
    let is_best = document.best.as_ref().is_some_and(|best| best.weights == row.weights);
    // Weights whose speed-up is undecided are shown, because a warning names them.
    let is_undecided = document.undecided.as_ref() == Some(&row.weights);
    let shown = |weights: &[u16; 2]| row.weights == weights;
    let one_tier = row.weights.iter().filter(|weight| **weight > 0).count() == 1;
    is_best || is_undecided || one_tier || SHOWN.iter().any(shown)
}

fn table(document: &PredictDocument, rows: &[&PredictRow]) -> Table {
    let mut header = vec!["weights".to_string(), "GB/s".into()];
    header.extend(document.tiers.iter().map(|tier| format!("{tier} GB/s")));
    header.extend(document.tiers.iter().map(|tier| format!("{tier} ns")));
    if let Some(unit) = &document.result_unit {
        header.push(unit.clone());
    }
    header.extend(["speed-up".into(), String::new()]);
    let uncertain = rows.iter().any(|row| row.speedup_interval[0] < row.speedup_interval[1]);
    // The order in which a narrow terminal leaves out the columns of the tiers: first those of
    // latency, then those of bandwidth. The last tier comes first, so that columns disappear from
    // the right.
    let of_tiers =
        |unit: &'static str| document.tiers.iter().rev().map(move |tier| format!("{tier} {unit}"));
    let minor: Vec<String> = of_tiers("ns").chain(of_tiers("GB/s")).collect();
    let minor: Vec<&str> = minor.iter().map(String::as_str).collect();
    let mut table = Table::with_header(header).with_minor(&minor);
    for row in rows {
        let mut cells = vec![weights_text(&row.weights), number(row.bandwidth_gbps)];
        cells.extend(row.tier_bandwidth_gbps.iter().map(|value| number(*value)));
        cells.extend(row.tier_latency_ns.iter().map(|value| format!("{value:.0}")));
        if document.result_unit.is_some() {
            cells.push(row.runtime_s.or(row.rate).map_or(String::new(), number));
        }
        let [low, high] = row.speedup_interval;
        cells.push(if uncertain {
            format!("{:.3} ± {:.3}", row.speedup, (high - low) / 2.0)
        } else {
            format!("{:.3}", row.speedup)
        });
        let is_best = document.best.as_ref().is_some_and(|best| best.weights == row.weights);
        let is_best = is_best && document.rows.len() > 1;
        let marks =
            [(is_best, "best"), (!row.fits, "does not fit"), (row.extrapolated, "extrapolated")];
        let marks: Vec<&str> = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
        cells.push(marks.join(", "));
        table.row(cells);
    }
    table
}

/// Formats the notes of all rows, a line for each note. A note of several rows is listed once.
fn notes(document: &PredictDocument) -> String {
    let mut notes: Vec<&String> = document.rows.iter().flat_map(|row| &row.notes).collect();
    notes.sort_unstable();
    notes.dedup();
    notes.iter().map(|note| format!("note: {note}\n")).collect()
}

fn warnings(document: &PredictDocument) -> String {
    document.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect()
}

/// Returns the best weights and their speed-up, in one line.
pub fn verdict(document: &PredictDocument) -> String {
    let first = &document.tiers[0];
    let Some(best) = &document.best else {
        return "no choice of weights fits".into();
    };
    let weights = weights_text(&best.weights);
    // A single choice of weights is not called best.
    let is = if document.rows.len() == 1 { "" } else { " is best" };
    if best.weights == Weights::first_tier(document.tiers.len()).as_slice() {
        return format!("{weights}{is}: all pages on {first}");
    }
    let [low, high] = best.speedup_interval;
    let gain = format!("{weights}{is}: {:.2} times {first} alone", best.speedup);
    match low < high {
        true => format!("{gain} (90 %: {low:.2} to {high:.2})"),
        false => gain,
    }
}

/// Formats the provenance of the document's inputs, in one line.
pub fn provenance(document: &PredictDocument) -> String {
    provenance_lists(&document.provenance)
}

/// Formats lists of the inputs of a prediction by their provenance, in one line.
pub fn provenance_lists(inputs: &ProvenanceDocument) -> String {
    let lists = [
        ("measured", &inputs.measured),
        ("published", &inputs.published),
        ("simulated", &inputs.simulated),
        ("assumed", &inputs.assumed),
    ];
    let lists = lists.iter().filter(|(_, list)| !list.is_empty());
    let lists: Vec<String> =
        lists.map(|(word, list)| format!("{word}: {}", list.join(", "))).collect();
    format!("inputs: {}", lists.join("; "))
}

fn load_table(document: &PredictDocument) -> Table {
    let first = &document.tiers[0];
    let mut table = Table::with_header(vec![
        format!("{first} only GB/s"),
        "ns".into(),
        "best weights".into(),
        "GB/s".into(),
        "ns".into(),
    ]);
    for point in &document.load_curve {
        table.row([
            number(point.first_tier_bandwidth_gbps),
            format!("{:.0}", point.first_tier_latency_ns),
            weights_text(&point.best_weights),
            number(point.best_bandwidth_gbps),
            format!("{:.0}", point.best_latency_ns),
        ]);
    }
    table
}
