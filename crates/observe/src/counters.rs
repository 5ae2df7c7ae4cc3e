//! Hardware counters of the processor: the available counters, their events, and their readings.
//!
//! A unit outside the cores (a memory controller, a CXL port, a home agent) has a PMU, which the
//! kernel lists in `/sys/bus/event_source/devices`. Its events are numbers that differ between CPU
//! families; [`table`] has them as data with their sources. [`plan()`] combines a CPU's table and a
//! machine's PMUs into events to open, without opening any, so a captured machine has a plan too.
//! [`host::Counters`] opens a plan and reads it. [`topdown`] counts the cores' issue slots for one
//! command.
//!
//! # Latency
//!
//! By Little's law the latency of a tier is the total waiting time of requests divided by their
//! number. In each of its cycles, a home agent (CHA) adds the number of waiting requests of a kind
//! to a counter, its occupancy. Only counter 0 of an agent can do this, so an agent cannot count
//! two tiers at once. Addresses are spread evenly over the agents, so each tier is counted by a
//! sample of the agents, and the counts are scaled up. For example, of 96 agents with two tiers, 8
//! count each tier, and each count is multiplied by 12. The clock ticks that the same agent counts
//! convert cycles to nanoseconds.
//!
//! # What the kernel's own names miss
//!
//! A channel of Granite Rapids has two sub-channels with an event each. Until a fix of 2026 the
//! kernel's `cas_count_read` counted only the first sub-channel, half of the traffic; the tables
//! have the events of both.

pub mod cpu;

pub mod format;

pub mod pmu;

pub mod table;

mod lanes;

pub mod plan;

pub mod host;

pub mod topdown;

pub use host::{Counters, OpenError};
pub use plan::{Plan, PlanError, Planned, plan, plan_with_slots, rough_layout};
