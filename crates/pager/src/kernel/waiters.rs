//! Threads that wait for the fault server in a handler of SIGBUS, because they could not map a page
//! themselves. [`Waiters::wait_for`] may be called in a signal handler, because the function
//! allocates no memory and takes no lock: it uses a fixed table of slots, atomic operations, and
//! futexes.

use crate::kernel::{handle::FaultHandle, uffd::Fault};
use interleaf_prefetch::page::Page;
use rustix::thread::futex;
use std::{
    ops::Range,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering::*},
    thread,
};

/// Number of slots: the maximum number of threads that wait in a slot at the same time. Further
/// threads poll until a slot is free.
const SLOTS: usize = 512;

/// The interface of the fault server by which a faulting thread maps a resident page itself, in a
/// handler of SIGBUS.
pub(crate) trait TryMap: Send {
    /// Maps a page if its content is in a frame. Allocates no memory, and waits for nothing.
    fn try_map(&mut self, page: Page, fault: Fault) -> MapOutcome;
}

/// The result of [`TryMap::try_map`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapOutcome {
    Mapped,
    /// The page is mapped, but the thread must wake the fault server, which processes the log of
    /// mapped extents.
    MappedAndNotify,
    /// The page was not mapped: the fault server must handle the fault.
    Defer,
}

/// Threads that wait for the fault server.
#[derive(Debug)]
pub(crate) struct Waiters {
    slots: [WaiterSlot; SLOTS],
    /// Number of queued faults that the fault server has not read yet.
    queued: AtomicU32,
    /// Number of threads that wait in a slot.
    count: AtomicU32,
}

#[derive(Debug)]
struct WaiterSlot {
    state: AtomicU32,
    thread: AtomicU32,
    /// The address of the access.
    address: AtomicUsize,
}

/// States of a slot: unused (`FREE`), being filled by a thread (`CLAIMED`), holding a fault that
/// the fault server has not read (`QUEUED`) or has read (`READ`). The last two are answers of the
/// fault server: the access can be repeated (`DONE`), or its address is in no region or on a
/// poisoned page (`DENIED`).
const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const QUEUED: u32 = 2;
const READ: u32 = 3;
const DONE: u32 = 4;
const DENIED: u32 = 5;

impl Default for Waiters {
    fn default() -> Self {
        let slot = || WaiterSlot {
            state: AtomicU32::new(FREE),
            thread: AtomicU32::new(0),
            address: AtomicUsize::new(0),
        };
        Self {
            slots: std::array::from_fn(|_| slot()),
            queued: AtomicU32::new(0),
            count: AtomicU32::new(0),
        }
    }
}

impl Waiters {
    /// Queues a fault, and waits for the answer of the fault server. Returns true if the access can
    /// be repeated, and false if the address is in no region or on a poisoned page.
    pub(crate) fn wait_for(&self, handle: &FaultHandle, fault: Fault) -> bool {
        let claim = |slot: &&WaiterSlot| {
            slot.state.compare_exchange(FREE, CLAIMED, Acquire, Relaxed).is_ok()
        };
        let slot = loop {
            match self.slots.iter().find(claim) {
                Some(slot) => break slot,
                None => thread::yield_now(),
            }
        };
        slot.thread.store(fault.thread, Relaxed);
        let at = fault.address + usize::from(fault.offset);
        slot.address.store(at, Relaxed);
        // Count the thread before the fault server can see the fault, because the fault server
        // wakes no thread while the count is 0.
        self.count.fetch_add(1, SeqCst);
        slot.state.store(QUEUED, Release);
        self.queued.fetch_add(1, SeqCst);
        handle.ring();
        let may_access = loop {
            match slot.state.load(Acquire) {
                DONE => break true,
                DENIED => break false,
                // A futex wait may return before `state` has changed, so check `state` again.
                waits => drop(futex::wait(&slot.state, futex::Flags::PRIVATE, waits, None)),
            }
        };
        self.count.fetch_sub(1, SeqCst);
        slot.state.store(FREE, Release);
        may_access
    }

    /// Takes the faults that threads have queued since the last call.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        if self.queued.load(SeqCst) == 0 {
            return vec![];
        }
        let mut faults = vec![];
        for slot in &self.slots {
            if slot.state.compare_exchange(QUEUED, READ, Acquire, Relaxed).is_ok() {
                self.queued.fetch_sub(1, SeqCst);
                let (address, thread) = (slot.address.load(Relaxed), slot.thread.load(Relaxed));
                faults.push(Fault::at(address, thread));
            }
        }
        faults
    }

    /// Wakes the threads that wait for pages at `addresses`, if [`Waiters::faults`] has returned
    /// their faults already. `may_access` is true if the threads can repeat their accesses, and
    /// false if the addresses are in no region or on poisoned pages.
    pub(crate) fn wake(&self, addresses: &Range<usize>, may_access: bool) {
        if self.count.load(SeqCst) == 0 {
            return;
        }
        let outcome = if may_access { DONE } else { DENIED };
        for slot in &self.slots {
            let is_read = slot.state.load(Acquire) == READ;
            if is_read && addresses.contains(&slot.address.load(Relaxed)) {
                slot.state.store(outcome, Release);
                let _ = futex::wake(&slot.state, futex::Flags::PRIVATE, 1);
            }
        }
    }
}
