//! The placement of the pages of a command, or of running processes, as `interleaf.run/1`.
//!
//! `interleaf run` writes the document. It has the requested placement, the kernel settings that
//! were changed and restored, the exit status, the placement audit ([`MemoryDocument`]) and the
//! migrated pages ([`MovedDocument`]). The share of a node is its weight divided by the sum of all
//! nodes' weights.

mod figures;

use super::{
    balance::{ActuatorName, BalancePeriod},
    check::{Check, Checked},
};
use interleaf_linux::place::{
    journal::{Change, Undone},
    migrate::{self, Outcome, Reason, Refusal},
    placement::{Means, Placement},
    placement_audit::PlacementAudit,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, os::unix::process::ExitStatusExt as _, process::ExitStatus};

pub const SCHEMA: &str = "interleaf.run/1";

/// A run of a command under a placement: what was requested, and what happened. The document is one
/// JSON object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunDocument {
    pub schema: String,
    /// Weights, as on the command line; null when a policy decides them.
    pub weights: Option<String>,
    pub means: PlacementMeans,
    pub nodes: Vec<PlacedNode>,
    /// Memory policy of the command's new pages, in the notation of `/proc/PID/numa_maps`.
    pub policy: String,
    /// Options of numactl that have the same effect.
    pub numactl: String,
    /// Kernel settings that were changed for the command, in the order of the changes. They are
    /// restored in reverse order.
    pub settings: Vec<ChangedSetting>,
    pub command: Vec<String>,
    pub dry_run: bool,
    /// Exit code of the command; null when it did not run, and when a signal ended it.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Placement audit at the moment when the command had the most memory; null when no audit
    /// succeeded.
    pub memory: Option<MemoryDocument>,
    /// Migration of resident pages; null when it was not requested.
    pub moved: Option<MovedDocument>,
    /// Outcome of restoring each of `settings`.
    pub put_back: Vec<PutBackDocument>,
    /// Steering of the command's pages by a policy; left out without a policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<BalancedDocument>,
}

impl Check for RunDocument {
    fn check(&self) -> Checked {
        let mut periods = self.balance.iter().flat_map(|it| &it.periods).enumerate();
        periods.try_for_each(|(at, it)| it.check_lists(&format!("balance.periods[{at}].")))
    }
}

/// The part of the record of a run that tells how a policy steered the pages of the command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BalancedDocument {
    /// Name of the policy that steers the pages.
    pub policy: String,
    /// Actuator that migrates the pages.
    pub way: ActuatorName,
    /// Reason why this actuator was chosen.
    pub way_reason: String,
    /// Source of the traffic counts that the policy decides by.
    pub source: String,
    pub period_s: f64,
    /// Control periods of the policy, as `interleaf balance` records them.
    pub periods: Vec<BalancePeriod>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacedNode {
    pub node: u32,
    pub weight: u32,
    pub share: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangedSetting {
    pub path: String,
    pub was: String,
    pub set: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PutBackDocument {
    pub path: String,
    pub outcome: RestoreOutcome,
    /// Depending on `outcome`: the old value, the process that still needs the setting, the value
    /// that another program has written, or the reason for the failure.
    pub value: String,
}

/// The outcome of an attempt to restore a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestoreOutcome {
    /// The setting has its old value again.
    #[serde(rename = "restored")]
    Restored,
    /// The new value stays: another process of Interleaf still needs it.
    #[serde(rename = "held by another process")]
    Held,
    /// Another program has written a different value, which stays.
    #[serde(rename = "changed since")]
    ChangedSince,
    /// The old value could not be written.
    #[serde(rename = "failed")]
    Failed,
    /// The setting is not restored: the journal is damaged, so that the old value is unknown.
    #[serde(rename = "set aside")]
    SetAside,
}

/// A placement audit: the command's memory on each node, and the allocations that bypassed the
/// placement policy (`escapes`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryDocument {
    pub total_bytes: u64,
    pub placed_bytes: BTreeMap<u32, u64>,
    pub escaped_share: f64,
    pub escapes: Vec<EscapeDocument>,
    pub processes: usize,
    pub hidden_processes: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EscapeDocument {
    pub pid: u32,
    pub name: String,
    pub why: String,
    pub remedy: String,
    pub bytes: BTreeMap<u32, u64>,
}

/// A migration of pages; in a dry run, the migration that would take place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MovedDocument {
    pub before_bytes: BTreeMap<u32, u64>,
    pub after_bytes: BTreeMap<u32, u64>,
    pub moved_bytes: u64,
    /// Memory that could not be migrated, by reason.
    pub left: Vec<LeftDocument>,
    /// Processes whose pages were to be migrated, as `4242 (name)`.
    pub processes: Vec<String>,
    /// Processes whose memory could not be read or migrated, with the reason.
    pub refused: Vec<String>,
    /// Number of passes over all memory of the processes; 0 in a dry run.
    pub passes: u32,
    /// True if a signal stopped the migration early.
    pub stopped: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftDocument {
    pub bytes: u64,
    pub why: String,
    pub remedy: String,
}

impl RunDocument {
    pub fn new(weights: String, placement: &Placement, command: Vec<String>) -> Self {
        let nodes = placement.nodes.iter().zip(placement.shares());
        Self {
            schema: SCHEMA.into(),
            weights: Some(weights),
            means: placement.means.into(),
            nodes: nodes
                .map(|((node, weight), share)| PlacedNode {
                    node: *node,
                    weight: *weight,
                    share: super::rounded(share),
                })
                .collect(),
            policy: placement.policy().to_string(),
            numactl: placement.numactl(),
            ..Self::not_started(command)
        }
    }

    /// Creates the document of a command that a policy will steer. `nodes` are pairs of (node,
    /// initial weight).
    pub fn steered(
        nodes: Vec<(u32, u32)>,
        balance: BalancedDocument,
        command: Vec<String>,
    ) -> Self {
        let all: u32 = nodes.iter().map(|(_, weight)| weight).sum();
        let node = |(node, weight): &(u32, u32)| PlacedNode {
            node: *node,
            weight: *weight,
            share: super::rounded(f64::from(*weight) / f64::from(all)),
        };
        Self {
            means: PlacementMeans::Steering,
            nodes: nodes.iter().map(node).collect(),
            balance: Some(balance),
            ..Self::not_started(command)
        }
    }

    /// Creates the document of a command that has not started. Only the command is set.
    fn not_started(command: Vec<String>) -> Self {
        Self {
            schema: SCHEMA.into(),
            weights: None,
            means: PlacementMeans::Interleaving,
            nodes: vec![],
            policy: "default".into(),
            numactl: String::new(),
            settings: vec![],
            command,
            dry_run: false,
            exit_code: None,
            signal: None,
            memory: None,
            moved: None,
            put_back: vec![],
            balance: None,
        }
    }

    /// Sets the exit status of the command.
    pub fn record_exit(&mut self, status: ExitStatus) {
        self.exit_code = status.code();
        self.signal = status.signal();
    }
}

/// The means by which the pages of a command are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlacementMeans {
    /// The kernel's weighted interleaving.
    #[serde(rename = "weighted interleaving")]
    Weighted,
    /// Interleaving with equal weights.
    Interleaving,
    /// Interleaving with equal weights, followed by migration to the requested weights.
    Moving,
    /// Migration to the targets of a policy.
    Steering,
}

