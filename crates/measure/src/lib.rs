//! Measures memory: bandwidth by mix, latency idle and loaded, and how latency is distributed, at
//! the limit of the hardware and with or without its counters.
//!
//! The timed loops are written in assembly for each instruction set, so that they do not depend on
//! the compiler, and compute a checksum, so that every run proves its reads and writes. Bytes that
//! the program asked for, bytes that a memory controller would see of them by its table
//! ([`traffic`]) and bytes that counters saw are kept apart everywhere.

pub mod isa;

pub mod traffic;

pub mod clock;

pub mod pages;

pub mod availability;

pub mod region;

pub mod kernel;

pub mod team;

pub mod bandwidth;

pub mod spread;

pub mod point;

pub mod interleave;

pub mod context_switches;

pub mod backing;

pub mod ring;

pub mod chase;

pub mod levels;

pub mod idle;

pub mod histogram;

pub mod knee;

pub mod loaded;

pub mod pin;
