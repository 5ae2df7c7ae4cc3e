//! The matrix of `interleaf bench compare`: patterns, and the kinds of memory that they run on.

pub(crate) mod pattern;
pub(crate) mod way;
