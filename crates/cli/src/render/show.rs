//! `interleaf.show/1` as text.

use super::{number, table::Table};
use crate::document::show::ShowDocument;
use interleaf_model::units::Bytes;

pub(crate) fn text(document: &ShowDocument) -> String {
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
                first(tier.kind.clone()),
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
    let constant = |what: String, figure: &crate::document::show::FigureDocument| {
        format!("{what} ({}: {})\n", figure.provenance, figure.source)
    };
    text += "\n";
    for link in &document.links {
        let figure = &link.bandwidth_gbps;
        let what =
            format!("link {}: {} GB/s to {}", link.name, figure.value, link.tiers.join(", "));
        text += &constant(what, figure);
    }
    for coupling in &document.couplings {
        let what = format!(
            "coupling: {} loses {} GB/s for each GB/s on {}",
            coupling.to, coupling.loss.value, coupling.from
        );
        text += &constant(what, &coupling.loss);
    }
    let streams = &document.page_streams;
    text + &constant(format!("page streams: {}", streams.value), streams)
}
