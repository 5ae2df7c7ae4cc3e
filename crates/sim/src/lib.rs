//! Simulators of memory.
//!
//! [`machine`] is a server with page migration. It implements the same trait as a real machine, so
//! that simulations run the policies and the control loop of production.
//!
//! [`dimm`] is memory at the level of commands, [`cxl`] an expander with such memory behind a link.
//!
//! This crate reads no file and no clock. Randomness has a seed: the same input gives the same
//! output, bit for bit.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod cxl;
pub mod dimm;
pub mod machine;
