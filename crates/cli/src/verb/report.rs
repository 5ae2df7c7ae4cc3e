//! `interleaf report`: converts a record to another format (HTML, Markdown, CSV, SVG and others).

use crate::{
    args::{ReportArgs, ReportFormat},
    verb::export,
};
use interleaf_console::{Failure, output, support};
use interleaf_linux::machine::id_list::IdList;
use interleaf_record::{Document, figure::Figure, measure::foreign};
use std::path::Path;

pub(super) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let format = args.format.map_or_else(|| by_ending(&args.output), Ok)?;
    if args.figure.is_some() && format != ReportFormat::Svg {
        return Err(Failure::new(
            "--figure goes with svg: the other formats have all figures or none",
            "leave --figure out, or ask for --format svg",
        ));
    }
    support::check_no_input(&args.output)?;
    let hint = "name a document that was recorded with -o FILE, or - for stdin";
    let text = interleaf_catalog::document(&args.record, hint)?;
    let document = interleaf_record::read(&args.record.display().to_string(), &text)
        .map_err(|why| Failure::new(why.problem, why.hint))?;
    if let (ReportFormat::Platform, Document::Measure(document)) = (format, &document) {
        export::check("--output", &args.output, &IdList::default())?;
        return export::write("--output", &args.output, document);
    }
    output::file(&args.output, &rendered(format, &document, args.figure.as_deref())?)
}

/// Converts a document to the given format. For SVG, `figure` names the figure that is drawn, by
/// default the first one.
fn rendered(
    format: ReportFormat,
    document: &Document,
    figure: Option<&str>,
) -> Result<String, Failure> {
    Ok(match (format, document) {
        (ReportFormat::Html, _) => interleaf_report::html::page(document),
        (ReportFormat::Markdown, _) => interleaf_report::document::markdown(document),
        (ReportFormat::Csv, _) => interleaf_report::document::csv(document),
        (ReportFormat::Mess, Document::Measure(document)) => export_text(foreign::mess(document))?,
        (ReportFormat::Mlc, Document::Measure(document)) => export_text(foreign::mlc(document))?,
        (ReportFormat::Platform | ReportFormat::Mess | ReportFormat::Mlc, _) => {
            return Err(Failure::new(
                "only a measurement can be had in this format",
                "give a record that `interleaf measure -o FILE` wrote",
            ));
        }
        (ReportFormat::Svg, _) => {
            let figures = document.figures();
            let hint = "choose another one with --figure, or --format html";
            interleaf_report::svg::picture(chosen(&figures, figure.unwrap_or("1"))?)
                .map_err(|why| Failure::new(why, hint))?
        }
    })
}

fn export_text(text: Result<String, String>) -> Result<String, Failure> {
    text.map_err(|why| Failure::new(why, "measure it: interleaf measure loaded, or all of it"))
}

/// Pairs of (extension of a file name, the format that it selects).
const ENDINGS: [(&str, ReportFormat); 6] = [
    ("html", ReportFormat::Html),
    ("htm", ReportFormat::Html),
    ("md", ReportFormat::Markdown),
    ("csv", ReportFormat::Csv),
    ("svg", ReportFormat::Svg),
    ("toml", ReportFormat::Platform),
];

/// Chooses the format by the extension of the output's file name. Without an extension, and for
/// stdout, the format is HTML.
fn by_ending(path: &Path) -> Result<ReportFormat, Failure> {
    let Some(ending) = path.extension().map(|ending| ending.to_string_lossy()) else {
        return Ok(ReportFormat::Html);
    };
    let known = ENDINGS.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known));
    known.map(|(_, format)| *format).ok_or_else(|| {
        let endings: Vec<String> = ENDINGS.iter().map(|(known, _)| format!(".{known}")).collect();
        Failure::new(
            format!("{}: no report is written as .{ending}", path.display()),
            format!("end the name with one of {}, or give --format", endings.join(", ")),
        )
    })
}

fn chosen<'a>(figures: &'a [Figure], name: &str) -> Result<&'a Figure, Failure> {
    let by_number = name.parse().ok().and_then(|n: usize| figures.get(n.checked_sub(1)?));
    let found = by_number.or_else(|| figures.iter().find(|figure| figure.id == name));
    found.ok_or_else(|| {
        let ids: Vec<_> = figures.iter().map(|figure| figure.id.as_str()).collect();
        let hint = match ids[..] {
            [] => "this document has no figure".into(),
            _ => format!("the figures are {}, or 1 to {}", ids.join(", "), ids.len()),
        };
        Failure::new(format!("there is no figure \"{name}\""), hint)
    })
}
