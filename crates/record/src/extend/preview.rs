//! The plan of `interleaf extend --dry-run` and `--estimate`, as `interleaf.extend.plan/1`: the
//! checks of the command and its stores, and the speed that the stores allow.
//!
//! With a footprint F and a DRAM budget B, a pass over the footprint reads the fraction m = 1 - B/F
//! of it from the stores. If half of the footprint is missing (m = 0.5), a store of 3 GB/s allows
//! passes at 3 / 0.5 = 6 GB/s.

use crate::{check::Check, rounded};
use interleaf_pager::session::SessionSettings;
use interleaf_store::speed::StoreSpeed;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub const SCHEMA: &str = "interleaf.extend.plan/1";

/// The default footprints for which speeds are estimated, as multiples of the budget.
const FOOTPRINTS: [u64; 3] = [1, 2, 4];

/// Bytes written per byte read in STREAM's triad, `a[i] = b[i] + s*c[i]`, with extended memory: the
/// pager reads all three arrays, but writes back only `a`.
const TRIAD_WRITTEN: f64 = 1.0 / 3.0;

/// The result of `interleaf extend` with `--dry-run` or `--estimate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExtendPlanDocument {
    pub schema: String,
    pub command: Vec<String>,
    pub dram_bytes: u64,
    pub min_alloc_bytes: u64,
    pub stores: Vec<PathBuf>,
    /// True if no check prevents the start of the command.
    pub can_be_done: bool,
    pub checks: Vec<CheckDocument>,
    /// The result of `--estimate`; null without `--estimate`.
    pub estimate: Option<EstimateDocument>,
}

impl Check for ExtendPlanDocument {}

/// The result of one check before the start of the command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckDocument {
    pub what: String,
    pub status: CheckStatus,
    pub detail: String,
    pub remedy: Option<String>,
}

/// The result of a check: whether the command may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    /// The check passed.
    Yes,
    /// The command starts, but the user is warned.
    Warning,
    /// The command starts only with `--force`.
    #[serde(rename = "no, but --force")]
    Waivable,
    /// The command does not start, not even with `--force`.
    No,
}

display_word!(CheckStatus);

/// The measured speeds of the stores, and the upper bounds that they set on a program's speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EstimateDocument {
    pub drives: Vec<DriveSpeed>,
    /// Bandwidth of sequential reads, GB/s: the sum over all stores.
    pub read_gbps: f64,
    /// Bandwidth of sequential writes, GB/s: the sum over all stores.
    pub write_gbps: f64,
    /// Upper bounds of a program's speed for each footprint.
    pub rows: Vec<EstimateRow>,
}

/// The measured speed of one store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveSpeed {
    pub path: PathBuf,
    /// Number of bytes that the measurement wrote and then read.
    pub measured_bytes: u64,
    pub read_gbps: f64,
    pub write_gbps: f64,
    /// Results of random reads of 4 KiB at each queue depth.
    pub random: Vec<RandomDocument>,
}

/// The result of random reads of 4 KiB with `depth` outstanding requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RandomDocument {
    pub depth: usize,
    pub iops: f64,
    pub latency_us: f64,
}

/// Upper bounds of the speed of a program with the footprint `footprint_bytes`. They are null when
/// the footprint fits into the budget: the stores set no bound then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EstimateRow {
    pub footprint_bytes: u64,
    /// Fraction of the footprint that exceeds the budget, 0 to 1.
    pub missing_share: f64,
    /// Bandwidth of sequential read passes over the footprint, GB/s.
    pub read_gbps: Option<f64>,
    /// Bandwidth of STREAM's triad, GB/s, counted as STREAM does.
    pub triad_gbps: Option<f64>,
    /// Mean time of a random access by a single thread, us. An access to DRAM counts as 0 us.
    pub random_us: Option<f64>,
    /// Mean time between two random accesses of many threads, us. There are as many threads as the
    /// largest measured queue depth. An access to DRAM counts as 0 us.
    pub random_many_us: Option<f64>,
}

impl CheckDocument {
    /// Creates the document of a check that passed.
    pub fn fine(what: &str, detail: String) -> Self {
        Self { what: what.into(), status: CheckStatus::Yes, detail, remedy: None }
    }

    pub fn warning(what: &str, detail: String, hint: &str) -> Self {
        Self::with_hint(what, CheckStatus::Warning, detail, hint)
    }

    pub fn waivable(what: &str, detail: String, hint: &str) -> Self {
        Self::with_hint(what, CheckStatus::Waivable, detail, hint)
    }

    pub fn refused(what: &str, detail: String, hint: &str) -> Self {
        Self::with_hint(what, CheckStatus::No, detail, hint)
    }

    fn with_hint(what: &str, status: CheckStatus, detail: String, hint: &str) -> Self {
        Self { what: what.into(), status, detail, remedy: Some(hint.into()) }
    }

    /// True if the check prevents the start of the command. If `force` is true, a waivable check
    /// does not prevent the start.
    pub fn stands_against(&self, force: bool) -> bool {
        self.status == CheckStatus::No || !force && self.status == CheckStatus::Waivable
    }

