//! Looking at what is so, at a price that is bounded.

use super::{ActuatorError, Followed, Goal, Setting};
use crate::{
    machine::{
        node::{self, NODES},
        vmstat,
    },
    process::{Process, numa_maps::NodeBytes},
    root::Root,
};
use std::time::{Duration, Instant};

/// Looking takes at most this part of the time: one in so many ...
const ONE_IN: u32 = 20;

/// ... and this while pages rest, which is most of the time, unless that were longer than so long:
/// somebody else may move them.
const ONE_IN_AT_REST: u32 = 400;
const PAUSE_AT_REST: Duration = Duration::from_secs(60);

/// They rest within so many points of their goal.
const REST_POINTS: f64 = 2.0;

/// What looks, and what it saw last.
#[derive(Debug, Default)]
pub(super) struct PlacementSampler {
    /// When it looked last, and how long that took.
    last: Option<(Instant, Duration)>,
    /// Who was looked at, and whether their pages were where they should be.
    processes: Vec<u32>,
    is_at_rest: bool,
    moved_pages: Option<u64>,
    /// A node that was told to be full.
    full: Option<u32>,
}

impl PlacementSampler {
    /// Where the pages of a scope are, if it is time to look.
    pub(super) fn sample_placement(
        &mut self,
        setting: &Setting<'_>,
        processes: &[Process],
    ) -> Result<Option<NodeBytes>, ActuatorError> {
        let start = Instant::now();
        let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
        let is_at_rest = self.is_at_rest && pids == self.processes;
        let pause = |took: Duration| match setting.scope.is_slow_to_sample() {
            true if is_at_rest => {
                (took * (ONE_IN_AT_REST - 1)).min(PAUSE_AT_REST).max(took * (ONE_IN - 1))
            }
            true => took * (ONE_IN - 1),
            false => Duration::ZERO,
        };
        if self.last.is_some_and(|(end, took)| start < end + pause(took)) {
            return Ok(None);
        }
        let found = setting.placement(processes)?;
        (self.last, self.processes) = (Some((Instant::now(), start.elapsed())), pids);
        Ok(found.filter(|on| on.total() > 0))
    }

    /// There is another goal: nothing is at rest.
    pub(super) fn restart(&mut self) {
        (self.last, self.is_at_rest) = (None, false);
    }

    /// What the whole machine has moved since the last time, bytes.
    pub(super) fn moved_bytes(&mut self, root: &Root) -> Result<Option<u64>, ActuatorError> {
        let now = vmstat::of_machine(root)?.and_then(|counters| counters.pgmigrate_success);
        let before = std::mem::replace(&mut self.moved_pages, now);
        let page = rustix::param::page_size() as u64;
        Ok(now.zip(before).map(|(now, before)| now.saturating_sub(before) * page))
    }

    /// Notes placement and movement.
    pub(super) fn note(
        &mut self,
        followed: &mut Followed,
        root: &Root,
        goal: &Goal,
        on: Option<NodeBytes>,
    ) -> Result<(), ActuatorError> {
        followed.moved_bytes = self.moved_bytes(root)?;
        followed.off_points = on.as_ref().and_then(|on| goal.off_points(on));
        if let Some(off) = followed.off_points {
            self.is_at_rest = off.abs() <= REST_POINTS;
        }
        if let Some(on) = &on {
            followed.notes.extend(self.note_full_node(root, goal, on)?);
        }
        followed.on = on;
        Ok(())
    }
}

impl PlacementSampler {
    /// Says once that a node is full that should have more pages.
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

/// A node is full when less than this part of it is free, or less than so many bytes: below its
/// watermarks the kernel puts no page there that is moved.
const FULL: f64 = 0.02;
const FULL_BYTES: u64 = 32 << 20;

/// It matters when so many points of 100 are missing there.
const MISSING_POINTS: f64 = 3.0;

/// A node of a goal that is there no more, with all its memory.
///
/// # Errors
/// It is [`ActuatorError::Gone`].
pub(super) fn check_nodes_online(root: &Root, goal: &Goal) -> Result<(), ActuatorError> {
    let wanted = goal.nodes.iter().filter(|(_, weight)| *weight > 0);
    for (node, _) in wanted {
        let is_there = root.has(&format!("{NODES}/node{node}"));
        if !is_there || node::memory(root, *node)?.0 == 0 {
            return Err(ActuatorError::Gone(*node));
        }
    }
    Ok(())
}

/// Says who has come or gone since the last time.
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

/// Keeps what takes long to a part of the time.
#[derive(Debug, Default)]
pub(super) struct Duty(Option<Instant>);

impl Duty {
    pub(super) fn is_due(&self) -> bool {
        self.0.is_none_or(|next| Instant::now() >= next)
    }

    pub(super) fn spent(&mut self, span: Duration) {
        self.0 = Some(Instant::now() + span * (ONE_IN - 1));
    }
}
