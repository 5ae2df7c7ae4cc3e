//! Limits the number of guests that run at the same time. A test runs a guest for each of several
//! kernels, and several tests run at once: without a limit, the guests would need more memory than
//! a small machine has, and each guest would get a small share of the CPUs.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

/// Guests for each CPU of the host. More than one, because a guest with the host's clock sleeps for
/// most of the time.
const PER_CPU: usize = 3;

/// The number of guests of this process that run.
static RUNNING: Mutex<usize> = Mutex::new(0);

/// Signals that a guest has ended.
static ENDED: Condvar = Condvar::new();

/// The permission to run a guest, given back when dropped.
pub(crate) struct GuestPermit;

impl GuestPermit {
    /// Waits until fewer guests run than the limit.
    pub(crate) fn acquire() -> Self {
        let max = PER_CPU * thread::available_parallelism().map_or(1, usize::from);
        let is_full = |running: &mut usize| *running >= max;
        let running = ENDED.wait_while(running(), is_full);
        *running.unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for GuestPermit {
    fn drop(&mut self) {
        *running() -= 1;
        ENDED.notify_one();
    }
}

fn running() -> MutexGuard<'static, usize> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
