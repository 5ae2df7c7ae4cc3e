//! Wake sources: the descriptors by which faults, finished transfers and requests wake the fault
//! server.

#![expect(unsafe_code, reason = "descriptors outlive the lock of the fault server")]

use crate::kernel::handle::FaultHandle;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use std::{
    io,
    os::fd::{BorrowedFd, RawFd},
    sync::Arc,
};

/// Interval at which the fault server retries pinned pages, 5 ms, because the kernel does not
/// report the end of a pin.
const PINNED_RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// The descriptors that wake the fault server.
pub(crate) struct WakeSources {
    pub(crate) handle: Arc<FaultHandle>,
    /// Readable when transfers are finished.
    pub(crate) store: RawFd,
    /// Readable when faults are pending.
    pub(crate) faults: RawFd,
    pub(crate) reads_faults: bool,
    /// True if the unmap of a pinned page must be retried after [`PINNED_RETRY`].
    pub(crate) has_pinned: bool,
}

impl WakeSources {
    /// Blocks in poll(2) until a descriptor is readable, or until it is time to retry a pinned
    /// page.
    ///
    /// # Safety
    /// The store and the address space that the descriptors belong to still exist.
    pub(crate) unsafe fn wait(&self) -> io::Result<()> {
        // SAFETY: the caller upholds the contract of this function.
        let store = unsafe { BorrowedFd::borrow_raw(self.store) };
        // SAFETY: the caller upholds the contract of this function.
        let faults = unsafe { BorrowedFd::borrow_raw(self.faults) };
        let flags = if self.reads_faults { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = [
            PollFd::new(&self.handle.doorbell, PollFlags::IN),
            PollFd::new(&store, PollFlags::IN),
            PollFd::new(&faults, flags),
        ];
        match poll(&mut fds, self.has_pinned.then_some(&PINNED_RETRY)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
        if !fds[0].revents().is_empty() {
            let _ = rustix::io::read(&self.handle.doorbell, &mut [0_u8; 8]);
        }
        Ok(())
    }
}
