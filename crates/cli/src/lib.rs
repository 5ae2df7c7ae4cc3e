//! The verbs of the command line, the documents they write and how these are shown.
//!
//! A verb ([`verb`]) reads its arguments ([`args`]), asks the model, and makes a document
//! ([`document`]): a versioned struct that is the JSON others rely on. Tables, charts and pages
//! ([`render`]) are made from documents alone, so a recorded one can be shown again at any time.
//! Studies that are reproduced are in [`study`].

#![forbid(unsafe_code)]

mod args;
mod comparison;
mod document;
mod failure;
mod library;
mod output;
mod render;
mod study;
mod support;
mod system;
mod verb;

use std::{ffi::OsString, process::ExitCode};

/// Runs the command with its arguments, the first of which is its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let done = args::parse(arguments).and_then(verb::run);
    match done {
        Ok(status) => status,
        Err(failure) => output::tell(failure),
    }
}
