//! A command under `interleaf extend` (`interleaf.extend/1`, `interleaf.extend.plan/1`) as text.

use super::{number, table::Table};
use interleaf_model::units::Bytes;
use interleaf_record::extend::{
    CountsDocument, EstimateDocument, ExtendDocument, ExtendPlanDocument, ForecastDocument,
};
use std::collections::BTreeMap;

/// The counts of all processes, when the command has ended.
pub fn ended(document: &ExtendDocument) -> String {
    let dram = Bytes::new(document.dram_bytes);
    if document.processes.is_empty() {
        return nothing(document);
    }
    let mut table = Table::new(&[
        "process",
        "DRAM",
        "faults",
        "prefetched",
        "hits",
        "wasted",
        "evicted",
        "read",
        "written",
        "stalled",
    ]);
    for process in &document.processes {
        let name = format!("{} ({})", process.name, process.pid);
        table.row(cells(name, process.dram_bytes, &process.counts));
    }
    if document.processes.len() > 1 {
        table.row(cells("all".into(), document.dram_bytes, &document.total));
    }
    let elapsed = number(document.elapsed_s);
    let nodes =
        nodes(document).map_or(String::new(), |nodes| format!("resident by node: {nodes}\n"));
    format!("{dram} of DRAM, {elapsed} s\n{}{nodes}{}", table.text(), outside(document))
}

