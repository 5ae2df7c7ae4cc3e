//! Looking at what is so, at a price that is bounded.

use super::{ActuatorError, Followed, Goal, Scope};
use crate::{numa_maps::NodeBytes, process::Process, root::Root, vmstat};
use std::time::{Duration, Instant};

/// Looking takes at most this part of the time: one in so many.
const ONE_IN: u32 = 20;

/// What looks, and what it saw last.
#[derive(Debug, Default)]
pub(super) struct Look {
    next: Option<Instant>,
    moved_pages: Option<u64>,
}

impl Look {
    /// Where the pages of a scope are, if it is time to look.
    pub(super) fn placement(
        &mut self,
        root: &Root,
        scope: &Scope,
        processes: &[Process],
    ) -> Result<Option<NodeBytes>, ActuatorError> {
        let start = Instant::now();
        if self.next.is_some_and(|next| start < next) {
            return Ok(None);
        }
        let found = scope.placement(root, processes)?;
        let rest = if scope.is_slow_to_look_at() { ONE_IN - 1 } else { 0 };
        self.next = Some(Instant::now() + start.elapsed() * rest);
        Ok(found.filter(|on| on.total() > 0))
    }

    /// What the whole machine has moved since the last time, bytes.
    pub(super) fn moved_bytes(&mut self, root: &Root) -> Result<Option<u64>, ActuatorError> {
        let now = vmstat::of_machine(root)?.and_then(|counters| counters.pgmigrate_success);
        let before = std::mem::replace(&mut self.moved_pages, now);
        let page = rustix::param::page_size() as u64;
        Ok(now.zip(before).map(|(now, before)| now.saturating_sub(before) * page))
    }

    /// Notes placement and movement.
    pub(super) fn note(
        &mut self,
        followed: &mut Followed,
        root: &Root,
        goal: &Goal,
        on: Option<NodeBytes>,
    ) -> Result<(), ActuatorError> {
        followed.moved_bytes = self.moved_bytes(root)?;
        followed.off_points = on.as_ref().and_then(|on| goal.off_points(on));
        followed.on = on;
        Ok(())
    }
}

/// Keeps what takes long to a part of the time.
#[derive(Debug, Default)]
pub(super) struct Duty(Option<Instant>);

impl Duty {
    pub(super) fn is_due(&self) -> bool {
        self.0.is_none_or(|next| Instant::now() >= next)
    }

    pub(super) fn spent(&mut self, span: Duration) {
        self.0 = Some(Instant::now() + span * (ONE_IN - 1));
    }
}
