//! Interleaves the pages of running processes over nodes in a given ratio, with `move_pages(2)`.
//!
//! A policy of interleaving is for pages that are yet to come; this is for those that are there.
//! Memory is looked at batch by batch: which pages are there (`pagemap`), on which node each is
//! (`move_pages` without a target), which should go elsewhere ([`plan`]); these are moved in
//! portions at the rate that is wanted, and looked for again. Passes are repeated until one finds
//! nothing to move, so that the last look is after the last move. What does not move is tried
//! again in the next pass, and others go in its place where there are any.
//!
//! Pages stay where they are put as long as nobody else moves them: the kernel's own NUMA balancing
//! pulls them back to the CPUs that use them.

mod area;
mod batch;
mod memory;
mod outcome;
mod pace;
pub mod plan;
mod sequence;
mod work;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use self::outcome::{MigrateError, Moved, Outcome, Reason, Refusal, Why};

use self::{
    memory::{Live, Memory},
    pace::Pace,
    plan::{Planner, Target, TargetError},
    work::{Common, Halt, Memo, Tally, Work},
};
use crate::{
    machine::id_list::IdList,
    process::{Process, numa_maps::NodeBytes},
    root::RootError,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    time::Duration,
};

/// How often all memory is gone through at most.
const PASSES_MAX: u32 = 4;

/// How long pages that are in use are left alone before they are tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Moves pages of this machine's processes.
#[derive(Debug)]
pub struct Migrator {
    target: Target,
    rate: Option<u64>,
    memory: Live,
}

/// How far it has come, at least ten times a second while there is something to move.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Which time this is that all memory is gone through, from 1.
    pub pass: u32,
    /// The process that is worked on.
    pub process: &'a Process,
    /// What was looked at in this pass, bytes.
    pub looked_bytes: u64,
    /// What there is to look at in this pass, bytes; it changes while programs run.
    pub total_bytes: u64,
    /// What was moved in all passes, bytes.
    pub moved_bytes: u64,
}

/// What would be moved.
#[derive(Debug, Default)]
pub struct Forecast {
    /// Where the pages are, of those that may be moved.
    pub bytes: NodeBytes,
    /// What would be moved to reach the target, bytes.
    pub planned_bytes: u64,
    /// What would have to be moved too, but is shared with other processes, bytes.
    pub shared_bytes: u64,
    /// The processes.
    pub processes: Vec<Process>,
    /// Children whose memory cannot be looked at.
    pub refused: Vec<Refusal>,
    /// Whether whoever watched wanted it to stop before it was done.
    pub stopped: bool,
}

impl Migrator {
    /// A mover of pages to a target, as fast as it goes.
    ///
    /// # Errors
    /// When the target names nodes that are not there or have no memory, the kernel has no NUMA, or
    /// the machine cannot be read.
    pub fn new(target: Target) -> Result<Self, MigrateError> {
        let mut memory = Live::new()?;
        if !memory.has_numa() {
            return Err(MigrateError::Numa);
        }
        check(&target, &mut memory)?;
        Ok(Self { target, rate: None, memory })
    }

    /// The same, at so many bytes a second at most, averaged over a tenth of a second; of huge
    /// pages over as long as one takes.
    #[must_use]
    pub fn at_rate(mut self, bytes_per_s: u64) -> Self {
        self.rate = Some(bytes_per_s);
        self
    }

    /// The same, for the processes that are named and not for those that they have started. One
    /// that is gone is left out, one that may not be moved is among those that refused, and the
    /// rest goes on.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.memory.alone = true;
        self
    }

    /// Moves the pages of processes, and of all that they and their children have started, until
    /// each is where the target wants it or cannot be moved. `watch` is told how far it is, and can
    /// stop it; what was moved stays.
    ///
    /// # Errors
    /// When a process of `pids` is not there, or may not be moved. One that ends meanwhile is no
    /// error, nor is a child that may not be moved.
    pub fn run(
        &mut self,
        pids: &[u32],
        watch: &mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Outcome, MigrateError> {
        run(&mut self.memory, &self.target, self.rate, pids, watch)
    }

    /// Looks what [`Self::run`] would move, and moves nothing.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn forecast(
        &mut self,
        pids: &[u32],
        watch: &mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Forecast, MigrateError> {
        forecast(&mut self.memory, &self.target, pids, watch)
    }
}

/// Checks that a target is one of the machine.
fn check(target: &Target, memory: &mut impl Memory) -> Result<(), MigrateError> {
    let has: IdList = memory.nodes()?.into_iter().map(|(node, _)| node).collect();
    Ok(target.check(&has)?)
}

/// A process and what became of it so far.
struct Record {
    process: Process,
    memo: Memo,
    moved: Moved,
}

