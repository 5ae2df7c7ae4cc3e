//! Prints results and progress, and represents errors, for a command line tool.

#![forbid(unsafe_code)]

mod failure;
pub mod output;
pub mod support;
pub mod system;

pub use failure::Failure;
