//! Limits the number of guests that run at the same time. A test runs a guest for each of several
//! kernels, and several tests run at once: without a limit, the guests would need more memory than
//! a small machine has, and each guest would get a small share of the CPUs.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

/// The capacity of a CPU of the host, in the units of [`GuestClock::cost`].
const PER_CPU: usize = 3;

/// The clock of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuestClock {
    /// The host's clock. The guest sleeps for most of the time.
    Host,
    /// A clock that counts instructions and skips idle time. The guest computes all the time. More
    /// guests than CPUs would evict each other's code and page tables from the CPU's caches: with
    /// three guests for each CPU, a guest took a third more processor time.
    Virtual,
}

impl GuestClock {
    /// The units of capacity that a guest takes.
    fn cost(self) -> usize {
        match self {
            Self::Host => 1,
            Self::Virtual => PER_CPU,
        }
    }
}

/// The capacity that the running guests of this process take.
static TAKEN: Mutex<usize> = Mutex::new(0);

/// Signals that a guest has ended.
static ENDED: Condvar = Condvar::new();

/// The permission to run a guest, given back when dropped.
pub(crate) struct GuestPermit(GuestClock);

impl GuestPermit {
    /// Waits until there is capacity for another guest.
    pub(crate) fn acquire(clock: GuestClock) -> Self {
        let max = PER_CPU * thread::available_parallelism().map_or(1, usize::from);
        let is_full = |taken: &mut usize| *taken + clock.cost() > max;
        let taken = ENDED.wait_while(taken(), is_full);
        *taken.unwrap_or_else(PoisonError::into_inner) += clock.cost();
        Self(clock)
    }
}

impl Drop for GuestPermit {
    fn drop(&mut self) {
        *taken() -= self.0.cost();
        // Several guests with the host's clock may fit into the capacity of one other guest.
        ENDED.notify_all();
    }
}

fn taken() -> MutexGuard<'static, usize> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}
