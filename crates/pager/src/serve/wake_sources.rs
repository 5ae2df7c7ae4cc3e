//! Wake sources: the descriptors by which faults, finished transfers and requests wake the fault
//! server.

#![expect(unsafe_code, reason = "descriptors outlive the lock of the fault server")]

use crate::kernel::handle::FaultHandle;
use rustix::{
    event::{
        FdSetElement, PollFd, PollFlags, Timespec, fd_set_insert, fd_set_num_elements, poll, select,
    },
    io::Errno,
};
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    sync::Arc,
};

/// Interval at which the fault server retries the unmap of pinned pages: 5 ms. The kernel does not
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
    /// Blocks in poll(2) until a descriptor is readable, or until a pinned page must be retried.
    ///
    /// # Safety
    /// The store and the address space that the descriptors belong to still exist.
    pub(crate) unsafe fn wait(&self) -> io::Result<()> {
        // SAFETY: the caller guarantees that the store, which owns the descriptor, still exists.
        let store = unsafe { BorrowedFd::borrow_raw(self.store) };
        // SAFETY: the caller guarantees that the address space, which owns the descriptor, still
        // exists.
        let faults = unsafe { BorrowedFd::borrow_raw(self.faults) };
        let flags = if self.reads_faults { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = [
            PollFd::new(&self.handle.doorbell, PollFlags::IN),
            PollFd::new(&store, PollFlags::IN),
            PollFd::new(&faults, flags),
        ];
        let is_rung = match poll(&mut fds, self.timeout()) {
            Ok(_) | Err(Errno::INTR) => !fds[0].revents().is_empty(),
            // `poll(2)` fails with `EINVAL` if the program has lowered its limit of descriptors
            // (`RLIMIT_NOFILE`) below the number of descriptors in `fds`.
            Err(Errno::INVAL) => {
                self.wait_by_select()?;
                true
            }
            Err(why) => return Err(why.into()),
        };
        if is_rung {
            // The read does not block. It fails if the doorbell has not rung.
            let _ = rustix::io::read(&self.handle.doorbell, &mut [0_u8; 8]);
        }
        Ok(())
    }

    fn timeout(&self) -> Option<&'static Timespec> {
        self.has_pinned.then_some(&PINNED_RETRY)
    }

    /// Waits by select(2), which works with any limit of descriptors. select(2) is slower than
    /// poll(2): the kernel reads a bit for each number up to the highest descriptor.
    fn wait_by_select(&self) -> io::Result<()> {
        let faults = self.reads_faults.then_some(self.faults);
        let fds = [Some(self.handle.doorbell.as_raw_fd()), Some(self.store), faults];
        let end = fds.iter().flatten().max().map_or(0, |last| last + 1);
        let mut set = vec![FdSetElement::default(); fd_set_num_elements(fds.len(), end)];
        fds.into_iter().flatten().for_each(|fd| fd_set_insert(&mut set, fd));
        // SAFETY: the descriptors are open: the caller of `wait` guarantees that the store and the
        // address space still exist, and `self.handle` owns the doorbell.
        match unsafe { select(end, Some(&mut set), None, None, self.timeout()) } {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }
}