/// Resident pages of all processes by node, where the budget has several:
/// `node0 4 GiB, node1 3 GiB`.
pub fn nodes(document: &ExtendDocument) -> Option<String> {
    let mut sums = BTreeMap::new();
    for node in document.processes.iter().flat_map(|process| &process.nodes) {
        *sums.entry(node.node).or_insert(0) += node.resident_bytes;
    }
    let text = |(node, bytes): (&u32, &u64)| format!("node{node} {}", rounded(*bytes));
    let all: Vec<String> = sums.iter().map(text).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// The report for a command none of whose processes used the budget.
fn nothing(document: &ExtendDocument) -> String {
    let least = Bytes::new(document.min_alloc_bytes);
    let resident = document.resident_max_bytes.map_or(String::new(), |bytes| {
        format!(
            "The largest process had {} resident, all of it outside the budget: objects smaller \
             than 128 KiB, static data, stacks and code are never extended.\n",
            rounded(bytes)
        )
    });
    format!(
        "nothing was extended: unless a message above says why, no process allocated {least} \
         (--min-alloc) in pieces of 128 KiB and more.\n{resident}"
    )
}

/// Memory outside the budget, in one line.
fn outside(document: &ExtendDocument) -> String {
    let all = || document.processes.iter();
    if !all().any(|process| process.outside_bytes.is_some()) {
        return match document.resident_max_bytes {
            Some(bytes) => {
                format!("resident, within the budget and outside: {} at most\n", rounded(bytes))
            }
            None => String::new(),
        };
    }
    let bytes: u64 = all().filter_map(|process| process.outside_bytes).sum();
    let left: u64 = all().map(|process| process.left_bytes).sum::<u64>().min(bytes);
    let least = Bytes::new(document.min_alloc_bytes);
    let left = match left {
        0 => String::new(),
        left => format!(
            "{} of it in pieces of 128 KiB and more, allocated before they were {least} \
             (--min-alloc) together; else ",
            rounded(left)
        ),
    };
    format!(
        "outside the budget: {} at most: {left}objects smaller than 128 KiB, static data and \
         stacks, which are never extended\n",
        rounded(bytes)
    )
}

/// A size rounded down to MiB, unless it is smaller.
fn rounded(bytes: u64) -> Bytes {
    Bytes::new(if bytes < 1 << 20 { bytes } else { bytes & !0xF_FFFF })
}

fn cells(name: String, dram_bytes: u64, counts: &CountsDocument) -> [String; 10] {
    [
        name,
        Bytes::new(dram_bytes).to_string(),
        counts.faults.to_string(),
        format!("{} pages", counts.prefetched_pages),
        part(counts.prefetch_hits, counts.prefetched_pages),
        part(counts.prefetch_wasted, counts.prefetched_pages),
        format!("{} pages", counts.evicted_pages),
        Bytes::new(counts.read_bytes).to_string(),
        Bytes::new(counts.written_bytes).to_string(),
        format!("{} s", number(counts.stall_s)),
    ]
}

fn part(of: u64, all: u64) -> String {
    if all == 0 { "-".into() } else { format!("{:.1} %", 100.0 * of as f64 / all as f64) }
}

/// The progress in one line.
pub fn line(document: &ExtendDocument) -> String {
    let CountsDocument { faults, read_bytes, written_bytes, stall_s, .. } = document.total;
    let held: u64 = document.processes.iter().map(|process| process.dram_bytes).sum();
    let nodes = nodes(document).map_or(String::new(), |nodes| format!(" ({nodes})"));
    format!(
        "{:.0} s: {} of {} DRAM{nodes}, {faults} faults, {} read, {} written, {} s stalled",
        document.elapsed_s,
        Bytes::new(held),
        Bytes::new(document.dram_bytes),
        Bytes::new(read_bytes),
        Bytes::new(written_bytes),
        number(stall_s)
    )
}

/// The checks and the estimate of a dry run.
pub fn plan(document: &ExtendPlanDocument) -> String {
    let mut text = String::new();
    for check in &document.checks {
        text += &format!("{:<16}{:<17}{}\n", check.what, check.status, check.detail);
        if let Some(hint) = &check.remedy {
            text += &format!("{:33}hint: {hint}\n", "");
        }
    }
    if let Some(found) = &document.estimate {
        text += &estimate(found, document.dram_bytes);
    }
    if !document.command.is_empty() {
        let can = if document.can_be_done { "would run" } else { "cannot run" };
        text += &format!("\n{can}: {}\n", document.command.join(" "));
    }
    text
}

fn estimate(estimate: &EstimateDocument, dram_bytes: u64) -> String {
    let mut drives = Table::new(&["store", "read", "write"]);
    if let Some(first) = estimate.drives.first() {
        let depths = first.random.iter().map(|random| format!("4 KiB, {} at a time", random.depth));
        let header = ["store", "read", "write"].map(String::from).into_iter().chain(depths);
        drives = Table::with_header(header.collect());
    }
    for drive in &estimate.drives {
        let gbps = |value: f64| format!("{} GB/s", number(value));
        let random = drive
            .random
            .iter()
            .map(|random| format!("{} /s, {} us", number(random.iops), number(random.latency_us)));
        let path = drive.path.display().to_string();
        let cells = [path, gbps(drive.read_gbps), gbps(drive.write_gbps)].into_iter();
        drives.row(cells.chain(random));
    }
    let many = estimate.drives.first().and_then(|drive| drive.random.last());
    let many = format!("from {} threads", many.map_or(0, |random| random.depth));
    let mut rows =
        Table::new(&["footprint", "not in DRAM", "read in order", "triad", "random access", &many]);
    for row in &estimate.rows {
        let of = |value: Option<f64>, unit: &str| {
            value.map_or("DRAM".into(), |value| format!("{} {unit}", number(value)))
        };
        rows.row([
            Bytes::new(row.footprint_bytes).to_string(),
            format!("{:.0} %", 100.0 * row.missing_share),
            of(row.read_gbps, "GB/s"),
            of(row.triad_gbps, "GB/s"),
            of(row.random_us, "us"),
            of(row.random_many_us, "us"),
        ]);
    }
    format!(
        "\n{}\nWhat the drives allow with {} of DRAM, at most; what fits is as fast as DRAM:\n{}",
        drives.text(),
        Bytes::new(dram_bytes),
        rows.text()
    )
}

/// The forecast for other budgets and drives.
pub fn forecast(document: &ForecastDocument) -> String {
    let footprint = rounded(document.footprint_bytes);
    let mut text = format!("footprint {footprint}");
    if let Some(compute_s) = document.compute_s {
        text += &format!(", {} s in DRAM", number(compute_s));
    }
    let mut curve = Table::new(&["DRAM", "read", "written", "LRU misses"]);
    for row in &document.curve {
        let lru = row.lru_miss_ratio.map_or("-".into(), |it| format!("{:.0} %", 100.0 * it));
        let sizes = [row.dram_bytes, row.read_bytes, row.written_bytes];
        curve.row(sizes.map(|bytes| rounded(bytes).to_string()).into_iter().chain([lru]));
    }
    let mut drives: Vec<&str> = document.rows.iter().map(|row| row.drive.as_str()).collect();
    drives.dedup();
    let header = ["DRAM"].into_iter().chain(drives.iter().copied()).map(String::from);
    let mut table = Table::with_header(header.collect());
    let budgets = document.rows.iter().filter(|row| Some(&row.drive.as_str()) == drives.first());
    for first in budgets {
        let of = |drive: &&str| {
            let is_it = |row: &&interleaf_record::extend::ForecastRow| {
                row.drive == **drive && row.dram_bytes == first.dram_bytes
            };
            let row = document.rows.iter().find(is_it);
            row.map_or("-".into(), |row| match row.efficiency {
                Some(efficiency) => format!("{:.0} %", 100.0 * efficiency),
                None => format!("{} s", number(row.seconds)),
            })
        };
        let budget = rounded(first.dram_bytes).to_string();
        table.row([budget].into_iter().chain(drives.iter().map(of)));
    }
    let what = match document.compute_s {
        Some(_) => "Efficiency: speed divided by the speed in DRAM",
        None => "Time of the drive for a pass (without a run the compute time is not known)",
    };
    text += &format!("\n\n{}\n{what}:\n{}", curve.text(), table.text());
    for row in &document.enough {
        text += &format!(
            "{}: {} of DRAM is enough for {:.0} % ({:.0} % of the footprint)\n",
            row.drive,
            rounded(row.dram_bytes),
            100.0 * row.efficiency,
            100.0 * row.share
        );
    }
    document.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    text
}
