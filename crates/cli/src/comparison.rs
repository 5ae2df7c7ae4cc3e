//! The subjects of `interleaf bench compare`: loops, and the memory that they run on.

pub(crate) mod pattern;
pub(crate) mod way;
