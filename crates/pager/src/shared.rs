//! Memory that processes share by `mmap(2)` with `MAP_SHARED | MAP_ANONYMOUS`.
//!
//! Each such mapping is replaced by a mapping of a memory file, which the server ([`server`])
//! makes. A page can be mapped only while the file contains it. All other pages are in the frames
//! or in the store of the server's pager:
//!
//! ```text
//!            copy the content, and map the page for the processes that wait for it
//!   frame  ------------------------------------------------------------->  memory file
//!          <-------------------------------------------------------------
//!            write-protect the page, copy the content, and punch a hole into the file, which
//!            unmaps the page in all address spaces
//! ```
//!
//! A process cannot handle the faults of another process that may outlive it: once the last
//! descriptor of a userfaultfd is closed, the kernel fills missing pages with zeros. Therefore a
//! dedicated server process handles the faults of all processes of a session that share memory. The
//! server ends after the last process that shares memory. If the server is killed, these processes
//! end too. Each process makes a userfaultfd for its own addresses, keeps the descriptor open, and
//! passes a copy to the server over a socket. A forked child has no mapping of shared memory at
//! first. Before `fork(2)` returns in the child, the child makes its own userfaultfd, and then maps
//! the shared memory. The parent opens the child's connection before the fork. The server keeps the
//! parent's files for this connection, because the parent may unmap them before the child has
//! mapped them.
//!
//! The file contains a page exactly while the page is in the state Mapped of the server's cache
//! ([`crate::cache`]). The first access of a further process is then a minor fault, for which the
//! server maps the page of the file without a copy (`UFFDIO_CONTINUE`). After the write protection
//! and before the hole is punched, no process can map the page again, because only the server maps
//! pages.

mod client;
pub(crate) mod message;
mod peers;
mod pieces;
mod server;

pub use client::{Client, Inheritance};
pub use server::serve;

/// The name of the socket in the folder of a session.
const SOCKET: &str = "shared";
