//! A command under `interleaf extend`, as `interleaf.extend/1`.
//!
//! The pagers of a session count faults, prefetches, evictions and transfers in the ledger, shared
//! memory with a slot for each process. The document has the counts of each process and their sum.
//! `--stats FILE` writes it at the end, and `extend --monitor` shows it while the command runs. A
//! page has [`PAGE_BYTES`] bytes.

mod figures;
mod forecast;
mod preview;

pub use forecast::{CurveRow, EnoughRow, ForecastDocument, ForecastRow, SCHEMA as FORECAST_SCHEMA};
pub use preview::{
    CheckDocument, CheckStatus, DriveSpeed, EstimateDocument, ExtendPlanDocument, RandomDocument,
    SCHEMA as PLAN_SCHEMA,
};

use super::{check::Check, rounded};
use interleaf_pager::{
    cache::Counts,
    session::{
        Children, PAGE_BYTES, SessionSettings,
        identity::Identity,
        ledger::{BudgetLedger, Process},
    },
};
use serde::{Deserialize, Serialize};
use std::{
    os::unix::process::ExitStatusExt as _, path::PathBuf, process::ExitStatus, time::Duration,
};

pub const SCHEMA: &str = "interleaf.extend/1";

/// Counts of a session under `interleaf extend`. While the command runs, they are the counts so
/// far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExtendDocument {
    pub schema: String,
    pub command: Vec<String>,
    /// Exit code of the command; null while it runs, and when a signal ended it.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub elapsed_s: f64,
    pub dram_bytes: u64,
    pub min_alloc_bytes: u64,
    /// True if the memory of the command's child processes is not extended (`--children none`).
    #[serde(default)]
    pub is_without_children: bool,
    pub stores: Vec<PathBuf>,
    /// Peak resident memory of the session's largest process; null when the kernel does not report
    /// it.
    #[serde(default)]
    pub resident_max_bytes: Option<u64>,
    /// Memory of all processes together outside the budget; null while the command runs, and when
    /// no process was read.
    #[serde(default)]
    pub outside: Option<OutsideDocument>,
    /// Peak of the memory of all processes together that the kernel had in swap, in the budget or
    /// outside of it. 0 while the command runs, and in documents of older versions.
    #[serde(default)]
    pub swapped_bytes: u64,
    /// User CPU time of the command and of the pagers, s; null while the command runs.
    #[serde(default)]
    pub user_s: Option<f64>,
    /// System CPU time of the command and of the pagers, s; null while the command runs.
    #[serde(default)]
    pub system_s: Option<f64>,
    /// Counts of all processes together, including those that have exited.
    #[serde(flatten)]
    pub total: CountsDocument,
    pub processes: Vec<ProcessDocument>,
}

/// Memory of the session's processes outside the budget, in the sample with the most of it.
///
/// Memory that a forked child shares with its parent counts twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OutsideDocument {
    /// Anonymous memory outside the budget: the sum over the processes that ran at that time.
    pub bytes: u64,
    /// The part of `bytes` in allocations of 128 KiB and more that are not extended: a process made
    /// them before the sum of such allocations reached `min_alloc_bytes`.
    pub left_bytes: u64,
}

/// Counts of one pager, or the sum of several pagers' counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountsDocument {
    /// Number of faults: accesses to pages that were not mapped.
    pub faults: u64,
    /// Number of minor faults: faults on pages that were resident.
    pub soft_faults: u64,
    /// Number of pages that were read before a thread touched them.
    pub prefetched_pages: u64,
    /// Number of prefetched pages that a thread touched later.
    pub prefetch_hits: u64,
    /// Number of prefetched pages that were evicted untouched.
    pub prefetch_wasted: u64,
    pub evicted_pages: u64,
    /// Peak of the memory with content, bytes: resident pages, and pages that only the store has.
    /// In the counts of a session, it is the peak of the sum over all processes. A page that a
    /// forked child shares with its parent counts twice. 0 in documents of older versions, which
    /// lack this field.
    #[serde(default)]
    pub footprint_bytes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Time for which threads waited for pages, s: the sum over all threads.
    pub stall_s: f64,
}

