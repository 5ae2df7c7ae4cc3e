//! Renders a measurement (`interleaf.measure/1`) as text, Markdown, HTML and CSV.

use super::{
    number, signed_percent,
    table::{Table, escaped},
    terminal_chart,
};
use interleaf_record::measure::{
    MeasureDocument, MeasureStop, MeasuredPoint, PointKind, SpreadDocument, size_text, weights_text,
};

/// Renders the record as text for a terminal.
pub fn text(document: &MeasureDocument) -> String {
    let mut text = machine(document);
    if document.dry_run {
        text += &dry_run(document);
        return text;
    }
    for (title, table) in tables(document, false) {
        text += &format!("\n{title}\n{}", table.text());
    }
    for figure in document.figures() {
        // Only these figures are drawn as charts. The other figures have bars or many lines: a
        // table shows their values better.
        if ["curves", "best-weights", "caches", "histogram"].contains(&figure.id.as_str()) {
            let drawn = terminal_chart::text(&figure);
            if !drawn.is_empty() {
                text += &format!("\n{}: {drawn}", figure.title);
            }
        }
    }
    for finding in findings(document) {
        text += &format!("\n{finding}");
    }
    text + "\n"
}

/// Formats the machine and the settings, for the text above the tables.
fn machine(document: &MeasureDocument) -> String {
    let mut table = Table::new(&["", ""]);
    for (name, value) in facts(document) {
        table.row([name.to_string(), value]);
    }
    // The header of this table is empty, so the first line of its text is skipped.
    table.text().lines().skip(1).map(|line| format!("{line}\n")).collect()
}

/// Returns properties of the machine, and settings, as pairs of a name and a text. For a record of
/// another tool, returns only the name of the tool.
fn facts(document: &MeasureDocument) -> Vec<(&'static str, String)> {
    if let Some(source) = &document.source {
        return vec![("measured by", source.clone())];
    }
    let mut facts = document.machine.facts();
    facts.push(("measured with", how(document)));
    facts.push(("seed", document.settings.seed.to_string()));
    facts
}

fn how(document: &MeasureDocument) -> String {
    let settings = &document.settings;
    format!(
        "{}, {} pages, {} a buffer, chase of {} by {}, {} repeats in {} s a point, {}",
        settings.isa,
        settings.pages,
        size_text(settings.buffer_bytes),
        size_text(settings.chase_bytes),
        size_text(settings.stride_bytes),
        settings.repeats,
        number(settings.duration_s),
        settings.statistic,
    )
}

fn dry_run(document: &MeasureDocument) -> String {
    let mut text = String::from("\nwould be measured:\n");
    for line in &document.plan {
        text += &format!("  {line}\n");
    }
    if !document.kernel_settings.is_empty() {
        text += "would be set, and restored at the end:\n";
        for setting in &document.kernel_settings {
            let is = if setting.was == setting.set { "  (it is)" } else { "" };
            text += &format!("  {}: {} -> {}{is}\n", setting.path, setting.was, setting.set);
        }
    }
    for note in &document.notes {
        text += &format!("{note}\n");
    }
    text
}

/// Returns lines with the results that are derived from the points (end of the last cache, knees,
/// best weights), then with the notes and the quality.
pub fn findings(document: &MeasureDocument) -> Vec<String> {
    let mut lines = vec![];
    if let Some(caches) = &document.caches {
        let reported = match caches.told_bytes {
            Some(reported) if reported != caches.last_level_bytes => {
                format!(" (the kernel says {})", size_text(reported))
            }
            _ => String::new(),
        };
        lines.push(format!(
            "the last cache ends at {}{reported}; behind it an access takes {} ns",
            size_text(caches.last_level_bytes),
            number(caches.memory_latency_ns)
        ));
    }
    for knee in &document.knees {
        let place = match (&knee.weights, knee.memory_node) {
            (Some(weights), _) => format!("under {}", weights_text(weights)),
            (None, Some(node)) => format!("of node {node}"),
            (None, None) => String::new(),
        };
        lines.push(match knee.bandwidth_gbps {
            Some(gbps) => {
                format!("the curve of {} {place} bends at {} GB/s", knee.mix, number(gbps))
            }
            None => format!("the curve of {} {place} does not bend: {}", knee.mix, knee.why),
        });
    }
    for best in &document.best_weights {
        let gain = best.gain.map(|gain| format!(", {} over the first node", signed_percent(gain)));
        let noise = if best.beyond_spread == Some(false) { ", which is noise" } else { "" };
        lines.push(format!(
            "{}: {} is best, {} GB/s{}{noise}",
            best.mix,
            weights_text(&best.weights),
            number(best.program_gbps),
            gain.unwrap_or_default()
        ));
    }
    lines.extend(document.notes.iter().cloned());
    if !matches!(document.stopped, MeasureStop::Done | MeasureStop::Running) {
        lines.push(format!("stopped before the end: {}", document.stopped_because));
    }
    if !document.points.is_empty() {
        lines.push(format!("quality: {}", document.quality));
    }
    lines
}

