//! A machine: its NUMA nodes, tiers and hardware, and the settings of its kernel.

pub mod id_list;

pub mod node;

pub mod weights;

pub mod sysctl;

pub mod vmstat;

pub mod damon;

pub mod topology;

pub mod hardware;
