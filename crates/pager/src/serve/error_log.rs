//! Messages on standard error about failed transfers, poisoned pages and thrashing.

use interleaf_procfs::page::PAGE_BYTES;
use interleaf_store::TransferError;
use rustix::process::{Resource, getrlimit};
use std::{
    io::ErrorKind,
    time::{Duration, Instant},
};

/// Minimum time between two messages about failed transfers. A failed drive fails many transfers.
const PAUSE: Duration = Duration::from_secs(1);

/// A log on standard error. All failed transfers within [`PAUSE`] are reported in one message.
#[derive(Debug, Default)]
pub(crate) struct ErrorLog {
    last_message: Option<Instant>,
    /// Number of failed transfers since the last message, and the text of the last failure.
    pending: Option<(u64, String)>,
}

impl ErrorLog {
    /// Logs a failed transfer: at once, or in a later message if the last message is recent
    /// ([`PAUSE`]).
    pub(crate) fn transfer_failed(&mut self, error: &TransferError) {
        let mut text = error.to_string();
        if matches!(error.why.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
            let limit = getrlimit(Resource::Fsize).current;
            text += &hint_when_full(limit);
        }
        let count = self.pending.take().map_or(1, |(count, _)| count + 1);
        self.pending = Some((count, text));
        if self.last_message.is_none_or(|last| last.elapsed() >= PAUSE) {
            self.flush();
        }
    }

    /// Logs that each access to the page at `address` will raise SIGBUS. First logs the failed
    /// transfer by which the page was lost.
    pub(crate) fn page_poisoned(&mut self, address: usize) {
        self.flush();
        print(&format!("the page at {address:#x} is lost: an access to it raises SIGBUS"));
    }

    /// Logs that the program thrashes. `budget` is the present budget, and `enough` is the budget
    /// that would end the thrashing, both in frames.
    pub(crate) fn thrashing(stall_share: f64, budget: u64, enough: u64) {
        print(&format!(
            "the program waits for the drive {:.0} % of the time, for pages that it accesses in no \
             order\nhint: a budget of {} would end this, in place of {}; see --dram",
            100.0 * stall_share.min(1.0),
            mebibytes(enough),
            mebibytes(budget),
        ));
    }

    /// Logs the transfers that have failed since the last message.
    pub(crate) fn flush(&mut self) {
        let Some((count, text)) = self.pending.take() else { return };
        self.last_message = Some(Instant::now());
        print(&match count {
            1 => text,
            _ => format!("{text} ({count} times since the last message)"),
        });
    }
}

/// The hint for the user if a store is full. `file_limit` is the limit of the size of files, bytes
/// (`RLIMIT_FSIZE`). A file in the store that has reached this limit also counts as full.
fn hint_when_full(file_limit: Option<u64>) -> String {
    let limit = file_limit.map_or(String::new(), |bytes| {
        format!(
            ", or raise the limit of {} for files (ulimit -f)",
            mebibytes(bytes / PAGE_BYTES as u64)
        )
    });
    format!(
        "\nhint: free space there{limit}, or name one more --store: it is tried again until the \
         budget is full too"
    )
}

/// The size of `frames` frames in MiB, rounded up.
fn mebibytes(frames: u64) -> String {
    format!("{} MiB", frames.div_ceil((1 << 20) / PAGE_BYTES as u64))
}

fn print(text: &str) {
    // A failed write is ignored: standard error may be closed.
    let text = format!("interleaf: {text}\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_for_a_full_store_names_the_limit_of_files() {
        assert!(hint_when_full(None).contains("free space there, or name one more --store"));
        let hint = hint_when_full(Some(40 << 20));
        assert!(hint.contains("raise the limit of 40 MiB for files (ulimit -f)"), "{hint}");
    }
}
