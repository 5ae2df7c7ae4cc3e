//! Documents as tables, charts and pages.

pub(crate) mod balance;
pub(crate) mod bench;
pub(crate) mod bench_compare;
pub(crate) mod chart;
pub(crate) mod compare;
pub(crate) mod dimm;
pub(crate) mod extend;
pub(crate) mod html;
pub(crate) mod machine;
pub(crate) mod measure;
pub(crate) mod predict;
pub(crate) mod profile;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod simulate;
pub(crate) mod svg;
pub(crate) mod table;
pub(crate) mod tune;

/// Colours for groups of series that people with any colour vision can tell apart (Okabe and Ito
/// 2008, without yellow).
pub(crate) const PALETTE: [&str; 7] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"];

/// The colour of a group.
pub(crate) fn colour(group: usize) -> &'static str {
    PALETTE[group % PALETTE.len()]
}

/// `value` with three or four significant digits.
pub(crate) fn number(value: f64) -> String {
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
pub(crate) fn signed_percent(part: f64) -> String {
    // What rounds to nothing has no sign of its own.
    let tenths = (1000.0 * part).round() + 0.0;
    format!("{:+.1} %", tenths / 10.0)
}
