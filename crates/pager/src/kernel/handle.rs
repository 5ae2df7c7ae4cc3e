//! The kernel objects of a pager that a forked child cannot share with its parent. The child makes
//! new objects of these kinds.

use crate::kernel::{
    frames::Frames,
    uffd::{FaultMode, Userfault},
};
use interleaf_store::descriptor;
use rustix::event::{EventfdFlags, eventfd};
use std::{io, ops::Range, os::fd::OwnedFd};

/// The userfaultfd of a process, the addresses of its frames, and the eventfd that wakes its fault
/// server.
#[derive(Debug)]
pub(crate) struct FaultHandle {
    pub(crate) userfault: Userfault,
    pub(crate) frames: Range<usize>,
    /// An eventfd: a write to it wakes the fault server.
    pub(crate) doorbell: OwnedFd,
}

impl FaultHandle {
    /// Opens a userfaultfd, and registers `addresses` for faults.
    pub(crate) fn new(
        addresses: impl IntoIterator<Item = Range<usize>>,
        frames: &Frames,
        mode: FaultMode,
    ) -> io::Result<Self> {
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let doorbell = descriptor::protected(doorbell);
        let userfault = Userfault::open(mode)?;
        let handle = Self { userfault, frames: frames.addresses(), doorbell };
        addresses.into_iter().try_for_each(|addresses| handle.userfault.register(&addresses))?;
        Ok(handle)
    }

    /// Wakes the fault server.
    pub(crate) fn ring(&self) {
        // The error is ignored: the write fails only if the counter of the eventfd would exceed
        // 2^64 - 2, and each read of the eventfd resets the counter.
        let _ = rustix::io::write(&self.doorbell, &1_u64.to_ne_bytes());
    }
}
