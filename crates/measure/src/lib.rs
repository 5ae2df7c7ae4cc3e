//! Measures memory: bandwidth by mix, idle and loaded latency, and the distribution of latencies,
//! at the limit of the hardware, with or without its counters.
//!
//! The timed loops are written in assembly for each instruction set so that they do not depend on
//! the compiler. They compute a checksum: every run verifies its reads and writes. Three quantities
//! are always separate: bytes of the program's loads and stores, the bytes at the memory controller
//! that follow from them by a table ([`traffic`]), and bytes counted by the memory controller.

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
