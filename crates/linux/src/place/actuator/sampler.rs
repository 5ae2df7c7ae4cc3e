//! Samples page placement, and limits the fraction of the time that sampling takes.

use super::{ActuatorError, ActuatorState, Goal, Setting};
use crate::{
    machine::{
        node::{self, NODES},
        vmstat,
    },
    process::{Process, numa_maps::NodeBytes},
    root::Root,
};
use std::time::{Duration, Instant};

/// While pages migrate, sampling takes at most 1 / `ONE_IN` of the time.
const ONE_IN: u32 = 20;

/// While pages are at rest, which means at the goal, sampling takes about 1 / `ONE_IN_AT_REST` of
/// the time. The pause after a sample is then at most `PAUSE_AT_REST`, because another program may
/// migrate pages, but never shorter than [`ONE_IN`] requires. Example: a sample of 3000 processes
/// takes about 0.4 s, so the pause is almost seven minutes.
const ONE_IN_AT_REST: u32 = 1000;
const PAUSE_AT_REST: Duration = Duration::from_secs(400);

/// Pages count as at rest if their placement is at most this far from the goal, percentage points.
const REST_POINTS: f64 = 2.0;

/// Takes samples of the placement of a scope (the steered processes). If the scope is slow to
/// sample, the pause after a sample is proportional to the duration of the sample.
#[derive(Debug, Default)]
pub(super) struct PlacementSampler {
    /// The time at which the last sample ended, and its duration.
    last: Option<(Instant, Duration)>,
    /// The processes of the last sample. `is_at_rest` says whether their pages were at the goal.
    processes: Vec<u32>,
    is_at_rest: bool,
    moved_pages: Option<u64>,
    /// The full node that `note` found last, which is not reported again while it stays full.
    full: Option<u32>,
}

impl PlacementSampler {
    /// Samples the placement of the scope of `setting`, whose steered processes are `processes`.
    /// Returns `None` if the next sample is not due, the scope has no pages, or the kernel does not
    /// count memory by node.
    pub(super) fn sample_placement(
        &mut self,
        setting: &Setting<'_>,
        processes: &[Process],
    ) -> Result<Option<NodeBytes>, ActuatorError> {
        let start = Instant::now();
        let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
        let is_at_rest = self.is_at_rest && pids == self.processes;
        let pause = |duration: Duration| match setting.scope.is_slow_to_sample() {
            true if is_at_rest => {
                (duration * (ONE_IN_AT_REST - 1)).min(PAUSE_AT_REST).max(duration * (ONE_IN - 1))
            }
            true => duration * (ONE_IN - 1),
            false => Duration::ZERO,
        };
        if self.last.is_some_and(|(end, duration)| start < end + pause(duration)) {
            return Ok(None);
        }
        let found = setting.placement(processes)?;
        (self.last, self.processes) = (Some((Instant::now(), start.elapsed())), pids);
        Ok(found.filter(|on| on.total() > 0))
    }

    /// Makes the next sample due at once, because the goal has changed.
    pub(super) fn restart(&mut self) {
        (self.last, self.is_at_rest) = (None, false);
    }

    /// Returns the bytes migrated on the whole machine since the last call. `None` at the first
    /// call, and if the kernel does not count migrations.
    pub(super) fn moved_bytes(&mut self, root: &Root) -> Result<Option<u64>, ActuatorError> {
        let now = vmstat::of_machine(root)?.and_then(|counters| counters.pgmigrate_success);
        let before = std::mem::replace(&mut self.moved_pages, now);
        let page = rustix::param::page_size() as u64;
        Ok(now.zip(before).map(|(now, before)| now.saturating_sub(before) * page))
    }