/// A process of the session, which runs or has exited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessDocument {
    pub pid: u32,
    pub name: String,
    /// DRAM that the process had taken from the budget at the last sample, bytes.
    pub dram_bytes: u64,
    /// Peak of the process's anonymous memory outside the budget in all samples, bytes; null when
    /// the process exited before the first sample.
    #[serde(default)]
    pub outside_bytes: Option<u64>,
    /// Bytes in allocations of 128 KiB and more that are not extended: the process made them before
    /// the sum of such allocations reached `min_alloc_bytes`.
    #[serde(default)]
    pub left_bytes: u64,
    /// Resident pages of the process's regions on each NUMA node. Left out when the budget is not
    /// split among nodes. Also left out when the process ended before the last sample with a
    /// running process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeDocument>,
    #[serde(flatten)]
    pub counts: CountsDocument,
}

/// The resident pages of a process on one NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDocument {
    pub node: u32,
    pub resident_bytes: u64,
}

/// The processes of a session, including those that have exited.
#[derive(Debug, Default)]
pub struct SessionProcesses(Vec<SeenProcess>);

/// A process of the session, with its counts in the last sample that found it.
#[derive(Debug)]
struct SeenProcess {
    process: Process,
    /// True if the process was running in the last sample with any running process. All such
    /// processes are in the same sample, so their resident pages can be added.
    was_running: bool,
}

impl SessionProcesses {
    /// Updates the list of processes from the ledger. Frees the slots of processes that have
    /// exited.
    pub fn update_and_recover(&mut self, ledger: &BudgetLedger) {
        // Call `processes` before `recover`: both then find a process that exits between the two
        // calls.
        let found = ledger.processes();
        self.merge(found, ledger.recover());
    }

    /// Updates the list of processes from the ledger. Frees no slot.
    pub fn update(&mut self, ledger: &BudgetLedger) {
        self.merge(ledger.processes(), vec![]);
    }

    /// Updates the list. `found` are the processes with a slot in the ledger. `ended` are processes
    /// that have ended, whose slots were freed.
    fn merge(&mut self, found: Vec<Process>, ended: Vec<Process>) {
        let has_ended =
            |process: &Process| ended.iter().any(|other| other.identity == process.identity);
        let running: Vec<Identity> =
            found.iter().filter(|it| !has_ended(it)).map(|process| process.identity).collect();
        for process in found.into_iter().chain(ended) {
            match self.0.iter_mut().find(|seen| seen.process.identity == process.identity) {
                Some(seen) => seen.process = process,
                None => self.0.push(SeenProcess { process, was_running: true }),
            }
        }
        if !running.is_empty() {
            for seen in &mut self.0 {
                seen.was_running = running.contains(&seen.process.identity);
            }
        }
    }
}

impl Check for ExtendDocument {}

impl ExtendDocument {
    /// Creates the document with the session's counts so far. `seen` has the processes of the
    /// session.
    pub fn new(settings: &SessionSettings, ledger: &BudgetLedger, seen: &SessionProcesses) -> Self {
        let here = ledger.processes();
        let all = here.iter().map(|process| process.counts).chain([ledger.past_counts()]);
        let sum = all
            .map(CountsDocument::from)
            .fold(CountsDocument::default(), |sum, counts| sum + counts);
        // `sum` adds the peak footprints of the processes, which may be of different times. The
        // ledger has the footprint of the session: the peak of all processes together.
        let total = CountsDocument { footprint_bytes: ledger.footprint() * PAGE_BYTES, ..sum };
        Self {
            schema: SCHEMA.into(),
            command: settings.command.clone(),
            exit_code: None,
            signal: None,
            elapsed_s: 0.0,
            dram_bytes: settings.dram_bytes,
            min_alloc_bytes: settings.min_alloc_bytes,
            is_without_children: settings.children == Children::None,
            stores: settings.stores.clone(),
            resident_max_bytes: None,
            outside: None,
            swapped_bytes: 0,
            user_s: None,
            system_s: None,
            total,
            processes: seen.0.iter().map(|seen| ProcessDocument::new(settings, seen)).collect(),
        }
    }

    /// Records that the command has ended after `elapsed`, with the exit status `status` if it is
    /// known.
    pub fn record_exit(&mut self, status: Option<ExitStatus>, elapsed: Duration) {
        self.exit_code = status.and_then(|status| status.code());
        self.signal = status.and_then(|status| status.signal());
        self.elapsed_s = rounded(elapsed.as_secs_f64());
    }
}

