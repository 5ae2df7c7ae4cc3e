//! The library that is preloaded into an unchanged program: it serves the program's large
//! allocations from extended memory, whose pages a pager moves between DRAM and storage, and passes
//! all other allocations on.
//!
//! The program is started with this library in `LD_PRELOAD`, and with the folder of the session in
//! `INTERLEAF_EXTEND`. Calls that do not concern extended memory go to the kernel, or to the next
//! definition of the function ([`next`]): the definition that the dynamic loader finds after this
//! library's own, mostly that of the C library.
//!
//! The functions of this library may be called anywhere: under locks of the program, its allocator
//! and the dynamic loader, in signal handlers, and in children that inherit locks of threads which
//! do not exist in the child. Once [`start`] has prepared this library, the library must therefore
//! take no lock of the C library. It never allocates by `malloc` ([`heap`]), and does not use the C
//! library to start threads ([`thread`]).

#![expect(unsafe_code, reason = "it takes the place of functions of the C library")]

mod state;

mod start;

mod next;

mod heap;

mod thread;

mod counted;

pub mod credentials;

pub mod malloc;

pub mod mapping;

pub mod remap;

pub mod advice;

pub mod mlock;

pub mod process;

pub mod descriptor;

pub mod zero_copy;

mod shared;
pub mod signal;

mod maps;

mod errno;
