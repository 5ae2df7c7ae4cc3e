//! While other threads need the CPUs, runs the pager's thread on the CPU of the faulting thread.
//!
//! The pager's thread then has real-time priority: it runs as soon as the faulting thread sleeps,
//! and the faulting thread runs as soon as the pager's thread sleeps. If each of the two threads
//! had its own CPU, a third thread would begin to run on the CPU of the faulting thread, which
//! would then wait for the end of a time slice.
//!
//! Only the pager's thread is bound to the CPU. The program's threads are not bound, because the
//! threads and processes that they create would inherit the mask. The faulting thread stays on its
//! CPU anyway: without an idle CPU, the scheduler wakes a thread on the CPU on which the thread ran
//! last.

use interleaf_procfs::{files::Files, stat::Stat};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Number of consecutive faults of one thread after which the pager's thread moves to the CPU of
/// this thread. After each further `FAULTS` consecutive faults, the CPU is chosen again.
const FAULTS: u32 = 64;

/// Decides whether the pager's thread shares a CPU with a thread of the program. It does if sharing
/// is allowed and only this thread of the program faults.
#[derive(Debug, Default)]
pub(crate) struct CpuSharing {
    /// True if other threads need the CPUs and the pager's thread has real-time priority.
    is_allowed: bool,
    /// The affinity mask that the pager's thread had before it began to share a CPU; `None` while
    /// it shares none.
    own: Option<CpuSet>,
    /// The thread that took the last fault, and the number of its faults in a row.
    last: Option<(u32, u32)>,
}

impl CpuSharing {
    /// Allows or forbids sharing. Sharing is useful only while other threads need the CPUs and the
    /// pager's thread has real-time priority.
    pub(crate) fn allow(&mut self, is_allowed: bool) {
        self.is_allowed = is_allowed;
        if !is_allowed {
            self.separate();
        }
    }

    /// Notes a fault of `thread`, a thread of the program. Only the pager's thread calls this
    /// function.
    pub(crate) fn note_fault(&mut self, thread: u32) {
        let faults = match self.last {
            Some((last, faults)) if last == thread => faults.wrapping_add(1),
            _ => {
                self.separate();
                1
            }
        };
        self.last = Some((thread, faults));
        if self.is_allowed && faults.is_multiple_of(FAULTS) {
            self.share(thread);
        }
    }

    /// Ends the sharing of the CPU: restores the affinity mask of the pager's thread.
    pub(crate) fn separate(&mut self) {
        if let Some(own) = self.own.take() {
            let _ = sched_setaffinity(None, &own);
        }
    }

    /// Moves the pager's thread to the CPU that `thread` ran on last.
    fn share(&mut self, thread: u32) {
        let Ok(own) = self.own.map_or_else(|| sched_getaffinity(None), Ok) else { return };
        if own.count() < 2 {
            return;
        }
        match cpu_of(thread).filter(|cpu| own.is_set(*cpu)) {
            Some(cpu) if sched_setaffinity(None, &only(cpu)).is_ok() => self.own = Some(own),
            _ => self.separate(),
        }
    }
}

impl Drop for CpuSharing {
    fn drop(&mut self) {
        self.separate();
    }
}

/// The CPU that a thread of this process ran on last.
fn cpu_of(thread: u32) -> Option<usize> {
    let stat = Files::live().of_thread(thread, "stat").ok()??;
    let cpu = Stat::parse(&stat)?.cpu()?;
    (cpu < CpuSet::MAX_CPU).then_some(cpu)
}

fn only(cpu: usize) -> CpuSet {
    let mut only = CpuSet::new();
    only.set(cpu);
    only
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::{process::Pid, thread::gettid};
    use std::{
        sync::mpsc::{Receiver, SyncSender, sync_channel},
        thread,
    };

    /// Starts a thread that is bound to the last of the CPUs that this process may use, and that
    /// sleeps until the test ends. Returns the ID of the thread, and a sender. When the sender is
    /// dropped, the thread ends.
    fn sleeper() -> (Pid, SyncSender<()>) {
        let (end, ended): (_, Receiver<()>) = sync_channel(0);
        let (begin, begun) = sync_channel(0);
        thread::spawn(move || {
            let own = mask(None);
            let last = (0..CpuSet::MAX_CPU).rfind(|cpu| own.is_set(*cpu)).expect("a CPU");
            sched_setaffinity(None, &only(last)).expect("one of the CPUs");
            begin.send(gettid()).expect("told");
            let _ = ended.recv();
        });
        (begun.recv().expect("a thread"), end)
    }

    fn pid(thread: Pid) -> u32 {
        thread.as_raw_nonzero().get() as u32
    }

    fn mask(thread: Option<Pid>) -> CpuSet {
        sched_getaffinity(thread).expect("a mask")
    }

    fn faults(sharing: &mut CpuSharing, thread: Pid, count: u32) {
        (0..count).for_each(|_| sharing.note_fault(pid(thread)));
    }

    #[test]
    fn the_cpu_of_a_thread_that_faults_alone_is_shared_while_that_is_allowed() {
        let ((thread, _end), (other, _other_end)) = (sleeper(), sleeper());
        let (own, theirs) = (mask(None), mask(Some(thread)));
        let mut sharing = CpuSharing::default();
        faults(&mut sharing, thread, FAULTS);
        assert_eq!(mask(None), own, "sharing is not allowed");
        sharing.allow(true);
        faults(&mut sharing, thread, FAULTS - 1);
        assert_eq!(mask(None), own, "its faults are too few");
        faults(&mut sharing, thread, 1);
        // If this process may use only one CPU, `own` and `theirs` are equal, and the check holds
        // without sharing.
        assert_eq!(mask(None), theirs);
        faults(&mut sharing, thread, FAULTS);
        assert_eq!(mask(None), theirs, "the thread is still on this CPU");
        faults(&mut sharing, other, 1);
        assert_eq!(mask(None), own, "another thread faults too");
        faults(&mut sharing, other, FAULTS - 1);
        assert_eq!(mask(None), theirs);
        sharing.allow(false);
        assert_eq!(mask(None), own);
        sharing.allow(true);
        faults(&mut sharing, other, FAULTS);
        assert_eq!(mask(None), theirs);
        drop(sharing);
        assert_eq!(mask(None), own);
        assert_eq!([thread, other].map(|it| mask(Some(it))), [theirs, theirs]);
    }
}
