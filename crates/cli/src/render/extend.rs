//! A command whose memory a drive extends, as text.

use super::{number, table::Table};
use crate::document::extend::{CountsDocument, ExtendDocument};
use interleaf_model::units::Bytes;

/// What was done, when the command has ended.
pub(crate) fn ended(document: &ExtendDocument) -> String {
    let dram = Bytes::new(document.dram_bytes);
    if document.processes.is_empty() {
        let least = Bytes::new(document.min_alloc_bytes);
        return format!("nothing was extended: no allocation had {least} or more (--min-alloc)\n");
    }
    let mut table = Table::new(&[
        "process", "DRAM", "faults", "foreseen", "used", "wasted", "evicted", "read", "written",
        "waited",
    ]);
    for process in &document.processes {
        let name = format!("{} ({})", process.name, process.pid);
        table.row(cells(name, process.dram_bytes, &process.counts));
    }
    if document.processes.len() > 1 {
        table.row(cells("all".into(), document.dram_bytes, &document.total));
    }
    let elapsed = number(document.elapsed_s);
    format!("{dram} of DRAM, {elapsed} s\n{}", table.text())
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

/// How it goes, in one line.
pub(crate) fn line(document: &ExtendDocument) -> String {
    let CountsDocument { faults, read_bytes, written_bytes, stall_s, .. } = document.total;
    let held: u64 = document.processes.iter().map(|process| process.dram_bytes).sum();
    format!(
        "{:.0} s: {} of {} DRAM, {faults} faults, {} read, {} written, {} s waited",
        document.elapsed_s,
        Bytes::new(held),
        Bytes::new(document.dram_bytes),
        Bytes::new(read_bytes),
        Bytes::new(written_bytes),
        number(stall_s)
    )
}
