//! Renders the simulated load of NVRAM cards (`interleaf.simulate.card/1`) as text, Markdown, HTML
//! and CSV.

mod latency;

use super::{
    curve_file::CurveFile,
    number,
    page::counted,
    signed_percent,
    table::{Table, escaped},
    terminal_chart,
};
use interleaf_model::units::Bytes;
use interleaf_record::{
    card::{CardDocument, CardPoint, CardPowerFailure, CardSettings},
    distinct, rounded,
};
use std::collections::BTreeSet;

/// Maximum number of points for which a text for a terminal lists the latencies of each point, as
/// fio prints them. With more points, the text has charts instead.
const DETAILED_MAX: usize = 4;

/// Maximum number of lost or torn blocks that the text lists for a card and a load; the document
/// may have more blocks.
const BLOCKS_MAX: usize = 8;

/// A sentence on the provenance of the figures, which is printed below the tables.
const SOURCES: &str = "simulated from card files (devices/cards), which have the source of each \
                       figure of a card, or \"assumed\" with a reason; docs/validation.md has the \
                       errors against published figures";

/// Renders the document as text for a terminal.
pub fn text(document: &CardDocument) -> String {
    let mut text = format!("{}\n\n", verdict(document));
    text += &document.cards.iter().map(|card| setting(card) + "\n").collect::<String>();
    text += &format!("\n{}", table(document).text());
    if document.points.len() <= DETAILED_MAX {
        text += &document.points.iter().map(latency::text).collect::<String>();
    } else {
        let charts = document.figures();
        let charts = charts.iter().map(terminal_chart::text).filter(|chart| !chart.is_empty());
        text += &charts.map(|chart| format!("\n{chart}")).collect::<String>();
    }
    if !document.power_failures.is_empty() {
        text += &format!("\npower failure\n{}", power_table(document).text());
        text += &findings(document).iter().map(|line| format!("{line}\n")).collect::<String>();
    }
    text += &document.notes.iter().map(|note| format!("note: {note}\n")).collect::<String>();
    text += &format!("{SOURCES}\n");
    if let Some(timing) = &document.timing {
        let rate = number(timing.ios_per_s * 1e-6);
        text += &format!("\n{} s, {rate} million I/Os a second\n", number(timing.wall_s));
    }
    text
}

/// Returns the title of the document's page.
pub fn title(document: &CardDocument) -> String {
    let cards: Vec<&str> = document.cards.iter().map(|card| card.name.as_str()).collect();
    let loads = document.loads();
    match &loads[..] {
        [load] => format!("{}, simulated: {}", cards.join(" and "), load.title()),
        _ => format!("{}, simulated", cards.join(" and ")),
    }
}

/// Returns the result in one line. If power failures caused lost or torn writes, these are the
/// result. Otherwise it is the number of simulated power failures, if any, and the comparison of
/// the cards.
pub fn verdict(document: &CardDocument) -> String {
    let Some(sum) = &document.power_failure else { return comparison(document) };
    match sum.lost_writes + sum.torn_writes {
        0 => format!(
            "no write was lost or torn in {}; {}",
            counted(sum.failures, "power failure"),
            comparison(document)
        ),
        _ => format!(
            "{} of {} acknowledged writes were lost and {} torn, summed over {}",
            sum.lost_writes,
            sum.acknowledged_writes,
            sum.torn_writes,
            counted(sum.failures, "power failure")
        ),
    }
}

