//! The daemon that balances pages over memory tiers.
//!
//! ```text
//! counters, feed, recording -> sample -> control loop -> decision -> actuator -> pages
//!                                            |
//!                                        publisher -> stdout, record, file of target weights,
//!                                                     metrics, monitor clients, systemd
//! ```
//!
//! [`run`] is the control loop on the live machine; [`run_steered`] is the same loop for one
//! command. [`advise`], [`dry_run`] and [`simulated`] show the decisions, the writes and the effect
//! of the control loop without changing the machine. [`Config`] is the configuration, and
//! [`EXAMPLE`] has every key of it.
//!
//! If a period cannot be written to stdout, the record or the file of target weights, for example
//! on a full disk, the control loop continues: the output lacks the period, and a message reports
//! the failure. Only a closed pipe of stdout ends the loop. Clients of the metrics and the monitor
//! socket never block the loop.

#![forbid(unsafe_code)]

pub mod advise;
mod command;
pub mod config;
mod control_loop;
pub mod dry_run;
mod exposition;
mod http;
mod metrics;
mod notify;
mod options;
mod outlet;
mod publish;
mod setup;
pub mod simulated;
mod watchers;

pub use command::{SteerOptions, run_steered};
pub use config::{Config, EXAMPLE, Overrides};
pub use control_loop::run;
pub use options::Options;
pub use watchers::SOCKET;
