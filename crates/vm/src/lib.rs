//! A real kernel in the tests.
//!
//! A test names a series of kernels, a topology of memory and the steps to take; this crate makes
//! of them a command line of QEMU and an initramfs, boots, and tells what became of it: an
//! [`Outcome`], which is everything that a run can be. Nothing is installed, nothing needs root or
//! hardware virtualization, and what a run needs and is not there is an outcome too, not an error.
//!
//! - [`kernel`]: the kernels that the script `crates/vm/kernels` has got.
//! - [`topology`]: files in `crates/vm/topologies/`, and the flags of QEMU that they are.
//! - [`program`]: static programs for the guest.
//! - [`initramfs`]: the root file system of the guest.
//! - [`boot`]: all of it put together.
//! - [`capture`]: a machine in a folder, as a guest saved it; `src/bin/capture.rs` is the program.
//! - [`harness`]: what the tests have in common.
//! - [`expected`]: what the guest's program `load` comes to, as a simulation has it.
//! - [`outcome`]: what a run can be. Start here.

#![forbid(unsafe_code)]

pub mod boot;
pub mod capture;
pub mod expected;
pub mod harness;
pub mod initramfs;
pub mod kernel;
pub mod outcome;
pub mod program;
pub mod topology;

pub use self::{boot::Boot, kernel::Series, outcome::Outcome, topology::Topology};
