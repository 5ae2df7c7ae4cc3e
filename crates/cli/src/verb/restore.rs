//! What processes that were killed have left is put back: `--restore` of the verbs that act.

use interleaf_console::{Failure, output, system};
use interleaf_linux::{place::journal, root::Root};
use interleaf_record::run::{ChangedSetting, PutBackDocument};

/// Puts back what processes that were killed have left.
pub(super) fn restore(dry_run: bool, json: bool, root: &Root) -> Result<(), Failure> {
    if dry_run || !root.is_live() {
        return left(json, root);
    }
    let undone = journal::restore(root).map_err(system::journal_failure)?;
    let undone: Vec<PutBackDocument> = undone.iter().map(PutBackDocument::from).collect();
    if json {
        let value =
            serde_json::json!({ "schema": interleaf_record::run::SCHEMA, "put_back": undone });
        return output::data(&interleaf_record::json(&value));
    }
    let lines: Vec<String> = undone.iter().map(interleaf_report::run::restored).collect();
    output::data(&listed(&lines))
}

/// Says what processes that were killed have left.
fn left(json: bool, root: &Root) -> Result<(), Failure> {
    let left = journal::leftovers(root).map_err(system::journal_failure)?;
    let damaged = journal::damaged(root).map_err(system::journal_failure)?;
    let changes = left.iter().flat_map(|left| {
        // The last change is put back first.
        left.changes.iter().rev().map(|change| (left.pid, change))
    });
    if json {
        let left: Vec<ChangedSetting> =
            changes.map(|(_, change)| ChangedSetting::from(change)).collect();
        let damaged: Vec<_> = damaged
            .iter()
            .map(|damaged| serde_json::json!({ "path": damaged.path, "why": damaged.why }))
            .collect();
        let value = serde_json::json!({
            "schema": interleaf_record::run::SCHEMA, "left": left, "damaged": damaged,
        });
        return output::data(&interleaf_record::json(&value));
    }
    let mut lines: Vec<String> = changes
        .map(|(pid, change)| {
            format!("process {pid} left {} at {}: {}", change.path, change.set, change.was)
        })
        .collect();
    lines.extend(damaged.iter().map(|it| format!("{}: is damaged: {}", it.path, it.why)));
    output::data(&listed(&lines))
}

/// Lines of what was left, or that there was nothing.
fn listed(lines: &[String]) -> String {
    match lines.is_empty() {
        true => "nothing was left\n".to_string(),
        false => format!("{}\n", lines.join("\n")),
    }
}
