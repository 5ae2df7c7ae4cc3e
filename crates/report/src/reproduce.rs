//! Renders published studies, with the values that Interleaf computes (`interleaf.reproduce/1`), as
//! text, Markdown, HTML and CSV.

use super::{number, signed_percent, table::Table};
use interleaf_record::reproduce::{
    Published, ReproduceDocument, ReproduceRow, StudyDocument, TableDocument,
};

/// Renders the document as text for a terminal.
pub fn text(document: &ReproduceDocument) -> String {
    let study = |study: &StudyDocument| {
        let mut text = format!("{}\n{}\n", study.title, study.source);
        for (section, rows) in by_section(study) {
            text += &format!("\n{section}\n{}", table(&rows).text());
        }
        for own in &study.tables {
            text += &format!("\n{}\n{}", own.title, cells(own).text());
        }
        text += &format!("\n{}", summary(study).text());
        text += &format!("\n{}\n", verdict(study));
        text + &lines(study).iter().map(|line| format!("- {line}\n")).collect::<String>()
    };
    document.studies.iter().map(study).collect::<Vec<_>>().join("\n")
}

pub fn markdown(document: &ReproduceDocument) -> String {
    let study = |study: &StudyDocument| {
        let mut text = format!("# {}\n\n{}\n", study.title, study.source);
        text += &format!("\n{}\n\n{}\n", verdict(study), summary(study).markdown());
        text += &lines(study).iter().map(|line| format!("- {line}\n")).collect::<String>();
        for (section, rows) in by_section(study) {
            text += &format!("\n## {section}\n\n{}", table(&rows).markdown());
        }
        for own in &study.tables {
            text += &format!("\n## {}\n\n{}", own.title, cells(own).markdown());
        }
        text
    };
    document.studies.iter().map(study).collect::<Vec<_>>().join("\n")
}

/// Renders all rows of all studies as CSV, in one table.
pub fn csv(document: &ReproduceDocument) -> String {
    let mut table = Table::new(&[
        "study",
        "section",
        "what",
        "unit",
        "published",
        "ours",
        "error",
        "used_for_fit",
        "uncounted",
        "note",
    ]);
    for study in &document.studies {
        for row in &study.rows {
            table.row([
                study.name.clone(),
                row.section.clone(),
                row.what.clone(),
                row.unit.clone(),
                published(row.published, &|value| value.to_string()),
                row.ours.to_string(),
                row.error.map_or(String::new(), |error| error.to_string()),
                row.used_for_fit.to_string(),
                row.uncounted.to_string(),
                row.note.clone().unwrap_or_default(),
            ]);
        }
    }
    table.csv()
}

/// Renders a study as HTML, without its figures.
pub fn html_tables(study: &StudyDocument) -> String {
    let mut html = summary(study).html();
    let items = lines(study);
    let items = items.iter().map(|line| format!("<li>{}</li>\n", super::table::escaped(line)));
    html += &format!("<ul>\n{}</ul>\n", items.collect::<String>());
    for (section, rows) in by_section(study) {
        html += &format!(
            "<details open><summary>{} ({} rows)</summary>\n{}</details>\n",
            super::table::escaped(section),
            rows.len(),
            table(&rows).html()
        );
    }
    for own in &study.tables {
        html += &format!(
            "<details><summary>{}</summary>\n{}</details>\n",
            super::table::escaped(&own.title),
            cells(own).html()
        );
    }
    html
}

fn cells(own: &TableDocument) -> Table {
    let mut table = Table::with_header(own.header.clone());
    own.rows.iter().for_each(|row| table.row(row.clone()));
    table
}

fn published(published: Published, text: &dyn Fn(f64) -> String) -> String {
    match published {
        Published::Figure(value) => text(value),
        Published::Range([low, high]) => format!("{}..{}", text(low), text(high)),
        Published::NotPrinted => "-".into(),
    }
}

fn by_section(study: &StudyDocument) -> Vec<(&str, Vec<&ReproduceRow>)> {
    let sections = study.sections.iter().map(|section| section.section.as_str());
    sections
        .map(|name| (name, study.rows.iter().filter(|row| row.section == name).collect()))
        .collect()
}

fn table(rows: &[&ReproduceRow]) -> Table {
    let mut table = Table::new(&["what", "published", "ours", "unit", "error", "", "note"]);
    for row in rows {
        table.row([
            row.what.clone(),
            published(row.published, &number),
            number(row.ours),
            row.unit.clone(),
            row.error.map_or("-".into(), signed_percent),
            match (row.used_for_fit, row.uncounted) {
                (true, _) => "used for fit".into(),
                (false, true) => "not counted".into(),
                (false, false) => String::new(),
            },
            row.note.clone().unwrap_or_default(),
        ]);
    }
    table
}

fn summary(study: &StudyDocument) -> Table {
    let mut table = Table::new(&["section", "rows", "used for fit", "mean error", "max error"]);
    for section in &study.sections {
        table.row([
            section.section.clone(),
            section.rows.to_string(),
            section.used_for_fit.to_string(),
            format!("{:.1} %", 100.0 * section.mean_abs_error),
            format!("{:.1} %", 100.0 * section.max_abs_error),
        ]);
    }
    table
}

/// Returns a line with the number of published values that were not used for fitting, and with the
/// mean and the largest error of these values.
pub fn verdict(study: &StudyDocument) -> String {
    let printed = study.rows.iter().filter(|row| row.published != Published::NotPrinted);
    let printed = printed.filter(|row| !row.uncounted);
    let predicted = printed.clone().filter(|row| row.is_prediction()).count();
    format!(
        "{predicted} of {} published figures were not used for fitting; their mean error is \
         {:.1} %, the largest {:.1} %",
        printed.count(),
        100.0 * study.mean_abs_error,
        100.0 * study.max_abs_error,
    )
}

/// Returns lines with the fitted constants and the remarks.
fn lines(study: &StudyDocument) -> Vec<String> {
    let fitted = study.fitted_constants.iter().map(|constant| format!("fitted: {constant}"));
    fitted.chain(study.remarks.iter().cloned()).collect()
}
