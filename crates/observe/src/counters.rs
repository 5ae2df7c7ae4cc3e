//! Reads hardware counters of the processor: finds the available counters and their events, opens
//! them, and reads their counts.
//!
//! A unit outside the cores (a memory controller, a CXL port, a home agent) has a PMU, which the
//! kernel lists in `/sys/bus/event_source/devices`. The events of a PMU are numbers that differ
//! between CPU families; [`table`] has these numbers as data with their sources. [`plan()`]
//! combines a CPU's table and a machine's PMUs into a list of events to open. `plan()` opens no
//! event, so it also works on a captured machine. [`host::Counters`] opens the events of a plan and
//! reads their counts. [`topdown`] counts the cores' issue slots for one command.
//!
//! # Latency
//!
//! By Little's law the latency of a tier is the total waiting time of requests divided by the
//! number of requests. A home agent (CHA) has an occupancy counter, to which the agent adds, in
//! each cycle, the number of waiting requests of a kind. Only counter 0 of an agent can count
//! occupancy, so one agent cannot count two tiers at once. Addresses are spread evenly over the
//! agents. Each tier is therefore counted by a sample of the agents, and the counts are scaled up.
//! For example, on a socket with 96 agents and two tiers, 8 agents count each tier, and each count
//! is multiplied by 12. These agents also count their clock ticks, which convert cycles to
//! nanoseconds.
//!
//! # What the kernel's own names miss
//!
//! On Granite Rapids, a memory channel has two sub-channels, and each sub-channel has its own
//! event. Until a fix of 2026 the kernel's `cas_count_read` counted only the first sub-channel,
//! half of the traffic. The tables have the events of both sub-channels.

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
