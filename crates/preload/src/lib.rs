//! What stands between an unchanged program and its C library: large allocations go to a pager,
//! all others where they always went.
//!
//! The program is started with this library in `LD_PRELOAD`, and what it should do in
//! `INTERLEAF_EXTEND`. Everything else goes on to the next definition of a function ([`next`]), or
//! to the kernel.
//!
//! These functions are called anywhere: under locks of the program, its allocator and the dynamic
//! loader, in handlers of signals, and in children that have locks of threads that are not there.
//! So nothing here allocates by `malloc` ([`heap`]), takes a lock of the C library, or starts a
//! thread by it ([`thread`]); what must is done when the library is loaded.

#![expect(unsafe_code, reason = "it takes the place of functions of the C library")]

mod start;

mod next;

mod heap;

mod thread;

pub mod credentials;

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
