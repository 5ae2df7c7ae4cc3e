//! Measures the memory of extended processes that is outside the budget: objects smaller than 128
//! KiB, static data, stacks, and allocations below the minimum size of an extended allocation.

use interleaf_linux::{process::anonymous_bytes, root::Root};
use interleaf_pager::{
    session::PAGE_BYTES,
    session::ledger::{BudgetLedger, Process},
};
use interleaf_record::extend::ExtendDocument;
use std::collections::BTreeMap;

/// The peak memory outside the budget of each process, by process ID.
pub(super) struct OutsideBudget {
    root: Root,
    peaks: BTreeMap<u32, Peak>,
}

#[derive(Clone, Copy, Default)]
struct Peak {
    /// An upper estimate of the number of frames (pages of the budget) that occupy memory. It is
    /// the highest number of resident frames so far, but at most the number of frames that the
    /// process has reserved now. The number of frames that are resident now would be too low,
    /// because an emptied frame keeps its memory.
    frames: u64,
    /// The largest difference between the anonymous memory of the process and the size of its
    /// `frames`, bytes.
    outside_bytes: u64,
}

impl OutsideBudget {
    pub(super) fn new() -> Self {
        Self { root: Root::live(), peaks: BTreeMap::new() }
    }

    /// Updates the peak of each process that has a share of the budget.
    pub(super) fn update(&mut self, ledger: &BudgetLedger) {
        for Process { identity, held, resident, .. } in ledger.processes() {
            // Skip a process that has ended, or that belongs to another user: its memory cannot be
            // read.
            let Ok(Some(bytes)) = anonymous_bytes(&self.root, identity.pid) else { continue };
            let peak = self.peaks.entry(identity.pid).or_default();
            peak.frames = peak.frames.max(resident).min(held);
            let outside = bytes.saturating_sub(peak.frames * PAGE_BYTES);
            peak.outside_bytes = peak.outside_bytes.max(outside);
        }
    }

    /// Sets `outside_bytes` of each process in the document to the peak of the process.
    pub(super) fn add_to(&self, document: &mut ExtendDocument) {
        for process in &mut document.processes {
            let peak = self.peaks.get(&process.pid);
            process.outside_bytes = peak.map(|peak| peak.outside_bytes);
        }
    }
}
