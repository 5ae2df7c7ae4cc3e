//! Runs the pager's thread on the CPU of the faulting thread, where that is faster.
//!
//! *While other threads need the CPUs*, the pager's thread has real-time priority: it runs as soon
//! as the faulting thread sleeps, and the faulting thread runs as soon as the pager's thread
//! sleeps. If each of the two threads had its own CPU, a third thread would begin to run on the CPU
//! of the faulting thread, which would then wait for the end of a time slice.
//!
//! *While a thread faults on pages that no prefetch could predict*, it waits for the pager's thread
//! whenever that thread has work, so a second CPU has no use. A second CPU also costs time: to wake
//! a thread on an idle CPU takes an interrupt and the end of the CPU's sleep, 20 us in a virtual
//! machine. And an unmap of a page interrupts each CPU on which the program has run, even an idle
//! one. The scheduler wakes a thread on the CPU on which it ran last only if that CPU is idle, or
//! runs only threads of the policy `SCHED_IDLE`. So the pager's thread has this policy while it
//! wakes the faulting thread, and its normal policy again as soon as the faulting thread sleeps.
//!
//! Only the pager's thread is bound to the CPU. The program's threads are not bound, because the
//! threads and processes that they create would inherit the mask.

use crate::cache::Counts;
use interleaf_procfs::{files::Files, stat::Stat};
use interleaf_thread::scheduling::{Policy, Scheduling, preemptions};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::mem;

/// Number of consecutive faults of one thread after which the pager's thread moves to the CPU of
/// this thread. After each further `FAULTS` consecutive faults, the CPU is chosen again.
const FAULTS: u32 = 64;

/// The pager's thread shares the faulting thread's CPU by `SCHED_IDLE` only if prefetch has failed
/// for the last [`FAULTS`] faults: the cache prefetched at most this number of pages, had at most
/// this number of prefetch hits, and read at least this number of pages for the waiting thread.
const PAGES: u64 = FAULTS as u64 / 4;

/// Maximum number of pages read for waiting threads during the last [`FAULTS`] faults for which a
/// CPU is shared by `SCHED_IDLE`. More pages per fault are blocks of a stream: the program computes
/// on one block while the pager reads the next, so both threads need a CPU.
const READS_MAX: u64 = FAULTS as u64 * 8;

/// Upper limit of `CpuSharing::streak_min`, the number of consecutive faults before a CPU is shared
/// by `SCHED_IDLE`. These faults take about a second. Another thread whose fault ends the sharing
/// waits at most some ten milliseconds for the pager's thread.
const STREAK_MAX: u32 = 1 << 14;

/// Consecutive faults of one thread of the program.
#[derive(Clone, Copy, Debug)]
struct Streak {
    thread: u32,
    faults: u32,
    /// The counters of the cache at the last choice of a CPU.
    before: Counts,
}

/// Decides whether the pager's thread shares a CPU with a thread of the program, and sets the
/// scheduling policy of the pager's thread. A CPU is shared only while a single thread of the
/// program faults. Only the pager's thread calls the methods.
#[derive(Debug, Default)]
pub(crate) struct CpuSharing {
    /// Sets the policy of the pager's thread. `None`, so that no CPU is shared, if the kernel
    /// refuses a short time slice or the thread does not run under `SCHED_OTHER`.
    scheduling: Option<Scheduling>,
    /// The policy with which a CPU may be shared at present; `None` if no CPU may be shared.
    policy: Option<Policy>,
    /// The affinity mask that the pager's thread had before it began to share a CPU; `None` while
    /// it shares none.
    own: Option<CpuSet>,
    streak: Option<Streak>,
    /// Number of consecutive faults before a CPU is shared by `SCHED_IDLE`.
    streak_min: u32,
    /// The number of preemptions of this thread when it began to wake a thread; `None` if it wakes
    /// none on a shared CPU.
    preemptions: Option<i64>,
    /// True if the scheduler ran a woken thread on another CPU, because the shared CPU had other
    /// work at that moment.
    has_moved: bool,
}

