//! Patterns on DRAM, on the pager, on swap and on mapped files, as `interleaf.bench.compare/1`.

mod figures;

use super::{
    check::{Check, Checked, identifier, invalid},
    rounded,
};
use interleaf_linux::root::Root;
use serde::{Deserialize, Serialize};
use std::path::Path;

pub const SCHEMA: &str = "interleaf.bench.compare/1";

/// What was run on what, and how fast it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchCompareDocument {
    pub schema: String,
    pub machine: BenchMachine,
    pub dram_bytes: u64,
    pub slack_bytes: u64,
    pub threads: u32,
    pub rows: Vec<BenchRow>,
    /// For each pattern at each footprint, where it is known.
    pub ceilings: Vec<CeilingDocument>,
}

/// What the figures depend on beside the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchMachine {
    pub kernel: String,
    pub cpu: String,
    pub cpus: u32,
    pub drive: String,
    /// What mapped files read ahead by default: much of it flatters streams.
    pub read_ahead_kb: Option<u64>,
    pub page_cluster: Option<u64>,
    pub transparent_hugepage: String,
}

/// A pattern on one of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BenchRow {
    pub pattern: String,
    /// The footprint over the budget, as it was asked for.
    pub ratio: f64,
    pub footprint_bytes: u64,
    pub way: String,
    /// Of a mapped file: what the kernel is told, the best of what was tried.
    pub hint: Option<String>,
    /// The hints that were tried, with the rate of each.
    pub tried: Vec<TriedDocument>,
    /// The median.
    pub rate: Option<f64>,
    pub rate_unit: String,
    pub rates: Vec<f64>,
    /// Seconds of a round, the median.
    pub round_s: Option<f64>,
    /// The rate over that on DRAM.
    pub efficiency: Option<f64>,
    /// How near it comes to the ceiling: the time of a round there over that here.
    pub of_ceiling: Option<f64>,
    /// Bytes moved to and from the drive, over the drive's rate for that mix; not of single pages
    /// that cannot be foreseen, where requests count and bytes do not.
    pub drive_busy: Option<f64>,
    /// Processor time over time, the median.
    pub cpus_busy: Option<f64>,
    /// What the drive did in a round, the median.
    pub read_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
    /// The limit of the control group of its last runs; none of the pager, which has a budget.
    #[serde(default)]
    pub limit_bytes: Option<u64>,
    /// The most memory that the program, and its files in memory, ever had.
    pub used_max_bytes: Option<u64>,
    /// The same of the program alone.
    pub resident_max_bytes: Option<u64>,
    /// What the pager says of its last run, filling the arrays included.
    pub pager: Option<PagerDocument>,
    pub verified: bool,
    /// Whether the results are those on DRAM, bit for bit.
    pub same_as_dram: Option<bool>,
    pub checksum: String,
    /// Why there is no more of it: it took too long, or failed.
    pub problem: Option<String>,
}

/// What the pager did, as `interleaf extend --stats` has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PagerDocument {
    pub faults: u64,
    pub prefetched_pages: u64,
    pub prefetch_hits: u64,
    pub prefetch_wasted: u64,
    pub evicted_pages: u64,
    pub stall_s: f64,
}

/// How fast a pattern can be at best with this budget and this drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CeilingDocument {
    pub pattern: String,
    pub ratio: f64,
    /// The memory that is taken for granted: the most that any way had.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// What a round has to read and write however good the prediction, by Belady's rule on the
    /// blocks that its loops touch; absent where the loops are those of a library.
    pub least_read_bytes: Option<u64>,
    pub least_written_bytes: Option<u64>,
    pub drive: Option<DriveRateDocument>,
    /// The longer one of a round on DRAM and of what the drive needs for that.
    pub round_s: Option<f64>,
    /// The same against DRAM.
    pub efficiency: Option<f64>,
}

/// What the drive does with a mix of reads and writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveRateDocument {
    /// What measured it, and how.
    pub by: String,
    /// Reads and writes together.
    pub bandwidth_gbps: f64,
    pub read_share: f64,
}

/// A hint that was tried.
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

/// The memory that a run may have.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// DRAM that holds pages of the arrays.
    pub dram_bytes: u64,
    /// Memory beyond it that a control group allows.
    pub slack_bytes: u64,
}

impl BenchCompareDocument {
    /// A comparison without rows, of a budget of DRAM over the drive that has the folder `store`.
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

    /// Sets the rows of a pattern at a footprint, each compared with DRAM, in place of those of
    /// fewer rounds. `moves_bytes` is whether bytes, and not requests, bound the drive: the pattern
    /// streams, or can be predicted.
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
            // What has all it needs in DRAM is no nearer to the drive's ceiling than that.
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

    /// Whether any run gave a wrong result.
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

/// The name of the drive that has the store, a partition's for that of the whole.
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
