//! The equilibrium: the bandwidth and latency at which threads and tiers agree.
//!
//! Threads keep a bounded number of lines outstanding and wait for them; a tier answers each with
//! the latency of its curve at the load it gets; the load is what the threads reach with that
//! latency. Two scales of time are at work, and each has its own model:
//!
//! *Lines.* Within a page, thousands of lines flow and everything averages out: threads that keep
//! `bytes` going at a tier get the flow at which Little's law and the curve agree
//! ([`crate::curve::Response::closed_loop`]).
//!
//! *Pages.* A thread walks some pages on one tier, then some on another. The number on each tier at
//! a moment is random. Threads that run in step do so together, so they amount to only a few
//! independent *page streams*, K in number. The streams form a closed queueing network: K
//! customers, tier `i` visited for the part `s_i` of all bytes, serving `n` of them with the rate
//! of its curve when `n/K` of all lines are asked of it. Such a network has an exact solution in
//! product form, for any number of tiers and any shape of the curves ([`network`]; Baskett, Chandy,
//! Muntz and Palacios 1975, Buzen's convolution 1973).
//!
//! A worked number: DRAM carries 556 GB/s and CXL 205 GB/s, weights are 3:1. The hard limit is
//! min(556 / 0.75, 205 / 0.25) = 741 GB/s; the white paper measured 690. With K = 16 streams,
//! DRAM is idle for lack of customers about 5 % of the time, and the network gives 708.
//!
//! The interference of traffic is then brought to a fixed point: tiers that cost each other
//! bandwidth ([`crate::platform::Coupling`]), and loads that share tiers ([`solve`] takes several).

mod load;
pub mod network;
mod root;
mod station;
mod system;

pub use load::Load;
pub use system::{Equilibrium, LoadEquilibrium, LoadTraffic, System};

use crate::platform::Platform;

/// Brings `loads` on `platform` to their equilibrium.
///
/// Prepares the platform's curves for the mixes of the loads each time; who solves often for the
/// same mixes keeps a [`System`].
pub fn solve(platform: &Platform, loads: &[Load]) -> Equilibrium {
    System::new(platform, loads).solve(loads)
}
