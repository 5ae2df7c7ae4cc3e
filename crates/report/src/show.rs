//! Renders a platform (`interleaf.show/1`) as text, Markdown, HTML and CSV.

use super::{number, page::Page, table::Table};
use interleaf_model::units::Bytes;
use interleaf_record::show::ShowDocument;

/// Renders the document as text for a terminal.
pub fn text(document: &ShowDocument) -> String {
    format!(
        "{}: {}\n{}\n\n{}\n{}",
        document.platform,
        cores(document),
        document.source,
        tiers(document).text(),
        constants(document).into_iter().map(|line| line + "\n").collect::<String>()
    )
}

/// Returns a text with the names of the built-in platforms, workloads and scenarios, and with
/// commands that use them.
pub fn catalogue(platforms: &[String], workloads: &[String], scenarios: &[String]) -> String {
    let known = |names: &[String], name: &str| {
        names.iter().find(|own| *own == name).map_or("NAME".into(), String::clone)
    };
    let platform = platforms.last().map_or("NAME", String::as_str);
    format!(
        "platforms: {}\nworkloads: {}\nscenarios: {}\n\n\
         interleaf show --platform {platform}     its tiers, curves and constants\n\
         interleaf predict --platform {platform} --workload {}\n\
         interleaf simulate machine --scenario {} --policy dmi\n\
         interleaf --help                       all verbs\n",
        platforms.join(", "),
        workloads.join(", "),
        scenarios.join(", "),
        known(workloads, "hpcg"),
        known(scenarios, "shifting-demand"),
    )
}

fn cores(document: &ShowDocument) -> String {
    let ShowDocument { cores, outstanding_lines_per_core, .. } = document;
    format!("{cores} cores, {outstanding_lines_per_core} outstanding lines each")
}

/// Renders the document as a page of a report.
pub fn page(document: &ShowDocument) -> Page {
    let (title, answer) = (document.platform.clone(), cores(document));
    let facts = vec![document.source.clone()];
    Page { title, answer, facts, notes: constants(document), ..Page::default() }
        .with_table("Tiers", tiers(document))
}

/// Renders the curves of all tiers as CSV, with a row for each point of each curve.
pub fn csv(document: &ShowDocument) -> String {
    let mut table = Table::new(&[
        "tier",
        "kind",
        "mix",
        "domain",
        "bandwidth_gbps",
        "latency_ns",
        "provenance",
        "source",
    ]);
    for tier in &document.tiers {
        for curve in &tier.curves {
            for point in &curve.points {
                table.row([
                    tier.name.clone(),
                    tier.kind.to_string(),
                    curve.mix.clone(),
                    curve.domain.clone().unwrap_or_default(),
                    point.bandwidth_gbps.to_string(),
                    point.latency_ns.to_string(),
                    point.provenance.clone(),
                    point.source.clone(),
                ]);
            }
        }
    }
    table.csv()
}

fn tiers(document: &ShowDocument) -> Table {
    let mut tiers =
        Table::new(&["tier", "kind", "capacity", "mix", "idle ns", "max GB/s", "figures"]);
    for tier in &document.tiers {
        for (at, curve) in tier.curves.iter().enumerate() {
            let first = |text: String| if at == 0 { text } else { String::new() };
            let mut provenances: Vec<&str> =
                curve.points.iter().map(|point| point.provenance.as_str()).collect();
            provenances.sort_unstable();
            provenances.dedup();
            tiers.row([
                first(tier.name.clone()),
                first(tier.kind.to_string()),
                first(Bytes::new(tier.capacity_bytes).to_string()),
                match &curve.domain {
                    Some(domain) => format!("{} from {domain}", curve.mix),
                    None => curve.mix.clone(),
                },
                number(curve.idle_latency_ns),
                number(curve.max_bandwidth_gbps),
                provenances.join(", "),
            ]);
        }
    }
    tiers
}

/// Returns a line for each constant of the platform (links, couplings, streams, power) with its
/// source.
fn constants(document: &ShowDocument) -> Vec<String> {
    let constant =
        |what: String, provenance: &str, source: &str| format!("{what} ({provenance}: {source})");
    let mut lines = vec![];
    for link in &document.links {
        let figure = &link.bandwidth_gbps;
        let what =
            format!("link {}: {} GB/s to {}", link.name, figure.value, link.tiers.join(", "));
        lines.push(constant(what, &figure.provenance, &figure.source));
    }
    for coupling in &document.couplings {
        let what = format!(
            "coupling: {} loses {} GB/s for each GB/s on {}",
            coupling.to, coupling.loss.value, coupling.from
        );
        lines.push(constant(what, &coupling.loss.provenance, &coupling.loss.source));
    }
    let streams = &document.page_streams;
    let what = format!("page streams: {}", streams.value);
    lines.push(constant(what, &streams.provenance, &streams.source));
    if let Some(power) = &document.power {
        let (idle, core) = (power.idle_w, power.core_w);
        let what = format!("power: {idle} W with idle cores, {core} W more for each that runs");
        lines.push(constant(what, &power.provenance, &power.source));
    }
    for tier in &document.tiers {
        let Some(power) = &tier.power else { continue };
        let (always, bit) = (power.static_w, power.energy_pj_per_bit);
        let what = format!("power of {}: {always} W and {bit} pJ/bit", tier.name);
        lines.push(constant(what, &power.provenance, &power.source));
    }
    for tier in &document.tiers {
        let Some(reads) = &tier.queue_reads_max else { continue };
        let what = format!("counters of {}: at most {} outstanding reads", tier.name, reads.value);
        lines.push(constant(what, &reads.provenance, &reads.source));
    }
    lines
}
