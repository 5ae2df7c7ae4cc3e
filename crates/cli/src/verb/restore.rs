//! What processes that were killed have left is put back: `--restore` of the verbs that act.

use crate::{
    document::{
        self,
        run::{PutBackDocument, SettingDocument},
    },
    failure::Failure,
    output, render,
};
use interleaf_linux::{
    place::journal::{self, JournalError},
    root::Root,
};
use std::io;

/// Puts back what processes that were killed have left.
pub(super) fn restore(dry_run: bool, json: bool, root: &Root) -> Result<(), Failure> {
    if dry_run || !root.is_live() {
        return left(json, root);
    }
    let undone = journal::restore(root).map_err(unkept)?;
    let undone: Vec<PutBackDocument> = undone.iter().map(PutBackDocument::from).collect();
    if json {
        let value = serde_json::json!({ "schema": document::run::SCHEMA, "put_back": undone });
        return output::data(&document::json(&value)?);
    }
    let lines: Vec<String> = undone.iter().map(render::run::put_back).collect();
    output::data(&listed(&lines))
}

/// Says what processes that were killed have left.
fn left(json: bool, root: &Root) -> Result<(), Failure> {
    let left = journal::leftovers(root).map_err(unkept)?;
    let damaged = journal::damaged(root).map_err(unkept)?;
    let changes = left.iter().flat_map(|left| {
        // The last change is put back first.
        left.changes.iter().rev().map(|change| (left.pid, change))
    });
    if json {
        let left: Vec<SettingDocument> =
            changes.map(|(_, change)| SettingDocument::from(change)).collect();
        let damaged: Vec<_> = damaged
            .iter()
            .map(|damaged| serde_json::json!({ "path": damaged.path, "why": damaged.why }))
            .collect();
        let value = serde_json::json!({
            "schema": document::run::SCHEMA, "left": left, "damaged": damaged,
        });
        return output::data(&document::json(&value)?);
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

pub(super) fn unkept(why: JournalError) -> Failure {
    let hint = match &why {
        JournalError::Held { .. } => {
            "weights are the whole machine's: wait until that process has ended, or use the same"
        }
        JournalError::Claimed { pid, .. } => {
            let hint = format!(
                "let one process steer them: end the other (kill {pid}), steer other processes \
                 or groups, or name in `[scope] protected` of one what the other steers"
            );
            return Failure::new(why.to_string(), hint);
        }
        JournalError::Untrusted { .. } => {
            "see who has written there; then remove the folder, or give it back to root: chown -R \
             root /run/interleaf; chmod 755 /run/interleaf"
        }
        JournalError::Unknown(_) => "report it: the kernel's setting has an unknown value",
        _ if why.is_permission() => "run it as root",
        JournalError::Keep { why, .. } if why.kind() == io::ErrorKind::StorageFull => {
            "make room in /run, and try again"
        }
        JournalError::Keep { .. } => {
            "/run/interleaf has to be a folder that can be written to: what is there puts the \
             settings back after a crash"
        }
        JournalError::Absent { .. } | JournalError::Root(_) => {
            "`interleaf doctor` says what this kernel can do"
        }
    };
    Failure::new(why.to_string(), hint)
}
