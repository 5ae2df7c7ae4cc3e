//! The state of a task: its pages, and the work that it has completed.

use super::{
    heat::Heat,
    pages::Pages,
    scenario::{Scenario, Task},
};

/// A run is complete if less than this fraction of its work is left: the remainder is then a
/// rounding error.
const DONE: f64 = 1e-12;

#[derive(Clone, Debug)]
pub(super) enum Placement {
    /// The task does not run.
    None,
    /// The accesses are divided among the tiers by fixed shares, and the task has no pages. The
    /// search of the best static shares uses this placement.
    Fixed(Vec<f64>),
    /// The task has page groups, whose hotness is sampled.
    Paged(Box<Pages>, Heat),
}

/// The state of a task: its pages while it runs, and its completed work.
#[derive(Clone, Debug)]
pub(super) struct TaskState {
    pub(super) memory: Placement,
    /// Completed fraction of the current run.
    done: f64,
    pub(super) runs_done: u32,
    run_began_ns: u64,
    /// Duration of the first run, ns; `None` until the first run has ended.
    pub(super) first_run_ns: Option<u64>,
    /// Energy of the first run, J; `None` until the first run has ended.
    pub(super) first_run_j: Option<f64>,
    /// Energy since the current run began, J.
    run_j: f64,
    ended: bool,
}

impl TaskState {
    pub(super) const fn new() -> Self {
        Self {
            memory: Placement::None,
            done: 0.0,
            runs_done: 0,
            run_began_ns: 0,
            first_run_ns: None,
            first_run_j: None,
            run_j: 0.0,
            ended: false,
        }
    }

    pub(super) const fn is_running(&self) -> bool {
        !matches!(self.memory, Placement::None)
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn start(&mut self, memory: Placement, now_ns: u64) {
        self.memory = memory;
        self.run_began_ns = now_ns;
    }

    /// Returns the number of completed runs, plus the completed fraction of the current run.
    pub(super) fn work(&self) -> f64 {
        f64::from(self.runs_done) + self.done
    }

    /// Returns the index of the current phase, and the work that is left in this phase, as a
    /// fraction of the work of a whole run.
    pub(super) fn phase(&self, task: &Task) -> (usize, f64) {
        let phases = task.program.phases();
        let cycle = 1.0 / f64::from(task.cycles);
        let begun = (self.done / cycle + DONE).floor();
        let within = (self.done / cycle - begun).max(0.0);
        let mut end = 0.0;
        for (at, phase) in phases.iter().enumerate() {
            end += phase.work;
            if within < end - DONE || at + 1 == phases.len() {
                return (at, ((begun + end.min(1.0)) * cycle - self.done).max(0.0));
            }
        }
        (0, 1.0 - self.done)
    }

    /// Advances the task by `span_ns` to the time `now_ns`. `speed` is relative to the speed of the
    /// task alone with all pages on the first tier, and `energy_j` is the task's energy in this
    /// span. Returns true if a run ended.
    pub(super) fn advance(
        &mut self,
        task: &Task,
        speed: f64,
        span_ns: u64,
        now_ns: u64,
        energy_j: f64,
    ) -> bool {
        self.done += speed * span_ns as f64 * 1e-9 / task.local_runtime_s();
        self.run_j += energy_j;
        if self.done < 1.0 - DONE {
            return false;
        }
        self.done = 0.0;
        self.runs_done += 1;
        self.first_run_ns.get_or_insert(now_ns - self.run_began_ns);
        self.first_run_j.get_or_insert(self.run_j);
        self.run_j = 0.0;
        self.run_began_ns = now_ns;
        if task.runs.is_some_and(|runs| self.runs_done >= runs) {
            self.memory = Placement::None;
            self.ended = true;
        }
        true
    }
}

/// Returns the number of page groups of each task: proportional to its footprint, at least one.
pub(super) fn groups(scenario: &Scenario) -> Vec<usize> {
    let all: u64 = scenario.tasks.iter().map(|task| task.footprint_bytes).sum();
    let share = |task: &Task| task.footprint_bytes as f64 / all.max(1) as f64;
    let tasks = scenario.tasks.iter();
    tasks.map(|task| ((share(task) * scenario.page_groups as f64) as usize).max(1)).collect()
}