impl CpuSharing {
    /// Gives the calling thread, which is the pager's, a short time slice.
    pub(crate) fn of_this_thread() -> Self {
        // Without the short time slice, this thread waits longer for a CPU on a busy machine.
        Self {
            scheduling: Scheduling::of_this_thread().ok(),
            streak_min: FAULTS,
            ..Self::default()
        }
    }

    /// Sets whether other threads need the CPUs. If they do, the pager's thread has real-time
    /// priority, if the process may use it.
    pub(crate) fn set_contended(&mut self, is_contended: bool) {
        let Some(scheduling) = &mut self.scheduling else { return };
        let policy = match is_contended {
            true => scheduling.set(Policy::RealTime).then_some(Policy::RealTime),
            false => scheduling.may_be(Policy::Idle).then_some(Policy::Idle),
        };
        if self.policy != policy {
            // Unbind this thread from a shared CPU before its real-time priority ends: without the
            // priority, other threads on this CPU would delay it.
            if policy != Some(Policy::RealTime) {
                self.separate();
            }
            self.policy = policy;
        }
        if !is_contended && let Some(scheduling) = &mut self.scheduling {
            scheduling.set(Policy::Normal);
        }
    }

    /// Notes a fault of `thread`, a thread of the program. `counts` are the counters of the cache.
    pub(crate) fn note_fault(&mut self, thread: u32, counts: &Counts) {
        let mut streak = match self.streak {
            Some(last) if last.thread == thread => {
                Streak { faults: last.faults.wrapping_add(1), ..last }
            }
            _ => {
                if self.own.is_some() && self.policy == Some(Policy::Idle) {
                    // This fault may have waited until the thread on the shared CPU slept. Share
                    // more rarely from now on.
                    self.streak_min = (self.streak_min * 2).min(STREAK_MAX);
                }
                self.separate();
                Streak { thread, faults: 1, before: *counts }
            }
        };
        if streak.faults == STREAK_MAX {
            self.streak_min = FAULTS;
        }
        if mem::take(&mut self.has_moved) && self.own.is_some() {
            self.share(thread);
        }
        if streak.faults.is_multiple_of(FAULTS) {
            let is_waiting = has_waited(&streak.before, counts);
            streak.before = *counts;
            match self.policy {
                Some(Policy::RealTime) => self.share(thread),
                Some(_) if streak.faults >= self.streak_min && is_waiting => self.share(thread),
                _ => self.separate(),
            }
        }
        self.streak = Some(streak);
    }

    /// Begins to wake a thread that waits for a page. If the thread shares the CPU of the pager's
    /// thread, it runs there, and the pager's thread waits until it sleeps or its time slice ends.
    pub(crate) fn begin_wake(&mut self) {
        if self.own.is_some()
            && self.policy == Some(Policy::Idle)
            && let Some(scheduling) = &mut self.scheduling
        {
            self.preemptions = scheduling.set(Policy::Idle).then(preemptions);
        }
    }

