//! The patterns of `interleaf bench compare` (workloads with fixed arguments), and the kinds of
//! memory on which a pattern runs.

pub(crate) mod memory_kind;
pub(crate) mod pattern;