/// Describes, for a single card, the point with the most IOPS. For several cards, describes for
/// each further card the point at which its IOPS differ most from those of the first card.
fn comparison(document: &CardDocument) -> String {
    let Some(first) = document.cards.first() else { return "no card was simulated".into() };
    let of = |card: &CardSettings| {
        let name = card.name.clone();
        document.points.iter().filter(move |point| point.card == name)
    };
    if document.cards.len() == 1 {
        let best =
            of(first).max_by(|a, b| a.iops.total_cmp(&b.iops).then(b.iodepth.cmp(&a.iodepth)));
        return best.map_or("no card was simulated".into(), |best| {
            format!(
                "{}, simulated, gives {} of {} at depth {}, mean completion latency {} us; the {} \
                 limits it",
                best.card,
                iops(best.iops),
                best.title(),
                best.iodepth,
                number(best.clat_us.mean),
                best.bound_by,
            )
        });
    }
    let is_same = |a: &CardPoint, b: &CardPoint| a.load() == b.load() && a.iodepth == b.iodepth;
    let difference =
        |(point, base): &(&CardPoint, &CardPoint)| (point.iops / base.iops - 1.0).abs();
    let others = document.cards[1..].iter().filter_map(|card| {
        let pairs: Vec<(&CardPoint, &CardPoint)> = of(card)
            .filter_map(|point| Some((point, of(first).find(|base| is_same(point, base))?)))
            .collect();
        let largest = pairs.iter().max_by(|a, b| difference(a).total_cmp(&difference(b)))?;
        let (point, base) = *largest;
        let count = if pairs.len() == 1 { "" } else { ", where they differ most" };
        Some(format!(
            "at depth {} of {}{count}, {}",
            point.iodepth,
            point.title(),
            beside(point, base)
        ))
    });
    format!("simulated: {}", others.collect::<Vec<_>>().join("; "))
}

/// Compares `point` with `first`, the point of the first card under the same load.
fn beside(point: &CardPoint, first: &CardPoint) -> String {
    let ratio = |ours: f64, theirs: f64| match theirs > 0.0 {
        true => signed_percent(ours / theirs - 1.0),
        false => "-".into(),
    };
    let limit = match point.bound_by == first.bound_by {
        true => format!("both are limited by the {}", point.bound_by),
        false => format!("limited by the {} and by the {}", point.bound_by, first.bound_by),
    };
    format!(
        "{} has {} IOPS and {} mean completion latency against {} ({}, {} us); {limit}",
        point.card,
        ratio(point.iops, first.iops),
        ratio(point.clat_us.mean, first.clat_us.mean),
        first.card,
        iops(first.iops),
        number(first.clat_us.mean),
    )
}

/// Formats IOPS with a unit: `850 IOPS`, `131k IOPS`, `1.31 million IOPS`.
fn iops(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{:.2} million IOPS", 1e-6 * value),
        _ if value >= 1e4 => format!("{:.0}k IOPS", 1e-3 * value),
        _ => format!("{value:.0} IOPS"),
    }
}

fn setting(card: &CardSettings) -> String {
    format!(
        "{}: {}, {}, {}; a write is durable when {}",
        card.name,
        Bytes::new(card.capacity_bytes),
        card.link,
        card.memory,
        card.durable,
    )
}

pub fn markdown(document: &CardDocument) -> String {
    let cards = document.cards.iter().map(|card| format!("- {}\n", setting(card)));
    let mut text = format!("# {}\n\n{}\n\n", title(document), verdict(document));
    text += &cards.collect::<String>();
    text += &format!("\n{}", table(document).markdown());
    text += &format!("\n{}", latency::table(document).markdown());
    if !document.power_failures.is_empty() {
        text += &format!("\n## Power failure\n\n{}", power_table(document).markdown());
    }
    let notes = document.notes.iter().cloned().chain([SOURCES.to_string()]);
    let lines = findings(document).into_iter().chain(notes);
    text + &lines.map(|line| format!("\n{line}\n")).collect::<String>()
}

/// Renders the tables of the document as HTML.
pub fn html_tables(document: &CardDocument) -> String {
    let cards = document.cards.iter().map(|card| format!("<li>{}</li>\n", escaped(&setting(card))));
    let mut html = format!("<ul class=\"source\">\n{}</ul>\n", cards.collect::<String>());
    html += &table(document).html();
    html += &format!(
        "<details><summary>Percentiles of the completion latency</summary>\n{}</details>\n",
        latency::table(document).html()
    );
    html += &format!(
        "<details><summary>Utilisation</summary>\n{}</details>\n",
        utilisation(document).html()
    );
    if !document.power_failures.is_empty() {
        html += &format!("<h3>Power failure</h3>\n{}", power_table(document).html());
    }
    let notes = document.notes.iter().cloned().chain([SOURCES.to_string()]);
    let lines = findings(document).into_iter().chain(notes);
    html + &lines.map(|line| format!("<p>{}</p>\n", escaped(&line))).collect::<String>()
}

