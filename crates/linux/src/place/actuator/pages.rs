//! Migrates the pages of processes with `move_pages(2)`, in portions, until the nodes have pages in
//! the ratio of the goal's weights. This works on any kernel.
//!
//! The only setting that is changed, and restored, is NUMA balancing. Access counts are not known.
//! Therefore all pages are interleaved, hot and cold. For [`Order::HottestFirst`] only the ratio is
//! reached, and hot pages may be on any node.

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

/// The maximum duration of a portion. A portion is the migration during one call of `update`, and
/// its duration counts from the moment at which [`LEAST_BYTES`] have moved. `update` is called
/// about once a second, so half of each second is left to the caller.
const PORTION: Duration = Duration::from_millis(500);

/// The minimum size of a portion, bytes, if the rate limit allows it.
const LEAST_BYTES: u64 = 4 << 20;

/// The actuator `pages`, which migrates the pages of processes with `move_pages(2)`.
#[derive(Debug)]
pub struct Pages<'a> {
    setting: Setting<'a>,
    held: SettingsGuard<'a>,
    goal: Option<Goal>,
    mover: Option<Migrator>,
    known: Vec<Process>,
    scan: Scan,
    /// Processes, by ID and start time, that were reported because their pages may not be migrated.
    refused: BTreeSet<(u32, u64)>,
    sampler: PlacementSampler,
    duty: TimeShareLimit,
    tried_bytes: u64,
    moved_bytes: u64,
}

impl<'a> Pages<'a> {
    /// An actuator for the processes of a scope. No page migrates before a goal is set and
    /// [`Actuator::update`] is called.
    pub fn new(setting: Setting<'a>) -> Self {
        Self {
            held: SettingsGuard::new(setting.clone()),
            setting,
            goal: None,
            mover: None,
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
        let rate = goal.rate_limit_bytes_per_s.unwrap_or(u64::MAX);
        let budget = (rate as f64 * PORTION.as_secs_f64()) as u64;
        let start = Instant::now();
        let (mut moved, mut scanned_bytes) = (0, 0);
        let pids: Vec<u32> = self.known.iter().map(|it| it.pid).collect();
        let stop = self.setting.stop.clone();
        // Measure the duration of a portion only from the moment at which `LEAST_BYTES` have moved.
        // The time before that moment is a fixed cost: each call of `run` first locates pages that
        // need not move, and tries one page of each mapping alone.
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
        self.mover = match goal.rate_limit_bytes_per_s {
            Some(rate) => mover.map(|mover| mover.at_rate(rate)),
            None => mover,
        };
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
