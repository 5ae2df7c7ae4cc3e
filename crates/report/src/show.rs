//! `interleaf.show/1` as text.

use super::{number, table::Table};
use interleaf_model::units::Bytes;
use interleaf_record::show::ShowDocument;

/// The document as text for a terminal.
pub fn text(document: &ShowDocument) -> String {
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
    let mut text = format!(
        "{}: {} cores, {} outstanding lines each\n{}\n\n{}",
        document.platform,
        document.cores,
        document.outstanding_lines_per_core,
        document.source,
        tiers.text()
    );
    text += "\n";
    text += &constants(document);
    text
}

/// The constants of the platform, one a line, with their sources: links, couplings, streams, power.
fn constants(document: &ShowDocument) -> String {
    let constant =
        |what: String, provenance: &str, source: &str| format!("{what} ({provenance}: {source})\n");
    let mut text = String::new();
    for link in &document.links {
        let figure = &link.bandwidth_gbps;
        let what =
            format!("link {}: {} GB/s to {}", link.name, figure.value, link.tiers.join(", "));
        text += &constant(what, &figure.provenance, &figure.source);
    }
    for coupling in &document.couplings {
        let what = format!(
            "coupling: {} loses {} GB/s for each GB/s on {}",
            coupling.to, coupling.loss.value, coupling.from
        );
        text += &constant(what, &coupling.loss.provenance, &coupling.loss.source);
    }
    let streams = &document.page_streams;
    let what = format!("page streams: {}", streams.value);
    text += &constant(what, &streams.provenance, &streams.source);
    if let Some(power) = &document.power {
        let (idle, core) = (power.idle_w, power.core_w);
        let what = format!("power: {idle} W with idle cores, {core} W more for each that runs");
        text += &constant(what, &power.provenance, &power.source);
    }
    for tier in &document.tiers {
        let Some(power) = &tier.power else { continue };
        let (always, bit) = (power.static_w, power.energy_pj_per_bit);
        let what = format!("power of {}: {always} W and {bit} pJ/bit", tier.name);
        text += &constant(what, &power.provenance, &power.source);
    }
    for tier in &document.tiers {
        let Some(reads) = &tier.queue_reads_max else { continue };
        let what = format!("counters of {}: at most {} outstanding reads", tier.name, reads.value);
        text += &constant(what, &reads.provenance, &reads.source);
    }
    text
}
