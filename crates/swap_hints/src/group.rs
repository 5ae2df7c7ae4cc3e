//! Hints for all processes of a control group.
//!
//! The caller makes the control group, its memory limit and the swap file, and also removes them.
//! This module changes no setting of the machine.

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

/// Mappings shorter than this number of bytes (1 MiB) are not scanned and get no hints.
const MAPPING_BYTES_MIN: u64 = 1 << 20;

/// The pause between two scans is the longer of `SCAN_PAUSE` and the duration of the last scan
/// times `SCAN_PAUSE_FACTOR`, so that scans take at most a fifth of the time of one CPU.
const SCAN_PAUSE: Duration = Duration::from_millis(2);
const SCAN_PAUSE_FACTOR: u32 = 4;

/// The hints page out pages that sequential sweeps have passed, until 1 / `FREE_DIVISOR` of the
/// memory limit is free. The free memory is for pages that are read ahead, and for pages whose
/// page-out is not complete.
const FREE_DIVISOR: u64 = 4;

/// For each stream, at most 1 / `READ_AHEAD_DIVISOR` of the memory limit is read ahead.
const READ_AHEAD_DIVISOR: u64 = 16;

/// A control group whose processes get hints.
#[derive(Debug)]
pub struct HintedGroup {
    /// The file that lists the processes of the group.
    processes_file: PathBuf,
    dram_bytes: u64,
    processes: BTreeMap<u32, (ScannedProcess, HintPolicy)>,
    /// The number of pages to read ahead and the number of pages to page out, in all hints so far.
    hinted: (u64, u64),
}

impl HintedGroup {
    /// Makes a `HintedGroup` for the control group whose processes `processes_file`
    /// (`cgroup.procs`) lists. `dram_bytes` is the memory limit of the control group.
    pub const fn new(processes_file: PathBuf, dram_bytes: u64) -> Self {
        Self { processes_file, dram_bytes, processes: BTreeMap::new(), hinted: (0, 0) }
    }

    /// Scans all processes of the group once, except the calling process, and gives hints about
    /// their pages to the kernel. Returns the pause until the next scan.
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
                // Skip a process that has ended since the list was read.
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

    /// The number of pages to read ahead and the number of pages to page out, in all hints so far.
    pub const fn hinted(&self) -> (u64, u64) {
        self.hinted
    }
}
