//! Readers of `/proc` and of control groups, shared by all crates that read data of processes from
//! the kernel.
//!
//! Reading and parsing are separate. A parser borrows its text and allocates nothing. The same
//! parser therefore works for captured machines (copies of the files of machines), in tests, and in
//! a library under `LD_PRELOAD`. [`files::Files`] reads files below a root folder, and allocates;
//! [`files::read_into`] and [`files::names`] read into a buffer of the caller.
//!
//! ```text
//! preload, pager:  Files::live().of_process(7, "stat")? -> text -> Stat::parse(&text)
//! linux:           root.peek("/proc/7/stat")?           -> text -> Stat::parse(text.as_bytes())
//! ```
//!
//! A library under `LD_PRELOAD` must not call the `malloc` of the program, nor a function of the C
//! library that calls `malloc`, such as `opendir`. No function of this crate calls `opendir`. If a
//! function allocates, its documentation says so; it uses Rust's global allocator.

pub mod page;

pub mod stat;

pub mod status;

pub mod maps;

pub mod pagemap;

pub mod cgroup;

pub mod cpus;

pub mod mounts;

pub mod swap;

pub mod files;

mod words;
