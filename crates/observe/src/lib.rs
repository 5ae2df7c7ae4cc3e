//! Observes a Linux machine: memory traffic, energy, interference, and the machine's capabilities.
//!
//! The crate builds on [`interleaf_linux`], which reads kernel files and places pages.
//! [`source::Source`] is the trait of all sources of traffic counts; [`host::Host`] is a machine
//! that is observed and whose scopes are steered.

#![allow(missing_docs, reason = "the crate is private: comments only where they add something")]

pub mod source;

pub mod counters;

pub mod rapl;

pub mod resctrl;

pub mod replay;

pub mod feed;

pub mod usage;

pub mod interference;

pub mod capability;

pub mod host;

mod syscall;
