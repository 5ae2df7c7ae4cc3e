//! The daemon that balances pages over memory tiers.
//!
//! ```text
//! counters, feed, recording -> sample -> control loop -> decision -> actuator -> pages
//!                                            |
//!                                        publisher -> stdout, record, metrics, watchers, systemd
//! ```
//!
//! [`run`] is the loop on this machine; [`run_steered`] the same for one command. [`advise`],
//! [`dry_run`] and [`simulated`] show what it would do. [`Config`] is the configuration, of which
//! [`EXAMPLE`] has every key.
//!
//! None of the readers of its periods holds up the loop: a full disk, a slow scrape or a watcher
//! that does not read loses periods, and the loop says so.

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
