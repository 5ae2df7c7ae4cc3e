//! What runs in a virtual machine of the tests, and what the tests have to know about it.
//!
//! The guest is one static program. As `/init` it is the whole user space: it mounts the kernel's
//! file systems, takes the steps that it finds in the file `/steps`, says on the second serial port
//! how each went, and powers off. Called by the name `touch` it is a program that puts memory
//! somewhere, which is what most steps are about; called `work`, one that takes as long as where
//! its pages are says.
//!
//! - [`step`]: the language of `/steps`.
//! - [`report`]: the language of the second serial port. The first is the kernel's, so that what
//!   the kernel says never falls into the middle of a line of the guest.

mod files;
pub mod init;
pub mod pages;
pub mod report;
pub mod step;
pub mod touch;
pub mod work;
