//! A comparison of kinds of memory for a program's data, as `interleaf.bench.compare/1`. The field
//! `way` names the kind of memory: `dram`, `pager`, `swap`, `swap-tuned` or `mmap`.
//!
//! `interleaf bench compare` runs each pattern on each way, at several ratios of footprint to
//! budget. The efficiency is the speed of a pattern on a way, divided by its speed on DRAM. The
//! ceiling is the speed that the drive allows for the bytes that optimal replacement (Belady) would
//! transfer.

mod figures;

use super::{
    check::{Check, Checked, identifier, invalid},
    rounded,
};
use interleaf_linux::root::Root;
use serde::{Deserialize, Serialize};
use std::path::Path;

pub const SCHEMA: &str = "interleaf.bench.compare/1";

/// Comparison of a workload's speed on several kinds of memory, by `interleaf bench compare`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchCompareDocument {
    pub schema: String,
    pub machine: BenchMachine,
    pub dram_bytes: u64,
    pub slack_bytes: u64,
    pub threads: u32,
    pub rows: Vec<BenchRow>,
    /// Known ceilings, at most one for each pattern and ratio.
    pub ceilings: Vec<CeilingDocument>,
}

/// Properties of the machine that affect the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchMachine {
    pub kernel: String,
    pub cpu: String,
    pub cpus: u32,
    pub drive: String,
    /// Default read-ahead of mapped files, KiB. If it is large, sequential patterns are faster on
    /// `mmap`.
    pub read_ahead_kb: Option<u64>,
    pub page_cluster: Option<u64>,
    pub transparent_hugepage: String,
}

/// Results of a pattern on one kind of memory, at one ratio of footprint to budget. The row is one
/// JSON object with 24 fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BenchRow {
    pub pattern: String,
    /// Requested ratio of footprint to budget.
    pub ratio: f64,
    pub footprint_bytes: u64,
    pub way: String,
    /// For mapped files, the madvise hint with the best rate; null for other kinds of memory.
    pub hint: Option<String>,
    /// Rate with each madvise hint that was tried.
    pub tried: Vec<TriedDocument>,
    /// Median of `rates`, in `rate_unit`.
    pub rate: Option<f64>,
    pub rate_unit: String,
    pub rates: Vec<f64>,
    /// Median time of a round, s.
    pub round_s: Option<f64>,
    /// `rate` divided by the rate of the same pattern on DRAM at the same ratio.
    pub efficiency: Option<f64>,
    /// Time of a round at the ceiling divided by `round_s`: 1 if the row reaches the ceiling.
    pub of_ceiling: Option<f64>,
    /// Bandwidth of the drive in a round, divided by the drive's maximum bandwidth for the same mix
    /// of reads and writes. Null for random patterns: the drive's requests per second limit them,
    /// not its bandwidth.
    pub drive_busy: Option<f64>,
    /// Mean number of busy CPUs: CPU time divided by elapsed time; the median of the runs.
    pub cpus_busy: Option<f64>,
    /// Bytes read from the drive in a round; the median of the runs.
    pub read_bytes: Option<u64>,
    /// Bytes written to the drive in a round; the median of the runs.
    pub written_bytes: Option<u64>,
    /// Memory limit of the program's control group; null for the ways `dram` and `pager`.
    #[serde(default)]
    pub limit_bytes: Option<u64>,
    /// Peak memory of the program's control group. It includes the page cache.
    pub used_max_bytes: Option<u64>,
    /// Peak resident memory of the program.
    pub resident_max_bytes: Option<u64>,
    /// Counts of the pager in the last run; null for other ways. They include the initialisation of
    /// the arrays.
    pub pager: Option<PagerDocument>,
    pub verified: bool,
    /// True if the pattern's results are bit-identical to its results on DRAM.
    pub same_as_dram: Option<bool>,
    pub checksum: String,
    /// Reason why rounds are missing: a timeout or a failure.
    pub problem: Option<String>,
}

/// Counts of the pager, as in `interleaf extend --stats`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PagerDocument {
    pub faults: u64,
    pub prefetched_pages: u64,
    pub prefetch_hits: u64,
    pub prefetch_wasted: u64,
    pub evicted_pages: u64,
    pub stall_s: f64,
}

/// The ceiling of a pattern at one ratio of footprint to budget: the highest speed that the budget
/// and the drive allow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CeilingDocument {
    pub pattern: String,
    pub ratio: f64,
    /// Assumed size of the optimal cache: the largest peak memory of the runs with extended memory,
    /// and at least the budget.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Bytes that a round with optimal replacement reads from the drive, computed from the blocks
    /// that the loops touch; null when the loops are in a library.
    pub least_read_bytes: Option<u64>,
    /// Bytes that a round with optimal replacement writes to the drive; null when
    /// `least_read_bytes` is.
    pub least_written_bytes: Option<u64>,
    pub drive: Option<DriveRateDocument>,
    /// Time of a round at the ceiling, s: the longer of two times. One is the time that the drive
    /// needs for the bytes of optimal replacement. The other is the shortest `round_s` of all ways,
    /// which estimates the time without waits for the drive.
    pub round_s: Option<f64>,
    /// Efficiency at the ceiling: the time of a round on DRAM, divided by `round_s`.
    pub efficiency: Option<f64>,
}

/// Maximum bandwidth of the drive for a mix of reads and writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveRateDocument {
    /// Source of the bandwidth: fio with its settings, or a way that moved more bytes per second
    /// than fio did.
    pub by: String,
    /// Bandwidth of reads and writes together, GB/s.
    pub bandwidth_gbps: f64,
    pub read_share: f64,
}

