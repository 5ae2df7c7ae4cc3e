//! Records as text, HTML, Markdown, CSV and SVG.
//!
//! Each module renders one document of `interleaf_record`, from the document alone: a record of
//! another machine, or of years ago, is rendered like a new one. All modules share [`table`],
//! [`chart`] (terminal), [`svg`] and [`html`] (a page with plotly.js). `interleaf_record` decides
//! which figures a document has; this crate draws them.

#![forbid(unsafe_code)]

pub mod balance;
pub mod bench;
pub mod bench_compare;
pub mod card;
pub mod card_cost;
pub mod card_test;
pub mod chart;
pub mod compare;
pub mod compare_runs;
mod curve_file;
pub mod dimm;
pub mod extend;
pub mod html;
pub mod machine;
pub mod measure;
pub mod predict;
pub mod profile;
pub mod reproduce;
pub mod run;
pub mod show;
pub mod simulate;
pub mod svg;
pub mod table;
pub mod tune;

/// Colours of groups of series, distinguishable with any colour vision (Okabe and Ito 2008, without
/// yellow).
pub const PALETTE: [&str; 7] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"];

/// The colour of a group; colours repeat after seven groups.
pub fn colour(group: usize) -> &'static str {
    PALETTE[group % PALETTE.len()]
}

/// `value` with three or four significant digits.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size == 0.0 || size >= 1000.0 => 0,
        _ if size >= 100.0 => 1,
        _ if size >= 10.0 => 2,
        _ if size >= 0.1 => 3,
        _ => return format!("{value:.3e}"),
    };
    format!("{value:.decimals$}")
}

/// A fraction as percent with one decimal and a sign.
pub fn signed_percent(part: f64) -> String {
    // Adding 0 turns -0 into 0, so that a value rounded to zero is not shown as "-0.0".
    let tenths = (1000.0 * part).round() + 0.0;
    format!("{:+.1} %", tenths / 10.0)
}
