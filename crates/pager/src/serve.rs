//! The fault server, which executes the actions of the cache and reports the results to the cache;
//! and the functions by which a program's threads call the pager.

pub mod context;

pub mod fault_server;

pub(crate) mod dirty;

pub(crate) mod transfers;

pub(crate) mod wake_sources;

pub(crate) mod stall;

pub(crate) mod error_log;

pub mod arena;

pub(crate) mod mappings;

pub mod fork;
