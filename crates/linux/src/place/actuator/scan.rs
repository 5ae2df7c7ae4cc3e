//! Finds the processes of a scope, and limits the fraction of the CPU time that this takes.
//!
//! A scan reads `/proc/PID/stat` of every process of the machine, which takes 10 to 20 us for each
//! process. The cost depends on the number of all processes, not on the number of steered
//! processes. The pause after a scan is a multiple of the CPU time that the scan took:
//!
//! ```text
//! processes   a scan   every
//!       100   1.5 ms   1.5 s
//!      1000    15 ms   15 s
//!      3000    45 ms   45 s
//! ```
//!
//! All processes that the first scan finds join. A process that appears later joins when two
//! consecutive scans have found it. Therefore children that exit at once never join.

use super::{ActuatorError, Setting};
use crate::place::scope::resident_bytes;
use crate::process::Process;
use rustix::time::{ClockId, clock_gettime};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// Scans take at most 1 / `ONE_IN` of the CPU time of one core.
const ONE_IN: u32 = 1000;

/// The longest pause between scans. A scan of more than about 4000 processes takes more than 60 ms.
/// With this pause, such scans take more than 1 / [`ONE_IN`] of the CPU time.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The time at which the next scan is due, and the processes that the last scan found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    next: Option<Instant>,
    /// The last scan's processes, by ID and start time; `None` before the first scan, whose
    /// processes all join.
    found: Option<BTreeSet<(u32, u64)>>,
}

/// The difference between the processes of a scope and the steered processes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) joined: Vec<Process>,
    pub(super) gone: Vec<Process>,
}

impl Scan {
    pub(super) fn is_due(&self) -> bool {
        self.next.is_none_or(|next| Instant::now() >= next)
    }

    /// Scans for the processes of a scope, and compares them with the steered processes `known`. A
    /// new process joins if it has at least `least_bytes` of resident memory, and the previous scan
    /// found it too. In the first scan, only the memory is required.
    pub(super) fn changes(
        &mut self,
        setting: &Setting<'_>,
        known: &[Process],
        least_bytes: u64,
    ) -> Result<Changes, ActuatorError> {
        let begun = cpu_time();
        let all = setting.processes()?;
        let found: BTreeSet<_> = all.iter().map(Process::identity).collect();
        let steered: BTreeSet<_> = known.iter().map(Process::identity).collect();
        let is_gone = |process: &&Process| !found.contains(&process.identity());
        let gone = known.iter().filter(is_gone).cloned().collect();
        let was_found = |process: &Process| {
            self.found.as_ref().is_none_or(|last| last.contains(&process.identity()))
        };
        let mut joined = vec![];
        for process in all {
            setting.check_stop()?;
            let is_new = !steered.contains(&process.identity()) && was_found(&process);
            if is_new
                && (least_bytes == 0 || resident_bytes(setting.root, process.pid)? >= least_bytes)
            {
                joined.push(process);
            }
        }
        let pause = cpu_time().saturating_sub(begun) * (ONE_IN - 1);
        (self.found, self.next) = (Some(found), Some(Instant::now() + pause.min(PAUSE_MAX)));
        Ok(Changes { joined, gone })
    }
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
