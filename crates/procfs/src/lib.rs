//! Readers of `/proc` and of control groups, shared by every crate that asks the kernel about a
//! process.
//!
//! Parsing and reading are separate. A parser borrows its text and allocates nothing, so captured
//! machines, tests and a library under `LD_PRELOAD` use the same parser. [`files::Files`] reads the
//! files of the kernel below a root; [`files::read_into`] and [`files::names`] do so into a buffer
//! of the caller.
//!
//! ```text
//! preload, pager:  Files::live().of_process(7, "stat")? -> text -> Stat::parse(&text)
//! linux:           root.peek("/proc/7/stat")?           -> text -> Stat::parse(text.as_bytes())
//! ```
//!
//! A library under `LD_PRELOAD` may call neither the `malloc` of the program nor a function of the
//! C library that does (`opendir`). No function of this crate calls `opendir`; functions that
//! allocate use Rust's global allocator, and document it.

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
