//! What runs in a virtual machine of the tests, and what the tests have to know about it.
//!
//! The guest is one static program. As `/init` it is the whole user space: it mounts the kernel's
//! file systems, takes the steps that it finds in the file `/steps`, says on the second serial port
//! how each went, and powers off. Called by other names it is programs that steps are
//! about: `touch` puts memory somewhere, `work` takes as long as where its pages are says,
//! `load` does as a server's workload would, `drain` hears what that feeds, and `actuate` moves the
//! memory of others with `interleaf_linux::place::actuator`.
//!
//! - [`step`]: the language of `/steps`.
//! - [`report`]: the language of the second serial port. The first is the kernel's, so that what
//!   the kernel says never falls into the middle of a line of the guest.

pub mod actuate;
pub mod drain;
pub mod feed;
mod files;
pub mod init;
pub mod load;
pub mod pages;
pub mod report;
pub mod step;
pub mod touch;
mod words;
pub mod work;
