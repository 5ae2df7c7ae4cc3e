//! Simulates power failures of a card: the data that survive, the save, and the restore.
//!
//! # Cards that save
//!
//! A card of DRAM copies its memory to NAND while a capacitor powers the card. At the next start it
//! copies the memory back, erases the NAND, and then accepts commands. Data in the controller's
//! buffers are saved too. The save is complete if the aged capacitor has enough energy for the
//! controller, the memory devices (in self-refresh between reads) and the NAND. If the energy does
//! not suffice, the order of pages ([`SaveOrder`]) decides which pages are lost.
//!
//! # Cards of STT-MRAM
//!
//! A row is durable once it is precharged. During a hold-up of some microseconds after the failure,
//! the controller completes the atomic write units of which a part is already in the memory. Data
//! that are only in the controller's buffers are lost. The writes of these data have not been
//! acknowledged, so the loss breaks no promise.
//!
//! # Evaluation
//!
//! [`PowerFailures`] evaluates moments of one observed run ([`crate::durability`]). A result has
//! the number of acknowledged writes, the lost and torn writes with their blocks, and the energy
//! and time of the save. The card itself reports a loss if the capacitor is empty, if the NAND has
//! no good block, or if a page is uncorrectable. Only a comparison with the acknowledged writes
//! finds the other losses. [`Cause`] distinguishes reported and unreported losses.

mod failure;
mod file;
mod save;
mod spec;
mod sweep;

pub use failure::{Cause, DamagedBlock, PowerFailure, PowerFailures};
pub(crate) use file::{CapacitorToml, PowerSections, PowerToml, PoweredMemory, SaveToml};
pub use save::{RestoreOutcome, RestoreState, SaveEnergy, SaveOutcome, SaveSimulator};
pub use spec::{EnergySpec, PowerError, PowerSpec, SaveDraw, SaveOrder, SaveSpec};
pub use sweep::{PowerSweep, SweepOptions};

#[cfg(test)]
mod tests;
