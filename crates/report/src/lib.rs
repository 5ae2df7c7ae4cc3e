//! Records as text, HTML, Markdown, CSV and SVG.
//!
//! Each module renders one document of `interleaf_record`, from the document alone: a record that
//! was made on another machine, or years ago, is rendered like a new one. [`table`], [`chart`],
//! [`svg`] and [`html`] are shared by all of them; figures are decided in `interleaf_record`, and
//! drawn here on a terminal, as a picture, or in a page with plotly.js.

#![forbid(unsafe_code)]

pub mod balance;
pub mod bench;
pub mod bench_compare;
pub mod chart;
pub mod compare;
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

/// Colours for groups of series that people with any colour vision can tell apart (Okabe and Ito
/// 2008, without yellow).
pub const PALETTE: [&str; 7] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"];

/// The colour of a group.
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

/// A part as percent with one decimal and a sign.
pub fn signed_percent(part: f64) -> String {
    // A value that rounds to 0 has no sign.
    let tenths = (1000.0 * part).round() + 0.0;
    format!("{:+.1} %", tenths / 10.0)
}
