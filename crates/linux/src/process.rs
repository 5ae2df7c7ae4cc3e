//! Processes: who started whom, where their memory is, and how much of it they may have.

pub mod table;

pub mod numa_maps;

pub mod placement_sample;

pub mod cgroup;

pub mod memory_cgroup;

pub mod available;

pub mod program;

pub use table::{
    Process, ProcessTable, Snapshot, allowed_cpus, allowed_nodes, anonymous_bytes, process, tree,
};
