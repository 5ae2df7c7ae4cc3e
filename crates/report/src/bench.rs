//! A run of a workload (`interleaf.bench/1`), and the list of workloads, as text.

use super::{number, table::Table};
use interleaf_record::{
    bench::{BenchDocument, ListDocument},
    measure::size_text,
};

/// The document as text for a terminal.
pub fn text(document: &BenchDocument) -> String {
    let BenchDocument { workload, threads, memory, rate, rate_unit, .. } = document;
    let footprint = size_text(document.footprint_bytes);
    let plural = if *threads == 1 { "" } else { "s" };
    let mut text = format!("{workload}, {footprint} ({memory}), {threads} thread{plural}\n\n");
    let mut table = Table::new(&["", "rate", "unit", "seconds"]);
    let main = if workload == "stream" && !document.loops.is_empty() { "triad" } else { workload };
    let seconds = number(document.seconds / document.round_seconds.len().max(1) as f64);
    table.row([main.into(), number(*rate), rate_unit.clone(), seconds]);
    for entry in &document.loops {
        let (rate, seconds) = (number(entry.rate), number(entry.seconds));
        table.row([entry.name.clone(), rate, entry.rate_unit.clone(), seconds]);
    }
    text += &table.text();
    let rounds = document.round_seconds.len();
    text += &format!(
        "\n{rounds} rounds in {} s, {} s of processor time",
        number(document.seconds),
        number(document.cpu_s)
    );
    if let Some(intensity) = document.flops_per_byte {
        text += &format!("; {} FLOP a byte", number(intensity));
    }
    if let Some(drive) = &document.drive {
        let gib = |bytes: u64| number(bytes as f64 / f64::from(1 << 30));
        let (read, written) = (gib(drive.read_bytes), gib(drive.written_bytes));
        text += &format!("; {} read {read} GiB and wrote {written} GiB", drive.name);
    }
    let verified = if document.verified { "the result is right" } else { "not verified" };
    format!("{text}\n{verified}\n")
}

/// The list as text for a terminal.
pub fn list(document: &ListDocument) -> String {
    let mut table = Table::new(&["workload", "rate in", "what it does"]);
    for entry in &document.workloads {
        let direction = if entry.better == "lower" { " (lower is better)" } else { "" };
        let unit = format!("{}{direction}", entry.rate_unit);
        table.row([entry.name.clone(), unit, entry.does.clone()]);
    }
    table.text()
}
