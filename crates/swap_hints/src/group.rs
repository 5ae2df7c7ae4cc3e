//! Swap hints for all processes of a control group.
//!
//! The caller creates the control group, its memory limit and the swap file, and removes them. This
//! module changes no setting of the machine.

use crate::{HintPolicy, count, scan::ScannedProcess};
use interleaf_prefetch::Limits;
use interleaf_procfs::{cgroup, page::PAGE_BYTES};
use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process,
    time::{Duration, Instant},
};

/// Minimum length, 1 MiB, of a mapping that is scanned and gets hints.
const MAPPING_BYTES_MIN: u64 = 1 << 20;

/// The pause after a scan is `SCAN_PAUSE_FACTOR` times the duration of the scan, but at least
/// `SCAN_PAUSE`. Scans therefore take at most a fifth of the time of one CPU.
const SCAN_PAUSE: Duration = Duration::from_millis(2);
const SCAN_PAUSE_FACTOR: u32 = 4;

/// The fraction 1 / `FREE_DIVISOR` of the memory limit is kept free. Until this memory is free,
/// hints page out pages that sequential sweeps have passed. The free memory is for pages that are
/// read ahead, and for pages whose page-out is not complete.
const FREE_DIVISOR: u64 = 4;

/// The hints for a stream of sequential accesses ask the kernel to read ahead at most the fraction
/// 1 / `READ_AHEAD_DIVISOR` of the group's memory limit.
const READ_AHEAD_DIVISOR: u64 = 16;

/// A control group whose processes get hints.
#[derive(Debug)]
pub struct HintedGroup {
    /// The file `cgroup.procs`, which lists the processes of the group.
    processes_file: PathBuf,
    dram_bytes: u64,
    processes: BTreeMap<u32, (ScannedProcess, HintPolicy)>,
    /// The total numbers of pages in all hints so far: pages to read ahead, and pages to page out.
    hinted: (u64, u64),
}

impl HintedGroup {
    /// Creates a `HintedGroup` for the control group whose processes are listed in the file
    /// `processes_file` (`cgroup.procs`). `dram_bytes` is the memory limit of the control group.
    pub const fn new(processes_file: PathBuf, dram_bytes: u64) -> Self {
        Self { processes_file, dram_bytes, processes: BTreeMap::new(), hinted: (0, 0) }
    }

    /// Scans all processes of the group once, except the calling process, and gives the kernel
    /// hints about their pages. Returns the pause before the next scan.
    pub fn scan(&mut self) -> Duration {
        let begun = Instant::now();
        let resident_max = (self.dram_bytes - self.dram_bytes / FREE_DIVISOR) / PAGE_BYTES as u64;
        let text = fs::read_to_string(&self.processes_file).unwrap_or_default();
        let pids: Vec<u32> = cgroup::processes(&text).collect();
        self.processes.retain(|pid, _| pids.contains(pid));
        let mut resident_elsewhere: u64 =
            self.processes.values().map(|(_, policy)| policy.resident()).sum();
        for pid in pids.into_iter().filter(|pid| *pid != process::id()) {
            if !self.processes.contains_key(&pid) {
                let max = (self.dram_bytes / READ_AHEAD_DIVISOR / PAGE_BYTES as u64).max(1);
                let policy = HintPolicy::new(Limits { initial: max.min(256), max });
                // A process that has ended since the list was read is skipped.
                let Ok(scanned) = ScannedProcess::new(pid) else { continue };
                self.processes.insert(pid, (scanned, policy));
            }
            let Some((scanned, policy)) = self.processes.get_mut(&pid) else { continue };
            let Ok(resident) = scanned.resident(MAPPING_BYTES_MIN) else { continue };
            resident_elsewhere -= policy.resident();
            let hints = policy.update(resident, resident_max.saturating_sub(resident_elsewhere));
            resident_elsewhere += policy.resident();
            scanned.give(&hints);
            self.hinted.0 += count(&hints.read_ahead);
            self.hinted.1 += count(&hints.page_out);
        }
        SCAN_PAUSE.max(begun.elapsed() * SCAN_PAUSE_FACTOR)
    }

    /// The total numbers of pages in all hints so far: pages to read ahead, and pages to page out.
    pub const fn hinted(&self) -> (u64, u64) {
        self.hinted
    }
}