/// Returns all tables with their titles. If `every_size`, the table of latencies by buffer size has
/// a row for each size, otherwise for each cache level.
fn tables(document: &MeasureDocument, every_size: bool) -> Vec<(String, Table)> {
    let mut all = vec![];
    for (kind, title, value) in [
        (
            PointKind::Idle,
            "Idle latency, ns: CPUs of a node down, memory of a node across",
            latency as Value,
        ),
        (
            PointKind::Bandwidth,
            "Bandwidth, GB/s: CPUs of a node down, memory of a node across",
            bandwidth,
        ),
    ] {
        all.extend(matrix(document, kind, value).map(|table| (title.to_string(), table)));
    }
    let lists: [(PointKind, &str, List); 5] = [
        (PointKind::Idle, "Idle latency", latencies),
        (PointKind::Cache, "Latency by size", sizes),
        (PointKind::Bandwidth, "Bandwidth by mix", bandwidths),
        (PointKind::Loaded, "Latency under load", loads),
        (PointKind::Histogram, "Latency of single accesses, ns", histograms),
    ];
    for (kind, title, list) in lists {
        let points = match kind {
            PointKind::Loaded => document.loaded(),
            _ => document.points_of_kind(kind).collect(),
        };
        if kind == PointKind::Cache && !every_size {
            all.extend(levels(document).map(|table| ("Caches, as measured".into(), table)));
        } else if !points.is_empty() {
            all.push((title.into(), list(&points)));
        }
    }
    all.extend(weights(document).map(|table| ("Bandwidth by weights, GB/s".into(), table)));
    all.extend(best_by_load(document).map(|it| ("The best weights at each load".into(), it)));
    all
}

type Value = fn(&MeasuredPoint) -> Option<f64>;
type List = fn(&[&MeasuredPoint]) -> Table;

fn latency(point: &MeasuredPoint) -> Option<f64> {
    point.latency_ns
}

fn bandwidth(point: &MeasuredPoint) -> Option<f64> {
    point.program_gbps
}

/// Returns a table of the quantity `value` at the points of the kind `kind`, with a row for each
/// node of CPUs and a column for each node of memory. If several points have the same pair of
/// nodes, the first counts. Returns `None` for a machine with a single memory node.
fn matrix(document: &MeasureDocument, kind: PointKind, value: Value) -> Option<Table> {
    let mut from: Vec<u32> = document.points_of_kind(kind).map(|point| point.cpu_node).collect();
    let mut to: Vec<u32> = document.points_of_kind(kind).filter_map(|it| it.memory_node).collect();
    for nodes in [&mut from, &mut to] {
        nodes.sort_unstable();
        nodes.dedup();
    }
    if to.len() < 2 {
        return None;
    }
    let header = to.iter().map(|node| format!("node {node}"));
    let mut table = Table::with_header(std::iter::once("CPUs of".into()).chain(header).collect());
    for cpu in from {
        let cell = |memory: &u32| {
            let mut points = document.points_of_kind(kind);
            let found = points.find(|it| it.cpu_node == cpu && it.memory_node == Some(*memory));
            found.and_then(value).map_or("-".into(), number)
        };
        let cells = to.iter().map(cell);
        table.row(std::iter::once(format!("node {cpu}")).chain(cells));
    }
    Some(table)
}

fn or_dash(value: Option<f64>) -> String {
    value.map_or("-".into(), number)
}

fn spread(point: &MeasuredPoint) -> String {
    // A single repetition has no spread: "± 0.0 %" would claim an exact result.
    if point.repeats < 2 { "-".into() } else { format!("± {:.1} %", 50.0 * point.spread) }
}

/// Formats the placement of a point, the node of its CPUs and the node or weights of its memory: `0
/// -> 1`, `0 -> 3:1`.
fn place(point: &MeasuredPoint) -> String {
    let memory = match (&point.weights, point.memory_node) {
        (Some(weights), _) => weights_text(weights),
        (None, Some(node)) => node.to_string(),
        (None, None) => "-".into(),
    };
    format!("{} -> {memory}", point.cpu_node)
}

fn huge(point: &MeasuredPoint) -> String {
    point.huge_share.map_or("-".into(), |share| format!("{:.0} %", 100.0 * share))
}

fn latencies(points: &[&MeasuredPoint]) -> Table {
    let mut table = Table::new(&["nodes", "order", "ns", "spread", "memory", "huge", "quality"]);
    for point in points {
        table.row([
            place(point),
            point.pattern.clone(),
            or_dash(point.latency_ns),
            spread(point),
            size_text(point.memory_bytes),
            huge(point),
            point.quality.to_string(),
        ]);
    }
    table
}