    /// True if the check did not pass. The user then sees it even without `--dry-run`.
    pub fn is_doubtful(&self) -> bool {
        self.status != CheckStatus::Yes
    }
}

impl ExtendPlanDocument {
    pub fn new(settings: &SessionSettings, checks: Vec<CheckDocument>, force: bool) -> Self {
        Self {
            schema: SCHEMA.into(),
            command: settings.command.clone(),
            dram_bytes: settings.dram_bytes,
            min_alloc_bytes: settings.min_alloc_bytes,
            stores: settings.stores.clone(),
            can_be_done: !checks.iter().any(|check| check.stands_against(force)),
            checks,
            estimate: None,
        }
    }
}

impl DriveSpeed {
    pub fn new(path: &Path, drive: &StoreSpeed) -> Self {
        let random = drive.random.iter().map(|random| RandomDocument {
            depth: random.depth,
            iops: rounded(random.iops),
            latency_us: rounded(random.latency_us),
        });
        Self {
            path: path.into(),
            measured_bytes: drive.bytes,
            read_gbps: rounded(drive.read_gbps),
            write_gbps: rounded(drive.write_gbps),
            random: random.collect(),
        }
    }
}

impl EstimateDocument {
    /// Computes upper bounds of a program's speed with a budget of `dram_bytes` and the stores
    /// `drives`: for the footprint `footprint_bytes`, or if it is `None`, for the default
    /// footprints.
    pub fn new(dram_bytes: u64, footprint_bytes: Option<u64>, drives: Vec<DriveSpeed>) -> Self {
        let read_gbps = rounded(drives.iter().map(|drive| drive.read_gbps).sum());
        let write_gbps = rounded(drives.iter().map(|drive| drive.write_gbps).sum());
        let footprints = match footprint_bytes {
            Some(bytes) => vec![bytes],
            None => FOOTPRINTS.map(|times| times * dram_bytes).to_vec(),
        };
        // A thread waits for one page at a time. The drives hold equal parts of the pages, so a
        // thread's mean wait is the mean of the drives' latencies.
        let one = drives.iter().filter_map(|drive| drive.random.first());
        let alone = one.clone().map(|random| random.latency_us).sum::<f64>() / one.count() as f64;
        let many: f64 =
            drives.iter().filter_map(|drive| drive.random.last()).map(|random| random.iops).sum();
        let row = |footprint_bytes: u64| {
            let missing = 1.0 - dram_bytes as f64 / footprint_bytes as f64;
            let of = |value: f64| (missing > 0.0).then(|| rounded(value));
            EstimateRow {
                footprint_bytes,
                missing_share: rounded(missing.max(0.0)),
                read_gbps: of(read_gbps / missing),
                triad_gbps: of(1.0 / (missing * (1.0 / read_gbps + TRIAD_WRITTEN / write_gbps))),
                random_us: of(missing * alone),
                random_many_us: of(missing * 1e6 / many),
            }
        };
        let rows = footprints.into_iter().map(row).collect();
        Self { drives, read_gbps, write_gbps, rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(read_gbps: f64) -> DriveSpeed {
        let random = |depth: usize, latency_us: f64| RandomDocument {
            depth,
            iops: 1e6 * depth as f64 / latency_us,
            latency_us,
        };
        DriveSpeed {
            path: "/mnt".into(),
            measured_bytes: 1 << 30,
            read_gbps,
            write_gbps: 1.0,
            random: vec![random(1, 100.0), random(64, 320.0)],
        }
    }

    #[test]
    fn twice_the_budget_reads_at_twice_the_rate_of_the_drive() {
        let estimate = EstimateDocument::new(8 << 30, None, vec![drive(3.0)]);
        assert_eq!(estimate.rows[0].missing_share, 0.0);
        assert_eq!(estimate.rows[0].read_gbps, None, "what fits needs no drive");
        let row = &estimate.rows[1];
        assert_eq!((row.footprint_bytes, row.missing_share), (16 << 30, 0.5));
        assert_eq!((row.read_gbps, row.random_us), (Some(6.0), Some(50.0)));
        // The drive reads 3 GB/s and writes 1 GB/s. A byte that is not in DRAM costs 1/3 ns for the
        // read, and 1/3 ns for the write-back of a third of a byte: 1.5 GB/s. Half of the bytes are
        // in DRAM, so the triad reaches 3 GB/s.
        assert_eq!((row.triad_gbps, row.random_many_us), (Some(3.0), Some(2.5)));
    }

    #[test]
    fn two_drives_are_twice_as_fast_but_for_one_thread() {
        let estimate = EstimateDocument::new(1 << 30, Some(4 << 30), vec![drive(3.0), drive(3.0)]);
        let row = &estimate.rows[0];
        assert_eq!((row.read_gbps, row.random_us), (Some(8.0), Some(75.0)));
        assert_eq!(row.random_many_us, Some(1.875));
    }

    #[test]
    fn force_waives_only_waivable_checks() {
        let waivable = CheckDocument::waivable("store", "on a tmpfs".into(), "another");
        let refused = CheckDocument::refused("command", "static".into(), "another");
        assert!(waivable.stands_against(false) && !waivable.stands_against(true));
        assert!(refused.stands_against(true));
    }
}