/// All passes over all processes.
struct Passes<'a, M> {
    target: &'a Target,
    pids: &'a [u32],
    shared: Common<'a, M>,
    records: Vec<Record>,
    refused: Vec<Refusal>,
    moved_bytes: u64,
    stopped: bool,
}

fn passes<'a, M: Memory>(
    memory: &'a mut M,
    target: &'a Target,
    rate: Option<u64>,
    pids: &'a [u32],
    watch: &'a mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>,
) -> Passes<'a, M> {
    let planner = Planner::new(target, memory.page_sizes().0);
    let (pace, free, full) = (Pace::new(rate), BTreeMap::new(), BTreeSet::new());
    Passes {
        target,
        pids,
        shared: Common { memory, planner, pace, free, full, dry: false, watch },
        records: vec![],
        refused: vec![],
        moved_bytes: 0,
        stopped: false,
    }
}

fn run<M: Memory>(
    memory: &mut M,
    target: &Target,
    rate: Option<u64>,
    pids: &[u32],
    watch: &mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>,
) -> Result<Outcome, MigrateError> {
    let mut work = passes(memory, target, rate, pids, watch);
    let mut done = 0;
    for pass in 1..=PASSES_MAX {
        done = pass;
        let before = work.moved_bytes;
        work.pass(pass)?;
        let is_busy = |record: &Record| record.moved.left.contains_key(&Reason::Busy);
        let busy = work.records.iter().any(is_busy);
        if work.stopped || (work.moved_bytes == before && !busy) {
            break;
        }
        if busy && pass < PASSES_MAX {
            work.shared.memory.pause(BUSY_PAUSE);
        }
    }
    Ok(Outcome {
        processes: work.records.into_iter().map(|record| record.moved).collect(),
        refused: work.refused,
        stopped: work.stopped,
        passes: done,
    })
}

fn forecast<M: Memory>(
    memory: &mut M,
    target: &Target,
    pids: &[u32],
    watch: &mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>,
) -> Result<Forecast, MigrateError> {
    let mut work = passes(memory, target, None, pids, watch);
    work.shared.dry = true;
    work.pass(1)?;
    let left = |wanted: Reason| {
        let of = |record: &Record| record.moved.left.get(&wanted).copied();
        work.records.iter().filter_map(of).sum()
    };
    Ok(Forecast {
        bytes: work.records.iter().map(|record| &record.moved.before).collect(),
        // Nothing was tried, so what did not move is nobody's fault.
        planned_bytes: left(Reason::Busy),
        shared_bytes: left(Reason::Shared),
        processes: work.records.into_iter().map(|record| record.process).collect(),
        refused: work.refused,
        stopped: work.stopped,
    })
}