/// The rate of a pattern on a mapped file with one madvise hint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedDocument {
    pub hint: String,
    pub rate: f64,
}

impl Check for BenchCompareDocument {
    fn check(&self) -> Checked {
        let entry = |name: String, pattern: &str, ratio: f64| {
            identifier(format!("{name}.pattern"), pattern)?;
            match ratio > 0.0 {
                true => Ok(()),
                false => invalid(format!("{name}.ratio"), format!("{ratio} is not above 0")),
            }
        };
        for (at, row) in self.rows.iter().enumerate() {
            entry(format!("rows[{at}]"), &row.pattern, row.ratio)?;
        }
        for (at, ceiling) in self.ceilings.iter().enumerate() {
            entry(format!("ceilings[{at}]"), &ceiling.pattern, ceiling.ratio)?;
        }
        Ok(())
    }
}

/// The memory that a run may use.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// DRAM that the pages of the workload's arrays may occupy.
    pub dram_bytes: u64,
    /// Memory beyond `dram_bytes` that the control group allows, for the program's other memory.
    pub slack_bytes: u64,
}

impl BenchCompareDocument {
    /// Creates the document without rows. `store` is a folder on the drive that `machine.drive`
    /// names.
    pub fn new(budget: Budget, threads: u32, store: &Path, root: &Root) -> Self {
        Self {
            schema: SCHEMA.into(),
            machine: BenchMachine::read(store, root),
            dram_bytes: budget.dram_bytes,
            slack_bytes: budget.slack_bytes,
            threads,
            rows: vec![],
            ceilings: vec![],
        }
    }

    /// Adds `rows`, one for each kind of memory (way). All rows have the same pattern and ratio of
    /// footprint to budget. Computes their results relative to the row on DRAM, such as the
    /// efficiency. Removes earlier rows of this pattern and ratio, which are from fewer rounds.
    /// `moves_bytes` is true if the drive's bandwidth limits the pattern, and false if the drive's
    /// requests per second do.
    pub fn replace_rows(
        &mut self,
        mut rows: Vec<BenchRow>,
        ceiling: Option<CeilingDocument>,
        moves_bytes: bool,
    ) {
        let is_of = |pattern: &str, ratio: f64| {
            rows.iter().any(|row| row.pattern == pattern && row.ratio == ratio)
        };
        self.rows.retain(|row| !is_of(&row.pattern, row.ratio));
        self.ceilings.retain(|it| !is_of(&it.pattern, it.ratio));
        let dram = rows.iter().find(|row| row.way == "dram").cloned();
        for row in &mut rows {
            let Some(dram) = &dram else { continue };
            let rates = row.rate.zip(dram.rate);
            row.efficiency = rates.map(|(rate, dram)| rounded(rate / dram));
            let is_run = !row.checksum.is_empty() && !dram.checksum.is_empty();
            // A row on DRAM has no ceiling, because a run on DRAM does not use the drive.
            let ceiling = ceiling.as_ref().filter(|_| row.way != "dram");
            let best = ceiling.and_then(|it| it.round_s);
            row.of_ceiling = best.zip(row.round_s).map(|(best, round)| rounded(best / round));
            row.drive_busy = ceiling.filter(|_| moves_bytes).and_then(|it| {
                let gbps = (row.read_bytes? + row.written_bytes?) as f64 / 1e9 / row.round_s?;
                Some(rounded(gbps / it.drive.as_ref()?.bandwidth_gbps))
            });
            row.same_as_dram = is_run.then(|| row.checksum == dram.checksum);
        }
        self.rows.append(&mut rows);
        self.ceilings.extend(ceiling);
    }

    /// True if a run computed a wrong result: its row has a rate, but is not verified.
    pub fn has_wrong_result(&self) -> bool {
        self.rows.iter().any(|row| row.rate.is_some() && !row.verified)
    }
}

impl BenchMachine {
    fn read(store: &Path, root: &Root) -> Self {
        let text = |path: &str| root.peek(path).ok().flatten().unwrap_or_default();
        let cpu = text("/proc/cpuinfo");
        let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let huge = text("/sys/kernel/mm/transparent_hugepage/enabled");
        let huge = huge.split('[').nth(1).and_then(|rest| rest.split(']').next());
        let drive = drive(store, root);
        let queue = |name: &str| text(&format!("/sys/block/{drive}/queue/{name}"));
        Self {
            kernel: text("/proc/sys/kernel/osrelease").trim().into(),
            cpu: cpu.map_or(String::new(), |(_, name)| name.into()),
            cpus: std::thread::available_parallelism().map_or(1, |it| it.get() as u32),
            read_ahead_kb: queue("read_ahead_kb").trim().parse().ok(),
            page_cluster: text("/proc/sys/vm/page-cluster").trim().parse().ok(),
            transparent_hugepage: huge.unwrap_or("").into(),
            drive,
        }
    }
}

/// Returns the name of the block device with the folder `store`; for a partition, that of the whole
/// device. Returns an empty text if it is unknown.
fn drive(store: &Path, root: &Root) -> String {
    use std::os::unix::fs::MetadataExt as _;
    let device = store.metadata().map_or(0, |it| it.dev());
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = root.at(&format!("/sys/dev/block/{major}:{minor}")).canonicalize();
    let name = |path: &Path| {
        path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    match link {
        Ok(path) if path.join("partition").exists() => path.parent().map(name).unwrap_or_default(),
        Ok(path) => name(&path),
        Err(_) => String::new(),
    }
}
