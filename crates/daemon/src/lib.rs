//! The daemon that balances pages over memory tiers.
//!
//! ```text
//! counters, feed, recording -> sample -> control loop -> decision -> actuator -> pages
//!                                            |
//!                                        publisher -> stdout, record, metrics, watchers, systemd
//! ```
//!
//! [`run`] is the control loop on the live machine; [`run_steered`] is the same loop for one
//! command. [`advise`], [`dry_run`] and [`simulated`] show the decisions, the writes and the effect
//! of the control loop without changing the machine. [`Config`] is the configuration; [`EXAMPLE`]
//! has every key.
//!
//! No output blocks the control loop. On a full disk, or with a client that does not read, the
//! output lacks some periods, and a message reports the failed write.

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
