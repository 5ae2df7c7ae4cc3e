//! Interleaves the resident pages of running processes over nodes in a given ratio, with
//! `move_pages(2)`.
//!
//! An interleaving policy applies only to new pages; this module migrates resident pages. It
//! processes memory in batches, each in these steps:
//!
//! 1. find the resident pages (`pagemap`);
//! 2. find the node of each page (`move_pages` without a target);
//! 3. plan the moves ([`plan`]);
//! 4. move the pages in portions, at the requested rate;
//! 5. locate the pages again.
//!
//! Passes over all memory are repeated until a pass moves no page and finds no busy page, but at
//! most four times. The last pass shows the final placement. Pages that fail to move are tried
//! again in the next pass, and other pages move in their place if possible.
//!
//! Migrated pages stay on their nodes unless another page mover migrates them, such as the kernel's
//! NUMA balancing, which migrates pages to the nodes of the CPUs that use them.

mod area;
mod batch;
mod memory;
mod outcome;
mod pace;
mod pass;
pub mod plan;
mod sequence;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use self::outcome::{MigrateError, Outcome, ProcessOutcome, Reason, Refusal, RefusalReason};

use self::{
    memory::{Live, Memory},
    pace::Pace,
    pass::{Halt, Memo, PassState, ProcessPass, Tally},
    plan::{Planner, Target, TargetError},
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

/// Maximum number of passes over the memory of all processes whose pages are migrated.
const PASSES_MAX: u32 = 4;

/// The pause before the next pass if pages were busy. I/O on these pages may end meanwhile.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Migrates pages of processes on this machine.
#[derive(Debug)]
pub struct Migrator {
    target: Target,
    rate: Option<u64>,
    memory: Live,
}

/// The progress of a migration. It is reported before each portion of pages moves, every 100 ms
/// while the rate limit delays a portion, and after each batch.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The number of the pass over all memory; the first pass is 1.
    pub pass: u32,
    /// The process whose pages are being migrated.
    pub process: &'a Process,
    /// Bytes that this pass has processed so far.
    pub scanned_bytes: u64,
    /// Bytes that this pass has to process; changes when programs allocate or free memory.
    pub total_bytes: u64,
    /// Bytes that all passes so far have migrated.
    pub moved_bytes: u64,
}

#[derive(Debug, Default)]
pub struct Forecast {
    /// The present placement of the pages that can be migrated.
    pub bytes: NodeBytes,
    /// Bytes that a migration would migrate.
    pub planned_bytes: u64,
    /// Bytes on the wrong node that cannot migrate, because other processes map the same pages.
    pub shared_bytes: u64,
    pub processes: Vec<Process>,
    /// Processes that cannot be read or migrated: descendants of the processes that the caller
    /// named or, after [`Migrator::alone`], the named processes themselves.
    pub refused: Vec<Refusal>,
    /// True when the caller's `watch` ended the forecast early.
    pub stopped: bool,
}

impl Migrator {
    /// Returns a migrator to the nodes of `target`, without a rate limit.
    ///
    /// # Errors
    /// When the target names nodes that are missing or have no memory, the kernel lacks NUMA, or
    /// the machine cannot be read.
    pub fn new(target: Target) -> Result<Self, MigrateError> {
        let mut memory = Live::new()?;
        if !memory.has_numa() {
            return Err(MigrateError::Numa);
        }
        check(&target, &mut memory)?;
        Ok(Self { target, rate: None, memory })
    }

    /// Limits the migration rate, bytes per second. The rate is kept on average over a tenth of a
    /// second or, if one huge page takes longer at this rate, over the time of one huge page.
    #[must_use]
    pub fn at_rate(mut self, bytes_per_s: u64) -> Self {
        self.set_rate(Some(bytes_per_s));
        self
    }

    /// Changes the limit of the migration rate (see [`Self::at_rate`]); `None` for no limit.
    pub fn set_rate(&mut self, bytes_per_s: Option<u64>) {
        self.rate = bytes_per_s;
    }

    /// Migrates only the processes that the caller names (`pids`), without their descendants. A
    /// process that has ended is skipped, and a process that this user may not migrate is reported
    /// as refused; the other processes are migrated nevertheless.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.memory.alone = true;
        self
    }

    /// Migrates the pages of processes to their target nodes, in at most four passes. Descendants
    /// of the processes are migrated too, unless [`Self::alone`] was called. `watch` receives the
    /// progress and can stop the migration. Pages that migrated before the stop stay on their new
    /// nodes.
    ///
    /// # Errors
    /// When a process of `pids` does not exist, or may not be migrated. Neither a process that ends
    /// during the migration nor a child that may not be migrated is an error.
    pub fn run(
        &mut self,
        pids: &[u32],
        watch: &mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Outcome, MigrateError> {
        run(&mut self.memory, &self.target, self.rate, pids, watch)
    }

    /// Forecasts the result of [`Self::run`] without migrating.
    ///
    /// # Errors
    /// The errors of [`Self::run`].
    pub fn forecast(
        &mut self,
        pids: &[u32],
        watch: &mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Forecast, MigrateError> {
        forecast(&mut self.memory, &self.target, pids, watch)
    }
}

/// Checks that all nodes of a target exist and have memory.
fn check(target: &Target, memory: &mut impl Memory) -> Result<(), MigrateError> {
    let has: IdList = memory.nodes()?.into_iter().map(|(node, _)| node).collect();
    Ok(target.check(&has)?)
}

/// A process whose pages are migrated. `memo` has the properties of its pages that earlier passes
/// have found, and `moved` has the results so far.
struct Record {
    process: Process,
    memo: Memo,
    moved: ProcessOutcome,
}

/// A migration of several processes: its inputs, and the results of its passes so far.
struct Passes<'a, M> {
    target: &'a Target,
    pids: &'a [u32],
    shared: PassState<'a, M>,
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
        shared: PassState { memory, planner, pace, free, full, dry: false, watch },
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
        // A forecast tries no move, so the planned moves are left over as `Busy`.
        planned_bytes: left(Reason::Busy),
        shared_bytes: left(Reason::Shared),
        processes: work.records.into_iter().map(|record| record.process).collect(),
        refused: work.refused,
        stopped: work.stopped,
    })
}

