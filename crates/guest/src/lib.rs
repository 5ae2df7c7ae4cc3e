//! The program that runs in the virtual machines of the tests, and its protocols.
//!
//! The guest is a single static program. As `/init` it is the whole user space: it mounts the
//! kernel's file systems, executes the steps in the file `/steps`, reports each result on the
//! second serial port, and powers off. Under other names it is one of the programs that steps run:
//! `touch` places memory, `work` runs for a time that depends on the placement of its pages, `load`
//! emulates a server's workload, `drain` sums the traffic that `load` feeds, `actuate` migrates
//! pages of other processes with `interleaf_linux::place::actuator`, `drive` uses an NVMe drive,
//! and `extend` extends the memory of its threads with the pager.
//!
//! - [`step`]: the language of `/steps`.
//! - [`report`]: the language of the second serial port. The kernel logs to the first port, so
//!   kernel messages never interrupt a line of the guest.
//! - [`blocks`]: files that the host sends to a guest that waits for them.

pub mod actuate;
pub mod blocks;
pub mod drain;
pub mod drive;
pub mod extend;
pub mod feed;
mod files;
pub mod init;
pub mod load;
pub mod memory;
pub mod pages;
pub mod report;
pub mod step;
pub mod touch;
mod words;
pub mod work;