fn table(document: &CardDocument) -> Table {
    let mut header = vec![
        "card",
        "load",
        "depth",
        "IOPS",
        "GB/s",
        "slat us",
        "clat us",
        "p50 us",
        "p99 us",
        "p99.99 us",
        "p99.9999 us",
        "max us",
        "bound by",
    ];
    let has_sync = document.points.iter().any(|point| point.sync_us.is_some());
    header.extend(has_sync.then_some("sync us"));
    let mut table = Table::new(&header);
    for point in &document.points {
        let clat = &point.clat_us;
        let numbers = [
            point.bandwidth_gbps,
            point.slat_us.mean,
            clat.mean,
            clat.p50,
            clat.p99,
            clat.p99_99,
            clat.p99_9999,
            clat.max,
        ];
        let head = [
            point.card.clone(),
            point.title(),
            point.iodepth.to_string(),
            format!("{:.0}", point.iops),
        ];
        let sync = point.sync_us.as_ref().map_or("-".into(), |sync| number(sync.mean));
        let tail = [point.bound_by.clone()].into_iter().chain(has_sync.then_some(sync));
        table.row(head.into_iter().chain(numbers.map(number)).chain(tail));
    }
    table
}

/// Returns a table of the utilisation of each component of the cards, with a row for each point.
fn utilisation(document: &CardDocument) -> Table {
    let components = document.points.iter().flat_map(|point| &point.utilisation);
    let names = distinct(components.map(|it| it.component.as_str()));
    let header = ["card", "load", "depth"].iter().chain(&names).map(ToString::to_string);
    let mut table = Table::with_header(header.collect());
    for point in &document.points {
        let share = |name: &&str| {
            let found = point.utilisation.iter().find(|part| part.component == **name);
            found.map_or(String::new(), |part| format!("{:.1} %", 100.0 * part.busy_share))
        };
        let head = [point.card.clone(), point.title(), point.iodepth.to_string()];
        table.row(head.into_iter().chain(names.iter().map(share)));
    }
    table
}

fn power_table(document: &CardDocument) -> Table {
    let mut table = Table::new(&[
        "card",
        "load",
        "depth",
        "failures",
        "acknowledged",
        "lost",
        "torn",
        "save s",
        "save J",
        "J left",
    ]);
    for failure in &document.power_failures {
        let result = &failure.result;
        table.row([
            failure.card.clone(),
            failure.rw.clone(),
            failure.iodepth.to_string(),
            result.failures.to_string(),
            result.acknowledged_writes.to_string(),
            result.lost_writes.to_string(),
            result.torn_writes.to_string(),
            failure.save_s.map_or("-".into(), number),
            failure.save_s.map_or("-".into(), |_| number(result.flush_energy_j)),
            failure.energy_left_j.map_or("-".into(), number),
        ]);
    }
    table
}

/// Returns a line for each lost or torn block, at most [`BLOCKS_MAX`] for a card and a load, and a
/// line for each fault in the save or the restore.
fn findings(document: &CardDocument) -> Vec<String> {
    let of = |failure: &CardPowerFailure| {
        let harmed = failure.blocks.iter().take(BLOCKS_MAX).map(|block| {
            let flushed = if block.after_flush { ", after a flush" } else { "" };
            let from = block.offset_bytes;
            format!("{}: block {} at {from:#x}: {}{flushed}", failure.card, from / 512, block.cause)
        });
        let found = failure.findings.iter().map(|finding| format!("{}: {finding}", failure.card));
        harmed.chain(found).collect::<Vec<String>>()
    };
    document.power_failures.iter().flat_map(of).collect()
}