impl<M: Memory> Passes<'_, M> {
    /// Goes through all memory once.
    fn pass(&mut self, pass: u32) -> Result<(), MigrateError> {
        let (page_bytes, _) = self.shared.memory.page_sizes();
        self.shared.planner = Planner::new(self.target, page_bytes);
        self.shared.free = self.shared.memory.nodes()?.into_iter().collect();
        self.shared.full.clear();
        self.find(pass)?;
        let mut records = std::mem::take(&mut self.records);
        let mut failed = None;
        let mut total_bytes = 0;
        let mut areas = vec![];
        for record in &mut records {
            let found = self.shared.memory.areas(record.process.pid);
            if let Ok(Some(found)) = &found {
                total_bytes += found.iter().map(|area| area.resident_bytes).sum::<u64>();
            }
            areas.push(found);
        }
        let mut looked_bytes = 0;
        for (record, areas) in records.iter_mut().zip(areas) {
            if self.stopped || failed.is_some() || record.moved.ended {
                continue;
            }
            let moved_bytes = self.moved_bytes;
            let process = &record.process;
            let progress = Progress { pass, process, looked_bytes, total_bytes, moved_bytes };
            let (tally, halt) = self.one(areas, &mut record.memo, progress);
            looked_bytes += tally.before.total();
            self.moved_bytes += tally.moved_bytes;
            record.moved.take_in(tally, pass, halt.is_none());
            match halt {
                None => {}
                Some(Halt::Stopped) => self.stopped = true,
                Some(Halt::Ended) => record.moved.ended = true,
                Some(Halt::Refused(why)) => failed = self.refuse(&record.process, why).err(),
            }
        }
        records.retain(|record| !self.refused.iter().any(|it| it.pid == record.process.pid));
        self.records = records;
        failed.map_or(Ok(()), |refusal| Err(refusal.into()))
    }

    /// Works on one process.
    fn one(
        &mut self,
        areas: Result<Option<Vec<area::Area>>, RootError>,
        memo: &mut Memo,
        progress: Progress<'_>,
    ) -> (Tally, Option<Halt>) {
        let refused = |why| (Tally::default(), Some(Halt::Refused(why)));
        let pid = progress.process.pid;
        let areas = match areas {
            Ok(Some(areas)) => areas,
            // It may be there without memory for a moment yet.
            Ok(None) => return (Tally::default(), Some(Halt::Ended)),
            Err(why) if why.is_permission() => return refused(Why::Permission),
            Err(why) => return refused(Why::Read(why)),
        };
        // What was in use may not be any more; that a page is shared, or part of another, stays so.
        memo.stuck.retain(|_, reason| matches!(reason, Reason::Shared | Reason::Joined));
        let allowed = match self.shared.memory.allowed(pid) {
            Ok(allowed) => allowed,
            Err(why) => return refused(Why::Read(why)),
        };
        if let Some(allowed) = allowed {
            let wanted = self.target.nodes();
            let missing: IdList = wanted.iter().filter(|node| !allowed.has(*node)).collect();
            if !missing.is_empty() {
                return refused(Why::Cpuset { missing, allowed });
            }
        }
        let tally = Tally::default();
        let mut work = Work { shared: &mut self.shared, memo, progress, areas, tally };
        let halt = work.pass().err();
        (work.tally, halt)
    }

    /// Finds the processes: those that were named, what they have started since, and those that
    /// are known already though who started them has gone.
    fn find(&mut self, pass: u32) -> Result<(), MigrateError> {
        let mut found: Vec<Process> = vec![];
        let is_alone = self.shared.memory.is_alone();
        for (pid, tree) in self.pids.iter().zip(self.shared.memory.trees(self.pids)?) {
            if tree.is_empty() && pass == 1 && !is_alone {
                return Err(MigrateError::Absent(*pid));
            }
            found.extend(tree);
        }
        for record in &mut self.records {
            let now = self.shared.memory.process(record.process.pid)?;
            let is_there = now.is_some_and(|now| is_same(&now, &record.process));
            record.moved.ended |= !is_there;
        }
        let named: BTreeSet<u32> = self.pids.iter().copied().collect();
        let mut known: BTreeSet<_> = self.records.iter().map(|it| it.process.identity()).collect();
        let refused: BTreeSet<u32> = self.refused.iter().map(|it| it.pid).collect();
        for process in found.into_iter().filter(|it| !it.is_zombie || named.contains(&it.pid)) {
            if !refused.contains(&process.pid) && known.insert(process.identity()) {
                let (memo, moved) = (Memo::default(), Moved::new(&process));
                self.records.push(Record { process, memo, moved });
            }
        }
        Ok(())
    }

    /// Notes that a process cannot be worked on.
    ///
    /// # Errors
    /// When it is one that was named, and the named ones are not on their own.
    fn refuse(&mut self, process: &Process, why: Why) -> Result<(), Refusal> {
        let refusal = Refusal { pid: process.pid, name: process.name.clone(), why };
        if self.pids.contains(&process.pid) && !self.shared.memory.is_alone() {
            return Err(refusal);
        }
        self.refused.push(refusal);
        Ok(())
    }
}

/// Whether two are the same process, and still running.
fn is_same(now: &Process, known: &Process) -> bool {
    (now.pid, now.start_ticks) == (known.pid, known.start_ticks) && !now.is_zombie
}

impl Moved {
    fn new(process: &Process) -> Self {
        Self {
            pid: process.pid,
            name: process.name.clone(),
            before: NodeBytes::default(),
            after: NodeBytes::default(),
            moved_bytes: 0,
            left: BTreeMap::new(),
            ended: process.is_zombie,
        }
    }

    /// Takes in what a pass gave.
    fn take_in(&mut self, tally: Tally, pass: u32, is_whole: bool) {
        if pass == 1 || self.before == NodeBytes::default() {
            self.before = tally.before.clone();
        }
        self.moved_bytes += tally.moved_bytes;
        if is_whole || self.after == NodeBytes::default() {
            self.after = tally.after;
            self.left = tally.left;
            return;
        }
        // Of a pass that was cut short, only the difference is known.
        for (node, bytes) in &tally.after.0 {
            *self.after.0.entry(*node).or_default() += bytes;
        }
        for (node, bytes) in &tally.before.0 {
            let now = self.after.0.entry(*node).or_default();
            *now = now.saturating_sub(*bytes);
        }
    }
}

impl MigrateError {
    /// What can be done about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Target(TargetError::Absent { .. }) => "interleaf show lists the nodes",
            Self::Target(_) => "give each node one weight, at least one of them above zero",
            Self::Numa => "boot a kernel that is built with CONFIG_NUMA, without numa=off",
            Self::Absent(_) => "it may have ended; ps shows those that are there",
            Self::Refused(refusal) => refusal.why.hint(),
            Self::Read(_) => "see whether /proc and /sys are mounted and whole",
        }
    }
}
