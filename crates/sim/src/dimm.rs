//! Simulates memory modules command by command: DDR3 to DDR5, MRDIMM, STT-MRAM.
//!
//! A channel has one or two *sub-channels*, each with its own command bus and data bus;
//! sub-channels share nothing and are simulated separately. A sub-channel of a multiplexed module
//! (MRDIMM) has two *pseudo-channels*, whose DRAM runs at half of the rate of the host. A
//! pseudo-channel has ranks, a rank has bank groups, and a bank group has banks. The controller
//! counts time in whole clocks of the DRAM; the time of a command is in clocks of the host.
//!
//! The path of a request:
//!
//! ```text
//! closed_loop, replay ──> traffic ──> controller ──> pseudo_channel ──> command ──> check
//!                        (requests)   (time, write     ├ queue                      energy
//!                                      drains)         ├ scheduler                  perfetto
//!                                                      ├ refresh
//!                                                      ├ row_policy
//!                                                      └ timing_state
//! ```
//!
//! [`device`] reads the tables in `devices/`, and `constraint` turns the tables into constraints
//! between commands. Observers of [`command`] receive each command: [`check`] compares the command
//! with the tables, [`energy`] adds its energy, [`perfetto`] writes it to a trace file. [`trace`]
//! reads requests from files. [`run`] simulates all channels. [`server`] has the modules of
//! servers, and the properties of their cores and fabrics.
//!
//! [`row_channel`] is a second controller, which is simulated faster: it transfers whole row
//! segments in order of arrival, as in a storage card. Both controllers use the same constraints
//! and the same observers.

mod banks;
pub mod check;
pub mod closed_loop;
pub mod command;
pub mod config;
mod constraint;
pub mod controller;
pub mod device;
pub mod energy;
mod geometry;
pub mod histogram;
pub mod mapping;
pub mod perfetto;
mod pseudo_channel;
mod queue;
mod refresh;
pub mod replay;
pub mod row_channel;
mod row_policy;
pub mod run;
mod scheduler;
pub mod server;
mod timing_state;
pub mod trace;
pub mod traffic;
