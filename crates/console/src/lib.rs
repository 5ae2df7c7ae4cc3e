//! Prints results and progress, and represents errors, for a command line tool.
//!
//! A `Failure` is an error with a hint; each command returns a result or a failure. `output` is the
//! only module that prints the output of commands: data goes to stdout, messages and progress to
//! stderr, and documents to files, which are replaced atomically. `support` writes a document as
//! the output options request. `system` turns the errors of `interleaf_linux` into failures.

#![forbid(unsafe_code)]

mod failure;
pub mod output;
pub mod support;
pub mod system;

pub use failure::{Failure, check_distinct};
