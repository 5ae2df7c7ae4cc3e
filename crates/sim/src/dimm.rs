//! Memory modules at the level of commands: DDR3 to DDR5, MRDIMM, STT-MRAM.
//!
//! A channel is one or two *sub-channels*, each with a command bus and a data bus of its own; they
//! share nothing and are simulated alone. Behind the buses of a multiplexed module (MRDIMM) are two
//! *pseudo-channels*, whose DRAM runs at half of the rate of the host. Below that are ranks, groups
//! of banks, and banks. Time is counted in whole clocks of the DRAM.
//!
//! [`device`] is what is simulated, read from the tables in `devices/`; [`command`] is what is
//! issued to it, and the seam behind which somebody may watch. Who watches: [`check`], which holds
//! every command against the tables, and [`perfetto`], which draws them. [`trace`] reads requests.

pub mod check;
pub mod closed_loop;
pub mod command;
pub mod config;
mod constraint;
pub mod controller;
pub mod device;
pub mod energy;
pub mod histogram;
pub mod mapping;
pub mod perfetto;
mod queue;
pub mod replay;
pub mod run;
mod scheduler;
pub mod trace;
pub mod traffic;
