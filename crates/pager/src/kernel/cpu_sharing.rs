//! Runs the pager's thread on the CPU of the faulting thread. This saves two inter-processor
//! interrupts for each fault.
//!
//! A thread that waits for a page leaves its CPU idle. If the thread waits for most of its time,
//! the pager's thread can run on that CPU without loss: one thread sleeps while the other runs. On
//! two CPUs each fault takes two interrupts, each to a CPU that sleeps. In a virtual machine, these
//! interrupts cost more than a read from a fast drive (benches/README.md).
//!
//! While other threads need the CPUs, sharing is of use even if the thread seldom waits
//! ([`Sharing::Always`]).
//!
//! The scheduler prefers an idle CPU for a thread that wakes up, and would separate the two threads
//! at each wake-up. Therefore the waiting thread is pinned to the shared CPU while it waits. Its
//! former affinity mask is restored as soon as the page is mapped.

use interleaf_prefetch::page::Page;
use interleaf_procfs::{files::Files, stat::Stat};
use rustix::{
    io,
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use std::{
    mem,
    ops::Range,
    time::{Duration, Instant},
};

/// The number of faults between two decisions whether to share the CPU.
const WINDOW_FAULTS: u32 = 64;

/// Minimum fraction of its time that a thread must wait for pages before it shares its CPU. The
/// pager's thread then has at least this fraction of the CPU.
const WAIT_FRACTION_MIN: f64 = 0.5;

/// While the thread that shares its CPU waits for a transfer, the fault server reads new faults
/// only at one step of its loop in this many, because each read is a system call.
const FAULTS_READ_ONE_IN: u32 = 8;

/// Decides whether the pager's thread and the only thread that it serves share a CPU.
#[derive(Debug, Default)]
pub(crate) struct CpuSharing {
    /// The shared CPU, and the former affinity mask of the pager's thread.
    shared: Option<(usize, CpuSet)>,
    /// The thread that waits, and the page that it waits for.
    waiting: Option<(u32, Page)>,
    /// True if the page of the waiting thread is mapped, and the CPU was not yet yielded to the
    /// thread.
    has_served: bool,
    /// Number of consecutive steps of the fault server's loop in which the waiting thread's
    /// transfer was in flight. Faults are read only at each [`FAULTS_READ_ONE_IN`]-th of these
    /// steps.
    steps_without_read: u32,
    /// The pinned thread and its former affinity mask.
    pinned_thread: Option<(Pid, CpuSet)>,
    window: Option<Window>,
    sharing: Sharing,
}

/// The policy by which the pager's thread shares the CPU of the thread whose faults it serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sharing {
    /// While the CPUs are not contended: the CPU is shared if the thread waits for pages for most
    /// of its time.
    #[default]
    IfWaiting,
    /// While the CPUs are contended and the pager's thread has real-time priority: the CPU is
    /// shared. The pager's thread runs as soon as the faulting thread sleeps, and the faulting
    /// thread as soon as the pager's thread sleeps. If each of the two threads had its own CPU, a
    /// third thread would begin to run on the CPU of the faulting thread, which would then wait for
    /// the end of a time slice.
    Always,
    /// While the CPUs are contended and the pager's thread has no priority: no CPU is shared,
    /// because each of the two threads would wait for the CPU at each hand-over.
    Never,
}

/// Consecutive faults of the process that were all taken by one thread.
#[derive(Clone, Copy, Debug)]
struct Window {
    thread: u32,
    faults: u32,
    began: Instant,
    /// Stall time of all threads at the beginning of the window.
    waited: Duration,
}

impl CpuSharing {
    pub(crate) const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Sets whether other threads need the CPUs, and whether the pager's thread has real-time
    /// priority.
    pub(crate) fn set_contention(&mut self, is_contended: bool, has_priority: bool) {
        self.sharing = match (is_contended, has_priority) {
            (false, _) => Sharing::IfWaiting,
            (true, true) => Sharing::Always,
            (true, false) => Sharing::Never,
        };
        if self.sharing == Sharing::Never && self.is_shared() {
            self.separate();
        }
    }

