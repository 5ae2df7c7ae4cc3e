//! The command line: arguments to options, a call of the crate that does the work, and its result
//! rendered.
//!
//! [`args`] has the options of each verb. A module of [`verb`] passes them on as plain values,
//! receives a document of `interleaf_record`, and prints it as JSON or as `interleaf_report` shows
//! it.

#![forbid(unsafe_code)]

mod args;
mod comparison;
mod verb;

use interleaf_console::output;
use std::{ffi::OsString, process::ExitCode};

/// Runs the command with its arguments, the first of which is its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let done = args::parse(arguments).and_then(verb::run);
    match done {
        Ok(status) => status,
        Err(failure) => output::print_failure(failure),
    }
}
