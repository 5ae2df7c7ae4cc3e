//! Results, progress and errors of a command line tool.
//!
//! A [`Failure`] is an error with a hint: each function that a user starts ends in one or in a
//! result. [`output`] is the only module of the workspace that prints: data goes to stdout,
//! messages and progress to stderr, documents to files, which it replaces atomically. [`support`]
//! sends a document where the output options say. [`system`] turns the errors of `interleaf_linux`
//! into failures.

#![forbid(unsafe_code)]

mod failure;
pub mod output;
pub mod support;
pub mod system;

pub use failure::Failure;
