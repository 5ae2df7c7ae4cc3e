//! The pager's interface to Linux: faults, the frames, moves of pages between frames and regions,
//! and the CPU and the scheduling of the pager's thread.

pub mod uffd;

pub(crate) mod memory;

pub(crate) mod frames;

pub(crate) mod handle;

pub(crate) mod relocate;

pub(crate) mod address_space;

pub(crate) mod waiters;

pub mod sigbus;

pub(crate) mod cpu_sharing;

pub(crate) mod cpu_contention;
