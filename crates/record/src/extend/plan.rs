//! Whether a command can be extended, and what speed the stores allow, as
//! `interleaf.extend.plan/1`.

use crate::rounded;
use interleaf_pager::{drive::Drive, session::Settings};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const SCHEMA: &str = "interleaf.extend.plan/1";

/// Footprints that are shown when nobody names one, in budgets.
const FOOTPRINTS: [u64; 3] = [1, 2, 4];

/// Of each byte that STREAM's triad counts, all is read before it is used, and a third is written.
const TRIAD_WRITTEN: f64 = 1.0 / 3.0;

/// What would be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExtendPlanDocument {
    pub schema: String,
    pub command: Vec<String>,
    pub dram_bytes: u64,
    pub min_alloc_bytes: u64,
    pub stores: Vec<PathBuf>,
    /// Whether nothing stands against it.
    pub can_be_done: bool,
    pub checks: Vec<CheckDocument>,
    /// Absent unless it was asked for.
    pub estimate: Option<EstimateDocument>,
}

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckDocument {
    pub what: String,
    /// yes, warning, no, or "no, but --force".
    pub status: String,
    pub detail: String,
    pub remedy: Option<String>,
}

/// What stores give, and what that means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EstimateDocument {
    pub drives: Vec<DriveSpeed>,
    /// Of all stores together.
    pub read_gbps: f64,
    pub write_gbps: f64,
    /// What a program can have at most, for some footprints.
    pub rows: Vec<EstimateRow>,
}

/// What one store gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveSpeed {
    pub path: PathBuf,
    /// How much of it was written and read.
    pub measured_bytes: u64,
    pub read_gbps: f64,
    pub write_gbps: f64,
    /// Single pages of 4 KiB that are read.
    pub random: Vec<RandomDocument>,
}

/// Single pages that are read, so many at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RandomDocument {
    pub depth: usize,
    pub iops: f64,
    pub latency_us: f64,
}

/// What the drives allow a program of this footprint. Null: as fast as DRAM, no drive is needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EstimateRow {
    pub footprint_bytes: u64,
    /// What part of it does not fit in the budget.
    pub missing_share: f64,
    /// All of it read in order, again and again.
    pub read_gbps: Option<f64>,
    /// STREAM's triad, counted as STREAM counts.
    pub triad_gbps: Option<f64>,
    /// Each access to another page, from one thread, on average.
    pub random_us: Option<f64>,
    /// The same from as many threads as the deepest queue that was measured.
    pub random_many_us: Option<f64>,
}

impl CheckDocument {
    pub fn fine(what: &str, detail: String) -> Self {
        Self { what: what.into(), status: "yes".into(), detail, remedy: None }
    }

    pub fn warning(what: &str, detail: String, remedy: &str) -> Self {
        Self::other(what, "warning", detail, remedy)
    }

    pub fn waivable(what: &str, detail: String, remedy: &str) -> Self {
        Self::other(what, "no, but --force", detail, remedy)
    }

    pub fn refused(what: &str, detail: String, remedy: &str) -> Self {
        Self::other(what, "no", detail, remedy)
    }

    fn other(what: &str, status: &str, detail: String, remedy: &str) -> Self {
        Self { what: what.into(), status: status.into(), detail, remedy: Some(remedy.into()) }
    }

    /// Whether it is in the way.
    pub fn stands_against(&self, force: bool) -> bool {
        self.status == "no" || !force && self.status == "no, but --force"
    }

    /// Whether it is to be told.
    pub fn is_doubtful(&self) -> bool {
        self.status != "yes"
    }
}

impl ExtendPlanDocument {
    pub fn new(settings: &Settings, checks: Vec<CheckDocument>, force: bool) -> Self {
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
    pub fn new(path: &Path, drive: &Drive) -> Self {
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
    /// What these drives allow with so much DRAM.
    pub fn new(dram_bytes: u64, footprint_bytes: Option<u64>, drives: Vec<DriveSpeed>) -> Self {
        let read_gbps = rounded(drives.iter().map(|drive| drive.read_gbps).sum());
        let write_gbps = rounded(drives.iter().map(|drive| drive.write_gbps).sum());
        let footprints = match footprint_bytes {
            Some(bytes) => vec![bytes],
            None => FOOTPRINTS.map(|times| times * dram_bytes).to_vec(),
        };
        // A page is on one drive, whichever that is: one thread waits for one.
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
    fn half_of_it_missing_is_twice_the_drive() {
        let estimate = EstimateDocument::new(8 << 30, None, vec![drive(3.0)]);
        assert_eq!(estimate.rows[0].missing_share, 0.0);
        assert_eq!(estimate.rows[0].read_gbps, None, "what fits needs no drive");
        let row = &estimate.rows[1];
        assert_eq!((row.footprint_bytes, row.missing_share), (16 << 30, 0.5));
        assert_eq!((row.read_gbps, row.random_us), (Some(6.0), Some(50.0)));
        // A byte takes 1/3 ns to read, and a third of it 1/3 ns to write, for half of them.
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
    fn force_waives_what_may_be_waived() {
        let waivable = CheckDocument::waivable("store", "on a tmpfs".into(), "another");
        let refused = CheckDocument::refused("command", "static".into(), "another");
        assert!(waivable.stands_against(false) && !waivable.stands_against(true));
        assert!(refused.stands_against(true));
    }
}