fn levels(document: &MeasureDocument) -> Option<Table> {
    let caches = document.caches.as_ref()?;
    let mut table = Table::new(&["level", "up to", "ns"]);
    for level in &caches.levels {
        table.row([level.level.to_string(), size_text(level.bytes), number(level.latency_ns)]);
    }
    table.row(["memory".into(), String::new(), number(caches.memory_latency_ns)]);
    Some(table)
}

fn sizes(points: &[&MeasuredPoint]) -> Table {
    let mut table = Table::new(&["memory", "ns", "spread"]);
    for point in points {
        table.row([size_text(point.memory_bytes), or_dash(point.latency_ns), spread(point)]);
    }
    table
}

fn bandwidths(points: &[&MeasuredPoint]) -> Table {
    let mut table = Table::new(&[
        "nodes",
        "mix",
        "order",
        "threads",
        "program GB/s",
        "controller GB/s",
        "counted GB/s",
        "spread",
        "huge",
        "quality",
    ]);
    for point in points {
        table.row([
            place(point),
            point.mix.clone().unwrap_or_default(),
            point.pattern.clone(),
            point.threads.to_string(),
            or_dash(point.program_gbps),
            or_dash(point.modelled_gbps),
            or_dash(point.measured_gbps),
            spread(point),
            huge(point),
            point.quality.to_string(),
        ]);
    }
    table
}

fn loads(points: &[&MeasuredPoint]) -> Table {
    let mut table =
        Table::new(&["nodes", "mix", "threads", "delay ns", "GB/s", "ns", "spread", "quality"]);
    for point in points {
        table.row([
            place(point),
            point.mix.clone().unwrap_or_default(),
            point.threads.to_string(),
            or_dash(point.delay_ns),
            or_dash(point.program_gbps),
            or_dash(point.latency_ns),
            spread(point),
            point.quality.to_string(),
        ]);
    }
    table
}

fn histograms(points: &[&MeasuredPoint]) -> Table {
    let mut table = Table::new(&[
        "nodes",
        "load GB/s",
        "of",
        "mean",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "p99.99",
        "p99.999",
        "p99.9999",
        "max",
        "accesses",
    ]);
    for point in points {
        let Some(histogram) = &point.histogram else { continue };
        let mut row = |of: &str, spread: &SpreadDocument, samples: u64| {
            let load = or_dash(point.program_gbps);
            let values = [
                spread.mean,
                spread.p50,
                spread.p90,
                spread.p99,
                spread.p99_9,
                spread.p99_99,
                spread.p99_999,
                spread.p99_9999,
                spread.max,
            ];
            let head = [place(point), load, of.to_string()];
            table.row(head.into_iter().chain(values.map(number)).chain([samples.to_string()]));
        };
        row("all", &histogram.raw, histogram.samples);
        row("undisturbed", &histogram.filtered, histogram.samples - histogram.tagged);
    }
    table
}

/// Returns a table of bandwidths, with a row for each mix and a column for each choice of weights.
fn weights(document: &MeasureDocument) -> Option<Table> {
    let mut choices: Vec<&[u16]> = vec![];
    let mut mixes: Vec<&str> = vec![];
    for point in document.points_of_kind(PointKind::Interleave) {
        let (Some(weights), Some(mix)) = (&point.weights, &point.mix) else { continue };
        if !choices.contains(&weights.as_slice()) {
            choices.push(weights);
        }
        if !mixes.contains(&mix.as_str()) {
            mixes.push(mix);
        }
    }
    if mixes.is_empty() {
        return None;
    }
    let header = choices.iter().map(|weights| weights_text(weights));
    let header = std::iter::once("mix".to_string()).chain(header).chain(["best".into()]);
    let mut table = Table::with_header(header.collect());
    for mix in mixes {
        let cell = |weights: &&[u16]| {
            let mut points = document.points_of_kind(PointKind::Interleave);
            let is = |it: &&MeasuredPoint| {
                it.mix.as_deref() == Some(mix) && it.weights.as_deref() == Some(*weights)
            };
            or_dash(points.find(is).and_then(bandwidth))
        };
        let best = document.best_weights.iter().find(|best| best.mix == mix);
        let best = best.map_or("-".into(), |best| weights_text(&best.weights));
        let cells = choices.iter().map(cell);
        table.row(std::iter::once(mix.to_string()).chain(cells).chain([best]));
    }
    Some(table)
}

fn best_by_load(document: &MeasureDocument) -> Option<Table> {
    let mut table = Table::new(&["load GB/s", "weights", "ns", "ns on the first node"]);
    for load in &document.best_by_load {
        table.row([
            number(load.load_gbps),
            weights_text(&load.weights),
            number(load.latency_ns),
            load.first_latency_ns.map_or("not reached".into(), number),
        ]);
    }
    (!document.best_by_load.is_empty()).then_some(table)
}

