//! Readers of `/proc` and of control groups, shared by every crate that asks the kernel about a
//! process.
//!
//! Parsing and reading are separate. A parser borrows the text that it is given and allocates
//! nothing, so that a captured machine, a test and a library under `LD_PRELOAD` use the same one.
//! [`files::Files`] reads the files of the kernel below a root; [`files::read_into`] and
//! [`files::names`] do so into a buffer of the caller.
//!
//! ```text
//! preload, pager:  Files::live().process(pid)? -> text -> Stat::parse(&text)
//! linux:           Root::peek("/proc/7/stat")? -> text -> Stat::parse(text.as_bytes())
//! ```
//!
//! A library under `LD_PRELOAD` may call neither the `malloc` of the program nor a function of the
//! C library that does (`opendir`). Nothing here calls `opendir`; what allocates does so through
//! Rust's global allocator, and its documentation says so.

pub mod page;

pub mod stat;

pub mod status;

pub mod maps;

pub mod pagemap;

pub mod cgroup;

pub mod mounts;

pub mod swap;

pub mod files;

mod words;
