//! Memory tiers of a Linux machine, its settings, and the placement of pages.
//!
//! Everything is read below a [`root::Root`], which is `/` for a live machine, and a folder with
//! the same files for a captured machine. A missing feature is a value such as `None`, not an
//! error. Features are missing on an old kernel, on a machine with one node, or if only root may
//! read a file.
//!
//! ```text
//! launch    commands, swap files, drives, Unix sockets
//! place     memory policies, migration, DAMON; the journal that restores settings
//! process   processes, the placement of their pages, control groups and their memory limits
//! machine   nodes, topology, hardware, settings of the kernel
//! root      the files of the kernel
//! ```
//!
//! A folder uses only the folders below it in this list. The crate `interleaf-observe`, which
//! counts traffic, uses all of them.

#![allow(missing_docs, reason = "the crate is private: comments only where they add something")]

pub mod input;

pub mod replace;
pub mod root;

pub mod stop_flag;

pub mod machine;

pub mod process;

pub mod place;

pub mod launch;

mod syscall;
