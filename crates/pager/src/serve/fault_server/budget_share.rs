//! The fault server and the ledger of the session: the share of the budget, the counters, and the
//! hint for a program that thrashes.

use super::FaultServer;
use crate::{
    cache::{Action, Counts, Event, node::NODES_MAX},
    serve::error_log::ErrorLog,
    session::ledger::PAGES_MIN,
};
use interleaf_procfs::page::PAGE_BYTES;
use interleaf_thread::lock;
use std::time::Instant;

impl FaultServer {
    /// Sets the budget of the cache to this process's share, but at least to [`PAGES_MIN`] pages.
    /// While other processes have not released enough frames for a larger share, adopts only a part
    /// of it.
    pub(super) fn rebalance(&mut self, actions: &mut Vec<Action>) {
        let Some(slot) = lock(&self.context.slot).clone() else { return };
        let target = slot.target().max(PAGES_MIN);
        let frames = if target > slot.held() { slot.grow(target) } else { target };
        let frames = u32::try_from(frames).unwrap_or(u32::MAX);
        self.cache.react(Event::Budget(frames), actions);
    }

    /// Gives the memory of released frames back to the kernel. Lowers the number of pages that this
    /// process holds in the ledger.
    pub(super) fn release_frames(&mut self) {
        let mut has_released = false;
        for (frame, order) in self.cache.newly_released() {
            let start = frame as usize * PAGE_BYTES;
            self.frames.release(&(start..start + (PAGE_BYTES << order)));
            has_released = true;
        }
        if has_released && let Some(slot) = &*lock(&self.context.slot) {
            slot.shrink(self.cache.used_frames().into());
        }
    }

    /// Publishes the number of pages of all regions, which is the maximum number of frames that
    /// this process can use.
    pub(super) fn publish_wanted(&self) {
        if let Some(slot) = &*lock(&self.context.slot) {
            slot.set_wanted(self.cache.region_pages());
        }
    }

    /// Publishes in the ledger the counters, the number of pages with content, and the number of
    /// resident pages of each node.
    pub(super) fn publish_counts(&self) {
        let stalled = self.stalls.total().as_nanos();
        let stalled_ns = u64::try_from(stalled).unwrap_or(u64::MAX);
        let written = self.transfers.written_pages();
        let counts = Counts { stalled_ns, written, ..*self.cache.counts() };
        let (nodes, mut by_node) = (self.cache.division().nodes(), [0; NODES_MAX]);
        for node in nodes.clone() {
            by_node[usize::from(node)] = u64::from(self.cache.resident_frames_of(node));
        }
        let content = self.cache.pages_with_content();
        self.context.publish(counts, content, &by_node[..nodes.len()]);
    }

    /// Does two things once a second. If this process could use more frames, frees the share of a
    /// process that was killed. If the program thrashes, tells the user so, once.
    pub(super) fn end_period(&mut self, now: Instant) {
        let Some(share) = self.stalls.end_period(now) else { return };
        let budget = u64::from(self.cache.budget());
        if budget < self.cache.region_pages()
            && let Some(slot) = &*lock(&self.context.slot)
        {
            slot.recover_next();
        }
        let Some(enough) = self.cache.end_period(share) else { return };
        let slot = lock(&self.context.slot).clone();
        let session = slot.and_then(|slot| slot.session_budget()).unwrap_or(budget);
        ErrorLog::thrashing(share, session.max(budget), for_session(enough, budget, session));
    }
}

/// The budget of the session, in frames, that would give this process a share of `enough` frames.
/// At present it has a share of `budget` frames of a budget of `session` frames.
fn for_session(enough: u64, budget: u64, session: u64) -> u64 {
    let scale = session.max(budget) as f64 / budget.max(1) as f64;
    (enough as f64 * scale) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recommended_budget_is_that_of_the_session() {
        assert_eq!(for_session(900, 500, 500), 900, "the only process");
        assert_eq!(for_session(900, 500, 1000), 1800, "one of two");
        assert_eq!(for_session(900, 500, 400), 900, "a share of at least PAGES_MIN");
    }
}
