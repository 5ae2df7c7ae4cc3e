//! Linux: what a machine says of its memory tiers, and what it can be told.
//!
//! Everything is read below a [`root::Root`], which is `/` on a live machine and a folder with the
//! same files for a captured one. Missing features are values, not errors: an old kernel, a machine
//! with one node, a file that only root may read.
//!
//! ```text
//! launch    start a command under weights, with swap, within a memory limit
//! place     policies, migration, DAMON: change where pages are, and put it back
//! process   processes, their memory, their control groups
//! machine   nodes, topology, hardware, settings of the kernel
//! root      the files of the kernel
//! ```
//!
//! Each room uses only those below it in this list. `interleaf-observe` stands above all of them
//! and counts traffic.

#![allow(missing_docs, reason = "the crate is private: comments only where they add something")]

pub mod input;

pub mod replace;
pub mod root;

pub mod stop;

pub mod machine;

pub mod process;

pub mod place;

pub mod launch;

mod syscall;
