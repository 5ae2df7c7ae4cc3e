//! Limits the number of guests that run at the same time. A test runs a guest for each of several
//! kernels, and several tests run at once: without a limit, the guests would need more memory than
//! a small machine has, and each guest would get a small share of the CPUs.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

/// The clock of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuestClock {
    /// The host's clock. The guest sleeps for most of the time, so a CPU of the host can run
    /// several such guests.
    Host,
    /// A clock that counts instructions and skips idle time. The guest computes all the time. More
    /// such guests than CPUs would evict each other's code and page tables from the CPU's caches:
    /// with three guests for each CPU, a guest took a third more processor time.
    Virtual,
}

impl GuestClock {
    /// Returns the number of guests with this clock that may run at the same time on each CPU of
    /// the host.
    fn guests_per_cpu(self) -> usize {
        match self {
            Self::Host => 3,
            Self::Virtual => 1,
        }
    }
}

/// The number of running guests of this process with the host's clock, and the number with a
/// virtual clock.
static RUNNING: Mutex<[usize; 2]> = Mutex::new([0; 2]);

/// Signals that a guest has ended.
static ENDED: Condvar = Condvar::new();

/// The permission to run a guest. Dropping the permit lets another guest start.
pub(crate) struct GuestPermit(GuestClock);

impl GuestPermit {
    /// Waits until the number of running guests with this clock is below the limit.
    pub(crate) fn acquire(clock: GuestClock) -> Self {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let is_full =
            |running: &mut [usize; 2]| running[clock as usize] >= clock.guests_per_cpu() * cpus;
        let running = ENDED.wait_while(running(), is_full);
        running.unwrap_or_else(PoisonError::into_inner)[clock as usize] += 1;
        Self(clock)
    }
}

impl Drop for GuestPermit {
    fn drop(&mut self) {
        running()[self.0 as usize] -= 1;
        // Wakes all waiting threads. A single woken thread might wait for the end of a guest with
        // the other clock, and no guest would start.
        ENDED.notify_all();
    }
}

fn running() -> MutexGuard<'static, [usize; 2]> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
