//! Serves an NVRAM card as a vfio-user device: QEMU's `vfio-user-pci` presents the card to an
//! unmodified driver.
//!
//! ```text
//! guest: nvme driver           QEMU: vfio-user-pci           this crate
//!   write of a doorbell    ->    message REGION_WRITE    ->    Device: NvmeController.fetch
//!                                                              pacer: time of completion
//!   memory of the guest    <-    memory-backend-memfd    <->   GuestMemory: reads, writes
//!   interrupt              <-    eventfd of the vector   <-    NvmeController.complete
//! ```
//!
//! The guest's memory must be shared (`memory-backend-memfd,share=on`). This crate accesses the
//! memory by `pread` and `pwrite` of its memfd and never maps it: if a guest or QEMU truncates the
//! file, a command fails, and there is no `SIGBUS`.
//!
//! The server serves one connection after another. The contents outlive connections: a guest that
//! reboots, or a new QEMU, finds the data of earlier connections.
//!
//! - [`server`]: the socket, and its connections. Start here.
//! - [`device`]: applies the requests of a connection to the controller.
//! - [`config_space`]: the PCI configuration space.
//! - [`guest_clock`]: the guest's clock, which a plugin of QEMU reports.
//! - [`guest_memory`]: access to the guest's memory.
//! - [`pacer`]: delays completions by the latency of the simulated card.
//! - [`contents`]: contents in a file, and the volatile write cache.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod config_space;
pub mod contents;
pub mod device;
pub mod guest_clock;
pub mod guest_memory;
pub mod pacer;
pub mod server;

pub use self::{
    contents::{FileContents, WriteBack},
    device::{Event, PowerCut},
    pacer::{Clock, Latency},
    server::{CardServer, ServeError, ServeOptions, Storage, serve},
};
