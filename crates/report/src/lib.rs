//! Renders records as text, HTML, Markdown, CSV and SVG.
//!
//! Each module renders the documents of one command (from `interleaf_record`), and uses nothing but
//! the document. A record of another machine, or an old record, is therefore rendered like a new
//! record. All modules share [`table`], [`terminal_chart`] and [`screen`] (terminal), [`svg`] and
//! [`html`]. `interleaf_record` decides which figures a document has; this crate draws them.

#![forbid(unsafe_code)]

pub mod balance;
pub mod bench;
pub mod bench_compare;
pub mod card;
pub mod card_cost;
pub mod card_test;
pub mod compare_records;
pub mod compare_runs;
mod curve_file;
pub mod dimm;
pub mod document;
pub mod extend;
pub mod html;
pub mod measure;
pub mod measure_app;
mod origin;
pub mod page;
pub mod plan;
pub mod predict;
pub mod reproduce;
pub mod run;
pub mod screen;
pub mod show;
pub mod show_machine;
pub mod simulate_machine;
pub mod svg;
pub mod sweep;
pub mod table;
pub mod terminal_chart;
pub mod tune;

/// Colours of groups of series, distinguishable with any colour vision (Okabe and Ito 2008, without
/// yellow).
pub const PALETTE: [&str; 7] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"];

/// Returns the colour of a group of series; colours repeat after seven groups.
pub fn colour(group: usize) -> &'static str {
    PALETTE[group % PALETTE.len()]
}

/// Formats `value` with at least three significant digits, and with an exponent only below 10^-4.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size == 0.0 || size >= 1000.0 => 0,
        _ if size >= 100.0 => 1,
        _ if size >= 10.0 => 2,
        _ if size >= 0.1 => 3,
        _ if size >= 1e-2 => 4,
        _ if size >= 1e-3 => 5,
        _ if size >= 1e-4 => 6,
        _ => return format!("{value:.2e}"),
    };
    format!("{value:.decimals$}")
}

/// Like [`number`], but without zeros at the end, for labels of axes.
pub fn short_number(value: f64) -> String {
    let text = number(value);
    match text.contains('.') && !text.contains('e') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// Formats the fraction `part` as a percentage with a sign and one decimal: `+3.1 %`.
pub fn signed_percent(part: f64) -> String {
    // Adding 0 turns -0 into 0, so that a value that rounds to zero is not shown as "-0.0".
    let tenths = (1000.0 * part).round() + 0.0;
    format!("{:+.1} %", tenths / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_write_them() {
        for (value, text, short) in [
            (0.0, "0", "0"),
            (0.03, "0.0300", "0.03"),
            (0.00451, "0.00451", "0.00451"),
            (0.0001, "0.000100", "0.0001"),
            (0.000_012_34, "1.23e-5", "1.23e-5"),
            (0.5, "0.500", "0.5"),
            (16.0, "16.00", "16"),
            (256.04, "256.0", "256"),
            (-1234.5, "-1234", "-1234"),
            (1000.0, "1000", "1000"),
        ] {
            assert_eq!((number(value).as_str(), short_number(value).as_str()), (text, short));
        }
    }
}
