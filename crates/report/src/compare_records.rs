//! Renders a comparison of two measurements (`interleaf.compare/1`) as text, Markdown, HTML and
//! CSV.

use super::{
    number,
    screen::{Meaning, painted},
    signed_percent,
    table::{Table, escaped},
};
use interleaf_record::compare_records::{CompareDocument, Overall, RecordDocument, Verdict};

const ALIKE: &str = "the machines and settings are alike";

pub fn title(document: &CompareDocument) -> String {
    format!("{} against {}", document.second.name, document.first.name)
}

/// Renders the document as text for a terminal.
pub fn text(document: &CompareDocument) -> String {
    let (first, second) = (&document.first, &document.second);
    let mut text = painted(Meaning::Answer, &verdict(document)) + "\n\n";
    text += &format!(
        "A: {} ({})\nB: {} ({})\n",
        first.name, first.quality, second.name, second.quality
    );
    let differences = differences(document);
    text += &match document.differences.is_empty() {
        true => format!("\n{ALIKE}\n"),
        false => format!("\nwhat differs beside the figures\n{}", differences.text()),
    };
    if !document.rows.is_empty() {
        text += &format!("\n{}", rows(document).text());
    }
    for (which, only) in [("A", &document.only_in_first), ("B", &document.only_in_second)] {
        if !only.is_empty() {
            text += &format!("\nonly in {which}: {}\n", only.join("; "));
        }
    }
    text
}

fn differences(document: &CompareDocument) -> Table {
    let mut table = Table::new(&["", "A", "B"]);
    for difference in &document.differences {
        table.row([difference.what.clone(), difference.first.clone(), difference.second.clone()]);
    }
    table
}

fn rows(document: &CompareDocument) -> Table {
    let mut table = Table::new(&["", "A", "B", "unit", "B against A", "noise", "B is"]);
    for row in &document.rows {
        let doubt = if row.trusted { "" } else { ", but a point is noisy" };
        table.row([
            row.setting.clone(),
            number(row.first),
            number(row.second),
            row.unit.clone(),
            signed_percent(row.difference),
            row.noise.map_or("unknown".into(), |noise| format!("± {:.1} %", 100.0 * noise)),
            format!("{}{doubt}", within_noise(row.verdict)),
        ]);
    }
    table
}

/// Formats a verdict. A verdict of no difference is printed as `within noise`, not as `same`,
/// because a difference below the noise may exist.
fn within_noise(verdict: Verdict) -> String {
    match verdict {
        Verdict::Same => "within noise".into(),
        other => other.to_string(),
    }
}

/// Returns the result in one line: the verdict, the number of better, worse and equal points, and
/// the largest difference.
fn verdict(document: &CompareDocument) -> String {
    let count =
        |verdict: Verdict| document.rows.iter().filter(|row| row.verdict == verdict).count();
    let (better, worse, same) =
        (count(Verdict::Better), count(Verdict::Worse), count(Verdict::Same));
    let unknown = match count(Verdict::Unknown) {
        0 => String::new(),
        count => format!(", unknown in {count} (fewer than 3 repeats have no spread)"),
    };
    let noisy = document.rows.iter().filter(|row| row.beyond_spread && !row.trusted).count();
    let noisy = match noisy {
        0 => String::new(),
        count => format!("; {count} of the differences are of noisy points"),
    };
    if document.rows.is_empty() {
        return "they have no point in common".into();
    }
    let most = document.rows.iter().filter(|row| row.beyond_spread);
    let most = most.max_by(|a, b| a.difference.abs().total_cmp(&b.difference.abs()));
    let most =
        most.map(|row| format!("; the most: {}, {}", row.setting, signed_percent(row.difference)));
    format!(
        "{}: better in {better}, worse in {worse}, within noise in {same}{unknown}{}{noisy}",
        overall(document.overall()),
        most.unwrap_or_default()
    )
}

fn overall(overall: Overall) -> &'static str {
    match overall {
        Overall::Faster => "B is faster than A",
        Overall::Slower => "B is slower than A",
        Overall::Mixed => "B is faster than A in some points and slower in others",
        Overall::Same => "B is within noise of A",
        Overall::Noisy => "B differs from A in noisy points only",
        Overall::Unknown => "the noise is unknown",
    }
}

pub fn markdown(document: &CompareDocument) -> String {
    let mut text = format!("# {}\n\n{}\n", title(document), verdict(document));
    if !document.differences.is_empty() {
        text += &format!("\n{}", differences(document).markdown());
    }
    if !document.rows.is_empty() {
        text += &format!("\n{}", rows(document).markdown());
    }
    text
}

/// Renders the document as HTML, for the body of a page. `figures` is the HTML of its figures.
pub fn html(document: &CompareDocument, figures: &str) -> String {
    let verdict = escaped(&verdict(document));
    let record = |which: &str, own: &RecordDocument| {
        format!(
            "<li>{which}: {} ({})</li>\n",
            escaped(&own.name),
            escaped(&own.quality.to_string())
        )
    };
    let records = record("A", &document.first) + &record("B", &document.second);
    let differences = match document.differences.is_empty() {
        true => format!("<p>{ALIKE}</p>\n"),
        false => differences(document).html(),
    };
    format!(
        "<p class=\"answer\">{verdict}</p>\n<ul>\n{records}</ul>\n{figures}{}<h2>Machines and \
         settings</h2>\n{differences}",
        rows(document).html()
    )
}

pub fn csv(document: &CompareDocument) -> String {
    let mut table = Table::new(&[
        "setting",
        "unit",
        "first",
        "second",
        "difference",
        "spread",
        "noise",
        "beyond_spread",
        "verdict",
    ]);
    for row in &document.rows {
        table.row([
            row.setting.clone(),
            row.unit.clone(),
            row.first.to_string(),
            row.second.to_string(),
            row.difference.to_string(),
            row.spread.map(|spread| spread.to_string()).unwrap_or_default(),
            row.noise.map(|noise| noise.to_string()).unwrap_or_default(),
            row.beyond_spread.to_string(),
            row.verdict.to_string(),
        ]);
    }
    table.csv()
}
