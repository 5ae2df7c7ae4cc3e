//! Interleaves the pages of running processes.

pub mod plan;

mod sequence;
