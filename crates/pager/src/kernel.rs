//! The pager's interface to the kernel: userfaultfd, frames, moving pages between frames and
//! regions.

pub mod uffd;

pub(crate) mod memory;

pub(crate) mod frames;

pub(crate) mod handle;

pub(crate) mod relocate;

pub(crate) mod address_space;

pub(crate) mod waiters;

pub mod sigbus;

pub(crate) mod cpu_sharing;

pub(crate) mod spin;

pub(crate) mod time_slice;
