//! Runs commands under a memory placement, or with extended memory.
//!
//! - [`placed`] runs a command whose new pages are interleaved over nodes by weights. It sets the
//!   kernel's weights for the command, and restores them.
//! - [`processes`] migrates the pages of running processes.
//! - [`tune`] runs a command several times to find its best weights.
//! - [`extend`] runs a command whose memory is extended by a drive.
//! - [`compare`] runs a command under several configurations in turn and compares them.
//! - [`counters`] reads the counters of a workload that runs in this process.
//! - [`restore`] restores settings that killed processes have left changed.
//! - [`tree_end`] kills a command with its descendants.
//!
//! Options are plain values, and results are documents of `interleaf_record`. Messages are printed
//! by `interleaf_console::output`.

#![forbid(unsafe_code)]

pub mod compare;
pub mod counters;
mod ended;
pub mod extend;
mod log;
pub mod placed;
pub mod processes;
pub mod restore;
pub mod tree_end;
pub mod tune;

pub use ended::{Ended, RunsEnd, signal_status};
