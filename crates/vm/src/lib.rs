//! Runs integration tests on real Linux kernels in QEMU.
//!
//! A test names a kernel series, a memory topology and the steps of the guest. This crate builds an
//! initramfs and a QEMU command line, boots, and returns an [`Outcome`], which lists all possible
//! results. The tests install nothing and need neither root nor hardware virtualization. A missing
//! kernel or QEMU is an outcome, not an error.
//!
//! - [`kernel`]: the kernels that the script `crates/vm/kernels` downloaded.
//! - [`topology`]: the files in `crates/vm/topologies/` and the QEMU flags for them.
//! - [`program`]: static programs for the guest.
//! - [`qemu`]: the QEMU for guests with an NVRAM card.
//! - [`initramfs`]: the root file system of the guest.
//! - [`boot`]: runs one guest from the parts above.
//! - [`machine`]: the QEMU process of a guest.
//! - `running_guests`: limits the number of guests that run at the same time.
//! - `snapshot`: saved guests that have booted, from which other guests start.
//! - [`capture`]: unpacks a captured machine to a folder, for the program `src/bin/capture.rs`.
//! - [`harness`]: helpers shared by the tests.
//! - [`expected`]: the simulated result of a run of the guest's program `load`.
//! - [`outcome`]: the possible results of a run. Start here.

#![forbid(unsafe_code)]

pub mod boot;
pub mod capture;
pub mod expected;
pub mod harness;
pub mod initramfs;
pub mod kernel;
pub mod machine;
pub mod outcome;
pub mod program;
pub mod qemu;
mod running_guests;
mod snapshot;
pub mod topology;

pub use self::{boot::Boot, kernel::Series, outcome::Outcome, topology::Topology};
