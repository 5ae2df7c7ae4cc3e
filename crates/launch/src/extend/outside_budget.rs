//! Measures the memory of extended processes that is outside the budget: objects smaller than 128
//! KiB, static data, stacks, and allocations below the minimum size of an extended allocation. Also
//! measures the memory that the kernel has in swap.

use interleaf_linux::{process::anonymous_memory, root::Root};
use interleaf_pager::{
    session::PAGE_BYTES,
    session::ledger::{BudgetLedger, Process},
};
use interleaf_record::extend::{ExtendDocument, OutsideDocument};
use std::collections::BTreeMap;

/// The peaks of the memory outside the budget: of each process, and of all processes together.
pub(super) struct OutsideBudget {
    root: Root,
    /// By process ID.
    processes: BTreeMap<u32, Peak>,
    /// The highest sum over the processes of one sample; `None` before the first process was read.
    together: Option<OutsideDocument>,
    /// The highest sum over the processes of their memory in swap, bytes.
    swapped: u64,
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
        Self { root: Root::live(), processes: BTreeMap::new(), together: None, swapped: 0 }
    }

    /// Takes a sample of each process that has a share of the budget, and updates the peaks.
    pub(super) fn update(&mut self, ledger: &BudgetLedger) {
        let (mut sum, mut swapped): (Option<OutsideDocument>, u64) = (None, 0);
        for Process { identity, held, resident, unextended_bytes, .. } in ledger.processes() {
            // Skip a process that has ended, or that belongs to another user: its memory cannot be
            // read.
            let Ok(Some(memory)) = anonymous_memory(&self.root, identity.pid) else { continue };
            let peak = self.processes.entry(identity.pid).or_default();
            peak.frames = peak.frames.max(resident).min(held);
            let bytes = memory.resident.saturating_sub(peak.frames * PAGE_BYTES);
            peak.outside_bytes = peak.outside_bytes.max(bytes);
            let sum = sum.get_or_insert_default();
            sum.bytes += bytes;
            sum.left_bytes += unextended_bytes.min(bytes);
            swapped += memory.swapped;
        }
        self.together = self.together.max(sum);
        self.swapped = self.swapped.max(swapped);
    }

    /// Sets `outside` and `swapped_bytes` of the document, and `outside_bytes` of each process in
    /// it, to the peaks.
    pub(super) fn add_to(&self, document: &mut ExtendDocument) {
        document.outside = self.together;
        document.swapped_bytes = self.swapped;
        for process in &mut document.processes {
            let peak = self.processes.get(&process.pid);
            process.outside_bytes = peak.map(|peak| peak.outside_bytes);
        }
    }
}
