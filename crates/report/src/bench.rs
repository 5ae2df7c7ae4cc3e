//! Renders a run of a workload (`interleaf.bench/1`) as text, Markdown, HTML and CSV, and the list
//! of workloads.

use super::{
    number,
    page::{Page, counted},
    table::Table,
};
use interleaf_model::units::Bytes;
use interleaf_record::{
    bench::{BenchDocument, ListDocument},
    measure::size_text,
};

/// Renders the document as text for a terminal.
pub fn text(document: &BenchDocument) -> String {
    format!(
        "{}\n\n{}\n{}\n{}\n",
        setting(document),
        rates(document).text(),
        costs(document).join("; "),
        verified(document)
    )
}

/// Formats the setting of the run in one line: `stream, 512 MiB (heap), 2 threads`.
fn setting(document: &BenchDocument) -> String {
    let BenchDocument { workload, threads, memory, .. } = document;
    let footprint = size_text(document.footprint_bytes);
    format!("{workload}, {footprint} ({memory}), {}", counted(threads, "thread"))
}

/// Returns a table with the rate of the workload, and with the rate of each of its loops.
fn rates(document: &BenchDocument) -> Table {
    let BenchDocument { workload, rate, rate_unit, .. } = document;
    let mut table = Table::new(&["", "rate", "unit", "seconds"]);
    let main = if workload == "stream" && !document.loops.is_empty() { "triad" } else { workload };
    let seconds = number(document.seconds / document.round_seconds.len().max(1) as f64);
    table.row([main.into(), number(*rate), rate_unit.clone(), seconds]);
    for entry in &document.loops {
        let (rate, seconds) = (number(entry.rate), number(entry.seconds));
        table.row([entry.name.clone(), rate, entry.rate_unit.clone(), seconds]);
    }
    table
}

/// Returns texts with the time, the arithmetic intensity and the drive traffic of the run.
fn costs(document: &BenchDocument) -> Vec<String> {
    let rounds = counted(document.round_seconds.len(), "round");
    // Earlier versions did not measure `cpu_s` for recipes, so it is 0 in their records.
    let cpu = match document.cpu_s > 0.0 {
        true => format!(", {} s of processor time", number(document.cpu_s)),
        false => String::new(),
    };
    let mut costs = vec![format!("{rounds} in {} s{cpu}", number(document.seconds))];
    costs.extend(document.flops_per_byte.map(|it| format!("{} FLOP a byte", number(it))));
    costs.extend(document.drive.as_ref().map(|drive| {
        let gib = |bytes: u64| number(bytes as f64 / f64::from(1 << 30));
        let (read, written) = (gib(drive.read_bytes), gib(drive.written_bytes));
        format!("{} read {read} GiB and wrote {written} GiB", drive.name)
    }));
    costs
}

fn verified(document: &BenchDocument) -> &'static str {
    if document.verified { "the result is right" } else { "not verified" }
}

/// Renders the document as a page of a report.
pub fn page(document: &BenchDocument) -> Page {
    let (rate, unit) = (number(document.rate), &document.rate_unit);
    let answer = format!("{rate} {unit}; {}", verified(document));
    let mut facts = costs(document);
    let resident = document.resident_max_bytes.map(Bytes::new);
    facts.extend(resident.map(|it| format!("peak resident memory {it}")));
    facts.push(counted(document.major_faults, "major fault"));
    facts.extend(document.extended.as_ref().map(|it| {
        let (budget, counts) = (Bytes::new(it.dram_bytes), &it.counts);
        let (read, written) = (Bytes::new(counts.read_bytes), Bytes::new(counts.written_bytes));
        let faults = counted(counts.faults, "fault");
        let stalled = number(counts.stall_s);
        format!(
            "under the pager with {budget} of DRAM: {faults}, {read} read, {written} written, \
             {stalled} s stalled"
        )
    }));
    Page { title: setting(document), answer, facts, ..Page::default() }
        .with_table("Rates", rates(document))
}

/// Renders the document as CSV: a row for the workload, then a row for each of its loops.
pub fn csv(document: &BenchDocument) -> String {
    let header = ["workload", "footprint_bytes", "threads", "rate", "rate_unit", "seconds"];
    let mut table = Table::new(&header);
    let mut row = |name: String, rate: f64, unit: &str, seconds: f64| {
        table.row([
            name,
            document.footprint_bytes.to_string(),
            document.threads.to_string(),
            rate.to_string(),
            unit.into(),
            seconds.to_string(),
        ]);
    };
    row(document.workload.clone(), document.rate, &document.rate_unit, document.seconds);
    for it in &document.loops {
        let name = format!("{}: {}", document.workload, it.name);
        row(name, it.rate, &it.rate_unit, it.seconds);
    }
    table.csv()
}

/// Renders the list of workloads as text for a terminal.
pub fn list(document: &ListDocument) -> String {
    let mut table = Table::new(&["workload", "rate in", "what it does"]);
    for entry in &document.workloads {
        let direction = if entry.better == "lower" { " (lower is better)" } else { "" };
        let unit = format!("{}{direction}", entry.rate_unit);
        table.row([entry.name.clone(), unit, entry.does.clone()]);
    }
    table.text()
}
