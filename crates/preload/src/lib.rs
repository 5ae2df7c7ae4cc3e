//! What stands between an unchanged program and its C library: large allocations go to a pager,
//! all others where they always went.
//!
//! The program is started with this library in `LD_PRELOAD`, and what it should do in
//! `INTERLEAF_EXTEND`. The functions that C libraries export under a second name (`__libc_malloc`)
//! and system calls are the way on, so that nothing need be looked up while a program starts.

#![expect(unsafe_code, reason = "it takes the place of functions of the C library")]

mod start;

pub mod malloc;

pub mod mapping;

pub mod remap;

pub mod advice;

pub mod lock;

pub mod process;

mod shared;
pub mod signal;

mod maps;

mod errno;
