//! Migrates the pages of processes with `move_pages(2)`, in portions, until the nodes have pages in
//! the ratio of the goal's weights. This actuator works on any kernel.
//!
//! The actuator changes, and later restores, a single setting: NUMA balancing. It has no access
//! counts, so it interleaves all pages, hot and cold. With [`Order::HottestFirst`] it reaches only
//! the ratio, and hot pages may be on any node.

use super::{
    Actuator, ActuatorError, ActuatorKind, ActuatorState, Goal, Setting,
    sampler::{
        ENDED, JOINED, PlacementSampler, TimeShareLimit, check_nodes_online, note_membership,
    },
    scan::{Changes, Scan},
    settings_guard::SettingsGuard,
};
use crate::{place::migrate::Migrator, process::Process};
use interleaf_model::machine::Order;
use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    time::{Duration, Instant},
};

/// The maximum duration of a portion, which is the migration during one call of `update`. The time
/// before [`LEAST_BYTES`] have moved does not count. The control loop calls `update` again one
/// second after the last call has returned.
const PORTION: Duration = Duration::from_millis(500);

/// The time over which the rate limit is kept on average. After a longer pause, a portion has at
/// most the bytes that the limit allows in this time.
const AVERAGED: Duration = Duration::from_secs(2);

/// The minimum size of a portion, bytes, unless the rate limit allows less.
const LEAST_BYTES: u64 = 4 << 20;

/// The actuator `pages`, which migrates the pages of processes with `move_pages(2)`.
#[derive(Debug)]
pub struct Pages<'a> {
    setting: Setting<'a>,
    held: SettingsGuard<'a>,
    goal: Option<Goal>,
    mover: Option<Migrator>,
    allowance: Allowance,
    known: Vec<Process>,
    scan: Scan,
    /// The processes, by ID and start time, that may not be migrated; a message has named them.
    refused: BTreeSet<(u32, u64)>,
    sampler: PlacementSampler,
    duty: TimeShareLimit,
    tried_bytes: u64,
    moved_bytes: u64,
}

/// A token bucket: the bytes that may move within the rate limit.
#[derive(Debug, Default)]
struct Allowance {
    /// Negative after a portion that moved too much, such as a huge page at a low rate.
    bytes: f64,
    last_refill: Option<Instant>,
}

impl Allowance {
    /// Adds the bytes allowed since the last call, up to the bytes for [`AVERAGED`]. Returns the
    /// number of bytes that may move now; `None` if less than one byte.
    fn refill(&mut self, bytes_per_s: u64, now: Instant) -> Option<u64> {
        let rate = bytes_per_s as f64;
        // The first call has no earlier call: add the bytes of one second.
        let passed = self.last_refill.map_or(1.0, |last| (now - last).as_secs_f64());
        self.bytes = (self.bytes + rate * passed).min(rate * AVERAGED.as_secs_f64());
        self.last_refill = Some(now);
        (self.bytes >= 1.0).then_some(self.bytes as u64)
    }
}

impl<'a> Pages<'a> {
    /// Returns an actuator for processes. No page migrates until a goal is set and
    /// [`Actuator::update`] is called.
    pub fn new(setting: Setting<'a>) -> Self {
        Self {
            held: SettingsGuard::new(setting.clone()),
            setting,
            goal: None,
            mover: None,
            allowance: Allowance::default(),
            known: vec![],
            scan: Scan::default(),
            refused: BTreeSet::new(),
            sampler: PlacementSampler::default(),
            duty: TimeShareLimit::default(),
            tried_bytes: 0,
            moved_bytes: 0,
        }
    }