    /// Notes that a thread begins to wait for a page; `waited` is the stall time of all threads so
    /// far. The thread is pinned later, by [`CpuSharing::pin_waiting`].
    pub(crate) fn begin_wait(&mut self, thread: u32, page: Page, now: Instant, waited: Duration) {
        match &mut self.window {
            Some(window) if window.thread == thread => {
                window.faults += 1;
                if window.faults >= WINDOW_FAULTS {
                    self.decide(now, waited);
                }
            }
            _ => {
                self.separate();
                self.window = Some(Window { thread, faults: 0, began: now, waited });
            }
        }
        self.waiting = self.is_shared().then_some((thread, page));
    }

    /// True if the fault server need not read faults in this step of its loop. While the thread
    /// that shares its CPU waits for a transfer, faults are read only at one step in
    /// [`FAULTS_READ_ONE_IN`].
    pub(crate) const fn skips_faults(&mut self, are_transfers_done: bool) -> bool {
        let may_skip = self.waiting.is_some() && !are_transfers_done;
        self.steps_without_read = if may_skip { self.steps_without_read + 1 } else { 0 };
        !self.steps_without_read.is_multiple_of(FAULTS_READ_ONE_IN)
    }

    /// Returns true once after the page of the waiting thread was mapped: the caller should then
    /// yield the CPU to this thread.
    pub(crate) const fn has_served(&mut self) -> bool {
        mem::replace(&mut self.has_served, false)
    }

    /// Pins the thread that waits, before its page is mapped. The call takes some microseconds,
    /// which cost nothing while a drive reads the page.
    pub(crate) fn pin_waiting(&mut self) {
        if let Some((thread, _)) = self.waiting
            && let Some((cpu, _)) = self.shared
            && self.pinned_thread.is_none()
            && self.pin(thread, cpu).is_err()
        {
            self.separate();
        }
    }

    /// Unpins the waiting thread if its page is one of these pages.
    pub(crate) fn end_wait(&mut self, pages: &Range<Page>) {
        if self.waiting.take_if(|(_, page)| pages.contains(page)).is_some() {
            self.has_served = true;
            self.unpin();
        }
    }

    /// Ends the sharing of the CPU: restores the affinity masks of both threads.
    pub(crate) fn separate(&mut self) {
        self.waiting = None;
        self.unpin();
        if let Some((_, own)) = self.shared.take() {
            let _ = sched_setaffinity(None, &own);
        }
    }

    fn decide(&mut self, now: Instant, waited: Duration) {
        let Some(window) = &mut self.window else { return };
        let waits = (waited - window.waited).div_duration_f64(now - window.began);
        let thread = window.thread;
        *window = Window { thread, faults: 0, began: now, waited };
        let shares = match self.sharing {
            Sharing::IfWaiting => waits >= WAIT_FRACTION_MIN,
            Sharing::Always => true,
            Sharing::Never => false,
        };
        match (shares, self.is_shared()) {
            (true, false) => self.share(thread),
            (false, true) => self.separate(),
            _ => {}
        }
    }

    /// Moves the pager's thread to the CPU that `thread` ran on last. The program's thread does not
    /// move, so that it stays near its memory.
    fn share(&mut self, thread: u32) {
        let (Some(cpu), Ok(own)) = (cpu_of(thread), sched_getaffinity(None)) else { return };
        let may_share = own.count() > 1 && own.is_set(cpu);
        if may_share && sched_setaffinity(None, &only(cpu)).is_ok() {
            self.shared = Some((cpu, own));
        }
    }

    /// Pins `thread`, which waits for a page, to the CPU `cpu`.
    fn pin(&mut self, thread: u32, cpu: usize) -> io::Result<()> {
        let thread = i32::try_from(thread).ok().and_then(Pid::from_raw).ok_or(io::Errno::SRCH)?;
        let may = sched_getaffinity(Some(thread))?;
        if !may.is_set(cpu) {
            return Err(io::Errno::INVAL);
        }
        sched_setaffinity(Some(thread), &only(cpu))?;
        self.pinned_thread = Some((thread, may));
        Ok(())
    }

