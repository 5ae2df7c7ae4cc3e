//! Implements `--restore` of the verbs that change settings: restores settings that killed
//! processes have left changed.

use interleaf_console::{Failure, output, system};
use interleaf_linux::{place::journal, root::Root};
use interleaf_record::run::{ChangedSetting, PutBackDocument, RestoreOutcome};

/// Restores the settings that killed processes have left changed, and prints them. In a dry run,
/// and for a captured machine (a copy of the files of a machine), restores nothing and prints the
/// changed settings.
///
/// # Errors
/// When a journal cannot be read, or a setting cannot be restored.
pub fn restore(dry_run: bool, json: bool, root: &Root) -> Result<(), Failure> {
    if dry_run || !root.is_live() {
        return print_leftovers(json, root);
    }
    let undone = journal::restore(root).map_err(system::journal_failure)?;
    let undone: Vec<PutBackDocument> = undone.iter().map(PutBackDocument::from).collect();
    if json {
        let value =
            serde_json::json!({ "schema": interleaf_record::run::SCHEMA, "put_back": undone });
        return output::data(&interleaf_record::json(&value));
    }
    let lines: Vec<String> = undone.iter().map(interleaf_report::run::restored).collect();
    output::text(&listed(&lines))
}

/// Prints the settings that killed processes have left changed, and the journals that are damaged.
fn print_leftovers(json: bool, root: &Root) -> Result<(), Failure> {
    let left = journal::leftovers(root).map_err(system::journal_failure)?;
    let damaged = journal::damaged(root).map_err(system::journal_failure)?;
    let changes = left.iter().flat_map(|left| {
        // List the changes in the order in which they would be restored: the last change first.
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
    output::text(&listed(&lines))
}

/// Joins lines to a text. Without lines, the text says that no setting was left changed.
fn listed(lines: &[String]) -> String {
    match lines.is_empty() {
        true => "nothing was left\n".to_string(),
        false => format!("{}\n", lines.join("\n")),
    }
}

/// Prints the restored settings unless `quiet` is true. Settings that could not be restored are
/// always printed.
pub fn report_restored(quiet: bool, undone: &[PutBackDocument]) {
    for undone in undone {
        let line = interleaf_report::run::restored(undone);
        match undone.outcome {
            RestoreOutcome::Restored => output::note(quiet, &line),
            _ => output::message(&format!("interleaf: {line}")),
        }
    }
}
