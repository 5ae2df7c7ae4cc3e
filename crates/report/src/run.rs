//! A command under a placement (`interleaf.run/1`) as text.

use super::table::Table;
use interleaf_model::units::Bytes;
use interleaf_record::run::{
    BalancedDocument, MemoryDocument, PlacementMeans, PutBackDocument, RestoreOutcome, RunDocument,
};
use std::collections::BTreeMap;

/// Bypassed allocations are shown from this fraction of the memory on: every program has less than
/// that in its libraries.
const REPORTED_SHARE: f64 = 0.01;
/// Bypassed allocations are shown from this many bytes on: a small program is mostly libraries.
const REPORTED_BYTES: u64 = 8 << 20;

/// The placement in one line.
pub fn placement(document: &RunDocument) -> String {
    let nodes = document.nodes.iter();
    let nodes: Vec<String> =
        nodes.map(|node| format!("node {}: {}", node.node, node.weight)).collect();
    format!("{}, {} (as {})", document.means, nodes.join(", "), document.numactl)
}

/// `pages are steered by the policy dmi, every 6 s; they move by vaddr (...); counted by: ...`
pub fn balanced(balanced: &BalancedDocument) -> String {
    let BalancedDocument { policy, way, way_reason, source, period_s, .. } = balanced;
    format!(
        "pages are steered by the policy {policy}, every {period_s} s; they move by {way} \
         ({way_reason}); counted by: {source}"
    )
}

/// The plan of a dry run.
pub fn dry_run(document: &RunDocument) -> String {
    if let Some(steered) = &document.balance {
        let nodes = document.nodes.iter().filter(|node| node.weight > 0);
        let nodes: Vec<String> =
            nodes.map(|node| format!("node {}: {}", node.node, node.weight)).collect();
        return format!(
            "{}\nat first: {}\nwould run: {}\nwhat is written while it runs: `interleaf balance \
             --process NAME --dry-run` lists it, once it does\n",
            balanced(steered),
            nodes.join(", "),
            document.command.join(" ")
        );
    }
    let mut text = format!("{}\n", placement(document));
    if document.means == PlacementMeans::Moving {
        text += "this kernel has no weighted interleaving: pages are spread evenly when they are \
                 touched first, and moved to the weights while the command runs\n";
    }
    if document.settings.is_empty() {
        text += "nothing is to be set in the kernel\n";
    } else {
        text += "would be set, and restored at the end:\n";
        for setting in &document.settings {
            let same = if setting.was == setting.set { "  (it is)" } else { "" };
            text += &format!("  {}: {} -> {}{same}\n", setting.path, setting.was, setting.set);
        }
    }
    if !document.command.is_empty() {
        text += &format!("would run: {}\n", document.command.join(" "));
    }
    text
}

/// The outcome of restoring a setting.
pub fn restored(undone: &PutBackDocument) -> String {
    let PutBackDocument { path, outcome, value } = undone;
    match outcome {
        RestoreOutcome::Restored => format!("restored {path}: {value}"),
        RestoreOutcome::ChangedSince => {
            format!("{path}: left at {value}, which another program has written since")
        }
        RestoreOutcome::Failed => {
            format!("{path}: cannot be restored: {value}; `interleaf run --restore` tries it again")
        }
        RestoreOutcome::SetAside => format!("{path}: is damaged and not restored: {value}"),
        RestoreOutcome::Held => {
            format!("{path}: left as it is for process {value}, which restores it")
        }
    }
}

/// The placement audit: memory by node, and allocations that bypassed the policy.
pub fn memory(memory: &MemoryDocument) -> String {
    let placed: u64 = memory.placed_bytes.values().sum();
    let share = |bytes: u64, of: u64| 100.0 * bytes as f64 / of.max(1) as f64;
    let nodes = memory.placed_bytes.iter();
    let nodes: Vec<String> =
        nodes.map(|(node, bytes)| format!("node {node} {:.1} %", share(*bytes, placed))).collect();
    let hidden = match memory.hidden_processes {
        0 => String::new(),
        1 => "a process of another user could not be read".to_string(),
        more => format!("{more} processes of other users could not be read"),
    };
    if memory.processes == 0 {
        return hidden;
    }
    let total = Bytes::new(memory.total_bytes);
    let mut text = format!(
        "of {total} at its most, {:.1} % were under the placement: {}",
        share(placed, memory.total_bytes),
        if nodes.is_empty() { "none".into() } else { nodes.join(", ") },
    );
    if !hidden.is_empty() {
        text += &format!("\n{hidden}");
    }
    // Processes with the same reason share a line.
    let mut reasons: Vec<(&str, &str, Vec<String>, u64)> = vec![];
    for escape in &memory.escapes {
        let bytes = escape.bytes.values().sum::<u64>();
        let process = format!("{} ({})", escape.pid, escape.name);
        match reasons.iter_mut().find(|(why, ..)| *why == escape.why) {
            Some((_, _, processes, sum)) => {
                processes.push(process);
                *sum += bytes;
            }
            None => reasons.push((&escape.why, &escape.remedy, vec![process], bytes)),
        }
    }
    for (why, hint, processes, bytes) in reasons {
        if bytes < REPORTED_BYTES || bytes as f64 / (memory.total_bytes as f64) < REPORTED_SHARE {
            continue;
        }
        let shown = processes.len().min(3);
        let more = processes.len() - shown;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let (bytes, processes) = (Bytes::new(bytes), processes[..shown].join(", "));
        text +=
            &format!("\n{bytes} bypassed the policy: {why}; process {processes}{more}\n  {hint}");
    }
    text
}

/// The migrated pages; in a dry run, the pages that would migrate.
pub fn moved(document: &RunDocument) -> String {
    let Some(moved) = &document.moved else { return String::new() };
    let share = |bytes: &BTreeMap<u32, u64>, node: u32| {
        let total: u64 = bytes.values().sum();
        100.0 * bytes.get(&node).copied().unwrap_or(0) as f64 / total.max(1) as f64
    };
    let mut table = Table::new(&["node", "target %", "before %", "after %"]);
    let shares = document.nodes.iter().map(|node| (node.node, 100.0 * node.share));
    let mut targets: BTreeMap<u32, f64> = shares.collect();
    for node in moved.before_bytes.keys().chain(moved.after_bytes.keys()) {
        targets.entry(*node).or_default();
    }
    for (node, target) in targets {
        let after = share(&moved.after_bytes, node);
        table.row([
            node.to_string(),
            format!("{target:.1}"),
            format!("{:.1}", share(&moved.before_bytes, node)),
            if document.dry_run { "-".into() } else { format!("{after:.1}") },
        ]);
    }
    let total = Bytes::new(moved.after_bytes.values().sum());
    let bytes = Bytes::new(moved.moved_bytes);
    let processes = match moved.processes.len() {
        0..=3 => moved.processes.join(", "),
        more => format!("{} and {} more", moved.processes[..3].join(", "), more - 3),
    };
    let mut text = table.text();
    text += &match document.dry_run {
        true => format!("{bytes} of {total} would move: process {processes}\n"),
        false => format!("{bytes} moved of {total}: process {processes}\n"),
    };
    for left in &moved.left {
        let bytes = Bytes::new(left.bytes);
        text += &format!("{bytes} could not be moved: {}\n  {}\n", left.why, left.remedy);
    }
    for refused in &moved.refused {
        text += &format!("not looked at: {refused}\n");
    }
    if moved.stopped {
        text += "stopped before the end; migrated pages stay\n";
    }
    text
}
