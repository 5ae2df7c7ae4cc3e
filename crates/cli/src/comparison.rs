//! The patterns of `interleaf bench compare`, and the kinds of memory that they run on.

pub(crate) mod memory_kind;
pub(crate) mod pattern;
