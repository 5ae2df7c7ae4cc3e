//! Compares the energy, the endurance and the price of DRAM cards and STT-MRAM cards. The slides of
//! the MRAM card (Zuolo et al., FMS 2017) leave these comparisons open.
//!
//! - *Energy*: the energy of an I/O (by component) and of a save, and the power without I/O, with
//!   refresh and without it.
//! - *Endurance*: a cell of STT-MRAM withstands 10^9 writes (slides, page 7). Writes at 1 GB/s,
//!   evenly spread over 1 GiB, write each cell about once a second, so the memory lasts 34 years. A
//!   log that rewrites one row of 512 bytes 10,000 times a second wears out the row in 28 hours,
//!   unless the controller moves the row from time to time (wear levelling).
//! - *Price*: from prices of a card's parts, which the user gives with source and date.
//!
//! [`compare`] makes one table of the energy, endurance and price of several cards.

mod comparison;
mod endurance;
mod energy;
mod price;

pub use comparison::{CardFigures, ComparisonRow, CostInputs, CostSettings, compare};
pub use endurance::{Locality, Wear};
pub use energy::{CardEnergy, IoEnergy, stt_mram_currents};
pub use price::{CardPrice, Item, Price, Prices};

#[cfg(test)]
mod tests;