impl std::ops::Add for CountsDocument {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            faults: self.faults + other.faults,
            soft_faults: self.soft_faults + other.soft_faults,
            prefetched_pages: self.prefetched_pages + other.prefetched_pages,
            prefetch_hits: self.prefetch_hits + other.prefetch_hits,
            prefetch_wasted: self.prefetch_wasted + other.prefetch_wasted,
            evicted_pages: self.evicted_pages + other.evicted_pages,
            footprint_bytes: self.footprint_bytes + other.footprint_bytes,
            read_bytes: self.read_bytes + other.read_bytes,
            written_bytes: self.written_bytes + other.written_bytes,
            stall_s: rounded(self.stall_s + other.stall_s),
        }
    }
}

impl std::ops::Sub for CountsDocument {
    type Output = Self;

    /// Returns the counts since the reading `earlier`. Only `footprint_bytes`, a peak, is not a
    /// difference: it is the value of `self`.
    fn sub(self, earlier: Self) -> Self {
        Self {
            faults: self.faults.saturating_sub(earlier.faults),
            soft_faults: self.soft_faults.saturating_sub(earlier.soft_faults),
            prefetched_pages: self.prefetched_pages.saturating_sub(earlier.prefetched_pages),
            prefetch_hits: self.prefetch_hits.saturating_sub(earlier.prefetch_hits),
            prefetch_wasted: self.prefetch_wasted.saturating_sub(earlier.prefetch_wasted),
            evicted_pages: self.evicted_pages.saturating_sub(earlier.evicted_pages),
            footprint_bytes: self.footprint_bytes,
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            stall_s: rounded((self.stall_s - earlier.stall_s).max(0.0)),
        }
    }
}

impl From<Counts> for CountsDocument {
    fn from(counts: Counts) -> Self {
        Self {
            faults: counts.faults,
            soft_faults: counts.minor_faults,
            prefetched_pages: counts.prefetched,
            prefetch_hits: counts.prefetch_hits,
            prefetch_wasted: counts.prefetch_wasted,
            evicted_pages: counts.evicted,
            footprint_bytes: counts.footprint * PAGE_BYTES,
            read_bytes: counts.read * PAGE_BYTES,
            written_bytes: counts.written * PAGE_BYTES,
            stall_s: rounded(counts.stalled_ns as f64 / 1e9),
        }
    }
}

impl ProcessDocument {
    fn new(settings: &SessionSettings, seen: &SeenProcess) -> Self {
        let SeenProcess { process, was_running } = seen;
        let nodes = settings.nodes.iter().zip(&process.by_node).filter(|_| *was_running);
        let nodes = nodes.map(|(budget, pages)| NodeDocument {
            node: budget.node,
            resident_bytes: pages * PAGE_BYTES,
        });
        Self {
            nodes: nodes.collect(),
            pid: process.identity.pid,
            name: process.name.clone(),
            dram_bytes: process.held * PAGE_BYTES,
            outside_bytes: None,
            left_bytes: process.unextended_bytes,
            counts: process.counts.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32) -> Process {
        Process {
            identity: Identity { pid, start: 1 },
            name: "solver".into(),
            wanted: 0,
            target: 0,
            held: 0,
            resident: 0,
            unextended_bytes: 0,
            counts: Counts::default(),
            by_node: [0; interleaf_pager::cache::node::NODES_MAX],
        }
    }

    fn running(seen: &SessionProcesses) -> Vec<u32> {
        let running = seen.0.iter().filter(|seen| seen.was_running);
        running.map(|seen| seen.process.identity.pid).collect()
    }

    #[test]
    fn the_last_running_processes_are_known_after_their_end() {
        let mut seen = SessionProcesses::default();
        seen.merge(vec![process(1), process(2)], vec![]);
        assert_eq!(running(&seen), [1, 2]);
        seen.merge(vec![process(2), process(3)], vec![process(2)]);
        assert_eq!(running(&seen), [3], "process 1 has left, and process 2 was killed");
        seen.merge(vec![process(3)], vec![process(3)]);
        seen.merge(vec![], vec![]);
        assert_eq!((running(&seen), seen.0.len()), (vec![3], 3), "the end of the session");
    }
}