    /// Ends the wake-up that [`CpuSharing::begin_wake`] has begun: notes whether the woken thread
    /// ran on the shared CPU, and restores the normal policy of the pager's thread.
    pub(crate) fn end_wake(&mut self) {
        if let Some(before) = self.preemptions.take()
            && let Some(scheduling) = &mut self.scheduling
        {
            // A woken thread that runs on the shared CPU has preempted this thread.
            self.has_moved = preemptions() == before;
            scheduling.set(Policy::Normal);
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

/// True if the thread of the last [`FAULTS`] faults has waited for reads, and hardly any page was
/// prefetched for it.
const fn has_waited(before: &Counts, now: &Counts) -> bool {
    let prefetched = now.prefetched - before.prefetched;
    let hits = now.prefetch_hits - before.prefetch_hits;
    let reads = (now.read - before.read).saturating_sub(prefetched);
    prefetched <= PAGES && hits <= PAGES && PAGES <= reads && reads <= READS_MAX
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

    fn sharing(policy: Option<Policy>) -> CpuSharing {
        let mut sharing = CpuSharing::default();
        (sharing.policy, sharing.streak_min) = (policy, FAULTS);
        sharing
    }

    /// Notes `count` faults of a thread. If `reads` is true, each fault waits for the read of a
    /// page. Otherwise each fault finds a prefetched page in DRAM.
    fn faults(sharing: &mut CpuSharing, now: &mut Counts, thread: Pid, count: u32, reads: bool) {
        for _ in 0..count {
            now.read += 1;
            now.prefetched += u64::from(!reads);
            sharing.note_fault(pid(thread), now);
        }
    }

    #[test]
    fn beside_other_load_the_cpu_of_a_thread_that_faults_alone_is_shared() {
        let ((thread, _end), (other, _other_end)) = (sleeper(), sleeper());
        let (own, theirs) = (mask(None), mask(Some(thread)));
        let (mut sharing, mut now) = (sharing(None), Counts::default());
        faults(&mut sharing, &mut now, thread, FAULTS, false);
        assert_eq!(mask(None), own, "no policy to share a CPU with");
        sharing.policy = Some(Policy::RealTime);
        faults(&mut sharing, &mut now, thread, FAULTS - 1, false);
        assert_eq!(mask(None), own, "its faults are too few");
        faults(&mut sharing, &mut now, thread, 1, false);
        // If this process may use only one CPU, `own` and `theirs` are equal, and the check holds
        // without sharing.
        assert_eq!(mask(None), theirs);
        faults(&mut sharing, &mut now, thread, FAULTS, false);
        assert_eq!(mask(None), theirs, "the thread is still on this CPU");
        faults(&mut sharing, &mut now, other, 1, false);
        assert_eq!(mask(None), own, "another thread faults too");
        faults(&mut sharing, &mut now, other, FAULTS - 1, false);
        assert_eq!(mask(None), theirs);
        drop(sharing);
        assert_eq!(mask(None), own);
        assert_eq!([thread, other].map(|it| mask(Some(it))), [theirs, theirs]);
    }

    #[test]
    fn beside_no_load_a_cpu_is_shared_while_no_page_is_prefetched() {
        let ((thread, _end), (other, _other_end)) = (sleeper(), sleeper());
        let (own, theirs) = (mask(None), mask(Some(thread)));
        let (mut sharing, mut now) = (sharing(Some(Policy::Idle)), Counts::default());
        let mut note = |thread, reads| {
            faults(&mut sharing, &mut now, thread, FAULTS, reads);
            mask(None)
        };
        assert_eq!(note(thread, false), own, "the pages were prefetched");
        assert_eq!(note(thread, true), theirs);
        assert_eq!(note(thread, false), own, "the thread does not wait any more");
        assert_eq!(note(thread, true), theirs);
        assert_eq!(note(other, true), own, "threads that fault in turn need longer streaks");
        assert_eq!(note(other, true), theirs);
        assert_eq!(note(thread, true), own);
        assert_eq!(note(thread, true), own);
        drop(sharing);
        assert_eq!(mask(None), own);
    }

    #[test]
    fn the_thread_is_idle_for_the_scheduler_only_while_it_wakes_a_thread() {
        let work = || {
            let mut sharing = CpuSharing::of_this_thread();
            sharing.set_contended(false);
            // This user may have no right to leave `SCHED_IDLE` again.
            let may_share = sharing.policy == Some(Policy::Idle);
            let is_idle = || {
                let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("a file");
                // The policy is field 41, and the name, which may have spaces, field 2.
                let (_, fields) = stat.rsplit_once(')').expect("a name");
                fields.split_whitespace().nth(38) == Some("5")
            };
            sharing.begin_wake();
            assert!(!is_idle(), "no CPU is shared");
            sharing.own = Some(mask(None));
            sharing.begin_wake();
            assert_eq!(is_idle(), may_share);
            sharing.end_wake();
            assert!(!is_idle());
            sharing.set_contended(true);
            sharing.begin_wake();
            assert!(!is_idle(), "other threads need the CPUs");
        };
        thread::spawn(work).join().expect("policies");
    }
}
