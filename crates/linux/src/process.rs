//! Processes: their identity and descendants, their executables, the placement of their memory, and
//! the limits on their memory.

pub mod table;

pub mod numa_maps;

pub mod placement_sample;

pub mod cgroup;

pub mod memory_cgroup;

pub mod available;

pub mod program;

pub use table::{
    AnonymousMemory, Process, ProcessTable, Snapshot, allowed_cpus, allowed_nodes,
    anonymous_memory, has_owner_ended, is_exiting, own_resident_max, owner_suffix, process, tree,
};
