//! Memory tiers, the demand of workloads, and the equilibrium of both.
//!
//! A tier is a family of curves: loaded latency against bandwidth, one for each traffic mix
//! ([`curve`], [`tier`]). A [`platform`] is a set of tiers with the cores that load them. A
//! [`demand`] describes a workload by measured runs, at least one of them on the first tier alone.
//! [`equilibrium`] finds the bandwidth and the latency at which threads and tiers agree;
//! [`behaviour`] infers thread properties from a few measured runs; [`predict`] predicts the result
//! of given weights by the equilibrium of threads with these properties.
//!
//! This crate reads no file and no clock, and its randomness has a seed: the same input gives the
//! same output, bit for bit. [`mod@format`] turns the text of a file into these types; the caller
//! reads the file.
//!
//! ```
//! use interleaf_model::{curve::{Curve, CurvePoint}, provenance::Figure};
//!
//! let point = |bandwidth_gbps, latency_ns| CurvePoint {
//!     bandwidth_gbps,
//!     latency_ns,
//!     figure: Figure::assumed("an example"),
//! };
//! let curve = Curve::new(vec![point(0.0, 120.0), point(400.0, 180.0), point(500.0, 400.0)])?;
//! assert_eq!(curve.idle_latency_ns(), 120.0);
//! assert_eq!(curve.max_bandwidth_gbps(), 500.0);
//! # Ok::<(), interleaf_model::curve::CurveError>(())
//! ```

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod units;

pub mod statistics;

pub mod provenance;

pub mod mix;

pub mod weights;

pub mod curve;

pub mod tier;

pub mod platform;

pub mod demand;

pub mod configuration;

pub mod parameters;

pub mod parts;

pub mod pareto;

pub mod phases;

pub mod equilibrium;

pub mod search;

pub mod behaviour;

pub mod predict;

pub mod machine;

pub mod policy;

pub mod control;

pub mod rated;

pub mod tune;

pub mod paired;

pub mod format;