impl<M: Memory> Passes<'_, M> {
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
        let mut scanned_bytes = 0;
        for (record, areas) in records.iter_mut().zip(areas) {
            if self.stopped || failed.is_some() || record.moved.ended {
                continue;
            }
            let moved_bytes = self.moved_bytes;
            let process = &record.process;
            let progress = Progress { pass, process, scanned_bytes, total_bytes, moved_bytes };
            let (tally, halt) = self.one(areas, &mut record.memo, progress);
            scanned_bytes += tally.before.total();
            self.moved_bytes += tally.moved_bytes;
            record.moved.add_tally(tally, pass, halt.is_none());
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

    /// Makes a pass over `areas`, the mappings of one process. Returns the results of the pass, and
    /// the reason if the work on this process ended early.
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
            // A process that is about to end, and has no memory, counts as ended.
            Ok(None) => return (Tally::default(), Some(Halt::Ended)),
            Err(why) if why.is_permission() => return refused(RefusalReason::Permission),
            Err(why) => return refused(RefusalReason::Read(why)),
        };
        // Forget failures whose reason may be gone, such as busy pages. Shared pages, and pages of
        // a partly resident folio (`Joined`), stay unmovable.
        memo.stuck.retain(|_, reason| matches!(reason, Reason::Shared | Reason::Joined));
        let allowed = match self.shared.memory.allowed(pid) {
            Ok(allowed) => allowed,
            Err(why) => return refused(RefusalReason::Read(why)),
        };
        if let Some(allowed) = allowed {
            let wanted = self.target.nodes();
            let missing: IdList = wanted.iter().filter(|node| !allowed.has(*node)).collect();
            if !missing.is_empty() {
                return refused(RefusalReason::Cpuset { missing, allowed });
            }
        }
        let tally = Tally::default();
        let mut work = ProcessPass { shared: &mut self.shared, memo, progress, areas, tally };
        let halt = work.pass().err();
        let tally = work.tally;
        // A process that ends during the pass releases its memory, so that its pages seem not to be
        // resident. Therefore check that the process still has memory.
        let halt = match (halt, self.shared.memory.has_memory(pid)) {
            (None, Ok(false)) => Some(Halt::Ended),
            (None, Err(why)) => Some(Halt::Refused(RefusalReason::Read(why))),
            (halt, _) => halt,
        };
        (tally, halt)
    }

    /// Adds the processes that the caller named (`self.pids`) and their descendants to
    /// `self.records`, except processes that were added or refused earlier. Marks the recorded
    /// processes that have ended. In pass 1, a named process that does not exist is an error,
    /// unless each process is migrated independently ([`Memory::is_alone`]).
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
                let (memo, moved) = (Memo::default(), ProcessOutcome::new(&process));
                self.records.push(Record { process, memo, moved });
            }
        }
        Ok(())
    }

    /// Records that a process cannot be migrated. Fails, which ends the migration of all processes,
    /// if the caller named the process and [`Memory::is_alone`] is false.
    fn refuse(&mut self, process: &Process, why: RefusalReason) -> Result<(), Refusal> {
        let refusal = Refusal { pid: process.pid, name: process.name.clone(), why };
        if self.pids.contains(&process.pid) && !self.shared.memory.is_alone() {
            return Err(refusal);
        }
        self.refused.push(refusal);
        Ok(())
    }
}

/// True when `now` and `known` are the same process, and the process still runs.
fn is_same(now: &Process, known: &Process) -> bool {
    (now.pid, now.start_ticks) == (known.pid, known.start_ticks) && !now.is_zombie
}

impl ProcessOutcome {
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

    /// Adds `tally`, the results of a pass over this process. `is_whole` is false if the pass ended
    /// early.
    fn add_tally(&mut self, tally: Tally, pass: u32, is_whole: bool) {
        if pass == 1 || self.before == NodeBytes::default() {
            self.before = tally.before.clone();
        }
        self.moved_bytes += tally.moved_bytes;
        if is_whole || self.after == NodeBytes::default() {
            self.after = tally.after;
            self.left = tally.left;
            return;
        }
        // A pass that ended early has located only some of the pages, and `after` has the placement
        // from the pass before. Apply to `after` the changes of the located pages only.
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
    /// Returns advice to the user.
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
