//! The loops of AArch64.
