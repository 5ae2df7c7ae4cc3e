//! The command line: parses the arguments, calls the crate that implements the verb, and prints the
//! result.
//!
//! The module `args` defines the options of each verb. A verb's module in `verb` calls another
//! crate with the options as plain values, and receives a document of `interleaf_record`. It prints
//! the document as JSON, or as the text that `interleaf_report` makes of the document.

#![forbid(unsafe_code)]

mod args;
mod comparison;
mod verb;

use interleaf_console::output;
use interleaf_report::screen::{self, Screen};
use std::{ffi::OsString, process::ExitCode};

/// The definition of the command line, from which manual pages and completions are made.
pub fn command() -> clap::Command {
    args::command()
}

/// Runs the command line `arguments`, whose first element is the name of the program.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let variable = |name: &str| std::env::var(name).ok();
    screen::set(Screen {
        width: output::terminal_width(variable),
        has_charts: output::is_terminal(),
        has_colour: output::has_colour(variable),
        has_unicode: output::has_unicode(variable),
    });
    let done = args::parse(arguments).and_then(verb::run);
    match done {
        Ok(status) => status,
        Err(failure) => output::print_failure(failure),
    }
}
