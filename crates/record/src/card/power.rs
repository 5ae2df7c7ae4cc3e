//! The results of simulated power failures of cards, for the document of `simulate card`.

use crate::rounded;
use interleaf_card::{
    card::Card,
    fio::Job,
    power::{Cause, PowerFailure, PowerSweep, RestoreState},
};
use serde::{Deserialize, Serialize};

/// Sums over simulated power failures, and the largest energy of a save.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerFailureDocument {
    /// Number of simulated power failures. Those of one card and load are at different moments.
    pub failures: u64,
    /// Number of writes acknowledged before the failure, summed over all failures.
    pub acknowledged_writes: u64,
    /// Number of acknowledged writes whose data were missing after the recovery.
    pub lost_writes: u64,
    /// Number of torn writes: after the recovery, only a part of an atomic write unit was present.
    pub torn_writes: u64,
    /// Largest energy of a save, J; 0 when nothing was saved.
    pub flush_energy_j: f64,
}

/// Results of the power failures of one card under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardPowerFailure {
    pub card: String,
    /// fio's name of the load's access pattern, such as "randwrite". Several patterns are joined:
    /// "randread + randwrite".
    pub rw: String,
    pub iodepth: u32,
    #[serde(flatten)]
    pub result: PowerFailureDocument,
    /// Moment of the power failure, s from the start of the measurement; null for a sweep of random
    /// moments.
    pub at_s: Option<f64>,
    /// Number of lost and torn blocks that the card did not report.
    pub unreported_blocks: u64,
    /// Time of the longest save, s; null when nothing was saved.
    pub save_s: Option<f64>,
    /// Mean energy of a save, J; null when nothing was saved.
    pub save_energy_mean_j: Option<f64>,
    /// Minimum energy that a save left in the capacitor, J; null when nothing was saved.
    pub energy_left_j: Option<f64>,
    /// First lost or torn blocks of the worst power failure: the one with the most such blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<HarmedBlockDocument>,
    /// Faults of the save and of the restore at the worst power failure, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

/// A block that is lost or torn after a power failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HarmedBlockDocument {
    pub offset_bytes: u64,
    pub bytes: u64,
    /// Cause of the damage, in words.
    pub cause: String,
    /// True if the card had promised that the block is durable: it had completed a FLUSH, or a
    /// write with force unit access.
    pub after_flush: bool,
}

impl CardPowerFailure {
    /// Creates the document of the power failures of `sweep`. `at_s` is the moment of the failure,
    /// s; `None` for random moments.
    pub fn new(card: &Card, jobs: &[Job], at_s: Option<f64>, sweep: &PowerSweep) -> Self {
        let mut patterns: Vec<&str> = jobs.iter().map(|job| job.rw.name()).collect();
        patterns.dedup();
        let worst = sweep.worst.as_ref();
        let saves = worst.is_some_and(|failure| failure.save.is_some());
        let of_save = |value: f64| saves.then(|| rounded(value));
        Self {
            card: card.name.clone(),
            rw: patterns.join(" + "),
            iodepth: jobs.iter().map(|job| job.iodepth).max().unwrap_or(0),
            result: PowerFailureDocument {
                failures: sweep.moments,
                acknowledged_writes: sweep.acknowledged_writes,
                lost_writes: sweep.lost_writes,
                torn_writes: sweep.torn_writes,
                flush_energy_j: rounded(sweep.save_energy_max_j),
            },
            at_s: at_s.map(rounded),
            unreported_blocks: sweep.unreported_blocks,
            save_s: of_save(sweep.save_seconds_max),
            save_energy_mean_j: of_save(sweep.save_energy_mean_j),
            energy_left_j: of_save(sweep.left_min_j.max(0.0)),
            blocks: worst.map(harmed).unwrap_or_default(),
            findings: worst.map(findings).unwrap_or_default(),
        }
    }
}

fn harmed(failure: &PowerFailure) -> Vec<HarmedBlockDocument> {
    let block = |block: &interleaf_card::power::DamagedBlock| HarmedBlockDocument {
        offset_bytes: block.offset,
        bytes: block.bytes,
        cause: cause(block.cause).into(),
        after_flush: block.after_flush,
    };
    failure.blocks.iter().map(block).collect()
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::NotDurable => "acknowledged before its data were durable",
        Cause::Torn => "a part of its atomic unit was written",
        Cause::CapacitorEmpty => "the capacitor was empty before its page was saved",
        Cause::NoGoodBlock => "the NAND had no good block for its page",
        Cause::Uncorrectable => "its saved page has more bit errors than ECC corrects",
    }
}

/// Describes each fault of the save and of the restore after a power failure.
fn findings(failure: &PowerFailure) -> Vec<String> {
    let mut found = vec![];
    if let Some(save) = &failure.save {
        if save.programmed < save.pages {
            found.push(format!(
                "{} of {} pages were saved: the save needs {:.1} J",
                save.programmed, save.pages, save.needed_j
            ));
        }
        if save.remapped > 0 {
            let pages = if save.remapped == 1 { "page" } else { "pages" };
            let remapped = save.remapped;
            found.push(format!("{remapped} {pages} failed to program and went to other blocks"));
        }
    }
    if let Some(restore) = &failure.restore {
        let state = match restore.state {
            RestoreState::Complete => None,
            RestoreState::Partial => Some("a part of the memory was restored"),
            RestoreState::Nothing => Some("nothing was restored"),
        };
        let missing = restore.missing + restore.uncorrectable;
        found.extend(state.map(|state| format!("{state}: {missing} pages are missing")));
    }
    found
}
