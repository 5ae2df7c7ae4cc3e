//! What the daemon does, as text: a line for each period.

use super::number;
use crate::document::balance::{PeriodDocument, PlanDocument, PointsDocument, WriteDocument};
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

/// What would be set up and written.
pub(crate) fn plan(plan: &PlanDocument) -> String {
    let mut text = String::new();
    let domains = plan.domains.iter().map(|domain| {
        let nodes: Vec<String> = domain.nodes.iter().map(u32::to_string).collect();
        format!("{}: nodes {}", domain.name, nodes.join(", "))
    });
    text += &format!("{}\n", domains.collect::<Vec<_>>().join("; "));
    text += &format!("steered: {}{}, by the policy {}\n", plan.scope, processes(plan), plan.policy);
    text += &format!("pages move by {}: {}\n", plan.way, plan.way_description);
    for way in &plan.ways_missing {
        text += &format!("  not by {way}\n");
    }
    let source = &plan.source;
    text += &match (source.is_there, &source.remedy) {
        (false, remedy) => format!(
            "nothing counts: {}\n  {}\n",
            source.what,
            remedy.as_deref().unwrap_or_default()
        ),
        (true, _) => format!("counted by: {}; not opened in a dry run\n", source.what),
    };
    for note in &plan.notes {
        text += &format!("{note}\n");
    }
    if plan.way == "pages" {
        text += "nothing is written for that: pages move by a system call, move_pages(2)\n";
    }
    text += &format!("\nat first, {}:\n{}", points(&plan.start), writes(&plan.writes));
    if !plan.next.is_empty() {
        text += &format!(
            "with each decision, such as {}:\n{}",
            points(&plan.next),
            writes(&plan.next_writes)
        );
    }
    if !plan.writes.is_empty() {
        text += "in the end all of it is put back, the last change first\n";
    }
    text
}

fn processes(plan: &PlanDocument) -> String {
    match plan.processes.as_deref() {
        None => String::new(),
        Some([]) => " (none runs now: they join when they come)".into(),
        Some(pids) => {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            format!(" (now {})", pids.join(", "))
        }
    }
}

/// `node0 75, node2 25; node1 75, node3 25`
fn points(domains: &[PointsDocument]) -> String {
    let domains = domains.iter().map(|domain| {
        let nodes = domain.nodes.iter().map(|node| format!("node{} {}", node.node, node.points));
        nodes.collect::<Vec<_>>().join(", ")
    });
    domains.collect::<Vec<_>>().join("; ")
}

fn writes(writes: &[WriteDocument]) -> String {
    if writes.is_empty() {
        return "  nothing is written\n".into();
    }
    let line = |write: &WriteDocument| {
        let was = write.was.as_ref().map_or(String::new(), |was| format!("  (now {was})"));
        format!("  {} > {}{was}\n", write.text, write.path)
    };
    writes.iter().map(line).collect()
}
