//! Detects whether other threads need the CPUs on which the pager's thread runs.
//!
//! While the pager's thread spins in wait for work, it yields the CPU again and again
//! (`sched_yield(2)`). On an idle CPU, spinning saves the time of a wake-up. On a CPU that another
//! thread needs, each yield gives the CPU to that thread for a time slice of some milliseconds. The
//! scheduler also charges the pager's thread for the time that it spun, and therefore runs it with
//! a delay at the next fault.

use interleaf_procfs::{
    cpus::{self, runnable_threads},
    files::read_into,
};
use std::{
    ffi::CStr,
    thread,
    time::{Duration, Instant},
};

/// The file with the number of runnable threads of the machine (`proc_loadavg(5)`).
const LOAD: &CStr = c"/proc/loadavg";

/// The file with the list of the machine's CPUs that are online
/// (`Documentation/ABI/testing/sysfs-devices-system-cpu` of the kernel).
const ONLINE: &CStr = c"/sys/devices/system/cpu/online";

/// Time between two reads of [`LOAD`]. A read takes about 5 µs, which is 0.05 % of this time.
const READ_EVERY: Duration = Duration::from_millis(10);

/// Number of consecutive readings with more runnable threads than CPUs after which the CPUs count
/// as contended. The number is above 1, because now and then a kernel thread runs for some
/// microseconds.
const READINGS_MIN: u32 = 2;

/// Duration of a `sched_yield(2)` above which the yield shows contention: another thread used its
/// time slice, or the host ran another virtual machine on this CPU. [`LOAD`] does not show the
/// other thread if the machine has idle CPUs on which the pager's thread may not run.
const YIELD_MAX: Duration = Duration::from_millis(1);

/// Number of consecutive long yields after which the CPUs count as contended.
const YIELDS_MIN: u32 = 2;

/// Time for which the CPUs count as contended: `HOLD_READING` after [`READINGS_MIN`] readings with
/// more runnable threads than CPUs, `HOLD_YIELD` after [`YIELDS_MIN`] long yields. `HOLD_YIELD` is
/// longer, because the next yields may again take some milliseconds.
const HOLD_READING: Duration = Duration::from_millis(100);
const HOLD_YIELD: Duration = Duration::from_secs(1);

/// Detects when other threads need the CPUs.
#[derive(Debug)]
pub(crate) struct CpuContention {
    /// Number of online CPUs of the whole machine when the pager started. CPUs that this process
    /// may not use count too, because [`LOAD`] counts the threads of the whole machine.
    cpus: u64,
    /// Number of consecutive readings with more runnable threads than CPUs, up to the last reading.
    readings: u32,
    /// Number of consecutive yields that took longer than [`YIELD_MAX`], up to the last yield.
    long_yields: u32,
    next_reading: Instant,
    /// Time until which the CPUs count as contended.
    until: Instant,
}

impl CpuContention {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            // If the number of CPUs is unknown, only long yields show contention.
            cpus: number_in(ONLINE, cpus::count).unwrap_or(u64::MAX),
            readings: 0,
            long_yields: 0,
            next_reading: now,
            until: now,
        }
    }

    /// True if other threads need the CPUs. First reads the number of runnable threads if the last
    /// reading is older than `READ_EVERY`.
    pub(crate) fn is_contended(&mut self, now: Instant) -> bool {
        if now >= self.next_reading {
            self.next_reading = now + READ_EVERY;
            // Without a readable file, only long yields show contention.
            if let Some(runnable) = number_in(LOAD, runnable_threads) {
                self.note_runnable(runnable, now);
            }
        }
        now < self.until
    }

    /// Yields the CPU to other threads, and measures how long the yield takes.
    pub(crate) fn yield_cpu(&mut self) {
        let began = Instant::now();
        thread::yield_now();
        let now = Instant::now();
        self.note_yield(now - began, now);
    }

    fn note_yield(&mut self, took: Duration, now: Instant) {
        self.long_yields = if took > YIELD_MAX { self.long_yields + 1 } else { 0 };
        if self.long_yields >= YIELDS_MIN {
            self.until = now + HOLD_YIELD;
        }
    }

    /// Notes a reading: `runnable` is the number of runnable threads, which includes the calling
    /// thread.
    fn note_runnable(&mut self, runnable: u64, now: Instant) {
        self.readings = if runnable > self.cpus { self.readings + 1 } else { 0 };
        if self.readings >= READINGS_MIN {
            self.until = self.until.max(now + HOLD_READING);
        }
    }
}

/// Reads a short file, and returns the number that the function `number` finds in its text. The
/// file is not kept open between calls, because a program may close all its files. Allocates no
/// memory, because the program's allocator may wait for a page.
fn number_in(path: &CStr, number: fn(&[u8]) -> Option<u64>) -> Option<u64> {
    let mut buffer = [0; 256];
    number(read_into(path, &mut buffer).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reading_above_the_cpus_is_no_contention() {
        let now = Instant::now();
        let mut contention = CpuContention { cpus: 2, ..CpuContention::new(now) };
        contention.note_runnable(3, now);
        contention.note_runnable(2, now);
        contention.note_runnable(3, now);
        assert_eq!(contention.until, now);
        contention.note_runnable(3, now);
        assert_eq!(contention.until, now + HOLD_READING);
    }

    #[test]
    fn a_reading_does_not_shorten_the_time_after_yields() {
        let now = Instant::now();
        let mut contention = CpuContention { cpus: 2, ..CpuContention::new(now) };
        for took in [YIELD_MAX * 2, YIELD_MAX / 2, YIELD_MAX * 2] {
            contention.note_yield(took, now);
            assert_eq!(contention.until, now, "a single long yield");
        }
        contention.note_yield(YIELD_MAX * 2, now);
        assert_eq!(contention.until, now + HOLD_YIELD);
        contention.note_runnable(3, now);
        contention.note_runnable(3, now);
        assert_eq!(contention.until, now + HOLD_YIELD);
    }

    #[test]
    fn threads_and_cpus_of_this_machine_are_counted() {
        assert!(number_in(LOAD, runnable_threads) >= Some(1), "this thread runs");
        let cpus = std::thread::available_parallelism().expect("CPUs").get() as u64;
        assert!(number_in(ONLINE, cpus::count) >= Some(cpus));
    }
}
