//! Commands under a placement of their memory.
//!
//! [`placed`] runs a command whose new pages go to nodes in a ratio, sets the kernel's weights for
//! it and restores them; [`processes`] moves the pages of programs that run already; [`tune`] runs
//! a command again and again to find its best weights; [`extend`] runs one whose memory a drive
//! extends. [`restore`] restores settings that killed processes have left.
//!
//! Options are plain values, results are documents of `interleaf_record`; messages go through
//! `interleaf_console::output`.

#![forbid(unsafe_code)]

mod ended;
pub mod extend;
pub mod placed;
pub mod processes;
pub mod restore;
pub mod tune;

pub use ended::{Ended, signal_status};
