//! The pager's side of the kernel interface: userfaultfd, frames, pages moved between frames and regions.

pub mod uffd;

pub(crate) mod memory;

pub(crate) mod frames;

pub(crate) mod relocate;

pub(crate) mod address_space;

pub mod sigbus;

pub(crate) mod cpu_sharing;

pub mod thread;
