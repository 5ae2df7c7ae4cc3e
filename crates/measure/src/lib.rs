//! Measures memory at the limit of the hardware: bandwidth by mix, idle and loaded latency, and the
//! distribution of latencies. Hardware counters are not required.
//!
//! The timed loops are written in assembly for each instruction set, so they do not depend on the
//! compiler. Traffic kernels add up all loaded words; every measurement verifies these sums, and
//! verifies the stored words afterwards. A pointer chase verifies that it ends at the right line.
//! Three quantities are always separate: bytes of the program's loads and stores; bytes at the
//! memory controller, computed from the program's bytes by a table ([`traffic`]); bytes that the
//! memory controller counted.

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

pub mod interleave;

pub mod context_switches;

pub mod backing;

pub mod ring;

pub mod chase;

pub mod levels;

pub mod idle;

pub mod histogram;

pub mod knee;

pub mod pin;
