//! Simulators of memory.
//!
//! [`machine`] is a server with page migration. The simulated server implements the trait of a real
//! machine, so simulations run the same policies and the same control loop as a real machine.
//!
//! [`dimm`] simulates memory modules, DRAM command by DRAM command. [`cxl`] simulates an expander:
//! such memory behind a CXL link. [`figures`] reads the numbers of device files, each with its
//! source.
//!
//! This crate reads no file and no clock. Randomness has a seed: the same input gives the same
//! output, bit for bit.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod cxl;
pub mod dimm;
pub mod figures;
pub mod machine;
