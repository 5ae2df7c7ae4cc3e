//! Observing a Linux machine: traffic of memory, energy, interference, and what the machine can do.
//!
//! Above [`interleaf_linux`], which reads and places. [`source::Source`] is the seam behind which
//! traffic is counted; [`host::Host`] is a machine that is observed and steered.

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
