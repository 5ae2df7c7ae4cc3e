//! What the daemon does, as text: a line for each period.

use super::number;
use crate::document::balance::PeriodDocument;
use interleaf_model::units::Bytes;

/// `    12.0 s  431.2 GB/s  node0 92 (91.8), node1 8 (8.2)  step: bandwidth rose`
pub(crate) fn line(period: &PeriodDocument) -> String {
    let nodes = period.nodes.iter().zip(&period.target_weights).enumerate();
    let nodes: Vec<String> = nodes
        .map(|(at, (node, points))| match &period.reached_share {
            Some(shares) => format!("node{node} {points} ({:.1})", 100.0 * shares[at]),
            None => format!("node{node} {points}"),
        })
        .collect();
    let bandwidth = match period.bandwidth_gbps {
        Some(gbps) => format!("{} GB/s", number(gbps)),
        None => "not counted".into(),
    };
    let moved = match period.migrated_bytes {
        0 => String::new(),
        bytes => format!(", {} moved", Bytes::new(bytes)),
    };
    let (decision, reason) = (&period.decision, &period.reason);
    let (time, domain) = (period.time_s, &period.domain);
    format!(
        "{time:>8.1} s  {domain}  {bandwidth}  {}{moved}  {decision}: {reason}",
        nodes.join(", ")
    )
}
