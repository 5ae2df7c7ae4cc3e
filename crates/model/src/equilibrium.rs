//! The equilibrium of threads and tiers: bandwidth and latency under a load.
//!
//! A thread has a bounded number of outstanding lines and waits for them. The latency of a tier
//! follows from its curve and its load, and the load follows from the latency. Each of two time
//! scales needs its own model:
//!
//! *Lines.* Thousands of lines are outstanding at a time, so the delays of single lines average
//! out: threads with `bytes` in flight at a tier get the bandwidth at which Little's law and the
//! curve agree ([`crate::curve::Response::closed_loop`]).
//!
//! *Pages.* A thread walks some pages on one tier, then some on another. The number of threads on
//! each tier at a moment is random. Threads in lock-step move together, so they amount to only a
//! few independent *page streams*, K in number. The streams form a closed queueing network with K
//! customers: tier `i` is visited for the fraction `s_i` of all bytes, and serves `n` streams at
//! the rate of its curve with `n/K` of all outstanding lines. Such a network has an exact solution
//! in product form, for any number of tiers and any shape of the curves ([`network`]; Baskett,
//! Chandy, Muntz and Palacios 1975, Buzen's convolution 1973).
//!
//! Example: DRAM has 556 GB/s and CXL 205 GB/s, weights are 3:1. The hard limit is min(556 / 0.75,
//! 205 / 0.25) = 741 GB/s; the CXL white paper (platform `xeon6-cz122`) measured 690. With K = 16
//! streams, DRAM is idle for lack of customers about 5 % of the time, and the network gives 708.
//!
//! Two effects need an iteration around this solution: traffic on one tier that lowers the
//! bandwidth of another tier ([`crate::platform::Coupling`]), and several loads on the same tiers
//! ([`solve`] takes a list of loads).

mod limits;
mod load;
pub mod network;
mod root;
mod station;
mod system;

pub use limits::BandwidthLimits;
pub use load::Load;
pub use system::{Equilibrium, LoadEquilibrium, LoadTraffic, System};

use crate::platform::Platform;

/// Solves the equilibrium of `loads` on `platform`.
///
/// Each call prepares the platform's curves for the mixes of the loads. A caller that solves often
/// for the same mixes should keep a [`System`].
pub fn solve(platform: &Platform, loads: &[Load]) -> Equilibrium {
    System::new(platform, loads).solve(loads)
}