    fn portion(&mut self, goal: &Goal, state: &mut ActuatorState) -> Result<(), ActuatorError> {
        let Some(mover) = self.mover.as_mut().filter(|_| self.duty.is_due()) else {
            return Ok(());
        };
        let mut budget = u64::MAX;
        if let Some(rate) = goal.rate_limit_bytes_per_s {
            let Some(allowed) = self.allowance.refill(rate, Instant::now()) else { return Ok(()) };
            // No page moves between two portions. Within a portion, pages therefore have to move
            // faster than the rate limit: all allowed bytes within `PORTION`.
            mover.set_rate(Some((allowed as f64 / PORTION.as_secs_f64()) as u64));
            budget = allowed;
        }
        let start = Instant::now();
        let (mut moved, mut scanned_bytes) = (0, 0);
        // `known` is from the last scan, up to a minute ago. Leave out processes that have ended
        // since then: their IDs may now belong to processes outside the scope.
        let runs = |known: &&Process| known.runs(self.setting.root).unwrap_or(false);
        let pids: Vec<u32> = self.known.iter().filter(runs).map(|it| it.pid).collect();
        let stop = self.setting.stop.clone();
        // Measure the duration of a portion only from the moment at which `LEAST_BYTES` have moved.
        // The time before that is a fixed cost: each call of `run` first locates pages that need
        // not move, and tries one page of each mapping alone.
        let mut first = None;
        let done = mover.run(&pids, &mut |progress| {
            (moved, scanned_bytes) =
                (progress.moved_bytes, scanned_bytes.max(progress.scanned_bytes));
            if moved >= LEAST_BYTES.min(budget) {
                first.get_or_insert_with(Instant::now);
            }
            let is_enough = first.is_some_and(|first| first.elapsed() >= PORTION);
            match moved >= budget || is_enough || stop.is_set() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        match done {
            Ok(outcome) => {
                moved = outcome.moved_bytes();
                let left = outcome.left();
                let left = left.iter().filter(|_| !outcome.stopped);
                state.notes.extend(left.map(|(why, bytes)| format!("{bytes} bytes stay: {why}")));
                for refusal in &outcome.refused {
                    let process = self.known.iter().find(|it| it.pid == refusal.pid);
                    if process.is_some_and(|it| self.refused.insert(it.identity())) {
                        state.notes.push(refusal.to_string());
                    }
                }
            }
            Err(why) => state.notes.push(why.to_string()),
        }
        self.tried_bytes += scanned_bytes;
        self.moved_bytes += moved;
        self.allowance.bytes -= moved as f64;
        if moved == 0 {
            self.duty.spent(start.elapsed());
        }
        Ok(())
    }
}

impl Actuator for Pages<'_> {
    fn kind(&self) -> ActuatorKind {
        ActuatorKind::Pages
    }

    fn describe(&self) -> String {
        let order = match self.goal.as_ref().map(|goal| goal.order) {
            Some(Order::HottestFirst) => ", in any order, since access counts are unknown",
            _ => "",
        };
        format!("the pages of processes are looked for one by one, and moved in portions{order}")
    }

    fn set(&mut self, goal: &Goal) -> Result<(), ActuatorError> {
        let mover = match self.setting.root.is_live() {
            true => Some(Migrator::new(goal.target()?)?.alone()),
            false => None,
        };
        self.held.disable_balancer()?;
        self.mover = mover;
        self.sampler.restart();
        (self.goal, self.duty) = (Some(goal.clone()), TimeShareLimit::default());
        Ok(())
    }

    fn update(&mut self) -> Result<ActuatorState, ActuatorError> {
        let mut state = ActuatorState::default();
        let Some(goal) = self.goal.clone() else { return Ok(state) };
        let root = self.setting.root;
        check_nodes_online(root, &goal)?;
        self.held.note_balancer(&mut state.notes)?;
        if self.scan.is_due() {
            let Changes { joined, gone } = self.scan.changes(&self.setting, &self.known, 0)?;
            if !self.known.is_empty() {
                note_membership(&mut state.notes, JOINED, &joined);
            }
            note_membership(&mut state.notes, ENDED, &gone);
            state.joined = joined.iter().map(|it| it.pid).collect();
            state.left = gone.iter().map(|it| it.pid).collect();
            if !joined.is_empty() {
                self.duty = TimeShareLimit::default();
            }
            let gone: BTreeSet<_> = gone.iter().map(Process::identity).collect();
            self.known.retain(|it| !gone.contains(&it.identity()));
            self.refused.retain(|it| !gone.contains(it));
            self.known.extend(joined);
        }
        self.portion(&goal, &mut state)?;
        let on = self.sampler.sample_placement(&self.setting, &self.known)?;
        self.sampler.note(&mut state, root, &goal, on)?;
        state.tried_bytes = Some(self.tried_bytes);
        state.applied_bytes = Some(self.moved_bytes);
        state.processes = Some(self.known.len());
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_limit_is_kept_on_average() {
        let (mut allowance, start) = (Allowance::default(), Instant::now());
        let refill = |allowance: &mut Allowance, seconds: f64| {
            allowance.refill(1000, start + Duration::from_secs_f64(seconds))
        };
        assert_eq!(refill(&mut allowance, 0.0), Some(1000));
        // The portion moved 1500 bytes, 500 more than was allowed.
        allowance.bytes -= 1500.0;
        assert_eq!(refill(&mut allowance, 0.25), None);
        assert_eq!(refill(&mut allowance, 1.75), Some(1250));
        allowance.bytes -= 1250.0;
        // A control loop with a period of 1.5 s gets the bytes of 1.5 s for each portion.
        assert_eq!(refill(&mut allowance, 3.25), Some(1500));
        assert_eq!(refill(&mut allowance, 60.0), Some(2000), "no more than in two seconds");
    }
}