    /// Writes to `state` the placement `on`, its distance to the goal, the bytes migrated since the
    /// last call, and a message if a node of the goal is full.
    pub(super) fn note(
        &mut self,
        state: &mut ActuatorState,
        root: &Root,
        goal: &Goal,
        on: Option<NodeBytes>,
    ) -> Result<(), ActuatorError> {
        state.moved_bytes = self.moved_bytes(root)?;
        state.off_points = on.as_ref().and_then(|on| goal.off_points(on));
        if let Some(off) = state.off_points {
            self.is_at_rest = off.abs() <= REST_POINTS;
        }
        if let Some(on) = &on {
            state.notes.extend(self.note_full_node(root, goal, on)?);
        }
        state.on = on;
        Ok(())
    }
}

impl PlacementSampler {
    /// Returns a message if a node that should have more pages is full; `None` if no such node is
    /// full, or if the last call found the same node full.
    fn note_full_node(
        &mut self,
        root: &Root,
        goal: &Goal,
        on: &NodeBytes,
    ) -> Result<Option<String>, ActuatorError> {
        let shares = goal.shares()?;
        let total = on.total() as f64;
        let mut full = None;
        for (node, share) in shares {
            let missing = total * share - on.on(node) as f64;
            let (bytes, free) = node::memory(root, node)?;
            let is_full = free < FULL_BYTES.max((bytes as f64 * FULL) as u64);
            if is_full && 100.0 * missing > total * MISSING_POINTS {
                full = Some((node, missing, free));
            }
        }
        let now = full.map(|(node, ..)| node);
        let is_new = std::mem::replace(&mut self.full, now) != now;
        let text = |(node, missing, free): (u32, f64, u64)| {
            let (missing, free) = (missing as u64 >> 20, free >> 20);
            format!(
                "node {node} is full: {free} MiB of it are free, and {missing} MiB more of these \
                 pages should be there"
            )
        };
        Ok(full.filter(|_| is_new).map(text))
    }
}

/// A node is full when less than this fraction of its memory is free, or less than [`FULL_BYTES`].
/// The kernel migrates no page to a node whose free memory is below its watermarks.
const FULL: f64 = 0.02;
const FULL_BYTES: u64 = 32 << 20;

/// The minimum deficit of a full node that is reported, percentage points of the scope's memory.
const MISSING_POINTS: f64 = 3.0;

/// Checks that each node with a weight above 0 in the goal is online and has memory.
///
/// # Errors
/// [`ActuatorError::Gone`] for a node that is offline, and [`ActuatorError::Memoryless`] for an
/// online node without memory.
pub(super) fn check_nodes_online(root: &Root, goal: &Goal) -> Result<(), ActuatorError> {
    let wanted = goal.nodes.iter().filter(|(_, weight)| *weight > 0);
    for (node, _) in wanted {
        if !root.has(&format!("{NODES}/node{node}")) {
            return Err(ActuatorError::Gone(*node));
        }
        if node::memory(root, *node)?.0 == 0 {
            return Err(ActuatorError::Memoryless(*node));
        }
    }
    Ok(())
}

/// Adds a message about `processes` to `notes`. `verb`, which is [`JOINED`] or [`ENDED`], is the
/// verb of the message in the singular and in the plural.
pub(super) fn note_membership(notes: &mut Vec<String>, verb: [&str; 2], processes: &[Process]) {
    let [one, many] = verb;
    match processes {
        [] => {}
        [process] => notes.push(format!("{} ({}) {one}", process.name, process.pid)),
        [first, ..] => {
            let (count, name) = (processes.len(), &first.name);
            notes.push(format!("{count} processes {many}, {name} ({}) the first", first.pid));
        }
    }
}

pub(super) const JOINED: [&str; 2] = ["has joined", "have joined"];
pub(super) const ENDED: [&str; 2] = ["has ended or left", "have ended or left"];

/// The earliest next run of an expensive task, which thus takes at most 1 / [`ONE_IN`] of the time.
#[derive(Debug, Default)]
pub(super) struct TimeShareLimit(Option<Instant>);

impl TimeShareLimit {
    pub(super) fn is_due(&self) -> bool {
        self.0.is_none_or(|next| Instant::now() >= next)
    }

    pub(super) fn spent(&mut self, span: Duration) {
        self.0 = Some(Instant::now() + span * (ONE_IN - 1));
    }
}