/// The CSV columns of the power failures of a point.
const POWER_COLUMNS: [&str; 4] =
    ["power_failures", "acknowledged_writes", "lost_writes", "torn_writes"];

/// Returns the values of [`POWER_COLUMNS`]: sums over the power failures of the point's card and
/// group of jobs, or empty texts without a power failure. The document has the power-failure
/// results of a card in the order of the card's groups.
fn power_values(document: &CardDocument, point: &CardPoint) -> [String; 4] {
    let points = document.points.iter().filter(|other| other.card == point.card);
    let groups: BTreeSet<u32> = points.map(|other| other.group).collect();
    let at = groups.range(..point.group).count();
    let mut failures = document.power_failures.iter().filter(|it| it.card == point.card);
    let Some(CardPowerFailure { result: sum, .. }) = failures.nth(at) else {
        return Default::default();
    };
    [sum.failures, sum.acknowledged_writes, sum.lost_writes, sum.torn_writes]
        .map(|count| count.to_string())
}

/// Renders the points as CSV, with a row for each point.
pub fn csv(document: &CardDocument) -> String {
    let header = [
        "card",
        "job",
        "rw",
        "bs_bytes",
        "iodepth",
        "numjobs",
        "iops",
        "bandwidth_gbps",
        "slat_mean_us",
        "clat_mean_us",
        "lat_mean_us",
    ];
    let percentiles =
        ["1", "5", "10", "50", "90", "95", "99", "99_9", "99_99", "99_999", "99_9999"];
    let percentiles = percentiles.map(|name| format!("clat_p{name}_us"));
    let header = header.iter().map(ToString::to_string).chain(percentiles);
    let tail = ["clat_max_us", "bound_by", "access", "fsync", "sync_mean_us"]
        .into_iter()
        .chain(POWER_COLUMNS);
    let mut table = Table::with_header(header.chain(tail.map(String::from)).collect());
    for point in &document.points {
        let clat = &point.clat_us;
        let means = [point.iops, point.bandwidth_gbps, point.slat_us.mean, clat.mean];
        let head = [
            point.card.clone(),
            point.job.clone(),
            point.rw.clone(),
            point.bs_bytes.to_string(),
            point.iodepth.to_string(),
            point.numjobs.to_string(),
        ];
        let numbers = means.into_iter().chain([point.lat_us.mean]);
        let numbers = numbers.chain(clat.percentiles().map(|(_, value)| value)).chain([clat.max]);
        let numbers = numbers.map(|value| value.to_string());
        let tail = [
            point.bound_by.clone(),
            point.access.clone(),
            point.fsync.map_or(String::new(), |stores| stores.to_string()),
            point.sync_us.as_ref().map_or(String::new(), |sync| sync.mean.to_string()),
        ];
        let tail = tail.into_iter().chain(power_values(document, point));
        table.row(head.into_iter().chain(numbers).chain(tail));
    }
    table.csv()
}

/// Renders the points as a file of curves for a tier of a platform. A point of a curve has the
/// bandwidth of the I/Os, and their mean latency in place of the latency of a cache line.
/// `commands` has the command that simulates each point.
pub fn curves_csv(document: &CardDocument, commands: &[String]) -> String {
    let mut file = CurveFile::new();
    for load in document.loads() {
        file.begin();
        let points = document.points.iter().zip(commands);
        for (point, command) in points.filter(|(point, _)| point.load() == load.load()) {
            let latency_ns = rounded(1e3 * point.lat_us.mean);
            file.add(mix(point), point.bandwidth_gbps, latency_ns, command.clone());
        }
    }
    file.csv()
}

/// Returns the mix of a point as text: its read share, and `/random` for random accesses.
fn mix(point: &CardPoint) -> String {
    let read_share = match (point.rwmixread, point.rw.as_str()) {
        (Some(percent), _) => f64::from(percent.min(100)) / 100.0,
        (None, "write" | "randwrite") => 0.0,
        (None, _) => 1.0,
    };
    let order = if point.rw.starts_with("rand") { "/random" } else { "" };
    format!("{read_share}{order}")
}
