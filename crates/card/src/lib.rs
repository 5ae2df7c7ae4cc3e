//! Simulates NVRAM cards.
//!
//! A card is a PCIe device with memory that keeps its content without power: DRAM that is saved to
//! NAND on the energy of a capacitor, or STT-MRAM. The host uses the card as storage (NVMe) or as
//! memory (loads and stores to a BAR).
//!
//! This crate reads no file and no clock. All random numbers come from seeded generators: the same
//! input gives the same output, bit for bit.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod arbiter;
pub mod capacitor;
pub mod card;
mod channel;
pub mod cost;
pub mod durability;
pub mod engine;
mod event_queue;
pub mod fio;
pub mod io;
mod link;
pub mod load;
pub mod memory_mode;
pub mod memory_test;
pub mod nand;
pub mod nvme;
mod pool;
pub mod power;
pub mod power_run;
mod ring;
pub mod settings;