/// Returns the title of the document's page.
pub fn title(document: &MeasureDocument) -> String {
    let machine = &document.machine;
    let names = [&machine.cpu, &machine.product, &document.source];
    let name = names.into_iter().find_map(|name| name.as_deref()).unwrap_or("a machine");
    format!("Memory of {name}")
}

/// Returns the lowest idle latency, the highest bandwidth and the quality of all points, in one
/// line.
fn verdict(document: &MeasureDocument) -> String {
    let idle = document.points_of_kind(PointKind::Idle).filter_map(latency);
    let idle = idle.min_by(f64::total_cmp).map(|ns| format!("{} ns idle", number(ns)));
    let most = document.points.iter().filter_map(bandwidth).max_by(f64::total_cmp);
    let most = most.map(|gbps| format!("at most {} GB/s", number(gbps)));
    let found: Vec<String> = idle.into_iter().chain(most).collect();
    match found.is_empty() {
        true => "no latency or bandwidth was measured".into(),
        false => format!("{}; quality: {}", found.join(", "), document.quality),
    }
}

/// Renders the document as HTML, for the body of a page, with `figures` below the findings.
pub fn html(document: &MeasureDocument, figures: &str) -> String {
    let findings = findings(document);
    let findings = findings.iter().map(|line| format!("<li>{}</li>\n", escaped(line)));
    let answer = escaped(&verdict(document));
    let head = format!("<p class=\"answer\">{answer}</p>\n<ul>\n");
    format!("{head}{}</ul>\n{figures}{}", findings.collect::<String>(), html_tables(document))
}

fn html_tables(document: &MeasureDocument) -> String {
    let mut machine = Table::new(&["machine", ""]);
    for (name, value) in facts(document) {
        machine.row([name.to_string(), value]);
    }
    let mut text = machine.html();
    for (title, table) in tables(document, true) {
        text += &format!("<h2>{title}</h2>\n{}", table.html());
    }
    text
}

pub fn markdown(document: &MeasureDocument) -> String {
    let mut text = format!("# {}\n\n", title(document));
    for finding in findings(document) {
        text += &format!("- {finding}\n");
    }
    let mut machine = Table::new(&["machine", "what it says"]);
    for (name, value) in facts(document) {
        machine.row([name.to_string(), value]);
    }
    text += &format!("\n{}", machine.markdown());
    for (title, table) in tables(document, true) {
        text += &format!("\n## {title}\n\n{}", table.markdown());
    }
    text
}

/// Renders the points as CSV, with a row for each point.
pub fn csv(document: &MeasureDocument) -> String {
    let mut table = Table::new(&[
        "kind",
        "cpu_node",
        "memory_node",
        "weights",
        "mix",
        "read_share",
        "pattern",
        "threads",
        "delay",
        "memory_bytes",
        "program_gbps",
        "modelled_gbps",
        "measured_gbps",
        "latency_ns",
        "spread",
        "repeats",
        "huge_share",
        "p50_ns",
        "p99_ns",
        "p99_9_ns",
        "max_ns",
        "quality",
    ]);
    let plain = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for point in &document.points {
        let of = |value: fn(&SpreadDocument) -> f64| {
            plain(point.histogram.as_ref().map(|histogram| value(&histogram.filtered)))
        };
        table.row([
            point.kind.to_string(),
            point.cpu_node.to_string(),
            point.memory_node.map(|node| node.to_string()).unwrap_or_default(),
            point.weights.as_deref().map(weights_text).unwrap_or_default(),
            point.mix.clone().unwrap_or_default(),
            plain(point.read_share),
            point.pattern.clone(),
            point.threads.to_string(),
            plain(point.delay_ns),
            point.memory_bytes.to_string(),
            plain(point.program_gbps),
            plain(point.modelled_gbps),
            plain(point.measured_gbps),
            plain(point.latency_ns),
            plain((point.repeats > 1).then_some(point.spread)),
            point.repeats.to_string(),
            plain(point.huge_share),
            of(|spread| spread.p50),
            of(|spread| spread.p99),
            of(|spread| spread.p99_9),
            of(|spread| spread.max),
            point.quality.to_string(),
        ]);
    }
    table.csv()
}

/// Formats the line of progress after a finished point.
pub fn point(point: &MeasuredPoint) -> String {
    let value = match (point.program_gbps, point.latency_ns) {
        (Some(gbps), Some(ns)) => format!("{} ns at {} GB/s", number(ns), number(gbps)),
        (Some(gbps), None) => format!("{} GB/s", number(gbps)),
        (None, Some(ns)) => format!("{} ns", number(ns)),
        (None, None) => "nothing".into(),
    };
    format!("{}: {value} {}", point.setting(), spread(point))
}
