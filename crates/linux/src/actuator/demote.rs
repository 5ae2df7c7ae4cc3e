//! Demotes cold pages while the fastest node is nearly full.
//!
//! Interleaving moves what is hot. What is not stays where it was first touched, and fills the
//! fastest node until new pages, hot ones too, go elsewhere. The kernel's own watermarks of a
//! scheme are of the whole machine's memory, so the node's is looked at here.

use super::{
    Goal,
    context::{Quota, Scheme, To, Without},
};
use crate::{
    node::{self, NODES},
    root::{Root, RootError},
};

/// Demotion begins where less than this part of the node is free, or less than so many bytes. The
/// DMI prototype has 2 %; of a node of 512 MiB that the kernel takes for full, 5 % are still free.
const BEGIN: f64 = 0.02;
const BEGIN_BYTES: u64 = 64 << 20;

/// It ends where so many times as much is free.
const END: u64 = 2;

/// A page is cold when nobody touched it for so many aggregations. (The DMI prototype: 15 s.)
pub(super) const COLD_AGE: u32 = 5;

/// How often the quota begins anew, ms.
const RESET_MS: u64 = 1000;

/// The least that is demoted at once, bytes.
const LEAST_BYTES: u64 = 1 << 20;

/// Whether pages are demoted, and how much is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Guard {
    /// What should become free, bytes.
    pub(super) wanted_bytes: Option<u64>,
}

impl Guard {
    /// Takes in how much of the node is free, bytes.
    pub(super) fn step(&mut self, free_bytes: u64, total_bytes: u64) {
        let begin = ((total_bytes as f64 * BEGIN) as u64).max(BEGIN_BYTES);
        let end = begin * END;
        let limit = if self.wanted_bytes.is_some() { end } else { begin };
        self.wanted_bytes = (free_bytes < limit).then(|| end - free_bytes);
    }

    /// Looks at the first node of a goal, and says when it has become nearly full, or has not been
    /// any more.
    pub(super) fn look(
        &mut self,
        root: &Root,
        goal: &Goal,
        notes: &mut Vec<String>,
    ) -> Result<(), RootError> {
        let [(first, _), (next, _), ..] = &goal.nodes[..] else { return Ok(()) };
        let demoted = self.wanted_bytes.is_some();
        let text = root.peek(&format!("{NODES}/node{first}/meminfo"))?.unwrap_or_default();
        let bytes = |key| node::kib(&text, key).map(|kib| kib * 1024);
        if let (Some(free), Some(total)) = (bytes("MemFree"), bytes("MemTotal")) {
            self.step(free, total);
        }
        match (demoted, self.wanted_bytes.is_some()) {
            (false, true) => {
                notes.push(format!("node {first} is nearly full, and cold pages go to node {next}"))
            }
            (true, false) => {
                notes.push(format!("node {first} has room again: cold pages stay there"));
            }
            _ => {}
        }
        Ok(())
    }

    /// The scheme that does it, which is idle while there is room; `None` where there is only one
    /// node.
    pub(super) fn scheme(&self, goal: &Goal, without: Vec<Without>) -> Option<Scheme> {
        let (next, _) = goal.nodes.get(1)?;
        let most = goal.rate_limit_bytes_per_s.unwrap_or(u64::MAX);
        let bytes = self.wanted_bytes.unwrap_or(LEAST_BYTES).max(LEAST_BYTES).min(most);
        Some(Scheme {
            action: "migrate_cold",
            to: To::Node(*next),
            accesses: self.wanted_bytes.map(|_| (0, 0)),
            age_min: COLD_AGE,
            quota: Some(Quota { bytes, reset_ms: RESET_MS }),
            goal: None,
            without,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_late_and_ends_early() {
        let mut guard = Guard::default();
        // Of 10 GiB it begins below 204.8 MiB, of 1 GiB below 64.
        let steps = [(300, None), (200, Some(209)), (400, Some(9)), (410, None), (300, None)];
        for (free, wanted) in steps {
            guard.step(free << 20, 10 << 30);
            assert_eq!(guard.wanted_bytes.map(|bytes| bytes >> 20), wanted, "{free}");
        }
        guard.step(65 << 20, 1 << 30);
        assert_eq!(guard.wanted_bytes, None);
        guard.step(60 << 20, 1 << 30);
        assert_eq!(guard.wanted_bytes, Some(68 << 20));
    }
}