    /// Restores the affinity mask of the pinned thread.
    fn unpin(&mut self) {
        if let Some((thread, may)) = self.pinned_thread.take() {
            let _ = sched_setaffinity(Some(thread), &may);
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
    use rustix::thread::gettid;
    use std::{
        sync::mpsc::{Receiver, SyncSender, sync_channel},
        thread,
    };

    /// Two threads that sleep until the test ends.
    fn sleepers() -> ([Pid; 2], Vec<SyncSender<()>>) {
        let mut ends = vec![];
        let pids = [0; 2].map(|_| {
            let (end, ended): (_, Receiver<()>) = sync_channel(0);
            let (begin, begun) = sync_channel(0);
            thread::spawn(move || {
                begin.send(gettid()).expect("told");
                let _ = ended.recv();
            });
            ends.push(end);
            begun.recv().expect("a thread")
        });
        (pids, ends)
    }

    fn pid(thread: Pid) -> u32 {
        thread.as_raw_nonzero().get() as u32
    }

    fn cpus(thread: Pid) -> CpuSet {
        sched_getaffinity(Some(thread)).expect("a mask")
    }

    /// Reports to `sharing` the faults of a window, by a thread that waits for the fraction `waits`
    /// of its time.
    fn faults(sharing: &mut CpuSharing, thread: Pid, waits: f64) {
        let tick = Duration::from_millis(1);
        let began = Instant::now();
        sharing.window = None;
        for fault in 0..=WINDOW_FAULTS {
            let (now, waited) = (began + tick * fault, (tick * fault).mul_f64(waits));
            sharing.begin_wait(pid(thread), 7, now, waited);
            sharing.pin_waiting();
            if fault < WINDOW_FAULTS {
                sharing.end_wait(&(0..10));
            }
        }
    }

    #[test]
    fn a_thread_that_mostly_waits_is_pinned_while_it_waits() {
        let ([thread, other], _ends) = sleepers();
        let own = sched_getaffinity(None).expect("a mask");
        let mut sharing = CpuSharing::default();
        faults(&mut sharing, thread, 0.4);
        assert!(!sharing.is_shared(), "it works for most of its time");
        faults(&mut sharing, thread, 0.6);
        if own.count() == 1 {
            assert!(!sharing.is_shared(), "there is one CPU");
            return;
        }
        assert!(sharing.is_shared());
        let here = sched_getaffinity(None).expect("a mask");
        assert_eq!(here.count(), 1);
        assert_eq!(cpus(thread), here);
        sharing.has_served();
        sharing.end_wait(&(8..10));
        assert!(!sharing.has_served(), "it waits for another page");
        assert_eq!(cpus(thread), here);
        let skipped = (0..8).filter(|_| sharing.skips_faults(false)).count();
        assert_eq!(skipped, 7, "while a drive reads its page");
        assert!(!sharing.skips_faults(true), "a page in DRAM is mapped at once");
        sharing.end_wait(&(7..8));
        assert!(sharing.has_served() && !sharing.has_served());
        assert!(!sharing.skips_faults(false));
        assert_eq!(cpus(thread), own);
        sharing.begin_wait(pid(thread), 7, Instant::now(), Duration::ZERO);
        assert_eq!(cpus(thread), own, "the read may begin first");
        sharing.pin_waiting();
        assert_eq!(cpus(thread), here);
        sharing.begin_wait(pid(other), 9, Instant::now(), Duration::ZERO);
        assert!(!sharing.is_shared(), "another one waits too");
        assert_eq!([thread, other].map(cpus), [own, own]);
        faults(&mut sharing, thread, 0.6);
        assert!(sharing.is_shared());
        sharing.set_contention(true, false);
        assert!(!sharing.is_shared(), "other threads need the CPU");
        assert_eq!([thread, other].map(cpus), [own, own]);
        faults(&mut sharing, thread, 0.6);
        assert!(!sharing.is_shared(), "other threads still need the CPU");
        sharing.set_contention(true, true);
        faults(&mut sharing, thread, 0.1);
        assert!(sharing.is_shared(), "the pager's thread has priority");
        sharing.set_contention(false, false);
        assert!(sharing.is_shared(), "until the next decision");
        faults(&mut sharing, thread, 0.1);
        assert!(!sharing.is_shared(), "it works for most of its time");
        faults(&mut sharing, thread, 0.6);
        assert!(sharing.is_shared());
        drop(sharing);
        assert_eq!([cpus(thread), sched_getaffinity(None).expect("a mask")], [own, own]);
    }
}
