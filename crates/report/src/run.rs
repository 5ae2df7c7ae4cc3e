//! Renders a command under a placement (`interleaf.run/1`) as text, Markdown, HTML and CSV.

use super::{
    balance,
    page::{self, Page},
    table::Table,
};
use interleaf_model::{format::shell_text, units::Bytes};
use interleaf_record::run::{
    BalancedDocument, MemoryDocument, MovedDocument, PlacementMeans, PutBackDocument,
    RestoreOutcome, RunDocument,
};
use std::collections::BTreeMap;

/// Allocations that bypassed the placement policy are shown if they are at least this fraction of
/// the memory. Smaller allocations of libraries bypass the policy in every program.
const REPORTED_SHARE: f64 = 0.01;
/// Allocations that bypassed the policy are shown only if they also have at least this size, bytes:
/// pages of libraries bypass the policy, and are most of the memory of a small program.
const REPORTED_BYTES: u64 = 8 << 20;

/// Formats the command's placement (nodes and weights) in one line.
pub fn placement(document: &RunDocument) -> String {
    let nodes = document.nodes.iter();
    let nodes: Vec<String> =
        nodes.map(|node| format!("node {}: {}", node.node, node.weight)).collect();
    format!("{}, {} (as {})", document.means, nodes.join(", "), document.numactl)
}

/// Formats the policy in one line: `pages are steered by the policy dmi, every 6 s; they move by
/// vaddr (...); counted by: ...`.
pub fn balanced(balanced: &BalancedDocument) -> String {
    let BalancedDocument { policy, way, way_reason, source, period_s, .. } = balanced;
    format!(
        "pages are steered by the policy {policy}, every {period_s} s; they move by {way} \
         ({way_reason}); counted by: {source}"
    )
}

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
            shell_text::command(&document.command)
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
        text += &format!("would run: {}\n", shell_text::command(&document.command));
    }
    text
}

/// Formats the outcome of restoring a setting, in one line.
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

/// Renders the placement audit as text: memory by node, and the allocations that bypassed the
/// policy.
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
    // Processes whose allocations bypassed the policy for the same reason share a line.
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

/// Renders the result of a migration as text: the migrated pages, or in a dry run the pages that
/// would migrate.
pub fn moved(document: &RunDocument) -> String {
    let Some(moved) = &document.moved else { return String::new() };
    let lines = migration(document, moved);
    moved_nodes(document, moved).text() + &lines.join("\n") + "\n"
}

/// Returns a table with the share of each node in the pages before and after the migration.
fn moved_nodes(document: &RunDocument, moved: &MovedDocument) -> Table {
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
    table
}

/// Returns lines with the migrated bytes, the bytes that could not be migrated, and the processes
/// that were not examined.
fn migration(document: &RunDocument, moved: &MovedDocument) -> Vec<String> {
    let total = Bytes::new(moved.after_bytes.values().sum());
    let bytes = Bytes::new(moved.moved_bytes);
    let processes = match moved.processes.len() {
        0..=3 => moved.processes.join(", "),
        more => format!("{} and {} more", moved.processes[..3].join(", "), more - 3),
    };
    let mut lines = vec![match document.dry_run {
        true => format!("{bytes} of {total} would move: process {processes}"),
        false => format!("{bytes} moved of {total}: process {processes}"),
    }];
    for left in &moved.left {
        let bytes = Bytes::new(left.bytes);
        lines.push(format!("{bytes} could not be moved: {}\n  {}", left.why, left.remedy));
    }
    lines.extend(moved.refused.iter().map(|refused| format!("not looked at: {refused}")));
    if moved.stopped {
        lines.push("stopped before the end; migrated pages stay".into());
    }
    lines
}

/// Renders the run as a page of a report.
pub fn page(document: &RunDocument) -> Page {
    let program = match &document.moved {
        Some(moved) if document.command.is_empty() => moved.processes.join(", "),
        _ => page::program(&document.command),
    };
    let under = match (&document.balance, &document.weights) {
        (Some(balance), _) => format!("the policy {}", balance.policy),
        (None, Some(weights)) => format!("weights {weights}"),
        (None, None) => document.means.to_string(),
    };
    let mut text = document.memory.as_ref().map(memory).unwrap_or_default();
    let moved = document.moved.as_ref();
    text += &moved.map_or(String::new(), |it| format!("\n{}", migration(document, it).join("\n")));
    let periods = document.balance.as_ref().map_or(&[][..], |it| &it.periods);
    let lines = balance::last_targets(periods).into_iter();
    let mut lines = lines.chain(page::sentences(&text));
    let answer = match document.dry_run {
        true => "nothing was changed: this is the plan".into(),
        false => lines.next().unwrap_or_else(|| "no placement audit succeeded".into()),
    };
    let mut facts: Vec<String> = lines.collect();
    facts.push(match &document.balance {
        Some(it) => balanced(it),
        None => placement(document),
    });
    facts.extend(page::command(&document.command));
    if !document.command.is_empty() && !document.dry_run {
        facts.extend(page::failure(document.exit_code, document.signal));
    }
    facts.extend(document.put_back.iter().map(restored));
    let nodes = moved.map_or_else(|| placed_nodes(document), |it| moved_nodes(document, it));
    Page { title: format!("{program} under {under}"), answer, facts, ..Page::default() }
        .with_table("Nodes", nodes)
        .with_table("Settings of the kernel", settings(document))
        .with_table("Periods", balance::table(periods))
}

/// Returns a table with the requested share of each node, and with the share of the pages that was
/// found on the node.
fn placed_nodes(document: &RunDocument) -> Table {
    let mut table = Table::new(&["node", "weight", "requested %", "found %", "found"]);
    let found = document.memory.as_ref().map(|it| &it.placed_bytes);
    let all: u64 = found.map_or(0, |it| it.values().sum());
    for node in &document.nodes {
        let bytes = found.map(|it| it.get(&node.node).copied().unwrap_or(0));
        let percent = |bytes: u64| format!("{:.1}", 100.0 * bytes as f64 / all.max(1) as f64);
        table.row([
            node.node.to_string(),
            node.weight.to_string(),
            format!("{:.1}", 100.0 * node.share),
            bytes.map_or("-".into(), percent),
            bytes.map_or("-".into(), |bytes| Bytes::new(bytes).to_string()),
        ]);
    }
    table
}

fn settings(document: &RunDocument) -> Table {
    let mut table = Table::new(&["file", "value before", "set to"]);
    for setting in &document.settings {
        table.row([setting.path.clone(), setting.was.clone(), setting.set.clone()]);
    }
    table
}

/// Renders the run as CSV. A run that a policy steered has a row for each control period, domain
/// and node; any other run has a row for each node.
pub fn csv(document: &RunDocument) -> String {
    if let Some(balanced) = &document.balance {
        return balance::csv(&balanced.periods);
    }
    let names = ["node", "weight", "share", "placed_bytes", "before_bytes", "after_bytes"];
    let mut table = Table::new(&names);
    let moved = document.moved.as_ref();
    let placed = document.memory.as_ref().map(|it| &it.placed_bytes);
    let lists = [placed, moved.map(|it| &it.before_bytes), moved.map(|it| &it.after_bytes)];
    for node in &document.nodes {
        let bytes = lists.map(|list| {
            let own = list.map(|list| list.get(&node.node).copied().unwrap_or(0));
            own.map_or(String::new(), |bytes| bytes.to_string())
        });
        let own = [node.node.to_string(), node.weight.to_string(), node.share.to_string()];
        table.row(own.into_iter().chain(bytes));
    }
    table.csv()
}
