//! Formats the latencies of a [`CardPoint`] (a card under a load) as fio prints them.

use crate::{number, table::Table};
use interleaf_record::card::{CardDocument, CardPoint, IoLatencyDocument, STORAGE};

/// Number of percentiles in each line of the text.
const IN_LINE: usize = 3;

/// Formats a point in the form of fio's output: for each direction IOPS, bandwidth, slat, clat, lat
/// and the percentiles of clat. The latency of fsync follows if the point has read-backs. Loads and
/// stores to the card's memory have a single latency, printed as clat.
pub(super) fn text(point: &CardPoint) -> String {
    let head = format!("\n{}: {}, depth {}\n", point.card, point.title(), point.iodepth);
    let is_storage = point.access == STORAGE;
    let sync = point.sync_us.as_ref().map_or(String::new(), sync);
    if point.directions.is_empty() {
        let latencies = [&point.slat_us, &point.clat_us, &point.lat_us];
        let rates = [point.iops, point.bandwidth_gbps];
        return head + &block(&point.rw, rates, latencies, is_storage) + &sync;
    }
    let blocks = point.directions.iter().map(|part| {
        let latencies = [&part.slat_us, &part.clat_us, &part.lat_us];
        block(&part.direction, [part.iops, part.bandwidth_gbps], latencies, is_storage)
    });
    head + &blocks.collect::<String>() + &sync
}

fn block(
    name: &str,
    [iops, gbps]: [f64; 2],
    [slat, clat, lat]: [&IoLatencyDocument; 3],
    is_storage: bool,
) -> String {
    let mebibytes = gbps * 1e9 / 1_048_576.0;
    let mut text =
        format!("  {name}: IOPS={iops:.0}, BW={mebibytes:.0}MiB/s ({:.0}MB/s)\n", 1e3 * gbps);
    for (name, latency) in [("slat", slat), ("clat", clat), (" lat", lat)] {
        if is_storage || name == "clat" {
            text += &moments(name, latency);
        }
    }
    text + &percentiles("clat", clat)
}

/// Formats the latency of the read-backs that make stores durable, as fio prints the latency of
/// fsync.
fn sync(latency: &IoLatencyDocument) -> String {
    let text = "  fsync: read-backs that make the stores durable\n".to_string();
    text + &moments("sync", latency) + &percentiles("sync", latency)
}

fn moments(name: &str, latency: &IoLatencyDocument) -> String {
    format!(
        "    {name} (usec): min={}, max={}, avg={}, stdev={}\n",
        number(latency.min),
        number(latency.max),
        number(latency.mean),
        number(latency.stddev)
    )
}

fn percentiles(name: &str, latency: &IoLatencyDocument) -> String {
    let entries = latency.percentiles();
    let entries: Vec<String> =
        entries.map(|(name, us)| format!("{name:>7}th=[{:>6}]", number(us))).collect();
    let lines = entries.chunks(IN_LINE).map(|line| format!("     | {}\n", line.join(", ")));
    format!("    {name} percentiles (usec):\n{}", lines.collect::<String>())
}

/// Returns a table of the percentiles of the completion latency of all points, us.
pub(super) fn table(document: &CardDocument) -> Table {
    let names = interleaf_record::card::PERCENTILES.iter().map(|(name, _)| format!("{name} %"));
    let head = ["card", "load", "depth", "min"].map(String::from).into_iter();
    let mut table = Table::with_header(head.chain(names).chain(["max".into()]).collect());
    for point in &document.points {
        let clat = &point.clat_us;
        let head = [point.card.clone(), point.title(), point.iodepth.to_string(), number(clat.min)];
        let values = clat.percentiles().map(|(_, us)| number(us));
        table.row(head.into_iter().chain(values).chain([number(clat.max)]));
    }
    table
}