display_word!(PlacementMeans);

impl From<Means> for PlacementMeans {
    fn from(means: Means) -> Self {
        match means {
            Means::Weighted => Self::Weighted,
            Means::Interleave => Self::Interleaving,
            Means::Moved => Self::Moving,
        }
    }
}

impl From<&Change> for ChangedSetting {
    fn from(change: &Change) -> Self {
        Self { path: change.path.clone(), was: change.was.clone(), set: change.set.clone() }
    }
}

impl From<&Undone> for PutBackDocument {
    fn from(undone: &Undone) -> Self {
        let (change, outcome, value) = match undone {
            Undone::Restored(change) => (change, RestoreOutcome::Restored, change.was.clone()),
            Undone::Held(change, pid) => (change, RestoreOutcome::Held, pid.to_string()),
            Undone::ChangedSince(change, now) => {
                (change, RestoreOutcome::ChangedSince, now.clone())
            }
            Undone::Failed(change, why) => (change, RestoreOutcome::Failed, why.clone()),
            Undone::SetAside { damaged, aside } => {
                let aside = match aside {
                    Ok(aside) => format!("kept as {aside}"),
                    Err(why) => why.clone(),
                };
                let value = format!("{}; {aside}", damaged.why);
                let outcome = RestoreOutcome::SetAside;
                return Self { path: damaged.path.clone(), outcome, value };
            }
        };
        Self { path: change.path.clone(), outcome, value }
    }
}

impl From<&PlacementAudit> for MemoryDocument {
    fn from(survey: &PlacementAudit) -> Self {
        let escapes = survey.bypasses.iter().map(|escape| EscapeDocument {
            pid: escape.pid,
            name: escape.name.clone(),
            why: escape.cause.text(),
            remedy: escape.cause.hint().into(),
            bytes: escape.bytes.0.clone(),
        });
        Self {
            total_bytes: survey.total_bytes(),
            placed_bytes: survey.placed.0.clone(),
            escaped_share: super::rounded(survey.bypassed_share()),
            escapes: escapes.collect(),
            processes: survey.processes,
            hidden_processes: survey.hidden,
        }
    }
}

impl MovedDocument {
    /// Creates the document of a dry run from the forecast `found`. Nothing is migrated, so
    /// `after_bytes` equals `before_bytes`.
    pub fn planned(found: &migrate::Forecast) -> Self {
        let shared = LeftDocument::new(Reason::Shared, found.shared_bytes);
        let processes = found.processes.iter();
        Self {
            before_bytes: found.bytes.0.clone(),
            after_bytes: found.bytes.0.clone(),
            moved_bytes: found.planned_bytes,
            left: if shared.bytes > 0 { vec![shared] } else { vec![] },
            processes: processes.map(|process| named(process.pid, &process.name)).collect(),
            refused: found.refused.iter().map(Refusal::to_string).collect(),
            passes: 0,
            stopped: found.stopped,
        }
    }
}

impl From<&Outcome> for MovedDocument {
    fn from(outcome: &Outcome) -> Self {
        let left = outcome.left();
        let processes = outcome.processes.iter();
        Self {
            before_bytes: outcome.before().0,
            after_bytes: outcome.after().0,
            moved_bytes: outcome.moved_bytes(),
            left: left.iter().map(|(why, bytes)| LeftDocument::new(*why, *bytes)).collect(),
            processes: processes.map(|process| named(process.pid, &process.name)).collect(),
            refused: outcome.refused.iter().map(Refusal::to_string).collect(),
            passes: outcome.passes,
            stopped: outcome.stopped,
        }
    }
}

impl LeftDocument {
    fn new(why: Reason, bytes: u64) -> Self {
        Self { bytes, why: why.to_string(), remedy: why.hint().into() }
    }
}

fn named(pid: u32, name: &str) -> String {
    format!("{pid} ({name})")
}
