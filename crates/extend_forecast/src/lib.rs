//! The planner of extended memory. From a trace, or from the statistics of one run, it predicts a
//! program's efficiency at other budgets of DRAM and on other drives, without another run of the
//! program.
//!
//! ```text
//! trace ──▶ miss curve: bytes read and written in a pass, by budget   [`miss_curve`]
//!             optimal, random, LRU replacement on a sample [`belady`], [`replacement`]
//!             LRU for all budgets in one pass              [`stack_distance`], [`shards`]
//! run   ──▶ the pager between optimal and random replacement          [`pager_curve`]
//! drive ──▶ seconds for these bytes                                   [`drive`]
//! run   ──▶ compute time, overlap, software time for a byte           [`forecast`]
//!        ──▶ seconds, efficiency, budget that is enough for 90 %
//! ```
//!
//! A worked example: each pass of a program walks through 512 MiB, with a budget of 256 MiB. In a
//! pass, optimal replacement reads 256 MiB, and LRU reads all 512 MiB. A drive of 1.5 GB/s takes
//! 0.18 s or 0.36 s for these reads. A pass in DRAM takes 0.05 s, so the efficiency is at most 0.28
//! or 0.14.
//!
//! The crate reads no file and no clock, and its randomness has a fixed seed: the same inputs
//! always give the same forecast.

#![forbid(unsafe_code)]

pub mod access;

pub mod belady;

pub mod replacement;

pub mod stack_distance;

pub mod shards;

pub mod miss_curve;

pub mod pager_curve;

pub mod drive;

pub mod forecast;
