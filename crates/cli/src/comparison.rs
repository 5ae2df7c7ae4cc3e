//! The patterns (workloads with arguments) of `interleaf bench compare`, and the kinds of memory
//! that a pattern runs on.

pub(crate) mod memory_kind;
pub(crate) mod pattern;
